//! Tests of the kernels on the device of `TX_TEST_DEVICE`: `wgpu`, `vulkan` or `cuda`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "clippy recognizes test functions as tests, but not their helpers"
)]

mod conformance;
