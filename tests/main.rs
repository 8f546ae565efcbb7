//! Tests across the crates, as one binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "clippy takes only the test functions for tests, not what they call"
)]

// Devices, and a model's weights and gradients by path: what several tests need.
mod support;

// Logits, losses, attention maps and gradients against PyTorch's own Transformer.
mod reference_numbers;

// What must hold for any weights: padding, causality, the cache, batching, gradients, learning.
mod laws;

// The whole road once, on a task that is easy to check.
mod learns_to_reverse;

// What must hold for any search: against teacher forcing, and against trying everything.
mod search;

// Many threads with one translator.
mod concurrency;

// A bundle of every format ever released still opens, and says the same.
mod bundle_formats;

// Bundles that were made or damaged to do harm are refused.
mod hostile_bundles;

// The arrows between the crates, and what stands in one place only.
mod dependency_direction;
