//! Minimum error rate training: Och (2003), "Minimum Error Rate Training in Statistical Machine
//! Translation".
//!
//! While one weight varies, the score of each hypothesis is a line, and the hypotheses that a sentence
//! can select are the upper envelope of its lines (section 5 there). The corpus-level metric is
//! constant between the points at which the envelopes of all sentences change, so one pass over these
//! points finds the exact optimum of the weight. Each iteration takes the weight with the best
//! optimum, until none improves the metric. The result is a local optimum; the best of several
//! starting points is taken.
//!
//! For `n` hypotheses in total, the optimum of one weight takes `O(n log n)` time.

use tx_eval::{Corpus, Metric, ScoreError, SegmentStatistics};
use tx_model::random::mix;

use super::{n_best_list::NBestList, weights::Weights};
use crate::error::InferError;

/// Smallest improvement of the metric, in percent, with which a search goes on.
const IMPROVEMENT: f64 = 1e-9;

/// Options of tuning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TuningOptions {
    /// Random starting points, in addition to the order of the search.
    pub restarts: usize,
    /// Seed of the starting points.
    pub seed: u64,
}

impl Default for TuningOptions {
    fn default() -> Self {
        Self { restarts: 20, seed: 0 }
    }
}

/// Finds the weights of all features of `list` with the best corpus-level score. The references are
/// lists of one line per sentence, as those of [`Corpus::new`].
///
/// The score is at least that of the order of the search. The sum of the absolute weights is 1.
///
/// # Errors
///
/// [`InferError::Rerank`] if the number of lines differs from that of the sentences, there is none, or
/// a setting of the metric is out of range.
pub fn tune(
    list: &NBestList,
    references: &[Vec<String>],
    metric: &dyn Metric,
    options: TuningOptions,
) -> Result<Weights, InferError> {
    if let Some(lines) = references.iter().map(Vec::len).find(|lines| *lines != list.len()) {
        let expected = list.len();
        let problem = format!("the n-best list has {expected} sentences, but a reference {lines}");
        return Err(InferError::Rerank { problem });
    }
    let names = list.feature_names();
    let invalid = |error: ScoreError| InferError::Rerank { problem: error.to_string() };
    let search = Search {
        features: names.iter().filter_map(|name| list.feature(name)).collect(),
        statistics: statistics(list, references, metric).map_err(invalid)?,
        list,
        metric,
    };
    let of_search: Vec<f64> = names
        .iter()
        .map(|name| Weights::of_search().weights.get(*name).copied().unwrap_or(0.0))
        .collect();
    let before = search.score(&of_search);
    let mut best = search.climb(of_search);
    let mut random = options.seed;
    for _ in 0..options.restarts {
        let start = search.random_weights(&mut random);
        let found = search.climb(start);
        if search.better(found.1, best.1) {
            best = found;
        }
    }
    let (weights, after) = best;
    let signature = metric.signature(Some(references.len()));
    Ok(Weights {
        metric: Some(format!("{}|{signature}", metric.name())),
        sentences: Some(list.len()),
        before: Some(before),
        after: Some(after),
        weights: names.iter().map(|name| (*name).to_owned()).zip(weights).collect(),
    })
}

/// Statistics of each hypothesis with the references of its sentence.
fn statistics(
    list: &NBestList,
    references: &[Vec<String>],
    metric: &dyn Metric,
) -> Result<SegmentStatistics, ScoreError> {
    let texts: Vec<&str> = list.entries().iter().map(|entry| &*entry.text).collect();
    let lines = |lines: &Vec<String>| list.sentence_of().map(|it| lines[it].clone()).collect();
    let references: Vec<Vec<String>> = references.iter().map(lines).collect();
    metric.statistics(&Corpus::new(&texts, &references)?)
}

/// Search for weights.
struct Search<'a> {
    list: &'a NBestList,
    /// Values of each feature.
    features: Vec<Vec<f64>>,
    statistics: SegmentStatistics,
    metric: &'a dyn Metric,
}

impl Search<'_> {
    fn better(&self, a: f64, b: f64) -> bool {
        let gain = if self.metric.higher_is_better() { a - b } else { b - a };
        gain > IMPROVEMENT
    }

    /// Score of each hypothesis without the feature `left_out`.
    fn sums(&self, weights: &[f64], left_out: Option<usize>) -> Vec<f64> {
        let mut sums = vec![0.0; self.list.entries().len()];
        for (feature, values) in self.features.iter().enumerate() {
            if Some(feature) != left_out {
                sums.iter_mut().zip(values).for_each(|(sum, x)| *sum += weights[feature] * x);
            }
        }
        sums
    }

    /// Corpus-level score of the hypotheses that the weights select, the first in a tie.
    fn score(&self, weights: &[f64]) -> f64 {
        let sums = self.sums(weights, None);
        let selected = self.list.sentences().iter().map(|sentence| {
            let better =
                |best: usize, next: usize| if sums[next] > sums[best] { next } else { best };
            sentence.clone().fold(sentence.start, better)
        });
        let rows: Vec<&[f64]> = self.statistics.lines().collect();
        let mut total = vec![0.0; rows.first().map_or(0, |row| row.len())];
        for index in selected {
            total.iter_mut().zip(rows[index]).for_each(|(sum, x)| *sum += x);
        }
        self.metric.formula(&total)
    }

    /// Returns a local optimum and its score.
    fn climb(&self, start: Vec<f64>) -> (Vec<f64>, f64) {
        let mut best = (normalized(&start), self.score(&start));
        loop {
            let current = best.clone();
            for feature in 0..self.features.len() {
                let mut weights = current.0.clone();
                weights[feature] = self.optimum(&current.0, feature);
                let weights = normalized(&weights);
                // The score as it will be computed, with its rounding.
                let score = self.score(&weights);
                if self.better(score, best.1) {
                    best = (weights, score);
                }
            }
            if !self.better(best.1, current.1) {
                return current;
            }
        }
    }

    /// Returns the value of one weight with the best score, if the others stay.
    fn optimum(&self, weights: &[f64], feature: usize) -> f64 {
        let sums = self.sums(weights, Some(feature));
        let slopes = &self.features[feature];
        let rows: Vec<&[f64]> = self.statistics.lines().collect();
        let mut total = vec![0.0; rows.first().map_or(0, |row| row.len())];
        // Weights at which a sentence selects another hypothesis, which replaces the one before.
        let mut changes: Vec<(f64, usize, usize)> = Vec::new();
        for sentence in self.list.sentences() {
            // The sum makes -0 to 0.
            let line = |index: usize| (slopes[index] + 0.0, sums[index], index);
            let lines = sentence.clone().map(line).collect();
            let envelope = upper_envelope(lines);
            if let Some(first) = envelope.first() {
                total.iter_mut().zip(rows[first.line]).for_each(|(sum, x)| *sum += x);
            }
            let pairs = envelope.windows(2);
            changes.extend(pairs.map(|pair| (pair[1].from, pair[0].line, pair[1].line)));
        }
        changes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (Some(first), Some(last)) = (changes.first(), changes.last()) else {
            return weights[feature];
        };
        let (first, last) = (first.0, last.0);
        let mut best = (self.metric.formula(&total), before(first));
        let mut changes = changes.into_iter().peekable();
        while let Some((at, old, new)) = changes.next() {
            for ((sum, old), new) in total.iter_mut().zip(rows[old]).zip(rows[new]) {
                *sum += new - old;
            }
            let end = match changes.peek() {
                Some((next, ..)) if *next <= at => continue,
                Some((next, ..)) => 0.5 * (at + next),
                None => after(last),
            };
            let score = self.metric.formula(&total);
            if self.better(score, best.0) {
                best = (score, end);
            }
        }
        best.1
    }

    /// Weights in `-1..1`, each divided by the standard deviation of its feature.
    fn random_weights(&self, random: &mut u64) -> Vec<f64> {
        let weights = self.features.iter().map(|values| {
            *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let uniform = (mix(*random) >> 11) as f64 / (1_u64 << 53) as f64;
            (2.0 * uniform - 1.0) / deviation(values)
        });
        weights.collect()
    }
}

/// Weight below all changes, of which `first` is the first one.
fn before(first: f64) -> f64 {
    first - first.abs().max(1.0)
}

/// Weight above all changes, of which `last` is the last one.
fn after(last: f64) -> f64 {
    last + last.abs().max(1.0)
}

/// Standard deviation; 1 for a constant feature.
fn deviation(values: &[f64]) -> f64 {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
    if variance > 0.0 && variance.is_finite() { variance.sqrt() } else { 1.0 }
}

/// Weights with absolute values that sum to 1, of the same order of hypotheses; all 0 stay.
fn normalized(weights: &[f64]) -> Vec<f64> {
    let total: f64 = weights.iter().map(|weight| weight.abs()).sum();
    let divisor = if total > 0.0 && total.is_finite() { total } else { 1.0 };
    weights.iter().map(|weight| weight / divisor).collect()
}

/// Part of an upper envelope.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Piece {
    /// Left end; -∞ for the first.
    from: f64,
    /// Index of the line.
    line: usize,
}

/// Upper envelope of lines `(slope, intercept, index)`, from left to right. Of equal lines, the one with
/// the smallest index is taken.
fn upper_envelope(mut lines: Vec<(f64, f64, usize)>) -> Vec<Piece> {
    lines.sort_by(|a, b| {
        a.0.total_cmp(&b.0).then_with(|| b.1.total_cmp(&a.1)).then_with(|| a.2.cmp(&b.2))
    });
    // Parallel lines below another one.
    lines.dedup_by(|next, first| next.0 == first.0);
    let mut envelope: Vec<(Piece, f64, f64)> = Vec::new();
    for (slope, intercept, line) in lines {
        let mut from = f64::NEG_INFINITY;
        while let Some((last, other_slope, other_intercept)) = envelope.last() {
            from = (other_intercept - intercept) / (slope - other_slope);
            if from > last.from {
                break;
            }
            envelope.pop();
            from = f64::NEG_INFINITY;
        }
        envelope.push((Piece { from, line }, slope, intercept));
    }
    envelope.into_iter().map(|(piece, ..)| piece).collect()
}

#[cfg(test)]
mod tests;
