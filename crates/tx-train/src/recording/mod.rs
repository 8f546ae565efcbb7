//! Files of a run folder: checkpoints and their mean, metrics, the lock.

pub mod average;
pub mod checkpoint;
pub mod metrics;
pub(crate) mod run_lock;
pub(crate) mod tensorboard;
