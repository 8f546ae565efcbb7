//! Minimum Bayes risk decoding: the candidate with the largest expected utility.
//!
//! ```text
//! ŷ = argmax_{h ∈ H} Σ_{r ∈ R} P(r | x) u(h, r)
//! ```
//!
//! `H` are the candidates, `R` the pseudo-references and `u` the utility, a sentence-level metric.
//!
//! - Kumar & Byrne (2004), "Minimum Bayes-Risk Decoding for Statistical Machine Translation": `H` and
//!   `R` are an n-best list, and `P ∝ exp(α s(r))`, normalized over the list, where `s` is the score by
//!   which the search ranks hypotheses, as `-mbr-scale` of Moses. The gain `u` replaces their loss.
//!   Without length normalization, `s` is the log-probability, of which a small `α` is needed: the
//!   probability itself favors short texts.
//! - Eikema & Aziz (2020), "Is MAP Decoding All You Need? The Inadequacy of the Mode in Neural Machine
//!   Translation": `R` are samples of the model, so the mean utility over them is an unbiased estimate
//!   of the expected utility. `H` are the same samples, or an n-best list (Eikema & Aziz 2022).
//!
//! The n-grams of each distinct text are counted once. For `h` distinct candidates and `r` distinct
//! pseudo-references of `n` n-grams, the time is `O((h + r) n + h r n)`: one addition for each n-gram
//! of each pair. Candidates are distributed over threads.

use std::{cmp::Ordering, collections::BTreeMap};

use rayon::prelude::*;
use tx_eval::{NgramMetric, ScoreError};

use crate::{
    error::InferError,
    search::{Sampling, SearchOptions},
    translator::translation::Scored,
};

/// Minimum number of pairs for which threads share the work of one sentence.
const PAIRS_PER_TASK: usize = 4_096;

/// Default of [`PseudoReferences::Candidates`], for scores normalized by length.
pub const DEFAULT_SCALE: f32 = 10.0;

/// Options of minimum Bayes risk decoding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mbr {
    /// Utility: a sentence-level metric, whose second argument is the pseudo-reference.
    pub utility: NgramMetric,
    /// Pseudo-references, and their probabilities.
    pub references: PseudoReferences,
    /// Hypotheses returned per sentence, best first.
    pub n_best: usize,
}

/// Texts that stand for the unknown reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PseudoReferences {
    /// The candidates. Those of beam search have probabilities in proportion to `exp(α s)`, with their
    /// [score](crate::Hypothesis::score) `s`. Samples have the same probability each.
    Candidates {
        /// `α`, at least 0; 0 gives all candidates the same probability.
        scale: f32,
    },
    /// Samples of the model, of the same probability each.
    Samples(Sampling),
}

impl Mbr {
    /// Returns all problems of the options with those of the search; empty if they are valid.
    pub(crate) fn problems(&self, search: &SearchOptions) -> Vec<String> {
        let mut problems = Vec::new();
        if let Err(error) = self.utility.check() {
            problems.push(error.to_string());
        }
        let candidates = search.sampling.map_or(search.n_best, |sampling| sampling.samples);
        if self.n_best == 0 || self.n_best > candidates.max(1) {
            problems.push(format!(
                "`n_best` = {} must be at least 1 and at most the number of candidates, {candidates}",
                self.n_best
            ));
        }
        match self.references {
            PseudoReferences::Candidates { scale } => {
                if !(scale >= 0.0 && scale.is_finite()) {
                    problems.push(format!("`scale` = {scale} must be at least 0"));
                }
            }
            PseudoReferences::Samples(_) => {
                if let Some(sampled) = self.reference_search(search) {
                    problems.extend(sampled.problems());
                }
            }
        }
        problems
    }

    /// Returns the options of the search for pseudo-references, if that is another search than the one
    /// for candidates.
    pub(crate) fn reference_search(&self, search: &SearchOptions) -> Option<SearchOptions> {
        match self.references {
            PseudoReferences::Candidates { .. } => None,
            PseudoReferences::Samples(sampling) => Some(SearchOptions {
                sampling: Some(sampling),
                ..search.clone().with_one_hypothesis()
            }),
        }
    }

    /// Returns the maximum number of rows of a sentence in a batch.
    pub(crate) fn rows(&self, search: &SearchOptions) -> usize {
        self.reference_search(search).map_or(0, |sampled| sampled.rows()).max(search.rows())
    }

    /// Selects the best of `candidates`, which were found with `search`: merges those with the same
    /// text, sets [`Scored::expected_utility`], and sorts by it. `samples` are the texts of
    /// [`PseudoReferences::Samples`].
    ///
    /// Candidates of the same expected utility are in the order of their score, then of their text, so
    /// the result does not depend on the order of the candidates.
    ///
    /// # Errors
    ///
    /// [`InferError::Search`] if a setting of the utility is out of range.
    pub(crate) fn select(
        &self,
        candidates: Vec<Scored>,
        samples: &[String],
        search: &SearchOptions,
    ) -> Result<Vec<Scored>, InferError> {
        let references: Vec<(&str, f64)> = match self.references {
            PseudoReferences::Samples(_) => samples.iter().map(|text| (&**text, 1.0)).collect(),
            PseudoReferences::Candidates { scale } => {
                let scale = if search.sampling.is_some() { 0.0 } else { f64::from(scale) };
                let log = |it: &Scored| scale * f64::from(it.hypothesis.score);
                let max = candidates.iter().map(log).fold(f64::NEG_INFINITY, f64::max);
                candidates.iter().map(|it| (&*it.text, (log(it) - max).exp())).collect()
            }
        };
        let mut distinct: BTreeMap<&str, &Scored> = BTreeMap::new();
        for candidate in &candidates {
            let best = distinct.entry(&candidate.text).or_insert(candidate);
            if by_score(candidate, best).is_lt() {
                *best = candidate;
            }
        }
        let texts: Vec<&str> = distinct.keys().copied().collect();
        let utilities = expected_utilities(&self.utility, &texts, &references)
            .map_err(|error| InferError::Search { problems: vec![error.to_string()] })?;
        let mut selected: Vec<Scored> = distinct
            .into_values()
            .zip(utilities)
            .map(|(scored, utility)| Scored { expected_utility: Some(utility), ..scored.clone() })
            .collect();
        let utility = |it: &Scored| it.expected_utility.unwrap_or_default();
        selected.sort_by(|a, b| utility(b).total_cmp(&utility(a)).then_with(|| by_score(a, b)));
        selected.truncate(self.n_best);
        Ok(selected)
    }
}

/// Order of hypotheses: the larger score first, then by text and ids.
fn by_score(a: &Scored, b: &Scored) -> Ordering {
    let (x, y) = (&a.hypothesis, &b.hypothesis);
    y.score.total_cmp(&x.score).then_with(|| (&a.text, &x.ids).cmp(&(&b.text, &y.ids)))
}

/// Returns the expected utility, in percent, of each candidate: `Σ_r w_r u(h, r) / Σ_r w_r` for
/// references with weights of at least 0; 0 without references. The numbers do not depend on the order
/// of the candidates or of the references.
///
/// ```
/// use tx_eval::{Chrf, NgramMetric};
/// use tx_infer::mbr::expected_utilities;
///
/// let chrf = NgramMetric::from(Chrf::default());
/// let found = expected_utilities(&chrf, &["a b", "c"], &[("a b", 3.0), ("c", 1.0)])?;
/// assert_eq!(found, [75.0, 25.0]);
/// # Ok::<(), tx_eval::ScoreError>(())
/// ```
///
/// # Errors
///
/// If a setting of the metric is out of range.
pub fn expected_utilities(
    utility: &NgramMetric,
    candidates: &[&str],
    references: &[(&str, f64)],
) -> Result<Vec<f64>, ScoreError> {
    let mut weights: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for &(text, weight) in references {
        weights.entry(text).or_default().push(weight);
    }
    // Sums in the order of the texts and of the weights, on which rounding depends.
    let (mut sentences, mut weight_of) = (Vec::new(), Vec::new());
    for (text, mut weights) in weights {
        weights.sort_by(f64::total_cmp);
        sentences.push(text);
        weight_of.push(weights.iter().sum::<f64>());
    }
    let total: f64 = weight_of.iter().sum();
    let indices: Vec<usize> = (0..sentences.len()).collect();
    let mut of_candidate = Vec::with_capacity(candidates.len());
    for text in candidates {
        of_candidate.push(sentences[..indices.len()].binary_search(text).unwrap_or_else(|_| {
            sentences.push(text);
            sentences.len() - 1
        }));
    }
    let pairs = utility.pairs(&sentences)?;
    let expected = |&candidate: &usize| {
        let scores = pairs.scores(candidate, &indices);
        let sum: f64 = scores.zip(&weight_of).map(|(score, weight)| weight * score).sum();
        if total > 0.0 { sum / total } else { 0.0 }
    };
    let per_task = PAIRS_PER_TASK.div_ceil(indices.len().max(1));
    Ok(of_candidate.par_iter().with_min_len(per_task).map(expected).collect())
}

#[cfg(test)]
mod tests;
