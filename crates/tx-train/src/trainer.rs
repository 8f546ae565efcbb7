//! From a configuration to a trained bundle.

use std::{
    fs,
    io::{self, IsTerminal},
    iter::once,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use burn::{
    module::Module,
    tensor::Device,
    train::{Learner, SupervisedTraining, TrainingStrategy},
};
use tx_data::{CleaningReport, PairLoader, source::named::CorpusCache};
use tx_infer::{
    bundle::{WEIGHTS, save_tokenizers, saved_tokenizers},
    file::write_whole,
};
use tx_model::Transformer;
use tx_text::{BpeDropout, Tokenizers};

use crate::{
    adam::Adam,
    checkpoint::{Checkpoints, RunState},
    config::TrainConfig,
    corpus,
    dashboard::on_dashboard,
    data::RunData,
    ema::MovingAverage,
    error::TrainError,
    memory::Memory,
    progress::{Budget, Show, print},
    recipe::Layers,
    report,
    run_lock::RunLock,
    schedule::LearningRate,
    settings::differences,
    silent::Silent,
    step::Seq2Seq,
    strategy::{TrainingLoop, lock},
    validate::{Validation, Validator},
};

/// The configuration of a run, in its folder.
pub(crate) const CONFIG: &str = "train.toml";

/// A training run: a configuration, a folder and a device.
///
/// ```no_run
/// use burn::tensor::Device;
/// use tx_train::{Layers, Trainer};
///
/// let config = Layers::recipe("reverse")?.finish()?;
/// let outcome = Trainer::new(config, "runs/reverse", Device::flex()).run()?;
/// println!("{} words reversed exactly", outcome.validation.unwrap().exact_match);
/// # Ok::<(), tx_train::TrainError>(())
/// ```
pub struct Trainer {
    config: TrainConfig,
    run: PathBuf,
    device: Device,
    /// Which share the work.
    others: Vec<Device>,
    show: Show,
    /// Where the run stood at the checkpoint that it goes on from.
    resume: Option<RunState>,
    take: Option<Take>,
    stop: Arc<AtomicBool>,
    /// Fetched files of named corpora.
    corpora: Option<CorpusCache>,
    /// Of a resumed run, from before its checkpoint was read.
    lock: Option<RunLock>,
}

/// What a run goes on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeFrom {
    /// The last checkpoint.
    Last,
    /// The checkpoint after this update; those after it are dropped.
    Step(usize),
}

/// What counts when a run goes on and its configuration or data have changed since the checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// The configuration of the checkpoint. Changed data is refused: nobody has the old any more.
    Old,
    /// Configuration and data as they are now; the tokenizers stay those of the run.
    New,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The folder of the run, which is a bundle too.
    pub run: PathBuf,
    /// Where the run stands.
    pub state: RunState,
    /// The last validation.
    pub validation: Option<Validation>,
    /// A few validation sources, to try the bundle on.
    pub examples: Vec<String>,
    /// Whether the run was interrupted.
    pub stopped: bool,
    /// The update of the last checkpoint, to resume from; none if there is none yet.
    pub checkpoint: Option<usize>,
}

impl Trainer {
    /// A new run in the folder `run`, which must hold neither a checkpoint nor a bundle.
    pub fn new(config: TrainConfig, run: impl Into<PathBuf>, device: Device) -> Self {
        Self {
            config,
            run: run.into(),
            device,
            others: Vec::new(),
            show: Show::Lines,
            resume: None,
            take: None,
            stop: Arc::default(),
            corpora: None,
            lock: None,
        }
    }

    /// The configuration.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// Goes on with the run in `run` from one of its checkpoints; `change` may lay settings over
    /// its configuration, such as a larger budget. `take` says what counts where configuration or
    /// data have changed since by other means.
    ///
    /// # Errors
    ///
    /// When there is no run, another process writes to its folder, its configuration cannot be read or
    /// has changed, or the checkpoint is damaged.
    pub fn resume(
        run: impl Into<PathBuf>,
        from: ResumeFrom,
        take: Option<Take>,
        device: Device,
        change: impl FnOnce(&mut Layers) -> Result<(), TrainError>,
    ) -> Result<Self, TrainError> {
        let run = run.into();
        let path = run.join(CONFIG);
        if !path.is_file() {
            let reason = format!("it has no `{CONFIG}`");
            return Err(TrainError::NothingToResume { path: run, reason });
        }
        let lock = Some(RunLock::take(&run)?);
        let state = resumed(&run, from)?;
        let mut layers = match take {
            Some(Take::Old) => Layers::config(&state.config)?,
            _ => Layers::file(&path)?,
        };
        if take.is_none() {
            let differences = differences(&state.config, &layers.clone().finish()?)
                .map_err(|error| unwritable(&path, error))?;
            if !differences.is_empty() {
                return Err(TrainError::ConfigChanged { path, differences });
            }
        }
        change(&mut layers)?;
        Ok(Self { resume: Some(state), take, lock, ..Self::new(layers.finish()?, run, device) })
    }

    /// Shares the batches of an update, `train.accumulate` of them, with `others` too. Their number
    /// must be a multiple of that of the devices.
    pub fn share_with(self, others: Vec<Device>) -> Self {
        Self { others, ..self }
    }

    /// Ends the run once `stop` is set: while data is prepared, as soon as that can be left; then after
    /// the update or the validation batch under way, with a checkpoint to resume from.
    pub fn stop_when(self, stop: Arc<AtomicBool>) -> Self {
        Self { stop, ..self }
    }

    /// Reads named corpora from `corpora`; by default there is no cache.
    pub fn corpora(self, corpora: Option<CorpusCache>) -> Self {
        Self { corpora, ..self }
    }

    /// What a person sees while it works; lines, if not told.
    pub fn show(self, show: Show) -> Self {
        Self { show, ..self }
    }

    /// Trains until the budget is spent.
    ///
    /// # Errors
    ///
    /// When another process writes to the run folder, the data cannot be used, a file cannot be
    /// written, or the loss is not finite. The best model and the last checkpoint stay.
    pub fn run(self) -> Result<Outcome, TrainError> {
        // In a thread of the pool that the kernels share their work with: handing work over from
        // any other thread costs two switches of threads each time, and there are hundreds a step.
        rayon::scope(|_| self.run_here())
    }

    fn run_here(self) -> Result<Outcome, TrainError> {
        let Self { config, run, device, others, show, resume, take, stop, corpora, lock: locked } =
            self;
        if show == Show::Dashboard && !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
            return Err(TrainError::NoTerminal);
        }
        let mut problems = config.problems();
        let devices = 1 + others.len();
        if !config.train.accumulate.is_multiple_of(devices) {
            problems.push(format!(
                "[train] `accumulate` = {} batches an update cannot be shared evenly by {devices} \
                 devices: choose a multiple",
                config.train.accumulate
            ));
        }
        if !problems.is_empty() {
            return Err(TrainError::Problems { problems });
        }
        let say = |line: &str| {
            if show != Show::Nothing {
                print(line);
            }
        };
        let resumes = resume.is_some();
        // Held until the run ends.
        let _lock = match locked {
            Some(lock) => lock,
            None => lock_new(&run)?,
        };
        let mut state = resume.unwrap_or_default();
        let known = if resumes { Some(known_tokenizers(&run)?) } else { None };
        let data = match RunData::new(&config, known, corpora.as_ref(), &stop, &say) {
            Err(TrainError::Interrupted) => {
                let checkpoint = Checkpoints::of(&run).steps()?.pop();
                let (validation, examples) = (None, Vec::new());
                return Ok(Outcome { run, state, validation, examples, stopped: true, checkpoint });
            }
            data => data?,
        };
        let changed = resumes && take_over(&mut state, &config, &data, take, &say)?;
        let RunData {
            training_pairs,
            validation: valid_pairs,
            fingerprints,
            cleaning,
            tokenizers,
            vocab,
            train,
            valid,
            ..
        } = data;
        (state.data, state.validation_data) = (fingerprints.training, fingerprints.validation);
        state.config = config.clone();

        let plain = device.clone().inner();
        let autodiff = plain.clone().autodiff();
        let (seed, batch) = (config.train.seed, config.train.batch);
        let mut train = PairLoader::training(train, batch, seed, autodiff.clone())
            .grouped(config.train.grouping)
            .dropping_words(config.train.word_dropout);
        if config.train.bpe_dropout > 0.0 {
            let share = config.train.bpe_dropout;
            train = train.dropping_merges(BpeDropout::new(&tokenizers, share, config.max_len())?);
        }
        let valid = Arc::new(PairLoader::validation(valid, batch, plain.clone()));
        // Of the first epoch also when resuming: others may differ, and the schedule must not.
        let updates = train.batches().div_ceil(config.train.accumulate);
        let budget = Budget::new(&config, updates);
        let largest = train.largest_batch();
        let train = train.starting_at(state.epoch + 1, state.batch);

        autodiff.seed(seed);
        let model = Transformer::new(&config.model, config.model.padded(vocab), &autodiff)?;
        let seq2seq = Seq2Seq::new(model, config.train.label_smoothing, config.train.clip_norm);
        say(&format!(
            "model: {} parameters; {} updates an epoch",
            seq2seq.num_params(),
            budget.batches
        ));
        let memory = Memory::estimate(
            &config.model,
            seq2seq.num_params(),
            config.model.padded(vocab).target,
            largest,
            config.train.ema_decay > 0.0,
        );
        say(&format!("memory: {memory}"));
        let provenance =
            provenance(&config, &state, training_pairs, valid_pairs.len(), cleaning.as_ref());
        let mut learner =
            Learner::new(seq2seq, Adam::new(&config.train).into(), schedule(&config, budget));
        let mut averaged = learner.model().valid();
        if resumes {
            let checkpoints = Checkpoints::of(&run);
            checkpoints.load(state.step, &mut learner)?;
            if let Some(found) = checkpoints.average(state.step, learner.model().valid())? {
                averaged = found;
            }
            state.kept.retain(|best| best.step <= state.step);
            checkpoints.drop_after(state.step)?;
            if changed {
                checkpoints.note(&state)?;
            }
            let within = match state.batch {
                0 => String::new(),
                batch => format!(" and {batch} batches"),
            };
            say(&format!("resuming after epoch {}{within} (update {})", state.epoch, state.step));
        }
        if !resumes {
            // Before any checkpoint: without them its weights would be useless.
            save_tokenizers(&run, &tokenizers)?;
        }
        write_config(&config, &run)?;
        let decay = config.train.ema_decay;
        let average = (decay > 0.0).then(|| MovingAverage::new(decay, averaged));

        let state = Arc::new(Mutex::new(state));
        let validation = Arc::new(Mutex::new(None));
        let held = Arc::new(Mutex::new(Vec::new()));
        let error = Arc::new(Mutex::new(None));
        let strategy = TrainingLoop {
            validator: Validator::new(
                valid.clone(),
                &valid_pairs,
                &config.validation,
                config.tokenizer.lowercase == tx_text::Lowercase::Both,
                &plain,
            )
            .with_batch_tokens(largest[0]),
            run: run.clone(),
            devices: once(autodiff)
                .chain(others.into_iter().map(|device| device.inner().autodiff()))
                .collect(),
            budget,
            tokenizers,
            provenance,
            schedule: schedule(&config, budget),
            average: Mutex::new(average),
            show,
            held: held.clone(),
            stop: stop.clone(),
            state: state.clone(),
            validation: validation.clone(),
            error: error.clone(),
            config: config.clone(),
        };
        let training = SupervisedTraining::new(&run, Arc::new(train), valid)
            .with_training_strategy(TrainingStrategy::Custom(Arc::new(strategy)))
            .with_application_logger(None)
            .num_epochs(budget.steps().div_ceil(updates.max(1)));
        let training = match show {
            Show::Dashboard => on_dashboard(training, validation.clone()),
            Show::Lines | Show::Nothing => training.renderer(Box::new(Silent)),
        };
        let result = training.launch(learner);
        // Which closes the dashboard.
        drop(result.renderer);
        lock(&held).iter().for_each(|line| print(line));
        if let Some(error) = lock(&error).take() {
            return Err(error);
        }
        if let Some(error) = result.error {
            return Err(TrainError::Learner(error));
        }
        report::write(&run)?;
        let examples = valid_pairs.into_iter().take(3).map(|pair| pair.source).collect();
        let (state, validation) = (lock(&state).clone(), lock(&validation).clone());
        let stopped = stop.load(Ordering::Relaxed);
        let checkpoint = Checkpoints::of(&run).steps()?.pop();
        Ok(Outcome { run, state, validation, examples, stopped, checkpoint })
    }
}

/// Locks the folder of a new run, which is made if need be. A run that has left neither a checkpoint
/// nor a bundle there may be started over.
fn lock_new(run: &Path) -> Result<RunLock, TrainError> {
    fs::create_dir_all(run).map_err(|source| TrainError::Write { path: run.into(), source })?;
    let lock = RunLock::take(run)?;
    let resumable = !Checkpoints::of(run).steps()?.is_empty();
    if resumable || run.join(WEIGHTS).exists() {
        return Err(TrainError::RunExists { path: run.into(), resumable });
    }
    Ok(lock)
}

/// The tokenizers of a run to resume. Training them anew could give other ids than the weights were
/// trained with.
fn known_tokenizers(run: &Path) -> Result<Tokenizers, TrainError> {
    saved_tokenizers(run)?.ok_or_else(|| TrainError::NothingToResume {
        path: run.into(),
        reason: "its tokenizers (`source.tokenizer.json`, `target.tokenizer.json`) are missing"
            .into(),
    })
}

/// Fits the state of a checkpoint to the configuration and data that the run resumes with; says whether
/// they have changed.
///
/// # Errors
///
/// When the data has changed and may not.
fn take_over(
    state: &mut RunState,
    config: &TrainConfig,
    data: &RunData,
    take: Option<Take>,
    say: &dyn Fn(&str),
) -> Result<bool, TrainError> {
    let now = &data.fingerprints;
    // Older checkpoints have one fingerprint of both parts.
    let is_older = state.validation_data.is_empty();
    let training = if is_older { &now.together } else { &now.training };
    let same_training = state.data == *training;
    let same_validation =
        if is_older { same_training } else { state.validation_data == now.validation };
    for (part, same, found, expected) in [
        ("training", same_training, training, &state.data),
        ("validation", same_validation, &now.validation, &state.validation_data),
    ] {
        if !same && take != Some(Take::New) {
            let (found, expected) = (found.clone(), expected.clone());
            return Err(TrainError::DataChanged { part, found, expected });
        }
    }
    let before = &state.config;
    let same_batches = same_training
        && before.train.batch == config.train.batch
        && before.train.grouping == config.train.grouping
        && before.train.seed == config.train.seed
        && before.max_len() == config.max_len()
        && before.data.long == config.data.long;
    let comparable = same_validation
        && before.validation.is_comparable(&config.validation, data.validation_pairs);
    let changed = !same_training || !same_validation || before != config;
    if !same_batches && state.batch > 0 {
        say(&format!(
            "the batches are others than at the checkpoint: epoch {} starts over",
            state.epoch + 1
        ));
        state.batch = 0;
    }
    if !comparable && state.best.is_some() {
        say(
            "validation is another than at the checkpoint: the best model so far is forgotten, and the \
             next validated model replaces it",
        );
        state.forget_best();
    }
    Ok(changed)
}

/// Where the run in `run` stood at one of its checkpoints.
fn resumed(run: &Path, from: ResumeFrom) -> Result<RunState, TrainError> {
    let checkpoints = Checkpoints::of(run);
    let steps = checkpoints.steps()?;
    let nothing = |reason| TrainError::NothingToResume { path: run.into(), reason };
    let step = match from {
        ResumeFrom::Last => {
            *steps.last().ok_or_else(|| nothing("it has no checkpoint yet".into()))?
        }
        ResumeFrom::Step(step) if steps.contains(&step) => step,
        ResumeFrom::Step(step) => {
            let steps: Vec<String> = steps.iter().map(usize::to_string).collect();
            return Err(nothing(format!(
                "it has no checkpoint of update {step}, but of: {}",
                steps.join(", ")
            )));
        }
    };
    checkpoints.state(step)
}

fn schedule(config: &TrainConfig, budget: Budget) -> LearningRate {
    LearningRate {
        schedule: config.train.schedule,
        peak: config.train.learning_rate,
        warmup_steps: config.train.warmup_steps,
        total_steps: budget.steps(),
        d_model: config.model.d_model,
        step: 0,
        reduction: 1.0,
    }
}

fn write_config(config: &TrainConfig, run: &Path) -> Result<(), TrainError> {
    let path = run.join(CONFIG);
    let text = toml::to_string(config).map_err(|error| unwritable(&path, error))?;
    fs::create_dir_all(run)
        .and_then(|()| write_whole(&path, text.as_bytes()))
        .map_err(|source| TrainError::Write { path, source })
}

/// A configuration that has no form in TOML.
fn unwritable(path: &Path, error: toml::ser::Error) -> TrainError {
    TrainError::Write { path: path.into(), source: io::Error::other(error) }
}

/// Where the bundle comes from, for people to read.
fn provenance(
    config: &TrainConfig,
    state: &RunState,
    train_pairs: usize,
    valid_pairs: usize,
    cleaning: Option<&CleaningReport>,
) -> toml::Table {
    let mut table = toml::Table::new();
    let mut put = |key: &str, value: Option<toml::Value>| {
        if let Some(value) = value {
            table.insert(key.into(), value);
        }
    };
    put("tx_version", Some(env!("CARGO_PKG_VERSION").into()));
    put("recipe", config.recipe.clone().map(Into::into));
    put("corpus", corpus::request(&config.data).map(|request| request.name.into()));
    put("source_language", config.data.source_language.clone().map(Into::into));
    put("target_language", config.data.target_language.clone().map(Into::into));
    put("training_pairs", Some((train_pairs as i64).into()));
    put("validation_pairs", Some((valid_pairs as i64).into()));
    put("data", Some(state.data.clone().into()));
    put("validation_data", Some(state.validation_data.clone().into()));
    put("seed", Some((config.train.seed as i64).into()));
    put("cleaning", cleaning.and_then(|report| toml::Value::try_from(report).ok()));
    table
}
