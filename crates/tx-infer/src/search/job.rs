//! A batch whose sources have been read, and what its targets may go on with.

use tx_data::special::{BOS, EOS, PAD};

use super::{
    decoder::{Decoder, Next},
    options::SearchOptions,
    request::Request,
    scores::{best_of_row, forbid, log_softmax, penalize, repeating},
};

/// A batch whose sources have been read.
pub(super) struct Job<'a> {
    pub(super) decoder: Box<dyn Decoder + 'a>,
    pub(super) options: &'a SearchOptions,
    pub(super) sentences: Vec<Sentence<'a>>,
    /// What is never said; last `<eos>`, for targets that are too short to end.
    never: Vec<u32>,
    /// Whether all rows may go on with the same tokens, those that the model gives.
    plain: bool,
}

/// What is asked of one sentence's target.
pub(super) struct Sentence<'a> {
    /// Most tokens.
    pub(super) limit: usize,
    /// Least tokens before `<eos>`.
    least: usize,
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
    /// `max_len` is the model's longest sequence.
    pub(super) fn new(
        decoder: Box<dyn Decoder + 'a>,
        requests: &[Request<'a>],
        max_len: usize,
        options: &'a SearchOptions,
    ) -> Self {
        let sentence = |&Request { source, prefix, number }: &Request<'a>| {
            // One more place, for `<eos>` at least.
            let limit = options.limit(source.len(), max_len).max(prefix.len() + 1).min(max_len);
            Sentence { limit, least: options.least(source.len()), prefix, number }
        };
        // Padding and `<bos>` are never a right answer; a model that has not learned that yet may
        // think so.
        let never = [PAD, BOS].into_iter().chain(options.suppress.iter().copied()).chain([EOS]);
        let plain = options.min_len_ratio == 0.0
            && options.repetition_penalty == 1.0
            && options.no_repeat_ngram == 0
            && !options.renormalize
            && requests.iter().all(|request| request.prefix.is_empty());
        Self {
            decoder,
            options,
            sentences: requests.iter().map(sentence).collect(),
            never: never.collect(),
            plain,
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
    ) -> Vec<Vec<Next>> {
        let before_end = self.never.len() - 1;
        if self.plain {
            let too_short = len < self.options.min_len;
            let never = if too_short { &self.never } else { &self.never[..before_end] };
            return self.decoder.step(tokens, never, count);
        }
        if self.needs_all(len) {
            let scores = self.log_probs(tokens, len, row);
            let width = scores.len() / tokens.len().max(1);
            return scores.chunks_exact(width.max(1)).map(|row| best_of_row(row, count)).collect();
        }
        // What must not be said differs from row to row, but is little: as many more are asked for.
        let forbidden: Vec<Vec<u32>> =
            (0..tokens.len()).map(|index| self.forbidden(row(index), len)).collect();
        let more = forbidden.iter().map(Vec::len).max().unwrap_or(0);
        let mut next = self.decoder.step(tokens, &self.never[..before_end], count + more);
        for (next, forbidden) in next.iter_mut().zip(&forbidden) {
            next.retain(|(token, _)| !forbidden.contains(token));
            next.truncate(count);
        }
        next
    }

    /// Adds a token to each row, as [`next`](Self::next), and gives the log-probabilities of all
    /// next ones: `[R, V]`.
    pub(super) fn log_probs<'r>(
        &mut self,
        tokens: &[u32],
        len: usize,
        row: impl Fn(usize) -> Row<'r>,
    ) -> Vec<f32> {
        let mut scores = self.decoder.logits(tokens);
        let width = (scores.len() / tokens.len().max(1)).max(1);
        for (index, scores) in scores.chunks_exact_mut(width).enumerate() {
            self.shape(row(index), len, scores);
        }
        scores
    }

    /// Whether the likeliest tokens of the model, and a few more, do not tell what to go on with.
    fn needs_all(&self, len: usize) -> bool {
        self.options.repetition_penalty != 1.0
            || self.options.renormalize
            || self.sentences.iter().any(|sentence| sentence.prefix.len() > len)
    }

    /// What this row must not say besides what none may.
    fn forbidden(&self, row: Row<'_>, len: usize) -> Vec<u32> {
        let mut forbidden = repeating(row.ids, self.options.no_repeat_ngram);
        if len < self.sentences[row.sentence].least {
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
        let forbidden = self.never[..self.never.len() - 1].iter().chain(&forbidden);
        if renormalize {
            forbid(scores, forbidden);
            log_softmax(scores);
        } else {
            log_softmax(scores);
            forbid(scores, forbidden);
        }
    }
}
