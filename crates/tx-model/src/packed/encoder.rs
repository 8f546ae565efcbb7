//! The encoder on sentences that are stored one after another, without padding.

use std::ops::Range;

use super::{
    Map, Scratch,
    attention::{Memory, PackedAttention, Rotation, in_order},
    feed_forward::PackedFeedForward,
    residual::{PackedNorm, PackedResidual},
    source::Packer,
};

/// One layer: self-attention, then feed-forward, each in a residual connection.
#[derive(Debug, Clone)]
struct PackedEncoderLayer {
    self_attention: PackedAttention,
    self_attention_residual: PackedResidual,
    feed_forward: PackedFeedForward,
    feed_forward_residual: PackedResidual,
}

/// All layers, and in pre-norm a final normalization.
#[derive(Debug, Clone)]
pub(super) struct PackedEncoder {
    layers: Vec<PackedEncoderLayer>,
    norm: Option<PackedNorm>,
}

impl PackedEncoder {
    pub(super) fn pack(packer: &Packer<'_>) -> Self {
        Self {
            layers: packer.layers(packer.config.encoder_layers, |layer| {
                PackedEncoderLayer::pack(packer, &format!("encoder.layers.{layer}"))
            }),
            norm: PackedNorm::pack_final(packer, "encoder"),
        }
    }

    /// Encodes the sentences: replaces `x` by the memory.
    ///
    /// # Shapes
    ///
    /// - `x`: embedded tokens `[tokens of all sentences, d_model]`
    /// - `sentences`: the rows of each
    /// - `maps`: if given, receives the attention weights `[H, S, S]` of each layer; for one sentence
    pub(super) fn forward(
        &self,
        x: &mut [f32],
        sentences: &[Range<usize>],
        scratch: &mut Scratch,
        mut maps: Option<&mut Vec<Map>>,
    ) {
        let longest = sentences.iter().map(Range::len).max().unwrap_or(0);
        let slots = in_order(longest);
        let positions = || sentences.iter().flat_map(|rows| 0..rows.len());
        let rotation = match self.layers.first() {
            Some(layer) => layer.self_attention.rotation(positions()),
            None => Rotation::default(),
        };
        for layer in &self.layers {
            let mut map = maps
                .is_some()
                .then(|| Map::zeros(layer.self_attention.n_heads(), longest, longest));
            layer.forward(x, sentences, &slots, &rotation, scratch, map.as_mut());
            if let Some(maps) = &mut maps {
                maps.extend(map);
            }
        }
        if let Some(norm) = &self.norm {
            norm.normalize(x);
        }
    }
}

impl PackedEncoderLayer {
    fn pack(packer: &Packer<'_>, name: &str) -> Self {
        let part = |part: &str| format!("{name}.{part}");
        let positions = packer.config.positions;
        Self {
            self_attention: PackedAttention::pack(packer, &part("self_attention"), positions),
            self_attention_residual: PackedResidual::pack(packer, &part("self_attention_residual")),
            feed_forward: PackedFeedForward::pack(packer, &part("feed_forward")),
            feed_forward_residual: PackedResidual::pack(packer, &part("feed_forward_residual")),
        }
    }

    fn forward(
        &self,
        x: &mut [f32],
        sentences: &[Range<usize>],
        slots: &[u32],
        rotation: &Rotation,
        scratch: &mut Scratch,
        mut map: Option<&mut Map>,
    ) {
        let Scratch { normalized, attention, keys_values, hidden, output } = scratch;
        let self_attention = &self.self_attention;
        let y = self.self_attention_residual.enter(x, normalized);
        self_attention.project_queries(y, attention);
        keys_values.resize(2 * y.len(), 0.0);
        self_attention.keys_values.product(y, keys_values);
        self_attention.rotate(&mut attention.queries, keys_values, rotation);
        let width = self_attention.keys_values.outputs();
        for rows in sentences {
            let memory = Memory {
                keys_values: &keys_values[rows.start * width..rows.end * width],
                slots: &slots[..rows.len()],
            };
            for (position, row) in rows.clone().enumerate() {
                self_attention.attend(attention, row, position, memory);
                if let Some(map) = &mut map {
                    map.record(position, self_attention.weights(attention, rows.len()));
                }
            }
        }
        let matrix = &self_attention.output;
        self.self_attention_residual.leave(x, &attention.context, matrix, output);

        let y = self.feed_forward_residual.enter(x, normalized);
        self.feed_forward.inner(y, hidden);
        let outer = &self.feed_forward.outer;
        self.feed_forward_residual.leave(x, &hidden.values, outer, output);
    }
}
