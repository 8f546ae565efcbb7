//! Training speed of a device: complete updates on synthetic pairs or texts of one length.

use std::mem;

use burn::{tensor::Device, train::Learner};
use tx_data::{
    BatchSize, ClassificationBatch, EncodedPair, LanguageModelBatch, MaskedBatch, Seq2SeqBatch,
    masking::MaskedText,
    packing::{PackedRow, Segment},
};
use tx_infer::{TaskKind, bench::Timing};
pub use tx_model::kernels::launches::{Launches, Phase};
use tx_model::{
    Classifier, ConfigError, LanguageModel, MaskedLanguageModel, Transformer, VocabSizes,
    dropout::seed,
    kernels::{flattened, launches::LaunchCounter},
};
use tx_text::{
    TokenizerKind,
    special::{BOS, MASK, PAD},
};

use crate::{
    classification::TrainedClassifier,
    config::{Schedule, TrainConfig},
    fine_tuning::selection::Parameters,
    language_modeling::TrainedLanguageModel,
    masked_language_modeling::TrainedMaskedLanguageModel,
    ranks::{Alone, Ranks},
    task::{BatchOf, StepOutput, Trainable},
    training::{
        gradients::{UpdateSettings, compute_update, count_tokens},
        optimizer::optimizer,
        precision::precision_problems,
        schedule::{Curve, Decay, LearningRate},
    },
    translation::seq2seq::Seq2Seq,
};

/// Number of updates before the measured ones, in which kernels are selected and memory is
/// allocated.
const WARM_UP: usize = 2;

/// Number of classes of a classifier, whose labels depend on data.
const CLASSES: usize = 4;

/// Synthetic batches of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Updates {
    /// Vocabulary sizes.
    pub vocab: VocabSizes,
    /// Sentence pairs, texts or rows in a batch.
    pub pairs: usize,
    /// Tokens of each side, or of the text.
    pub len: usize,
}

/// Times of measured updates.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// Times of whole updates, with the tokens of all ranks.
    pub timing: Timing,
    /// Seconds of each update in which the gradients of all ranks were added up; 0 on one rank.
    pub reducing: Vec<f64>,
    /// Kernel launches of the last update; `None` without a CubeCL device.
    pub launches: Option<Launches>,
    /// Number of trained parameters, each with a gradient of 4 bytes.
    pub trained_parameters: usize,
}

impl Updates {
    /// Creates batches of the size in `config`, with sentences of `len` tokens, or of the maximum
    /// length if that is smaller. A vocabulary size that depends on data is replaced by a typical
    /// one.
    pub fn of(config: &TrainConfig, len: usize) -> Self {
        let len = len.min(config.max_len().saturating_sub(1)).max(1);
        let pairs = match config.train.batch {
            BatchSize::Tokens(tokens) => (tokens / len).max(1),
            BatchSize::Sentences(sentences) => sentences,
        };
        let ids = match config.tokenizer.kind {
            TokenizerKind::Character => 128,
            TokenizerKind::Byte => 260,
            _ => config.tokenizer.vocab_size,
        };
        let vocab = config.model.padded(VocabSizes { source: ids, target: ids });
        Self { vocab, pairs, len }
    }

    /// Measures updates of the task of `config` on `devices`, of which the first holds the weights.
    /// They are the updates of a run with Burn's Learner, without construction of batches and
    /// without validation.
    ///
    /// # Errors
    ///
    /// If the model configuration is invalid, or a device does not train in the precision.
    pub fn measure(
        &self,
        config: &TrainConfig,
        devices: &[Device],
        repetitions: usize,
    ) -> Result<Timing, ConfigError> {
        Ok(self.measure_on(&Alone, config, devices, repetitions)?.timing)
    }

    /// Measures updates as [`measure`](Self::measure) does, on several ranks. Each computes its share
    /// of the batches of an update on its `devices`.
    ///
    /// # Errors
    ///
    /// If the model configuration is invalid, a device does not train in the precision, or the ranks
    /// cannot divide the batches.
    pub fn measure_on(
        &self,
        ranks: &dyn Ranks,
        config: &TrainConfig,
        devices: &[Device],
        repetitions: usize,
    ) -> Result<Measurement, ConfigError> {
        let (model, smoothing) = (&config.model, config.train.label_smoothing);
        let (vocabulary, precision) = (self.vocab.source, config.train.precision);
        let mut problems = precision_problems(precision, devices);
        let batches = config.train.accumulate;
        if !batches.is_multiple_of(ranks.count()) {
            problems.push(format!(
                "[train] `accumulate` = {batches} must be a multiple of the number of ranks, {}",
                ranks.count()
            ));
        }
        if !problems.is_empty() {
            return Err(ConfigError { problems });
        }
        // In the kernels' thread pool, as `Trainer::run` does.
        rayon::scope(|_| match config.task {
            TaskKind::Translate => {
                let init = |device: &Device| {
                    let model = Transformer::new(model, self.vocab, device)?;
                    let model = Seq2Seq::new(model.with_product_precision(precision), smoothing);
                    Ok(model.with_r_drop(config.train.r_drop))
                };
                self.measure_model(ranks, config, devices, repetitions, init, Self::pairs_of_step)
            }
            TaskKind::Classify => {
                let pooling = config.classification.pooling;
                let init = |device: &Device| {
                    let model = Classifier::new(model, vocabulary, CLASSES, pooling, device)?;
                    let model = model.with_product_precision(precision);
                    Ok(TrainedClassifier::new(model, smoothing, Vec::new()))
                };
                self.measure_model(ranks, config, devices, repetitions, init, Self::texts_of_step)
            }
            TaskKind::Generate => {
                let init = |device: &Device| {
                    let model = LanguageModel::new(model, vocabulary, device)?;
                    let model = model.with_product_precision(precision);
                    Ok(TrainedLanguageModel::new(model, smoothing))
                };
                self.measure_model(ranks, config, devices, repetitions, init, Self::rows_of_step)
            }
            TaskKind::FillMask => {
                let init = |device: &Device| {
                    let model = MaskedLanguageModel::new(model, vocabulary, device)?;
                    let model = model.with_product_precision(precision);
                    Ok(TrainedMaskedLanguageModel::new(model, smoothing))
                };
                self.measure_model(ranks, config, devices, repetitions, init, Self::masked_of_step)
            }
        })
    }

    /// Measures updates of the model that `init` creates, with the batches of `batch`.
    fn measure_model<M: Trainable>(
        &self,
        ranks: &dyn Ranks,
        config: &TrainConfig,
        devices: &[Device],
        repetitions: usize,
        init: impl FnOnce(&Device) -> Result<M, ConfigError>,
        batch: fn(&Self, usize, &Device) -> BatchOf<M>,
    ) -> Result<Measurement, ConfigError> {
        let train = &config.train;
        let devices: Vec<Device> = devices.iter().map(|device| device.clone().autodiff()).collect();
        let device = devices.first().cloned().unwrap_or_default();
        device.seed(train.seed);
        let rate = LearningRate::new(Curve {
            schedule: Schedule::Constant,
            peak: 1e-4,
            warmup_steps: 0,
            total_steps: 1 + WARM_UP + repetitions,
            d_model: config.model.d_model,
            decay: Decay::default(),
        });
        let model = init(&device)?;
        let trained_parameters = Parameters::of(&model).trained;
        let mut learner = Learner::new(flattened(model), optimizer(config), rate);
        let batches = train.accumulate.max(1);
        let prepare = |step: usize| -> Vec<BatchOf<M>> {
            seed(&device, step as u64);
            let own = (ranks.rank()..batches).step_by(ranks.count());
            own.map(|part| batch(self, step * batches + part, &device)).collect()
        };
        let counter = LaunchCounter::start();
        let mut launches = None;
        let mut reducing = Vec::new();
        let update = |batches: Vec<BatchOf<M>>| {
            let model = learner.model();
            let own = count_tokens::<M>(&batches).target_tokens;
            let total = ranks.sum_counts(vec![own as f64]).iter().sum::<f64>();
            let settings = UpdateSettings {
                devices: &devices,
                clip_norm: train.clip_norm,
                ranks,
                counts: StepOutput { target_tokens: total as usize, ..StepOutput::default() },
                seeds: None,
            };
            // Launches that built the batches are not those of the update.
            let _ = counter.as_ref().map(LaunchCounter::take);
            let update = compute_update(&model, batches, &settings);
            drop(model);
            reducing.push(update.reducing);
            learner.lr_step();
            Phase::Optimizer.begin();
            learner.optimizer_step(update.gradients);
            launches = counter.as_ref().map(LaunchCounter::take);
            // Waits for all queued work. A device error would have occurred when the loss was read.
            drop(device.sync());
        };
        let tokens = batches * self.pairs * self.len;
        let timing = Timing::of(tokens, WARM_UP, repetitions, prepare, update);
        reducing.drain(..reducing.len() - timing.seconds.len());
        // A device that launches nothing is none of CubeCL.
        let launches = launches.filter(|launches| launches.total() > 0);
        Ok(Measurement { timing, reducing, launches, trained_parameters })
    }

    /// Creates a batch with ids that differ between steps. None of them is padding, but masks are
    /// created and used. `benches/compare/train_step.py` follows the same rule.
    fn pairs_of_step(&self, step: usize, device: &Device) -> Seq2SeqBatch {
        // The target has one more token: the decoder input omits the last, its output the first.
        let pairs: Vec<EncodedPair> = self
            .ids(2 * step, self.len, self.vocab.source)
            .zip(self.ids(2 * step + 1, self.len + 1, self.vocab.target))
            .map(|(source, target)| EncodedPair::new(source, target))
            .collect();
        Seq2SeqBatch::new(&pairs.iter().collect::<Vec<_>>(), BOS, device)
    }

    /// Creates a batch of labeled texts.
    fn texts_of_step(&self, step: usize, device: &Device) -> ClassificationBatch {
        let texts = self.ids(step, self.len, self.vocab.source).enumerate();
        let texts: Vec<EncodedPair> = texts
            .map(|(row, source)| EncodedPair::new(source, vec![(row % CLASSES) as u32]))
            .collect();
        ClassificationBatch::new(&texts.iter().collect::<Vec<_>>(), device)
    }

    /// Creates a batch of rows with one document each.
    fn rows_of_step(&self, step: usize, device: &Device) -> LanguageModelBatch {
        let rows = self.ids(step, self.len + 1, self.vocab.source).enumerate();
        let rows: Vec<PackedRow> =
            rows.map(|(document, ids)| vec![Segment { document, start: 0, ids }]).collect();
        LanguageModelBatch::new(&rows, device)
    }

    /// Creates a batch of texts, every seventh token of which is masked.
    fn masked_of_step(&self, step: usize, device: &Device) -> MaskedBatch {
        let texts = self.ids(step, self.len, self.vocab.source).map(|mut ids| {
            let mut labels = vec![PAD; ids.len()];
            for position in (0..ids.len()).step_by(7) {
                labels[position] = mem::replace(&mut ids[position], MASK);
            }
            MaskedText { ids, labels }
        });
        MaskedBatch::new(&texts.collect::<Vec<_>>(), device)
    }

    /// Ids of all rows of a batch, from 1.
    fn ids(
        &self,
        seed: usize,
        len: usize,
        vocabulary: usize,
    ) -> impl Iterator<Item = Vec<u32>> + use<> {
        (0..self.pairs).map(move |row| {
            let id =
                |column| 1 + ((row * len + column) * 7_919 + seed * 104_729) % (vocabulary - 1);
            (0..len).map(|column| id(column) as u32).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigBuilder, RECIPES};

    #[test]
    fn every_recipe_has_updates_to_measure() {
        for recipe in RECIPES {
            let mut builder = ConfigBuilder::from_recipe(recipe.name).unwrap();
            if recipe.task == TaskKind::Translate {
                builder.set_value("data.source", "toy");
            }
            let config = builder.build().unwrap();
            let updates = Updates::of(&config, 20);
            assert!(updates.len <= 20 && updates.len < config.max_len(), "{}", recipe.name);
            match config.train.batch {
                BatchSize::Tokens(tokens) => assert_eq!(updates.pairs, tokens / updates.len),
                BatchSize::Sentences(sentences) => assert_eq!(updates.pairs, sentences),
            }
        }
    }

    #[test]
    fn updates_on_one_device_or_two_process_the_same_tokens() {
        let mut builder = ConfigBuilder::from_recipe("toy").unwrap();
        for setting in
            ["train.accumulate=2", "model.d_model=16", "model.n_heads=2", "model.d_ff=16"]
        {
            builder.set(setting).unwrap();
        }
        let config = builder.build().unwrap();
        let updates = Updates { vocab: VocabSizes { source: 20, target: 20 }, pairs: 3, len: 4 };
        let measure = |devices: &[Device]| updates.measure(&config, devices, 2).unwrap();
        for devices in [vec![Device::flex()], vec![Device::flex(), Device::flex()]] {
            let timing = measure(&devices);
            assert_eq!((timing.tokens, timing.seconds.len()), (24, 2));
        }
    }
}
