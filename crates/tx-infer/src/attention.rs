//! Attention weights of every layer and head, for a source and a target.
//!
//! A map has a row for each query token and a column for each key token; the weights of a row sum
//! to 1. All maps come from one pass over the whole target.

use serde_json::{Value, json};
use tx_engine::Map;
use tx_text::special::SPECIAL_TOKENS;

use crate::{
    search::{Engine, Member},
    tokens::Tokens,
    weights::Weights,
};

/// Kind of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionKind {
    /// Self-attention of the encoder: from source tokens to source tokens.
    Encoder,
    /// Self-attention of the decoder: from target tokens to themselves and earlier ones.
    Decoder,
    /// Cross-attention: from target tokens to source tokens.
    Cross,
}

impl AttentionKind {
    /// All kinds, the most informative first.
    pub const ALL: [Self; 3] = [Self::Cross, Self::Encoder, Self::Decoder];

    /// Returns the name in files and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Encoder => "encoder",
            Self::Decoder => "decoder",
            Self::Cross => "cross",
        }
    }

    /// Returns the name in titles.
    pub fn title(self) -> &'static str {
        match self {
            Self::Encoder => "Encoder self-attention",
            Self::Decoder => "Decoder self-attention",
            Self::Cross => "Cross-attention",
        }
    }

    /// Returns the names of the axes of its maps: rows, columns.
    pub fn axes(self) -> (&'static str, &'static str) {
        match self {
            Self::Encoder | Self::Decoder => ("query", "key"),
            Self::Cross => ("target", "source"),
        }
    }
}

/// Attention weights from each row to each column.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AttentionMap {
    /// Number of key tokens.
    pub columns: usize,
    /// Row by row: `[rows, columns]`.
    pub weights: Vec<f32>,
}

impl AttentionMap {
    /// Returns the rows, one for each query token.
    pub fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.weights.chunks_exact(self.columns.max(1))
    }

    /// Returns the largest weight; 0 for an empty map.
    pub fn largest(&self) -> f32 {
        self.weights.iter().copied().fold(0.0, f32::max)
    }

    /// Computes the mean of maps of the same size.
    pub fn mean(maps: &[Self]) -> Self {
        let Some(first) = maps.first() else { return Self::default() };
        let mut weights = vec![0.0; first.weights.len()];
        for map in maps {
            for (sum, weight) in weights.iter_mut().zip(&map.weights) {
                *sum += weight / maps.len() as f32;
            }
        }
        Self { columns: first.columns, weights }
    }

    /// Merges tokens into groups: sums the columns of a group and averages its rows, so that a row
    /// still sums to 1 (Clark et al. 2019, section 3).
    ///
    /// `rows` and `columns` have the group of each token; groups are numbered from 0 without gaps.
    pub fn merged(&self, rows: &[usize], columns: &[usize]) -> Self {
        let count = |groups: &[usize]| groups.iter().max().map_or(0, |last| last + 1);
        let (n_rows, n_columns) = (count(rows), count(columns));
        let mut weights = vec![0.0; n_rows * n_columns];
        for (row, &to) in self.rows().zip(rows) {
            let members = rows.iter().filter(|&&group| group == to).count() as f32;
            for (weight, &column) in row.iter().zip(columns) {
                weights[to * n_columns + column] += weight / members;
            }
        }
        Self { columns: n_columns, weights }
    }
}

/// Tokens along one side of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels {
    /// Printable tokens, one for each row or column of a map.
    pub tokens: Vec<String>,
    /// Index in `words` of each token. A token that is not part of a word is its own group.
    pub groups: Vec<usize>,
    /// Words, and tokens that are not part of one.
    pub words: Vec<String>,
}

impl Labels {
    fn new(tokens: &[String], word_of: &[Option<usize>], texts: &[String]) -> Self {
        let mut groups = Vec::with_capacity(tokens.len());
        let mut words = Vec::new();
        let mut last = None;
        for (token, word) in tokens.iter().zip(word_of) {
            if word.is_none() || *word != last {
                let text = word.and_then(|word| texts.get(word)).unwrap_or(token);
                words.push(readable(text));
            }
            groups.push(words.len() - 1);
            last = *word;
        }
        Self { tokens: tokens.iter().map(|token| readable(token)).collect(), groups, words }
    }
}

/// Printable form of a token: white space and the mark before a word, which most fonts draw as a
/// bar, become visible. The joiner stays: figures and pages draw it themselves.
fn readable(token: &str) -> String {
    if !token.is_empty() && token.chars().all(char::is_whitespace) {
        return "␣".repeat(token.chars().count());
    }
    token.replace('▁', "_")
}

/// Attention weights of one source and one target.
///
/// A model with one text has self-attention only: a classifier and a masked language model that of
/// the encoder, with the text as source, a language model that of the decoder, with the text as
/// target.
#[derive(Debug, Clone, Default)]
pub struct Attention {
    /// Tokens of the source.
    pub source: Tokens,
    /// Tokens of the target.
    pub target: Tokens,
    /// Self-attention of the encoder: for each layer, a map for each head.
    pub encoder: Vec<Vec<AttentionMap>>,
    /// Self-attention of the decoder: for each layer, a map for each head. Rows and columns are the
    /// input of the decoder: its start, and the target without its last token.
    pub decoder: Vec<Vec<AttentionMap>>,
    /// Cross-attention: for each layer, a map for each head. A row has the weights of the step that
    /// generates that target token.
    pub cross: Vec<Vec<AttentionMap>>,
    /// Id of the first input of the decoder.
    pub start: u32,
}

impl Attention {
    /// Computes the attention of the model of `engine` (of an ensemble, its first model) for a
    /// source and a given target. A language model has no source.
    ///
    /// # Panics
    ///
    /// If the source of a model for translation has no ids, an id is not in the vocabulary, or a side is longer than the
    /// model's `max_len`.
    pub fn of(engine: &Engine, source: Tokens, target: Tokens) -> Self {
        // The decoder reads its start and all tokens but the last.
        let start = engine.start();
        let inputs = [&[start], &target.ids[..target.ids.len().saturating_sub(1)]].concat();
        let (encoder, decoder, cross) = match engine.first() {
            Member::Translation { weights: Weights::Packed(model), .. } => {
                let maps = model.attention_maps(&source.ids, &inputs);
                (packed(maps.encoder), packed(maps.decoder), packed(maps.cross))
            }
            #[cfg(feature = "burn")]
            Member::Translation { weights: Weights::Module(model, device), .. } => {
                tensors::maps(model, &source.ids, &inputs, device)
            }
            Member::LanguageModel(Weights::Packed(model)) => {
                (Vec::new(), packed(model.attention_maps(&inputs)), Vec::new())
            }
            #[cfg(feature = "burn")]
            Member::LanguageModel(Weights::Module(model, device)) => {
                (Vec::new(), tensors::of_language_model(model, &inputs, device), Vec::new())
            }
        };
        Self { source, target, encoder, decoder, cross, start }
    }

    /// Attention of an encoder without a decoder.
    pub(crate) fn of_encoder(text: Tokens, encoder: Vec<Vec<AttentionMap>>) -> Self {
        Self { source: text, encoder, ..Self::default() }
    }

    /// Returns the maps of a kind: for each layer, a map for each head.
    pub fn layers(&self, kind: AttentionKind) -> &[Vec<AttentionMap>] {
        match kind {
            AttentionKind::Encoder => &self.encoder,
            AttentionKind::Decoder => &self.decoder,
            AttentionKind::Cross => &self.cross,
        }
    }

    /// Returns the map of a layer and a head, both from 0; without a head, the mean over all heads.
    /// `None` if there is no such layer or head.
    pub fn map(
        &self,
        kind: AttentionKind,
        layer: usize,
        head: Option<usize>,
    ) -> Option<AttentionMap> {
        let heads = self.layers(kind).get(layer)?;
        match head {
            Some(head) => heads.get(head).cloned(),
            None => Some(AttentionMap::mean(heads)),
        }
    }

    /// Returns the labels of the rows and columns of the maps of a kind.
    pub fn labels(&self, kind: AttentionKind) -> (Labels, Labels) {
        let of = |tokens: &Tokens| Labels::new(&tokens.tokens, &tokens.word_of, &tokens.words);
        match kind {
            AttentionKind::Encoder => (of(&self.source), of(&self.source)),
            AttentionKind::Cross => (of(&self.target), of(&self.source)),
            AttentionKind::Decoder => {
                let read = self.target.ids.len().saturating_sub(1);
                let Tokens { tokens, word_of, words, .. } = &self.target;
                let start = SPECIAL_TOKENS[self.start as usize].to_owned();
                let tokens = [&[start], &tokens[..read]].concat();
                let word_of = [&[None], &word_of[..read]].concat();
                let labels = Labels::new(&tokens, &word_of, words);
                (labels.clone(), labels)
            }
        }
    }

    /// Returns all maps as JSON: `encoder`, `decoder` and `cross` are lists of layers of heads of
    /// rows.
    pub fn to_json(&self) -> Value {
        let side = |tokens: &Tokens| json!({ "words": tokens.words, "tokens": tokens.tokens, "word_of": tokens.word_of });
        let maps = |kind| -> Value {
            // Six digits; further ones are rounding errors.
            let digits = |weight: &f32| (f64::from(*weight) * 1e6).round() / 1e6;
            let row = |row: &[f32]| row.iter().map(digits).collect::<Vec<_>>();
            let rows = |map: &AttentionMap| json!(map.rows().map(row).collect::<Vec<_>>());
            let heads = |heads: &Vec<AttentionMap>| heads.iter().map(rows).collect::<Value>();
            self.layers(kind).iter().map(heads).collect()
        };
        let mut value = json!({ "source": side(&self.source), "target": side(&self.target) });
        for kind in AttentionKind::ALL {
            let (rows, columns) = self.labels(kind);
            value[kind.name()] =
                json!({ "rows": rows.tokens, "columns": columns.tokens, "layers": maps(kind) });
        }
        value
    }
}

/// Splits the maps of each layer by head.
pub(crate) fn packed(layers: Vec<Map>) -> Vec<Vec<AttentionMap>> {
    let heads = |layer: Map| {
        let size = (layer.queries * layer.keys).max(1);
        let heads = layer.values.chunks_exact(size).take(layer.heads);
        let map = |head: &[f32]| AttentionMap { columns: layer.keys, weights: head.to_vec() };
        heads.map(map).collect()
    };
    layers.into_iter().map(heads).collect()
}

/// Attention of a module.
#[cfg(feature = "burn")]
pub(crate) mod tensors {
    use burn::tensor::{Device, Tensor};
    use tx_data::{batch::padded, mask};
    use tx_model::{LanguageModel, LanguageModelInput, Transformer, TransformerInput};

    use super::AttentionMap;

    type Layers = Vec<Vec<AttentionMap>>;

    /// Maps of the encoder, the decoder, and from the decoder to the encoder.
    pub(super) fn maps(
        model: &Transformer,
        source: &[u32],
        target: &[u32],
        device: &Device,
    ) -> (Layers, Layers, Layers) {
        let source = padded(&[source], device);
        let (_, maps) = model.forward_with_attention(TransformerInput {
            source_blocked: mask::padding(&source),
            source,
            target: padded(&[target], device),
            target_blocked: mask::causal(target.len(), device),
        });
        (split(maps.encoder), split(maps.decoder.self_attention), split(maps.decoder.cross))
    }

    /// Maps of a language model for the text `ids`, which begins with `<bos>`.
    pub(super) fn of_language_model(model: &LanguageModel, ids: &[u32], device: &Device) -> Layers {
        let (_, maps) = model.forward_with_attention(LanguageModelInput {
            ids: padded(&[ids], device),
            positions: None,
            blocked: mask::causal(ids.len(), device),
        });
        split(maps)
    }

    /// Splits the maps of each layer by head.
    pub(crate) fn split(layers: Vec<Tensor<4>>) -> Layers {
        layers.into_iter().map(heads).collect()
    }

    /// Splits the maps of a layer, `[1, H, Q, K]`, by head.
    fn heads(maps: Tensor<4>) -> Vec<AttentionMap> {
        let [_, heads, rows, columns] = maps.dims();
        let weights: Vec<f32> = maps.into_data().iter::<f32>().collect();
        let size = (rows * columns).max(1);
        let map = |weights: &[f32]| AttentionMap { columns, weights: weights.to_vec() };
        weights.chunks_exact(size).take(heads).map(map).collect()
    }
}

#[cfg(test)]
#[cfg(feature = "burn")]
mod tests;
