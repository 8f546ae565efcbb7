//! Launch of a training loop by Burn's Learner.

use std::sync::{Arc, Mutex, PoisonError};

use burn::train::{
    Learner, SupervisedLearningStrategy, SupervisedTraining, SupervisedTrainingEventProcessor,
    TrainLoader, TrainingComponents, TrainingStrategy, ValidLoader,
};

use super::{
    run_handle::{RunHandle, RunResults},
    training_loop::{LoopSetup, TrainingLoop},
};
use crate::{
    error::TrainError,
    reporting::{
        dashboard::on_dashboard,
        noop_renderer::NoopRenderer,
        progress::{ProgressMode, print},
    },
    task::Task,
    validation_report::ValidationReport,
};

/// Trains the model of `learner` until the budget is spent.
///
/// # Errors
///
/// If a file cannot be written, a batch cannot be read, or the loss is not finite.
pub(crate) fn launch<T: Task>(
    setup: LoopSetup<T>,
    learner: Learner<T::Model>,
    train: TrainLoader<T::Model>,
    valid: ValidLoader<T::Model>,
) -> Result<RunResults<T::Report>, TrainError> {
    let handle = RunHandle::new(setup.state.clone());
    let epochs = setup.budget.steps().div_ceil(setup.budget.batches.max(1));
    let (run, mode) = (setup.run.clone(), setup.progress);
    let strategy = LoopStrategy { setup: Mutex::new(Some(setup)), handle: handle.clone() };
    let training = SupervisedTraining::new(run, train, valid)
        .with_training_strategy(TrainingStrategy::Custom(Arc::new(strategy)))
        .with_application_logger(None)
        .num_epochs(epochs);
    let training = match mode {
        ProgressMode::Dashboard => {
            let handle = handle.clone();
            on_dashboard(training, T::Report::FIGURE, move || handle.figure())
        }
        ProgressMode::Lines | ProgressMode::Quiet => training.renderer(Box::new(NoopRenderer)),
    };
    let result = training.launch(learner);
    // This closes the dashboard.
    drop(result.renderer);
    let mut results = handle.take();
    results.deferred.iter().for_each(|line| print(line));
    match results.error.take().or_else(|| result.error.map(TrainError::Learner)) {
        Some(error) => Err(error),
        None => Ok(results),
    }
}

/// Strategy of Burn's Learner that runs a [`TrainingLoop`].
///
/// Burn calls [`fit`](SupervisedLearningStrategy::fit) once, by reference and without a result.
/// Therefore the loop's setup is taken from a lock, and its results are stored in a handle.
struct LoopStrategy<T: Task> {
    setup: Mutex<Option<LoopSetup<T>>>,
    handle: RunHandle<T::Report>,
}

impl<T: Task> SupervisedLearningStrategy<T::Model> for LoopStrategy<T> {
    fn fit(
        &self,
        components: TrainingComponents<T::Model>,
        learner: Learner<T::Model>,
        train: TrainLoader<T::Model>,
        _valid: ValidLoader<T::Model>,
        _starting_epoch: usize,
    ) -> (T::Model, SupervisedTrainingEventProcessor<T::Model>) {
        let setup = self.setup.lock().unwrap_or_else(PoisonError::into_inner).take();
        match setup {
            Some(setup) => {
                TrainingLoop::new(setup, learner, components, self.handle.clone()).run(&train)
            }
            None => (learner.model(), components.event_processor),
        }
    }
}
