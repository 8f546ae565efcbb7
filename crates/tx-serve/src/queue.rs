//! Bounded queue of sentences, from which workers take batches.
//!
//! A worker takes a batch as soon as it is free; no timer delays one. It takes at most its part of the
//! sentences that wait or are translated, so that no other worker is free meanwhile. Sentences are taken by fair
//! queuing: each job has a virtual time, which its sentences advance by their sizes, and the sentence
//! with the earliest virtual time is next. A new job starts at the time of the latest batch, so that a
//! short one does not wait for a long document. A batch has sentences of jobs with the same model,
//! languages and options only.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, Thread},
};

use crate::{
    error::ApiError,
    job::{Batch, Job},
};

/// Queue of jobs.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    limits: QueueLimits,
}

/// Limits of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimits {
    /// Maximum number of waiting sentences.
    pub sentences: usize,
    /// Maximum estimated number of source tokens of a batch, times hypotheses. A longer sentence is its
    /// own batch.
    pub batch_tokens: usize,
    /// Number of workers.
    pub workers: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Groups of jobs that fit into one batch.
    groups: Vec<Group>,
    /// Number of waiting sentences.
    waiting: usize,
    /// Number of sentences that are translated.
    running: usize,
    /// Workers that wait for a batch. The last one continues first, because its core has the weights in
    /// its cache.
    idle: Vec<Thread>,
    /// Virtual time of the latest batch.
    now: u64,
    next_id: u64,
    is_closed: bool,
}

/// Jobs by virtual time, then by age.
#[derive(Debug, Default)]
struct Group {
    jobs: BTreeMap<(u64, u64), Waiting>,
}

/// A job and the index of its next sentence.
#[derive(Debug)]
struct Waiting {
    job: Arc<Job>,
    next: usize,
}

impl Queue {
    /// Creates an empty queue.
    pub fn new(limits: QueueLimits) -> Self {
        Self { state: Mutex::default(), limits }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of waiting sentences.
    pub fn waiting(&self) -> usize {
        self.state().waiting
    }

    /// Adds the sentences of a job.
    ///
    /// # Errors
    ///
    /// If the queue is full or closed. An empty queue accepts a job of any size, because the number of
    /// characters of a request is limited elsewhere.
    pub fn push(&self, job: Arc<Job>) -> Result<(), ApiError> {
        let mut state = self.state();
        if state.is_closed {
            return Err(ApiError::Stopping);
        }
        let units = job.units.len();
        if units == 0 {
            return Ok(());
        }
        if state.waiting > 0 && state.waiting.saturating_add(units) > self.limits.sentences {
            return Err(ApiError::QueueFull);
        }
        state.waiting += units;
        let key = (state.now, state.next_id);
        state.next_id += 1;
        let waiting = Waiting { job, next: 0 };
        let fits = |group: &&mut Group| {
            group.jobs.first_key_value().is_some_and(|(_, first)| first.job.fits(&waiting.job))
        };
        match state.groups.iter_mut().find(fits) {
            Some(group) => {
                group.jobs.insert(key, waiting);
            }
            None => state.groups.push(Group { jobs: BTreeMap::from([(key, waiting)]) }),
        }
        wake(state);
        Ok(())
    }

    /// Records the end of a batch of this number of sentences.
    pub fn finish(&self, sentences: usize) {
        let mut state = self.state();
        state.running = state.running.saturating_sub(sentences);
    }

    /// Waits for the next batch; `None` after [`close`](Self::close), when the queue is empty. The worker
    /// [finishes](Self::finish) the batch afterwards.
    pub fn take(&self) -> Option<Batch> {
        let worker = thread::current();
        loop {
            let mut state = self.state();
            let units = state.batch(self.limits);
            if !units.is_empty() {
                state.running += units.len();
                if state.waiting > 0 {
                    wake(state);
                }
                return Some(units);
            }
            if state.is_closed {
                return None;
            }
            state.idle.push(worker.clone());
            drop(state);
            thread::park();
            // A thread can continue without a reason.
            self.state().idle.retain(|idle| idle.id() != worker.id());
        }
    }

    /// Refuses new jobs. Workers finish the waiting ones.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.idle.drain(..).for_each(|worker| worker.unpark());
    }
}

/// Continues the worker that became idle last, if there is one.
fn wake(mut state: MutexGuard<'_, State>) {
    let worker = state.idle.pop();
    drop(state);
    if let Some(worker) = worker {
        worker.unpark();
    }
}

impl State {
    /// Takes the sentences of the next batch; empty if there are none.
    fn batch(&mut self, limits: QueueLimits) -> Batch {
        let mut units = Batch::new();
        let share = (self.waiting + self.running).div_ceil(limits.workers.max(1));
        let first = |(_, group): &(usize, &Group)| group.jobs.keys().next().copied();
        while units.is_empty()
            && let Some(index) =
                self.groups.iter().enumerate().min_by_key(first).map(|(index, _)| index)
        {
            let group = &mut self.groups[index];
            let mut tokens = 0;
            while let Some(entry) = group.jobs.first_entry() {
                let ((time, id), Waiting { job, next }) = (*entry.key(), entry.get());
                if job.is_abandoned() {
                    self.waiting -= job.units.len() - next;
                    entry.remove();
                    continue;
                }
                let rows = job.options.beam.max(1);
                let size = job.units[*next].tokens().saturating_mul(rows);
                let is_full = units.len() >= share || tokens + size > limits.batch_tokens;
                if !units.is_empty() && is_full {
                    break;
                }
                tokens += size;
                self.now = self.now.max(time);
                self.waiting -= 1;
                let Waiting { job, next } = entry.remove();
                units.push((job.clone(), next));
                if next + 1 < job.units.len() {
                    let waiting = Waiting { job, next: next + 1 };
                    group.jobs.insert((time + size as u64, id), waiting);
                }
            }
            if group.jobs.is_empty() {
                self.groups.swap_remove(index);
            }
        }
        units
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tx_infer::{Deadline, SearchOptions};
    use tx_markup::Unit;

    use super::*;
    use crate::{fixture, job::JobHandle};

    /// A job of sentences with these numbers of letters.
    fn job(lengths: &[usize], beam: usize) -> (Arc<Job>, JobHandle) {
        let units = lengths.iter().map(|n| Unit { text: "a".repeat(*n), align: false }).collect();
        let options = SearchOptions { beam, ..SearchOptions::default() };
        let deadline = Deadline::after(Duration::from_secs(60));
        Job::new(fixture::route(), options, units, &deadline)
    }

    fn queue(sentences: usize, batch_tokens: usize) -> Queue {
        Queue::new(QueueLimits { sentences, batch_tokens, workers: 1 })
    }

    fn taken(queue: &Queue) -> Vec<(u64, usize)> {
        let batch = queue.take().unwrap();
        batch.iter().map(|(job, index)| (job.units[0].text.len() as u64, *index)).collect()
    }

    /// By hand: a sentence of 40 letters counts as 12 tokens, one of 4 as 3.
    #[test]
    fn a_short_job_passes_a_long_one() {
        let queue = queue(100, 30);
        let (long, _long) = job(&[40; 10], 1);
        queue.push(long).unwrap();
        assert_eq!(taken(&queue), [(40, 0), (40, 1)]);
        let (short, _short) = job(&[4], 1);
        queue.push(short).unwrap();
        // The long job is at time 24, the short one at 12.
        assert_eq!(taken(&queue), [(4, 0), (40, 2), (40, 3)]);
        assert_eq!(queue.waiting(), 6);
    }

    /// Two workers wait when a job of five sentences arrives. While both translate, one of seven
    /// sentences arrives.
    #[test]
    fn workers_share_the_sentences_that_wait_or_are_translated() {
        let queue = Queue::new(QueueLimits { sentences: 100, batch_tokens: 1_000, workers: 2 });
        let take = || queue.take().map(|batch| batch.len());
        std::thread::scope(|scope| {
            let workers = [scope.spawn(take), scope.spawn(take)];
            while queue.state().idle.len() < 2 {
                std::thread::yield_now();
            }
            let (job, _handle) = job(&[4; 5], 1);
            queue.push(job).unwrap();
            let mut taken = workers.map(|worker| worker.join().unwrap().unwrap());
            taken.sort_unstable();
            assert_eq!(taken, [2, 3]);
        });
        let (more, _more) = job(&[4; 7], 1);
        queue.push(more).unwrap();
        // Of 12 sentences, those of the other worker and 6 of those that wait.
        assert_eq!(take(), Some(6));
        queue.finish(3);
        // 2 and 6 are translated, and 1 waits.
        assert_eq!((take(), queue.waiting()), (Some(1), 0));
    }

    #[test]
    fn batches_have_one_set_of_options_and_the_budget_counts_hypotheses() {
        let queue = queue(100, 30);
        let handles: Vec<JobHandle> = [(&[40, 40][..], 1), (&[44, 44], 2), (&[48], 1)]
            .into_iter()
            .map(|(lengths, beam)| {
                let (job, handle) = job(lengths, beam);
                queue.push(job).unwrap();
                handle
            })
            .collect();
        // The third job is older in virtual time than the second sentence of the first one.
        assert_eq!(taken(&queue), [(40, 0), (48, 0)]);
        assert_eq!(taken(&queue), [(44, 0)]);
        assert_eq!(taken(&queue), [(40, 1)]);
        assert_eq!(taken(&queue), [(44, 1)]);
        assert_eq!((queue.waiting(), handles.len()), (0, 3));
    }

    #[test]
    fn a_full_or_closed_queue_refuses() {
        let queue = queue(3, 30);
        let (large, _large) = job(&[4; 5], 1);
        queue.push(large).unwrap();
        let (more, _more) = job(&[4], 1);
        assert_eq!(queue.push(more.clone()), Err(ApiError::QueueFull));
        queue.take().unwrap();
        queue.push(more.clone()).unwrap();
        queue.close();
        assert_eq!(queue.push(more), Err(ApiError::Stopping));
        assert!(queue.take().is_some() && queue.take().is_none());
    }

    #[test]
    fn jobs_without_a_client_are_not_translated() {
        let queue = queue(10, 30);
        let (gone, handle) = job(&[4, 4], 1);
        queue.push(gone.clone()).unwrap();
        drop(handle);
        let (stays, mut handle) = job(&[8; 20], 1);
        queue.push(stays).unwrap_err();
        let (stays, other) = job(&[8], 1);
        queue.push(stays.clone()).unwrap();
        let batch = queue.take().unwrap();
        assert_eq!((batch.len(), queue.waiting()), (1, 0));
        assert!(!stays.is_abandoned());
        drop(other);
        assert!(stays.is_abandoned() && stays.cancellation.is_cancelled());
        stays.send(0, Err(ApiError::Internal));
        assert!(handle.receiver_is_empty());
    }
}
