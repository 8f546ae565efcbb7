//! A batch whose sources are encoded, and the next tokens that its targets may take.

use std::ops::Range;

use tx_text::special::{BOS, EOS, PAD};

use super::{
    decoder::{Decoder, Next},
    options::SearchOptions,
    request::Request,
    scores::{best_of_row, forbid, log_softmax, longest_run, looping, penalize, repeating},
};
use crate::{cancellation::Cancellation, error::InferError};

/// A batch whose sources have been read.
pub(super) struct Job<'a> {
    pub(super) decoder: Box<dyn Decoder + 'a>,
    pub(super) options: &'a SearchOptions,
    pub(super) sentences: Vec<Sentence<'a>>,
    /// Ids that are never generated.
    never: Vec<u32>,
    cancellation: &'a Cancellation,
}

/// What is asked of one sentence's target.
pub(super) struct Sentence<'a> {
    /// Most tokens.
    pub(super) limit: usize,
    /// Least tokens before `<eos>`.
    least: usize,
    /// Most repetitions of one sequence in a row; 0 is no limit.
    most_repeats: usize,
    /// What it begins with.
    prefix: &'a [u32],
    pub(super) number: u64,
}

/// A target under way.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    /// Which sentence of the batch.
    pub(super) sentence: usize,
    pub(super) ids: &'a [u32],
}

impl<'a> Job<'a> {
    /// `max_len` is the model's longest sequence; the ids of `padding` only pad the vocabulary.
    pub(super) fn new(
        decoder: Box<dyn Decoder + 'a>,
        requests: &[Request<'a>],
        padding: Range<u32>,
        max_len: usize,
        options: &'a SearchOptions,
        cancellation: &'a Cancellation,
    ) -> Self {
        let sentence = |&Request { source, prefix, number }: &Request<'a>| {
            // One more place, for `<eos>` at least.
            let limit = options.limit(source.len(), max_len).max(prefix.len() + 1).min(max_len);
            let most_repeats = match options.max_repeats {
                0 => 0,
                most => most.max(longest_run(source)),
            };
            Sentence { limit, least: options.least(source.len()), most_repeats, prefix, number }
        };
        // Padding and `<bos>` are never correct, but every column of the projection has some
        // probability.
        let never = [PAD, BOS].into_iter().chain(options.suppress.iter().copied()).chain(padding);
        Self {
            decoder,
            options,
            sentences: requests.iter().map(sentence).collect(),
            never: never.collect(),
            cancellation,
        }
    }

    /// `copies` rows for each sentence, side by side; none has a token yet.
    pub(super) fn repeat(&mut self, copies: usize) {
        if copies > 1 {
            let rows = (0..self.sentences.len()).flat_map(|row| std::iter::repeat_n(row, copies));
            self.decoder.select(&rows.collect::<Vec<_>>());
        }
    }

    /// Adds a token to each row, which then has `len` tokens besides `<bos>`, and gives each row's
    /// `count` likeliest next ones that may be said, best first; fewer where there are fewer.
    /// `row(i)` is row `i`.
    pub(super) fn next<'r>(
        &mut self,
        tokens: &[u32],
        len: usize,
        count: usize,
        row: impl Fn(usize) -> Row<'r>,
    ) -> Result<Vec<Vec<Next>>, InferError> {
        if self.needs_all(len) {
            let scores = self.log_probs(tokens, len, row)?;
            let width = scores.len() / tokens.len().max(1);
            let rows = scores.chunks_exact(width.max(1));
            return Ok(rows.map(|row| best_of_row(row, count)).collect());
        }
        self.check_cancellation()?;
        // What must not be said differs from row to row, but is little: as many more are asked for.
        let forbidden: Vec<Vec<u32>> =
            (0..tokens.len()).map(|index| self.forbidden(row(index), len)).collect();
        let more = forbidden.iter().map(Vec::len).max().unwrap_or(0);
        let mut next = self.decoder.step(tokens, &self.never, count + more);
        for (index, (next, forbidden)) in next.iter_mut().zip(&forbidden).enumerate() {
            if next.iter().any(|(_, log_probability)| log_probability.is_nan()) {
                return Err(self.not_finite(row(index)));
            }
            next.retain(|(token, _)| !forbidden.contains(token));
            next.truncate(count);
        }
        Ok(next)
    }

    /// # Errors
    ///
    /// When the caller has canceled the request.
    fn check_cancellation(&self) -> Result<(), InferError> {
        if self.cancellation.is_cancelled() { Err(InferError::Cancelled) } else { Ok(()) }
    }

    fn not_finite(&self, row: Row<'_>) -> InferError {
        InferError::NotFinite { line: self.sentences[row.sentence].number + 1 }
    }

    /// Adds a token to each row, as [`next`](Self::next), and gives the log-probabilities of all
    /// next ones: `[R, V]`.
    pub(super) fn log_probs<'r>(
        &mut self,
        tokens: &[u32],
        len: usize,
        row: impl Fn(usize) -> Row<'r>,
    ) -> Result<Vec<f32>, InferError> {
        self.check_cancellation()?;
        let mut scores = self.decoder.logits(tokens);
        let width = (scores.len() / tokens.len().max(1)).max(1);
        for (index, scores) in scores.chunks_exact_mut(width).enumerate() {
            self.shape(row(index), len, scores);
            if scores.iter().any(|score| score.is_nan()) {
                return Err(self.not_finite(row(index)));
            }
        }
        Ok(scores)
    }

    /// Whether the likeliest tokens of the model, and a few more, do not tell what to go on with.
    fn needs_all(&self, len: usize) -> bool {
        self.options.repetition_penalty != 1.0
            || self.options.renormalize
            || self.sentences.iter().any(|sentence| sentence.prefix.len() > len)
    }

    /// Ids that this row must not take, besides those that no row may take.
    fn forbidden(&self, row: Row<'_>, len: usize) -> Vec<u32> {
        let Sentence { least, most_repeats, .. } = self.sentences[row.sentence];
        let mut forbidden = repeating(row.ids, self.options.no_repeat_ngram);
        forbidden.extend(looping(row.ids, most_repeats));
        if len < least {
            forbidden.push(EOS);
        }
        forbidden
    }

    /// Scores of the model become log-probabilities of what may be said.
    fn shape(&self, row: Row<'_>, len: usize, scores: &mut [f32]) {
        if let Some(&forced) = self.sentences[row.sentence].prefix.get(len) {
            log_softmax(scores);
            let log_probability = scores[forced as usize];
            scores.fill(f32::NEG_INFINITY);
            scores[forced as usize] = log_probability;
            return;
        }
        let SearchOptions { repetition_penalty, renormalize, .. } = *self.options;
        if repetition_penalty != 1.0 {
            penalize(scores, row.ids, repetition_penalty);
        }
        let forbidden = self.forbidden(row, len);
        let forbidden = self.never.iter().chain(&forbidden);
        if renormalize {
            forbid(scores, forbidden);
            log_softmax(scores);
        } else {
            log_softmax(scores);
            forbid(scores, forbidden);
        }
    }
}
