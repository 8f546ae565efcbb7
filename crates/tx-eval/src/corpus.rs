//! Hypotheses with their references, and statistics per line.

use std::{borrow::Cow, num::NonZero, sync::Arc, thread};

use crate::ScoreError;

/// Line of a reference: text, or `None` if this reference does not have the line.
///
/// Corpora with, for example, two references for some lines and three for others use `Option`s;
/// their signature contains `nrefs:var`. An *empty* line is different, as in sacreBLEU: it is a
/// reference without words.
pub trait ReferenceLine {
    /// Returns the text, if there is one.
    fn text(&self) -> Option<&str>;
}

impl ReferenceLine for str {
    fn text(&self) -> Option<&str> {
        Some(self)
    }
}

impl ReferenceLine for String {
    fn text(&self) -> Option<&str> {
        Some(self)
    }
}

impl ReferenceLine for Box<str> {
    fn text(&self) -> Option<&str> {
        Some(self)
    }
}

impl ReferenceLine for Arc<str> {
    fn text(&self) -> Option<&str> {
        Some(self)
    }
}

impl ReferenceLine for Cow<'_, str> {
    fn text(&self) -> Option<&str> {
        Some(self)
    }
}

impl<T: ReferenceLine + ?Sized> ReferenceLine for &T {
    fn text(&self) -> Option<&str> {
        (**self).text()
    }
}

impl<T: ReferenceLine> ReferenceLine for Option<T> {
    fn text(&self) -> Option<&str> {
        self.as_ref().and_then(ReferenceLine::text)
    }
}

/// Hypotheses of one system with their references, with checked line counts.
///
/// Several metrics can score one corpus. `corpus_score` of a metric creates one itself.
#[derive(Debug, Clone)]
pub struct Corpus<'a> {
    hypotheses: Vec<&'a str>,
    /// References of each line, without missing ones.
    references: Vec<Vec<&'a str>>,
    /// References per line; `None` if the number varies.
    n_references: Option<usize>,
}

impl<'a> Corpus<'a> {
    /// Checks line counts and pairs each hypothesis with its references.
    ///
    /// `references` is a list of references, each with one line per hypothesis. Lines are plain
    /// text that the caller has not tokenized. A byte order mark is part of the first word, as in
    /// sacreBLEU.
    ///
    /// # Errors
    ///
    /// If line counts differ, there is no line or no reference, or a line has no reference.
    pub fn new<H, R, L>(hypotheses: &'a [H], references: &'a [R]) -> Result<Self, ScoreError>
    where
        H: AsRef<str>,
        R: AsRef<[L]>,
        L: ReferenceLine + 'a,
    {
        let references: Vec<&'a [L]> = references.iter().map(AsRef::as_ref).collect();
        let counts: Vec<usize> = references.iter().map(|lines| lines.len()).collect();
        check_line_counts(hypotheses.len(), &counts)?;
        let references: Vec<Vec<&'a str>> = (0..hypotheses.len())
            .map(|line| references.iter().filter_map(|lines| lines[line].text()).collect())
            .collect();
        if let Some(index) = references.iter().position(Vec::is_empty) {
            return Err(ScoreError::NoReferenceForLine { line: index + 1 });
        }
        let first = references[0].len();
        let same = references.iter().all(|line| line.len() == first);
        Ok(Self {
            hypotheses: hypotheses.iter().map(AsRef::as_ref).collect(),
            references,
            n_references: same.then_some(first),
        })
    }

    /// Returns the number of lines, at least one.
    #[expect(clippy::len_without_is_empty, reason = "a corpus is never empty")]
    pub fn len(&self) -> usize {
        self.hypotheses.len()
    }

    /// References per line; `None` if the number varies.
    pub fn n_references(&self) -> Option<usize> {
        self.n_references
    }

    /// Hypothesis and references of each line; each line has at least one reference.
    pub fn lines(&self) -> impl ExactSizeIterator<Item = (&'a str, &[&'a str])> {
        self.hypotheses.iter().copied().zip(self.references.iter().map(Vec::as_slice))
    }

    /// Computes `columns` numbers per line with `count`, which receives the hypothesis, the
    /// references and the row to fill in. Lines are distributed over threads, each with its own
    /// `scratch`.
    pub(crate) fn statistics<S>(
        &self,
        columns: usize,
        scratch: impl Fn() -> S + Sync,
        count: impl Fn(&mut S, &str, &[&str], &mut [f64]) + Sync,
    ) -> SegmentStatistics {
        let mut values = vec![0.0; columns * self.len()];
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let chunk = self.len().div_ceil(threads).max(LINES_PER_THREAD);
        let work = |first: usize, rows: &mut [f64]| {
            let mut scratch = scratch();
            for (index, row) in rows.chunks_exact_mut(columns).enumerate() {
                let line = first + index;
                count(&mut scratch, self.hypotheses[line], &self.references[line], row);
            }
        };
        thread::scope(|scope| {
            let mut parts = values.chunks_mut(chunk * columns).enumerate();
            let own = parts.next();
            for (index, rows) in parts {
                let work = &work;
                scope.spawn(move || work(index * chunk, rows));
            }
            if let Some((_, rows)) = own {
                work(0, rows);
            }
        });
        SegmentStatistics { columns, values, n_references: self.n_references }
    }
}

/// Minimum number of lines per thread, because fewer do not repay starting one.
const LINES_PER_THREAD: usize = 128;

/// Sufficient statistics of a metric per line (segment): counts that add up, so the score of any
/// selection of lines follows from their sum. Confidence intervals and significance tests are
/// computed from them.
#[derive(Debug, Clone, PartialEq)]
pub struct SegmentStatistics {
    columns: usize,
    /// One row of `columns` numbers per line.
    values: Vec<f64>,
    n_references: Option<usize>,
}

impl SegmentStatistics {
    /// Collects the statistics of each line of `corpus`: one row per line, all of the same length.
    ///
    /// # Errors
    ///
    /// If the number of rows differs from the number of lines, or a row is empty or differs in
    /// length from the first.
    pub fn new(
        corpus: &Corpus<'_>,
        rows: impl IntoIterator<Item = Vec<f64>>,
    ) -> Result<Self, ScoreError> {
        let (mut values, mut columns, mut lines) = (Vec::new(), 0, 0);
        for row in rows {
            columns = if lines == 0 { row.len() } else { columns };
            lines += 1;
            if row.is_empty() || row.len() != columns {
                return Err(ScoreError::StatisticsOfLine {
                    line: lines,
                    found: row.len(),
                    expected: columns.max(1),
                });
            }
            values.extend(row);
        }
        if lines != corpus.len() {
            return Err(ScoreError::StatisticsCount { found: lines, expected: corpus.len() });
        }
        Ok(Self { columns, values, n_references: corpus.n_references })
    }

    /// Returns the number of lines.
    #[expect(clippy::len_without_is_empty, reason = "a corpus is never empty")]
    pub fn len(&self) -> usize {
        self.values.len() / self.columns
    }

    /// Returns the statistics of each line.
    pub fn lines(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.values.chunks_exact(self.columns)
    }

    /// Returns the statistics summed over the corpus.
    pub fn sum(&self) -> Vec<f64> {
        let mut sum = vec![0.0; self.columns];
        for line in self.lines() {
            for (total, value) in sum.iter_mut().zip(line) {
                *total += value;
            }
        }
        sum
    }

    /// References per line; `None` if the number varies.
    pub fn n_references(&self) -> Option<usize> {
        self.n_references
    }
}

/// Checks that every hypothesis has exactly one line in each reference.
fn check_line_counts(hypotheses: usize, references: &[usize]) -> Result<(), ScoreError> {
    let &[first, ..] = references else { return Err(ScoreError::NoReference) };
    for (index, &lines) in references.iter().enumerate() {
        if lines != first {
            return Err(ScoreError::UnequalReferences { first, number: index + 1, lines });
        }
    }
    if hypotheses != first {
        return Err(ScoreError::LineCount { hypotheses, references: first });
    }
    if hypotheses == 0 {
        return Err(ScoreError::NoLines);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_compared_before_anything_is_scored() {
        let lines = |n| vec!["a"; n];
        let check = |n, references: &[Vec<&str>]| Corpus::new(&lines(n), references).err();
        assert_eq!(check(3, &[lines(3), lines(3)]), None);
        assert_eq!(check(3, &[]), Some(ScoreError::NoReference));
        assert_eq!(check(0, &[vec![]]), Some(ScoreError::NoLines));
        let uneven = ScoreError::LineCount { hypotheses: 3, references: 2 };
        assert_eq!(check(3, &[lines(2)]), Some(uneven));
        let uneven = ScoreError::UnequalReferences { first: 3, number: 2, lines: 4 };
        assert_eq!(check(3, &[lines(3), lines(4)]), Some(uneven));
    }

    #[test]
    fn references_may_be_missing_but_not_all_of_a_line() {
        let references = [[Some("a"), Some("b")], [None, Some("c")]];
        let corpus = Corpus::new(&["x", "y"], &references).unwrap();
        assert_eq!(corpus.references, [vec!["a"], vec!["b", "c"]]);
        assert_eq!(corpus.n_references(), None);
        let same = [[Some("a"), None], [None, Some("c")]];
        assert_eq!(Corpus::new(&["x", "y"], &same).unwrap().n_references(), Some(1));
        let error = Corpus::new(&["x", "y"], &[[Some("a"), None]]).unwrap_err();
        assert_eq!(error, ScoreError::NoReferenceForLine { line: 2 });
        assert_eq!(error.to_string(), "line 2 has no reference");
    }

    #[test]
    fn statistics_of_other_metrics_must_fit_the_corpus() {
        let corpus = Corpus::new(&["x", "y"], &[["a", "b"]]).unwrap();
        let found = SegmentStatistics::new(&corpus, [vec![1.0, 2.0], vec![3.0, 4.0]]).unwrap();
        assert_eq!((found.len(), found.sum()), (2, vec![4.0, 6.0]));
        for (rows, message) in [
            (vec![vec![1.0], vec![]], "line 2 has 0 statistics, expected 1"),
            (vec![vec![]], "line 1 has 0 statistics, expected 1"),
            (vec![vec![1.0, 2.0], vec![1.0]], "line 2 has 1 statistics, expected 2"),
            (vec![vec![1.0]], "the statistics have 1 lines, but the corpus has 2"),
        ] {
            assert_eq!(SegmentStatistics::new(&corpus, rows).unwrap_err().to_string(), message);
        }
        let lines: Vec<_> = corpus.lines().collect();
        assert_eq!(lines, [("x", &["a"][..]), ("y", &["b"])]);
    }

    /// 1,000 lines are more than one thread processes. Rows must stay in the order of the lines.
    #[test]
    fn lines_keep_their_order_among_threads() {
        let lines: Vec<String> = (0..1_000).map(|n| "x".repeat(n)).collect();
        let references = [&lines];
        let corpus = Corpus::new(&lines, &references).unwrap();
        let found = corpus.statistics(
            2,
            || (),
            |(), hypothesis, references, row| {
                row.copy_from_slice(&[hypothesis.len() as f64, references[0].len() as f64]);
            },
        );
        assert_eq!(found.len(), 1_000);
        for (n, row) in found.lines().enumerate() {
            assert_eq!(row, [n as f64, n as f64]);
        }
        assert_eq!(found.sum(), [499_500.0, 499_500.0]);
    }
}
