//! Threads and their queue, which calls and models share.
//!
//! A pool owns threads and one fair queue of texts. A thread takes one batch at a time, which may mix
//! texts of several calls. If the model is large enough, threads without a batch take parts of the other
//! threads' matrix products, as rayon distributes them. The batches of other models have threads of
//! their own, which sleep as soon as no text waits: threads of rayon search for work before they sleep,
//! which takes time from the threads of a server. No more batches run at the same time than the
//! pool has threads.
//!
//! The caller's own thread runs a call of one batch if a batch may start and its products are too small
//! to be shared: handing it over takes longer than a helper saves. While all threads work on batches
//! that are much larger than a whole new call, the caller's own thread runs the call, too, because the
//! end of a batch may be a tenth of a second away. A call that is
//! [submitted](crate::Translator::submit) runs there only if the system cannot start threads.
//!
//! A thread that waits for parts of its product never starts a batch. The wake-up job reaches it,
//! since rayon runs jobs while a thread waits, but is passed on to another thread (`IN_BATCH`).
//! Parts of products themselves do not wait for anything (`tx_engine`), so a thread that runs one is
//! never inside another thread's batch when a wake-up reaches it.

mod call;
mod fair_queue;
mod in_order;
mod load;
mod placement;
mod threads;

use std::{
    cell::Cell,
    fmt, panic,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Sender},
    },
    time::{Duration, Instant},
};

use tx_kernels::packed_matrix::without_helpers;

use crate::{cancellation::Cancellation, error::InferError};
pub use call::Failure;
use call::{AnyCall, Call};
pub(crate) use call::{Encoded, Results, Task};
use fair_queue::{Batch, FairQueue};
pub(crate) use in_order::InOrder;
use load::Load;
pub(crate) use placement::Placement;
use threads::Threads;

thread_local! {
    /// Whether this thread is working on a batch.
    static IN_BATCH: Cell<bool> = const { Cell::new(false) };
}

/// Threads and their queue. Clones share both; the threads start with the first call.
///
/// Each model has a pool of its own, unless [`Translator::with_pool`](crate::Translator::with_pool) and
/// the like select one.
///
/// ```
/// use tx_infer::Pool;
///
/// let pool = Pool::new(4).with_max_waiting(10_000);
/// assert_eq!((pool.threads(), pool.waiting()), (4, 0));
/// ```
#[derive(Debug, Clone)]
pub struct Pool {
    shared: Arc<Shared>,
    /// `None` for the default of the placement of a model.
    batch_tokens: Option<usize>,
    max_waiting: usize,
}

/// Urgency of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    /// Somebody waits for the result.
    #[default]
    Interactive,
    /// A part of a long job, such as a document. Its texts count four times in fair queuing, and share
    /// no batch with those of interactive calls.
    Bulk,
}

/// Observer of the batches of a [`Pool`].
pub trait Observer: Send + Sync {
    /// A batch starts, whose texts have waited for so long.
    fn started(&self, waits: &[Duration]);

    /// A batch has ended after so long, and its results have been received.
    fn ended(&self, duration: Duration);
}

struct Shared {
    threads: Threads,
    observer: Option<Arc<dyn Observer>>,
    state: Mutex<State>,
    /// Is notified when a thread has nothing left to do.
    idle: Condvar,
}

/// A call does not wait for batches that are at least this many times as large as the call.
const MUCH_LARGER: usize = 4;

#[derive(Default)]
struct State {
    queue: FairQueue,
    /// Batches in progress.
    running: Vec<Running>,
    /// Number of callers that run their call themselves although all threads are busy.
    overtaking: usize,
    is_closed: bool,
}

/// A batch in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Running {
    size: usize,
    texts: usize,
    placement: Placement,
}

impl Priority {
    /// Virtual time for a unit of work.
    fn cost(self) -> u64 {
        match self {
            Self::Interactive => 1,
            Self::Bulk => 4,
        }
    }
}

impl Pool {
    /// Default maximum number of tokens of a batch on [`Device::Cpu`](crate::Device::Cpu); four times as many on
    /// other devices, which compute one batch at a time.
    pub const BATCH_TOKENS: usize = 1_024;

    /// Creates a pool of `threads` threads, at least one.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared::new(threads.max(1), None));
        Self { shared, batch_tokens: None, max_waiting: usize::MAX }
    }

    /// Sets the maximum number of tokens of a batch, padding and hypotheses counted; `None` is the default
    /// [default: see [`BATCH_TOKENS`](Self::BATCH_TOKENS)].
    pub fn with_batch_tokens(self, batch_tokens: impl Into<Option<usize>>) -> Self {
        Self { batch_tokens: batch_tokens.into(), ..self }
    }

    /// Sets the maximum number of waiting texts [default: no limit]. Further calls fail with
    /// [`InferError::QueueFull`]; an empty queue accepts a call of any size.
    pub fn with_max_waiting(self, max_waiting: usize) -> Self {
        Self { max_waiting, ..self }
    }

    /// Reports all batches to `observer`. The result no longer shares its threads with clones of
    /// `self`.
    pub fn with_observer(self, observer: Arc<dyn Observer>) -> Self {
        let shared = Arc::new(Shared::new(self.threads(), Some(observer)));
        Self { shared, ..self }
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.shared.threads.count()
    }

    /// Maximum number of tokens of a batch, unless it is the default.
    pub fn batch_tokens(&self) -> Option<usize> {
        self.batch_tokens
    }

    /// Number of waiting texts.
    pub fn waiting(&self) -> usize {
        self.shared.state().queue.waiting()
    }

    /// Refuses further calls with [`InferError::PoolClosed`]. The threads finish those that wait.
    pub fn close(&self) {
        self.shared.state().is_closed = true;
    }

    /// Waits until no text waits or is worked on.
    pub fn wait(&self) {
        let is_busy = |state: &mut State| state.queue.waiting() > 0 || !state.running.is_empty();
        let state = self.shared.idle.wait_while(self.shared.state(), is_busy);
        drop(state.unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns `true` if the threads have started.
    #[cfg(test)]
    pub(crate) fn has_started(&self) -> bool {
        self.shared.threads.have_started()
    }

    /// Puts texts, with their indices, into the queue. The threads of the pool pass the results of
    /// `task` to `receive`, until `cancellation` is set.
    ///
    /// # Errors
    ///
    /// [`InferError::QueueFull`] and [`InferError::PoolClosed`].
    pub(crate) fn submit<T: Task>(
        &self,
        task: Arc<T>,
        texts: Vec<(usize, T::Text)>,
        priority: Priority,
        cancellation: Cancellation,
        receive: impl Fn(Results<T::Output>) + Send + Sync + 'static,
    ) -> Result<(), InferError> {
        let terms = (self.batch_tokens, priority);
        let call = Call::new(task, texts, terms, cancellation, receive);
        self.shared.push(Arc::new(call.created(self.shared.now())), self.max_waiting)
    }

    /// Runs `task` for texts, with their indices, and passes the results to `receive` on this thread.
    /// Sets `cancellation` at the end, which therefore is that of this call alone.
    ///
    /// # Errors
    ///
    /// The first error of the task or of `receive`; [`InferError::Cancelled`] as soon as
    /// `cancellation` is set; [`InferError::QueueFull`] and [`InferError::PoolClosed`].
    ///
    /// # Panics
    ///
    /// If the task panics.
    pub(crate) fn run<T: Task, E: From<InferError>>(
        &self,
        task: Arc<T>,
        texts: Vec<(usize, T::Text)>,
        cancellation: Cancellation,
        mut receive: impl FnMut(Vec<(usize, T::Output)>) -> Result<(), E>,
    ) -> Result<(), E> {
        let stop = StopOnDrop(cancellation.clone());
        let (sender, receiver) = mpsc::channel();
        let (own, hang_up, failed) = (sender.clone(), HangUp(sender), cancellation.clone());
        let send = move |results: Results<T::Output>| {
            let has_failed = results.iter().any(|(_, result)| result.is_err());
            // Sending fails if the call has returned, which is fine.
            drop(hang_up.0.send(Some(results)));
            if has_failed {
                failed.cancel();
            }
        };
        let mut left = texts.len();
        if left == 0 {
            return Ok(());
        }
        let terms = (self.batch_tokens, Priority::Interactive);
        let call = Call::new(task, texts, terms, cancellation, send).created(self.shared.now());
        let _listening = stop.0.listen(move || drop(own.send(None)));
        let call: Arc<dyn AnyCall> = Arc::new(call);
        if self.shared.run_here(&call) {
            drop(call);
        } else {
            self.shared.push(call, self.max_waiting)?;
        }
        while left > 0 {
            let Ok(Some(results)) = receiver.recv() else {
                return Err(InferError::Cancelled.into());
            };
            left = left.saturating_sub(results.len());
            let mut ready = Vec::with_capacity(results.len());
            for (index, result) in results {
                match result {
                    Ok(output) => ready.push((index, output)),
                    Err(Failure::Error(error)) => return Err(error.into()),
                    Err(Failure::Panic(payload)) => panic::resume_unwind(payload),
                }
            }
            receive(ready)?;
        }
        Ok(())
    }
}

/// Stops the work for a call that has returned.
struct StopOnDrop(Cancellation);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Wakes the caller when its call leaves the queue, perhaps with results missing. The channel stays
/// open, because the listener for the cancellation has a sender too.
struct HangUp<T>(Sender<Option<T>>);

impl<T> Drop for HangUp<T> {
    fn drop(&mut self) {
        drop(self.0.send(None));
    }
}

impl Shared {
    fn new(threads: usize, observer: Option<Arc<dyn Observer>>) -> Self {
        let (state, idle) = Default::default();
        Self { threads: Threads::new(threads), observer, state, idle }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Current time, if there is an observer.
    fn now(&self) -> Option<Instant> {
        self.observer.is_some().then(Instant::now)
    }

    /// Adds the texts of a call to at most `max` others.
    ///
    /// # Errors
    ///
    /// [`InferError::QueueFull`] and [`InferError::PoolClosed`].
    fn push(self: &Arc<Self>, call: Arc<dyn AnyCall>, max: usize) -> Result<(), InferError> {
        let Load { bytes, placement, is_shared, .. } = call.load();
        let (texts, placement, is_shared) = (bytes.len(), *placement, *is_shared);
        let mut state = self.state();
        let waiting = state.queue.waiting();
        if state.is_closed {
            return Err(InferError::PoolClosed);
        }
        if waiting > 0 && waiting.saturating_add(texts) > max {
            return Err(InferError::QueueFull);
        }
        state.queue.push(call);
        let free = self.threads.count().saturating_sub(state.running.len());
        drop(state);
        // Threads of rayon wake all at once: one after the other, the last one starts late.
        self.wake(if placement.is_parallel() && is_shared { texts.min(free) } else { 1 });
        Ok(())
    }

    /// Runs a call on the thread of its caller, which is this one: a call of one batch that no thread
    /// would help with, if a thread is free; or a call that is much smaller than the batches of all
    /// threads. Returns `false` for other calls.
    fn run_here(self: &Arc<Self>, call: &Arc<dyn AnyCall>) -> bool {
        let load = call.load();
        let (size, texts, placement) = (load.size(), load.bytes.len(), load.placement);
        let threads = self.threads.count();
        let running = Running { size, texts, placement };
        let mut queue = FairQueue::default();
        queue.push(call.clone());
        let mut state = self.state();
        if !placement.is_parallel() || state.is_closed {
            return false;
        }
        let is_free = state.running.len() < threads && state.queue.waiting() == 0;
        let mut next = None;
        if is_free && !load.is_shared {
            next = queue.take(state.texts(), threads, true);
            if next.is_none() || queue.waiting() > 0 {
                return false;
            }
            state.running.push(running);
        } else if state.is_overtaken_by(size, threads) {
            state.overtaking += 1;
        } else {
            return false;
        }
        drop(state);
        let is_overtaking = next.is_none();
        while let Some(batch) = next.take().or_else(|| queue.take(0, 1, true)) {
            self.run(&batch);
        }
        if is_overtaking {
            self.state().overtaking -= 1;
        } else if self.finish(running) {
            self.wake(1);
        }
        self.idle.notify_all();
        true
    }

    /// Wakes threads for the next batch, and others that may follow it.
    fn wake(self: &Arc<Self>, count: usize) {
        let Some(is_shared) = self.next_is_shared() else { return };
        for _ in 0..count {
            let shared = self.clone();
            self.threads.spawn(is_shared, move || {
                // A thread that waits for parts of its product leaves the batch to another one.
                if !shared.work(is_shared) {
                    shared.wake(1);
                }
            });
        }
    }

    /// Returns whether the next batch that can start is faster when other threads take parts of it.
    fn next_is_shared(&self) -> Option<bool> {
        self.state().next_is_shared(self.threads.count())
    }

    /// Works until there is nothing left to take, or the next batch is for other threads. Returns
    /// `false` if another thread must be woken: for that reason, or because this one works on a batch
    /// already.
    fn work(self: &Arc<Self>, is_shared: bool) -> bool {
        if IN_BATCH.replace(true) {
            return false;
        }
        let is_done = loop {
            let mut state = self.state();
            match state.next_is_shared(self.threads.count()) {
                None => break true,
                Some(other) if other != is_shared => break false,
                Some(_) => {}
            }
            let Some((batch, running)) = state.take(self.threads.count()) else { break true };
            let has_next = state.can_start(self.threads.count());
            drop(state);
            // This thread's processor is busy now, so that the other thread starts on another one.
            if has_next && !is_shared {
                self.wake(1);
            }
            self.run(&batch);
            // The others could not start beside a batch that uses all threads.
            if self.finish(running) && !running.placement.is_parallel() {
                self.wake(self.threads.count() - 1);
            }
        };
        IN_BATCH.set(false);
        self.idle.notify_all();
        is_done
    }

    /// Works on a batch on this thread.
    fn run(&self, batch: &Batch) {
        let Some((first, _)) = batch.texts.first() else { return };
        let started = self.observer.as_ref().map(|observer| {
            let now = Instant::now();
            let wait = |(call, _): &(Arc<dyn AnyCall>, usize)| {
                now.duration_since(call.load().created.unwrap_or(now))
            };
            observer.started(&batch.texts.iter().map(wait).collect::<Vec<_>>());
            (observer, now)
        });
        match first.load().is_shared {
            true => first.run(&batch.texts),
            false => without_helpers(|| first.run(&batch.texts)),
        }
        if let Some((observer, started)) = started {
            observer.ended(started.elapsed());
        }
    }

    /// Records the end of a batch. Returns whether another one can be taken.
    fn finish(&self, batch: Running) -> bool {
        let mut state = self.state();
        if let Some(index) = state.running.iter().position(|running| *running == batch) {
            state.running.swap_remove(index);
        }
        state.can_start(self.threads.count())
    }
}

impl State {
    /// Takes the next batch, unless all threads have one.
    fn take(&mut self, threads: usize) -> Option<(Batch, Running)> {
        if self.running.len() >= threads {
            return None;
        }
        let batch = self.queue.take(self.texts(), threads, self.is_alone())?;
        let (first, _) = batch.texts.first()?;
        let (texts, placement) = (batch.texts.len(), first.load().placement);
        let running = Running { size: batch.size, texts, placement };
        self.running.push(running);
        Some((batch, running))
    }

    /// Returns `true` if a thread can take a batch.
    fn can_start(&self, threads: usize) -> bool {
        self.next_is_shared(threads).is_some()
    }

    /// Returns whether the next batch is faster when other threads take parts of it; `None` if no batch
    /// can start.
    fn next_is_shared(&self, threads: usize) -> Option<bool> {
        if self.running.len() >= threads {
            return None;
        }
        self.queue.next(self.is_alone()).map(|load| load.is_shared)
    }

    /// Number of texts that are worked on.
    fn texts(&self) -> usize {
        self.running.iter().map(|running| running.texts).sum()
    }

    /// Returns `true` if a batch that uses all threads may start: no other one is in progress.
    fn is_alone(&self) -> bool {
        self.running.iter().all(|running| running.placement.is_parallel())
    }

    /// Returns `true` if all threads work on batches that are much larger than a call of `size`, and
    /// few callers run such calls.
    fn is_overtaken_by(&self, size: usize, threads: usize) -> bool {
        let least = size.saturating_mul(MUCH_LARGER);
        self.running.len() >= threads
            && self.overtaking < threads
            && self.running.iter().all(|running| running.size >= least)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("threads", &self.threads.count()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
