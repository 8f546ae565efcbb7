//! Processes of a job: those that a launcher of MPI has started, or this one alone.

use std::sync::Arc;

#[cfg(feature = "mpi")]
use tx_train::ranks::mpi::MpiSession;
use tx_train::{
    TrainError,
    ranks::{Alone, Ranks},
};

/// Connection to the other processes of the job, if there are any. Dropping it waits for them.
pub struct Processes {
    #[cfg(feature = "mpi")]
    session: Option<MpiSession>,
}

#[cfg(feature = "mpi")]
impl Processes {
    /// Connects to the processes that the launcher has started with this one.
    pub fn connect() -> Result<Self, TrainError> {
        let session = MpiSession::of_launcher()?;
        if session.is_some() {
            launcher::end_with_it();
        }
        Ok(Self { session })
    }

    /// Number of this process among those of the job on this machine, from 0.
    pub fn local_rank(&self) -> usize {
        self.session.as_ref().map_or(0, MpiSession::local_rank)
    }

    /// Ranks of the processes.
    pub fn ranks(&self) -> Arc<dyn Ranks> {
        match &self.session {
            Some(session) => Arc::new(session.ranks()),
            None => Arc::new(Alone),
        }
    }

    /// Gives the first rank time to report an error that all ranks have, and to end the job.
    pub fn let_first_report(&self) {
        if self.session.as_ref().is_some_and(|session| !session.ranks().is_first()) {
            std::thread::sleep(std::time::Duration::from_secs(2));
        }
    }

    /// Ends the other processes, which would wait for this one, with the exit code of a failure.
    pub fn fail(&self, code: u8) {
        if let Some(session) = &self.session {
            session.abort(code);
        }
    }
}

#[cfg(not(feature = "mpi"))]
impl Processes {
    /// Returns this process alone, because this program was built without MPI.
    pub fn connect() -> Result<Self, TrainError> {
        Ok(Self {})
    }

    /// Returns 0, because there is no other process.
    pub fn local_rank(&self) -> usize {
        0
    }

    /// Returns this process alone.
    pub fn ranks(&self) -> Arc<dyn Ranks> {
        Arc::new(Alone)
    }

    /// Returns at once, because there is no other process.
    pub fn let_first_report(&self) {}

    /// Does nothing, because there is no other process.
    pub fn fail(&self, _code: u8) {}
}

/// End of the launcher.
#[cfg(all(feature = "mpi", unix))]
mod launcher {
    use std::{os::unix::process::parent_id, thread, time::Duration};

    /// Ends this process soon after its parent, because a rank without launcher may wait forever.
    pub fn end_with_it() {
        let launcher = parent_id();
        let wait = move || {
            while parent_id() == launcher {
                thread::sleep(Duration::from_millis(500));
            }
            signal_hook::low_level::exit(1);
        };
        // Without this thread, most launchers still end their processes.
        drop(thread::Builder::new().name("launcher".into()).spawn(wait));
    }
}

/// End of the launcher, which this system reports to no process.
#[cfg(all(feature = "mpi", not(unix)))]
mod launcher {
    /// Does nothing.
    pub fn end_with_it() {}
}
