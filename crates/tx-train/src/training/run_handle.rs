//! Results of a run, shared by the training loop, the dashboard and the caller.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    error::TrainError, recording::run_state::RunState, validation_report::ValidationReport,
};

/// Handle to the results of a run. Clones share the results.
#[derive(Debug)]
pub(crate) struct RunHandle<R>(Arc<Mutex<RunResults<R>>>);

/// Results of a run.
#[derive(Debug)]
pub(crate) struct RunResults<R> {
    /// State at the end of the run.
    pub state: RunState,
    /// Whether the run was interrupted.
    pub interrupted: bool,
    /// Report of the last validation.
    pub validation: Option<R>,
    /// Lines to print once the dashboard has closed.
    pub deferred: Vec<String>,
    /// Error that ended the run.
    pub error: Option<TrainError>,
}

impl<R> Clone for RunHandle<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R: ValidationReport> RunHandle<R> {
    /// Creates the handle of a run that starts at `state`.
    pub fn new(state: RunState) -> Self {
        let (validation, deferred, error) = (None, Vec::new(), None);
        let interrupted = false;
        Self(Arc::new(Mutex::new(RunResults { state, interrupted, validation, deferred, error })))
    }

    /// Stores the report of a validation.
    pub fn set_validation(&self, report: R) {
        self.results().validation = Some(report);
    }

    /// Returns the value of the report's metric at the last validation; 0 before the first.
    pub fn figure(&self) -> f64 {
        self.results().validation.as_ref().map_or(0.0, R::figure)
    }

    /// Stores the results at the end of the run.
    pub fn finish(
        &self,
        state: RunState,
        interrupted: bool,
        deferred: Vec<String>,
        ended: Result<(), TrainError>,
    ) {
        let mut results = self.results();
        (results.state, results.interrupted) = (state, interrupted);
        (results.deferred, results.error) = (deferred, ended.err());
    }

    /// Takes the results of a run that has ended.
    pub fn take(&self) -> RunResults<R> {
        let mut results = self.results();
        RunResults {
            state: mem::take(&mut results.state),
            interrupted: results.interrupted,
            validation: results.validation.take(),
            deferred: mem::take(&mut results.deferred),
            error: results.error.take(),
        }
    }

    /// Locks the results. Poisoning is ignored, because a panic cannot leave them half changed.
    fn results(&self) -> MutexGuard<'_, RunResults<R>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
