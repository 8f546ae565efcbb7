//! Ensembles: the mean of the probabilities of several models.

use rayon::prelude::*;
use tx_kernels::formulas::{add_softmax, log_softmax};

use super::{
    decoder::{IncrementalDecoder, NOT_FINITE, Next},
    scores::{best_of_row, suppress},
};
use crate::error::InferError;

/// Decoders of the same sources, over one vocabulary; at least one.
pub(super) struct EnsembleDecoder<'a> {
    members: Vec<Box<dyn IncrementalDecoder + 'a>>,
    /// First input of each member, before the first step.
    starts: Option<&'a [u32]>,
    /// Attention of each row, averaged over the members.
    attention: Vec<Vec<f32>>,
}

impl<'a> EnsembleDecoder<'a> {
    /// Combines decoders. In the first step, each reads its own of `starts` instead of the given
    /// tokens.
    pub(super) fn new(members: Vec<Box<dyn IncrementalDecoder + 'a>>, starts: &'a [u32]) -> Self {
        Self { members, starts: Some(starts), attention: Vec::new() }
    }

    fn average_attention(&mut self, rows: usize) {
        let fraction = 1.0 / self.members.len() as f32;
        let mean = |row: usize| {
            let mut mean: Vec<f32> = Vec::new();
            for weights in self.members.iter().map(|member| member.attention(row)) {
                mean.resize(weights.len(), 0.0);
                mean.iter_mut().zip(weights).for_each(|(mean, weight)| *mean += fraction * weight);
            }
            mean
        };
        self.attention = (0..rows).map(mean).collect();
    }
}

impl EnsembleDecoder<'_> {
    /// Appends a token to each row of each member, and returns the logits of the next tokens.
    fn member_logits(&mut self, tokens: &[u32]) -> MemberLogits {
        let starts = self.starts.take();
        let members = self.members.iter_mut().enumerate();
        let logits: Vec<Vec<f32>> = members
            .map(|(index, member)| match starts.and_then(|starts| starts.get(index)) {
                Some(&start) => member.logits(&vec![start; tokens.len()]),
                None => member.logits(tokens),
            })
            .collect();
        self.average_attention(tokens.len());
        let rows = tokens.len().max(1);
        let width = logits.iter().map(|logits| logits.len() / rows).min().unwrap_or(0);
        MemberLogits { logits, rows, width }
    }
}

/// Logits of all next tokens.
struct MemberLogits {
    /// Those of each member, `[R, V]`. The vocabulary may be padded in one member and not in another.
    logits: Vec<Vec<f32>>,
    /// `R`, at least 1.
    rows: usize,
    /// Smallest `V`.
    width: usize,
}

impl MemberLogits {
    /// Returns the logits of a row of each member.
    fn of_row(&self, row: usize) -> impl Iterator<Item = &[f32]> {
        self.logits.iter().map(move |logits| {
            let width = logits.len() / self.rows;
            &logits[row * width..][..width]
        })
    }

    /// Returns the mean probabilities of a row, `[V]`; 0 for a token whose logit is far below the largest
    /// in each member.
    fn probabilities(&self, row: usize) -> Vec<f32> {
        let fraction = 1.0 / self.logits.len() as f32;
        let mut mean = vec![0.0; self.logits.iter().map(Vec::len).max().unwrap_or(0) / self.rows];
        for logits in self.of_row(row) {
            add_softmax(logits, fraction, &mut mean[..logits.len()]);
        }
        mean.truncate(self.width);
        mean
    }

    /// Writes the logarithms of the mean probabilities of a row, of any magnitude, to `mean`, `[V]`.
    fn log_probabilities(&self, row: usize, mean: &mut [f32]) {
        mean.fill(f32::NEG_INFINITY);
        for logits in self.of_row(row) {
            let mut log_probs = logits.to_vec();
            log_softmax(&mut log_probs);
            mean.iter_mut().zip(log_probs).for_each(|(mean, x)| *mean = log_sum(*mean, x));
        }
        let log_count = (self.logits.len() as f32).ln();
        mean.iter_mut().for_each(|x| *x -= log_count);
    }
}

impl IncrementalDecoder for EnsembleDecoder<'_> {
    fn step(&mut self, tokens: &[u32], suppressed: &[u32], count: usize) -> Vec<Vec<Next>> {
        let logits = self.member_logits(tokens);
        let best = |row| {
            // The order of the probabilities is that of their logarithms, which few tokens need.
            let mut probabilities = logits.probabilities(row);
            if probabilities.iter().any(|probability| probability.is_nan()) {
                return vec![NOT_FINITE];
            }
            suppress(&mut probabilities, suppressed);
            let mut best = best_of_row(&probabilities, count);
            if best.len() < count || best.iter().any(|(_, probability)| *probability == 0.0) {
                // Some are impossible or too small to be represented.
                logits.log_probabilities(row, &mut probabilities);
                suppress(&mut probabilities, suppressed);
                return best_of_row(&probabilities, count);
            }
            best.iter_mut().for_each(|(_, probability)| *probability = probability.ln());
            best
        };
        (0..tokens.len()).into_par_iter().map(best).collect()
    }

    /// Returns log-probabilities, which are logits whose exponentials sum to 1.
    fn logits(&mut self, tokens: &[u32]) -> Vec<f32> {
        let logits = self.member_logits(tokens);
        let mut mean = vec![0.0; logits.rows * logits.width];
        let rows = mean.par_chunks_exact_mut(logits.width.max(1)).enumerate();
        rows.for_each(|(row, mean)| logits.log_probabilities(row, mean));
        mean
    }

    fn attention(&self, row: usize) -> &[f32] {
        self.attention.get(row).map_or(&[], Vec::as_slice)
    }

    fn select(&mut self, rows: &[usize]) {
        self.members.iter_mut().for_each(|member| member.select(rows));
    }

    fn not_finite(&self, line: u64) -> InferError {
        let of_members = self.members.iter().map(|member| member.not_finite(line));
        let failed = |error: &InferError| matches!(error, InferError::DeviceFailed { .. });
        let mut of_members = of_members.filter(failed);
        of_members.next().unwrap_or(InferError::NotFinite { line })
    }
}

/// `ln (e^a + e^b)`
fn log_sum(a: f32, b: f32) -> f32 {
    let (large, small) = if a > b { (a, b) } else { (b, a) };
    if small == f32::NEG_INFINITY { large } else { large + (small - large).exp().ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decoder with the same scores and attention in every step.
    struct Fixed(Vec<f32>, Vec<f32>);

    impl IncrementalDecoder for Fixed {
        fn step(&mut self, _: &[u32], _: &[u32], _: usize) -> Vec<Vec<Next>> {
            Vec::new()
        }

        fn logits(&mut self, _: &[u32]) -> Vec<f32> {
            self.0.clone()
        }

        fn attention(&self, _: usize) -> &[f32] {
            &self.1
        }

        fn select(&mut self, _: &[usize]) {}
    }

    /// Probabilities 1/8, 3/8, 4/8 and 3/4, 1/4, 0 (and a padded one): the mean is 7/16, 5/16,
    /// 4/16.
    #[test]
    fn probabilities_are_the_mean_of_the_members() {
        let first = [1.0_f32, 3.0, 4.0].map(f32::ln).to_vec();
        let second = [6.0_f32, 2.0, 0.0, 0.0].map(f32::ln).to_vec();
        let members: Vec<Box<dyn IncrementalDecoder>> =
            vec![Box::new(Fixed(first, vec![1.0, 0.0])), Box::new(Fixed(second, vec![0.5, 0.5]))];
        let mut both = EnsembleDecoder::new(members, &[1, 1]);
        let found = both.logits(&[9]);
        assert_eq!(found.len(), 3);
        for (found, expected) in found.iter().zip([7.0, 5.0, 4.0]) {
            assert!((found.exp() - expected / 16.0).abs() < 1e-6, "{found}");
        }
        assert_eq!(both.attention(0), [0.75, 0.25]);
        let best = both.step(&[9], &[0], 5);
        assert_eq!(best[0].iter().map(|(token, _)| *token).collect::<Vec<_>>(), [1, 2]);
        for ((_, found), expected) in best[0].iter().zip([5.0, 4.0]) {
            assert!((found.exp() - expected / 16.0).abs() < 1e-6, "{found}");
        }
    }

    /// Token 0 is impossible in both members. Token 1, with probability e⁻²⁰⁰ and 0, is possible, but its
    /// probability is not representable.
    #[test]
    fn impossible_tokens_are_no_hypotheses() {
        let impossible = f32::NEG_INFINITY;
        let members: Vec<Box<dyn IncrementalDecoder>> = vec![
            Box::new(Fixed(vec![impossible, -200.0, 0.0], Vec::new())),
            Box::new(Fixed(vec![impossible, impossible, 0.0], Vec::new())),
        ];
        let mut both = EnsembleDecoder::new(members, &[]);
        let small = -200.0 - 2.0_f32.ln();
        for count in [2, 5] {
            let [(2, 0.0), (1, found)] = both.step(&[9], &[], count)[0][..] else {
                panic!("token 2, then token 1");
            };
            assert!((found - small).abs() < 1e-4, "{found}");
        }
        let found = both.logits(&[9]);
        assert_eq!((found[0], found[2]), (impossible, 0.0));
        assert!((found[1] - small).abs() < 1e-4, "{}", found[1]);
    }

    #[test]
    fn a_member_that_is_not_finite_spoils_its_row_only() {
        let members: Vec<Box<dyn IncrementalDecoder>> = vec![
            Box::new(Fixed(vec![0.0, 0.0, f32::NAN, 0.0], Vec::new())),
            Box::new(Fixed(vec![0.0; 4], Vec::new())),
        ];
        let best = EnsembleDecoder::new(members, &[]).step(&[9, 9], &[], 1);
        assert_eq!(best[0][0].0, 0);
        assert!(best[1][0].1.is_nan(), "{best:?}");
    }

    /// Decoder with probability 1 for the token that it has read.
    struct Echo;

    impl IncrementalDecoder for Echo {
        fn step(&mut self, _: &[u32], _: &[u32], _: usize) -> Vec<Vec<Next>> {
            Vec::new()
        }

        fn logits(&mut self, tokens: &[u32]) -> Vec<f32> {
            let row = |&token: &u32| (0..4).map(move |id| if id == token { 0.0 } else { -1e9 });
            tokens.iter().flat_map(row).collect()
        }

        fn attention(&self, _: usize) -> &[f32] {
            &[]
        }

        fn select(&mut self, _: &[usize]) {}
    }

    #[test]
    fn each_member_reads_its_own_start() {
        let members: Vec<Box<dyn IncrementalDecoder>> = vec![Box::new(Echo), Box::new(Echo)];
        let mut both = EnsembleDecoder::new(members, &[0, 2]);
        let mut likely = |token| {
            let found = both.logits(&[token; 2]);
            let likely = (0..8).filter(|&index| found[index] > -1.0);
            likely.collect::<Vec<_>>()
        };
        // The ids 0 and 2 of both rows, then the id 3.
        assert_eq!((likely(0), likely(3)), (vec![0, 2, 4, 6], vec![3, 7]));
    }
}
