//! Work that Ctrl-C can interrupt.

use std::{
    sync::{
        Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};

use pyo3::prelude::*;

use crate::error::internal;

/// Time between two checks for signals.
const INTERVAL: Duration = Duration::from_millis(50);

/// Runs `work` in a thread without the lock of the interpreter. After a signal whose handler raises,
/// `cancel` is called, and the exception is returned as soon as the work has ended.
///
/// # Errors
///
/// The exception of a signal handler; an internal error if the work panics.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    cancel: impl Fn(),
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    thread::scope(|scope| {
        let (sender, receiver) = channel::<()>();
        let receiver = Mutex::new(receiver);
        let worker = scope.spawn(move || {
            let result = work();
            drop(sender);
            result
        });
        let mut raised = Ok(());
        loop {
            match wait(py, &receiver) {
                Err(RecvTimeoutError::Timeout) if raised.is_ok() => {
                    raised = py.check_signals();
                    if raised.is_err() {
                        cancel();
                    }
                }
                Err(RecvTimeoutError::Timeout) | Ok(()) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let result = py.detach(|| worker.join());
        raised?;
        result.map_err(|_| internal())
    })
}

/// Waits for the next message without the lock of the interpreter. `None`: there will be none.
///
/// # Errors
///
/// The exception of a signal handler.
pub(crate) fn receive<T: Send>(
    py: Python<'_>,
    receiver: &Mutex<Receiver<T>>,
) -> PyResult<Option<T>> {
    loop {
        let message = wait(py, receiver);
        // Also after a message: as long as they arrive quickly, there is no timeout.
        py.check_signals()?;
        match message {
            Ok(message) => return Ok(Some(message)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Waits for a message until the next check for signals. The receiver is in a lock because `detach` takes what
/// threads can share.
fn wait<T: Send>(py: Python<'_>, receiver: &Mutex<Receiver<T>>) -> Result<T, RecvTimeoutError> {
    py.detach(|| {
        let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
        receiver.recv_timeout(INTERVAL)
    })
}
