//! The encoder on sentences that are stored one after another, without padding; and its layers as
//! those of a language model, which advances every row by one token a step.

use std::ops::Range;

use crate::{
    Sublayer,
    attention::{Rotation, in_order},
    feed_forward::PackedFeedForward,
    history::History,
    probe::Probe,
    residual::PackedNorm,
    scratch::Scratch,
    self_attention::PackedSelfAttention,
    source::Packer,
};

/// One layer: self-attention, then feed-forward, each in a residual connection.
#[derive(Debug, Clone)]
struct PackedEncoderLayer {
    self_attention: PackedSelfAttention,
    feed_forward: PackedFeedForward,
}

/// All layers, and in pre-norm a final normalization.
#[derive(Debug, Clone)]
pub(crate) struct PackedEncoder {
    layers: Vec<PackedEncoderLayer>,
    norm: Option<PackedNorm>,
}

/// Keys and values of the earlier tokens of a batch, kept between two steps.
#[derive(Debug)]
pub(crate) struct PackedPast {
    /// `[slots in use, 2 d_model]` for each layer: keys, then values.
    layers: Vec<Vec<f32>>,
    history: History,
}

impl PackedPast {
    pub(crate) fn len(&self) -> usize {
        self.history.len()
    }

    pub(crate) fn rows(&self) -> usize {
        self.history.count()
    }

    pub(crate) fn select(&mut self, rows: &[usize]) {
        self.history.select(rows);
    }
}

impl PackedEncoder {
    /// Packs the stack of `layers` layers at path `stack`.
    pub(crate) fn pack(packer: &Packer<'_>, stack: &str, layers: usize) -> Self {
        Self {
            layers: packer.layers(layers, |layer| {
                PackedEncoderLayer::pack(packer, &format!("{stack}.layers.{layer}"))
            }),
            norm: PackedNorm::pack_final(packer, stack),
        }
    }

    /// Encodes the sentences: replaces `x` by the memory.
    ///
    /// # Shapes
    ///
    /// - `x`: embedded tokens `[tokens of all sentences, d_model]`
    /// - `sentences`: the rows of each
    pub(crate) fn forward(&self, x: &mut [f32], sentences: &[Range<usize>], scratch: &mut Scratch) {
        let longest = sentences.iter().map(Range::len).max().unwrap_or(0);
        let slots = in_order(longest);
        let rotation = self.rotation(sentences.iter().flat_map(|rows| 0..rows.len()));
        for (index, layer) in self.layers.iter().enumerate() {
            if scratch.probe.enter_layer(index) {
                layer.self_attention.forward(x, sentences, &slots, &rotation, scratch);
                layer.feed_forward.forward(x, scratch);
            }
        }
        self.finish(x, &mut scratch.probe);
    }

    /// Number of layers.
    pub(crate) fn n_layers(&self) -> usize {
        self.layers.len()
    }

    /// Number of heads of an attention; `None` if there is no such attention.
    pub(crate) fn n_heads(&self, layer: usize, sublayer: Sublayer) -> Option<usize> {
        let layer = self.layers.get(layer)?;
        (sublayer == Sublayer::SelfAttention).then(|| layer.self_attention.n_heads())
    }

    /// Starts `rows` rows without tokens.
    pub(crate) fn start(&self, rows: usize) -> PackedPast {
        PackedPast { layers: vec![Vec::new(); self.layers.len()], history: History::new(rows) }
    }

    /// Adds one position to every row of `past`; it attends to itself and the earlier ones.
    ///
    /// # Shapes
    ///
    /// - `x`: the newest tokens, embedded, `[rows, d_model]`; replaced by the result
    pub(crate) fn step(&self, x: &mut [f32], past: &mut PackedPast, scratch: &mut Scratch) {
        let PackedPast { layers: keys_values, history } = past;
        history.push();
        let rotation = self.rotation(std::iter::repeat_n(history.newest(), history.count()));
        for (index, (layer, past)) in self.layers.iter().zip(keys_values).enumerate() {
            if scratch.probe.enter_layer(index) {
                layer.self_attention.step(x, past, history, &rotation, scratch);
                layer.feed_forward.forward(x, scratch);
            }
        }
        self.finish(x, &mut scratch.probe);
    }

    fn rotation(&self, positions: impl Iterator<Item = usize>) -> Rotation {
        match self.layers.first() {
            Some(layer) => layer.self_attention.rotation(positions),
            None => Rotation::default(),
        }
    }

    fn finish(&self, x: &mut [f32], probe: &mut Probe) {
        if let Some(norm) = &self.norm {
            norm.normalize(x);
        }
        probe.output(x);
    }
}

impl PackedEncoderLayer {
    fn pack(packer: &Packer<'_>, layer: &str) -> Self {
        // The largest weights first, as in `PackedTransformer::pack`.
        let feed_forward = PackedFeedForward::pack(packer, layer);
        Self { self_attention: PackedSelfAttention::pack(packer, layer), feed_forward }
    }
}
