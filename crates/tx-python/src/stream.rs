//! Texts that a function of Python receives part by part.

use pyo3::prelude::*;
use tx_infer::{Cancellation, InferError};

use crate::{error::IntoException, interrupt::interruptible};

/// Runs `work`, and calls `callback` with each part that it passes on, until the work ends or the callback returns
/// `False`. Returns the parts that the callback has received, and the result of the work; `None` if it was stopped.
///
/// # Errors
///
/// The exception of the callback or of a signal handler, and errors of the work.
pub(crate) fn stream<T: Send>(
    py: Python<'_>,
    callback: &Py<PyAny>,
    work: impl FnOnce(&Cancellation, &mut dyn FnMut(&str)) -> Result<T, InferError> + Send,
) -> PyResult<(String, Option<T>)> {
    let cancellation = Cancellation::new();
    let (mut parts, mut raised) = (String::new(), None);
    let mut pass_on = |part: &str| {
        if cancellation.is_cancelled() {
            return;
        }
        parts += part;
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
        (None, Err(InferError::Cancelled)) => Ok((parts, None)),
        (None, found) => {
            found.map(|found| (parts, Some(found))).map_err(IntoException::into_exception)
        }
    }
}
