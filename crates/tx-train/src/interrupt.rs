//! Interruption of long work on request.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::TrainError;

/// Fails with [`TrainError::Interrupted`] if `stop` is set. Long work calls this between its steps.
pub(crate) fn check(stop: &AtomicBool) -> Result<(), TrainError> {
    if stop.load(Ordering::Relaxed) { Err(TrainError::Interrupted) } else { Ok(()) }
}
