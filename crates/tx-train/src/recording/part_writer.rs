//! Writer of a part of a checkpoint. Burn panics if a tensor cannot be read, as when a GPU has failed.

use std::panic::{self, AssertUnwindSafe, catch_unwind};

use burn::train::checkpoint::{Checkpoint, Checkpointer, CheckpointerError, FileCheckpointer};

/// Writer whose panics are errors.
pub(super) struct PartWriter(pub FileCheckpointer);

impl<R: Checkpoint> Checkpointer<R> for PartWriter {
    fn save(&self, step: usize, record: R) -> Result<(), CheckpointerError> {
        catching(|| self.0.save(step, record))
            .unwrap_or_else(|problem| Err(CheckpointerError::Unknown(problem)))
    }

    fn delete(&self, step: usize) -> Result<(), CheckpointerError> {
        Checkpointer::<R>::delete(&self.0, step)
    }

    fn restore(&self, step: usize) -> Result<R, CheckpointerError> {
        self.0.restore(step)
    }
}

/// Runs `work` and returns the message of a panic as an error.
pub(super) fn catching<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        text.unwrap_or("a panic without a message").to_owned()
    })
}

/// Runs `work` while panics, which it returns as errors, print nothing.
pub(super) fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let result = work();
    panic::set_hook(hook);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_a_panic_is_the_error() {
        let failed = quietly(|| catching(|| -> usize { panic!("no {}", "device") }));
        assert_eq!(failed, Err("no device".to_owned()));
        assert_eq!(catching(|| 3), Ok(3));
    }
}
