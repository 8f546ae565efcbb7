//! Computation of the values inside a model for one text.

use crate::{
    Ablation, PackedTransformer,
    probe::{Detail, Probe},
    trace::{Map, Sublayer, Trace},
};

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

impl PackedTransformer {
    /// Computes all attention weights of one pair: the decoder reads `target`, which begins with
    /// `<bos>`.
    ///
    /// # Panics
    ///
    /// If an id is not in its vocabulary, or `source` or `target` is longer than the model's
    /// `max_len`.
    pub fn attention_maps(&self, source: &[u32], target: &[u32]) -> PackedAttentionMaps {
        let probe = Probe::recording(Detail::Weights, source.len(), target.len(), &[]);
        let mut decoding = self.start_with(&[source], probe);
        for &token in target {
            decoding.read(&[token]);
        }
        let Trace { mut encoder, mut decoder } = decoding.into_trace();
        PackedAttentionMaps {
            encoder: encoder.maps(Sublayer::SelfAttention),
            decoder: decoder.maps(Sublayer::SelfAttention),
            cross: decoder.maps(Sublayer::CrossAttention),
        }
    }

    /// Computes all values inside the model for one pair, with parts of it [turned off](Ablation); the decoder reads
    /// `target`, which begins with its first input. `logits` receives those of the token after each of `target`,
    /// `[target vocabulary]`.
    ///
    /// # Panics
    ///
    /// As [`attention_maps`](Self::attention_maps).
    pub fn trace(
        &self,
        source: &[u32],
        target: &[u32],
        ablations: &[Ablation],
        mut logits: impl FnMut(&[f32]),
    ) -> Trace {
        let probe = Probe::recording(Detail::All, source.len(), target.len(), ablations);
        let mut decoding = self.start_with(&[source], probe);
        for &token in target {
            logits(&decoding.step_logits(&[token]));
        }
        decoding.into_trace()
    }
}

#[cfg(test)]
mod tests;
