//! Kernels for processors.

pub mod simd;
