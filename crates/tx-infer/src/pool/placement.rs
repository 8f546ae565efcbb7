//! Threads and batch size of a model.

use std::{num::NonZero, sync::Arc, thread};

use super::{Limits, Scheduler};

/// Default maximum number of tokens of a batch.
pub(crate) const BATCH_TOKENS: usize = 4_096;

/// Threads and batch size of a model. Clones share the threads.
#[derive(Debug, Clone)]
pub(crate) struct Execution {
    pub(crate) scheduler: Arc<Scheduler>,
    placement: Placement,
    batch_tokens: usize,
    /// Whether few texts are distributed among the threads.
    divides: bool,
}

/// Use of threads by a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Each thread computes a batch at a time: the packed engine.
    Threads,
    /// A single batch uses all threads: tensors in host memory.
    Host,
    /// A single thread computes on a device with its own memory.
    Gpu,
}

impl Execution {
    /// Uses all cores and the default size of batches.
    pub(crate) fn new(placement: Placement) -> Self {
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let scheduler = scheduler(placement, threads).into();
        Self { scheduler, placement, batch_tokens: BATCH_TOKENS, divides: true }
    }

    /// Uses `threads` threads, which are no longer shared with clones of `self`.
    pub(crate) fn with_threads(self, threads: usize) -> Self {
        Self { scheduler: scheduler(self.placement, threads.max(1)).into(), ..self }
    }

    /// Sets the maximum number of tokens of a batch.
    pub(crate) fn with_batch_tokens(self, batch_tokens: usize) -> Self {
        Self { batch_tokens, ..self }
    }

    /// Does not distribute few texts among the threads.
    pub(crate) fn undivided(self) -> Self {
        Self { divides: false, ..self }
    }

    /// Uses the same number of threads for a model with another placement.
    pub(crate) fn with_placement(self, placement: Placement) -> Self {
        let threads = self.scheduler.threads();
        Self { placement, ..self }.with_threads(threads)
    }

    /// Use of threads by the model.
    pub(crate) fn placement(&self) -> Placement {
        self.placement
    }

    /// Bounds of a batch in which each text has `rows` rows.
    pub(crate) fn limits(&self, rows: usize) -> Limits {
        let threads = if self.divides { self.scheduler.max_batches() } else { 1 };
        Limits { tokens: self.batch_tokens, rows, threads }
    }
}

/// Creates the threads of a model. Each computes a batch at a time if that is faster than one batch
/// whose operations use all threads. A GPU is used from a single thread.
fn scheduler(placement: Placement, threads: usize) -> Scheduler {
    match placement {
        Placement::Threads => Scheduler::new(threads, threads, true),
        Placement::Host => Scheduler::new(threads, 1, false),
        Placement::Gpu => Scheduler::new(1, 1, false),
    }
}
