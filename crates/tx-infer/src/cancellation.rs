//! Cancellation of a translation in progress.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

/// Cancellation flag of one or more calls. Clones share the flag.
///
/// Each decoding step checks it. A canceled call returns
/// [`InferError::Cancelled`](crate::InferError::Cancelled) and computes nothing more.
/// [`Deadline::cancellation`](crate::Deadline::cancellation) is a flag that a time sets, too.
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
    /// Flags of the work that this flag covers a part of.
    others: Vec<Arc<Flag>>,
    /// Time at which the work is canceled.
    end: Option<Instant>,
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
    all: Vec<(u64, Arc<dyn Fn() + Send + Sync>)>,
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
        self.flags().any(|flag| flag.is_set()) || self.end.is_some_and(|end| end <= Instant::now())
    }

    /// Returns a flag that is set together with this one or separately.
    pub(crate) fn child(&self) -> Self {
        Self { flag: Arc::default(), others: self.flags().cloned().collect(), end: self.end }
    }

    /// Returns a flag that is set with this one, which [`cancel`](Self::cancel) sets, or with `other`.
    pub(crate) fn or(&self, other: &Self) -> Self {
        let others = self.others.iter().chain(other.flags()).cloned().collect();
        let end = [self.end, other.end].into_iter().flatten().min();
        Self { flag: self.flag.clone(), others, end }
    }

    /// Cancels also at `end`.
    pub(crate) fn until(self, end: Instant) -> Self {
        Self { end: Some(end), ..self }
    }

    /// Calls `listener` when a flag is set, or immediately if one already is, until the result is
    /// dropped. The listener must not block. The end of the time does not call it.
    pub(crate) fn listen(&self, listener: impl Fn() + Send + Sync + 'static) -> Listening {
        let listener = Arc::new(listener);
        let listen = |flag: &Arc<Flag>| (flag.clone(), flag.listen(listener.clone()));
        Listening(self.flags().map(listen).collect())
    }

    fn flags(&self) -> impl Iterator<Item = &Arc<Flag>> {
        std::iter::once(&self.flag).chain(&self.others)
    }
}

/// Flags are equal if they are the same flags with the same end.
impl PartialEq for Cancellation {
    fn eq(&self, other: &Self) -> bool {
        let mut pairs = self.flags().zip(other.flags());
        self.others.len() == other.others.len()
            && self.end == other.end
            && pairs.all(|(one, other)| Arc::ptr_eq(one, other))
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

    /// Calls `listener` when the flag is set, or immediately. Returns its number.
    fn listen(&self, listener: Arc<dyn Fn() + Send + Sync>) -> u64 {
        let mut listeners = self.listeners();
        let number = listeners.next;
        listeners.next += 1;
        if self.is_set() {
            listener();
        } else {
            listeners.all.push((number, listener));
        }
        number
    }
}

/// Removes a listener of these flags, with its numbers, when dropped.
pub(crate) struct Listening(Vec<(Arc<Flag>, u64)>);

impl Drop for Listening {
    fn drop(&mut self) {
        for (flag, number) in &self.0 {
            flag.listeners().all.retain(|(other, _)| other != number);
        }
    }
}

impl From<Arc<AtomicBool>> for Cancellation {
    /// Wraps a flag that other code sets, such as a signal handler. It is checked at each decoding
    /// step.
    fn from(is_set: Arc<AtomicBool>) -> Self {
        let flag = Arc::new(Flag { is_set, listeners: Mutex::default() });
        Self { flag, ..Self::default() }
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
    fn a_flag_is_set_with_either_of_two_and_at_its_end() {
        let flags: [Cancellation; 3] = Default::default();
        let [one, other, late] = flags;
        let both = one.or(&other.child());
        assert!(!both.is_cancelled());
        other.cancel();
        assert!(both.is_cancelled() && !one.is_cancelled());
        let until = |end| late.clone().until(end).child().is_cancelled();
        let now = Instant::now();
        assert!(until(now) && !until(now + std::time::Duration::from_secs(60)));
    }

    #[test]
    fn a_child_calls_the_listeners_of_its_parent() {
        let parent = Cancellation::new();
        let (sender, receiver) = std::sync::mpsc::channel();
        let _listening = parent.child().listen(move || sender.send(()).unwrap());
        parent.cancel();
        assert_eq!(receiver.try_iter().count(), 1);
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
