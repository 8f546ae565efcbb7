//! The likeliest tokens of a row of scores, with their log-probabilities, as the scores come in.

use crate::kernels::simd;

/// Scores looked at together: most of the time, none of them is among the best.
const CHUNK: usize = 64;

/// The best of the scores seen so far, and the sum of all.
///
/// `log softmax(x)_i = x_i - max - ln Σ e^(x_j - max)`; maximum and sum are brought up to date with
/// every block of scores (Milakov and Gimelshein 2018).
#[derive(Debug)]
pub(super) struct TopTokens {
    count: usize,
    /// Best first; among equals the earlier token.
    best: Vec<(u32, f32)>,
    max: f32,
    /// `Σ e^(x - max)`
    sum: f64,
}

impl TopTokens {
    /// Keeps the best `count`.
    pub(super) fn new(count: usize) -> Self {
        Self { count, best: Vec::new(), max: f32::NEG_INFINITY, sum: 0.0 }
    }

    /// Takes in the scores of the tokens `first..`. Those of `never` count in the sum, but are not
    /// listed; they are overwritten.
    #[inline(always)]
    pub(super) fn extend(&mut self, first: usize, scores: &mut [f32], never: &[u32]) {
        let block_max = simd::max(scores);
        if block_max > self.max {
            self.sum *= f64::from(simd::exp(self.max - block_max));
            self.max = block_max;
        }
        let max = self.max;
        self.sum += f64::from(simd::sum_of(scores, |x| simd::exp(x - max)));

        for &token in never {
            if let Some(score) =
                (token as usize).checked_sub(first).and_then(|at| scores.get_mut(at))
            {
                *score = f32::NEG_INFINITY;
            }
        }
        if block_max > self.bar() {
            for (chunk, scores) in scores.chunks(CHUNK).enumerate() {
                let bar = self.bar();
                if scores.iter().fold(false, |any, &score| any | (score > bar)) {
                    self.insert(first + chunk * CHUNK, scores);
                }
            }
        }
    }

    /// What a score must beat to be listed.
    #[inline(always)]
    fn bar(&self) -> f32 {
        if self.best.len() < self.count {
            return f32::NEG_INFINITY;
        }
        self.best.last().map_or(f32::INFINITY, |(_, score)| *score)
    }

    #[inline(never)]
    fn insert(&mut self, first: usize, scores: &[f32]) {
        for (place, &score) in scores.iter().enumerate() {
            if score > self.bar() {
                let rank = self.best.partition_point(|(_, other)| *other >= score);
                self.best.truncate(self.count - 1);
                self.best.insert(rank, ((first + place) as u32, score));
            }
        }
    }

    /// The listed tokens with their log-probabilities, best first.
    pub(super) fn finish(mut self) -> Vec<(u32, f32)> {
        let log_sum = self.sum.ln();
        for (_, score) in &mut self.best {
            *score = (f64::from(*score - self.max) - log_sum) as f32;
        }
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn top(scores: &[f32], count: usize, never: &[u32], block: usize) -> Vec<(u32, f32)> {
        let mut top = TopTokens::new(count);
        for (index, scores) in scores.chunks(block).enumerate() {
            top.extend(index * block, &mut scores.to_vec(), never);
        }
        top.finish()
    }

    /// Scores ln 1, ln 4, ln 2, ln 1, ln 2: probabilities 1/10, 4/10, 2/10, 1/10, 2/10.
    #[test]
    fn the_best_come_first_and_ties_go_to_the_earlier() {
        let scores = [1.0_f32, 4.0, 2.0, 1.0, 2.0].map(f32::ln);
        for block in [1, 2, 5] {
            for (count, never, expected) in [
                (9, &[][..], &[(1, 0.4), (2, 0.2), (4, 0.2), (0, 0.1), (3, 0.1)][..]),
                (2, &[], &[(1, 0.4), (2, 0.2)]),
                (1, &[], &[(1, 0.4)]),
                (2, &[1, 0], &[(2, 0.2), (4, 0.2)]),
                (3, &[0, 1, 2, 3, 4], &[]),
            ] {
                let found = top(&scores, count, never, block);
                let tokens = |list: &[(u32, f32)]| list.iter().map(|(t, _)| *t).collect::<Vec<_>>();
                assert_eq!(tokens(&found), tokens(expected), "{count} of blocks of {block}");
                for ((_, found), (_, expected)) in found.iter().zip(expected) {
                    assert!((found.exp() - expected).abs() < 1e-6, "{found} {expected}");
                }
            }
        }
    }

    /// Against sorting all of them.
    #[test]
    fn many_scores_in_blocks_are_ranked_as_by_sorting() {
        let scores: Vec<f32> =
            (0..1000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 20) as f32 / 512.0).collect();
        let mut sorted: Vec<u32> = (0..1000).collect();
        sorted.sort_by(|&a, &b| scores[b as usize].total_cmp(&scores[a as usize]));
        for block in [33, 64, 250, 1000] {
            let found: Vec<u32> = top(&scores, 20, &[], block).iter().map(|(t, _)| *t).collect();
            assert_eq!(found, sorted[..20]);
        }
    }
}
