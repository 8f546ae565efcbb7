//! Tests across the crates, as one binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "clippy recognizes test functions as tests, but not their helpers"
)]

// Devices, and weights and gradients by path, shared by several tests.
mod support;

// Logits, losses, attention maps and gradients against PyTorch's Transformer.
mod reference_numbers;

// Invariants for any weights: padding, causality, the cache, batching, gradients, training.
mod invariants;

// Complete training and translation on a task with known answers.
mod learns_to_reverse;

// Search for any weights: against teacher forcing and against exhaustive search.
mod search;

// Concurrent calls of one translator.
mod concurrency;

// Bundles of every released format still open and give their recorded output.
mod bundle_formats;

// Hostile and damaged bundles are rejected.
mod hostile_bundles;

// Dependencies between the crates, and definitions that must exist in one place only.
mod dependency_direction;
