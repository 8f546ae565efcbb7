//! Ending work early because somebody asked for it.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::TrainError;

/// An error once `stop` is set: long work calls this between its steps.
pub(crate) fn check(stop: &AtomicBool) -> Result<(), TrainError> {
    if stop.load(Ordering::Relaxed) { Err(TrainError::Interrupted) } else { Ok(()) }
}
