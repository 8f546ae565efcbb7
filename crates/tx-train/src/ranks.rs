//! Ranks of a run: processes that train one model together, on one machine or on several.

#[cfg(feature = "mpi")]
pub mod mpi;

use std::fmt::Debug;

/// Processes of a run, of which this one is a rank.
///
/// Every rank makes the same calls in the same order, because each call waits for those of all other
/// ranks. If a rank ends early, the launcher ends the others.
pub trait Ranks: Debug + Send + Sync {
    /// Returns the number of this rank, from 0.
    fn rank(&self) -> usize;

    /// Returns the number of ranks, at least 1.
    fn count(&self) -> usize;

    /// Adds up the vectors of all ranks, which have the same length. All ranks get the same result.
    fn sum(&self, values: Vec<f32>) -> Vec<f32>;

    /// Adds up a few numbers of all ranks, in the precision of counts and seconds. A rank that waits
    /// leaves its core to others.
    fn sum_counts(&self, values: Vec<f64>) -> Vec<f64>;

    /// Returns the bytes of the first rank; those of other ranks are ignored. A rank that waits leaves
    /// its core to others.
    fn broadcast(&self, bytes: Vec<u8>) -> Vec<u8>;

    /// Waits until all ranks have made this call.
    fn wait(&self) {
        self.sum_counts(Vec::from([0.0]));
    }

    /// Returns `true` for the rank that validates, writes files and reports.
    fn is_first(&self) -> bool {
        self.rank() == 0
    }
}

/// The only rank of a run of one process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Ranks for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn count(&self) -> usize {
        1
    }

    fn sum(&self, values: Vec<f32>) -> Vec<f32> {
        values
    }

    fn sum_counts(&self, values: Vec<f64>) -> Vec<f64> {
        values
    }

    fn broadcast(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{
        sync::{Arc, Barrier, Mutex},
        thread,
    };

    use super::*;

    /// Ranks that are threads of this process.
    #[derive(Debug, Clone)]
    pub(crate) struct Threads {
        rank: usize,
        count: usize,
        barrier: Arc<Barrier>,
        /// Values of each rank.
        values: Arc<Mutex<Vec<Vec<f64>>>>,
    }

    impl Threads {
        /// Calls `work` on `count` ranks. Returns their results in order.
        pub(crate) fn run<T: Send>(count: usize, work: impl Fn(Self) -> T + Sync) -> Vec<T> {
            let barrier = Arc::new(Barrier::new(count));
            let values = Arc::new(Mutex::new(vec![Vec::new(); count]));
            let rank =
                |rank| Self { rank, count, barrier: barrier.clone(), values: values.clone() };
            thread::scope(|scope| {
                let ranks: Vec<Self> = (0..count).map(rank).collect();
                let work = &work;
                let threads: Vec<_> =
                    ranks.into_iter().map(|rank| scope.spawn(move || work(rank))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            })
        }

        /// Exchanges the vectors of all ranks.
        fn exchange(&self, values: Vec<f64>) -> Vec<Vec<f64>> {
            self.values.lock().unwrap()[self.rank] = values;
            self.barrier.wait();
            let all = self.values.lock().unwrap().clone();
            self.barrier.wait();
            all
        }
    }

    impl Ranks for Threads {
        fn rank(&self) -> usize {
            self.rank
        }

        fn count(&self) -> usize {
            self.count
        }

        fn sum(&self, values: Vec<f32>) -> Vec<f32> {
            let sum = self.sum_counts(values.into_iter().map(f64::from).collect());
            sum.into_iter().map(|value| value as f32).collect()
        }

        fn sum_counts(&self, values: Vec<f64>) -> Vec<f64> {
            let all = self.exchange(values);
            (0..all[0].len()).map(|index| all.iter().map(|values| values[index]).sum()).collect()
        }

        fn broadcast(&self, bytes: Vec<u8>) -> Vec<u8> {
            let all = self.exchange(bytes.into_iter().map(f64::from).collect());
            all[0].iter().map(|&byte| byte as u8).collect()
        }
    }

    #[test]
    fn threads_add_up_and_follow_the_first() {
        let found = Threads::run(3, |ranks| {
            let rank = ranks.rank();
            ranks.wait();
            let sum = ranks.sum(vec![rank as f32, 1.0]);
            let bytes = ranks.broadcast(vec![7 + rank as u8; 1 + rank]);
            (sum, ranks.sum_counts(vec![0.5]), bytes)
        });
        assert_eq!(found, vec![(vec![3.0, 3.0], vec![1.5], vec![7]); 3]);
    }
}
