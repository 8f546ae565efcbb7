//! Parts of a run, built from its configuration and data: loaders, model, optimizer and training
//! loop.

use std::{iter::once, sync::Arc};

use burn::{
    module::Module,
    tensor::Device,
    train::{Learner, TrainLoader, ValidLoader},
};
use tx_data::{CleaningReport, PairLoader, PairStore};
use tx_infer::{TaskKind, bundle::save_tokenizers};
use tx_model::{Transformer, VocabSizes};
use tx_text::{BpeDropout, Lowercase, Tokenizers};

use super::{prepare::Prepared, settings::RunSettings};
use crate::{
    config::{Budget, TrainConfig},
    corpus,
    data::RunData,
    error::TrainError,
    recording::{checkpoint::Checkpoints, metrics::Metrics, run_state::RunState},
    training::{adam::Adam, ema::MovingAverage, schedule::LearningRate, training_loop::LoopSetup},
    translation::{
        memory::Memory, seq2seq::Seq2Seq, translation_task::Translation, validation::Validator,
    },
};

/// Run that is ready to launch.
pub(super) struct Built {
    pub setup: LoopSetup<Translation>,
    pub learner: Learner<Seq2Seq>,
    pub train: TrainLoader<Seq2Seq>,
    pub valid: ValidLoader<Seq2Seq>,
    /// First validation sources.
    pub examples: Vec<String>,
}

/// Builds loaders, model, optimizer and training loop, and loads the checkpoint of a resumed run.
/// Writes configuration and tokenizers into the run folder.
///
/// # Errors
///
/// If a file cannot be read or written, or the checkpoint belongs to another model.
pub(super) fn build(
    settings: &RunSettings,
    prepared: Prepared,
    is_resumed: bool,
) -> Result<Built, TrainError> {
    let Prepared { data, mut state, is_changed } = prepared;
    let RunData { tokenizers, validation: pairs, .. } = data;
    let RunSettings { config, run, .. } = settings;
    let plain = settings.device.clone().inner();
    let autodiff = plain.clone().autodiff();

    let train = training_loader(config, data.train, &tokenizers, &autodiff)?;
    let valid = PairLoader::validation(data.valid, config.train.batch, plain.clone());
    let valid = Arc::new(valid);
    // The number of updates is that of the first epoch, even in a resumed run: later epochs may
    // have other numbers, but the schedule must not change.
    let budget = Budget::new(config, train.batches().div_ceil(config.train.accumulate));
    let largest = train.largest_batch();
    let train = train.resume_from(state.epoch + 1, state.batch);

    let model = init_model(settings, data.vocab, &budget, largest, &autodiff)?;
    let provenance =
        provenance(config, &state, data.training_pairs, pairs.len(), data.cleaning.as_ref());
    let rate = LearningRate::of_run(config, &budget);
    let mut learner = Learner::new(model, Adam::new(&config.train).into(), rate.clone());
    let mut average = None;
    if is_resumed {
        average = load_checkpoint(settings, &mut state, &mut learner, is_changed)?;
    } else {
        // Saved before any checkpoint, whose weights would be useless without them.
        save_tokenizers(run, TaskKind::Translate, &tokenizers)?;
    }
    config.save(run)?;
    let decay = config.train.ema_decay;
    let average = (decay > 0.0)
        .then(|| MovingAverage::new(decay, average.unwrap_or_else(|| learner.model().valid())));

    let lowercase = config.tokenizer.lowercase == Lowercase::Both;
    let validator = Validator::new(valid.clone(), &pairs, &config.validation, lowercase, &plain)
        .with_batch_tokens(largest[0]);
    let metrics = Metrics::open(run, &state, config.metrics.every_steps, autodiff.clone())?;
    let task = Translation {
        validator,
        model: config.model.clone(),
        tokenizers,
        provenance,
        best_by: config.validation.best_by,
    };
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
        progress: settings.progress,
        stop: settings.stop.clone(),
    };
    let examples = pairs.into_iter().take(3).map(|pair| pair.source).collect();
    Ok(Built { setup, learner, train: Arc::new(train), valid, examples })
}

/// Initializes the model, and prints its size and the memory for its training.
fn init_model(
    settings: &RunSettings,
    vocab: VocabSizes,
    budget: &Budget,
    largest_batch: [usize; 2],
    device: &Device,
) -> Result<Seq2Seq, TrainError> {
    let config = &settings.config;
    let vocab = config.model.padded(vocab);
    device.seed(config.train.seed);
    let model = Transformer::new(&config.model, vocab, device)?;
    let model = Seq2Seq::new(model, config.train.label_smoothing);
    let parameters = model.num_params();
    settings.print(&format!("model: {parameters} parameters; {} updates an epoch", budget.batches));
    let averaged = config.train.ema_decay > 0.0;
    let memory = Memory::estimate(&config.model, parameters, vocab.target, largest_batch, averaged);
    settings.print(&format!("memory: {memory}"));
    Ok(model)
}

/// Loads the checkpoint of `state` into `learner`, and removes later ones. Returns the model with
/// the moving average of the weights, if the run kept one.
fn load_checkpoint(
    settings: &RunSettings,
    state: &mut RunState,
    learner: &mut Learner<Seq2Seq>,
    is_changed: bool,
) -> Result<Option<Seq2Seq>, TrainError> {
    let checkpoints = Checkpoints::of(&settings.run);
    checkpoints.load(state.step, learner)?;
    let average = checkpoints.average(state.step, learner.model().valid())?;
    state.kept.retain(|best| best.step <= state.step);
    checkpoints.remove_after(state.step)?;
    if is_changed {
        checkpoints.update_state(state)?;
    }
    let within = match state.batch {
        0 => String::new(),
        batch => format!(" and {batch} batches"),
    };
    let RunState { epoch, step, .. } = state;
    settings.print(&format!("resuming after epoch {epoch}{within} (update {step})"));
    Ok(average)
}

/// Loader of the training pairs, from the first epoch.
fn training_loader(
    config: &TrainConfig,
    pairs: PairStore,
    tokenizers: &Tokenizers,
    device: &Device,
) -> Result<PairLoader, TrainError> {
    let train = &config.train;
    let loader = PairLoader::training(pairs, train.batch, train.seed, device.clone())
        .with_grouping(train.grouping)
        .with_word_dropout(train.word_dropout);
    if train.bpe_dropout == 0.0 {
        return Ok(loader);
    }
    let dropout = BpeDropout::new(tokenizers, train.bpe_dropout, config.max_len())?;
    Ok(loader.with_bpe_dropout(dropout))
}

/// Returns the origin of a bundle, for information.
fn provenance(
    config: &TrainConfig,
    state: &RunState,
    training_pairs: usize,
    validation_pairs: usize,
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
    put("training_pairs", Some((training_pairs as i64).into()));
    put("validation_pairs", Some((validation_pairs as i64).into()));
    put("data", Some(state.data.clone().into()));
    put("validation_data", Some(state.validation_data.clone().into()));
    put("seed", Some((config.train.seed as i64).into()));
    put("cleaning", cleaning.and_then(|report| toml::Value::try_from(report).ok()));
    table
}
