//! Cancellation of a translation in progress.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Cancellation flag of one or more calls. Clones share the flag.
///
/// Each decoding step checks it. A canceled call returns
/// [`InferError::Cancelled`](crate::InferError::Cancelled) and computes nothing more.
///
/// ```
/// use tx_infer::Cancellation;
///
/// let cancellation = Cancellation::new();
/// let other_thread = cancellation.clone();
/// other_thread.cancel();
/// assert!(cancellation.is_cancelled());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Cancellation {
    flag: Arc<AtomicBool>,
    /// Flag of the caller, where this one belongs to a part of the caller's work.
    parent: Option<Arc<AtomicBool>>,
}

impl Cancellation {
    /// Returns a flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the flag, for good.
    pub fn cancel(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether the flag is set.
    pub fn is_cancelled(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
            || self.parent.as_ref().is_some_and(|parent| parent.load(Ordering::Relaxed))
    }

    /// Returns a flag that is set together with this one, or alone.
    pub(crate) fn child(&self) -> Self {
        Self { flag: Arc::default(), parent: Some(self.flag.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_cancelled_with_its_parent_or_alone() {
        let parent = Cancellation::new();
        let (one, other) = (parent.child(), parent.child());
        one.cancel();
        assert_eq!([&parent, &one, &other].map(Cancellation::is_cancelled), [false, true, false]);
        parent.clone().cancel();
        assert_eq!([&parent, &one, &other].map(Cancellation::is_cancelled), [true, true, true]);
    }
}
