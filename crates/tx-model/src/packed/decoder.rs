//! The decoder, which advances every row by one token a step.

use std::ops::Range;

use super::{
    Map, PackedAttentionMaps, Scratch,
    attention::{Memory, PackedAttention, Rotation, in_order},
    feed_forward::PackedFeedForward,
    residual::{PackedNorm, PackedResidual},
    source::Packer,
};
use crate::config::Positions;

/// One layer: self-attention, cross-attention, feed-forward, each in a residual connection.
#[derive(Debug, Clone)]
struct PackedDecoderLayer {
    self_attention: PackedAttention,
    self_attention_residual: PackedResidual,
    cross_attention: PackedAttention,
    cross_attention_residual: PackedResidual,
    feed_forward: PackedFeedForward,
    feed_forward_residual: PackedResidual,
}

/// All layers, and in pre-norm a final normalization.
#[derive(Debug, Clone)]
pub(super) struct PackedDecoder {
    layers: Vec<PackedDecoderLayer>,
    norm: Option<PackedNorm>,
}

/// Keys and values of a batch, kept between two steps.
///
/// Those of the source are stored once per sentence, for any number of rows. Those of the target
/// are appended at each step and never move: the [`history`](Row::history) of a row lists the slots
/// that belong to it.
#[derive(Debug)]
pub(super) struct PackedCache {
    layers: Vec<LayerCache>,
    /// Keys of each sentence in [`LayerCache::cross`].
    sentences: Vec<Range<usize>>,
    rows: Vec<Row>,
    /// Number of tokens decoded so far, the same for every row.
    len: usize,
    /// Number of slots of the target in use.
    used: usize,
    /// `0, 1, …` up to the longest sentence.
    in_order: Vec<u32>,
    watched: Option<Watched>,
}

/// Attention of the last step to the source, in one layer.
#[derive(Debug)]
struct Watched {
    /// Index of the layer.
    layer: usize,
    /// Mean over the heads, `[rows, longest sentence]`.
    weights: Vec<f32>,
}

/// Keys and values of one layer.
#[derive(Debug)]
struct LayerCache {
    /// `[tokens of all sentences, 2 d_model]`: keys, then values.
    cross: Vec<f32>,
    /// `[used, 2 d_model]`: keys, then values of the target.
    target: Vec<f32>,
}

/// An unfinished hypothesis.
#[derive(Debug, Clone)]
struct Row {
    sentence: usize,
    /// Slot of each of its tokens in [`LayerCache::target`].
    history: Vec<u32>,
}

impl PackedCache {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Records the attention of layer `layer` to the source from now on.
    pub(super) fn watch(&mut self, layer: usize) {
        self.watched = Some(Watched { layer, weights: Vec::new() });
    }

    /// Attention of row `row` to each token of its source in the last step: the mean over the heads
    /// of the watched layer. Empty if no layer is watched.
    pub(super) fn attention(&self, row: usize) -> &[f32] {
        let Some(Watched { weights, .. }) = &self.watched else { return &[] };
        let keys = self.sentences[self.rows[row].sentence].len();
        &weights[row * self.in_order.len()..][..keys]
    }

    pub(super) fn select(&mut self, rows: &[usize]) {
        self.rows = rows.iter().map(|&row| self.rows[row].clone()).collect();
    }
}

impl PackedDecoder {
    pub(super) fn pack(packer: &Packer<'_>) -> Self {
        Self {
            layers: packer.layers(packer.config.decoder_layers, |layer| {
                PackedDecoderLayer::pack(packer, &format!("decoder.layers.{layer}"))
            }),
            norm: PackedNorm::pack_final(packer, "decoder"),
        }
    }

    /// Number of layers.
    pub(super) fn n_layers(&self) -> usize {
        self.layers.len()
    }

    /// Attention maps of all layers, to be filled by [`step`](Self::step).
    pub(super) fn empty_maps(&self, queries: usize, keys: usize) -> Vec<Map> {
        let heads = self.layers.iter().map(|layer| layer.self_attention.n_heads());
        heads.map(|heads| Map::zeros(heads, queries, keys)).collect()
    }

    /// Computes keys and values of the source, and starts a row for each sentence.
    ///
    /// # Shapes
    ///
    /// - `memory`: the encoder's output `[tokens of all sentences, d_model]`
    pub(super) fn start(&self, memory: &[f32], sentences: Vec<Range<usize>>) -> PackedCache {
        let layers = self
            .layers
            .iter()
            .map(|layer| {
                let mut cross = vec![0.0; 2 * memory.len()];
                layer.cross_attention.keys_values.product(memory, &mut cross);
                LayerCache { cross, target: Vec::new() }
            })
            .collect();
        let longest = sentences.iter().map(Range::len).max().unwrap_or(0);
        let rows =
            (0..sentences.len()).map(|sentence| Row { sentence, history: Vec::new() }).collect();
        let in_order = in_order(longest);
        PackedCache { layers, sentences, rows, len: 0, used: 0, in_order, watched: None }
    }

    /// Adds one target position to every row of `cache`.
    ///
    /// # Shapes
    ///
    /// - `x`: the newest tokens, embedded, `[rows, d_model]`; replaced by the result
    /// - `maps`: if given, receive the attention weights of this step; for one row
    pub(super) fn step(
        &self,
        x: &mut [f32],
        cache: &mut PackedCache,
        scratch: &mut Scratch,
        mut maps: Option<&mut PackedAttentionMaps>,
    ) {
        for row in &mut cache.rows {
            row.history.push(cache.used as u32);
            cache.used += 1;
        }
        let rotation = match self.layers.first() {
            Some(layer) => {
                let positions = std::iter::repeat_n(cache.len, cache.rows.len());
                layer.self_attention.rotation(positions)
            }
            None => Rotation::default(),
        };
        for (index, layer) in self.layers.iter().enumerate() {
            layer.step(x, cache, index, &rotation, scratch, maps.as_deref_mut());
        }
        cache.len += 1;
        if let Some(norm) = &self.norm {
            norm.normalize(x);
        }
    }
}

impl PackedDecoderLayer {
    fn pack(packer: &Packer<'_>, name: &str) -> Self {
        let attention = |part: &str, positions| {
            PackedAttention::pack(packer, &format!("{name}.{part}"), positions)
        };
        let residual = |part: &str| PackedResidual::pack(packer, &format!("{name}.{part}"));
        Self {
            self_attention: attention("self_attention", packer.config.positions),
            self_attention_residual: residual("self_attention_residual"),
            cross_attention: attention("cross_attention", Positions::None),
            cross_attention_residual: residual("cross_attention_residual"),
            feed_forward: PackedFeedForward::pack(packer, &format!("{name}.feed_forward")),
            feed_forward_residual: residual("feed_forward_residual"),
        }
    }

    fn step(
        &self,
        x: &mut [f32],
        cache: &mut PackedCache,
        index: usize,
        rotation: &Rotation,
        scratch: &mut Scratch,
        mut maps: Option<&mut PackedAttentionMaps>,
    ) {
        let Scratch { normalized, attention, hidden, output, .. } = scratch;
        let PackedCache { layers, sentences, rows, len, used, in_order, watched } = cache;
        let watched = watched.as_mut().filter(|watched| watched.layer == index);
        let LayerCache { cross, target } = &mut layers[index];
        let width = self.self_attention.keys_values.outputs();

        let y = self.self_attention_residual.enter(x, normalized);
        self.self_attention.project_queries(y, attention);
        let newest = target.len();
        target.resize(*used * width, 0.0);
        let newest = &mut target[newest..];
        self.self_attention.keys_values.product(y, newest);
        self.self_attention.rotate(&mut attention.queries, newest, rotation);
        for (row_index, row) in rows.iter().enumerate() {
            let memory = Memory { keys_values: target, slots: &row.history };
            self.self_attention.attend(attention, row_index, *len, memory);
            if let Some(maps) = &mut maps {
                let weights = self.self_attention.weights(attention, row.history.len());
                maps.decoder[index].record(*len, weights);
            }
        }
        let matrix = &self.self_attention.output;
        self.self_attention_residual.leave(x, &attention.context, matrix, output);

        let y = self.cross_attention_residual.enter(x, normalized);
        self.cross_attention.project_queries(y, attention);
        let mut means = watched.map(|watched| {
            watched.weights.resize(rows.len() * in_order.len(), 0.0);
            watched.weights.chunks_exact_mut(in_order.len().max(1))
        });
        for (row_index, row) in rows.iter().enumerate() {
            let keys = &sentences[row.sentence];
            let memory = Memory {
                keys_values: &cross[keys.start * width..keys.end * width],
                slots: &in_order[..keys.len()],
            };
            self.cross_attention.attend(attention, row_index, *len, memory);
            if let Some(means) = means.as_mut().and_then(Iterator::next) {
                self.cross_attention.mean_weights(attention, &mut means[..keys.len()]);
            }
            if let Some(maps) = &mut maps {
                let weights = self.cross_attention.weights(attention, keys.len());
                maps.cross[index].record(*len, weights);
            }
        }
        let matrix = &self.cross_attention.output;
        self.cross_attention_residual.leave(x, &attention.context, matrix, output);

        let y = self.feed_forward_residual.enter(x, normalized);
        self.feed_forward.inner(y, hidden);
        let outer = &self.feed_forward.outer;
        self.feed_forward_residual.leave(x, &hidden.values, outer, output);
    }
}
