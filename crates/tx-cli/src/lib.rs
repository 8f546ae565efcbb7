//! Parts that the programs `train` and `translate` share: the allocator, output that is safe to show
//! on a terminal, error reports with exit codes, and the commands `completions` and `manual`.
//!
//! This crate depends on no other crate of tx. Linking it makes mimalloc the global allocator.

pub mod allocator;
pub mod failure;
pub mod manual;
pub mod terminal;

pub use failure::Failure;
