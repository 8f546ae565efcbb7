//! Parts of a run, built from its configuration and data: loaders, model, optimizer and training
//! loop.

use std::{iter::once, sync::Arc};

use burn::{
    module::Module,
    tensor::Device,
    train::{Learner, TrainLoader, ValidLoader},
};
use tx_data::noise::Kind;
use tx_infer::{GlossaryUse, LexiconUse, ModelTask, SearchOptions, bundle::save_tokenizers};
use tx_model::kernels::flattened;

use super::{
    encoder::{continue_bundle, start_from_bundle},
    prepare::Prepared,
    settings::RunSettings,
};
use crate::{
    bundle_parts::BundleParts,
    config::{Budget, DataSource, TrainConfig},
    data::DataSummary,
    error::TrainError,
    fine_tuning::{
        lineage::Lineage,
        selection::{Parameters, select_weights},
    },
    memory::Memory,
    recording::{checkpoint::Checkpoints, metrics::Metrics, run_state::RunState},
    reporting::progress::ProgressMode,
    task::Trainable,
    task_run::{ModelOf, TaskParts, TaskRun},
    training::{
        ema::MovingAverage, optimizer::optimizer, schedule::LearningRate, training_loop::LoopSetup,
    },
};

/// Run that is ready to launch.
pub(super) struct Built<R: TaskRun> {
    pub setup: LoopSetup<R::Task>,
    pub learner: Learner<ModelOf<R>>,
    pub train: TrainLoader<ModelOf<R>>,
    pub valid: ValidLoader<ModelOf<R>>,
    /// First validation inputs.
    pub examples: Vec<String>,
}

/// Builds loaders, model, optimizer and training loop, and loads the checkpoint of a resumed run.
/// The first rank writes configuration and tokenizers into the run folder.
///
/// # Errors
///
/// If a file cannot be read or written, or the checkpoint belongs to another model.
pub(super) fn build<R: TaskRun>(
    settings: &RunSettings,
    prepared: Prepared<R>,
    is_resumed: bool,
) -> Result<Built<R>, TrainError> {
    let Prepared { data, mut state, is_changed, lineage } = prepared;
    let RunSettings { config, run, .. } = settings;
    let plain = settings.device.clone().inner();
    let autodiff = plain.clone().autodiff();

    let train = data.training_loader(config, &autodiff)?;
    let valid = Arc::new(data.validation_loader(config, &plain)?);
    // The number of updates is that of the first epoch, even in a resumed run: later epochs may
    // have other numbers, but the schedule must not change.
    let budget = Budget::new(config, train.batches().div_ceil(config.train.accumulate));
    let largest = train.largest_batch();
    let ranks = &settings.ranks;
    let train =
        train.resume_from(state.epoch + 1, state.batch).with_share(ranks.rank(), ranks.count());

    let task = data.model_task(config);
    let (mut model, parameters) =
        init_model(settings, &data, &task, &budget, largest, is_resumed, &autodiff)?;
    let summary = data.summary();
    let provenance = provenance(config, &state, summary, &parameters, lineage.as_ref());
    let rate = LearningRate::of_run(config, &budget);
    if is_resumed {
        model = Checkpoints::of(run).model(state.step, model)?;
    }
    // As after an update, so that the first one computes with the same kernels as the others.
    let mut learner = Learner::new(flattened(model), optimizer(config), rate.clone());
    let mut average = None;
    if is_resumed {
        average = load_checkpoint(settings, &mut state, &mut learner, is_changed)?;
    } else if ranks.is_first() {
        // Saved before any checkpoint, whose weights would be useless without them.
        save_tokenizers(run, config.task, &summary.tokenizers)?;
        lineage.as_ref().map_or(Ok(()), |lineage| lineage.save(run))?;
    }
    if ranks.is_first() {
        config.save(run)?;
    }
    let decay = config.train.ema_decay;
    let average = (decay > 0.0).then(|| {
        let model = average.unwrap_or_else(|| learner.model().valid());
        MovingAverage::new(decay, model, parameters.is_trained)
    });

    let open = || Metrics::open(run, &state, config.metrics.every_steps, autodiff.clone());
    let metrics = ranks.is_first().then(open).transpose()?;
    let examples = data.examples(config);
    let bundle = BundleParts {
        task,
        config: config.model.clone(),
        tokenizers: summary.tokenizers.clone(),
        languages: lineage
            .as_ref()
            .and_then(|lineage| lineage.languages.clone())
            .or_else(|| summary.languages.clone()),
        context: config.data.context,
        search: search_options(
            config,
            summary.lexicon.is_some(),
            lineage.and_then(|lineage| lineage.search),
        ),
        lexicon: summary.lexicon.clone(),
        provenance,
    };
    let parts =
        TaskParts { validation: valid.clone(), batch_tokens: largest[0], bundle, device: plain };
    let task = data.into_task(config, parts)?;
    let others = settings.others.iter().map(|device| device.clone().inner().autodiff());
    let setup = LoopSetup {
        task,
        config: config.clone(),
        run: run.clone(),
        devices: once(autodiff).chain(others).collect(),
        budget,
        rate,
        average,
        state,
        metrics,
        progress: if ranks.is_first() { settings.progress } else { ProgressMode::Quiet },
        ranks: ranks.clone(),
        stop: settings.stop.clone(),
        observer: settings.observer.clone(),
    };
    Ok(Built { setup, learner, train: Arc::new(train), valid, examples })
}

/// Initializes the model, from a bundle or its encoder if the configuration names one, and prints
/// its size and the memory for its training.
fn init_model<R: TaskRun>(
    settings: &RunSettings,
    data: &R,
    task: &ModelTask,
    budget: &Budget,
    largest_batch: [usize; 2],
    is_resumed: bool,
    device: &Device,
) -> Result<(ModelOf<R>, Parameters), TrainError> {
    let config = &settings.config;
    device.seed(config.train.seed);
    let mut model = data.init(config, device)?;
    if let Some(folder) = config.model.encoder_from.as_ref().filter(|_| !is_resumed) {
        let print = |line: &str| settings.print(line);
        model = start_from_bundle(model, &config.model, task, folder, &print)?;
    }
    if let Some(parent) = config.from.as_ref().filter(|_| !is_resumed) {
        model = continue_bundle(model, task, &parent.path, &|line| settings.print(line))?;
    }
    let model = data.with_loss(select_weights(model, config), config, device)?;
    let parameters = Parameters::of(&model);
    let precision = config.train.precision;
    if let Ok(Some(instructions)) = precision.instructions() {
        settings.print(&format!("matrix products: {precision}, with {instructions}"));
    }
    settings.print(&format!("model: {parameters}; {} updates an epoch", budget.batches));
    let averaged = config.train.ema_decay > 0.0;
    let vocab = config.model.padded(data.summary().vocab());
    // R-Drop computes a batch twice.
    let passes = if config.train.r_drop > 0.0 { 2 } else { 1 };
    let memory = Memory::estimate(
        &config.model,
        task.architecture(),
        [parameters.all, parameters.trained],
        vocab.target,
        largest_batch.map(|tokens| passes * tokens),
        averaged,
    );
    settings.print(&format!("memory: {memory}"));
    Ok((model, parameters))
}

/// Loads the optimizer of the checkpoint of `state` into `learner`, which has its weights, and removes later
/// checkpoints as the first rank. Returns the model with the moving average of the weights, if the run kept one.
fn load_checkpoint<M: Trainable>(
    settings: &RunSettings,
    state: &mut RunState,
    learner: &mut Learner<M>,
    is_changed: bool,
) -> Result<Option<M>, TrainError> {
    let checkpoints = Checkpoints::of(&settings.run);
    checkpoints.load_optimizer(state.step, learner)?;
    let average = checkpoints.average(state.step, learner.model().valid())?;
    state.kept.retain(|best| best.step <= state.step);
    if settings.ranks.is_first() {
        checkpoints.remove_after(state.step)?;
        if is_changed {
            checkpoints.update_state(state)?;
        }
    }
    let within = match state.batch {
        0 => String::new(),
        batch => format!(" and {batch} batches"),
    };
    let RunState { epoch, step, .. } = state;
    settings.print(&format!("resuming after epoch {epoch}{within} (update {step})"));
    Ok(average)
}

/// Returns the default search options of a bundle: those of the `parent` that the run continues,
/// the decoder layer that guided alignment trains, the use of glossaries that noise trains, and that of a lexicon, if
/// the bundle has one.
fn search_options(
    config: &TrainConfig,
    has_lexicon: bool,
    parent: Option<SearchOptions>,
) -> Option<SearchOptions> {
    let guided = config.train.guided_alignment.as_ref();
    let trains_terms = config.data.noise.share(Kind::Terms) > 0.0;
    if guided.is_none() && !trains_terms && !has_lexicon {
        return parent;
    }
    let mut options = parent.unwrap_or_default();
    if let Some(guided) = guided {
        options.attention_layer = Some(guided.layer_of(config.model.decoder_layers));
    }
    if trains_terms {
        options.glossary = GlossaryUse::Inline;
    }
    if has_lexicon {
        options.lexicon = LexiconUse::Both;
    }
    Some(options)
}

/// Returns the origin of a bundle, for information.
fn provenance(
    config: &TrainConfig,
    state: &RunState,
    summary: &DataSummary,
    parameters: &Parameters,
    lineage: Option<&Lineage>,
) -> toml::Table {
    let mut table = toml::Table::new();
    let mut put = |key: &str, value: Option<toml::Value>| {
        if let Some(value) = value {
            table.insert(key.into(), value);
        }
    };
    put("tx_version", Some(env!("CARGO_PKG_VERSION").into()));
    put("recipe", config.recipe.clone().map(Into::into));
    if let DataSource::Named(name) = &config.data.source {
        put("corpus", Some(name.clone().into()));
    }
    put("source_language", config.data.source_language.clone().map(Into::into));
    put("target_language", config.data.target_language.clone().map(Into::into));
    let DataSummary { unit, training, validation, cleaning, replay, corpora, .. } = summary;
    put(&format!("training_{unit}"), Some((*training as i64).into()));
    put(&format!("validation_{unit}"), Some((validation.used as i64).into()));
    put("replay_pairs", replay.map(|replay| (replay.pairs as i64).into()));
    put("replay_pairs_per_epoch", replay.map(|replay| (replay.per_epoch as i64).into()));
    put("data", Some(state.data.clone().into()));
    put("validation_data", Some(state.validation_data.clone().into()));
    put("seed", Some((config.train.seed as i64).into()));
    let encoder = config.model.encoder_from.as_ref();
    put("encoder_from", encoder.map(|folder| folder.to_string_lossy().into_owned().into()));
    let mixture = (!corpora.is_empty()).then(|| toml::Value::try_from(corpora).ok()).flatten();
    put("corpora", mixture);
    put("cleaning", cleaning.as_ref().and_then(|report| toml::Value::try_from(report).ok()));
    table.insert("parameters".into(), (parameters.all as i64).into());
    table.insert("trained_parameters".into(), (parameters.trained as i64).into());
    if let Some(lineage) = lineage {
        lineage.add_to(&mut table);
    }
    table
}
