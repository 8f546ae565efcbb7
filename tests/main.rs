//! Tests across the crates, as one binary.

// Devices, and a model's weights and gradients by path: what several tests need.
mod support;

// Logits, losses, attention maps and gradients against PyTorch's own Transformer.
mod reference_numbers;

// What must hold for any weights: padding, causality, the cache, batching, gradients, learning.
mod laws;
