//! Where every layer and head of a model looks while it reads a source and writes a target.
//!
//! A map has a row for each token that looks and a column for each token that can be looked at; a
//! row's weights sum to 1. All of them come from one pass over the whole target.

use burn::tensor::{Device, Tensor};
use serde_json::{Value, json};
use tx_data::{
    EncodedPair, Seq2SeqBatch,
    special::{BOS, SPECIAL_TOKENS},
};
use tx_model::{Transformer, TransformerInput};

use crate::tokens::Tokens;

/// Which tokens look at which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionKind {
    /// Source tokens at source tokens.
    Encoder,
    /// What has been written at what has been written: never at a later token.
    Decoder,
    /// Target tokens, while they are written, at source tokens.
    Cross,
}

impl AttentionKind {
    /// In the order in which people ask for them.
    pub const ALL: [Self; 3] = [Self::Cross, Self::Encoder, Self::Decoder];

    /// Its name in files and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Encoder => "encoder",
            Self::Decoder => "decoder",
            Self::Cross => "cross",
        }
    }

    /// Its name in print.
    pub fn title(self) -> &'static str {
        match self {
            Self::Encoder => "Encoder self-attention",
            Self::Decoder => "Decoder self-attention",
            Self::Cross => "Cross-attention",
        }
    }

    /// What the tokens of the rows and those of the columns of its maps do.
    pub fn axes(self) -> (&'static str, &'static str) {
        match self {
            Self::Encoder | Self::Decoder => ("query", "key"),
            Self::Cross => ("target", "source"),
        }
    }
}

/// Weights from each row to each column.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AttentionMap {
    /// Tokens that can be looked at.
    pub columns: usize,
    /// Row by row: `[rows, columns]`.
    pub weights: Vec<f32>,
}

impl AttentionMap {
    /// The rows, one for each token that looks.
    pub fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.weights.chunks_exact(self.columns.max(1))
    }

    /// The largest weight; 0 of nothing.
    pub fn largest(&self) -> f32 {
        self.weights.iter().copied().fold(0.0, f32::max)
    }

    /// The mean of maps of one size.
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

    /// Tokens put together: what goes to a group is the sum over its columns, what comes from it
    /// the mean over its rows, so that a row still sums to 1 (Clark et al. 2019, section 3).
    ///
    /// `rows` and `columns` name the group of each; groups are numbered from 0 without gaps.
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

/// The tokens along one side of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels {
    /// One for each row or column of a map.
    pub tokens: Vec<String>,
    /// For each token the place of its word in `words`: what is part of no word is one by itself.
    pub groups: Vec<usize>,
    /// The words, and tokens that are part of none.
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

/// All attention of one source and one target.
#[derive(Debug, Clone)]
pub struct Attention {
    /// What was read.
    pub source: Tokens,
    /// What was written.
    pub target: Tokens,
    /// A layer each, with a map for each head.
    pub encoder: Vec<Vec<AttentionMap>>,
    /// A layer each, with a map for each head. Row and column 0 are `<bos>`, the rest is the target
    /// without its last token: what the decoder reads.
    pub decoder: Vec<Vec<AttentionMap>>,
    /// A layer each, with a map for each head. A row is where the model looked while it wrote that
    /// token.
    pub cross: Vec<Vec<AttentionMap>>,
}

impl Attention {
    /// Has `model`, which is on `device`, read `source` and write `target`.
    ///
    /// Neither may be without ids or longer than the model's `max_len`.
    pub fn of(model: &Transformer, source: Tokens, target: Tokens, device: &Device) -> Self {
        let pair =
            EncodedPair { source: source.ids.clone(), target: [&[BOS], &target.ids[..]].concat() };
        let batch = Seq2SeqBatch::new(&[&pair], device);
        let (_, maps) = model.forward_with_attention(TransformerInput {
            source: batch.source,
            source_blocked: batch.source_blocked,
            target: batch.target_in,
            target_blocked: batch.target_blocked,
        });
        let layers = |layers: Vec<Tensor<4>>| layers.into_iter().map(heads).collect();
        Self {
            source,
            target,
            encoder: layers(maps.encoder),
            decoder: layers(maps.decoder.own),
            cross: layers(maps.decoder.cross),
        }
    }

    /// A layer each, with a map for each head.
    pub fn layers(&self, kind: AttentionKind) -> &[Vec<AttentionMap>] {
        match kind {
            AttentionKind::Encoder => &self.encoder,
            AttentionKind::Decoder => &self.decoder,
            AttentionKind::Cross => &self.cross,
        }
    }

    /// One map, layers and heads counted from 0; without a head, the mean of all. None where there
    /// is no such layer or head.
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

    /// What the rows and the columns of a kind's maps stand for.
    pub fn labels(&self, kind: AttentionKind) -> (Labels, Labels) {
        let of = |tokens: &Tokens| Labels::new(&tokens.tokens, &tokens.word_of, &tokens.words);
        match kind {
            AttentionKind::Encoder => (of(&self.source), of(&self.source)),
            AttentionKind::Cross => (of(&self.target), of(&self.source)),
            AttentionKind::Decoder => {
                let read = self.target.ids.len().saturating_sub(1);
                let Tokens { tokens, word_of, words, .. } = &self.target;
                let start = SPECIAL_TOKENS[BOS as usize].to_owned();
                let tokens = [&[start], &tokens[..read]].concat();
                let word_of = [&[None], &word_of[..read]].concat();
                let labels = Labels::new(&tokens, &word_of, words);
                (labels.clone(), labels)
            }
        }
    }

    /// Everything, for other programs: `encoder`, `decoder` and `cross` are lists of layers of heads
    /// of rows.
    pub fn to_json(&self) -> Value {
        let side = |tokens: &Tokens| json!({ "words": tokens.words, "tokens": tokens.tokens, "word_of": tokens.word_of });
        let maps = |kind| -> Value {
            // Six digits: what is beyond is rounding of the model.
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

/// The maps of a layer `[1, H, Q, K]`, head by head.
fn heads(maps: Tensor<4>) -> Vec<AttentionMap> {
    let [_, heads, rows, columns] = maps.dims();
    let weights: Vec<f32> = maps.into_data().iter::<f32>().collect();
    let size = (rows * columns).max(1);
    let map = |weights: &[f32]| AttentionMap { columns, weights: weights.to_vec() };
    weights.chunks_exact(size).take(heads).map(map).collect()
}

#[cfg(test)]
mod tests;
