//! Drawing tokens at random, in a way that depends on nothing but the seed and the sentence.

use super::{
    decoder::Next,
    job::{Job, Row},
    options::Sampling,
};
use crate::error::InferError;

/// Whose numbers are drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    /// Number of the sentence.
    pub(super) number: u64,
    /// Which of its samples.
    pub(super) sample: u64,
}

/// Adds a token to each row and draws the next ones, with the model's log-probabilities; none where
/// nothing can be said.
pub(super) fn next<'r>(
    job: &mut Job<'_>,
    sampling: &Sampling,
    streams: &[Stream],
    tokens: &[u32],
    len: usize,
    row: impl Fn(usize) -> Row<'r>,
) -> Result<Vec<Option<Next>>, InferError> {
    let candidates: Vec<Vec<Next>> = if sampling.top_k > 0 {
        job.next(tokens, len, sampling.top_k, row)?
    } else {
        let all = job.log_probs(tokens, len, row)?;
        let rows = all.chunks_exact((all.len() / tokens.len().max(1)).max(1));
        rows.map(|row| nucleus(row, sampling)).collect()
    };
    let at = |stream: &Stream| uniform(sampling.seed, stream, len as u64);
    let drawn = candidates.iter().zip(streams);
    Ok(drawn.map(|(row, stream)| draw(row, sampling, at(stream))).collect())
}

/// The tokens that are possible; where only the likeliest count, those best first.
fn nucleus(log_probs: &[f32], sampling: &Sampling) -> Vec<Next> {
    let max = log_probs.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let possible = (0..).zip(log_probs.iter().copied()).filter(|(_, x)| x.is_finite());
    if sampling.top_p == 1.0 {
        return possible.collect();
    }
    // Tokens below this weight have less than 1 - p of the whole weight together, as the whole is
    // at least 1: they need not be sorted.
    let least = (1.0 - f64::from(sampling.top_p)) / log_probs.len() as f64;
    let weight = |x: f32| f64::from((x - max) / sampling.temperature).exp();
    let mut likely: Vec<Next> = possible.filter(|(_, x)| weight(*x) >= least).collect();
    likely.sort_by(|a, b| b.1.total_cmp(&a.1));
    // What was left out counts in the whole.
    let whole: f64 = log_probs.iter().map(|&x| weight(x)).sum();
    keep_top_p(&mut likely, weight, f64::from(sampling.top_p) * whole);
    likely
}

/// Shortens `candidates`, best first, to the fewest whose weights reach `least`.
fn keep_top_p(candidates: &mut Vec<Next>, weight: impl Fn(f32) -> f64, least: f64) {
    let mut sum = 0.0;
    let kept = candidates.iter().take_while(|(_, x)| {
        let goes_on = sum < least;
        sum += weight(*x);
        goes_on
    });
    let kept = kept.count();
    candidates.truncate(kept);
}

/// One of `candidates`, each as often as its probability to the power `1 / T` says; `u` is from
/// 0 to 1, 1 excluded.
fn draw(candidates: &[Next], sampling: &Sampling, u: f64) -> Option<Next> {
    let max = candidates.iter().map(|(_, x)| *x).fold(f32::NEG_INFINITY, f32::max);
    let weight = |x: f32| f64::from((x - max) / sampling.temperature).exp();
    let mut candidates = candidates.to_vec();
    if sampling.top_k > 0 && sampling.top_p < 1.0 {
        let whole: f64 = candidates.iter().map(|(_, x)| weight(*x)).sum();
        keep_top_p(&mut candidates, weight, f64::from(sampling.top_p) * whole);
    }
    let whole: f64 = candidates.iter().map(|(_, x)| weight(*x)).sum();
    let mut left = u * whole;
    let drawn = candidates.iter().find(|(_, x)| {
        left -= weight(*x);
        left < 0.0
    });
    drawn.or(candidates.last()).copied()
}

/// A number from 0 to 1, 1 excluded, for each place of each stream.
fn uniform(seed: u64, stream: &Stream, place: u64) -> f64 {
    let bits =
        [stream.number, stream.sample, place].iter().fold(mix(seed), |x, y| mix(x ^ mix(*y)));
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// One step of SplitMix64 (Steele et al. 2014).
fn mix(x: u64) -> u64 {
    let z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each of four tokens comes in 40,000 draws. Their probabilities are 1/10, 4/10,
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
            let (token, log_prob) = draw(&candidates, &sampling, u).unwrap();
            assert_eq!(log_prob, log_probs[token as usize]);
            counts[token as usize] += 1.0 / 40_000.0;
        }
        counts
    }

    /// Within four standard deviations: 4 √(1/4 / 40,000) = 0.01.
    #[test]
    fn tokens_come_as_often_as_they_should() {
        let base = Sampling::default();
        for (sampling, expected) in [
            (base, [0.1, 0.4, 0.2, 0.3]),
            (Sampling { seed: 9, ..base }, [0.1, 0.4, 0.2, 0.3]),
            // Squares 1, 16, 4, 9 of 30.
            (Sampling { temperature: 0.5, ..base }, [1.0, 16.0, 4.0, 9.0].map(|x| x / 30.0)),
            (Sampling { top_k: 1, ..base }, [0.0, 1.0, 0.0, 0.0]),
            (Sampling { top_k: 2, ..base }, [0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0]),
            // 0.4 + 0.3 is short of 0.75 and 0.4 of 0.6.
            (Sampling { top_p: 0.75, ..base }, [0.0, 4.0 / 9.0, 2.0 / 9.0, 3.0 / 9.0]),
            (Sampling { top_p: 0.6, ..base }, [0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0]),
            (Sampling { top_p: 0.1, ..base }, [0.0, 1.0, 0.0, 0.0]),
            // Of 4 + 3 + 2, 4 is short of a half.
            (Sampling { top_k: 3, top_p: 0.5, ..base }, [0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0]),
            // Squares: 16 of 30 are enough for a half.
            (Sampling { temperature: 0.5, top_p: 0.5, ..base }, [0.0, 1.0, 0.0, 0.0]),
        ] {
            let found = frequencies(sampling);
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 0.01, "{sampling:?}: {found} {expected}");
            }
        }
    }

    #[test]
    fn numbers_depend_on_seed_sentence_sample_and_place() {
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
    fn where_nothing_is_possible_nothing_is_drawn() {
        let sampling = Sampling { top_p: 0.5, ..Sampling::default() };
        assert_eq!(nucleus(&[f32::NEG_INFINITY; 3], &sampling), []);
        assert_eq!(draw(&[], &sampling, 0.5), None);
    }
}
