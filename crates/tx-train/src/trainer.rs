//! Training run: from a configuration to a trained bundle.

mod build;
mod encoder;
mod outcome;
mod prepare;
mod resume;
mod settings;

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use burn::tensor::Device;
use tx_data::{prepared::PreparedCorpus, source::named::CorpusCache};
use tx_infer::{TaskKind, bundle::WEIGHTS};

use self::{
    build::{Built, build},
    prepare::{Prepared, prepare},
    resume::load_state,
    settings::RunSettings,
};
use crate::{
    config::{CONFIG_FILE, ConfigBuilder, TrainConfig, table::differences},
    data::{PairData, labeled::LabeledData},
    error::TrainError,
    language_modeling::run::LanguageModelRun,
    masked_language_modeling::run::MaskedLanguageModelRun,
    ranks::Ranks,
    recording::{checkpoint::Checkpoints, run_lock::RunLock, run_state::RunState},
    reporting::{observer::Event, progress::ProgressMode, report},
    task::Task,
    task_run::TaskRun,
    training::{launch::launch, run_handle::RunResults},
};

pub use outcome::{Outcome, TaskValidation};
pub use resume::{OnMismatch, ResumeFrom};

/// Training run in a folder, on one or several devices.
///
/// ```no_run
/// use burn::tensor::Device;
/// use tx_train::{ConfigBuilder, Trainer};
///
/// let config = ConfigBuilder::from_recipe("reverse")?.build()?;
/// let outcome = Trainer::new(config, "runs/reverse", Device::flex()).run()?;
/// println!("{}", outcome.validation.unwrap().summary());
/// # Ok::<(), tx_train::TrainError>(())
/// ```
pub struct Trainer {
    settings: RunSettings,
    /// Checkpoint to resume from.
    resume: Option<Resume>,
}

/// Checkpoint to resume from.
struct Resume {
    state: RunState,
    on_mismatch: Option<OnMismatch>,
    /// Acquired before the checkpoint was read; `None` on ranks that write nothing.
    lock: Option<RunLock>,
}

impl Trainer {
    /// Creates a run in the folder `run`, which must contain neither a checkpoint nor a bundle.
    pub fn new(config: TrainConfig, run: impl Into<PathBuf>, device: Device) -> Self {
        Self { settings: RunSettings::new(config, run.into(), device), resume: None }
    }

    /// Resumes the run in `run` from one of its checkpoints. `change` may override values of its
    /// configuration, such as the budget. `on_mismatch` decides what applies if the configuration
    /// file or the data have changed since the checkpoint; without it, such a change is an error. The
    /// number of `ranks` may differ from that before.
    ///
    /// # Errors
    ///
    /// If there is no run, another process writes to its folder, its configuration cannot be read
    /// or has changed, or the checkpoint is damaged.
    pub fn resume(
        run: impl Into<PathBuf>,
        from: ResumeFrom,
        on_mismatch: Option<OnMismatch>,
        device: Device,
        ranks: Arc<dyn Ranks>,
        change: impl FnOnce(&mut ConfigBuilder) -> Result<(), TrainError>,
    ) -> Result<Self, TrainError> {
        let run = run.into();
        let path = run.join(CONFIG_FILE);
        if !path.is_file() {
            let reason = format!("`{CONFIG_FILE}` is missing");
            return Err(TrainError::NothingToResume { path: run, reason });
        }
        let lock = ranks.is_first().then(|| RunLock::acquire(&run)).transpose()?;
        let state = load_state(&run, from)?;
        let mut builder = match on_mismatch {
            Some(OnMismatch::Old) => ConfigBuilder::from_config(&state.config)?,
            Some(OnMismatch::New) | None => ConfigBuilder::from_file(&path)?,
        };
        check_task(&builder, &state)?;
        if on_mismatch.is_none() {
            let differences = differences(&state.config, &builder.clone().build()?)?;
            if !differences.is_empty() {
                return Err(TrainError::ConfigChanged { path, differences });
            }
        }
        change(&mut builder)?;
        check_task(&builder, &state)?;
        let config = builder.build()?;
        if config.from != state.config.from {
            let problem = "`from`: a resumed run keeps the bundle that it started from".into();
            return Err(TrainError::Problems { problems: vec![problem] });
        }
        let resume = Some(Resume { state, on_mismatch, lock });
        Ok(Self { resume, ..Self::new(config, run, device) }.with_ranks(ranks))
    }

    /// Returns the configuration of the run.
    pub fn config(&self) -> &TrainConfig {
        &self.settings.config
    }

    /// Adds devices among which the batches of an update are divided. Their number,
    /// `train.accumulate`, must be a multiple of the number of devices.
    pub fn with_devices(mut self, others: Vec<Device>) -> Self {
        self.settings.others = others;
        self
    }

    /// Sets the ranks among which the batches of an update are divided; by default this process is the
    /// only one. Every rank must have the same configuration and data, and see the same run folder, to
    /// which only the first writes. `train.accumulate` must be a multiple of the number of devices of
    /// all ranks.
    pub fn with_ranks(mut self, ranks: Arc<dyn Ranks>) -> Self {
        self.settings.ranks = ranks;
        self
    }

    /// Reads named corpora from `corpora`; by default there is no cache.
    pub fn with_corpora(mut self, corpora: Option<CorpusCache>) -> Self {
        self.settings.corpora = corpora;
        self
    }

    /// Sets a flag that interrupts the run. While data is prepared, the run ends as soon as
    /// possible; afterwards it ends after the current update or validation batch, with a
    /// checkpoint.
    pub fn with_interrupt(mut self, stop: Arc<AtomicBool>) -> Self {
        self.settings.stop = stop;
        self
    }

    /// Calls `observer` after every update and every validation.
    ///
    /// ```no_run
    /// use std::ops::ControlFlow;
    ///
    /// use burn::tensor::Device;
    /// use tx_train::{ConfigBuilder, Trainer, reporting::observer::Event};
    ///
    /// let config = ConfigBuilder::from_recipe("reverse")?.build()?;
    /// let trainer = Trainer::new(config, "runs/reverse", Device::flex());
    /// let outcome = trainer
    ///     .with_observer(|event| match event {
    ///         Event::Update(update) if update.step == 100 => ControlFlow::Break(()),
    ///         _ => ControlFlow::Continue(()),
    ///     })
    ///     .run()?;
    /// assert!(outcome.interrupted);
    /// # Ok::<(), tx_train::TrainError>(())
    /// ```
    pub fn with_observer(
        mut self,
        observer: impl Fn(&Event) -> ControlFlow<()> + Send + Sync + 'static,
    ) -> Self {
        self.settings.observer = Some(Arc::new(observer));
        self
    }

    /// Sets the display of progress; the default is [`ProgressMode::Lines`].
    pub fn with_progress(mut self, progress: ProgressMode) -> Self {
        self.settings.progress = progress;
        self
    }

    /// Trains until the budget is spent.
    ///
    /// Runs of one process on one device share its random numbers. Runs at the same time are therefore
    /// not reproducible, and not resumed exactly; give each a process of its own.
    ///
    /// # Errors
    ///
    /// If another process writes to the run folder, the data cannot be used, a file cannot be
    /// written, or the loss is not finite. The best model and the last checkpoint are kept. If a rank
    /// fails, the others wait for it until their process is ended.
    pub fn run(self) -> Result<Outcome, TrainError> {
        // Runs in a thread of the pool that the kernels use, because each of the hundreds of
        // handovers per update from another thread would cost two context switches.
        rayon::scope(|_| match self.settings.config.task {
            TaskKind::Translate => self.run_task::<PairData>(),
            TaskKind::Classify => self.run_task::<LabeledData>(),
            TaskKind::Generate => self.run_task::<LanguageModelRun>(),
            TaskKind::FillMask => self.run_task::<MaskedLanguageModelRun>(),
        })
    }

    fn run_task<R: TaskRun>(self) -> Result<Outcome, TrainError>
    where
        TaskValidation: From<<R::Task as Task>::Report>,
    {
        let Self { settings, resume } = self;
        settings.check()?;
        let ranks = settings.ranks.clone();
        let (resume, _lock) = match resume {
            Some(Resume { state, on_mismatch, lock }) => (Some((state, on_mismatch)), lock),
            None if ranks.is_first() => (None, Some(lock_new(&settings.run)?)),
            None => (None, None),
        };
        let is_resumed = resume.is_some();
        let (state, on_mismatch) = resume.unwrap_or_default();
        // If the folder of prepared data is not complete, the first rank creates it and the others
        // wait. Every rank waits once, before or after, so ranks may disagree on this.
        let is_created = |folder: &PathBuf| !PreparedCorpus::exists(folder);
        let is_later =
            !ranks.is_first() && settings.config.data.prepared.as_ref().is_some_and(is_created);
        if is_later {
            ranks.wait();
        }
        let prepared: Prepared<R> = match prepare(&settings, state.clone(), is_resumed, on_mismatch)
        {
            Err(TrainError::Interrupted) if ranks.count() == 1 => {
                return outcome(settings.run, state, None, Vec::new(), true);
            }
            prepared => prepared?,
        };
        if !is_later {
            ranks.wait();
        }
        // Every rank has read the state of the run, which the first may change now.
        ranks.wait();
        let Built { setup, learner, train, valid, examples } =
            build(&settings, prepared, is_resumed)?;
        // Every rank has loaded the checkpoint, which the first may remove now.
        ranks.wait();
        let RunResults { state, interrupted, validation, .. } =
            launch(setup, learner, train, valid)?;
        if ranks.is_first() {
            report::write(&settings.run)?;
        }
        // A rank that ends, as after a signal, must not end the others before they are finished.
        ranks.wait();
        outcome(settings.run, state, validation.map(Into::into), examples, interrupted)
    }
}

/// Checks that a configuration has the task of the checkpoint. It precedes all other rules, which
/// depend on the task.
fn check_task(builder: &ConfigBuilder, state: &RunState) -> Result<(), TrainError> {
    let expected = state.config.task;
    match builder.task() {
        Some(found) if found != expected => Err(TrainError::OtherTask { found, expected }),
        _ => Ok(()),
    }
}

fn outcome(
    run: PathBuf,
    state: RunState,
    validation: Option<TaskValidation>,
    examples: Vec<String>,
    interrupted: bool,
) -> Result<Outcome, TrainError> {
    let checkpoint = Checkpoints::of(&run).steps()?.pop();
    Ok(Outcome { run, state, validation, examples, interrupted, checkpoint })
}

/// Creates and locks the folder of a new run. A run without checkpoint and bundle may be started
/// over.
fn lock_new(run: &Path) -> Result<RunLock, TrainError> {
    fs::create_dir_all(run).map_err(TrainError::writing(run))?;
    let lock = RunLock::acquire(run)?;
    let resumable = !Checkpoints::of(run).steps()?.is_empty();
    if resumable || run.join(WEIGHTS).exists() {
        return Err(TrainError::RunExists { path: run.into(), resumable });
    }
    Ok(lock)
}
