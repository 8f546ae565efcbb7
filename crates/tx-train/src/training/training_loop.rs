//! Training loop: epochs of updates with validations and checkpoints.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use burn::{
    module::Module,
    tensor::Device,
    train::{
        Interrupter, Learner, SupervisedTrainingEventProcessor, TrainLoader, TrainingComponents,
        metric::store::EventStoreClient,
    },
};

use super::{
    agreement::{Agreement, Local, Work},
    checkpointing::Checkpointing,
    ema::MovingAverage,
    gradients::{UpdateGradients, UpdateSettings, clip_factor, compute_update, count_tokens},
    layer_norms::layer_norms,
    run_handle::RunHandle,
    schedule::LearningRate,
    update_seeds::UpdateSeeds,
    validation_policy::ValidationPolicy,
    weights_hash::weights_hash,
};
use crate::{
    config::{Budget, OnNonFinite, OptimizationConfig, TrainConfig},
    error::TrainError,
    ranks::Ranks,
    recording::{
        metrics::{Metrics, Record, Update},
        run_state::RunState,
    },
    reporting::{
        observer::{Event, Observer, UpdateEvent, ValidationEvent},
        progress::ProgressMode,
        report,
        reporter::Reporter,
    },
    task::{BatchOf, StepOutput, Task, Trainable},
    validation_report::{Position, ValidationReport},
};

/// Number of consecutive batches with a loss or gradient that is not finite after which a run ends.
const MAX_SKIPPED: usize = 20;

/// Parts of a training loop.
pub(crate) struct LoopSetup<T: Task> {
    pub task: T,
    pub config: TrainConfig,
    /// Run folder.
    pub run: PathBuf,
    /// Devices with autodiff; the first holds the weights.
    pub devices: Vec<Device>,
    pub budget: Budget,
    /// Learning rate, which the Learner shares.
    pub rate: LearningRate,
    /// Moving average of the weights, if the run keeps one.
    pub average: Option<MovingAverage<T::Model>>,
    /// State to start at.
    pub state: RunState,
    /// Metrics files; `None` on ranks that write nothing.
    pub metrics: Option<Metrics<T::Report>>,
    pub progress: ProgressMode,
    /// Ranks among which the batches of an update are divided.
    pub ranks: Arc<dyn Ranks>,
    /// Set to interrupt the run.
    pub stop: Arc<AtomicBool>,
    pub observer: Option<Observer>,
}

/// Loop over epochs, updates, validations and checkpoints, on one device or several.
///
/// Random numbers of a batch are a function of the seed, the number of the update and the index of the
/// batch in the update, because the devices' generators are seeded anew for each.
///
/// On several ranks, each takes its batches of every update, and all make the same update. The first
/// rank validates, writes files and reports. Every decision that ends an epoch or the run is a
/// function of values on which the ranks have agreed.
pub(crate) struct TrainingLoop<T: Task> {
    task: T,
    learner: Learner<T::Model>,
    average: Option<MovingAverage<T::Model>>,
    rate: LearningRate,
    config: OptimizationConfig,
    run: PathBuf,
    devices: Vec<Device>,
    budget: Budget,
    state: RunState,
    clock: Clock,
    /// Batches skipped since the last update.
    skipped: usize,
    validation: ValidationPolicy,
    checkpointing: Checkpointing,
    reporter: Reporter<T>,
    handle: RunHandle<T::Report>,
    stop: Arc<AtomicBool>,
    observer: Option<Observer>,
    agreement: Agreement,
    interrupter: Interrupter,
    events: Arc<EventStoreClient>,
}

/// Training and validation time of a run, over all its sessions.
struct Clock {
    start: Instant,
    /// Seconds before this session.
    before: f64,
}

impl Clock {
    fn seconds(&self) -> f64 {
        self.before + self.start.elapsed().as_secs_f64()
    }
}

impl<T: Task> TrainingLoop<T> {
    pub fn new(
        setup: LoopSetup<T>,
        learner: Learner<T::Model>,
        components: TrainingComponents<T::Model>,
        handle: RunHandle<T::Report>,
    ) -> Self {
        let LoopSetup { config, state, run, .. } = setup;
        let TrainingComponents { interrupter, event_processor, event_store, .. } = components;
        Self {
            task: setup.task,
            learner,
            average: setup.average,
            rate: setup.rate,
            validation: ValidationPolicy::new(&config),
            checkpointing: Checkpointing::new(&run, config.checkpoint, state.clone()),
            reporter: Reporter::new(
                setup.budget,
                setup.progress,
                setup.metrics,
                event_processor,
                interrupter.clone(),
            ),
            config: config.train,
            run,
            devices: setup.devices,
            budget: setup.budget,
            clock: Clock { start: Instant::now(), before: state.seconds },
            state,
            skipped: 0,
            handle,
            stop: setup.stop,
            observer: setup.observer,
            agreement: Agreement::new(setup.ranks),
            interrupter,
            events: event_store,
        }
    }

    /// Trains until the run ends, and stores the results in the handle.
    pub fn run(
        mut self,
        train: &TrainLoader<T::Model>,
    ) -> (T::Model, SupervisedTrainingEventProcessor<T::Model>) {
        let ended = self.run_epochs(train);
        let ended = ended.and(self.reporter.flush());
        let is_interrupted = self.is_interrupted();
        let (deferred, event_processor) = self.reporter.finish(self.agreement.ranks().count());
        self.handle.finish(self.state, is_interrupted, deferred, ended);
        (self.learner.model(), event_processor)
    }

    fn run_epochs(&mut self, train: &TrainLoader<T::Model>) -> Result<(), TrainError> {
        self.follow_first(None)?;
        if self.agreement.is_shared() {
            self.compare_weights()?;
        }
        // The dashboard counts epochs from the first.
        if self.state.epoch > 0 {
            self.reporter.end_epoch(self.state.epoch);
        }
        // The last session may have been interrupted between an update and its validation, also at
        // the end of the run, and the best model may have been reset.
        let is_unvalidated = self.state.step > 0 && !self.state.is_validated();
        if self.validation.is_due_after_update(&self.state) || is_unvalidated && self.is_over() {
            self.validate()?;
        }
        while !self.is_over() {
            let is_whole = self.run_epoch(train)?;
            if self.is_interrupted() {
                break;
            }
            let epoch = self.state.epoch + 1;
            let is_last = self.is_over() || epoch == self.config.epochs;
            if self.validation.is_due_after_epoch(&self.state, epoch, is_whole, is_last) {
                self.validate()?;
            }
            if !is_whole || self.is_interrupted() {
                break;
            }
            (self.state.epoch, self.state.batch) = (epoch, 0);
            self.reporter.end_epoch(epoch);
            if self.checkpointing.is_due_after_epoch(epoch) {
                self.save()?;
            }
        }
        if !self.checkpointing.is_saved(&self.state) {
            self.save()?;
        }
        if self.is_over() && !self.is_interrupted() && self.agreement.is_first() {
            match self.task.complete(&self.run, &self.stop) {
                // The run itself is complete; a resumed one completes its bundle.
                Err(TrainError::Interrupted) => {}
                Ok(lines) => lines.iter().for_each(|line| self.reporter.line(line)),
                Err(error) => return Err(error),
            }
        }
        self.state.seconds = self.clock.seconds();
        Ok(())
    }

    /// Makes the updates of an epoch. Returns whether all its batches were used before the run
    /// ended.
    fn run_epoch(&mut self, train: &TrainLoader<T::Model>) -> Result<bool, TrainError> {
        let epoch = self.state.epoch + 1;
        let updates = self.state.batch.div_ceil(self.config.accumulate);
        let own_batches = (self.config.accumulate / self.agreement.ranks().count()).max(1);
        self.reporter.start_epoch(epoch, updates, train.num_items());
        let mut batches = train.iter();
        let mut began = Instant::now();
        let is_whole = loop {
            let waiting = Instant::now();
            let group = batches.by_ref().take(own_batches).collect::<Result<Vec<_>, _>>();
            let waited = waiting.elapsed().as_secs_f64();
            let group = match group {
                Ok(group) => group,
                Err(error) => {
                    self.interrupter.fail(error);
                    break true;
                }
            };
            let work = Work { batches: group.len(), counts: count_tokens::<T::Model>(&group) };
            let local = self.local();
            let work = self.agreement.on_update(work, local);
            if work.batches == 0 {
                break true;
            }
            if self.is_over() {
                break false;
            }
            let Some(Updated { output, norm, reducing }) = self.update(group, work)? else {
                continue;
            };

            let update = Update {
                step: self.state.step,
                epoch,
                took: began.elapsed().as_secs_f64(),
                waited,
                reducing,
                seconds: self.clock.seconds(),
                learning_rate: self.rate.of_last_update(),
                gradient_norm: norm,
            };
            self.reporter.update(output, update, batches.progress())?;
            self.observe(|| Event::Update(UpdateEvent::new(&update, &output)));
            if self.is_interrupted() {
                break false;
            }
            if self.validation.is_due_after_update(&self.state) {
                self.validate()?;
            }
            if self.checkpointing.is_due_after_update(self.state.step, self.clock.seconds()) {
                self.save()?;
            }
            if self.agreement.is_comparison_due(self.state.step) {
                self.compare_weights()?;
            }
            began = Instant::now();
        };
        drop(batches);
        self.reporter.end_split(epoch);
        match self.interrupter.error() {
            Some(error) => Err(TrainError::Learner(error)),
            None => Ok(is_whole),
        }
    }

    /// Updates the weights from the batches of an update, of which `group` are those of this rank.
    /// Returns `None` if they were skipped.
    fn update(
        &mut self,
        group: Vec<BatchOf<T::Model>>,
        Work { batches: count, counts }: Work,
    ) -> Result<Option<Updated>, TrainError> {
        let step = self.state.step + 1;
        let model = self.learner.model();
        let settings = UpdateSettings {
            devices: &self.devices,
            clip_norm: self.config.clip_norm,
            ranks: self.agreement.ranks(),
            counts,
            seeds: Some(UpdateSeeds { seed: self.config.seed, step }),
        };
        let UpdateGradients { gradients, output, norm, reducing } =
            compute_update(&model, group, &settings);
        let layers = self.reporter.records_layers(step).then(|| {
            let factor = clip_factor(norm, self.config.clip_norm).unwrap_or(1.0);
            layer_norms(&model, &gradients, factor)
        });
        drop(model);
        if let Some(error) = self.not_finite(output, norm) {
            self.check_devices()?;
            match self.config.on_nonfinite {
                OnNonFinite::Stop => return Err(error),
                OnNonFinite::Skip => self.skip(error)?,
            }
            self.state.batch += count;
            return Ok(None);
        }
        self.skipped = 0;
        self.learner.lr_step();
        self.learner.optimizer_step(gradients);
        if let Some(average) = &mut self.average {
            average.update(&self.learner.model().valid(), step);
        }
        self.state.step = step;
        self.state.batch += count;
        if let Some(layers) = layers {
            self.reporter.layers(step, &layers)?;
        }
        Ok(Some(Updated { output, norm, reducing }))
    }

    /// Returns the error of the next update if its loss or gradient norm is not finite.
    fn not_finite(&self, output: StepOutput, norm: f64) -> Option<TrainError> {
        let values = [("loss", output.loss_sum), ("gradient norm", norm)];
        let (what, value) = values.into_iter().find(|(_, value)| !value.is_finite())?;
        let (step, epoch, batch) =
            (self.state.step + 1, self.state.epoch + 1, self.state.batch + 1);
        Some(TrainError::NotFinite { what, step, epoch, batch, value })
    }

    /// # Errors
    ///
    /// If a device has failed.
    fn check_devices(&self) -> Result<(), TrainError> {
        let Some(problem) = self.devices.iter().find_map(tx_infer::device::failure) else {
            return Ok(());
        };
        let (run, saved) = (self.run.clone(), self.checkpointing.saved_step());
        Err(TrainError::DeviceFailed { problem, run, saved })
    }

    /// Skips an update with a warning; fails if it is one too many in a row.
    fn skip(&mut self, error: TrainError) -> Result<(), TrainError> {
        self.skipped += 1;
        self.reporter.count_skipped();
        if self.skipped == MAX_SKIPPED {
            return Err(TrainError::TooManySkipped { count: self.skipped, last: Box::new(error) });
        }
        tracing::warn!(in_a_row = self.skipped, "batch skipped: {error}");
        self.reporter.line(&format!("warning: {error}"));
        Ok(())
    }

    /// Validates the model and applies the consequences. An interruption leaves everything
    /// unchanged.
    fn validate(&mut self) -> Result<(), TrainError> {
        let reduction = if self.agreement.is_first() { self.validate_here()? } else { None };
        self.follow_first(reduction)
    }

    /// Applies the state of the first rank, and its reduction of the learning rate.
    fn follow_first(&mut self, reduction: Option<f64>) -> Result<(), TrainError> {
        let local = self.local();
        let reduction = self.agreement.follow(&mut self.state, reduction, local)?;
        if let Some(reduction) = reduction {
            self.rate.set_reduction(reduction);
        }
        Ok(())
    }

    /// Compares the weights of this rank with those of the first.
    fn compare_weights(&self) -> Result<(), TrainError> {
        self.agreement.compare_weights(self.state.step, &weights_hash(&self.learner.model()))
    }

    /// Validates the model in this process. Returns the reduction of the learning rate, if it is
    /// reduced.
    fn validate_here(&mut self) -> Result<Option<f64>, TrainError> {
        let model = match &self.average {
            Some(average) => average.model().clone(),
            None => self.learner.model().valid(),
        };
        // Adds the matrices of LoRA to the weights, as a bundle contains them.
        let model = model.materialize();
        let (validated, total) = match self.task.validate(&model, &self.stop) {
            Err(TrainError::Interrupted) => return Ok(None),
            result => {
                // A device that has failed is the cause of all other problems.
                if !result.as_ref().is_ok_and(|(validated, _)| validated.perplexity().is_finite()) {
                    self.check_devices()?;
                }
                result?
            }
        };
        let position = self.position();
        let verdict = self.validation.judge(&mut self.state, position, self.task.rank(&validated));
        if verdict.is_best {
            let scores = validated.scores(position);
            self.task.bundle().save(model.into_plain(), scores, &self.run)?;
        }
        let without_progress = match self.state.since_best {
            1 => "validation".into(),
            count => format!("{count} validations"),
        };
        if let Some(reduction) = verdict.reduction {
            self.rate.set_reduction(reduction);
            let next = self.rate.of_next_update();
            tracing::info!(step = position.step, learning_rate = next, "learning rate reduced");
            self.reporter.line(&format!(
                "learning rate: {next:.3e}, as the last {without_progress} found no better model"
            ));
        }
        let perplexity = validated.perplexity();
        tracing::info!(
            step = position.step,
            epoch = position.epoch,
            seconds = validated.seconds(),
            best = verdict.is_best,
            "validation: {}",
            validated.summary()
        );
        self.reporter.validation(&Record::Validation {
            step: position.step,
            epoch: position.epoch,
            seconds: self.clock.seconds(),
            best: verdict.is_best,
            report: validated.clone(),
            perplexity,
        })?;
        report::write_as::<T::Report>(&self.run)?;
        if self.validation.is_out_of_patience(&self.state) {
            tracing::info!(step = position.step, "out of patience");
            self.reporter.line(&format!(
                "stopping early: the last {without_progress} found no better model"
            ));
        }
        self.observe(|| {
            Event::Validation(ValidationEvent {
                step: position.step,
                epoch: position.epoch,
                seconds: self.clock.seconds(),
                is_best: verdict.is_best,
                figures: validated.figures(),
            })
        });
        self.handle.set_validation(validated);
        self.reporter.end_validation(position.epoch, total);
        if verdict.is_kept {
            self.save()?;
        }
        Ok(verdict.reduction)
    }

    /// Calls the observer, if this is the first rank and there is one.
    fn observe(&self, event: impl FnOnce() -> Event) {
        let observer = self.observer.as_ref().filter(|_| self.agreement.is_first());
        if observer.is_some_and(|observer| observer(&event()).is_break()) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Saves a checkpoint, if this is the first rank.
    fn save(&mut self) -> Result<(), TrainError> {
        if !self.agreement.is_first() {
            return Ok(());
        }
        // A resumed run records only the updates after the checkpoint.
        self.reporter.flush()?;
        self.state.seconds = self.clock.seconds();
        let average = self.average.as_ref().map(MovingAverage::model);
        let start = Instant::now();
        let saved = self.checkpointing.save(&self.learner, average, &self.state, &self.events);
        if saved.is_err() {
            self.check_devices()?;
        }
        saved?;
        let seconds = start.elapsed().as_secs_f64();
        tracing::info!(step = self.state.step, seconds, "checkpoint written");
        Ok(())
    }

    /// Returns the position of the last update. Between two epochs, that is the end of the first.
    fn position(&self) -> Position {
        let RunState { epoch, batch, step, .. } = self.state;
        let epoch = if batch == 0 && epoch > 0 { epoch } else { epoch + 1 };
        Position { epoch, step }
    }

    /// Returns `true` if a signal or the dashboard has interrupted the run, as all ranks know it.
    fn is_interrupted(&self) -> bool {
        self.agreement.is_interrupted(self.is_interrupted_here())
    }

    /// Returns `true` if a signal or the dashboard of this process has interrupted the run.
    fn is_interrupted_here(&self) -> bool {
        if self.interrupter.should_stop() && self.interrupter.error().is_none() {
            self.stop.store(true, Ordering::Relaxed);
        }
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns the values on which the ranks have to agree.
    fn local(&self) -> Local {
        let is_interrupted = self.is_interrupted_here() || self.interrupter.should_stop();
        Local { is_interrupted, seconds: self.clock.seconds() }
    }

    fn is_over(&self) -> bool {
        let has_failed = !self.agreement.is_shared() && self.interrupter.should_stop();
        self.is_interrupted()
            || self.validation.is_out_of_patience(&self.state)
            || has_failed
            || self.state.epoch >= self.config.epochs
            || self.budget.is_spent(self.state.step, self.agreement.seconds(self.clock.seconds()))
    }
}

/// Result of an update.
struct Updated {
    output: StepOutput,
    /// Gradient norm, before clipping.
    norm: f64,
    /// Seconds in which the gradients of all ranks were added up.
    reducing: f64,
}
