//! Distribution of sentence lengths.

use serde::Serialize;

/// Number of bins of a histogram, and width of its longest bar.
const BINS: usize = 12;
const BAR: usize = 40;

/// Distribution of sentence lengths, in tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lengths {
    /// Mean length.
    pub mean: f64,
    /// Median length.
    pub median: usize,
    /// 99th percentile.
    pub percentile_99: usize,
    /// Maximum length.
    pub longest: usize,
    /// Width of a bin of the histogram.
    pub bin_width: usize,
    /// Number of sentences in each bin; the last bin includes all longer ones.
    pub histogram: Vec<usize>,
    /// Number of sentences of each length that occurs, the shortest first.
    #[serde(skip)]
    counts: Vec<(usize, usize)>,
}

impl Lengths {
    /// Computes the distribution of `lengths`.
    pub fn of(mut lengths: Vec<usize>) -> Self {
        lengths.sort_unstable();
        let count = lengths.len();
        let quantile = |fraction: f64| {
            let rank = (count as f64 * fraction).ceil() as usize;
            lengths.get(rank.saturating_sub(1)).copied().unwrap_or(0)
        };
        let percentile_99 = quantile(0.99);
        let bin_width = percentile_99.div_ceil(BINS - 1).max(1);
        let mut histogram = vec![0; BINS];
        for length in &lengths {
            histogram[(length / bin_width).min(BINS - 1)] += 1;
        }
        Self {
            mean: lengths.iter().sum::<usize>() as f64 / count.max(1) as f64,
            median: quantile(0.5),
            percentile_99,
            longest: lengths.last().copied().unwrap_or(0),
            bin_width,
            histogram,
            counts: lengths.chunk_by(|a, b| a == b).map(|same| (same[0], same.len())).collect(),
        }
    }

    /// Draws the histogram with bars, a line for each bin.
    pub(super) fn bars(&self) -> String {
        let Self { bin_width, histogram, longest, .. } = self;
        let most = histogram.iter().copied().max().unwrap_or(0).max(1);
        let mut text = String::new();
        for (bin, &count) in histogram.iter().enumerate() {
            let first = bin * bin_width;
            let last = if bin + 1 == BINS { (*longest).max(first) } else { first + bin_width - 1 };
            let bar = "█".repeat((count * BAR).div_ceil(most));
            text += &format!("  {:>11}  {count:>9}  {bar}\n", format!("{first}–{last}"));
        }
        text
    }

    /// Kolmogorov-Smirnov distance of two distributions: the largest difference of the shares of sentences that
    /// are not longer than some length, from 0 to 1.
    pub fn distance(&self, other: &Self) -> f64 {
        let (mut a, mut b) = (&self.counts[..], &other.counts[..]);
        let all = |counts: &[(usize, usize)]| {
            counts.iter().map(|count| count.1).sum::<usize>().max(1) as f64
        };
        let totals = [all(a), all(b)];
        let (mut shares, mut distance) = ([0.0; 2], 0.0_f64);
        while let Some(length) = [a, b].iter().filter_map(|counts| Some(counts.first()?.0)).min() {
            for ((counts, share), total) in
                [&mut a, &mut b].into_iter().zip(&mut shares).zip(totals)
            {
                if let [(found, count), rest @ ..] = counts
                    && *found == length
                {
                    *share += *count as f64 / total;
                    *counts = rest;
                }
            }
            distance = distance.max((shares[0] - shares[1]).abs());
        }
        distance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 sentences: 1 to 99 tokens and one of 500. 99 % have at most 99 tokens. Bins are ⌈99/11⌉
    /// = 9 wide; the first has no length of 0, and the last starts at 99.
    #[test]
    fn lengths_equal_those_computed_by_hand() {
        let lengths = Lengths::of((1..100).chain([500]).collect());
        assert_eq!((lengths.median, lengths.percentile_99, lengths.longest), (50, 99, 500));
        assert_eq!(lengths.mean, (99.0 * 50.0 + 500.0) / 100.0);
        assert_eq!(lengths.bin_width, 9);
        assert_eq!(lengths.histogram, [8, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 2]);
        let text = lengths.bars();
        assert_eq!(
            text.lines().next(),
            Some(&*format!("  {:>11}  {:>9}  {}", "0–8", 8, "█".repeat(36)))
        );
        assert!(text.ends_with(&format!("  {:>11}  {:>9}  {}\n", "99–500", 2, "█".repeat(9))));
    }

    #[test]
    fn no_sentences_have_no_lengths() {
        let lengths = Lengths::of(Vec::new());
        assert_eq!((lengths.mean, lengths.longest, lengths.bin_width), (0.0, 0, 1));
    }

    /// Shares of sentences up to 1, 2, 3 and 9 tokens: ½, 1, 1, 1 and 0, ¼, ½, 1.
    #[test]
    fn distances_equal_those_computed_by_hand() {
        let [a, b] = [vec![2, 1, 1, 2], vec![9, 3, 2, 9]].map(Lengths::of);
        assert_eq!((a.distance(&b), b.distance(&a)), (0.75, 0.75));
        assert_eq!(a.distance(&a), 0.0);
        assert_eq!(a.distance(&Lengths::of(vec![7])), 1.0);
        assert_eq!(Lengths::of(Vec::new()).distance(&a), 1.0);
    }
}
