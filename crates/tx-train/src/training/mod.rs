//! The training loop and its parts: gradients, optimizer, learning rate, moving average.

pub mod adam;
pub(crate) mod ema;
pub mod gradients;
pub mod schedule;
pub(crate) mod training_loop;
