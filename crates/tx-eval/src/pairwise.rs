//! Sentence-level scores of all pairs of a set of sentences, for minimum Bayes risk decoding.
//!
//! The n-grams of each sentence are counted once. The matches of a pair are then
//! `Σ_g min(count of g in the hypothesis, count of g in the reference)` over the distinct n-grams of
//! one of the two, without hashing.

use std::collections::hash_map::Entry;

use crate::{Bleu, Chrf, Metric, ScoreError, bleu::COLUMNS, ngram::Counts, ngram::MAX_ORDER};

/// Metric of n-grams, whose sentence-level scores of many pairs share the counts of the sentences.
///
/// ```
/// use tx_eval::{Chrf, NgramMetric};
///
/// let chrf = NgramMetric::from(Chrf::default());
/// let pairs = chrf.pairs(&["the cat sat", "the cat sits"])?;
/// let scores: Vec<f64> = pairs.scores(0, &[0, 1]).collect();
/// assert_eq!(scores[0], 100.0);
/// assert_eq!(scores[1], Chrf::default().sentence_score("the cat sat", &["the cat sits"])?.score);
/// # Ok::<(), tx_eval::ScoreError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NgramMetric {
    /// Sentence-level BLEU. [`Bleu::effective_order`] should be set.
    Bleu(Bleu),
    /// Sentence-level chrF or chrF++.
    Chrf(Chrf),
}

impl From<Bleu> for NgramMetric {
    fn from(bleu: Bleu) -> Self {
        Self::Bleu(bleu)
    }
}

impl From<Chrf> for NgramMetric {
    fn from(chrf: Chrf) -> Self {
        Self::Chrf(chrf)
    }
}

impl NgramMetric {
    /// Returns the metric of corpora with the same settings.
    pub fn metric(&self) -> &dyn Metric {
        match self {
            Self::Bleu(bleu) => bleu,
            Self::Chrf(chrf) => chrf,
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// If the smoothing value of BLEU is negative or not finite, or both orders of chrF are 0.
    pub fn check(&self) -> Result<(), ScoreError> {
        match self {
            Self::Bleu(bleu) => bleu.check(),
            Self::Chrf(chrf) => chrf.check(),
        }
    }

    /// Counts the n-grams of each sentence, in time linear in their number.
    ///
    /// # Errors
    ///
    /// Same as [`check`](Self::check).
    pub fn pairs(&self, sentences: &[impl AsRef<str>]) -> Result<Pairs, ScoreError> {
        self.check()?;
        let mut ids = Ids::default();
        let mut units = Vec::new();
        let mut counted = Vec::with_capacity(sentences.len());
        match self {
            Self::Bleu(bleu) => {
                let mut vocabulary = Default::default();
                for sentence in sentences {
                    let words = bleu.words(sentence.as_ref(), &mut vocabulary);
                    counted.push(ids.sentence(&[(&words, MAX_ORDER)], &mut units));
                }
            }
            Self::Chrf(chrf) => {
                let mut vocabulary = Default::default();
                for sentence in sentences {
                    let found = chrf.units(sentence.as_ref(), &mut vocabulary);
                    let sequences =
                        [(&*found.characters, chrf.char_order), (&*found.words, chrf.word_order)];
                    counted.push(ids.sentence(&sequences, &mut units));
                }
            }
        }
        Ok(Pairs { metric: *self, sentences: counted, n_ids: ids.n_ids as usize })
    }

    /// Appends the statistics of a pair, as [`Metric::statistics`] does: `hypothesis` and `reference`
    /// are the numbers of n-grams of each order.
    fn row(&self, hypothesis: &[u32], reference: &[u32], matches: &[u32], row: &mut Vec<f64>) {
        row.clear();
        match self {
            Self::Bleu(_) => {
                row.resize(COLUMNS, 0.0);
                row[0] = hypothesis[0].into();
                row[1] = reference[0].into();
                for order in 0..MAX_ORDER {
                    row[2 + order] = matches[order].into();
                    row[2 + MAX_ORDER + order] = hypothesis[order].into();
                }
            }
            Self::Chrf(_) => {
                for ((&hypothesis, &reference), &matches) in
                    hypothesis.iter().zip(reference).zip(matches)
                {
                    // n-grams of the hypothesis count only if the reference has n-grams of this order.
                    let counted = if reference > 0 { hypothesis } else { 0 };
                    row.extend([counted, reference, matches].map(f64::from));
                }
            }
        }
    }
}

/// Sentences whose n-grams are counted, to score any of them against any other.
#[derive(Debug, Clone)]
pub struct Pairs {
    metric: NgramMetric,
    sentences: Vec<Sentence>,
    /// Number of distinct n-grams of all sentences.
    n_ids: usize,
}

impl Pairs {
    /// Number of sentences.
    pub fn len(&self) -> usize {
        self.sentences.len()
    }

    /// Whether there is no sentence.
    pub fn is_empty(&self) -> bool {
        self.sentences.is_empty()
    }

    /// Scores the sentence `hypothesis` against each of `references`, all given by their index: the
    /// same numbers, bit for bit, as `sentence_score` of the metric.
    ///
    /// The time is that of one addition for each distinct n-gram of each reference, after one pass
    /// over all n-grams.
    ///
    /// # Panics
    ///
    /// If an index is not below [`len`](Self::len).
    pub fn scores<'a>(
        &'a self,
        hypothesis: usize,
        references: &'a [usize],
    ) -> impl ExactSizeIterator<Item = f64> + 'a {
        let sentence = &self.sentences[hypothesis];
        let mut counts = vec![0_u32; self.n_ids];
        for &(id, count) in &sentence.ngrams {
            counts[id as usize] = count;
        }
        let (mut matches, mut row) = (Vec::new(), Vec::new());
        references.iter().map(move |&index| {
            let reference = &self.sentences[index];
            matches.clear();
            matches.extend(reference.orders().map(|ngrams| {
                ngrams.iter().map(|&(id, count)| count.min(counts[id as usize])).sum::<u32>()
            }));
            self.metric.row(&sentence.totals, &reference.totals, &matches, &mut row);
            self.metric.metric().formula(&row)
        })
    }
}

/// Counted n-grams of a sentence.
#[derive(Debug, Clone, Default)]
struct Sentence {
    /// Distinct n-grams with their counts, order by order.
    ngrams: Vec<(u32, u32)>,
    /// End of each order in `ngrams`.
    ends: Vec<usize>,
    /// Number of n-grams of each order.
    totals: Vec<u32>,
}

impl Sentence {
    /// Distinct n-grams of each order.
    fn orders(&self) -> impl Iterator<Item = &[(u32, u32)]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.ngrams[start..end])
    }
}

/// Ids of n-grams. The id of an n-gram is assigned to the pair of the id of its prefix (all units but
/// the last) and its last unit, so n-grams of any order cost the same.
#[derive(Default)]
struct Ids {
    /// One table for each order of each sequence.
    tables: Vec<Counts<(u32, u32)>>,
    n_ids: u32,
}

impl Ids {
    /// Counts the n-grams of a sentence: of each sequence of units, those up to an order. `ids` is
    /// reused from call to call.
    fn sentence(&mut self, sequences: &[(&[u32], usize)], ids: &mut Vec<u32>) -> Sentence {
        let mut sentence = Sentence::default();
        let mut table = 0;
        for &(units, orders) in sequences {
            ids.clear();
            ids.resize(units.len(), 0);
            for last in 0..orders {
                if self.tables.len() == table {
                    self.tables.push(Counts::default());
                }
                let total = units.len().saturating_sub(last);
                ids.truncate(total);
                for (id, &unit) in ids.iter_mut().zip(units.iter().skip(last)) {
                    *id = match self.tables[table].entry((*id, unit)) {
                        Entry::Occupied(entry) => *entry.get(),
                        Entry::Vacant(entry) => {
                            self.n_ids += 1;
                            *entry.insert(self.n_ids - 1)
                        }
                    };
                }
                let mut sorted = ids.clone();
                sorted.sort_unstable();
                let runs = sorted.chunk_by(|a, b| a == b);
                sentence.ngrams.extend(runs.map(|run| (run[0], run.len() as u32)));
                sentence.ends.push(sentence.ngrams.len());
                sentence.totals.push(total as u32);
                table += 1;
            }
        }
        sentence
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Smoothing, Tokenizer};

    const SENTENCES: [&str; 9] = [
        "The cat sat on the mat.",
        "the cat sat on the mat , the cat",
        "A dog, 1,000.5 dogs!",
        "",
        "a",
        "  the   the the the ",
        "Ein Hund läuft über die Wiese (schnell).",
        "东京 東京 cat",
        "the cat sat on the mat .",
    ];

    /// Each pair by itself, with the code that equals sacreBLEU.
    fn assert_equal(metric: NgramMetric, score: impl Fn(&str, &str) -> f64) {
        let pairs = metric.pairs(&SENTENCES).unwrap();
        let all: Vec<usize> = (0..pairs.len()).collect();
        for (index, hypothesis) in SENTENCES.iter().enumerate() {
            let found: Vec<f64> = pairs.scores(index, &all).collect();
            let expected: Vec<f64> = SENTENCES.iter().map(|it| score(hypothesis, it)).collect();
            assert_eq!(found, expected, "{metric:?}: {hypothesis}");
        }
    }

    #[test]
    fn pairs_of_bleu_equal_sentence_scores() {
        let base = Bleu { effective_order: true, ..Bleu::default() };
        for bleu in [
            base,
            Bleu::default(),
            Bleu { lowercase: true, smoothing: Smoothing::ADD_K, ..base },
            Bleu { tokenizer: Tokenizer::None, smoothing: Smoothing::None, ..base },
            Bleu { tokenizer: Tokenizer::Char, smoothing: Smoothing::FLOOR, ..base },
        ] {
            let score = |hypothesis: &str, reference: &str| {
                bleu.sentence_score(hypothesis, &[reference]).unwrap().score
            };
            assert_equal(bleu.into(), score);
        }
    }

    #[test]
    fn pairs_of_chrf_equal_sentence_scores() {
        let base = Chrf::default();
        for chrf in [
            base,
            Chrf::PLUS_PLUS,
            Chrf { lowercase: true, whitespace: true, beta: 1, ..base },
            Chrf { eps_smoothing: true, ..Chrf::PLUS_PLUS },
            Chrf { char_order: 0, word_order: 2, ..base },
        ] {
            let score = |hypothesis: &str, reference: &str| {
                chrf.sentence_score(hypothesis, &[reference]).unwrap().score
            };
            assert_equal(chrf.into(), score);
        }
    }

    /// chrF with characters and bigrams of `aab` and `ab`: one `a`, `b` and `ab` match.
    ///
    /// ```text
    /// precision (2/3 + 1/2) / 2 = 7/12    recall (2/2 + 1/1) / 2 = 1
    /// chrF2 = 5 · 7/12 · 1 / (4 · 7/12 + 1) = 35/40
    /// ```
    #[test]
    fn matches_are_clipped() {
        let chrf = Chrf { char_order: 2, ..Chrf::default() };
        let pairs = NgramMetric::from(chrf).pairs(&["aab", "ab"]).unwrap();
        let found: Vec<f64> = pairs.scores(0, &[1]).collect();
        assert!((found[0] - 87.5).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn settings_are_checked() {
        let chrf = Chrf { char_order: 0, ..Chrf::default() };
        assert_eq!(NgramMetric::from(chrf).pairs(&["a"]).unwrap_err(), ScoreError::NoOrder);
        let bleu = Bleu { smoothing: Smoothing::Floor(-1.0), ..Bleu::default() };
        assert!(NgramMetric::from(bleu).check().is_err());
        assert!(NgramMetric::from(Bleu::default()).pairs(&[""; 0]).unwrap().is_empty());
    }
}
