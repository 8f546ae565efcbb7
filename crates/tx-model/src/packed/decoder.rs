//! The decoder, one token of every row a step.

use std::ops::Range;

use super::{
    Scratch,
    attention::{Memory, PackedAttention, Rotation, in_order},
    feed_forward::PackedFeedForward,
    residual::{PackedNorm, PackedResidual},
};

/// One layer: self-attention, attention to the source, feed-forward, each in a residual connection.
#[derive(Debug, Clone)]
pub(crate) struct PackedDecoderLayer {
    pub(crate) self_attention: PackedAttention,
    pub(crate) self_attention_residual: PackedResidual,
    pub(crate) cross_attention: PackedAttention,
    pub(crate) cross_attention_residual: PackedResidual,
    pub(crate) feed_forward: PackedFeedForward,
    pub(crate) feed_forward_residual: PackedResidual,
}

/// All layers, and in pre-norm a last normalisation.
#[derive(Debug, Clone)]
pub(crate) struct PackedDecoder {
    pub(crate) layers: Vec<PackedDecoderLayer>,
    pub(crate) norm: Option<PackedNorm>,
}

/// What the decoder remembers between two steps: keys and values.
///
/// Those of the source are kept once per sentence, whatever the number of its rows. Those of the
/// target are written once, each step's behind the last one's, and never move: a row knows by its
/// [`history`](Row::history) which of them are its own.
#[derive(Debug)]
pub(super) struct PackedCache {
    layers: Vec<LayerCache>,
    /// Where each sentence's keys are in [`LayerCache::cross`].
    sentences: Vec<Range<usize>>,
    rows: Vec<Row>,
    /// Tokens decoded so far, the same for every row.
    len: usize,
    /// Keys of the target written so far.
    used: usize,
    /// `0, 1, …` up to the longest sentence.
    in_order: Vec<u32>,
    watched: Option<Watched>,
}

/// Where the rows of the last step looked in the source.
#[derive(Debug)]
struct Watched {
    /// In which layer.
    layer: usize,
    /// Mean of the heads `[rows, longest sentence]`.
    weights: Vec<f32>,
}

#[derive(Debug)]
struct LayerCache {
    /// `[tokens of all sentences, 2 d_model]`: keys, then values.
    cross: Vec<f32>,
    /// `[used, 2 d_model]`
    own: Vec<f32>,
}

/// A hypothesis under way.
#[derive(Debug, Clone)]
struct Row {
    sentence: usize,
    /// Where the key of each of its tokens is in [`LayerCache::own`].
    history: Vec<u32>,
}

impl PackedCache {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Takes note from now on of where rows look in the source in layer `layer`.
    pub(super) fn watch(&mut self, layer: usize) {
        self.watched = Some(Watched { layer, weights: Vec::new() });
    }

    /// What row `row` took from each token of its source in the last step, which is the mean of the
    /// heads of the layer watched; none where none is.
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
    /// Computes keys and values of the source, and begins a row for each sentence.
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
                LayerCache { cross, own: Vec::new() }
            })
            .collect();
        let longest = sentences.iter().map(Range::len).max().unwrap_or(0);
        let rows =
            (0..sentences.len()).map(|sentence| Row { sentence, history: Vec::new() }).collect();
        let in_order = in_order(longest);
        PackedCache { layers, sentences, rows, len: 0, used: 0, in_order, watched: None }
    }

    /// One more target position for every row of `cache`.
    ///
    /// # Shapes
    ///
    /// - `x`: the newest tokens, embedded: `[rows, d_model]`; becomes the result
    pub(super) fn step(&self, x: &mut [f32], cache: &mut PackedCache, scratch: &mut Scratch) {
        for row in &mut cache.rows {
            row.history.push(cache.used as u32);
            cache.used += 1;
        }
        let mut rotation = Rotation::default();
        if let Some(layer) = self.layers.first().filter(|layer| layer.self_attention.rotary) {
            let places = std::iter::repeat_n(cache.len, cache.rows.len());
            rotation = Rotation::new(places, layer.self_attention.d_head());
        }
        for (index, layer) in self.layers.iter().enumerate() {
            layer.step(x, cache, index, &rotation, scratch);
        }
        cache.len += 1;
        if let Some(norm) = &self.norm {
            norm.normalise(x);
        }
    }
}

impl PackedDecoderLayer {
    fn step(
        &self,
        x: &mut [f32],
        cache: &mut PackedCache,
        index: usize,
        rotation: &Rotation,
        scratch: &mut Scratch,
    ) {
        let Scratch { normalised, attention, hidden, output, .. } = scratch;
        let PackedCache { layers, sentences, rows, len, used, in_order, watched } = cache;
        let watched = watched.as_mut().filter(|watched| watched.layer == index);
        let LayerCache { cross, own } = &mut layers[index];
        let width = self.self_attention.keys_values.outputs();

        let y = self.self_attention_residual.enter(x, normalised);
        self.self_attention.project_queries(y, attention);
        let newest = own.len();
        own.resize(*used * width, 0.0);
        let newest = &mut own[newest..];
        self.self_attention.keys_values.product(y, newest);
        self.self_attention.rotate(&mut attention.queries, newest, rotation);
        for (index, row) in rows.iter().enumerate() {
            let memory = Memory { keys_values: own, slots: &row.history };
            self.self_attention.attend(attention, index, *len, memory);
        }
        let matrix = &self.self_attention.output;
        self.self_attention_residual.leave(x, &attention.context, matrix, output);

        let y = self.cross_attention_residual.enter(x, normalised);
        self.cross_attention.project_queries(y, attention);
        let mut weights = watched.map(|watched| {
            watched.weights.resize(rows.len() * in_order.len(), 0.0);
            watched.weights.chunks_exact_mut(in_order.len().max(1))
        });
        for (index, row) in rows.iter().enumerate() {
            let keys = &sentences[row.sentence];
            let memory = Memory {
                keys_values: &cross[keys.start * width..keys.end * width],
                slots: &in_order[..keys.len()],
            };
            self.cross_attention.attend(attention, index, *len, memory);
            if let Some(weights) = weights.as_mut().and_then(Iterator::next) {
                self.cross_attention.mean_weights(attention, &mut weights[..keys.len()]);
            }
        }
        let matrix = &self.cross_attention.output;
        self.cross_attention_residual.leave(x, &attention.context, matrix, output);

        let y = self.feed_forward_residual.enter(x, normalised);
        self.feed_forward.inner(y, hidden);
        let outer = &self.feed_forward.outer;
        self.feed_forward_residual.leave(x, &hidden.values, outer, output);
    }
}
