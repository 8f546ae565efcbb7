//! Attention of a given target to its source.

use std::iter;

use super::Engine;
use crate::attention::AttentionMap;

impl Engine {
    /// Returns the attention of each token of `target` to the tokens of `source`, averaged over the heads of decoder
    /// layer `layer`, from 1 [default: the one that aligns tokens], and over the models of an ensemble. Unlike
    /// [`Attention`](crate::Attention), it keeps no other layer.
    ///
    /// # Panics
    ///
    /// If an id is not in the model's vocabulary, the source is empty, or a sequence is longer than the model's
    /// `max_len`.
    pub(crate) fn cross_attention(
        &self,
        source: &[u32],
        target: &[u32],
        layer: Option<usize>,
    ) -> AttentionMap {
        let mut decoder = self.decoder(&[source], layer, true, None);
        let inputs = iter::once(self.start()).chain(target.iter().copied()).take(target.len());
        let mut map = AttentionMap { columns: source.len(), weights: Vec::new() };
        for token in inputs {
            decoder.step(&[token], &[], 1);
            map.weights.extend_from_slice(decoder.attention(0));
        }
        map
    }
}
