//! Files of a run folder: checkpoints and their average, metrics, the lock.

pub mod average;
pub mod checkpoint;
pub mod metrics;
mod part_writer;
pub(crate) mod run_lock;
pub mod run_state;
pub(crate) mod tensorboard;
