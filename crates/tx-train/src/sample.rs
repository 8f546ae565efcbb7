//! A translation beside what was asked for, and where the model looked.

use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use tx_data::{
    EncodedPair, Seq2SeqBatch, Tokenizer, Tokenizers,
    special::{BOS, EOS},
};
use tx_model::{Transformer, TransformerInput};

/// A translation beside what was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// What was read.
    pub source: String,
    /// What should have been written.
    pub reference: String,
    /// What was written.
    pub hypothesis: String,
    /// Where the model looked while it wrote.
    pub attention: CrossAttention,
}

/// Where each target token looked in the source: the last decoder layer, the mean of its heads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CrossAttention {
    /// The tokens read.
    pub source: Vec<String>,
    /// The tokens written.
    pub target: Vec<String>,
    /// For each token written a row over those read, in thousandths.
    pub weights: Vec<Vec<u16>>,
}

impl CrossAttention {
    /// Has `model` write `target`, without `<bos>`, to `source`.
    pub fn of(
        model: &Transformer,
        tokenizers: &Tokenizers,
        source: Vec<u32>,
        target: &[u32],
        device: &Device,
    ) -> Self {
        let words = |tokenizer: &Tokenizer, ids: &[u32]| -> Vec<String> {
            ids.iter().map(|&id| tokenizer.token(id).unwrap_or_default()).collect()
        };
        let target = target.strip_suffix(&[EOS]).unwrap_or(target);
        let target = [&[BOS], target, &[EOS]].concat();
        let (from, to) = (words(&tokenizers.source, &source), &target[1..]);
        let to = words(&tokenizers.target, to);
        let batch = Seq2SeqBatch::new(&[&EncodedPair { source, target }], device);
        let (_, maps) = model.forward_with_attention(TransformerInput {
            source: batch.source,
            source_blocked: batch.source_blocked,
            target: batch.target_in,
            target_blocked: batch.target_blocked,
        });
        let weights: Vec<u16> = match maps.decoder.cross.into_iter().next_back() {
            Some(heads) => {
                let mean = heads.mean_dim(1).into_data();
                mean.iter::<f32>().map(|weight| (1_000.0 * weight).round() as u16).collect()
            }
            None => Vec::new(),
        };
        let weights = weights.chunks(from.len().max(1)).map(<[u16]>::to_vec).collect();
        Self { source: from, target: to, weights }
    }
}

#[cfg(test)]
mod tests {
    use tx_data::{SentencePair, TokenizerConfig, TokenizerKind};
    use tx_model::{ModelConfig, VocabSizes};

    use super::*;

    #[test]
    fn every_token_written_has_a_row_over_those_read() {
        let pair = SentencePair { source: "a b c".into(), target: "x y".into() };
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
        let source = tokenizers.source.encode("a b c").unwrap();
        let target = tokenizers.target.id("y").unwrap();
        let attention = CrossAttention::of(&model, &tokenizers, source, &[target, target], &device);
        assert_eq!(attention.source, ["a", "b", "c", "<eos>"]);
        assert_eq!(attention.target, ["y", "y", "<eos>"]);
        assert_eq!(attention.weights.len(), 3);
        for row in attention.weights {
            assert_eq!(row.len(), 4);
            // Rounded four times.
            assert!((998..=1_002).contains(&row.iter().sum::<u16>()), "{row:?}");
        }
    }
}
