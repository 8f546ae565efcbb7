//! Parts that the programs `train` and `translate` share: the allocator, output that is safe to show
//! on a terminal, and error reports with exit codes.
//!
//! This crate depends on no other crate of tx. Linking it makes mimalloc the global allocator.

pub mod allocator;
pub mod failure;
pub mod terminal;

pub use failure::Failure;
