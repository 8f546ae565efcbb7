//! Estimate of the memory that training needs.

use std::fmt;

use tx_model::{Activation, Architecture, ModelConfig};

/// Bytes of an `f32`.
const NUMBER: usize = 4;
/// Bytes of the program without a model, and of the working memory of its threads.
const PROGRAM: usize = 60_000_000;

/// Estimate of the memory for training on a CPU, where it is within a quarter of the measured peak
/// (`docs/training.md`), without the text of the training data. Other devices save more
/// activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of weights, gradients, first and second moments, and copies during an update.
    pub weights: usize,
    /// Bytes of the activations of the largest batch that are saved for the backward pass.
    pub batch: usize,
}

impl Memory {
    /// Estimates the memory for a model with `parameters` weights, of which `trained` are trained, and
    /// `vocab` target ids. The largest batch has `source` and `target` tokens, including padding; with
    /// one text, all are source tokens. `averaged` adds a moving average of the weights.
    pub fn estimate(
        config: &ModelConfig,
        architecture: Architecture,
        [parameters, trained]: [usize; 2],
        vocab: usize,
        [source, target]: [usize; 2],
        averaged: bool,
    ) -> Self {
        let (d, f) = (config.d_model, config.d_ff);
        let inner = if config.activation == Activation::Gated { 3 * f } else { 2 * f };
        // Input and output of the layer norm; queries, keys and values; output of attention.
        let attention = 6 * d;
        let feed_forward = 2 * d + inner;
        let encoder_layer = attention + feed_forward;
        // Keys and values of cross-attention count as source tokens.
        let decoder_layer = 2 * attention + feed_forward - 2 * d;
        let encoder = 2 * d + config.encoder_layers * encoder_layer;
        let (per_source, per_target) = match architecture {
            Architecture::EncoderDecoder => (
                encoder + config.decoder_layers * 2 * d,
                2 * d + config.decoder_layers * decoder_layer + vocab,
            ),
            Architecture::Classifier { .. } => (encoder, 0),
            // Logits of the masked tokens only, 15 %.
            Architecture::MaskedLanguageModel => (encoder + vocab * 15 / 100, 0),
            Architecture::LanguageModel => {
                (2 * d + config.decoder_layers * encoder_layer + vocab, 0)
            }
        };
        Self {
            weights: (parameters * (1 + usize::from(averaged)) + 4 * trained) * NUMBER,
            batch: (source * per_source + target * per_target) * NUMBER,
        }
    }

    /// Returns the total number of bytes.
    pub fn total(&self) -> usize {
        PROGRAM + self.weights + self.batch
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = |bytes: usize| bytes.div_ceil(1_000_000);
        write!(
            f,
            "about {} MB on a CPU: {} for weights and optimizer, {} for the largest batch",
            megabytes(self.total()),
            megabytes(self.weights),
            megabytes(self.batch)
        )
    }
}

#[cfg(test)]
mod tests {
    use tx_model::Pooling;

    use super::*;

    /// d 2, f 3, one layer each: 2·2 + (6·2 + 2·2 + 2·3) + 2·2 = 30 numbers per source token,
    /// 2·2 + (12·2 + 2·2 + 2·3 - 2·2) + 5 = 39 per target token.
    #[test]
    fn the_estimate_follows_the_formula() {
        let config = ModelConfig {
            d_model: 2,
            d_ff: 3,
            encoder_layers: 1,
            decoder_layers: 1,
            ..ModelConfig::default()
        };
        let estimate = |architecture, batch, averaged| {
            Memory::estimate(&config, architecture, [100, 100], 5, batch, averaged)
        };
        let memory = estimate(Architecture::EncoderDecoder, [10, 7], false);
        assert_eq!(memory, Memory { weights: 2_000, batch: 4 * (300 + 7 * 39) });
        assert_eq!(estimate(Architecture::LanguageModel, [0, 0], true).weights, 2_400);
        let frozen =
            Memory::estimate(&config, Architecture::LanguageModel, [100, 10], 5, [0, 0], false);
        assert_eq!(frozen.weights, 4 * (100 + 4 * 10));
        // 2·2 + (6·2 + 2·2 + 2·3) = 26 numbers per token of one stack, and 5 logits.
        let classifier = Architecture::Classifier { classes: 2, pooling: Pooling::Mean };
        assert_eq!(estimate(classifier, [10, 0], false).batch, 4 * 260);
        assert_eq!(estimate(Architecture::LanguageModel, [10, 0], false).batch, 4 * 310);
        // 15 % of 5 logits are rounded down to 0.
        assert_eq!(estimate(Architecture::MaskedLanguageModel, [10, 0], false).batch, 4 * 260);
        assert_eq!(
            Memory { weights: 3_000_000, batch: 1_500_000 }.to_string(),
            "about 65 MB on a CPU: 3 for weights and optimizer, 2 for the largest batch"
        );
    }
}
