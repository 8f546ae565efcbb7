//! Scores of hypotheses.

use serde::{Deserialize, Serialize};

use super::SearchOptions;

/// Divisor of the log-probability of a hypothesis of `n` tokens, `<eos>` included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LengthNorm {
    /// 1: ranks hypotheses by probability.
    None,
    /// `n^α`: with α = 1, ranks hypotheses by the mean log-probability per token.
    #[default]
    Power,
    /// `((5 + n) / 6)^α` (Wu et al. 2016, equation 14).
    Wu,
}

impl SearchOptions {
    /// Score of a hypothesis of `len` tokens, without the coverage penalty.
    pub(in crate::search) fn score(&self, log_probability: f32, len: usize) -> f32 {
        self.normalized(log_probability - self.word_penalty * len.max(1) as f32, len)
    }

    /// Returns an upper bound of the scores of hypotheses with this log-probability of `shortest` to `longest` tokens. The
    /// length normalization is monotonic in the length, as the word penalty is, and neither more tokens nor coverage raise the
    /// score.
    pub(in crate::search) fn best_score(
        &self,
        log_probability: f32,
        shortest: usize,
        longest: usize,
    ) -> f32 {
        let lengths = [shortest, longest];
        let penalties = lengths.map(|len| self.word_penalty * len.max(1) as f32);
        let penalized = log_probability - penalties[0].min(penalties[1]);
        let [short, long] = lengths.map(|len| self.normalized(penalized, len));
        short.max(long)
    }

    fn normalized(&self, log_probability: f32, len: usize) -> f32 {
        let len = len.max(1) as f32;
        match self.length_norm {
            LengthNorm::None => log_probability,
            LengthNorm::Power => log_probability / len.powf(self.length_penalty),
            LengthNorm::Wu => log_probability / ((5.0 + len) / 6.0).powf(self.length_penalty),
        }
    }

    /// Coverage penalty; `coverage` is the sum of the attention to each source token.
    pub(in crate::search) fn coverage_score(&self, coverage: &[f32]) -> f32 {
        // ln 0 would exclude a hypothesis.
        const MIN: f32 = 1e-10;
        let logs = coverage.iter().map(|attention| attention.clamp(MIN, 1.0).ln());
        if self.coverage_penalty == 0.0 { 0.0 } else { self.coverage_penalty * logs.sum::<f32>() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// A penalty of ½ for each of 7 tokens: ln p = -6 - 3.5, then as above.
    #[test]
    fn the_word_penalty_comes_before_the_normalization() {
        let score = |length_norm, word_penalty| {
            let options = SearchOptions { length_norm, word_penalty, ..SearchOptions::default() };
            options.score(-6.0, 7)
        };
        assert_eq!(score(LengthNorm::None, 0.5), -9.5);
        assert_eq!(score(LengthNorm::Power, 0.5), -9.5 / 7.0);
        assert_eq!(score(LengthNorm::Wu, -0.5), -1.25);
    }

    /// No hypothesis of a length in between has a better score.
    #[test]
    fn the_best_score_is_a_bound() {
        for length_norm in [LengthNorm::None, LengthNorm::Power, LengthNorm::Wu] {
            for (length_penalty, word_penalty) in
                [(1.0, 0.0), (1.0, 0.4), (1.0, -0.4), (2.0, -3.0), (-0.5, 0.3), (-0.5, -2.0)]
            {
                let options = SearchOptions {
                    length_norm,
                    length_penalty,
                    word_penalty,
                    ..SearchOptions::default()
                };
                let bound = options.best_score(-6.0, 3, 20);
                let best = (3..=20).map(|len| options.score(-6.0, len)).fold(f32::MIN, f32::max);
                assert!(best <= bound, "{options:?}: {best} {bound}");
            }
        }
    }
}
