//! Hypotheses, live and finished.

use super::{constraints::Progress, options::SearchOptions};

/// A finished hypothesis.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Hypothesis {
    /// Token ids without `<bos>`; ends with `<eos>` unless the length limit came first.
    pub ids: Vec<u32>,
    /// Natural logarithm of the probability.
    pub log_probability: f32,
    /// Score that ranks the hypotheses of a sentence: `log_probability`, divided by
    /// [`LengthNorm`](super::LengthNorm), plus the coverage penalty.
    pub score: f32,
    /// For each token, the position, from 0, of the source token with the largest attention weight.
    /// Empty unless unknown words are replaced or the coverage penalty is used.
    pub sources: Vec<usize>,
}

/// A live hypothesis.
#[derive(Debug, Clone, Default)]
pub(super) struct Partial {
    pub(super) ids: Vec<u32>,
    pub(super) log_probability: f32,
    /// Constraints that the target has met.
    pub(super) progress: Progress,
    /// See [`Hypothesis::sources`].
    sources: Vec<usize>,
    /// Sum of the attention to each source token; empty unless the coverage penalty is used.
    coverage: Vec<f32>,
}

impl Partial {
    /// Appends a token; `log_probability` is that of the hypothesis with it, `attention` that of
    /// the token to the source, if recorded.
    pub(super) fn push(&mut self, token: u32, log_probability: f32, attention: &[f32]) {
        self.ids.push(token);
        self.log_probability = log_probability;
        if !attention.is_empty() {
            self.sources.push(strongest(attention));
            self.coverage.resize(attention.len(), 0.0);
            for (covered, weight) in self.coverage.iter_mut().zip(attention) {
                *covered += weight;
            }
        }
    }

    /// Finishes and scores the hypothesis.
    pub(super) fn finish(self, options: &SearchOptions) -> Hypothesis {
        let Self { ids, log_probability, sources, coverage, .. } = self;
        let score = options.score(log_probability, ids.len()) + options.coverage_score(&coverage);
        Hypothesis { ids, log_probability, score, sources }
    }
}

/// Returns the position of the largest weight. The last token, `<eos>`, counts only if it is alone,
/// because heads attend to it by default.
pub(crate) fn strongest(attention: &[f32]) -> usize {
    let words = &attention[..attention.len().max(2) - 1];
    let better = |best: usize, (position, weight): (usize, &f32)| {
        if *weight > words[best] { position } else { best }
    };
    words.iter().enumerate().fold(0, better)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three source tokens, the last of which is `<eos>`.
    #[test]
    fn the_source_of_a_token_is_recorded() {
        let options = SearchOptions { coverage_penalty: 1.0, ..SearchOptions::default() };
        let mut partial = Partial::default();
        partial.push(7, -1.0, &[0.25, 0.5, 0.25]);
        partial.push(8, -3.0, &[0.25, 0.0, 0.75]);
        let found = partial.finish(&options);
        assert_eq!((found.ids, found.sources), (vec![7, 8], vec![1, 0]));
        // -3 / 2 + ln 1/2 + ln 1/2 + ln 1
        assert!((found.score - (-1.5 - 4.0_f32.ln())).abs() < 1e-6, "{}", found.score);
        assert_eq!(strongest(&[1.0]), 0);
    }

    #[test]
    fn without_attention_nothing_is_recorded() {
        let mut partial = Partial::default();
        partial.push(7, -1.0, &[]);
        let found = partial.finish(&SearchOptions::default());
        assert_eq!((found.sources, found.score), (vec![], -1.0));
    }
}
