//! Calls of several threads on one thread pool.
//!
//! The scheduler owns a rayon pool and a queue of calls. A thread of the pool claims one batch at a
//! time, by fair queuing: each call has a virtual time, which its batches advance by their sizes,
//! and the batch with the earliest virtual end is next. A new call starts at the time of the latest
//! batch, so a short call passes long ones and no call waits forever. Threads without a batch take
//! parts of the other threads' matrix products, as rayon distributes them.
//!
//! The caller's own thread runs a call of one batch if a batch may start and its products are too small
//! to be shared: handing it over takes longer than a helper saves.
//!
//! While all threads work on batches that are much larger than a whole new call, the caller's own
//! thread runs the call (see [`Queue::overtake`]), because the end of a batch may be a tenth of a
//! second away.
//!
//! A thread that waits for parts of its product never starts a batch. The wake-up job reaches it,
//! since rayon runs jobs while a thread waits, but returns immediately (see [`IN_BATCH`]); the
//! thread returns to the queue after its batch. Parts of products themselves do not wait for
//! anything (`tx_engine`), so a thread that runs one is never inside another thread's batch
//! when a wake-up reaches it.

mod fair_queue;
mod placement;
mod in_order;
mod texts;

use std::{
    any::Any,
    cell::Cell,
    fmt,
    ops::Range,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        mpsc::{self, Sender},
    },
};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::{cancellation::Cancellation, error::InferError};
pub(crate) use fair_queue::{Batches, Limits};
pub(crate) use placement::{BATCH_TOKENS, Execution, Placement};
pub(crate) use in_order::InOrder;
pub(crate) use texts::{Encoded, TextWork, Texts};

thread_local! {
    /// Whether this thread is working on a batch.
    static IN_BATCH: Cell<bool> = const { Cell::new(false) };
}

/// Items of a call, which the threads of a scheduler claim in batches.
pub(crate) trait Claims {
    /// Number of items.
    fn len(&self) -> usize;

    /// Claims the next batch; `None` if all are claimed.
    fn claim(&self) -> Option<Range<usize>>;

    /// Returns the size of the batch that [`claim`](Self::claim) would return, in any unit of work;
    /// 0 if there is none.
    fn next_size(&self) -> usize;

    /// Returns the size of all batches that are not claimed yet, in the same unit.
    fn size(&self) -> usize;
}

/// The work of one call, in batches of items.
pub(crate) trait Task: Send + Sync + 'static {
    /// Result of an item.
    type Output: Send;

    /// Returns the items, each of which has one result.
    fn items(&self) -> &dyn Claims;

    /// Returns `true` if a batch is faster when threads without a batch take parts of it.
    fn is_shared(&self) -> bool {
        true
    }

    /// Works on a batch, and passes on its results with their indices.
    ///
    /// # Errors
    ///
    /// The first error of an item, or [`InferError::Cancelled`].
    fn run(
        &self,
        batch: Range<usize>,
        cancellation: &Cancellation,
        put: &mut dyn FnMut(Vec<(usize, Self::Output)>),
    ) -> Result<(), InferError>;
}

/// A pool of threads and its queue. The threads start with the first call.
#[derive(Debug)]
pub(crate) struct Scheduler {
    threads: usize,
    queue: Arc<Queue>,
    /// `None` if the system cannot start threads.
    pool: OnceLock<Option<ThreadPool>>,
}

struct Queue {
    /// Maximum number of concurrent batches of the pool.
    max_batches: usize,
    /// Whether callers may run short calls themselves.
    allows_overtaking: bool,
    state: Mutex<State>,
}

/// A call does not wait for batches that are at least this many times as large as the call.
const MUCH_LARGER: usize = 4;

#[derive(Default)]
struct State {
    calls: Vec<Queued>,
    /// Sizes of the batches in progress.
    running: Vec<usize>,
    /// Number of callers that run their call themselves.
    overtaking: usize,
    /// Virtual time: start of the latest batch.
    now: usize,
}

/// A call in the queue.
struct Queued {
    call: Arc<dyn Call>,
    /// Virtual start of its next batch.
    start: usize,
}

impl Scheduler {
    /// Creates `threads` threads, which work on at most `max_batches` batches at a time. With
    /// `allows_overtaking`, callers run short calls themselves while the threads work on much
    /// larger batches, at most `max_batches` at a time.
    pub(crate) fn new(threads: usize, max_batches: usize, allows_overtaking: bool) -> Self {
        let queue =
            Queue { max_batches: max_batches.max(1), allows_overtaking, state: Mutex::default() };
        Self { threads: threads.max(1), queue: queue.into(), pool: OnceLock::new() }
    }

    /// Number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Maximum number of concurrent batches.
    pub(crate) fn max_batches(&self) -> usize {
        self.queue.max_batches
    }

    /// Returns `true` if the threads have started.
    #[cfg(test)]
    pub(crate) fn has_started(&self) -> bool {
        self.pool.get().is_some()
    }

    /// Runs `task` and passes its results to `receive` on this thread.
    ///
    /// # Errors
    ///
    /// The first error of the task or of `receive`; [`InferError::Cancelled`] as soon as
    /// `cancellation` is set.
    ///
    /// # Panics
    ///
    /// If the task panics.
    pub(crate) fn run<T: Task, E: From<InferError>>(
        &self,
        task: T,
        cancellation: &Cancellation,
        mut receive: impl FnMut(Vec<(usize, T::Output)>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut left = task.items().len();
        if left == 0 {
            return Ok(());
        }
        let stop = StopOnDrop(cancellation.child());
        let (sender, receiver) = mpsc::channel();
        let own = sender.clone();
        // Sending fails if the call has returned, which is fine.
        let _listening = cancellation.listen(move || {
            drop(own.send(Outcome::Failed(InferError::Cancelled)));
        });
        let call = Running { task, sender, stop: stop.0.clone() };
        let items = call.task.items();
        let (size, is_one_batch) = (items.size(), items.size() == items.next_size());
        if is_one_batch && !call.task.is_shared() && self.queue.start(size) {
            call.run_all();
            if self.queue.finish(size) {
                self.wake();
            }
        } else if let Some(_overtaking) = self.queue.overtake(size) {
            call.run_all();
        } else {
            self.queue.push(Arc::new(call));
            self.wake();
        }
        while left > 0 {
            match receiver.recv() {
                Ok(Outcome::Ready(results)) => {
                    left = left.saturating_sub(results.len());
                    receive(results)?;
                }
                Ok(Outcome::Failed(error)) => return Err(error.into()),
                Ok(Outcome::Panicked(payload)) => panic::resume_unwind(payload),
                // `Running` reports a call that left the queue with results missing.
                Err(_) => return Err(InferError::Cancelled.into()),
            }
        }
        Ok(())
    }

    /// Wakes the threads of the pool.
    fn wake(&self) {
        let new = || ThreadPoolBuilder::new().num_threads(self.threads).build().ok();
        match self.pool.get_or_init(new) {
            Some(pool) => {
                let queue = self.queue.clone();
                pool.spawn_broadcast(move |_| queue.drain());
            }
            None => self.queue.drain(),
        }
    }
}

/// Stops the work for a call that has returned.
struct StopOnDrop(Cancellation);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Queue {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, call: Arc<dyn Call>) {
        let mut state = self.state();
        let start = state.now;
        state.calls.push(Queued { call, start });
    }

    /// Starts a batch of `size` on the thread of its caller, unless a call waits or the maximum number of
    /// batches is in progress. Returns whether the batch may run.
    fn start(&self, size: usize) -> bool {
        let mut state = self.state();
        let is_free = state.running.len() < self.max_batches && !state.is_waiting();
        if is_free {
            state.running.push(size);
        }
        is_free
    }

    /// Permits a caller to run its call of `size` itself while the returned value exists; `None` if
    /// a thread of the pool is free, or will be soon.
    fn overtake(&self, size: usize) -> Option<Overtaking<'_>> {
        let mut state = self.state();
        let is_urgent = self.allows_overtaking
            && state.running.len() >= self.max_batches
            && state.running.iter().all(|running| *running >= size.saturating_mul(MUCH_LARGER))
            && state.overtaking < self.max_batches;
        is_urgent.then(|| {
            state.overtaking += 1;
            Overtaking(self)
        })
    }

    /// Works until there is nothing left to claim.
    fn drain(&self) {
        if IN_BATCH.replace(true) {
            return;
        }
        while let Some((call, batch, size)) = self.claim() {
            call.run(batch);
            self.finish(size);
        }
        IN_BATCH.set(false);
    }

    /// Claims the batch with the earliest virtual end. Returns it with its size.
    ///
    /// If `max_batches` are in progress, their threads return here.
    fn claim(&self) -> Option<(Arc<dyn Call>, Range<usize>, usize)> {
        let mut state = self.state();
        if state.running.len() >= self.max_batches {
            return None;
        }
        loop {
            let end = |queued: &Queued| queued.start.saturating_add(queued.call.next_size());
            let (index, _) =
                state.calls.iter().enumerate().min_by_key(|(_, queued)| end(queued))?;
            let Queued { call, start } = &state.calls[index];
            let (call, start, size) = (call.clone(), *start, call.next_size());
            match call.claim() {
                Some(batch) => {
                    state.now = state.now.max(start);
                    state.calls[index].start = start.saturating_add(size);
                    state.running.push(size);
                    return Some((call, batch, size));
                }
                None => drop(state.calls.remove(index)),
            }
        }
    }

    /// Records the end of a batch of `size`. Returns whether another one can be claimed.
    fn finish(&self, size: usize) -> bool {
        let mut state = self.state();
        if let Some(index) = state.running.iter().position(|running| *running == size) {
            state.running.swap_remove(index);
        }
        state.is_waiting()
    }
}

impl State {
    /// Returns `true` if a batch can be claimed.
    fn is_waiting(&self) -> bool {
        self.calls.iter().any(|queued| queued.call.next_size() > 0)
    }
}

/// Permission of a caller to run its call itself.
struct Overtaking<'a>(&'a Queue);

impl Drop for Overtaking<'_> {
    fn drop(&mut self) {
        self.0.state().overtaking -= 1;
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("max_batches", &self.max_batches).finish_non_exhaustive()
    }
}

/// The work of one call, without its type.
trait Call: Send + Sync {
    fn claim(&self) -> Option<Range<usize>>;
    fn next_size(&self) -> usize;
    fn run(&self, batch: Range<usize>);
}

/// Message of a pool thread to the caller.
enum Outcome<T> {
    Ready(Vec<(usize, T)>),
    Failed(InferError),
    Panicked(Box<dyn Any + Send>),
}

struct Running<T: Task> {
    task: T,
    sender: Sender<Outcome<T::Output>>,
    stop: Cancellation,
}

impl<T: Task> Running<T> {
    fn send(&self, outcome: Outcome<T::Output>) {
        let is_last = !matches!(outcome, Outcome::Ready(_));
        let is_unheard = self.sender.send(outcome).is_err();
        if is_last || is_unheard {
            self.stop.cancel();
        }
    }
}

impl<T: Task> Running<T> {
    /// Runs all batches on this thread.
    fn run_all(self) {
        while let Some(batch) = Call::claim(&self) {
            self.run(batch);
        }
    }
}

impl<T: Task> Drop for Running<T> {
    /// Wakes the caller if results are missing: the call was canceled before all batches were
    /// claimed. The channel stays open, because the listener for the cancellation has a sender too.
    fn drop(&mut self) {
        drop(self.sender.send(Outcome::Failed(InferError::Cancelled)));
    }
}

impl<T: Task> Call for Running<T> {
    fn claim(&self) -> Option<Range<usize>> {
        if self.stop.is_cancelled() { None } else { self.task.items().claim() }
    }

    fn next_size(&self) -> usize {
        self.task.items().next_size()
    }

    fn run(&self, batch: Range<usize>) {
        let mut put = |results| self.send(Outcome::Ready(results));
        let run = || self.task.run(batch, &self.stop, &mut put);
        match panic::catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.send(Outcome::Failed(error)),
            Err(payload) => self.send(Outcome::Panicked(payload)),
        }
    }
}

#[cfg(test)]
mod tests;
