//! BLEU: Papineni et al. (2002), "BLEU: a Method for Automatic Evaluation of Machine Translation".
//!
//! ```text
//! BLEU = BP · exp( Σₙ ln(pₙ) / N ),  n = 1…N, N = 4      (section 2.3)
//! pₙ   = clipped n-gram matches / n-grams in the hypotheses, over the whole corpus  (section 2.1.1)
//! BP   = 1 if c ≥ r, else exp(1 − r/c)                   (section 2.2.2)
//! ```
//!
//! c is the length of all hypotheses in words and r that of the references, where each line takes
//! the reference whose length is closest to the hypothesis, the shorter one in a tie.

use std::collections::HashMap;
use std::fmt;
use std::ops::AddAssign;

use crate::error::check_line_counts;
use crate::ngram::{MAX_ORDER, Ngram, Vocabulary, ngrams};
use crate::{Score, ScoreError, Signature, Tokenizer};

/// The release of sacreBLEU whose numbers and signatures this module reproduces.
const SACREBLEU_VERSION: &str = "2.6.0";

/// Corpus BLEU and its settings. The default is sacreBLEU's: `13a`, exponential smoothing, cased.
///
/// ```
/// use tx_eval::{Bleu, Smoothing, Tokenizer};
///
/// let bleu = Bleu { tokenizer: Tokenizer::None, smoothing: Smoothing::None, lowercase: true };
/// let score = bleu.corpus_score(&["The cat sat down"], &[["the cat sat down"]])?;
/// assert_eq!(score.score.round(), 100.0);
/// # Ok::<(), tx_eval::ScoreError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bleu {
    /// How lines are split into words.
    pub tokenizer: Tokenizer,
    /// What to do about an order without a single match.
    pub smoothing: Smoothing,
    /// Compare in lower case (Unicode's full mapping). Shown as `case:lc` in the signature. The few
    /// letters that the Unicode version of Rust has and that of one's Python has not, or the other
    /// way round, may differ from sacreBLEU.
    pub lowercase: bool,
}

/// What stands in for the precision of an n-gram order without a match, which would otherwise
/// make the whole score 0.
///
/// Names and numbers follow Chen & Cherry (2014), "A Systematic Comparison of Smoothing Techniques
/// for Sentence-Level BLEU". If not even one word matches, the score is 0 with every method.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Smoothing {
    /// The k-th order without a match counts `1/2ᵏ` matches; method 3, that of `mteval-v13a.pl`.
    #[default]
    Exp,
    /// An order without a match counts this many; method 1. Must be finite and at least 0.
    Floor(f64),
    /// This many are added to matches and n-grams of every order from 2; method 2. Must be finite
    /// and at least 0.
    AddK(f64),
    /// No smoothing: BLEU as published.
    None,
}

impl Smoothing {
    /// [`Floor`](Self::Floor) with sacreBLEU's value, 0.1.
    pub const FLOOR: Self = Self::Floor(0.1);
    /// [`AddK`](Self::AddK) with sacreBLEU's value, 1.
    pub const ADD_K: Self = Self::AddK(1.0);

    /// The name in sacreBLEU's options.
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

/// As in sacreBLEU's signature: the name, and the value in brackets where there is one.
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
    /// `references` is a list of references, each with one line for every hypothesis. Lines are
    /// plain text, not tokenized by the caller. An empty line is a segment of no words; white
    /// space at the end of a line, a carriage return included, does not matter. A byte order mark
    /// is part of the first word, as for sacreBLEU: strip it where the file is read.
    ///
    /// # Errors
    ///
    /// When the numbers of lines differ, there is no line or no reference, or the value of the
    /// smoothing method is negative or not finite.
    pub fn corpus_score<H, R, L>(
        &self,
        hypotheses: &[H],
        references: &[R],
    ) -> Result<BleuScore, ScoreError>
    where
        H: AsRef<str>,
        R: AsRef<[L]>,
        L: AsRef<str>,
    {
        let references: Vec<&[L]> = references.iter().map(AsRef::as_ref).collect();
        let line_counts: Vec<usize> = references.iter().map(|lines| lines.len()).collect();
        check_line_counts(hypotheses.len(), &line_counts)?;
        self.smoothing.check()?;

        let mut vocabulary = Vocabulary::default();
        let mut counter = MatchCounter::default();
        let mut corpus = Statistics::default();
        for (line, hypothesis) in hypotheses.iter().enumerate() {
            let hypothesis = self.words(hypothesis.as_ref(), &mut vocabulary);
            let references: Vec<Vec<u32>> = references
                .iter()
                .map(|reference| self.words(reference[line].as_ref(), &mut vocabulary))
                .collect();
            corpus += counter.count(&hypothesis, &references);
        }
        Ok(corpus.score(self.smoothing, self.signature(references.len())))
    }

    /// The words of one line as numbers.
    fn words(&self, line: &str, vocabulary: &mut Vocabulary) -> Vec<u32> {
        let mut words = Vec::new();
        let mut push = |word: &str| words.push(vocabulary.number(word));
        if self.lowercase {
            self.tokenizer.for_each_word(&line.to_lowercase(), &mut push);
        } else {
            self.tokenizer.for_each_word(line, &mut push);
        }
        words
    }

    fn signature(&self, n_references: usize) -> Signature {
        Signature::new(vec![
            ("nrefs", n_references.to_string()),
            ("case", if self.lowercase { "lc" } else { "mixed" }.to_owned()),
            // Effective order is for single sentences; a corpus always uses all four orders.
            ("eff", "no".to_owned()),
            ("tok", self.tokenizer.name().to_owned()),
            ("smooth", self.smoothing.to_string()),
            ("version", SACREBLEU_VERSION.to_owned()),
        ])
    }
}

/// Corpus BLEU with everything it was computed from.
///
/// Arrays hold the orders 1 to 4. `Display` is sacreBLEU's line, with two digits or the precision
/// given: `BLEU = 25.00 60.0/40.0/20.0/10.0 (BP = 1.000 ratio = 1.000 hyp_len = 5 ref_len = 5)`.
#[derive(Debug, Clone, PartialEq)]
pub struct BleuScore {
    /// BLEU in percent, 0 to 100.
    pub score: f64,
    /// Precisions pₙ in percent, after smoothing; all 0 when not a single word matches.
    pub precisions: [f64; MAX_ORDER],
    /// Clipped n-gram matches, before smoothing.
    pub counts: [usize; MAX_ORDER],
    /// n-grams in the hypotheses, before smoothing.
    pub totals: [usize; MAX_ORDER],
    /// BP, 0 to 1: below 1 when the hypotheses are shorter than the references.
    pub brevity_penalty: f64,
    /// c, the length of the hypotheses in words.
    pub hypothesis_len: usize,
    /// r, the length in words of the references closest in length.
    pub reference_len: usize,
    /// sacreBLEU's signature for these settings.
    pub signature: Signature,
}

impl BleuScore {
    /// c / r, or 0 when the references are empty.
    pub fn length_ratio(&self) -> f64 {
        match self.reference_len {
            0 => 0.0,
            reference_len => self.hypothesis_len as f64 / reference_len as f64,
        }
    }

    /// The result in the shape that all metrics share.
    pub fn summary(&self) -> Score {
        let [p1, p2, p3, p4] = self.precisions;
        let verbose = format!(
            "{p1:.1}/{p2:.1}/{p3:.1}/{p4:.1} (BP = {:.3} ratio = {:.3} hyp_len = {} ref_len = {})",
            self.brevity_penalty,
            self.length_ratio(),
            self.hypothesis_len,
            self.reference_len,
        );
        Score { name: "BLEU", value: self.score, verbose, signature: self.signature.clone() }
    }
}

impl fmt::Display for BleuScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary().fmt(f)
    }
}

/// What BLEU needs to know about a segment or, summed, about a corpus.
#[derive(Debug, Clone, Copy, Default)]
struct Statistics {
    counts: [usize; MAX_ORDER],
    totals: [usize; MAX_ORDER],
    hypothesis_len: usize,
    reference_len: usize,
}

impl AddAssign for Statistics {
    fn add_assign(&mut self, segment: Self) {
        for order in 0..MAX_ORDER {
            self.counts[order] += segment.counts[order];
            self.totals[order] += segment.totals[order];
        }
        self.hypothesis_len += segment.hypothesis_len;
        self.reference_len += segment.reference_len;
    }
}

impl Statistics {
    fn score(&self, smoothing: Smoothing, signature: Signature) -> BleuScore {
        let precisions = self.precisions(smoothing);
        let brevity_penalty = self.brevity_penalty();
        let score = if precisions.contains(&0.0) {
            0.0
        } else {
            let mean_log = precisions.iter().map(|p| p.ln()).sum::<f64>() / MAX_ORDER as f64;
            brevity_penalty * mean_log.exp()
        };
        BleuScore {
            score,
            precisions,
            counts: self.counts,
            totals: self.totals,
            brevity_penalty,
            hypothesis_len: self.hypothesis_len,
            reference_len: self.reference_len,
            signature,
        }
    }

    fn brevity_penalty(&self) -> f64 {
        match (self.hypothesis_len, self.reference_len) {
            (c, r) if c >= r => 1.0,
            (0, _) => 0.0,
            (c, r) => (1.0 - r as f64 / c as f64).exp(),
        }
    }

    /// Smoothed precisions in percent. From the first order that has no n-grams at all, all are 0.
    fn precisions(&self, smoothing: Smoothing) -> [f64; MAX_ORDER] {
        let mut precisions = [0.0; MAX_ORDER];
        if self.counts == [0; MAX_ORDER] {
            return precisions;
        }
        let mut stand_in = 1.0;
        for (order, precision) in precisions.iter_mut().enumerate() {
            let mut matches = self.counts[order] as f64;
            let mut total = self.totals[order] as f64;
            if let Smoothing::AddK(k) = smoothing
                && order > 0
            {
                matches += k;
                total += k;
            }
            if total == 0.0 {
                break;
            }
            if matches == 0.0 {
                matches = match smoothing {
                    Smoothing::Exp => {
                        stand_in /= 2.0;
                        stand_in
                    }
                    Smoothing::Floor(value) => value,
                    Smoothing::AddK(_) | Smoothing::None => 0.0,
                };
            }
            *precision = 100.0 * matches / total;
        }
        precisions
    }
}

/// Counts the clipped matches of one segment after the other; the tables are kept between them.
#[derive(Default)]
struct MatchCounter {
    /// How often each n-gram may still match: its highest count in any one reference, less the
    /// matches so far. This is the clipping of section 2.1.1.
    allowance: HashMap<Ngram, u32>,
    in_one_reference: HashMap<Ngram, u32>,
}

impl MatchCounter {
    fn count(&mut self, hypothesis: &[u32], references: &[Vec<u32>]) -> Statistics {
        self.allowance.clear();
        for reference in references {
            for order in 1..=MAX_ORDER {
                for ngram in ngrams(reference, order) {
                    *self.in_one_reference.entry(ngram).or_default() += 1;
                }
            }
            for (ngram, count) in self.in_one_reference.drain() {
                let highest = self.allowance.entry(ngram).or_default();
                *highest = count.max(*highest);
            }
        }

        let mut segment = Statistics {
            hypothesis_len: hypothesis.len(),
            reference_len: closest_len(hypothesis.len(), references),
            ..Statistics::default()
        };
        for order in 1..=MAX_ORDER {
            for ngram in ngrams(hypothesis, order) {
                segment.totals[order - 1] += 1;
                if let Some(left) = self.allowance.get_mut(&ngram)
                    && *left > 0
                {
                    *left -= 1;
                    segment.counts[order - 1] += 1;
                }
            }
        }
        segment
    }
}

/// The length, in words, of the reference closest to the hypothesis; the shorter one in a tie.
fn closest_len(hypothesis_len: usize, references: &[Vec<u32>]) -> usize {
    let lengths = references.iter().map(Vec::len);
    lengths.min_by_key(|&len| (len.abs_diff(hypothesis_len), len)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
