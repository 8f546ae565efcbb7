//! BLEU: Papineni et al. (2002), "BLEU: a Method for Automatic Evaluation of Machine Translation".
//!
//! ```text
//! BLEU = BP · exp( Σₙ ln(pₙ) / N ),  n = 1…N, N = 4      (section 2.3)
//! pₙ   = clipped n-gram matches / n-grams in the hypotheses, over the corpus  (section 2.1.1)
//! BP   = 1 if c ≥ r, else exp(1 − r/c)                   (section 2.2.2)
//! ```
//!
//! c is the length of all hypotheses in words, r the length of the references. For each line, r
//! counts the reference whose length is closest to that of the hypothesis, on a tie the shorter
//! one.

use std::fmt;

use crate::{
    Corpus, Metric, ReferenceLine, Score, ScoreError, SegmentStatistics, Signature, Tokenizer,
    metric::{ResampleScore, SACREBLEU_VERSION, singles},
    ngram::{Counts, MAX_ORDER, Ngram, Vocabulary, ngrams},
    real::{Real, Single},
};

/// Corpus BLEU and its settings. The defaults are sacreBLEU's: tokenizer `13a`, exponential
/// smoothing, cased.
///
/// ```
/// use tx_eval::{Bleu, Smoothing, Tokenizer};
///
/// let bleu = Bleu {
///     tokenizer: Tokenizer::None,
///     smoothing: Smoothing::None,
///     lowercase: true,
///     ..Bleu::default()
/// };
/// let score = bleu.corpus_score(&["The cat sat down"], &[["the cat sat down"]])?;
/// assert_eq!(score.score.round(), 100.0);
/// # Ok::<(), tx_eval::ScoreError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bleu {
    /// Tokenizer that splits lines into words.
    pub tokenizer: Tokenizer,
    /// Smoothing of n-gram orders without a match.
    pub smoothing: Smoothing,
    /// Compare in lower case (Unicode's full mapping). Shown as `case:lc` in the signature. A score
    /// can differ from sacreBLEU's for the few letters that exist in the Unicode version of Rust or
    /// of Python, but not in both.
    pub lowercase: bool,
    /// Leave out the orders for which the hypotheses have no n-grams, instead of scoring 0. Meant
    /// for single sentences, which may be shorter than four words. Shown as `eff:yes`.
    pub effective_order: bool,
}

/// Smoothing method: a replacement for the precision of an n-gram order without a match, because a
/// precision of 0 makes the whole score 0.
///
/// Names and numbers follow Chen & Cherry (2014), "A Systematic Comparison of Smoothing Techniques
/// for Sentence-Level BLEU". If no word matches, the score is 0 with every method.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Smoothing {
    /// Count `1/2ᵏ` matches for the k-th order without a match; method 3, that of `mteval-v13a.pl`.
    #[default]
    Exp,
    /// Count this many matches for an order without a match; method 1. Must be finite and at least
    /// 0.
    Floor(f64),
    /// Add this number to the matches and the n-grams of every order from 2; method 2. Must be
    /// finite and at least 0.
    AddK(f64),
    /// No smoothing: BLEU as published.
    None,
}

impl Smoothing {
    /// [`Floor`](Self::Floor) with sacreBLEU's value, 0.1.
    pub const FLOOR: Self = Self::Floor(0.1);
    /// [`AddK`](Self::AddK) with sacreBLEU's value, 1.
    pub const ADD_K: Self = Self::AddK(1.0);

    /// Returns the name in sacreBLEU's options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exp => "exp",
            Self::Floor(_) => "floor",
            Self::AddK(_) => "add-k",
            Self::None => "none",
        }
    }

    fn check(self) -> Result<(), ScoreError> {
        match self {
            Self::Floor(value) | Self::AddK(value) if !(value.is_finite() && value >= 0.0) => {
                Err(ScoreError::SmoothingValue { method: self.name(), value })
            }
            _ => Ok(()),
        }
    }
}

/// Text of sacreBLEU's signature: the name, followed by the value in brackets if there is one.
impl fmt::Display for Smoothing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Floor(value) | Self::AddK(value) => write!(f, "{}[{value:.2}]", self.name()),
            Self::Exp | Self::None => f.write_str(self.name()),
        }
    }
}

impl Bleu {
    /// Scores a corpus against one or more references.
    ///
    /// `references` is a list of references, each with one line per hypothesis. Lines are plain
    /// text that the caller has not tokenized. An empty line is a segment without words. Trailing
    /// white space, including a carriage return, is ignored. A byte order mark is part of the first
    /// word, as in sacreBLEU; strip it when reading the file.
    ///
    /// # Errors
    ///
    /// If line counts differ, there is no line or no reference, or the smoothing value is negative
    /// or not finite.
    pub fn corpus_score<H, R, L>(
        &self,
        hypotheses: &[H],
        references: &[R],
    ) -> Result<BleuScore, ScoreError>
    where
        H: AsRef<str>,
        R: AsRef<[L]>,
        L: ReferenceLine,
    {
        let statistics = self.statistics(&Corpus::new(hypotheses, references)?)?;
        Ok(self.details(&statistics.sum(), self.signature(statistics.n_references())))
    }

    /// Scores one sentence against its references. Set [`effective_order`](Self::effective_order),
    /// because a sentence of fewer than four words scores 0 otherwise.
    ///
    /// # Errors
    ///
    /// If there is no reference, or the smoothing value is negative or not finite.
    pub fn sentence_score<R: ReferenceLine>(
        &self,
        hypothesis: &str,
        references: &[R],
    ) -> Result<BleuScore, ScoreError> {
        let references: Vec<&[R]> = references.chunks(1).collect();
        self.corpus_score(&[hypothesis], &references)
    }

    /// Checks the settings.
    pub(crate) fn check(&self) -> Result<(), ScoreError> {
        self.smoothing.check()
    }

    /// Returns the word ids of one line.
    pub(crate) fn words(&self, line: &str, vocabulary: &mut Vocabulary) -> Vec<u32> {
        let mut words = Vec::new();
        let mut push = |word: &str| words.push(vocabulary.id(word));
        if self.lowercase {
            self.tokenizer.for_each_word(&line.to_lowercase(), &mut push);
        } else {
            self.tokenizer.for_each_word(line, &mut push);
        }
        words
    }

    /// Computes the score with all of its components.
    fn details(&self, sum: &[f64], signature: Signature) -> BleuScore {
        let sum = Sum::from(std::array::from_fn(|column| sum[column]));
        let whole = |numbers: [f64; MAX_ORDER]| numbers.map(|number| number as usize);
        BleuScore {
            score: self.value(&sum),
            precisions: self.precisions(&sum).0,
            counts: whole(sum.counts),
            totals: whole(sum.totals),
            brevity_penalty: sum.brevity_penalty(),
            hypothesis_len: sum.hypothesis_len as usize,
            reference_len: sum.reference_len as usize,
            signature,
        }
    }

    fn value<N: Real>(&self, sum: &Sum<N>) -> f64 {
        let (precisions, order) = self.precisions(sum);
        let precisions = &precisions[..order];
        if precisions.iter().any(|precision| precision.is_zero()) {
            return 0.0;
        }
        let logs: f64 = precisions.iter().map(|precision| precision.double().ln()).sum();
        sum.brevity_penalty() * (logs / order as f64).exp()
    }

    /// Returns the smoothed precisions in percent, and the number of orders in the score.
    /// Precisions are 0 from the first order without n-grams.
    fn precisions<N: Real>(&self, sum: &Sum<N>) -> ([N; MAX_ORDER], usize) {
        let mut precisions = [N::literal(0.0); MAX_ORDER];
        let mut effective = MAX_ORDER;
        if sum.counts.iter().all(|count| count.is_zero()) {
            return (precisions, effective);
        }
        let percent = N::literal(100.0);
        let mut denominator = 1.0;
        for (order, precision) in precisions.iter_mut().enumerate() {
            let mut matches = sum.counts[order];
            let mut total = sum.totals[order];
            if let Smoothing::AddK(k) = self.smoothing
                && order > 0
            {
                matches = matches + N::literal(k);
                total = total + N::literal(k);
            }
            if total.is_zero() {
                break;
            }
            if self.effective_order {
                effective = order + 1;
            }
            if !matches.is_zero() {
                *precision = percent * matches / total;
                continue;
            }
            match self.smoothing {
                Smoothing::Exp => {
                    denominator *= 2.0;
                    *precision = percent / (N::literal(denominator) * total);
                }
                Smoothing::Floor(value) => *precision = N::literal(100.0 * value) / total,
                Smoothing::AddK(_) | Smoothing::None => {}
            }
        }
        (precisions, effective)
    }
}

impl Metric for Bleu {
    fn name(&self) -> String {
        "BLEU".to_owned()
    }

    fn higher_is_better(&self) -> bool {
        true
    }

    fn signature(&self, n_references: Option<usize>) -> Signature {
        let pairs = vec![
            ("case", if self.lowercase { "lc" } else { "mixed" }.to_owned()),
            ("eff", if self.effective_order { "yes" } else { "no" }.to_owned()),
            ("tok", self.tokenizer.name().to_owned()),
            ("smooth", self.smoothing.to_string()),
        ];
        Signature::new(n_references, pairs, SACREBLEU_VERSION)
    }

    fn statistics(&self, corpus: &Corpus<'_>) -> Result<SegmentStatistics, ScoreError> {
        self.check()?;
        let scratch = || (Vocabulary::default(), MatchCounter::default());
        Ok(corpus.statistics(COLUMNS, scratch, |scratch, hypothesis, references, row| {
            let (vocabulary, counter) = scratch;
            vocabulary.clear();
            let hypothesis = self.words(hypothesis, vocabulary);
            let references: Vec<Vec<u32>> =
                references.iter().map(|reference| self.words(reference, vocabulary)).collect();
            row.copy_from_slice(&counter.count(&hypothesis, &references));
        }))
    }

    fn formula(&self, sum: &[f64]) -> f64 {
        self.value(&Sum::from(std::array::from_fn(|column| sum[column])))
    }

    fn resample_score(&self, sum: &[f32]) -> Option<ResampleScore> {
        Some(ResampleScore(Single::Literal(self.value(&Sum::from(singles(sum))))))
    }

    fn verbose(&self, sum: &[f64]) -> String {
        self.details(sum, self.signature(None)).verbose()
    }
}

/// Corpus BLEU with its components.
///
/// Arrays hold the orders 1 to 4. `Display` prints sacreBLEU's line, with two digits or the given
/// precision: `BLEU = 25.00 60.0/40.0/20.0/10.0 (BP = 1.000 ratio = 1.000 hyp_len = 5 ref_len =
/// 5)`.
#[derive(Debug, Clone, PartialEq)]
pub struct BleuScore {
    /// BLEU in percent, 0 to 100.
    pub score: f64,
    /// Precisions pₙ in percent, after smoothing; all 0 if no word matches.
    pub precisions: [f64; MAX_ORDER],
    /// Clipped n-gram matches, before smoothing.
    pub counts: [usize; MAX_ORDER],
    /// n-grams in the hypotheses, before smoothing.
    pub totals: [usize; MAX_ORDER],
    /// Brevity penalty BP, 0 to 1: below 1 if the hypotheses are shorter than the references.
    pub brevity_penalty: f64,
    /// Length c of the hypotheses in words.
    pub hypothesis_len: usize,
    /// Length r in words of the references with the closest length.
    pub reference_len: usize,
    /// sacreBLEU's signature for these settings.
    pub signature: Signature,
}

impl BleuScore {
    /// Returns the ratio c / r, or 0 if the references are empty.
    pub fn length_ratio(&self) -> f64 {
        match self.reference_len {
            0 => 0.0,
            reference_len => self.hypothesis_len as f64 / reference_len as f64,
        }
    }

    /// Returns the result in the format shared by all metrics.
    pub fn summary(&self) -> Score {
        Score {
            name: "BLEU".to_owned(),
            value: self.score,
            verbose: self.verbose(),
            signature: self.signature.clone(),
        }
    }

    fn verbose(&self) -> String {
        let [p1, p2, p3, p4] = self.precisions;
        format!(
            "{p1:.1}/{p2:.1}/{p3:.1}/{p4:.1} (BP = {:.3} ratio = {:.3} hyp_len = {} ref_len = {})",
            self.brevity_penalty,
            self.length_ratio(),
            self.hypothesis_len,
            self.reference_len,
        )
    }
}

impl fmt::Display for BleuScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary().fmt(f)
    }
}

/// Statistics per line: lengths of hypothesis and reference, then matches and n-grams of each
/// order.
pub(crate) const COLUMNS: usize = 2 + 2 * MAX_ORDER;

/// Sufficient statistics of BLEU, of one line or summed over lines.
struct Sum<N> {
    hypothesis_len: f64,
    reference_len: f64,
    counts: [N; MAX_ORDER],
    totals: [N; MAX_ORDER],
}

impl<N: Real> From<[N; COLUMNS]> for Sum<N> {
    fn from(row: [N; COLUMNS]) -> Self {
        Self {
            hypothesis_len: row[0].double(),
            reference_len: row[1].double(),
            counts: std::array::from_fn(|order| row[2 + order]),
            totals: std::array::from_fn(|order| row[2 + MAX_ORDER + order]),
        }
    }
}

impl<N> Sum<N> {
    fn brevity_penalty(&self) -> f64 {
        let (c, r) = (self.hypothesis_len, self.reference_len);
        if c >= r {
            1.0
        } else if c == 0.0 {
            0.0
        } else {
            (1.0 - r / c).exp()
        }
    }
}

/// Counter of clipped matches, line by line; reuses its tables.
#[derive(Default)]
struct MatchCounter {
    /// Remaining matches per n-gram: its highest count in any one reference, minus the matches so
    /// far. This is the clipping of section 2.1.1.
    allowance: Counts<Ngram>,
    in_one_reference: Counts<Ngram>,
}

impl MatchCounter {
    fn count(&mut self, hypothesis: &[u32], references: &[Vec<u32>]) -> [f64; COLUMNS] {
        self.allowance.clear();
        for (index, reference) in references.iter().enumerate() {
            let counts = if index == 0 { &mut self.allowance } else { &mut self.in_one_reference };
            for order in 1..=MAX_ORDER {
                for ngram in ngrams(reference, order) {
                    *counts.entry(ngram).or_default() += 1;
                }
            }
            for (ngram, count) in self.in_one_reference.drain() {
                let highest = self.allowance.entry(ngram).or_default();
                *highest = count.max(*highest);
            }
        }

        let mut row = [0.0; COLUMNS];
        row[0] = hypothesis.len() as f64;
        row[1] = closest_len(hypothesis.len(), references) as f64;
        for order in 1..=MAX_ORDER {
            for ngram in ngrams(hypothesis, order) {
                row[1 + MAX_ORDER + order] += 1.0;
                if let Some(left) = self.allowance.get_mut(&ngram)
                    && *left > 0
                {
                    *left -= 1;
                    row[1 + order] += 1.0;
                }
            }
        }
        row
    }
}

/// Returns the length in words of the reference whose length is closest to that of the hypothesis,
/// on a tie the shorter one.
fn closest_len(hypothesis_len: usize, references: &[Vec<u32>]) -> usize {
    let lengths = references.iter().map(Vec::len);
    lengths.min_by_key(|&len| (len.abs_diff(hypothesis_len), len)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
