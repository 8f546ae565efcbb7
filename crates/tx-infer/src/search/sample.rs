//! Sampling of tokens, which depends only on the seed, the sentence and the sample.

use tx_model::random::mix;

use super::{
    decoder::Next,
    options::Sampling,
    state::{PartialTarget, SearchState},
};
use crate::error::InferError;

/// Stream of random numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    /// Number of the sentence.
    pub(super) number: u64,
    /// Index of the sample of the sentence.
    pub(super) sample: u64,
}

/// Appends a token to each row and samples the next ones, with the model's log-probabilities;
/// `None` if no token is allowed.
pub(super) fn next<'r>(
    state: &mut SearchState<'_>,
    sampling: &Sampling,
    streams: &[Stream],
    tokens: &[u32],
    len: usize,
    target: impl Fn(usize) -> PartialTarget<'r>,
) -> Result<Vec<Option<Next>>, InferError> {
    let candidates: Vec<Vec<Next>> = if sampling.top_k > 0 {
        state.next(tokens, len, sampling.top_k, target)?
    } else {
        let all = state.log_probs(tokens, len, target)?;
        let rows = all.chunks_exact((all.len() / tokens.len().max(1)).max(1));
        rows.map(|row| nucleus(row, sampling)).collect()
    };
    let at = |stream: &Stream| uniform(sampling.seed, stream, len as u64);
    let rows = candidates.iter().zip(streams);
    Ok(rows.map(|(row, stream)| sample(row, sampling, at(stream))).collect())
}

/// Returns the possible tokens; with `top_p` below 1, its candidates, best first.
fn nucleus(log_probs: &[f32], sampling: &Sampling) -> Vec<Next> {
    let max = log_probs.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let possible = (0..).zip(log_probs.iter().copied()).filter(|(_, x)| x.is_finite());
    if sampling.top_p == 1.0 {
        return possible.collect();
    }
    // All tokens below this weight together have less than 1 - p of the total, which is at least 1,
    // so they need not be sorted.
    let min_weight = (1.0 - f64::from(sampling.top_p)) / log_probs.len() as f64;
    let weight = |x: f32| f64::from((x - max) / sampling.temperature).exp();
    let mut likely: Vec<Next> = possible.filter(|(_, x)| weight(*x) >= min_weight).collect();
    likely.sort_by(|a, b| b.1.total_cmp(&a.1));
    // Truncated tokens count in the total.
    let total: f64 = log_probs.iter().map(|&x| weight(x)).sum();
    keep_top_p(&mut likely, weight, f64::from(sampling.top_p) * total);
    likely
}

/// Shortens `candidates`, best first, to the fewest whose weights reach `mass`.
fn keep_top_p(candidates: &mut Vec<Next>, weight: impl Fn(f32) -> f64, mass: f64) {
    let mut sum = 0.0;
    let kept = candidates.iter().take_while(|(_, x)| {
        let is_needed = sum < mass;
        sum += weight(*x);
        is_needed
    });
    let kept = kept.count();
    candidates.truncate(kept);
}

/// Samples one of `candidates` in proportion to its probability to the power `1 / T`; `u` is in
/// `0..1`.
fn sample(candidates: &[Next], sampling: &Sampling, u: f64) -> Option<Next> {
    let max = candidates.iter().map(|(_, x)| *x).fold(f32::NEG_INFINITY, f32::max);
    let weight = |x: f32| f64::from((x - max) / sampling.temperature).exp();
    let mut candidates = candidates.to_vec();
    if sampling.top_k > 0 && sampling.top_p < 1.0 {
        let total: f64 = candidates.iter().map(|(_, x)| weight(*x)).sum();
        keep_top_p(&mut candidates, weight, f64::from(sampling.top_p) * total);
    }
    let total: f64 = candidates.iter().map(|(_, x)| weight(*x)).sum();
    let mut left = u * total;
    let sampled = candidates.iter().find(|(_, x)| {
        left -= weight(*x);
        left < 0.0
    });
    sampled.or(candidates.last()).copied()
}

/// Returns a uniform number in `0..1` for each position of each stream.
fn uniform(seed: u64, stream: &Stream, position: u64) -> f64 {
    let bits = [stream.number, stream.sample, position]
        .iter()
        .fold(next_number(seed), |x, y| next_number(x ^ next_number(*y)));
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns the next number of SplitMix64 (Steele et al. 2014) after the state `x`.
fn next_number(x: u64) -> u64 {
    mix(x.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frequencies of four tokens in 40,000 samples. Their probabilities are 1/10, 4/10,
    /// 2/10 and 3/10.
    fn frequencies(sampling: Sampling) -> [f64; 4] {
        let log_probs = [1.0_f32, 4.0, 2.0, 3.0].map(|x| (x / 10.0).ln());
        let mut counts = [0.0; 4];
        for number in 0..40_000 {
            let u = uniform(sampling.seed, &Stream { number, sample: 0 }, 3);
            let candidates = if sampling.top_k > 0 {
                super::super::scores::best_of_row(&log_probs, sampling.top_k)
            } else {
                nucleus(&log_probs, &sampling)
            };
            let (token, log_prob) = sample(&candidates, &sampling, u).unwrap();
            assert_eq!(log_prob, log_probs[token as usize]);
            counts[token as usize] += 1.0 / 40_000.0;
        }
        counts
    }

    /// Within four standard deviations: 4 √(1/4 / 40,000) = 0.01.
    #[test]
    fn tokens_are_sampled_with_their_probability() {
        let base = Sampling::default();
        for (sampling, expected) in [
            (base, [0.1, 0.4, 0.2, 0.3]),
            (Sampling { seed: 9, ..base }, [0.1, 0.4, 0.2, 0.3]),
            // Squares 1, 16, 4, 9 of 30.
            (Sampling { temperature: 0.5, ..base }, [1.0, 16.0, 4.0, 9.0].map(|x| x / 30.0)),
            (Sampling { top_k: 1, ..base }, [0.0, 1.0, 0.0, 0.0]),
            (Sampling { top_k: 2, ..base }, [0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0]),
            // 0.4 + 0.3 is less than 0.75, and 0.4 is less than 0.6.
            (Sampling { top_p: 0.75, ..base }, [0.0, 4.0 / 9.0, 2.0 / 9.0, 3.0 / 9.0]),
            (Sampling { top_p: 0.6, ..base }, [0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0]),
            (Sampling { top_p: 0.1, ..base }, [0.0, 1.0, 0.0, 0.0]),
            // 4 is less than half of 4 + 3 + 2.
            (Sampling { top_k: 3, top_p: 0.5, ..base }, [0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0]),
            // Squares: 16 is more than half of 30.
            (Sampling { temperature: 0.5, top_p: 0.5, ..base }, [0.0, 1.0, 0.0, 0.0]),
        ] {
            let found = frequencies(sampling);
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 0.01, "{sampling:?}: {found} {expected}");
            }
        }
    }

    #[test]
    fn numbers_depend_on_seed_sentence_sample_and_position() {
        let at = |seed, number, sample, place| uniform(seed, &Stream { number, sample }, place);
        let one = at(1, 2, 3, 4);
        assert_eq!(one, at(1, 2, 3, 4));
        for other in
            [at(0, 2, 3, 4), at(1, 0, 3, 4), at(1, 2, 0, 4), at(1, 2, 3, 0), at(1, 3, 2, 4)]
        {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn without_a_possible_token_nothing_is_sampled() {
        let sampling = Sampling { top_p: 0.5, ..Sampling::default() };
        assert_eq!(nucleus(&[f32::NEG_INFINITY; 3], &sampling), []);
        assert_eq!(sample(&[], &sampling, 0.5), None);
    }
}
