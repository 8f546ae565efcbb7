//! The training loop, as a strategy of Burn's Learner.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use burn::{
    module::Module,
    tensor::Device,
    train::{
        EventProcessorTraining, Interrupter, Learner, LearnerEvent, SupervisedLearningStrategy,
        SupervisedTrainingEventProcessor, TrainLoader, TrainingComponents, TrainingItem,
        ValidLoader,
    },
};
use tx_infer::Bundle;
use tx_model::kernels::mix;

use crate::{
    checkpoint::{self, Best, RunState},
    config::TrainConfig,
    error::TrainError,
    progress::{Budget, Progress},
    step::{GradientNorm, Seq2Seq},
    validate::{Validation, Validator},
};

/// One device, epochs of updates, validation and a checkpoint after each.
///
/// What is random in an update is a function of the seed and the number of the update: the device's
/// generator is seeded anew for each.
pub(crate) struct TrainingLoop {
    pub config: TrainConfig,
    pub run: PathBuf,
    /// With autodiff.
    pub device: Device,
    pub budget: Budget,
    pub validator: Validator,
    /// What the best model is saved with.
    pub bundle: Bundle,
    pub gradient_norm: GradientNorm,
    pub quiet: bool,
    /// Where the run stands; read again by the caller.
    pub state: Arc<Mutex<RunState>>,
    /// The last validation, for the caller.
    pub validation: Arc<Mutex<Option<Validation>>>,
    /// What ended the run before its time.
    pub error: Arc<Mutex<Option<TrainError>>>,
}

impl SupervisedLearningStrategy<Seq2Seq> for TrainingLoop {
    fn fit(
        &self,
        components: TrainingComponents<Seq2Seq>,
        mut learner: Learner<Seq2Seq>,
        train: TrainLoader<Seq2Seq>,
        _valid: ValidLoader<Seq2Seq>,
        _starting_epoch: usize,
    ) -> (Seq2Seq, SupervisedTrainingEventProcessor<Seq2Seq>) {
        let train = train.to_device(&self.device);
        let state = lock(&self.state).clone();
        let mut running = Running {
            setup: self,
            before: state.seconds,
            validated: None,
            state,
            start: Instant::now(),
            progress: Progress::new(self.budget, self.quiet),
            components,
        };
        if let Err(error) = running.epochs(&mut learner, &train) {
            *lock(&self.error) = Some(error);
        }
        running.progress.finish();
        (learner.model(), running.components.event_processor)
    }
}

/// A run on its way.
struct Running<'a> {
    setup: &'a TrainingLoop,
    state: RunState,
    start: Instant,
    /// Seconds of the run before this start of the program.
    before: f64,
    /// The update after which the model was last checked.
    validated: Option<usize>,
    progress: Progress,
    components: TrainingComponents<Seq2Seq>,
}

impl Running<'_> {
    fn epochs(
        &mut self,
        learner: &mut Learner<Seq2Seq>,
        train: &TrainLoader<Seq2Seq>,
    ) -> Result<(), TrainError> {
        let every = self.setup.config.validation.every_epochs;
        while !self.is_over() {
            let epoch = self.state.epoch + 1;
            let before = self.state.step;
            let whole = self.epoch(learner, train, epoch)?;
            let last = self.is_over() || epoch == self.setup.config.train.epochs;
            let due = last || epoch.is_multiple_of(every);
            if due && self.validated != Some(self.state.step) {
                self.validate(learner, epoch)?;
            }
            self.state.seconds = self.seconds();
            *lock(&self.setup.state) = self.state.clone();
            if !whole {
                // A part of an epoch cannot be gone on with: the checkpoint before stays, and only
                // the time and the best model are noted beside it.
                if self.state.epoch > 0 {
                    RunState { step: before, ..self.state.clone() }.write(&self.setup.run)?;
                }
                break;
            }
            self.state.epoch = epoch;
            *lock(&self.setup.state) = self.state.clone();
            let events = self.components.event_store.clone();
            checkpoint::save(learner, &self.state, &self.setup.run, &events)?;
        }
        Ok(())
    }

    /// Updates from all batches of an epoch; says whether it got through before the budget ended.
    fn epoch(
        &mut self,
        learner: &mut Learner<Seq2Seq>,
        train: &TrainLoader<Seq2Seq>,
        epoch: usize,
    ) -> Result<bool, TrainError> {
        let interrupter = self.components.interrupter.clone();
        self.progress.start_epoch(epoch);
        self.event(LearnerEvent::StartSplit {
            epoch_number: epoch,
            total_items: train.num_items(),
        });
        let mut batches = train.iter();
        let mut whole = true;
        let mut began = Instant::now();
        while let Some(batch) = batches.next() {
            if self.is_over() {
                whole = false;
                break;
            }
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    interrupter.fail(error);
                    break;
                }
            };
            let step = self.state.step + 1;
            let not_finite = |what, value| TrainError::NotFinite { what, step, epoch, value };
            self.setup.device.seed(step_seed(self.setup.config.train.seed, step));

            let output = learner.train_step(batch);
            if !output.item.loss_sum.is_finite() {
                return Err(not_finite("loss", output.item.loss_sum));
            }
            learner.lr_step();
            learner.optimizer_step(output.grads);
            let norm = self.setup.gradient_norm.get();
            if !norm.is_finite() {
                return Err(not_finite("gradient norm", norm));
            }

            self.state.step = step;
            let took = began.elapsed().as_secs_f64();
            began = Instant::now();
            self.progress.step(output.item, step, self.seconds(), took);
            self.event(LearnerEvent::ProcessedItem(TrainingItem::new(
                output.item,
                batches.progress(),
                Some(step),
                Some(learner.lr_current()),
            )));
            let every = self.setup.config.validation.every_steps;
            if every.is_some_and(|every| step.is_multiple_of(every)) {
                self.validate(learner, epoch)?;
                began = Instant::now();
            }
        }
        drop(batches);
        self.event(LearnerEvent::EndSplit(epoch));
        failure(&interrupter).map_or(Ok(whole), Err)
    }

    /// Checks the model, and saves it if it is the best so far.
    fn validate(&mut self, learner: &Learner<Seq2Seq>, epoch: usize) -> Result<(), TrainError> {
        let model = learner.model().valid();
        let mut bundle = Bundle { model: model.model.clone(), ..self.setup.bundle.clone() };
        let found = self.setup.validator.run(&model, bundle.clone())?;

        let rank = found.rank(self.setup.config.validation.best_by);
        let is_best = self.state.best.is_none_or(|best| rank > best.rank);
        if is_best {
            let step = self.state.step;
            self.state.best = Some(Best { epoch, step, rank });
            let mut scores = toml::Table::new();
            scores.insert("epoch".into(), (epoch as i64).into());
            scores.insert("step".into(), (step as i64).into());
            scores.insert("loss".into(), found.loss.into());
            scores.insert("accuracy".into(), found.accuracy.into());
            scores.insert("bleu".into(), found.bleu.into());
            scores.insert("bleu_signature".into(), found.bleu_signature.clone().into());
            scores.insert("exact_match".into(), found.exact_match.into());
            bundle.provenance.insert("validation".into(), scores.into());
            bundle.save(&self.setup.run)?;
        }
        self.validated = Some(self.state.step);
        self.progress.validated(self.state.step, self.seconds(), &found, is_best);
        *lock(&self.setup.validation) = Some(found);
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.components.interrupter.should_stop()
            || self.state.epoch >= self.setup.config.train.epochs
            || self.setup.budget.is_spent(self.state.step, self.seconds())
    }

    fn seconds(&self) -> f64 {
        self.before + self.start.elapsed().as_secs_f64()
    }

    /// Tells Burn's metrics and loggers.
    fn event(&mut self, event: LearnerEvent<crate::step::StepOutput>) {
        let result = self.components.event_processor.process_train(event);
        self.components.interrupter.fail_on_error(result);
    }
}

fn failure(interrupter: &Interrupter) -> Option<TrainError> {
    interrupter.error().map(TrainError::Learner)
}

/// A seed for every update: neighbouring ones must not give similar draws, so the bits are mixed.
fn step_seed(seed: u64, step: usize) -> u64 {
    mix(seed.wrapping_add((step as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// What another thread left behind when it panicked is as good as ever.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
