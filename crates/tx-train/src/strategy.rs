//! The training loop, as a strategy of Burn's Learner.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use burn::{
    lr_scheduler::LrScheduler,
    module::Module,
    tensor::Device,
    train::{
        EventProcessorTraining, Interrupter, Learner, LearnerEvent, SupervisedLearningStrategy,
        SupervisedTrainingEventProcessor, TrainLoader, TrainingComponents, TrainingItem,
        ValidLoader,
    },
};
use tx_data::Seq2SeqBatch;
use tx_infer::ModuleBundle;
use tx_model::random::mix;
use tx_text::Tokenizers;

use crate::{
    checkpoint::{Best, Checkpoints, RunState},
    config::{Interval, OnNonFinite, OptimizationConfig, TrainConfig},
    ema::MovingAverage,
    error::TrainError,
    metrics::{Metrics, Record, Update},
    progress::{Budget, Progress, Show},
    report,
    schedule::{LearningRate, Schedule},
    step::{Seq2Seq, StepOutput, UpdateGradients},
    validate::{Validation, Validator},
};

/// Batches skipped in a row, for a loss or gradient that is not finite, that end a run.
pub(crate) const MOST_SKIPPED: usize = 20;

/// Epochs of updates, validations and checkpoints, on one device or several.
///
/// What is random in an update is a function of the seed and the number of the update: the device's
/// generator is seeded anew for each.
pub(crate) struct TrainingLoop {
    pub config: TrainConfig,
    pub run: PathBuf,
    /// With autodiff; the first makes the updates.
    pub devices: Vec<Device>,
    pub budget: Budget,
    pub validator: Validator,
    /// What the best model is saved with.
    pub tokenizers: Tokenizers,
    pub provenance: toml::Table,
    pub schedule: LearningRate,
    /// Of the weights; none if the run keeps none. The loop takes it.
    pub average: Mutex<Option<MovingAverage>>,
    pub show: Show,
    /// Set when somebody wants the run to stop.
    pub stop: Arc<AtomicBool>,
    /// Where the run stands; read again by the caller.
    pub state: Arc<Mutex<RunState>>,
    /// The last validation, for the caller.
    pub validation: Arc<Mutex<Option<Validation>>>,
    /// Lines to be shown once the dashboard has closed, for the caller.
    pub held: Arc<Mutex<Vec<String>>>,
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
        let state = lock(&self.state).clone();
        let every = self.config.metrics.every_steps;
        let metrics = match Metrics::open(&self.run, &state, every, self.devices[0].clone()) {
            Ok(metrics) => metrics,
            Err(error) => {
                *lock(&self.error) = Some(error);
                return (learner.model(), components.event_processor);
            }
        };
        let mut running = Running {
            setup: self,
            average: lock(&self.average).take(),
            before: state.seconds,
            worked: 0.0,
            waited: 0.0,
            skipped: 0,
            saved: state.clone(),
            state,
            start: Instant::now(),
            progress: Progress::new(self.budget, self.show),
            metrics,
            components,
        };
        let ended = running.epochs(&mut learner, &train);
        if let Err(error) = ended.and(running.metrics.flush()) {
            *lock(&self.error) = Some(error);
        }
        if running.worked > 0.0 {
            let percent = 100.0 * running.waited / running.worked;
            running.progress.say(&format!("waiting for data: {percent:.2} % of training time"));
        }
        *lock(&self.held) = running.progress.finish();
        (learner.model(), running.components.event_processor)
    }
}

/// A run on its way.
struct Running<'a> {
    setup: &'a TrainingLoop,
    average: Option<MovingAverage>,
    state: RunState,
    start: Instant,
    /// Seconds of the run before this start of the program.
    before: f64,
    /// Seconds of the updates since this start, and those of them spent waiting for batches.
    worked: f64,
    waited: f64,
    /// Batches skipped since the last update.
    skipped: usize,
    /// Where the run stood at the last checkpoint.
    saved: RunState,
    progress: Progress,
    metrics: Metrics,
    components: TrainingComponents<Seq2Seq>,
}

impl Running<'_> {
    fn epochs(
        &mut self,
        learner: &mut Learner<Seq2Seq>,
        train: &TrainLoader<Seq2Seq>,
    ) -> Result<(), TrainError> {
        let config = &self.setup.config;
        // A dashboard counts epochs from the first.
        if self.state.epoch > 0 {
            self.event(LearnerEvent::EndEpoch(self.state.epoch));
        }
        // The run may have been interrupted between an update and its validation, the last one too; and
        // the best model may have been forgotten.
        let is_due = config.validation.every_steps.is_some_and(|every| self.is_due(every));
        let is_missing = self.state.step > 0 && self.state.validated != Some(self.state.step);
        if is_due || is_missing && self.is_over() {
            self.validate(learner)?;
        }
        while !self.is_over() {
            let whole = self.epoch(learner, train)?;
            if self.is_stopped() {
                break;
            }
            let epoch = self.state.epoch + 1;
            let every = config.validation.every_epochs;
            let last = self.is_over() || epoch == config.train.epochs;
            if (last || whole && epoch.is_multiple_of(every))
                && self.state.validated != Some(self.state.step)
            {
                self.validate(learner)?;
            }
            if !whole || self.is_stopped() {
                break;
            }
            (self.state.epoch, self.state.batch) = (epoch, 0);
            self.event(LearnerEvent::EndEpoch(epoch));
            let due = matches!(config.checkpoint.every, Interval::Epochs(every) if epoch.is_multiple_of(every));
            if due {
                self.save(learner)?;
            }
        }
        if (RunState { seconds: self.saved.seconds, ..self.state.clone() }) != self.saved {
            self.save(learner)?;
        }
        self.state.seconds = self.seconds();
        *lock(&self.setup.state) = self.state.clone();
        Ok(())
    }

    /// Updates from all batches of an epoch; says whether it got through before the end of the run.
    fn epoch(
        &mut self,
        learner: &mut Learner<Seq2Seq>,
        train: &TrainLoader<Seq2Seq>,
    ) -> Result<bool, TrainError> {
        let interrupter = self.components.interrupter.clone();
        let epoch = self.state.epoch + 1;
        let updates = self.state.batch.div_ceil(self.setup.config.train.accumulate);
        self.progress.start_epoch(epoch, updates);
        self.event(LearnerEvent::StartSplit {
            epoch_number: epoch,
            total_items: train.num_items(),
        });
        let mut batches = train.iter();
        let mut whole = true;
        let mut began = Instant::now();
        loop {
            let group = batches.by_ref().take(self.setup.config.train.accumulate);
            let waiting = Instant::now();
            let group: Result<Vec<Seq2SeqBatch>, _> = group.collect();
            let waited = waiting.elapsed().as_secs_f64();
            let group = match group {
                Ok(group) => group,
                Err(error) => {
                    interrupter.fail(error);
                    break;
                }
            };
            if group.is_empty() {
                break;
            }
            if self.is_over() {
                whole = false;
                break;
            }
            let count = group.len();
            let step = self.state.step + 1;
            for device in &self.setup.devices {
                device.seed(step_seed(self.setup.config.train.seed, step));
            }

            let model = learner.model();
            let UpdateGradients { gradients, output, norm } =
                model.gradients(group, &self.setup.devices);
            drop(model);
            let not_finite = [("loss", output.loss_sum), ("gradient norm", norm)]
                .into_iter()
                .find(|(_, value)| !value.is_finite());
            if let Some((what, value)) = not_finite {
                let batch = self.state.batch + 1;
                let error = TrainError::NotFinite { what, step, epoch, batch, value };
                match self.setup.config.train.on_nonfinite {
                    OnNonFinite::Stop => return Err(error),
                    OnNonFinite::Skip => self.skip(error)?,
                }
                self.state.batch += count;
                continue;
            }
            self.skipped = 0;
            learner.lr_step();
            learner.optimizer_step(gradients);
            if let Some(average) = &mut self.average {
                average.update(&learner.model().valid(), step);
            }

            self.state.step = step;
            self.state.batch += count;
            let took = began.elapsed().as_secs_f64();
            let seconds = self.seconds();
            self.progress.step(output, step, seconds, took);
            let learning_rate = self.learning_rate().at(step);
            self.waited += waited;
            self.worked += took;
            let update =
                Update { step, epoch, seconds, took, waited, learning_rate, gradient_norm: norm };
            self.metrics.update(&output, update)?;
            self.event(LearnerEvent::ProcessedItem(TrainingItem::new(
                output,
                batches.progress(),
                Some(step),
                Some(learner.lr_current()),
            )));
            if self.is_stopped() {
                whole = false;
                break;
            }
            let every = self.setup.config.validation.every_steps;
            if every.is_some_and(|every| self.is_due(every)) {
                self.validate(learner)?;
            }
            let due = match self.setup.config.checkpoint.every {
                Interval::Steps(every) => step.is_multiple_of(every),
                Interval::Minutes(every) => self.seconds() - self.saved.seconds >= 60.0 * every,
                Interval::Epochs(_) => false,
            };
            if due {
                self.save(learner)?;
            }
            began = Instant::now();
        }
        drop(batches);
        self.event(LearnerEvent::EndSplit(epoch));
        failure(&interrupter).map_or(Ok(whole), Err)
    }

    /// Leaves a batch out, with a warning; an error if it is one too many in a row.
    fn skip(&mut self, error: TrainError) -> Result<(), TrainError> {
        self.skipped += 1;
        self.metrics.skip();
        if self.skipped == MOST_SKIPPED {
            return Err(TrainError::TooManySkipped { count: self.skipped, last: Box::new(error) });
        }
        self.progress.say(&format!("warning: {error}"));
        Ok(())
    }

    /// Whether the model is to be checked after this update, as after every so many.
    fn is_due(&self, every: usize) -> bool {
        let RunState { step, validated, .. } = self.state;
        step > 0 && step.is_multiple_of(every) && validated != Some(step)
    }

    /// Saves a checkpoint.
    fn save(&mut self, learner: &Learner<Seq2Seq>) -> Result<(), TrainError> {
        // A resumed run notes the updates after the checkpoint only.
        self.metrics.flush()?;
        self.state.seconds = self.seconds();
        let keep = self.setup.config.checkpoint.keep_last;
        let events = self.components.event_store.clone();
        let average = self.average.as_ref().map(MovingAverage::model);
        Checkpoints::of(&self.setup.run).save(learner, average, &self.state, keep, &events)?;
        self.saved = self.state.clone();
        Ok(())
    }

    /// Validates the model, and saves it if it is the best so far; reduces the learning rate where
    /// that is due. An interruption on the way leaves everything as it was.
    fn validate(&mut self, learner: &mut Learner<Seq2Seq>) -> Result<(), TrainError> {
        // Between two epochs, the model is that of the one before.
        let RunState { epoch, batch, .. } = self.state;
        let epoch = if batch == 0 && epoch > 0 { epoch } else { epoch + 1 };
        let model = match &self.average {
            Some(average) => average.model().clone(),
            None => learner.model().valid(),
        };
        let mut bundle = ModuleBundle {
            model: model.model.clone(),
            config: self.setup.config.model.clone(),
            tokenizers: self.setup.tokenizers.clone(),
            provenance: self.setup.provenance.clone(),
        };
        let (found, total) =
            match self.setup.validator.run(&model, bundle.clone(), &self.setup.stop) {
                Err(TrainError::Interrupted) => return Ok(()),
                validated => validated?,
            };

        let rank = found.rank(self.setup.config.validation.best_by);
        let is_best = self.state.best.is_none_or(|best| rank > best.rank);
        self.state.since_best = if is_best { 0 } else { self.state.since_best + 1 };
        let this = Best { epoch, step: self.state.step, rank };
        let is_kept = self.state.keep(this, self.setup.config.checkpoint.keep_best);
        if is_best {
            let step = self.state.step;
            self.state.best = Some(this);
            let mut scores = toml::Table::new();
            scores.insert("epoch".into(), (epoch as i64).into());
            scores.insert("step".into(), (step as i64).into());
            scores.insert("loss".into(), found.loss.into());
            scores.insert("accuracy".into(), found.accuracy.into());
            scores.insert("bleu".into(), found.bleu.into());
            scores.insert("bleu_signature".into(), found.bleu_signature.clone().into());
            scores.insert("chrf".into(), found.chrf.into());
            scores.insert("exact_match".into(), found.exact_match.into());
            bundle.provenance.insert("validation".into(), scores.into());
            bundle.save(&self.setup.run)?;
        }
        self.state.validated = Some(self.state.step);
        self.reduce_learning_rate(learner);
        let (step, seconds) = (self.state.step, self.seconds());
        self.progress.validated((epoch, step, seconds), &found, is_best);
        let perplexity = found.perplexity();
        let record = Record::Validation {
            step,
            epoch,
            seconds,
            best: is_best,
            found: found.clone(),
            perplexity,
        };
        self.metrics.write(&record)?;
        report::write(&self.setup.run)?;
        if self.is_out_of_patience() {
            let last = self.last_validations();
            self.progress.say(&format!("ending: the last {last} found no better model"));
        }
        *lock(&self.setup.validation) = Some(found);
        self.validation_event(epoch, total);
        if is_kept {
            self.save(learner)?;
        }
        Ok(())
    }

    /// After so many validations without a better model, where the schedule asks for it.
    fn reduce_learning_rate(&mut self, learner: &mut Learner<Seq2Seq>) {
        let OptimizationConfig { schedule, plateau_patience, .. } = self.setup.config.train;
        let since = self.state.since_best;
        let due = since > 0 && since.is_multiple_of(plateau_patience);
        if schedule == Schedule::ReduceOnPlateau && due {
            self.state.reductions += 1;
            let rate = self.learning_rate();
            learner.load_scheduler(rate.to_record());
            let next = rate.at(self.state.step + 1);
            let last = self.last_validations();
            self.progress.say(&format!(
                "learning rate: {next:.3e}, as the last {last} found no better model"
            ));
        }
    }

    /// Those since the best model, in words.
    fn last_validations(&self) -> String {
        match self.state.since_best {
            1 => "validation".into(),
            count => format!("{count} validations"),
        }
    }

    /// The schedule as it stands.
    fn learning_rate(&self) -> LearningRate {
        let reductions = i32::try_from(self.state.reductions).unwrap_or(i32::MAX);
        LearningRate {
            step: self.state.step,
            reduction: self.setup.config.train.plateau_factor.powi(reductions),
            ..self.setup.schedule.clone()
        }
    }

    /// Whether somebody wants the run to stop, by a signal or on the dashboard.
    fn is_stopped(&self) -> bool {
        let interrupter = &self.components.interrupter;
        if interrupter.should_stop() && interrupter.error().is_none() {
            self.setup.stop.store(true, Ordering::Relaxed);
        }
        self.setup.stop.load(Ordering::Relaxed)
    }

    /// Whether the last so many validations found nothing better.
    fn is_out_of_patience(&self) -> bool {
        self.setup.config.validation.patience.is_some_and(|most| self.state.since_best >= most)
    }

    fn is_over(&self) -> bool {
        self.is_stopped()
            || self.is_out_of_patience()
            || self.components.interrupter.should_stop()
            || self.state.epoch >= self.setup.config.train.epochs
            || self.setup.budget.is_spent(self.state.step, self.seconds())
    }

    fn seconds(&self) -> f64 {
        self.before + self.start.elapsed().as_secs_f64()
    }

    /// Tells Burn's metrics and loggers of a validation, as of one large batch.
    fn validation_event(&mut self, epoch: usize, total: StepOutput) {
        let progress = burn::data::dataloader::Progress::new(1, 1, None);
        for event in [
            LearnerEvent::StartSplit { epoch_number: epoch, total_items: 1 },
            LearnerEvent::ProcessedItem(TrainingItem::new(total, progress, None, None)),
            LearnerEvent::EndSplit(epoch),
        ] {
            let result = self.components.event_processor.process_valid(event);
            self.components.interrupter.fail_on_error(result);
        }
    }

    /// Tells Burn's metrics and loggers.
    fn event(&mut self, event: LearnerEvent<StepOutput>) {
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
