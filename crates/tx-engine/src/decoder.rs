//! The decoder, which advances every row by one token a step.

use std::ops::Range;

use tx_model::config::{Autoregression, Positions};

use crate::{
    Map, PackedAttentionMaps,
    attention::{Memory, PackedAttention, Rotation, in_order},
    feed_forward::PackedFeedForward,
    history::History,
    linear::Input,
    residual::{PackedNorm, PackedResidual},
    scratch::Scratch,
    self_attention::PackedSelfAttention,
    source::Packer,
    ssru::PackedSsru,
};

/// One layer: self-attention or a recurrent unit, cross-attention, feed-forward, each in a residual
/// connection.
#[derive(Debug, Clone)]
struct PackedDecoderLayer {
    autoregression: PackedAutoregression,
    cross_attention: PackedAttention,
    cross_attention_residual: PackedResidual,
    feed_forward: PackedFeedForward,
}

/// Sub-layer that reads the target tokens so far.
#[derive(Debug, Clone)]
enum PackedAutoregression {
    SelfAttention(PackedSelfAttention),
    Ssru(PackedSsru),
}

/// All layers, and in pre-norm a final normalization.
#[derive(Debug, Clone)]
pub(crate) struct PackedDecoder {
    layers: Vec<PackedDecoderLayer>,
    norm: Option<PackedNorm>,
}

/// Keys, values and states of a batch, kept between two steps.
///
/// Keys and values of the source are stored once per sentence, for any number of rows.
#[derive(Debug)]
pub(crate) struct PackedCache {
    layers: Vec<LayerCache>,
    /// Keys of each sentence in [`LayerCache::cross`].
    sentences: Vec<Range<usize>>,
    /// Sentence of each row.
    sentence_of: Vec<usize>,
    /// Target tokens of each row in [`LayerCache::target`].
    history: History,
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

/// Keys, values and states of one layer.
#[derive(Debug)]
struct LayerCache {
    /// `[tokens of all sentences, 2 d_model]`: keys, then values.
    cross: Vec<f32>,
    /// Of the target: keys, then values, `[used, 2 d_model]`; or states of a recurrent unit,
    /// `[used, d_model]`.
    target: Vec<f32>,
}

impl PackedCache {
    pub(crate) fn len(&self) -> usize {
        self.history.len()
    }

    pub(crate) fn rows(&self) -> usize {
        self.history.count()
    }

    /// Number of sentences.
    pub(crate) fn sentences(&self) -> usize {
        self.sentences.len()
    }

    /// Sentence of each row.
    pub(crate) fn sentence_of(&self) -> &[usize] {
        &self.sentence_of
    }

    /// Records the attention of layer `layer` to the source from now on.
    pub(crate) fn watch(&mut self, layer: usize) {
        self.watched = Some(Watched { layer, weights: Vec::new() });
    }

    /// Attention of row `row` to each token of its source in the last step: the mean over the heads
    /// of the watched layer. Empty if no layer is watched.
    pub(crate) fn attention(&self, row: usize) -> &[f32] {
        let Some(Watched { weights, .. }) = &self.watched else { return &[] };
        let keys = self.sentences[self.sentence_of[row]].len();
        &weights[row * self.in_order.len()..][..keys]
    }

    pub(crate) fn select(&mut self, rows: &[usize]) {
        self.history.select(rows);
        self.sentence_of = rows.iter().map(|&row| self.sentence_of[row]).collect();
    }
}

impl PackedDecoder {
    pub(crate) fn pack(packer: &Packer<'_>) -> Self {
        Self {
            layers: packer.layers(packer.config.decoder_layers, |layer| {
                PackedDecoderLayer::pack(packer, &format!("decoder.layers.{layer}"))
            }),
            norm: PackedNorm::pack_final(packer, "decoder"),
        }
    }

    /// Number of layers.
    pub(crate) fn n_layers(&self) -> usize {
        self.layers.len()
    }

    /// Maps of the self-attention of all layers, to be filled by [`step`](Self::step); none for
    /// recurrent units.
    pub(crate) fn empty_self_maps(&self, len: usize) -> Vec<Map> {
        let attention = self.layers.iter().filter_map(|layer| layer.autoregression.attention());
        attention.map(|attention| Map::zeros(attention.n_heads(), len, len)).collect()
    }

    /// Maps of the cross-attention of all layers, to be filled by [`step`](Self::step).
    pub(crate) fn empty_cross_maps(&self, queries: usize, keys: usize) -> Vec<Map> {
        let heads = self.layers.iter().map(|layer| layer.cross_attention.n_heads());
        heads.map(|heads| Map::zeros(heads, queries, keys)).collect()
    }

    /// Computes keys and values of the source, and starts a row for each sentence.
    ///
    /// # Shapes
    ///
    /// - `memory`: the encoder's output `[tokens of all sentences, d_model]`
    pub(crate) fn start(&self, memory: &[f32], sentences: Vec<Range<usize>>) -> PackedCache {
        let layer = |layer: &PackedDecoderLayer, memory: Input<'_>, size: usize| {
            let mut cross = vec![0.0; 2 * size];
            layer.cross_attention.keys_values.product(memory, &mut cross);
            LayerCache { cross, target: Vec::new() }
        };
        let layers = self.layers.first().map_or_else(Vec::new, |first| {
            first.cross_attention.keys_values.with_input(memory, |input| {
                self.layers.iter().map(|one| layer(one, input, memory.len())).collect()
            })
        });
        let longest = sentences.iter().map(Range::len).max().unwrap_or(0);
        PackedCache {
            layers,
            sentence_of: (0..sentences.len()).collect(),
            history: History::new(sentences.len()),
            sentences,
            in_order: in_order(longest),
            watched: None,
        }
    }

    /// Adds one target position to every row of `cache`.
    ///
    /// # Shapes
    ///
    /// - `x`: the newest tokens, embedded, `[rows, d_model]`; replaced by the result
    /// - `maps`: if given, receive the attention weights of this step; for one row
    pub(crate) fn step(
        &self,
        x: &mut [f32],
        cache: &mut PackedCache,
        scratch: &mut Scratch,
        mut maps: Option<&mut PackedAttentionMaps>,
    ) {
        cache.history.push();
        let attention = self.layers.first().and_then(|layer| layer.autoregression.attention());
        let positions = std::iter::repeat_n(cache.history.newest(), cache.rows());
        let rotation = attention.map_or_else(Rotation::default, |it| it.rotation(positions));
        for (index, layer) in self.layers.iter().enumerate() {
            layer.step(x, cache, index, &rotation, scratch, maps.as_deref_mut());
        }
        if let Some(norm) = &self.norm {
            norm.normalize(x);
        }
    }
}

impl PackedAutoregression {
    /// Self-attention, if it is that.
    fn attention(&self) -> Option<&PackedSelfAttention> {
        match self {
            Self::SelfAttention(attention) => Some(attention),
            Self::Ssru(_) => None,
        }
    }
}

impl PackedDecoderLayer {
    fn pack(packer: &Packer<'_>, layer: &str) -> Self {
        // The largest weights first, as in `PackedTransformer::pack`.
        let feed_forward = PackedFeedForward::pack(packer, layer);
        let cross_attention = format!("{layer}.cross_attention");
        Self {
            autoregression: match packer.config.autoregression {
                Autoregression::SelfAttention => {
                    PackedAutoregression::SelfAttention(PackedSelfAttention::pack(packer, layer))
                }
                Autoregression::Ssru => PackedAutoregression::Ssru(PackedSsru::pack(packer, layer)),
            },
            cross_attention: PackedAttention::pack(packer, &cross_attention, Positions::None),
            cross_attention_residual: PackedResidual::pack(
                packer,
                &format!("{cross_attention}_residual"),
            ),
            feed_forward,
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
        let target = &mut cache.layers[index].target;
        match &self.autoregression {
            PackedAutoregression::SelfAttention(attention) => {
                let map = maps.as_deref_mut().map(|maps| &mut maps.decoder[index]);
                attention.step(x, target, &cache.history, rotation, scratch, map);
            }
            PackedAutoregression::Ssru(unit) => unit.step(x, target, &cache.history, scratch),
        }
        let map = maps.map(|maps| &mut maps.cross[index]);
        self.attend_to_source(x, cache, index, scratch, map);
        self.feed_forward.forward(x, scratch);
    }

    /// Lets the newest token of every row attend to its source.
    fn attend_to_source(
        &self,
        x: &mut [f32],
        cache: &mut PackedCache,
        index: usize,
        scratch: &mut Scratch,
        mut map: Option<&mut Map>,
    ) {
        let Scratch { normalized, attention, output, .. } = scratch;
        let PackedCache { layers, sentences, sentence_of, history, in_order, watched } = cache;
        let watched = watched.as_mut().filter(|watched| watched.layer == index);
        let cross = &layers[index].cross;
        let width = self.cross_attention.keys_values.outputs();
        let position = history.newest();

        let y = self.cross_attention_residual.enter(x, normalized);
        self.cross_attention.project_queries(y, attention);
        let mut means = watched.map(|watched| {
            watched.weights.resize(sentence_of.len() * in_order.len(), 0.0);
            watched.weights.chunks_exact_mut(in_order.len().max(1))
        });
        let memory = |sentence: usize| {
            let keys = &sentences[sentence];
            Memory {
                keys_values: &cross[keys.start * width..keys.end * width],
                slots: &in_order[..keys.len()],
            }
        };
        for (row, &sentence) in sentence_of.iter().enumerate() {
            let keys = &sentences[sentence];
            // Hypotheses of one sentence have the same keys, which are in the cache then.
            let next = sentence_of.get(row + 1).filter(|&&next| next != sentence);
            let next = next.map_or(Memory::EMPTY, |&next| memory(next));
            self.cross_attention.attend(attention, row, position, [memory(sentence), next]);
            if let Some(means) = means.as_mut().and_then(Iterator::next) {
                self.cross_attention.mean_weights(attention, &mut means[..keys.len()]);
            }
            if let Some(map) = &mut map {
                map.record(position, self.cross_attention.weights(attention, keys.len()));
            }
        }
        let matrix = &self.cross_attention.output;
        self.cross_attention_residual.leave(x, &attention.context, matrix, output);
    }
}
