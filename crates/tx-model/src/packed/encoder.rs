//! The encoder on sentences that stand one after another, without padding.

use std::ops::Range;

use super::{
    Scratch,
    attention::{Memory, PackedAttention, Rotation, in_order},
    feed_forward::PackedFeedForward,
    residual::{PackedNorm, PackedResidual},
};

/// One layer: self-attention, then feed-forward, each in a residual connection.
#[derive(Debug, Clone)]
pub(crate) struct PackedEncoderLayer {
    pub(crate) self_attention: PackedAttention,
    pub(crate) self_attention_residual: PackedResidual,
    pub(crate) feed_forward: PackedFeedForward,
    pub(crate) feed_forward_residual: PackedResidual,
}

/// All layers, and in pre-norm a last normalisation.
#[derive(Debug, Clone)]
pub(crate) struct PackedEncoder {
    pub(crate) layers: Vec<PackedEncoderLayer>,
    pub(crate) norm: Option<PackedNorm>,
}

impl PackedEncoder {
    /// Reads the sentences; `x` becomes the memory.
    ///
    /// # Shapes
    ///
    /// - `x`: embedded tokens `[tokens of all sentences, d_model]`
    /// - `sentences`: the rows of each
    pub(super) fn forward(&self, x: &mut [f32], sentences: &[Range<usize>], scratch: &mut Scratch) {
        let longest = sentences.iter().map(Range::len).max().unwrap_or(0);
        let slots = in_order(longest);
        let mut rotation = Rotation::default();
        if let Some(layer) = self.layers.first().filter(|layer| layer.self_attention.rotary) {
            let places = sentences.iter().flat_map(|rows| 0..rows.len());
            rotation = Rotation::new(places, layer.self_attention.d_head());
        }
        for layer in &self.layers {
            layer.forward(x, sentences, &slots, &rotation, scratch);
        }
        if let Some(norm) = &self.norm {
            norm.normalise(x);
        }
    }
}

impl PackedEncoderLayer {
    fn forward(
        &self,
        x: &mut [f32],
        sentences: &[Range<usize>],
        slots: &[u32],
        rotation: &Rotation,
        scratch: &mut Scratch,
    ) {
        let Scratch { normalised, attention, keys_values, hidden, output } = scratch;
        let own = &self.self_attention;
        let y = self.self_attention_residual.enter(x, normalised);
        own.project_queries(y, attention);
        keys_values.resize(2 * y.len(), 0.0);
        own.keys_values.product(y, keys_values);
        own.rotate(&mut attention.queries, keys_values, rotation);
        let width = own.keys_values.outputs();
        for rows in sentences {
            let memory = Memory {
                keys_values: &keys_values[rows.start * width..rows.end * width],
                slots: &slots[..rows.len()],
            };
            for (place, row) in rows.clone().enumerate() {
                own.attend(attention, row, place, memory);
            }
        }
        self.self_attention_residual.leave(x, &attention.context, &own.output, output);

        let y = self.feed_forward_residual.enter(x, normalised);
        self.feed_forward.inner(y, hidden);
        let outer = &self.feed_forward.outer;
        self.feed_forward_residual.leave(x, &hidden.values, outer, output);
    }
}
