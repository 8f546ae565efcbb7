//! The decoder, which advances every row by one token a step.

use std::ops::Range;

use tx_model::config::{Autoregression, Positions};

use crate::{
    Sublayer,
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
    /// of the watched layer. Empty if no layer is watched, or that layer is turned off.
    pub(crate) fn attention(&self, row: usize) -> &[f32] {
        let Some(Watched { weights, .. }) = &self.watched else { return &[] };
        let start = row * self.in_order.len();
        weights.get(start..start + self.sentences[self.sentence_of[row]].len()).unwrap_or(&[])
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

    /// Number of heads of an attention; `None` if there is no such attention.
    pub(crate) fn n_heads(&self, layer: usize, sublayer: Sublayer) -> Option<usize> {
        let layer = self.layers.get(layer)?;
        match sublayer {
            Sublayer::SelfAttention => Some(layer.autoregression.attention()?.n_heads()),
            Sublayer::CrossAttention => Some(layer.cross_attention.n_heads()),
            Sublayer::Ssru | Sublayer::FeedForward => None,
        }
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
    pub(crate) fn step(&self, x: &mut [f32], cache: &mut PackedCache, scratch: &mut Scratch) {
        cache.history.push();
        let attention = self.layers.first().and_then(|layer| layer.autoregression.attention());
        let positions = std::iter::repeat_n(cache.history.newest(), cache.rows());
        let rotation = attention.map_or_else(Rotation::default, |it| it.rotation(positions));
        for (index, layer) in self.layers.iter().enumerate() {
            if scratch.probe.enter_layer(index) {
                layer.step(x, cache, index, &rotation, scratch);
            }
        }
        if let Some(norm) = &self.norm {
            norm.normalize(x);
        }
        scratch.probe.output(x);
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
    ) {
        let target = &mut cache.layers[index].target;
        match &self.autoregression {
            PackedAutoregression::SelfAttention(attention) => {
                attention.step(x, target, &cache.history, rotation, scratch);
            }
            PackedAutoregression::Ssru(unit) => unit.step(x, target, &cache.history, scratch),
        }
        self.attend_to_source(x, cache, index, scratch);
        self.feed_forward.forward(x, scratch);
    }

    /// Lets the newest token of every row attend to its source.
    fn attend_to_source(
        &self,
        x: &mut [f32],
        cache: &mut PackedCache,
        index: usize,
        scratch: &mut Scratch,
    ) {
        let Scratch { normalized, attention, output, probe, .. } = scratch;
        let PackedCache { layers, sentences, sentence_of, history, in_order, watched } = cache;
        let watched = watched.as_mut().filter(|watched| watched.layer == index);
        let cross = &layers[index].cross;
        let width = self.cross_attention.keys_values.outputs();
        let position = history.newest();

        let residual = &self.cross_attention_residual;
        let y = residual.enter(Sublayer::CrossAttention, x, normalized, probe);
        self.cross_attention.project_queries(y, attention);
        // Keys and values of the source are the same in every step.
        let new_keys = if position == 0 { &cross[..] } else { &[] };
        self.cross_attention.record(&attention.queries, new_keys, probe);
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
            self.cross_attention.attend(attention, row, position, [memory(sentence), next], probe);
            if let Some(means) = means.as_mut().and_then(Iterator::next) {
                self.cross_attention.mean_weights(attention, &mut means[..keys.len()]);
            }
        }
        self.cross_attention.silence(attention, probe);
        residual.leave(x, &attention.context, &self.cross_attention.output, output, probe);
    }
}
