//! Threads of a pool.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread::{self, Thread},
};

use rayon::{ThreadPool, ThreadPoolBuilder};

type Job = Box<dyn FnOnce() + Send>;

/// Two sets of threads, each of which starts with its first job.
pub(super) struct Threads {
    count: usize,
    /// Threads that take parts of one another's matrix products; `None` if the system cannot start
    /// them. A thread without a job searches for a while before it sleeps.
    sharing: OnceLock<Option<ThreadPool>>,
    /// Threads that sleep whenever they have no job.
    alone: Alone,
}

/// Threads that end when this is dropped.
#[derive(Default)]
struct Alone(Arc<Jobs>);

#[derive(Default)]
struct Jobs(Mutex<State>);

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Number of threads.
    threads: usize,
    /// Threads that wait for a job. The last one continues first, because its core has the weights in
    /// its cache.
    idle: Vec<Thread>,
    is_closed: bool,
}

impl Threads {
    /// Creates two sets of `count` threads.
    pub(super) fn new(count: usize) -> Self {
        Self { count, sharing: OnceLock::new(), alone: Alone::default() }
    }

    /// Number of threads of a set.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Runs a job on a thread of the set that shares products or of the other one; on this thread if
    /// the system cannot start any.
    pub(super) fn spawn(&self, is_shared: bool, job: impl FnOnce() + Send + 'static) {
        if !is_shared {
            return self.alone.spawn(self.count, Box::new(job));
        }
        let new = || ThreadPoolBuilder::new().num_threads(self.count).build().ok();
        match self.sharing.get_or_init(new) {
            Some(pool) => pool.spawn(job),
            None => job(),
        }
    }

    /// Returns `true` if threads have started.
    #[cfg(test)]
    pub(super) fn have_started(&self) -> bool {
        self.sharing.get().is_some() || self.alone.0.state().threads > 0
    }
}

impl Alone {
    fn spawn(&self, count: usize, job: Job) {
        let mut state = self.0.state();
        state.jobs.push_back(job);
        if let Some(thread) = state.idle.pop() {
            drop(state);
            return thread.unpark();
        }
        if state.threads == count {
            return;
        }
        state.threads += 1;
        drop(state);
        let jobs = self.0.clone();
        if thread::Builder::new().spawn(move || jobs.work()).is_err() {
            let mut state = self.0.state();
            state.threads -= 1;
            let job = (state.threads == 0).then(|| state.jobs.pop_front()).flatten();
            drop(state);
            if let Some(job) = job {
                job();
            }
        }
    }
}

impl Jobs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs jobs until the end.
    fn work(&self) {
        let thread = thread::current();
        loop {
            let mut state = self.state();
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                continue;
            }
            if state.is_closed {
                return;
            }
            state.idle.push(thread.clone());
            drop(state);
            thread::park();
            // A thread can continue without a reason.
            self.state().idle.retain(|idle| idle.id() != thread.id());
        }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_closed = true;
        state.idle.drain(..).for_each(|thread| thread.unpark());
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    /// Two jobs that wait for each other run on two threads, and no third thread starts.
    #[test]
    fn jobs_run_at_the_same_time_on_a_limited_number_of_threads() {
        for is_shared in [false, true] {
            let threads = Threads::new(2);
            assert!(!threads.have_started());
            let (sender, receiver) = mpsc::channel();
            let barrier = Arc::new(std::sync::Barrier::new(2));
            for _ in 0..10 {
                let (barrier, sender) = (barrier.clone(), sender.clone());
                threads.spawn(is_shared, move || {
                    barrier.wait();
                    sender.send(thread::current().id()).unwrap();
                });
            }
            let next = |_| receiver.recv_timeout(Duration::from_secs(60)).unwrap();
            let mut ids: Vec<_> = (0..10).map(next).map(|id| format!("{id:?}")).collect();
            ids.sort();
            ids.dedup();
            assert_eq!(ids.len(), 2);
            assert!(threads.have_started());
        }
    }

    /// The closure that a thread would keep alive is dropped.
    #[test]
    fn threads_end_with_their_owner() {
        let threads = Threads::new(3);
        let jobs = Arc::downgrade(&threads.alone.0);
        let (sender, receiver) = mpsc::channel();
        threads.spawn(false, move || sender.send(()).unwrap());
        receiver.recv_timeout(Duration::from_secs(60)).unwrap();
        drop(threads);
        for _ in 0..6_000 {
            if jobs.strong_count() == 0 {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("a thread is left");
    }
}
