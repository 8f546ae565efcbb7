//! The sentences of a request on their way through the queue.

use std::{sync::Arc, time::Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tx_infer::{Cancellation, Deadline, SearchOptions};
use tx_markup::{Done, Unit};

use crate::{error::ApiError, model::Route};

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
    pub deadline: Deadline,
    /// Is set when the client has left or its time is over. The sentences of the job then leave their
    /// batches before the next decoding step.
    pub cancellation: Cancellation,
    sender: UnboundedSender<Message>,
}

/// Handle of the client. Dropping it cancels the job: at the end of the connection, or of the time limit.
#[derive(Debug)]
pub struct JobHandle {
    job: Arc<Job>,
    receiver: UnboundedReceiver<Message>,
}

/// Sentences of several jobs that are translated together: jobs, with the indices of their sentences.
pub type Batch = Vec<(Arc<Job>, usize)>;

impl Job {
    /// Creates a job and its handle.
    pub fn new(
        route: Route,
        options: SearchOptions,
        units: Vec<Unit>,
        deadline: &Deadline,
    ) -> (Arc<Self>, JobHandle) {
        let (sender, receiver) = unbounded_channel();
        let job = Arc::new(Self {
            route,
            options,
            units,
            created: Instant::now(),
            deadline: deadline.clone(),
            cancellation: Cancellation::new(),
            sender,
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
        self.cancellation.is_cancelled() || self.deadline.is_over()
    }

    /// Whether units of the other job may be in one batch with units of this one.
    pub fn fits(&self, other: &Self) -> bool {
        self.route.model.id == other.route.model.id
            && self.route.source == other.route.source
            && self.route.target == other.route.target
            && self.options == other.options
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
            let end = self.job.deadline.end().into();
            let received = tokio::time::timeout_at(end, self.next()).await;
            let Ok(received) = received else { return Err(self.job.deadline.error().into()) };
            let Some((index, result)) = received else { return Err(ApiError::Internal) };
            if let Some(slot) = results.get_mut(index)
                && slot.replace(result?).is_none()
            {
                missing -= 1;
            }
        }
        Ok(results.into_iter().flatten().collect())
    }

    /// Time after which the client waits no longer.
    pub fn deadline(&self) -> &Deadline {
        &self.job.deadline
    }
}

impl Drop for JobHandle {
    fn drop(&mut self) {
        self.job.cancellation.cancel();
    }
}

#[cfg(test)]
impl JobHandle {
    /// Whether no result has arrived.
    pub fn receiver_is_empty(&mut self) -> bool {
        self.receiver.try_recv().is_err()
    }
}
