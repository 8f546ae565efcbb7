//! A target under way, and one that was found.

use super::options::SearchOptions;

/// A target that was found.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Hypothesis {
    /// Token ids without `<bos>`; ends with `<eos>` unless the length limit came first.
    pub ids: Vec<u32>,
    /// Natural logarithm of the hypothesis's probability.
    pub log_probability: f32,
    /// What hypotheses of one sentence are ranked by: `log_probability`, divided as
    /// [`LengthNorm`](super::LengthNorm) says, with what coverage adds.
    pub score: f32,
    /// For each token, the place of the source token that it looked at most, from 0. Empty unless
    /// unknown words are replaced or coverage counts.
    pub sources: Vec<usize>,
}

/// A target under way.
#[derive(Debug, Clone, Default)]
pub(super) struct Partial {
    pub(super) ids: Vec<u32>,
    pub(super) log_probability: f32,
    /// As [`Hypothesis::sources`].
    sources: Vec<usize>,
    /// What was taken from each source token so far; empty unless it counts.
    coverage: Vec<f32>,
}

impl Partial {
    /// Adds a token, after which the log-probability is what is given; `attention` is where the
    /// token comes from, if that counts.
    pub(super) fn push(&mut self, token: u32, log_probability: f32, attention: &[f32]) {
        self.ids.push(token);
        self.log_probability = log_probability;
        if !attention.is_empty() {
            self.sources.push(strongest(attention));
            self.coverage.resize(attention.len(), 0.0);
            for (covered, taken) in self.coverage.iter_mut().zip(attention) {
                *covered += taken;
            }
        }
    }

    /// As it is.
    pub(super) fn finish(self, options: &SearchOptions) -> Hypothesis {
        let Self { ids, log_probability, sources, coverage } = self;
        let score = options.score(log_probability, ids.len()) + options.coverage_score(&coverage);
        Hypothesis { ids, log_probability, score, sources }
    }
}

/// The place of the largest weight; the last, which is `<eos>`, only if there is no other: heads
/// that have nothing to look at rest there.
fn strongest(attention: &[f32]) -> usize {
    let words = &attention[..attention.len().max(2) - 1];
    let better = |best: usize, (place, weight): (usize, &f32)| {
        if *weight > words[best] { place } else { best }
    };
    words.iter().enumerate().fold(0, better)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three source tokens, the last of which is `<eos>`.
    #[test]
    fn a_token_remembers_where_it_comes_from() {
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
    fn without_attention_nothing_is_remembered() {
        let mut partial = Partial::default();
        partial.push(7, -1.0, &[]);
        let found = partial.finish(&SearchOptions::default());
        assert_eq!((found.sources, found.score), (vec![], -1.0));
    }
}
