//! chrF: Popović (2015), "chrF: character n-gram F-score for automatic MT evaluation"; and chrF++:
//! Popović (2017), "chrF++: words helping character n-grams".
//!
//! ```text
//! chrF_β = (1 + β²) · P · R / (β² · P + R)
//! ```
//!
//! P and R are the precision and the recall of n-grams, each averaged over the orders: character
//! n-grams up to 6 and, for chrF++, word n-grams up to 2. β = 2 makes recall weigh twice as much.
//! Matches are summed over the corpus before anything is divided. With several references, each
//! line uses the one with the highest score.

use std::{collections::hash_map::Entry, fmt};

use crate::{
    Corpus, Metric, ReferenceLine, Score, ScoreError, SegmentStatistics, Signature,
    metric::{ResampleScore, SACREBLEU_VERSION},
    ngram::{Counts, Vocabulary},
    real::{Real, Single},
    tokenizer::{is_space, words},
};

/// Corpus chrF and its settings. The default is sacreBLEU's chrF2; [`Chrf::PLUS_PLUS`] is chrF2++.
///
/// ```
/// use tx_eval::Chrf;
///
/// let chrf = Chrf::default().corpus_score(&["the cat sat"], &[["the cat sits"]])?;
/// assert_eq!(chrf.to_string(), "chrF2 = 61.03");
/// assert_eq!(
///     chrf.signature.to_string(),
///     "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0",
/// );
/// # Ok::<(), tx_eval::ScoreError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chrf {
    /// Maximum character n-gram order.
    pub char_order: usize,
    /// Maximum word n-gram order; 0 for chrF, 2 for chrF++.
    pub word_order: usize,
    /// Weight β of recall relative to precision.
    pub beta: u32,
    /// Compare in lower case. Shown as `case:lc`.
    pub lowercase: bool,
    /// Count white space as characters. Shown as `space:yes`.
    pub whitespace: bool,
    /// Average the F-scores of all orders, with 10⁻¹⁶ for an order without n-grams, as in
    /// `chrF++.py`, NLTK and Moses, instead of leaving such orders out. Shown as `eff:no`.
    pub eps_smoothing: bool,
}

impl Default for Chrf {
    fn default() -> Self {
        Self {
            char_order: 6,
            word_order: 0,
            beta: 2,
            lowercase: false,
            whitespace: false,
            eps_smoothing: false,
        }
    }
}

/// Computes corpus chrF2 against one reference, with the default settings.
///
/// ```
/// assert_eq!(tx_eval::chrf(&["same"], &["same"])?.score, 100.0);
/// # Ok::<(), tx_eval::ScoreError>(())
/// ```
///
/// # Errors
///
/// If the numbers of lines differ or there is no line.
pub fn chrf<H, R>(hypotheses: &[H], reference: &[R]) -> Result<ChrfScore, ScoreError>
where
    H: AsRef<str>,
    R: ReferenceLine,
{
    Chrf::default().corpus_score(hypotheses, &[reference])
}

impl Chrf {
    /// chrF2++: chrF2 with word n-grams of orders 1 and 2.
    pub const PLUS_PLUS: Self = Self {
        char_order: 6,
        word_order: 2,
        beta: 2,
        lowercase: false,
        whitespace: false,
        eps_smoothing: false,
    };

    /// Scores a corpus against one or more references.
    ///
    /// `references` is a list of references, each with one line per hypothesis.
    ///
    /// # Errors
    ///
    /// If line counts differ, there is no line or no reference, or both orders are 0.
    pub fn corpus_score<H, R, L>(
        &self,
        hypotheses: &[H],
        references: &[R],
    ) -> Result<ChrfScore, ScoreError>
    where
        H: AsRef<str>,
        R: AsRef<[L]>,
        L: ReferenceLine,
    {
        let statistics = self.statistics(&Corpus::new(hypotheses, references)?)?;
        Ok(ChrfScore {
            name: self.name(),
            score: self.formula(&statistics.sum()),
            signature: self.signature(statistics.n_references()),
        })
    }

    /// Scores one sentence against its references.
    ///
    /// # Errors
    ///
    /// If there is no reference, or both orders are 0.
    pub fn sentence_score<R: ReferenceLine>(
        &self,
        hypothesis: &str,
        references: &[R],
    ) -> Result<ChrfScore, ScoreError> {
        let references: Vec<&[R]> = references.chunks(1).collect();
        self.corpus_score(&[hypothesis], &references)
    }

    /// Checks the settings.
    pub(crate) fn check(&self) -> Result<(), ScoreError> {
        if self.order() == 0 { Err(ScoreError::NoOrder) } else { Ok(()) }
    }

    fn order(&self) -> usize {
        self.char_order + self.word_order
    }

    /// Returns the ids of the characters and words of a line.
    pub(crate) fn units(&self, line: &str, vocabulary: &mut Vocabulary) -> Units {
        let lower;
        let line = if self.lowercase {
            lower = line.to_lowercase();
            &lower
        } else {
            line
        };
        let characters =
            line.chars().filter(|&c| self.whitespace || !is_space(c)).map(u32::from).collect();
        let mut word_ids = Vec::new();
        if self.word_order > 0 {
            for word in words(line) {
                let (first, second) = split_punctuation(word);
                word_ids.push(vocabulary.id(first));
                word_ids.extend(second.map(|word| vocabulary.id(word)));
            }
        }
        Units { characters, words: word_ids }
    }

    /// Evaluates the chrF formula with operations in sacreBLEU's order, on which floating-point
    /// rounding depends.
    fn value<N: Real>(&self, sum: impl Iterator<Item = [N; 3]>) -> N {
        let literal = N::literal;
        let eps = literal(1e-16);
        let factor = f64::from(self.beta) * f64::from(self.beta);
        let (factor, one_and_factor) = (literal(factor), literal(1.0 + factor));
        let positive = |n: N| n > literal(0.0);

        let [mut score, mut mean_precision, mut mean_recall] = [literal(0.0); 3];
        let mut orders = 0;
        for [hypothesis, reference, matches] in sum {
            let ratio = |total: N| if positive(total) { matches / total } else { eps };
            let (precision, recall) = (ratio(hypothesis), ratio(reference));
            let weighted = factor * precision + recall;
            let f_score = if positive(weighted) {
                one_and_factor * precision * recall / weighted
            } else {
                eps
            };
            score = score + f_score;
            if positive(hypothesis) && positive(reference) {
                mean_precision = mean_precision + precision;
                mean_recall = mean_recall + recall;
                orders += 1;
            }
        }
        let percent = literal(100.0);
        if self.eps_smoothing {
            return percent * score / literal(self.order() as f64);
        }
        if orders == 0 {
            return literal(0.0);
        }
        let (precision, recall) =
            (mean_precision / literal(f64::from(orders)), mean_recall / literal(f64::from(orders)));
        if (precision + recall).is_zero() {
            return literal(0.0);
        }
        percent * (one_and_factor * precision * recall / (factor * precision + recall))
    }
}

impl Metric for Chrf {
    /// Name `chrF` followed by β and one `+` per word order.
    fn name(&self) -> String {
        format!("chrF{}{}", self.beta, "+".repeat(self.word_order))
    }

    fn higher_is_better(&self) -> bool {
        true
    }

    fn signature(&self, n_references: Option<usize>) -> Signature {
        let yes_or_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        let pairs = vec![
            ("case", if self.lowercase { "lc" } else { "mixed" }.to_owned()),
            ("eff", yes_or_no(!self.eps_smoothing)),
            ("nc", self.char_order.to_string()),
            ("nw", self.word_order.to_string()),
            ("space", yes_or_no(self.whitespace)),
        ];
        Signature::new(n_references, pairs, SACREBLEU_VERSION)
    }

    fn statistics(&self, corpus: &Corpus<'_>) -> Result<SegmentStatistics, ScoreError> {
        self.check()?;
        let columns = 3 * self.order();
        Ok(corpus.statistics(columns, Scratch::default, |scratch, hypothesis, references, row| {
            let mut best = -1.0;
            let hypothesis = self.units(hypothesis, &mut scratch.vocabulary);
            let mut found = Vec::with_capacity(columns);
            for reference in references {
                let reference = self.units(reference, &mut scratch.vocabulary);
                found.clear();
                let orders = [
                    (&hypothesis.characters, &reference.characters, self.char_order),
                    (&hypothesis.words, &reference.words, self.word_order),
                ];
                for (hypothesis, reference, order) in orders {
                    scratch.matcher.count(hypothesis, reference, order, &mut found);
                }
                let score = self.formula(&found);
                if score > best {
                    best = score;
                    row.copy_from_slice(&found);
                }
            }
            scratch.vocabulary.clear();
        }))
    }

    fn formula(&self, sum: &[f64]) -> f64 {
        self.value(sum.chunks_exact(3).map(|order| [order[0], order[1], order[2]]))
    }

    fn resample_score(&self, sum: &[f32]) -> Option<ResampleScore> {
        let orders =
            sum.chunks_exact(3).map(|order| [order[0], order[1], order[2]].map(Single::Float));
        Some(ResampleScore(self.value(orders)))
    }
}

/// Corpus chrF. `Display` prints sacreBLEU's line, with two digits or the given precision.
#[derive(Debug, Clone, PartialEq)]
pub struct ChrfScore {
    /// Metric name: `chrF2` by default; β and the word order change the number and the plus signs.
    pub name: String,
    /// chrF in percent, 0 to 100.
    pub score: f64,
    /// sacreBLEU's signature for these settings.
    pub signature: Signature,
}

impl ChrfScore {
    /// Returns the result in the format shared by all metrics.
    pub fn summary(&self) -> Score {
        Score {
            name: self.name.clone(),
            value: self.score,
            verbose: String::new(),
            signature: self.signature.clone(),
        }
    }
}

impl fmt::Display for ChrfScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary().fmt(f)
    }
}

/// Buffers reused from line to line.
#[derive(Default)]
struct Scratch {
    vocabulary: Vocabulary,
    matcher: Matcher,
}

/// Ids of the characters and words of a line.
pub(crate) struct Units {
    pub(crate) characters: Vec<u32>,
    pub(crate) words: Vec<u32>,
}

/// Splits one ASCII punctuation mark off the end of a word or, if there is none, off its beginning;
/// `(hi)` becomes `(hi` and `)`, as in the original.
fn split_punctuation(word: &str) -> (&str, Option<&str>) {
    let is_mark = |c: char| c.is_ascii_punctuation();
    let at = match (word.chars().next(), word.chars().next_back()) {
        // A mark is one byte long.
        _ if word.chars().nth(1).is_none() => return (word, None),
        (_, Some(last)) if is_mark(last) => word.len() - 1,
        (Some(first), _) if is_mark(first) => 1,
        _ => return (word, None),
    };
    let (first, second) = word.split_at(at);
    (first, Some(second))
}

/// Counter of n-gram matches of two sequences. The id of an n-gram is assigned to the pair of the
/// id of its prefix (all units but the last) and its last unit, so n-grams of any order cost the
/// same.
#[derive(Default)]
struct Matcher {
    /// Ids of the reference's n-grams of the current order.
    ids: Counts<(u32, u32)>,
    /// Remaining matches of each n-gram.
    remaining: Vec<u32>,
    /// Id of the reference's n-gram of the previous order at each position.
    in_reference: Vec<u32>,
    /// Id of the hypothesis's n-gram of the previous order at each position; `None` if the
    /// reference does not contain it, because then it contains no longer one either.
    in_hypothesis: Vec<Option<u32>>,
}

impl Matcher {
    /// Appends three numbers per order to `found`: n-grams of the hypothesis, n-grams of the
    /// reference, and matches.
    fn count(&mut self, hypothesis: &[u32], reference: &[u32], order: usize, found: &mut Vec<f64>) {
        self.in_reference.clear();
        self.in_reference.resize(reference.len(), 0);
        self.in_hypothesis.clear();
        self.in_hypothesis.resize(hypothesis.len(), Some(0));
        for order in 1..=order {
            let last = order - 1;
            self.ids.clear();
            self.remaining.clear();
            for (id, &unit) in self.in_reference.iter_mut().zip(reference.iter().skip(last)) {
                let next_id = self.remaining.len() as u32;
                *id = match self.ids.entry((*id, unit)) {
                    Entry::Occupied(entry) => *entry.get(),
                    Entry::Vacant(entry) => {
                        self.remaining.push(0);
                        *entry.insert(next_id)
                    }
                };
                self.remaining[*id as usize] += 1;
            }
            let mut matches = 0;
            for (id, &unit) in self.in_hypothesis.iter_mut().zip(hypothesis.iter().skip(last)) {
                *id = id.and_then(|id| self.ids.get(&(id, unit)).copied());
                if let Some(id) = *id
                    && self.remaining[id as usize] > 0
                {
                    self.remaining[id as usize] -= 1;
                    matches += 1;
                }
            }
            let in_reference = reference.len().saturating_sub(last);
            // n-grams of the hypothesis count only if the reference has n-grams of this order.
            let in_hypothesis =
                if in_reference > 0 { hypothesis.len().saturating_sub(last) } else { 0 };
            found.extend([in_hypothesis as f64, in_reference as f64, f64::from(matches)]);
        }
    }
}

#[cfg(test)]
mod tests;
