//! Attention weights of a layer, and those of a pair of source and target.

use crate::PackedTransformer;

/// Attention weights of every layer and head for one pair.
#[derive(Debug, Clone, PartialEq)]
pub struct PackedAttentionMaps {
    /// Self-attention of each encoder layer, `[H, S, S]`.
    pub encoder: Vec<Map>,
    /// Self-attention of each decoder layer, `[H, T, T]`; 0 for later tokens. Empty if the decoder is
    /// recurrent.
    pub decoder: Vec<Map>,
    /// Attention of each decoder layer to the source, `[H, T, S]`.
    pub cross: Vec<Map>,
}

/// Attention weights of one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Map {
    /// Number of heads.
    pub heads: usize,
    /// Number of queries.
    pub queries: usize,
    /// Number of keys.
    pub keys: usize,
    /// `[heads, queries, keys]`; each row sums to 1.
    pub weights: Vec<f32>,
}

impl Map {
    pub(crate) fn zeros(heads: usize, queries: usize, keys: usize) -> Self {
        Self { heads, queries, keys, weights: vec![0.0; heads * queries * keys] }
    }

    /// Writes the weights of a query for its first keys: for each head a sum, and the numbers that
    /// give the weights when divided by it.
    pub(crate) fn record<'a>(
        &mut self,
        query: usize,
        heads: impl Iterator<Item = (f32, &'a [f32])>,
    ) {
        for (head, (sum, scores)) in heads.enumerate() {
            let row = &mut self.weights[(head * self.queries + query) * self.keys..];
            for (weight, score) in row.iter_mut().zip(scores) {
                *weight = score / sum;
            }
        }
    }
}

impl PackedTransformer {
    /// Computes all attention weights of one pair: the decoder reads `target`, which begins with
    /// `<bos>`.
    ///
    /// # Panics
    ///
    /// If an id is not in its vocabulary, or `source` or `target` is longer than the model's
    /// `max_len`.
    pub fn attention_maps(&self, source: &[u32], target: &[u32]) -> PackedAttentionMaps {
        let mut maps = PackedAttentionMaps {
            encoder: Vec::new(),
            decoder: self.decoder.empty_self_maps(target.len()),
            cross: self.decoder.empty_cross_maps(target.len(), source.len()),
        };
        let mut decoding = self.start_recording(&[source], Some(&mut maps.encoder));
        for &token in target {
            decoding.advance(&[token], Some(&mut maps));
        }
        maps
    }
}
