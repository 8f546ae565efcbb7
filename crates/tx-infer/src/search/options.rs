//! How targets are searched for, and which ways contradict each other.

use serde::{Deserialize, Serialize};
use tx_text::special::EOS;

/// Most hypotheses or samples of one sentence.
pub const MAX_ROWS: usize = 10_000;

/// How targets are searched for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SearchOptions {
    /// Hypotheses kept per sentence; 1 is greedy search.
    pub beam: usize,
    /// `α` of `length_norm`. 0 favours short hypotheses. Greedy search has one hypothesis and ranks
    /// nothing.
    pub length_penalty: f32,
    /// What log-probabilities are divided by.
    pub length_norm: LengthNorm,
    /// `β` of the coverage penalty, which lowers the score of hypotheses that leave source tokens
    /// out: `β Σ_i ln min(Σ_j a_ij, 1)`, with `a_ij` what target token `j` took from source token
    /// `i` (Wu et al. 2016, equation 14). 0 is none.
    pub coverage_penalty: f32,
    /// When a sentence is done.
    pub early_stopping: EarlyStopping,
    /// [`EarlyStopping::Finished`] waits for `patience · beam` hypotheses (Kasai et al. 2022).
    pub patience: f32,
    /// Hypotheses given back per sentence, best first; at most `beam`.
    pub n_best: usize,
    /// Groups of the beam that are kept apart (Vijayakumar et al. 2016); 1 is plain beam search.
    pub groups: usize,
    /// `λ`: what a token loses, in a group's choice, for each hypothesis of an earlier group that
    /// took it in the same step.
    pub diversity: f32,
    /// Draws tokens instead of searching for the likeliest.
    pub sampling: Option<Sampling>,
    /// A target has at most so many tokens, `<eos>` included, whatever `max_len_ratio` says.
    pub max_len: Option<usize>,
    /// A target has at most `max_len_ratio` · source tokens + `max_len_extra` tokens, and never
    /// more than the model's `max_len`.
    pub max_len_ratio: f32,
    /// See `max_len_ratio`.
    pub max_len_extra: usize,
    /// A target has at least so many tokens before it ends with `<eos>`; the limits above hold all
    /// the same.
    pub min_len: usize,
    /// A target has at least `min_len_ratio` · source tokens before it ends.
    pub min_len_ratio: f32,
    /// `θ`: scores (logits) of tokens that the target has already are divided by it where they are
    /// positive and multiplied with it where they are negative (Keskar et al. 2019). 1 does nothing.
    pub repetition_penalty: f32,
    /// No sequence of so many tokens comes twice in a target (Paulus et al. 2018); 0 allows all.
    pub no_repeat_ngram: usize,
    /// A target repeats a sequence of tokens at most so many times in a row, or as often as the
    /// source repeats one, whichever is more; 0 is no limit. This ends loops, which a model with
    /// little data falls into after a rare word.
    pub max_repeats: usize,
    /// Ids that are never generated.
    pub suppress: Vec<u32>,
    /// Whether the probability of tokens that must not be said goes to those that may. Otherwise it
    /// is lost, and log-probabilities are the model's own.
    pub renormalize: bool,
    /// Whether `<unk>` becomes the source word that it looked at most.
    pub replace_unknown: bool,
    /// Decoder layer, from 1, whose attention to the source counts for coverage and for unknown
    /// words, on the mean of its heads. None is the last but one, or the only one.
    pub attention_layer: Option<usize>,
}

/// What log-probabilities are divided by, for a hypothesis of `n` tokens, `<eos>` included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LengthNorm {
    /// 1: hypotheses are ranked by their probability.
    None,
    /// `n^α`: with α 1, hypotheses are ranked by the mean per token.
    #[default]
    Power,
    /// `((5 + n) / 6)^α` (Wu et al. 2016, equation 14).
    Wu,
}

/// When a sentence is done. At its length limit it is done in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum EarlyStopping {
    /// As soon as `patience · beam` hypotheses are finished.
    #[default]
    Finished,
    /// As soon as the likeliest continuation of a step has ended, and `n_best` are finished.
    First,
    /// When no hypothesis under way can still be among the `n_best`.
    Never,
}

/// How tokens are drawn: `temperature`, then `top_k`, then `top_p`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// Targets drawn for each sentence.
    pub samples: usize,
    /// `T`: probabilities are taken to the power `1/T`. Below 1 likely tokens are drawn more often
    /// still.
    pub temperature: f32,
    /// Only so many likeliest tokens are drawn from (Fan et al. 2018); 0 is all.
    pub top_k: usize,
    /// Only the fewest likeliest tokens are drawn from that together have this probability
    /// (Holtzman et al. 2020); 1 is all.
    pub top_p: f32,
    /// What is drawn depends on the seed, the number of the sentence and the number of the sample,
    /// and on nothing else.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { samples: 1, temperature: 1.0, top_k: 0, top_p: 1.0, seed: 0 }
    }
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self {
            beam: 4,
            length_penalty: 1.0,
            length_norm: LengthNorm::Power,
            coverage_penalty: 0.0,
            early_stopping: EarlyStopping::Finished,
            patience: 1.0,
            n_best: 1,
            groups: 1,
            diversity: 0.5,
            sampling: None,
            max_len: None,
            max_len_ratio: 2.0,
            max_len_extra: 10,
            min_len: 0,
            min_len_ratio: 0.0,
            repetition_penalty: 1.0,
            no_repeat_ngram: 0,
            max_repeats: 4,
            suppress: Vec::new(),
            renormalize: false,
            replace_unknown: false,
            attention_layer: None,
        }
    }
}

impl SearchOptions {
    /// One hypothesis, the likeliest token at each step.
    pub fn greedy() -> Self {
        Self { beam: 1, ..Self::default() }
    }

    /// Targets drawn at random.
    pub fn sampling(sampling: Sampling) -> Self {
        Self { sampling: Some(sampling), ..Self::greedy() }
    }

    /// The rules that are broken; empty when all is well.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !(1..=MAX_ROWS).contains(&self.beam) {
            let beam = self.beam;
            problems.push(format!("`beam` = {beam} must be at least 1 and at most {MAX_ROWS}"));
        }
        if self.n_best == 0 || self.n_best > self.beam.max(1) {
            problems.push(format!(
                "`n_best` = {} must be at least 1 and at most `beam` = {}",
                self.n_best, self.beam
            ));
        }
        if self.groups == 0 || !self.beam.is_multiple_of(self.groups) {
            problems.push(format!(
                "`groups` = {} must be at least 1 and divide `beam` = {}",
                self.groups, self.beam
            ));
        }
        if !self.length_penalty.is_finite() {
            problems.push(format!("`length_penalty` = {} is not a number", self.length_penalty));
        }
        for (key, value) in [
            ("coverage_penalty", self.coverage_penalty),
            ("diversity", self.diversity),
            ("max_len_ratio", self.max_len_ratio),
            ("min_len_ratio", self.min_len_ratio),
        ] {
            if !(value >= 0.0 && value.is_finite()) {
                problems.push(format!("`{key}` = {value} must be at least 0"));
            }
        }
        for (key, value) in
            [("patience", self.patience), ("repetition_penalty", self.repetition_penalty)]
        {
            if !(value > 0.0 && value.is_finite()) {
                problems.push(format!("`{key}` = {value} must be above 0"));
            }
        }
        match self.max_len {
            Some(0) => problems.push("`max_len` must be at least 1".into()),
            Some(max_len) if max_len < self.min_len => problems.push(format!(
                "`min_len` = {} must be at most `max_len` = {max_len}",
                self.min_len
            )),
            _ => {}
        }
        if self.suppress.contains(&EOS) {
            problems.push("`suppress` holds `<eos>`: without it no target ends".into());
        }
        if self.attention_layer == Some(0) {
            problems.push("`attention_layer` counts from 1".into());
        }
        self.contradictions(&mut problems);
        problems
    }

    /// Options that do nothing beside others.
    fn contradictions(&self, problems: &mut Vec<String>) {
        if self.patience != 1.0 && self.early_stopping != EarlyStopping::Finished {
            problems.push(format!(
                "`patience` = {} counts finished hypotheses: not with `early_stopping` other than \
                 `finished`",
                self.patience
            ));
        }
        if let Some(sampling) = &self.sampling {
            sampling.problems(problems);
            if self.beam > 1 {
                problems.push(format!("`beam` = {} searches: not with `sampling`", self.beam));
            }
        }
        if self.beam == 1 {
            let ranks = [
                ("coverage_penalty", self.coverage_penalty != 0.0),
                ("patience", self.patience != 1.0),
                ("early_stopping", self.early_stopping != EarlyStopping::Finished),
            ];
            for (key, _) in ranks.into_iter().filter(|(_, given)| *given) {
                problems.push(format!("`{key}` is for several hypotheses: not with `beam` = 1"));
            }
        }
    }

    /// Most tokens of a target, `<eos>` included.
    pub(super) fn limit(&self, source_tokens: usize, max_len: usize) -> usize {
        let wanted = (source_tokens as f32 * self.max_len_ratio).ceil() as usize;
        let wanted = wanted.saturating_add(self.max_len_extra);
        wanted.min(self.max_len.unwrap_or(usize::MAX)).clamp(1, max_len.max(1))
    }

    /// Least tokens of a target before `<eos>`.
    pub(super) fn least(&self, source_tokens: usize) -> usize {
        self.min_len.max((source_tokens as f32 * self.min_len_ratio).ceil() as usize)
    }

    /// What a hypothesis of `len` tokens is ranked by, without coverage.
    pub(super) fn score(&self, log_probability: f32, len: usize) -> f32 {
        let len = len.max(1) as f32;
        match self.length_norm {
            LengthNorm::None => log_probability,
            LengthNorm::Power => log_probability / len.powf(self.length_penalty),
            LengthNorm::Wu => log_probability / ((5.0 + len) / 6.0).powf(self.length_penalty),
        }
    }

    /// What coverage adds to the score: `coverage` has what was taken from each source token.
    pub(super) fn coverage_score(&self, coverage: &[f32]) -> f32 {
        // As ln 0 would rule a hypothesis out.
        const LEAST: f32 = 1e-10;
        let logs = coverage.iter().map(|taken| taken.clamp(LEAST, 1.0).ln());
        if self.coverage_penalty == 0.0 { 0.0 } else { self.coverage_penalty * logs.sum::<f32>() }
    }

    /// Hypotheses that a group finishes before its sentence is done.
    pub(super) fn wanted(&self) -> usize {
        (((self.beam / self.groups) as f32 * self.patience).round() as usize).max(1)
    }

    /// Whether it counts where in the source tokens come from.
    pub(super) fn watches(&self) -> bool {
        self.coverage_penalty != 0.0 || self.replace_unknown
    }

    /// Rows of decoding for each sentence.
    pub(crate) fn rows(&self) -> usize {
        self.sampling.map_or(self.beam, |sampling| sampling.samples)
    }
}

impl Sampling {
    fn problems(&self, problems: &mut Vec<String>) {
        if !(1..=MAX_ROWS).contains(&self.samples) {
            let samples = self.samples;
            problems
                .push(format!("`samples` = {samples} must be at least 1 and at most {MAX_ROWS}"));
        }
        if !(self.temperature > 0.0 && self.temperature.is_finite()) {
            problems.push(format!("`temperature` = {} must be above 0", self.temperature));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            problems.push(format!("`top_p` = {} must be above 0 and at most 1", self.top_p));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_limit_grows_with_the_source_up_to_the_models() {
        let options =
            SearchOptions { max_len_ratio: 1.5, max_len_extra: 3, ..SearchOptions::default() };
        assert_eq!(options.limit(5, 100), 11);
        assert_eq!(options.limit(5, 8), 8);
        let own = SearchOptions { max_len: Some(7), ..options.clone() };
        assert_eq!((own.limit(5, 100), own.limit(5, 6), own.limit(1, 100)), (7, 6, 5));
        let none = SearchOptions { max_len_ratio: 0.0, max_len_extra: 0, ..options };
        assert_eq!(none.limit(5, 8), 1);
    }

    #[test]
    fn the_least_length_is_the_larger_of_both() {
        let options = SearchOptions { min_len: 3, min_len_ratio: 0.5, ..SearchOptions::default() };
        assert_eq!([2, 6, 7].map(|source| options.least(source)), [3, 3, 4]);
    }

    /// ln p = -6 over 7 tokens:
    ///
    /// ```text
    /// none          -6
    /// 7^α           -6 / 1, -6 / 7
    /// (12 / 6)^α    -6 / 1, -6 / 2, -6 / 4
    /// ```
    #[test]
    fn scores_are_divided_by_the_length() {
        let score = |length_norm, length_penalty| {
            let options = SearchOptions { length_norm, length_penalty, ..SearchOptions::default() };
            options.score(-6.0, 7)
        };
        assert_eq!(score(LengthNorm::None, 1.0), -6.0);
        assert_eq!([0.0, 1.0].map(|alpha| score(LengthNorm::Power, alpha)), [-6.0, -6.0 / 7.0]);
        assert_eq!([0.0, 1.0, 2.0].map(|alpha| score(LengthNorm::Wu, alpha)), [-6.0, -3.0, -1.5]);
    }

    /// Of three source tokens one was taken twice, one by a half and one by a quarter:
    /// 0.2 (ln 1 + ln 1/2 + ln 1/4) = -0.6 ln 2.
    #[test]
    fn source_tokens_left_out_lower_the_score() {
        let options = SearchOptions { coverage_penalty: 0.2, ..SearchOptions::default() };
        let found = options.coverage_score(&[2.0, 0.5, 0.25]);
        assert!((found + 0.6 * 2.0_f32.ln()).abs() < 1e-6, "{found}");
        assert!(options.coverage_score(&[0.0]).is_finite());
        assert_eq!(SearchOptions::default().coverage_score(&[0.5]), 0.0);
    }

    #[test]
    fn broken_rules_are_listed() {
        let options = SearchOptions {
            beam: 2,
            n_best: 3,
            length_penalty: f32::NAN,
            max_len_ratio: -1.0,
            ..SearchOptions::default()
        };
        assert_eq!(options.problems().len(), 3);
        assert_eq!(SearchOptions::default().problems(), [""; 0]);
        assert_eq!(SearchOptions::sampling(Sampling::default()).problems(), [""; 0]);
    }

    #[test]
    fn each_broken_rule_is_named() {
        let base = SearchOptions::default;
        let drawn = |sampling| SearchOptions::sampling(sampling);
        for (options, word) in [
            (SearchOptions { beam: 0, ..base() }, "`beam` = 0"),
            (SearchOptions { beam: usize::MAX, ..base() }, "at most 10000"),
            (SearchOptions { n_best: 0, ..base() }, "`n_best` = 0"),
            (SearchOptions { n_best: 5, ..base() }, "at most `beam` = 4"),
            (SearchOptions { groups: 3, ..base() }, "`groups` = 3"),
            (SearchOptions { groups: 0, ..base() }, "`groups` = 0"),
            (SearchOptions { coverage_penalty: -1.0, ..base() }, "`coverage_penalty` = -1"),
            (SearchOptions { diversity: f32::INFINITY, ..base() }, "`diversity` = inf"),
            (SearchOptions { min_len_ratio: f32::NAN, ..base() }, "`min_len_ratio` = NaN"),
            (SearchOptions { patience: 0.0, ..base() }, "`patience` = 0"),
            (SearchOptions { repetition_penalty: 0.0, ..base() }, "`repetition_penalty` = 0"),
            (SearchOptions { max_len: Some(0), ..base() }, "`max_len`"),
            (SearchOptions { max_len: Some(3), min_len: 4, ..base() }, "`min_len` = 4"),
            (SearchOptions { suppress: vec![7, EOS], ..base() }, "`suppress`"),
            (SearchOptions { attention_layer: Some(0), ..base() }, "`attention_layer`"),
            (
                SearchOptions { early_stopping: EarlyStopping::Never, patience: 2.0, ..base() },
                "`patience` = 2",
            ),
            (SearchOptions { coverage_penalty: 0.1, ..SearchOptions::greedy() }, "`beam` = 1"),
            (SearchOptions { patience: 2.0, ..SearchOptions::greedy() }, "`patience` is for"),
            (
                SearchOptions { early_stopping: EarlyStopping::Never, ..SearchOptions::greedy() },
                "`early_stopping` is for",
            ),
            (SearchOptions { sampling: Some(Sampling::default()), ..base() }, "`sampling`"),
            (drawn(Sampling { samples: 0, ..Sampling::default() }), "`samples`"),
            (drawn(Sampling { samples: usize::MAX, ..Sampling::default() }), "at most 10000"),
            (drawn(Sampling { temperature: 0.0, ..Sampling::default() }), "`temperature` = 0"),
            (drawn(Sampling { top_p: 1.5, ..Sampling::default() }), "`top_p` = 1.5"),
            (drawn(Sampling { top_p: 0.0, ..Sampling::default() }), "`top_p` = 0"),
        ] {
            let problems = options.problems();
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(problems.iter().any(|problem| problem.contains(word)), "{word}: {problems:?}");
        }
    }
}
