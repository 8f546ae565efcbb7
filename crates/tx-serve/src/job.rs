//! The sentences of a request on their way through the queue.

use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Instant,
};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tx_infer::{Alignment, Cancellation, SearchOptions, Translation};

use crate::{error::ApiError, model::Route};

/// A sentence to translate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// The text of the sentence.
    pub text: String,
    /// Whether the alignment of its words is needed.
    pub align: bool,
}

impl Unit {
    /// Estimate of the number of source tokens.
    pub fn tokens(&self) -> usize {
        self.text.len() / 4 + 2
    }
}

/// Result of a sentence.
#[derive(Debug, Clone, Default)]
pub struct Done {
    /// The translation.
    pub translation: Translation,
    /// Alignment of its words; `None` unless it was requested.
    pub alignment: Option<Alignment>,
}

/// Result of a unit with its index.
pub type Message = (usize, Result<Done, ApiError>);

/// Sentences of one request for one route.
#[derive(Debug)]
pub struct Job {
    /// Model and languages.
    pub route: Route,
    /// Options of the search.
    pub options: SearchOptions,
    /// The sentences.
    pub units: Vec<Unit>,
    /// Time when the job was created.
    pub created: Instant,
    /// Time after which the client waits no longer.
    pub deadline: Instant,
    sender: UnboundedSender<Message>,
    is_cancelled: AtomicBool,
    batches: Mutex<Vec<Weak<Batch>>>,
}

/// Handle of the client. Dropping it cancels the job.
#[derive(Debug)]
pub struct JobHandle {
    job: Arc<Job>,
    receiver: UnboundedReceiver<Message>,
}

/// Sentences of several jobs that are translated together.
#[derive(Debug)]
pub struct Batch {
    /// Jobs, with the indices of their sentences.
    pub units: Vec<(Arc<Job>, usize)>,
    /// Is set when no job of the batch has a client.
    pub cancellation: Cancellation,
    /// Number of jobs with a client.
    live: AtomicUsize,
}

impl Job {
    /// Creates a job and its handle.
    pub fn new(
        route: Route,
        options: SearchOptions,
        units: Vec<Unit>,
        deadline: Instant,
    ) -> (Arc<Self>, JobHandle) {
        let (sender, receiver) = unbounded_channel();
        let job = Arc::new(Self {
            route,
            options,
            units,
            created: Instant::now(),
            deadline,
            sender,
            is_cancelled: AtomicBool::new(false),
            batches: Mutex::default(),
        });
        (job.clone(), JobHandle { job, receiver })
    }

    /// Passes the result of a unit to the client.
    pub fn send(&self, index: usize, result: Result<Done, ApiError>) {
        // The client may have left.
        let _ = self.sender.send((index, result));
    }

    /// Whether the client has left or its time is over.
    pub fn is_abandoned(&self) -> bool {
        self.is_cancelled.load(Ordering::SeqCst) || self.deadline <= Instant::now()
    }

    /// Whether units of the other job may be in one batch with units of this one.
    pub fn fits(&self, other: &Self) -> bool {
        self.route.model.id == other.route.model.id
            && self.route.source == other.route.source
            && self.route.target == other.route.target
            && self.options == other.options
    }

    fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::SeqCst);
        let batches =
            std::mem::take(&mut *self.batches.lock().unwrap_or_else(PoisonError::into_inner));
        batches.iter().filter_map(Weak::upgrade).for_each(|batch| batch.leave());
    }
}

impl Batch {
    /// Creates a batch; each job is told of it.
    pub fn new(units: Vec<(Arc<Job>, usize)>) -> Arc<Self> {
        let mut jobs: Vec<&Arc<Job>> = Vec::new();
        for (job, _) in &units {
            if !jobs.iter().any(|known| Arc::ptr_eq(known, job)) {
                jobs.push(job);
            }
        }
        let live = AtomicUsize::new(jobs.len());
        let jobs: Vec<Arc<Job>> = jobs.into_iter().cloned().collect();
        let batch = Arc::new(Self { units, cancellation: Cancellation::new(), live });
        for job in jobs {
            let mut batches = job.batches.lock().unwrap_or_else(PoisonError::into_inner);
            batches.retain(|batch| batch.strong_count() > 0);
            batches.push(Arc::downgrade(&batch));
            drop(batches);
            if job.is_cancelled.load(Ordering::SeqCst) {
                // `cancel` may have run before the batch was in the list.
                job.cancel();
            }
        }
        batch
    }

    fn leave(&self) {
        if self.live.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.cancellation.cancel();
        }
    }
}

impl JobHandle {
    /// Returns the next result; `None` after the last one.
    pub async fn next(&mut self) -> Option<Message> {
        self.receiver.recv().await
    }

    /// Number of sentences.
    pub fn len(&self) -> usize {
        self.job.units.len()
    }

    /// Returns `true` if there is no sentence.
    pub fn is_empty(&self) -> bool {
        self.job.units.is_empty()
    }

    /// Returns all results, in order.
    ///
    /// # Errors
    ///
    /// The first error of a sentence, or if the deadline is over.
    pub async fn all(&mut self) -> Result<Vec<Done>, ApiError> {
        let mut results: Vec<Option<Done>> = vec![None; self.len()];
        let mut missing = results.len();
        while missing > 0 {
            let received = tokio::time::timeout_at(self.job.deadline.into(), self.next()).await;
            let Ok(received) = received else { return Err(self.timeout()) };
            let Some((index, result)) = received else { return Err(ApiError::Internal) };
            if let Some(slot) = results.get_mut(index)
                && slot.replace(result?).is_none()
            {
                missing -= 1;
            }
        }
        Ok(results.into_iter().flatten().collect())
    }

    /// The error of a request whose deadline is over.
    pub fn timeout(&self) -> ApiError {
        ApiError::Timeout(self.job.deadline.duration_since(self.job.created).as_secs())
    }

    /// Time after which the client waits no longer.
    pub fn deadline(&self) -> Instant {
        self.job.deadline
    }
}

impl Drop for JobHandle {
    fn drop(&mut self) {
        self.job.cancel();
    }
}

#[cfg(test)]
impl JobHandle {
    /// Whether no result has arrived.
    pub fn receiver_is_empty(&mut self) -> bool {
        self.receiver.try_recv().is_err()
    }
}
