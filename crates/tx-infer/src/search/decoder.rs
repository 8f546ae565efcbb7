//! Incremental decoding of a batch, a token of each row at a time.

use tx_engine::{Decoding, LanguageModelDecoding};

use crate::error::InferError;

/// A token and its log-probability.
pub(super) type Next = (u32, f32);

/// Result for a row whose scores are not finite.
pub(super) const NOT_FINITE: Next = (0, f32::NAN);

/// Decoder of a batch of partial targets, which starts with a row for each source.
pub(super) trait IncrementalDecoder {
    /// Appends a token to each row and returns the `count` likeliest next tokens of each row, best
    /// first; on a tie, the smaller id first. `suppressed` and impossible tokens are omitted, so
    /// there may be fewer. A row whose scores are not finite has one token with log-probability
    /// NaN.
    fn step(&mut self, tokens: &[u32], suppressed: &[u32], count: usize) -> Vec<Vec<Next>>;

    /// Appends a token to each row and returns the logits of all next tokens: `[R, V]`.
    fn logits(&mut self, tokens: &[u32]) -> Vec<f32>;

    /// Attention of row `row` to the tokens of its source in the last step, summing to 1. Empty
    /// unless attention is recorded.
    fn attention(&self, row: usize) -> &[f32];

    /// Replaces row `i` by the former row `rows[i]`; rows may be repeated or omitted.
    fn select(&mut self, rows: &[usize]);

    /// Announces a step of plain greedy search (`beam` 1) or beam search, after which each of the `sources`
    /// has `beam` adjacent rows. The rows have these log-probabilities. A decoder may compute the next steps
    /// of such a search in advance.
    fn expect(&mut self, _sources: usize, _beam: usize, _scores: &mut dyn Iterator<Item = f32>) {}

    /// Returns the error of a line, numbered from 1, whose scores are not finite.
    fn not_finite(&self, line: u64) -> InferError {
        InferError::NotFinite { line }
    }
}

impl IncrementalDecoder for Decoding<'_> {
    fn step(&mut self, tokens: &[u32], suppressed: &[u32], count: usize) -> Vec<Vec<Next>> {
        Decoding::step(self, tokens, suppressed, count)
    }

    fn logits(&mut self, tokens: &[u32]) -> Vec<f32> {
        self.step_logits(tokens)
    }

    fn attention(&self, row: usize) -> &[f32] {
        Decoding::attention(self, row)
    }

    fn select(&mut self, rows: &[usize]) {
        Decoding::select(self, rows);
    }
}

impl IncrementalDecoder for LanguageModelDecoding<'_> {
    fn step(&mut self, tokens: &[u32], suppressed: &[u32], count: usize) -> Vec<Vec<Next>> {
        LanguageModelDecoding::step(self, tokens, suppressed, count)
    }

    fn logits(&mut self, tokens: &[u32]) -> Vec<f32> {
        self.step_logits(tokens)
    }

    fn attention(&self, _: usize) -> &[f32] {
        &[]
    }

    fn select(&mut self, rows: &[usize]) {
        LanguageModelDecoding::select(self, rows);
    }
}
