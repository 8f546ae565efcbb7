//! Vocabulary shortlist: decoding whose next tokens are some of the vocabulary.

use std::sync::Arc;

use crate::{linear::Linear, top_tokens::likeliest_of};

/// Fraction of the vocabulary from which on all its scores are computed: selecting columns takes longer
/// than the scores of the others.
const MOST: f32 = 0.75;

/// Output projection of a batch with the columns of its candidates only, unless these are most of the
/// vocabulary.
///
/// A product computes the candidates of all sentences of the batch; each row ranks those of its own
/// sentence, so its result does not depend on the batch.
#[derive(Debug)]
pub(crate) struct Restriction {
    /// `[d_model, candidates of all sentences]`, or the projection of the model.
    projection: Arc<Linear>,
    /// Candidates of each sentence.
    sentences: Vec<Candidates>,
    /// Size of the vocabulary.
    vocabulary: usize,
    /// Scores of the last step, `[rows, columns of the projection]`.
    scores: Vec<f32>,
    /// Scores of a row.
    row: Vec<f32>,
}

/// Tokens that may be next in a sentence.
#[derive(Debug)]
struct Candidates {
    /// Ids, ascending.
    tokens: Vec<u32>,
    /// Column of each token in the projection of the batch.
    columns: Vec<u32>,
}

impl Restriction {
    /// Gathers the columns of `projection` for the candidates of each sentence, which are in ascending
    /// order. Returns `None` if these are all tokens for each sentence.
    ///
    /// # Panics
    ///
    /// If the vocabulary has no such token, or candidates are not in ascending order.
    pub(crate) fn new(projection: &Arc<Linear>, candidates: Vec<Vec<u32>>) -> Option<Self> {
        let vocabulary = projection.outputs();
        let is_ascending = |tokens: &Vec<u32>| tokens.is_sorted_by(|a, b| a < b);
        assert!(candidates.iter().all(is_ascending), "candidates in ascending order");
        if candidates.iter().all(|tokens| tokens.len() == vocabulary) {
            return None;
        }
        let mut is_candidate = vec![false; vocabulary];
        candidates.iter().flatten().for_each(|&token| is_candidate[token as usize] = true);
        let mut union: Vec<u32> =
            (0..vocabulary as u32).filter(|&token| is_candidate[token as usize]).collect();
        let is_most = union.len() as f32 >= MOST * vocabulary as f32;
        if is_most {
            union = (0..vocabulary as u32).collect();
        }
        let mut column_of = vec![0; vocabulary];
        for (&token, column) in union.iter().zip(0..) {
            column_of[token as usize] = column;
        }
        let sentence = |tokens: Vec<u32>| {
            let columns = tokens.iter().map(|&token| column_of[token as usize]).collect();
            Candidates { tokens, columns }
        };
        Some(Self {
            projection: match is_most {
                true => projection.clone(),
                false => projection.gather(&union).into(),
            },
            sentences: candidates.into_iter().map(sentence).collect(),
            vocabulary,
            scores: Vec::new(),
            row: Vec::new(),
        })
    }

    /// Returns the `count` likeliest candidates of each row with their log-probabilities among the
    /// candidates of its sentence, best first.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, d_model]`; `sentence_of`: `[rows]`
    pub(crate) fn likeliest(
        &mut self,
        x: &[f32],
        sentence_of: &[usize],
        suppressed: &[u32],
        count: usize,
    ) -> Vec<Vec<(u32, f32)>> {
        self.multiply(x);
        let Self { projection, sentences, scores, row, .. } = self;
        let (inputs, width) = (projection.inputs(), projection.outputs());
        let mut hidden = Vec::new();
        let rows = scores.chunks_exact(width.max(1)).zip(sentence_of);
        let best = rows.map(|(scores, &sentence)| {
            let Candidates { tokens, columns } = &sentences[sentence];
            row.clear();
            row.extend(columns.iter().map(|&column| scores[column as usize]));
            hidden.clear();
            let position = |token| tokens.binary_search(token).ok();
            hidden.extend(suppressed.iter().filter_map(position).map(|position| position as u32));
            let mut best = likeliest_of(row, inputs, &hidden, count);
            for (token, _) in &mut best {
                *token = tokens.get(*token as usize).copied().unwrap_or_default();
            }
            best
        });
        best.collect()
    }

    /// Returns the scores of all tokens, minus infinity for those that are no candidates.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, d_model]`; `sentence_of`: `[rows]`; returns `[rows, vocabulary]`
    pub(crate) fn logits(&mut self, x: &[f32], sentence_of: &[usize]) -> Vec<f32> {
        self.multiply(x);
        let width = self.projection.outputs();
        let mut logits = vec![f32::NEG_INFINITY; sentence_of.len() * self.vocabulary];
        let rows = self.scores.chunks_exact(width.max(1)).zip(sentence_of);
        for (logits, (scores, &sentence)) in logits.chunks_exact_mut(self.vocabulary).zip(rows) {
            let Candidates { tokens, columns } = &self.sentences[sentence];
            for (&token, &column) in tokens.iter().zip(columns) {
                logits[token as usize] = scores[column as usize];
            }
        }
        logits
    }

    fn multiply(&mut self, x: &[f32]) {
        let rows = x.len() / self.projection.inputs();
        self.scores.resize(rows * self.projection.outputs(), 0.0);
        self.projection.product_of(x, &mut self.scores);
    }
}

#[cfg(test)]
mod tests;
