//! Sample translations of a validation, with reference and cross-attention.

use serde::{Deserialize, Serialize};
use tx_infer::{Attention, AttentionKind, Engine, Tokens};

/// Sample translation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Source sentence.
    pub source: String,
    /// Reference translation.
    pub reference: String,
    /// Translation by the model.
    pub hypothesis: String,
    /// Cross-attention of the translation.
    pub attention: CrossAttention,
}

/// Cross-attention of the last decoder layer, averaged over its heads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CrossAttention {
    /// Source tokens.
    pub source: Vec<String>,
    /// Target tokens.
    pub target: Vec<String>,
    /// Row of weights over the source tokens for each target token, in thousandths.
    pub weights: Vec<Vec<u16>>,
}

impl CrossAttention {
    /// Computes the cross-attention of the model of `engine` for a given `target`.
    pub fn of(engine: &Engine, source: Tokens, target: Tokens) -> Self {
        let attention = Attention::of(engine, source, target);
        let last = attention.cross.len().saturating_sub(1);
        let map = attention.map(AttentionKind::Cross, last, None).unwrap_or_default();
        let thousandths = |row: &[f32]| row.iter().map(|w| (1_000.0 * w).round() as u16).collect();
        let weights = map.rows().map(thousandths).collect();
        Self { source: attention.source.tokens, target: attention.target.tokens, weights }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use tx_model::{ModelConfig, Transformer, VocabSizes};
    use tx_text::{SentencePair, TokenizerConfig, TokenizerKind, Tokenizers};

    use super::*;

    #[test]
    fn every_target_token_has_a_row_over_the_source_tokens() {
        let pair = SentencePair::new("a b c", "x y");
        let config = TokenizerConfig { kind: TokenizerKind::Word, ..TokenizerConfig::default() };
        let tokenizers = Tokenizers::train(&config, &[pair]).unwrap();
        let vocab = VocabSizes {
            source: tokenizers.source.vocab_size(),
            target: tokenizers.target.vocab_size(),
        };
        let config = ModelConfig {
            d_model: 8,
            n_heads: 2,
            d_ff: 8,
            encoder_layers: 1,
            decoder_layers: 2,
            max_len: 8,
            tying: tx_model::Tying::None,
            ..ModelConfig::default()
        };
        let device = Device::flex();
        let model = Transformer::new(&config, vocab, &device).unwrap();
        let source = Tokens::of_source(&tokenizers.source, "a b c", 8).unwrap();
        let target = tokenizers.target.id("y").unwrap();
        let target = Tokens::of_hypothesis(&tokenizers.target, &[target, target], 8).unwrap();
        let engine = Engine::from_transformer(model, 8, &device.into());
        let attention = CrossAttention::of(&engine, source, target);
        assert_eq!(attention.source, ["a", "b", "c", "<eos>"]);
        assert_eq!(attention.target, ["y", "y", "<eos>"]);
        assert_eq!(attention.weights.len(), 3);
        for row in attention.weights {
            assert_eq!(row.len(), 4);
            // The sum of four rounded weights.
            assert!((998..=1_002).contains(&row.iter().sum::<u16>()), "{row:?}");
        }
    }
}
