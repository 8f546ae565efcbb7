//! Training speed of a device: complete updates on synthetic pairs of one length.

use burn::{tensor::Device, train::Learner};
use tx_data::{BatchSize, EncodedPair, Seq2SeqBatch};
use tx_infer::bench::Timing;
use tx_model::{ConfigError, ModelConfig, Transformer, VocabSizes};
use tx_text::TokenizerKind;

use crate::{
    config::{OptimizationConfig, Schedule, TrainConfig},
    training::{
        adam::Adam,
        gradients::{UpdateGradients, compute_gradients},
        schedule::{Curve, LearningRate},
    },
    translation::seq2seq::Seq2Seq,
};

/// Number of updates before the measured ones, in which kernels are selected and memory is
/// allocated.
const WARM_UP: usize = 2;

/// Synthetic batches of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Updates {
    /// Vocabulary sizes.
    pub vocab: VocabSizes,
    /// Sentence pairs in a batch.
    pub pairs: usize,
    /// Tokens of each side.
    pub len: usize,
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

    /// Measures updates on `devices`, of which the first holds the weights. They are the updates of
    /// a run with Burn's Learner, without construction of batches and without validation.
    ///
    /// # Errors
    ///
    /// If the model configuration is invalid.
    pub fn measure(
        &self,
        model: &ModelConfig,
        train: &OptimizationConfig,
        devices: &[Device],
        repetitions: usize,
    ) -> Result<Timing, ConfigError> {
        // In the kernels' thread pool, as `Trainer::run` does.
        rayon::scope(|_| {
            let devices: Vec<Device> =
                devices.iter().map(|device| device.clone().autodiff()).collect();
            let device = devices.first().cloned().unwrap_or_default();
            device.seed(train.seed);
            let rate = LearningRate::new(Curve {
                schedule: Schedule::Constant,
                peak: 1e-4,
                warmup_steps: 0,
                total_steps: 1 + WARM_UP + repetitions,
                d_model: model.d_model,
            });
            let model = Transformer::new(model, self.vocab, &device)?;
            let model = Seq2Seq::new(model, train.label_smoothing);
            let mut learner = Learner::new(model, Adam::new(train).into(), rate);
            let batches = train.accumulate.max(1);
            let prepare = |step: usize| {
                device.seed(step as u64);
                (0..batches).map(|part| self.batch(step * batches + part, &device)).collect()
            };
            let update = |batches: Vec<Seq2SeqBatch>| {
                let model = learner.model();
                let UpdateGradients { gradients, .. } =
                    compute_gradients(&model, batches, &devices, train.clip_norm);
                drop(model);
                learner.lr_step();
                learner.optimizer_step(gradients);
                // Waits for all queued work. A device error would have occurred when the loss was
                // read.
                drop(device.sync());
            };
            let tokens = batches * self.pairs * self.len;
            Ok(Timing::of(tokens, WARM_UP, repetitions, prepare, update))
        })
    }

    /// Creates a batch with ids that differ between steps. None of them is padding, but masks are
    /// created and used. `benches/compare/train_step.py` follows the same rule.
    fn batch(&self, step: usize, device: &Device) -> Seq2SeqBatch {
        let side = |seed: usize, len: usize, vocabulary: usize| {
            (0..self.pairs).map(move |row| {
                let id =
                    |column| 1 + ((row * len + column) * 7_919 + seed * 104_729) % (vocabulary - 1);
                (0..len).map(|column| id(column) as u32).collect::<Vec<_>>()
            })
        };
        // The target has one more token: the decoder input omits the last, its output the first.
        let pairs: Vec<EncodedPair> = side(2 * step, self.len, self.vocab.source)
            .zip(side(2 * step + 1, self.len + 1, self.vocab.target))
            .map(|(source, target)| EncodedPair { source, target })
            .collect();
        Seq2SeqBatch::new(&pairs.iter().collect::<Vec<_>>(), device)
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
            builder.set_value("data.source", "toy");
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
        let measure =
            |devices: &[Device]| updates.measure(&config.model, &config.train, devices, 2).unwrap();
        for devices in [vec![Device::flex()], vec![Device::flex(), Device::flex()]] {
            let timing = measure(&devices);
            assert_eq!((timing.tokens, timing.seconds.len()), (24, 2));
        }
    }
}
