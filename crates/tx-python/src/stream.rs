//! Texts that a function of Python receives part by part.

use pyo3::prelude::*;
use tx_infer::{Cancellation, InferError};

use crate::{error::IntoException, interrupt::interruptible};

/// Runs `work`, and calls `callback` with each part that it passes on, until the work ends or the callback returns
/// `False`; `None` is returned then.
///
/// # Errors
///
/// The exception of the callback or of a signal handler, and errors of the work.
pub(crate) fn stream<T: Send>(
    py: Python<'_>,
    callback: &Py<PyAny>,
    work: impl FnOnce(&Cancellation, &mut dyn FnMut(&str)) -> Result<T, InferError> + Send,
) -> PyResult<Option<T>> {
    let cancellation = Cancellation::new();
    let mut raised = None;
    let mut pass_on = |part: &str| {
        if cancellation.is_cancelled() {
            return;
        }
        match Python::attach(|py| callback.call1(py, (part,))?.extract(py).or(Ok(true))) {
            Ok(true) => {}
            Ok(false) => cancellation.cancel(),
            Err(error) => {
                raised = Some(error);
                cancellation.cancel();
            }
        }
    };
    let found = interruptible(py, || cancellation.cancel(), || work(&cancellation, &mut pass_on))?;
    match (raised, found) {
        (Some(error), _) => Err(error),
        (None, Err(InferError::Cancelled)) => Ok(None),
        (None, found) => found.map(Some).map_err(IntoException::into_exception),
    }
}
