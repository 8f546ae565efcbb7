//! Ranks that a launcher of MPI has started: `mpirun`, `srun`, or the MPI operator of Kubeflow.

use std::{
    env, thread,
    time::{Duration, Instant},
};

use mpi::{
    Threading,
    collective::{CommunicatorCollectives, Root, SystemOperation},
    environment::Universe,
    initialize_with_threading,
    request::{Request, Scope, scope},
    topology::{Communicator, SimpleCommunicator},
};

use super::Ranks;
use crate::error::TrainError;

/// Environment variables, one of which a launcher sets: Open MPI, PMIx (also of Slurm), and PMI of
/// MPICH and Slurm.
const LAUNCHER: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"];
/// Exit code of a Rust program that panics.
const PANICKED: u8 = 101;
/// Largest number of values in one message. MPI counts with 32 bits.
const MAX_VALUES: usize = 1 << 28;
/// Time after which a rank that waits for others sleeps instead of polling.
const PATIENCE: Duration = Duration::from_millis(2);
/// Time between two polls of a rank that sleeps.
const SLEEP: Duration = Duration::from_micros(200);

/// Connection of this process to the other ranks. Dropping it waits for all of them.
///
/// It must be created and dropped by the main thread.
pub struct MpiSession {
    universe: Universe,
}

impl MpiSession {
    /// Connects to the other ranks; `None` if no launcher has started this process.
    ///
    /// # Errors
    ///
    /// If the MPI library does not support calls by several threads, one at a time.
    pub fn of_launcher() -> Result<Option<Self>, TrainError> {
        if LAUNCHER.iter().all(|name| env::var_os(name).is_none()) {
            return Ok(None);
        }
        let required = Threading::Serialized;
        match initialize_with_threading(required) {
            Some((universe, provided)) if provided >= required => Ok(Some(Self { universe })),
            found => {
                let provided = found.map(|(_, provided)| provided);
                let problem = format!("the MPI library provides {provided:?}, not {required:?}");
                Err(TrainError::Problems { problems: vec![problem] })
            }
        }
    }

    /// Returns the ranks of the job.
    pub fn ranks(&self) -> MpiRanks {
        let world = self.universe.world();
        let number = |value: i32| usize::try_from(value).unwrap_or_default();
        MpiRanks { rank: number(world.rank()), count: number(world.size()).max(1) }
    }

    /// Returns the number of this rank among those of the same machine, from 0. All ranks call it.
    pub fn local_rank(&self) -> usize {
        let world = self.universe.world();
        usize::try_from(world.split_shared(world.rank()).rank()).unwrap_or_default()
    }

    /// Ends this process and all other ranks with an exit code.
    pub fn abort(&self, code: u8) -> ! {
        self.universe.world().abort(code.into())
    }
}

impl Drop for MpiSession {
    /// Ends the job after a panic, because the other ranks would wait for this one.
    fn drop(&mut self) {
        if thread::panicking() {
            self.abort(PANICKED);
        }
    }
}

/// Ranks of an MPI job.
///
/// An error of MPI ends the job, which is its default, so no call returns one.
#[derive(Debug, Clone, Copy)]
pub struct MpiRanks {
    rank: usize,
    count: usize,
}

impl Ranks for MpiRanks {
    fn rank(&self) -> usize {
        self.rank
    }

    fn count(&self) -> usize {
        self.count
    }

    fn sum(&self, values: Vec<f32>) -> Vec<f32> {
        let mut sums = vec![0.0; values.len()];
        for (values, sums) in values.chunks(MAX_VALUES).zip(sums.chunks_mut(MAX_VALUES)) {
            world().all_reduce_into(values, sums, SystemOperation::sum());
        }
        sums
    }

    fn sum_counts(&self, values: Vec<f64>) -> Vec<f64> {
        let mut sums = vec![0.0; values.len()];
        scope(|scope| {
            let (world, sum) = (world(), SystemOperation::sum());
            wait(world.immediate_all_reduce_into(scope, &values[..], &mut sums[..], sum));
        });
        sums
    }

    fn broadcast(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        let world = world();
        let first = world.process_at_rank(0);
        let mut len = [bytes.len() as u64];
        scope(|scope| wait(first.immediate_broadcast_into(scope, &mut len[..])));
        bytes.resize(usize::try_from(len[0]).unwrap_or(usize::MAX), 0);
        bytes.chunks_mut(MAX_VALUES).for_each(|part| first.broadcast_into(part));
        bytes
    }
}

/// Communicator of all ranks. It contains a pointer that cannot be sent to another thread, so it is
/// created for each call.
pub(super) fn world() -> SimpleCommunicator {
    SimpleCommunicator::world()
}

/// Waits for a request. Blocking calls of MPI occupy a core, which the first rank needs for a
/// validation.
fn wait<'a, D: ?Sized, S: Scope<'a>>(mut request: Request<'a, D, S>) {
    let start = Instant::now();
    while let Err(pending) = request.test() {
        request = pending;
        if start.elapsed() < PATIENCE {
            thread::yield_now();
        } else {
            thread::sleep(SLEEP);
        }
    }
}
