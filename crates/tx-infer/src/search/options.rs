//! Options of the search, and the combinations that are invalid.

mod sampling;
mod score;

use serde::{Deserialize, Serialize};
use tx_text::special::EOS;

pub use sampling::{MAX_ROWS, Sampling};
pub use score::LengthNorm;

/// Options of the search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SearchOptions {
    /// Hypotheses kept per sentence; 1 is greedy search.
    pub beam: usize,
    /// `α` of `length_norm`. 0 favors short hypotheses. Has no effect on greedy search, which keeps
    /// one hypothesis.
    pub length_penalty: f32,
    /// Length normalization: the divisor of log-probabilities.
    pub length_norm: LengthNorm,
    /// Subtracted from the log-probability of a hypothesis for each token, before the normalization, as in Marian. A
    /// negative value favors long hypotheses; 0 disables the penalty.
    pub word_penalty: f32,
    /// `β` of the coverage penalty, which lowers the score of hypotheses that leave source tokens
    /// out: `β Σ_i ln min(Σ_j a_ij, 1)`, with `a_ij` the attention of target token `j` to source
    /// token `i` (Wu et al. 2016, equation 14). 0 disables the penalty.
    pub coverage_penalty: f32,
    /// Condition under which a sentence is done.
    pub early_stopping: EarlyStopping,
    /// [`EarlyStopping::Finished`] waits for `patience · beam` hypotheses (Kasai et al. 2022).
    pub patience: f32,
    /// Hypotheses returned per sentence, best first; at most `beam`.
    pub n_best: usize,
    /// Groups of diverse beam search (Vijayakumar et al. 2016); 1 is plain beam search.
    pub groups: usize,
    /// `λ`: penalty of a token in a group for each hypothesis of an earlier group that chose it in
    /// the same step.
    pub diversity: f32,
    /// Sampling instead of beam search.
    pub sampling: Option<Sampling>,
    /// Maximum number of tokens of a target, `<eos>` included, in addition to `max_len_ratio`. For a
    /// language model, of prompt and continuation.
    pub max_len: Option<usize>,
    /// Limits a target to `max_len_ratio` · source tokens + `max_len_extra` tokens, and to the
    /// model's `max_len`.
    pub max_len_ratio: f32,
    /// Constant term of the limit of `max_len_ratio`, in tokens. With `max_len_ratio` = 0, the whole
    /// limit.
    pub max_len_extra: usize,
    /// Whether the last token at the length limit is `<eos>`, with log-probability 0. Otherwise such a
    /// target ends without `<eos>`.
    pub force_eos: bool,
    /// Minimum number of tokens of a target before `<eos>`. The limits above take precedence.
    pub min_len: usize,
    /// Minimum number of tokens of a target before `<eos>`, per source token.
    pub min_len_ratio: f32,
    /// `θ`: divides positive logits of tokens that the target already has, and multiplies negative
    /// ones (Keskar et al. 2019). 1 has no effect.
    pub repetition_penalty: f32,
    /// Length of the n-grams that do not occur twice in a target (Paulus et al. 2018); 0 allows
    /// all.
    pub no_repeat_ngram: usize,
    /// Maximum number of times in a row that a target repeats a sequence of tokens, or the number
    /// in the source, if that is larger; 0 is no limit. This ends loops, which are frequent after
    /// rare words in models trained on little data.
    pub max_repeats: usize,
    /// Ids that are suppressed: never generated.
    pub suppress: Vec<u32>,
    /// Whether the probability of suppressed tokens is distributed among the others. Otherwise
    /// log-probabilities are those of the model.
    pub renormalize: bool,
    /// Whether `<unk>` is replaced by the source word with the largest attention weight.
    pub replace_unknown: bool,
    /// Use of a [glossary](crate::Translator::with_glossary). Training with `data.noise.terms` records
    /// [`Inline`](GlossaryUse::Inline) in the options of a bundle.
    pub glossary: GlossaryUse,
    /// Use of the [lexicon](crate::lexicon) of a bundle; no effect if it has none. Training records
    /// [`Both`](LexiconUse::Both) with `data.lexicon`.
    pub lexicon: LexiconUse,
    /// Decoder layer, from 1, whose cross-attention, averaged over its heads, is used for coverage
    /// and unknown words. `None` selects [that of the bundle](crate::Bundle::alignment_layer). Guided
    /// alignment records its layer here, in the options of a bundle.
    pub attention_layer: Option<usize>,
}

/// Condition under which a sentence is done. At its length limit it is done in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum EarlyStopping {
    /// `patience · beam` hypotheses are finished.
    #[default]
    Finished,
    /// The likeliest continuation of a step has ended, and `n_best` hypotheses are finished.
    First,
    /// No live hypothesis can become one of the `n_best`.
    Never,
    /// `beam` hypotheses are finished, and no live hypothesis is better at its current length: with
    /// `f` the worst score of the best `beam` finished hypotheses, and `P` the largest probability of
    /// a live hypothesis of `n` tokens, `score(ln P, n) <= f`.
    Improvement,
    /// `beam` hypotheses are finished, of a beam that becomes narrower with each of them: a step
    /// takes the best `beam - finished` continuations, so that `live + finished <= beam`.
    Narrowing,
}

/// Way in which the translations of a glossary get into a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum GlossaryUse {
    /// As constraints on the beam search: each translation as the glossary has it.
    #[default]
    Constrain,
    /// In the source, in place of the terms (Dinu et al. 2019): a model that is trained to do so uses them, also in other
    /// forms of the words. Needs no beam.
    Inline,
    /// As constraints, and in the source.
    Both,
}

impl GlossaryUse {
    /// Returns `true` if translations are constraints.
    pub fn constrains(self) -> bool {
        match self {
            Self::Constrain | Self::Both => true,
            Self::Inline => false,
        }
    }

    /// Returns `true` if translations are written into the source.
    pub fn inlines(self) -> bool {
        match self {
            Self::Inline | Self::Both => true,
            Self::Constrain => false,
        }
    }
}

/// Use of the lexicon of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LexiconUse {
    /// None: a target has any words.
    #[default]
    Off,
    /// A target has words of the training text, and new ones of the source. Samples have any words.
    Words,
    /// Names and numbers are copied, except by samples, streams and minimum Bayes risk.
    Names,
    /// Words and names.
    Both,
}

impl LexiconUse {
    /// Returns `true` if the words of a target are restricted.
    pub fn restricts(self) -> bool {
        match self {
            Self::Words | Self::Both => true,
            Self::Off | Self::Names => false,
        }
    }

    /// Returns `true` if names are copied.
    pub fn copies_names(self) -> bool {
        match self {
            Self::Names | Self::Both => true,
            Self::Off | Self::Words => false,
        }
    }
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self {
            beam: 4,
            length_penalty: 1.0,
            word_penalty: 0.0,
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
            force_eos: false,
            min_len: 0,
            min_len_ratio: 0.0,
            repetition_penalty: 1.0,
            no_repeat_ngram: 0,
            max_repeats: 4,
            suppress: Vec::new(),
            renormalize: false,
            replace_unknown: false,
            glossary: GlossaryUse::Constrain,
            lexicon: LexiconUse::Off,
            attention_layer: None,
        }
    }
}

/// Returns the decoder layer, from 0, that aligns tokens in a model with so many `layers`: the `chosen`
/// one, from 1, otherwise the last but one (Garg et al. 2019), and the last of one or two.
pub(crate) fn alignment_layer(layers: usize, chosen: Option<usize>) -> usize {
    let layer = chosen.unwrap_or(if layers > 2 { layers - 1 } else { layers });
    layer.min(layers).saturating_sub(1)
}

impl SearchOptions {
    /// Returns the options of greedy search: one hypothesis, the likeliest token at each step.
    pub fn greedy() -> Self {
        Self { beam: 1, ..Self::default() }
    }

    /// Returns these options for a search with one hypothesis: those that only a beam has are those of
    /// [`greedy`](Self::greedy).
    pub fn with_one_hypothesis(self) -> Self {
        let Self {
            beam,
            coverage_penalty,
            early_stopping,
            patience,
            n_best,
            groups,
            diversity,
            ..
        } = Self::greedy();
        Self { beam, coverage_penalty, early_stopping, patience, n_best, groups, diversity, ..self }
    }

    /// Returns these options for a search with another beam, which replaces sampling. Options that
    /// the beam contradicts have their defaults.
    pub fn with_beam(self, beam: usize) -> Self {
        let options = if beam == 1 { self.with_one_hypothesis() } else { self };
        let divides = options.groups > 0 && beam.is_multiple_of(options.groups);
        Self {
            beam,
            n_best: options.n_best.min(beam),
            groups: if divides { options.groups } else { Self::default().groups },
            sampling: None,
            ..options
        }
    }

    /// Returns the options of `sampling`.
    pub fn sampling(sampling: Sampling) -> Self {
        Self { sampling: Some(sampling), ..Self::greedy() }
    }

    /// Returns all problems of the options; empty if they are valid.
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
        for (key, value) in
            [("length_penalty", self.length_penalty), ("word_penalty", self.word_penalty)]
        {
            if !value.is_finite() {
                problems.push(format!("`{key}` = {value} is not a number"));
            }
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
            problems.push("`suppress` has `<eos>`, without which no target ends".into());
        }
        if self.attention_layer == Some(0) {
            problems.push("`attention_layer` = 0 must be at least 1".into());
        }
        self.contradictions(&mut problems);
        problems
    }

    /// Adds the options that conflict with others or have no effect.
    fn contradictions(&self, problems: &mut Vec<String>) {
        if self.patience != 1.0 && self.early_stopping != EarlyStopping::Finished {
            problems.push(format!(
                "`patience` = {} has no effect unless `early_stopping` is `finished`",
                self.patience
            ));
        }
        if let Some(sampling) = &self.sampling {
            sampling.problems(problems);
            if self.beam > 1 {
                problems.push(format!("`beam` = {} conflicts with `sampling`", self.beam));
            }
        }
        if self.beam == 1 {
            let ranks = [
                ("coverage_penalty", self.coverage_penalty != 0.0),
                ("patience", self.patience != 1.0),
                ("early_stopping", self.early_stopping != EarlyStopping::Finished),
            ];
            for (key, _) in ranks.into_iter().filter(|(_, given)| *given) {
                problems.push(format!("`{key}` has no effect with `beam` = 1"));
            }
        }
    }

    /// Adds the options that need a source, which a language model does not have.
    pub(crate) fn problems_without_source(&self, problems: &mut Vec<String>) {
        let default = Self::default();
        let given = [
            ("coverage_penalty", self.coverage_penalty != default.coverage_penalty),
            ("max_len_ratio", self.max_len_ratio != default.max_len_ratio),
            ("max_len_extra", self.max_len_extra != default.max_len_extra),
            ("min_len_ratio", self.min_len_ratio != default.min_len_ratio),
            ("replace_unknown", self.replace_unknown != default.replace_unknown),
            ("attention_layer", self.attention_layer != default.attention_layer),
            ("lexicon", self.lexicon != default.lexicon),
        ];
        for (key, _) in given.into_iter().filter(|(_, given)| *given) {
            problems.push(format!("`{key}` needs a source, which a language model does not have"));
        }
    }

    /// Returns `true` if each row is a search of its own: greedy search and sampling.
    pub(super) fn rows_are_independent(&self) -> bool {
        self.beam == 1 || self.sampling.is_some()
    }

    /// Maximum number of tokens of a target, `<eos>` included. `max_len` is that of the model.
    pub(super) fn max_len(&self, source_tokens: usize, max_len: usize) -> usize {
        let wanted = (source_tokens as f32 * self.max_len_ratio).ceil() as usize;
        let wanted = wanted.saturating_add(self.max_len_extra);
        wanted.min(self.max_len.unwrap_or(usize::MAX)).clamp(1, max_len.max(1))
    }

    /// Minimum number of tokens of a target before `<eos>`.
    pub(super) fn min_len(&self, source_tokens: usize) -> usize {
        self.min_len.max((source_tokens as f32 * self.min_len_ratio).ceil() as usize)
    }

    /// Returns the number of hypotheses that a group of the beam keeps.
    pub(super) fn width(&self) -> usize {
        self.beam / self.groups
    }

    /// Returns the number of hypotheses that a group finishes before its sentence is done, with so many
    /// `places` for hypotheses that can end.
    pub(super) fn hypotheses_to_finish(&self, places: usize) -> usize {
        ((places as f32 * self.patience).round() as usize).max(1)
    }

    /// Returns `true` if cross-attention is used.
    pub(super) fn records_attention(&self) -> bool {
        self.coverage_penalty != 0.0 || self.replace_unknown
    }

    /// Returns the number of rows of the batch for each sentence.
    pub(crate) fn rows(&self) -> usize {
        self.sampling.map_or(self.beam, |sampling| sampling.samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_layer_but_one_or_a_chosen_one_aligns() {
        let of = alignment_layer;
        assert_eq!([of(1, None), of(2, None), of(3, None), of(6, None)], [0, 1, 1, 4]);
        assert_eq!([of(6, Some(6)), of(6, Some(1)), of(6, Some(9)), of(2, Some(1))], [5, 0, 5, 0]);
        assert_eq!([of(0, None), of(0, Some(1))], [0, 0]);
    }

    #[test]
    fn the_length_limit_grows_with_the_source_up_to_the_models() {
        let options =
            SearchOptions { max_len_ratio: 1.5, max_len_extra: 3, ..SearchOptions::default() };
        assert_eq!(options.max_len(5, 100), 11);
        assert_eq!(options.max_len(5, 8), 8);
        let limited = SearchOptions { max_len: Some(7), ..options.clone() };
        assert_eq!(
            (limited.max_len(5, 100), limited.max_len(5, 6), limited.max_len(1, 100)),
            (7, 6, 5)
        );
        let none = SearchOptions { max_len_ratio: 0.0, max_len_extra: 0, ..options };
        assert_eq!(none.max_len(5, 8), 1);
    }

    #[test]
    fn the_minimum_length_is_the_larger_of_both() {
        let options = SearchOptions { min_len: 3, min_len_ratio: 0.5, ..SearchOptions::default() };
        assert_eq!([2, 6, 7].map(|source| options.min_len(source)), [3, 3, 4]);
    }

    #[test]
    fn one_hypothesis_needs_no_option_of_several() {
        let options = SearchOptions {
            beam: 6,
            n_best: 2,
            groups: 2,
            coverage_penalty: 0.2,
            early_stopping: EarlyStopping::Improvement,
            max_len: Some(7),
            suppress: vec![9],
            ..SearchOptions::default()
        };
        let expected =
            SearchOptions { max_len: Some(7), suppress: vec![9], ..SearchOptions::greedy() };
        assert_eq!(options.with_one_hypothesis(), expected);
    }

    #[test]
    fn options_with_another_beam_are_valid() {
        let search = SearchOptions {
            beam: 6,
            n_best: 6,
            groups: 3,
            early_stopping: EarlyStopping::Improvement,
            suppress: vec![9],
            ..SearchOptions::default()
        };
        let sampling = SearchOptions::sampling(Sampling::default());
        for beam in 1..8 {
            for options in [search.clone(), sampling.clone()] {
                let found = options.clone().with_beam(beam);
                assert_eq!(found.problems(), [""; 0], "{beam}");
                assert_eq!((found.beam, &found.suppress), (beam, &options.suppress));
            }
        }
        let SearchOptions { groups, n_best, early_stopping, .. } = search.with_beam(3);
        assert_eq!((groups, n_best, early_stopping), (3, 3, EarlyStopping::Improvement));
    }

    /// Of three source tokens, one has a total attention of 2, one of 1/2 and one of 1/4: 0.2 (ln
    /// 1 + ln 1/2 + ln 1/4) = -0.6 ln 2.
    #[test]
    fn uncovered_source_tokens_lower_the_score() {
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
            (
                SearchOptions { patience: 2.0, ..SearchOptions::greedy() },
                "`patience` has no effect",
            ),
            (
                SearchOptions { early_stopping: EarlyStopping::Never, ..SearchOptions::greedy() },
                "`early_stopping` has no effect",
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
