//! Streams that can fail, for trainers of the library, which accept texts only.

use std::sync::{Arc, Mutex, PoisonError};

/// First error of one or more streams, which ends the stream.
#[derive(Debug)]
pub(super) struct FirstError<E>(Arc<Mutex<Option<E>>>);

impl<E> Default for FirstError<E> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<E> FirstError<E> {
    /// Items of `stream` before its first error, which is kept.
    pub(super) fn items_before<T, I: Iterator<Item = Result<T, E>>>(
        &self,
        stream: I,
    ) -> impl Iterator<Item = T> + use<T, I, E> {
        let kept = self.0.clone();
        stream.map_while(move |item| match item {
            Ok(item) => Some(item),
            Err(error) => {
                *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                None
            }
        })
    }

    /// Returns the kept error if there is one, and `result` otherwise.
    pub(super) fn or<T>(self, result: Result<T, E>) -> Result<T, E> {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => result,
        }
    }
}
