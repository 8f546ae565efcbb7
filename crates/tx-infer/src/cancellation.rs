//! Cancellation of a translation in progress.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
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
#[derive(Clone, Default)]
pub struct Cancellation {
    flag: Arc<Flag>,
    /// Flag of the caller, if this flag covers only a part of the caller's work.
    parent: Option<Arc<Flag>>,
}

#[derive(Default)]
struct Flag {
    is_set: Arc<AtomicBool>,
    listeners: Mutex<Listeners>,
}

#[derive(Default)]
struct Listeners {
    next: u64,
    /// Listeners with their ids.
    all: Vec<(u64, Box<dyn Fn() + Send>)>,
}

impl Cancellation {
    /// Returns a flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the flag, permanently.
    pub fn cancel(&self) {
        self.flag.is_set.store(true, Ordering::SeqCst);
        self.flag.listeners().all.iter().for_each(|(_, listener)| listener());
    }

    /// Returns `true` if the flag is set.
    pub fn is_cancelled(&self) -> bool {
        let parent = self.parent.as_ref();
        self.flag.is_set() || parent.is_some_and(|parent| parent.is_set())
    }

    /// Returns a flag that is set together with this one or separately.
    pub(crate) fn child(&self) -> Self {
        Self { flag: Arc::default(), parent: Some(self.flag.clone()) }
    }

    /// Calls `listener` when the flag is set, or immediately if it already is, until the result is
    /// dropped. The listener must not block.
    pub(crate) fn listen(&self, listener: impl Fn() + Send + 'static) -> Listening {
        let mut listeners = self.flag.listeners();
        let number = listeners.next;
        listeners.next += 1;
        if self.flag.is_set() {
            listener();
        } else {
            listeners.all.push((number, Box::new(listener)));
        }
        Listening { flag: self.flag.clone(), number }
    }
}

/// Flags are equal if they are the same flag.
impl PartialEq for Cancellation {
    fn eq(&self, other: &Self) -> bool {
        let parents = (self.parent.as_ref(), other.parent.as_ref());
        let have_one_parent = match parents {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, Some(_)) | (Some(_), None) => false,
        };
        Arc::ptr_eq(&self.flag, &other.flag) && have_one_parent
    }
}

impl Eq for Cancellation {}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancellation").field(&self.is_cancelled()).finish()
    }
}

impl Flag {
    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }

    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a listener when dropped.
pub(crate) struct Listening {
    flag: Arc<Flag>,
    number: u64,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.flag.listeners().all.retain(|(number, _)| *number != self.number);
    }
}

impl From<Arc<AtomicBool>> for Cancellation {
    /// Wraps a flag that other code sets, such as a signal handler. It is checked at each decoding
    /// step.
    fn from(is_set: Arc<AtomicBool>) -> Self {
        Self { flag: Arc::new(Flag { is_set, listeners: Mutex::default() }), parent: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_set_elsewhere_cancels() {
        let flag = Arc::new(AtomicBool::new(false));
        let cancellation = Cancellation::from(flag.clone());
        assert!(!cancellation.is_cancelled());
        flag.store(true, Ordering::Relaxed);
        assert!(cancellation.is_cancelled() && cancellation.child().is_cancelled());
    }

    #[test]
    fn clones_are_equal_and_children_are_not() {
        let (one, other) = (Cancellation::new(), Cancellation::new());
        assert!(one == one.clone() && one != other && one != one.child());
        let child = one.child();
        assert!(child == child.clone() && child != one.child());
    }

    #[test]
    fn a_child_is_cancelled_with_its_parent_or_alone() {
        let parent = Cancellation::new();
        let (one, other) = (parent.child(), parent.child());
        one.cancel();
        assert_eq!([&parent, &one, &other].map(Cancellation::is_cancelled), [false, true, false]);
        parent.clone().cancel();
        assert_eq!([&parent, &one, &other].map(Cancellation::is_cancelled), [true, true, true]);
    }

    #[test]
    fn listeners_are_called_once_or_immediately_and_not_after_they_are_removed() {
        let cancellation = Cancellation::new();
        let (sender, receiver) = std::sync::mpsc::channel();
        let listen = |name: &'static str| {
            let sender = sender.clone();
            cancellation.listen(move || sender.send(name).unwrap())
        };
        let (_stays, leaves) = (listen("stays"), listen("leaves"));
        drop(leaves);
        assert!(receiver.try_recv().is_err());
        cancellation.clone().cancel();
        let _late = listen("late");
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), ["stays", "late"]);
    }
}
