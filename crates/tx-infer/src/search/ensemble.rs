//! Ensembles: the mean of the probabilities of several models.

use tx_model::packed::log_softmax;

use super::{
    decoder::{IncrementalDecoder, NOT_FINITE, Next},
    scores::{best_of_row, suppress},
};

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

impl IncrementalDecoder for EnsembleDecoder<'_> {
    fn step(&mut self, tokens: &[u32], suppressed: &[u32], count: usize) -> Vec<Vec<Next>> {
        let mut log_probs = self.logits(tokens);
        let width = (log_probs.len() / tokens.len().max(1)).max(1);
        let rows = log_probs.chunks_exact_mut(width).map(|row| {
            if row.iter().any(|log_prob| log_prob.is_nan()) {
                return vec![NOT_FINITE];
            }
            suppress(row, suppressed);
            best_of_row(row, count)
        });
        rows.collect()
    }

    /// Returns log-probabilities, which are logits whose exponentials sum to 1.
    fn logits(&mut self, tokens: &[u32]) -> Vec<f32> {
        let rows = tokens.len().max(1);
        let starts = self.starts.take();
        let members = self.members.iter_mut().enumerate();
        let scores: Vec<Vec<f32>> = members
            .map(|(index, member)| match starts.and_then(|starts| starts.get(index)) {
                Some(&start) => member.logits(&vec![start; tokens.len()]),
                None => member.logits(tokens),
            })
            .collect();
        self.average_attention(tokens.len());
        // The vocabulary may be padded in one member and not in another.
        let width = scores.iter().map(|scores| scores.len() / rows).min().unwrap_or(0);
        let mut mean = vec![f32::NEG_INFINITY; rows * width];
        for mut scores in scores {
            let vocabulary = (scores.len() / rows).max(1);
            let rows = scores.chunks_exact_mut(vocabulary);
            for (mean, row) in mean.chunks_exact_mut(width.max(1)).zip(rows) {
                log_softmax(row);
                mean.iter_mut().zip(row).for_each(|(mean, x)| *mean = log_sum(*mean, *x));
            }
        }
        let log_count = (self.members.len() as f32).ln();
        mean.iter_mut().for_each(|x| *x -= log_count);
        mean
    }

    fn attention(&self, row: usize) -> &[f32] {
        self.attention.get(row).map_or(&[], Vec::as_slice)
    }

    fn select(&mut self, rows: &[usize]) {
        self.members.iter_mut().for_each(|member| member.select(rows));
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
