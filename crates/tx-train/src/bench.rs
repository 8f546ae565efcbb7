//! How fast a device trains: whole updates on made-up pairs of one length.

use burn::{tensor::Device, train::Learner};
use tx_data::{BatchSize, EncodedPair, Seq2SeqBatch};
use tx_infer::bench::Timing;
use tx_model::{ConfigError, ModelConfig, Transformer, VocabSizes};
use tx_text::TokenizerKind;

use crate::{
    adam::Adam,
    config::{OptimizationConfig, TrainConfig},
    schedule::{LearningRate, Schedule},
    step::{Seq2Seq, UpdateGradients},
};

/// Updates before those that count: kernels are chosen, memory is asked for.
const WARM_UP: usize = 2;

/// What an update reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Updates {
    /// Ids of each side.
    pub vocab: VocabSizes,
    /// Sentence pairs of a batch.
    pub pairs: usize,
    /// Tokens of each side.
    pub len: usize,
}

impl Updates {
    /// What `config` asks for, with sentences of `len` tokens, or the longest that it allows. Where
    /// the vocabulary would come from the data, it has as many ids as such data usually gives.
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

    /// Measures updates on `devices`, of which the first has the weights: what `train` does for
    /// them, Burn's Learner and all, without making batches and without validation. Also gives the
    /// loss of the last.
    ///
    /// # Errors
    ///
    /// When the model cannot have this shape.
    pub fn measure(
        &self,
        model: &ModelConfig,
        train: &OptimizationConfig,
        devices: &[Device],
        repetitions: usize,
    ) -> Result<(Timing, f64), ConfigError> {
        // As a run does: see `Trainer::run`.
        rayon::scope(|_| {
            let devices: Vec<Device> =
                devices.iter().map(|device| device.clone().autodiff()).collect();
            let device = devices.first().cloned().unwrap_or_default();
            device.seed(train.seed);
            let rate = LearningRate {
                schedule: Schedule::Constant,
                peak: 1e-4,
                warmup_steps: 0,
                total_steps: 1 + WARM_UP + repetitions,
                d_model: model.d_model,
                step: 0,
                reduction: 1.0,
            };
            let model = Transformer::new(model, self.vocab, &device)?;
            let model = Seq2Seq::new(model, train.label_smoothing, train.clip_norm);
            let mut learner = Learner::new(model, Adam::new(train).into(), rate);
            let batches = train.accumulate.max(1);
            let mut loss = 0.0;
            let prepare = |step: usize| {
                device.seed(step as u64);
                (0..batches).map(|part| self.batch(step * batches + part, &device)).collect()
            };
            let update = |batches: Vec<Seq2SeqBatch>| {
                let model = learner.model();
                let UpdateGradients { gradients, output, .. } = model.gradients(batches, &devices);
                drop(model);
                learner.lr_step();
                learner.optimizer_step(gradients);
                loss = output.loss();
                // Everything has been asked for; now it must be there. A device that failed has said so
                // when the loss was read.
                drop(device.sync());
            };
            let tokens = batches * self.pairs * self.len;
            let timing = Timing::of(tokens, WARM_UP, repetitions, prepare, update);
            Ok((timing, loss))
        })
    }

    /// Ids that differ from step to step; none is padding, but the masks are made and used all the
    /// same. `benches/compare/train_step.py` has the same rule.
    fn batch(&self, step: usize, device: &Device) -> Seq2SeqBatch {
        let side = |seed: usize, len: usize, vocabulary: usize| {
            (0..self.pairs).map(move |row| {
                let id =
                    |column| 1 + ((row * len + column) * 7_919 + seed * 104_729) % (vocabulary - 1);
                (0..len).map(|column| id(column) as u32).collect::<Vec<_>>()
            })
        };
        // The target is one longer: the decoder reads all but the last and says all but the first.
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
    use crate::recipe::{Layers, RECIPES};

    #[test]
    fn every_recipe_has_updates_to_measure() {
        for recipe in RECIPES {
            let mut layers = Layers::recipe(recipe.name).unwrap();
            layers.set_value("data.source", "toy");
            let config = layers.finish().unwrap();
            let updates = Updates::of(&config, 20);
            assert!(updates.len <= 20 && updates.len < config.max_len(), "{}", recipe.name);
            match config.train.batch {
                BatchSize::Tokens(tokens) => assert_eq!(updates.pairs, tokens / updates.len),
                BatchSize::Sentences(sentences) => assert_eq!(updates.pairs, sentences),
            }
        }
    }

    #[test]
    fn updates_on_one_device_or_two_are_the_same_work() {
        let mut layers = Layers::recipe("toy").unwrap();
        for setting in
            ["train.accumulate=2", "model.d_model=16", "model.n_heads=2", "model.d_ff=16"]
        {
            layers.set(setting).unwrap();
        }
        let config = layers.finish().unwrap();
        let updates = Updates { vocab: VocabSizes { source: 20, target: 20 }, pairs: 3, len: 4 };
        let measure =
            |devices: &[Device]| updates.measure(&config.model, &config.train, devices, 2).unwrap();
        let (one, loss) = measure(&[Device::flex()]);
        assert_eq!((one.tokens, one.seconds.len()), (24, 2));
        let (two, same) = measure(&[Device::flex(), Device::flex()]);
        assert_eq!(two.tokens, 24);
        assert!((loss - same).abs() < 1e-3, "{loss} {same}");
    }
}
