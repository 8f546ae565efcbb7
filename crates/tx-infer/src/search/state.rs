//! State of the search for one batch: the encoded sources, and the constraints on the next tokens.

use std::ops::Range;

use tx_kernels::formulas::log_softmax;
use tx_text::special::{BOS, EOS, PAD};

use super::{
    Constraints,
    constraints::Progress,
    decoder::{IncrementalDecoder, Next},
    hypothesis::Partial,
    options::SearchOptions,
    request::Request,
    scores::{best_of_row, longest_run, looping, penalize, repeating, suppress},
};
use crate::{cancellation::Cancellation, error::InferError, lexicon::WordRestriction};

/// Number of the likeliest tokens that can make words which are not in the lexicon before others are left out.
const OTHER_WORDS: usize = 16;

/// A batch whose sources are encoded.
pub(super) struct SearchState<'a> {
    pub(super) decoder: Box<dyn IncrementalDecoder + 'a>,
    pub(super) options: &'a SearchOptions,
    pub(super) sentences: Vec<Sentence<'a>>,
    /// First input of the decoder.
    pub(super) start: u32,
    /// Ids that are suppressed in all rows.
    suppressed: Vec<u32>,
    /// Restriction of targets to the words of a lexicon.
    lexicon: Option<&'a WordRestriction>,
    cancellation: &'a Cancellation,
}

/// Text that the constraints on a target depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limits {
    /// The source: its length limits that of the target.
    Source,
    /// The prefix, for models without a source: only `max_len` and the model limit the length.
    Prefix,
}

/// Properties of a model that its search depends on.
pub(super) struct ModelLimits<'a> {
    /// First input of the decoder.
    pub(super) start: u32,
    /// Ids that only pad the vocabulary.
    pub(super) padding: Range<u32>,
    pub(super) limits: Limits,
    /// Maximum length of a sequence in tokens.
    pub(super) max_len: usize,
    /// Restriction of targets to the words of a lexicon.
    pub(super) lexicon: Option<&'a WordRestriction>,
}

/// Constraints on the target of one sentence.
pub(super) struct Sentence<'a> {
    /// Maximum number of tokens.
    pub(super) max_len: usize,
    /// Minimum number of tokens before `<eos>`.
    min_len: usize,
    /// Maximum number of repetitions of a sequence in a row; 0 is no limit.
    max_repeats: usize,
    /// First token of the target, if it is given and its probability does not count.
    forced_first: Option<u32>,
    /// Given tokens after it.
    prefix: &'a [u32],
    /// Texts that the target must contain, in beam search.
    pub(super) constraints: Option<&'a Constraints>,
    /// Words that the target may have besides those of the lexicon; `None` allows all.
    words: Option<&'a [Vec<u32>]>,
    pub(super) number: u64,
    /// Cancellation of this sentence alone.
    cancellation: Option<&'a Cancellation>,
    /// Whether the sentence was canceled when the cancellation was last checked.
    pub(super) is_cancelled: bool,
}

/// A token that must be next.
#[derive(Clone, Copy)]
enum Given {
    /// With the log-probability of the model.
    Scored(u32),
    /// With log-probability 0.
    Forced(u32),
}

impl Sentence<'_> {
    /// Returns the number of given first tokens.
    pub(super) fn given_tokens(&self) -> usize {
        usize::from(self.forced_first.is_some()) + self.prefix.len()
    }

    /// Returns the token after `len` tokens, if it is given. `force_eos` forces `<eos>` at the length
    /// limit.
    fn given(&self, len: usize, force_eos: bool) -> Option<Given> {
        let prefix = match self.forced_first {
            None => self.prefix.get(len),
            Some(first) if len == 0 => return Some(Given::Forced(first)),
            Some(_) => self.prefix.get(len - 1),
        };
        let end = || (force_eos && len + 1 >= self.max_len).then_some(Given::Forced(EOS));
        prefix.map(|&token| Given::Scored(token)).or_else(end)
    }
}

/// A partial target.
#[derive(Clone, Copy)]
pub(super) struct PartialTarget<'a> {
    /// Index of its sentence in the batch.
    pub(super) sentence: usize,
    pub(super) partial: &'a Partial,
}

impl<'a> SearchState<'a> {
    /// Creates the state before the first token.
    pub(super) fn new(
        decoder: Box<dyn IncrementalDecoder + 'a>,
        requests: &[Request<'a>],
        model: ModelLimits<'a>,
        options: &'a SearchOptions,
        cancellation: &'a Cancellation,
    ) -> Self {
        let ModelLimits { start, padding, limits, max_len, lexicon } = model;
        let sentence = |&Request {
                            source,
                            context,
                            forced_first,
                            prefix,
                            constraints,
                            words,
                            number,
                            cancellation,
                        }: &Request<'a>| {
            let source = source.get(context..).unwrap_or(source);
            let constraints = constraints.filter(|_| !options.rows_are_independent());
            let required = constraints.map_or(0, Constraints::tokens);
            let given = usize::from(forced_first.is_some()) + prefix.len();
            let (wanted, text) = match limits {
                Limits::Source => (options.max_len(source.len(), max_len), source),
                Limits::Prefix => (options.max_len.unwrap_or(max_len), prefix),
            };
            Sentence {
                // Room for one token after those given, at least for `<eos>`, and for those required.
                max_len: wanted.max(given + required + 1).min(max_len),
                min_len: options.min_len(source.len()),
                max_repeats: match options.max_repeats {
                    0 => 0,
                    max_repeats => max_repeats.max(longest_run(text)),
                },
                forced_first,
                prefix,
                constraints,
                words,
                number,
                cancellation,
                is_cancelled: false,
            }
        };
        // Padding and `<bos>` are never correct, but each has a column in the projection and
        // therefore some probability.
        let suppressed =
            [PAD, BOS].into_iter().chain(options.suppress.iter().copied()).chain(padding);
        Self {
            decoder,
            options,
            sentences: requests.iter().map(sentence).collect(),
            start,
            suppressed: suppressed.collect(),
            lexicon,
            cancellation,
        }
    }

    /// Repeats the row of each sentence `copies` times, before the first token.
    pub(super) fn repeat(&mut self, copies: usize) {
        if copies > 1 {
            let rows = (0..self.sentences.len()).flat_map(|row| std::iter::repeat_n(row, copies));
            self.decoder.select(&rows.collect::<Vec<_>>());
        }
    }

    /// Appends a token to each row, which then has `len` tokens after `<bos>`, and returns the
    /// `count` likeliest allowed next tokens of each row, best first; fewer if fewer are possible.
    /// `target(i)` is the target of row `i`.
    pub(super) fn next<'r>(
        &mut self,
        tokens: &[u32],
        len: usize,
        count: usize,
        target: impl Fn(usize) -> PartialTarget<'r>,
    ) -> Result<Vec<Vec<Next>>, InferError> {
        let others = if self.lexicon.is_some() { OTHER_WORDS } else { 0 };
        if self.needs_all_scores(len) {
            let scores = self.log_probs(tokens, len, &target)?;
            let width = scores.len() / tokens.len().max(1);
            let rows = scores.chunks_exact(width.max(1)).enumerate();
            let next = rows.map(|(index, row)| {
                let mut next = best_of_row(row, count + others);
                self.keep_words(&mut next, target(index), len);
                next.truncate(count);
                for token in self.required(target(index)) {
                    let log_probability = row[token as usize];
                    let is_new = next.iter().all(|(other, _)| *other != token);
                    if is_new && log_probability > f32::NEG_INFINITY {
                        next.push((token, log_probability));
                    }
                }
                next
            });
            return Ok(next.collect());
        }
        self.check_cancellation()?;
        // The few tokens that are suppressed in single rows are removed below, so as many more are
        // requested.
        let suppressed: Vec<Vec<u32>> =
            (0..tokens.len()).map(|index| self.suppressed_in(target(index), len)).collect();
        let more = suppressed.iter().map(Vec::len).max().unwrap_or(0) + others;
        let mut next = self.decoder.step(tokens, &self.suppressed, count + more);
        for (index, (next, suppressed)) in next.iter_mut().zip(&suppressed).enumerate() {
            if next.iter().any(|(_, log_probability)| log_probability.is_nan()) {
                return Err(self.not_finite(target(index)));
            }
            next.retain(|(token, _)| !suppressed.contains(token));
            self.keep_words(next, target(index), len);
            next.truncate(count);
        }
        Ok(next)
    }

    /// Removes the tokens that would make a word that is not in the lexicon, unless no other is left.
    fn keep_words(&self, next: &mut Vec<Next>, target: PartialTarget<'_>, len: usize) {
        let sentence = &self.sentences[target.sentence];
        let Some((lexicon, words)) = self.lexicon.zip(sentence.words) else { return };
        if sentence.given(len, self.options.force_eos).is_some() {
            return;
        }
        let open = lexicon.open_word(&target.partial.ids, words);
        let is_kept = |(token, _): &Next| lexicon.allows(&open, *token, words);
        if next.iter().any(is_kept) {
            next.retain(is_kept);
        }
    }

    /// # Errors
    ///
    /// If the request was canceled.
    fn check_cancellation(&self) -> Result<(), InferError> {
        if self.cancellation.is_cancelled() { Err(InferError::Cancelled) } else { Ok(()) }
    }

    /// Checks the cancellation of each sentence. Those that are canceled stay so for this search.
    pub(super) fn check_sentences(&mut self) {
        for sentence in &mut self.sentences {
            sentence.is_cancelled |= sentence.cancellation.is_some_and(Cancellation::is_cancelled);
        }
    }

    /// Removes the results of canceled sentences, which may be incomplete.
    pub(super) fn without_cancelled<T>(&self, found: &mut [Vec<T>]) {
        for (found, sentence) in found.iter_mut().zip(&self.sentences) {
            if sentence.is_cancelled {
                found.clear();
            }
        }
    }

    fn not_finite(&self, target: PartialTarget<'_>) -> InferError {
        self.decoder.not_finite(self.sentences[target.sentence].number + 1)
    }

    /// Appends a token to each row, as [`next`](Self::next) does, and returns the log-probabilities
    /// of all next tokens: `[R, V]`.
    pub(super) fn log_probs<'r>(
        &mut self,
        tokens: &[u32],
        len: usize,
        target: impl Fn(usize) -> PartialTarget<'r>,
    ) -> Result<Vec<f32>, InferError> {
        self.check_cancellation()?;
        let mut scores = self.decoder.logits(tokens);
        let width = (scores.len() / tokens.len().max(1)).max(1);
        for (index, scores) in scores.chunks_exact_mut(width).enumerate() {
            self.constrain(target(index), len, scores);
            if scores.iter().any(|score| score.is_nan()) {
                return Err(self.not_finite(target(index)));
            }
        }
        Ok(scores)
    }

    /// Returns `true` if the next tokens depend on more than a few of the model's likeliest tokens.
    fn needs_all_scores(&self, len: usize) -> bool {
        self.options.repetition_penalty != 1.0
            || self.options.renormalize
            || self.sentences.iter().any(|sentence| {
                sentence.constraints.is_some()
                    || sentence.given(len, self.options.force_eos).is_some()
            })
    }

    /// Returns the tokens that begin or continue a constraint of the row of `target`.
    fn required(&self, target: PartialTarget<'_>) -> Vec<u32> {
        let PartialTarget { sentence, partial } = target;
        let sentence = &self.sentences[sentence];
        let given = usize::from(sentence.forced_first.is_some());
        let next = |it: &Constraints| it.next(partial.progress, &partial.ids, given);
        sentence.constraints.map(next).unwrap_or_default()
    }

    /// Appends a token to a hypothesis of a sentence; see [`Partial::push`].
    pub(super) fn push(
        &self,
        sentence: usize,
        partial: &mut Partial,
        token: u32,
        log_probability: f32,
        row: usize,
    ) {
        partial.push(token, log_probability, self.decoder.attention(row));
        partial.progress = self.progress(sentence, partial.progress, &partial.ids);
    }

    /// Returns the progress of a target of a sentence after its last token.
    pub(super) fn progress(&self, sentence: usize, before: Progress, ids: &[u32]) -> Progress {
        let sentence = &self.sentences[sentence];
        let mut progress = before;
        if let Some(constraints) = sentence.constraints {
            let given = usize::from(sentence.forced_first.is_some());
            constraints.advance(&mut progress, ids, given);
        }
        progress
    }

    /// Returns the ids that are suppressed in the row of `target`, besides those suppressed in all
    /// rows.
    fn suppressed_in(&self, target: PartialTarget<'_>, len: usize) -> Vec<u32> {
        let Sentence { min_len, max_repeats, .. } = self.sentences[target.sentence];
        let mut suppressed = repeating(&target.partial.ids, self.options.no_repeat_ngram);
        suppressed.extend(looping(&target.partial.ids, max_repeats));
        if len < min_len {
            suppressed.push(EOS);
        }
        suppressed
    }

    /// Converts logits of the model to log-probabilities of the allowed tokens.
    fn constrain(&self, target: PartialTarget<'_>, len: usize, scores: &mut [f32]) {
        let SearchOptions { repetition_penalty, renormalize, force_eos, .. } = *self.options;
        if let Some(given) = self.sentences[target.sentence].given(len, force_eos) {
            log_softmax(scores);
            let (Given::Scored(token) | Given::Forced(token)) = given;
            let log_probability = match given {
                // Scores that are not finite are an error in any case.
                Given::Forced(_) if !scores[token as usize].is_nan() => 0.0,
                Given::Scored(_) | Given::Forced(_) => scores[token as usize],
            };
            scores.fill(f32::NEG_INFINITY);
            scores[token as usize] = log_probability;
            return;
        }
        if repetition_penalty != 1.0 {
            penalize(scores, &target.partial.ids, repetition_penalty);
        }
        let mut suppressed = self.suppressed_in(target, len);
        // No option suppresses tokens of constraints.
        let required = self.required(target);
        if let Some(constraints) = self.sentences[target.sentence].constraints {
            let progress = target.partial.progress;
            if !constraints.are_met(progress) {
                suppressed.push(EOS);
            }
            let ids = (0..scores.len() as u32).filter(|id| constraints.forbids(progress, *id));
            suppressed.extend(ids);
        }
        let suppressed = self.suppressed.iter().chain(&suppressed);
        let suppressed = suppressed.filter(|id| !required.contains(id));
        if renormalize {
            suppress(scores, suppressed);
            log_softmax(scores);
        } else {
            log_softmax(scores);
            suppress(scores, suppressed);
        }
    }
}
