//! Parts that the programs `train`, `translate` and `txmt` share: the name that was called, the
//! allocator, output that is safe to show
//! on a terminal, error reports with exit codes, the commands `completions` and `manual`, with the
//! feature `figures` files with figures, with `log` a log of events, and with `download` the
//! arguments and the progress of downloads.
//!
//! Linking it makes mimalloc the global allocator.

pub mod allocator;
pub mod called;
mod closed_output;
#[cfg(feature = "download")]
pub mod download;
pub mod failure;
#[cfg(feature = "figures")]
pub mod figure;
pub mod free_text;
#[cfg(feature = "log")]
pub mod log;
pub mod manual;
#[cfg(feature = "figures")]
pub mod png;
pub mod terminal;
pub mod usage;

pub use failure::Failure;
