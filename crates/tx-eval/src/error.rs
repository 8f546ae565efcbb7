//! Errors of scoring.

/// Error of scoring; the message contains the numbers that disagree.
///
/// Metrics never truncate to the shorter side or skip a line, because a score over mismatched lines
/// looks plausible and is meaningless.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScoreError {
    /// No hypothesis line. An *empty line* is accepted.
    #[error("the hypotheses have 0 lines, expected at least 1")]
    NoLines,

    /// The list of references is empty.
    #[error("no reference given, expected at least 1")]
    NoReference,

    /// Different numbers of lines in hypotheses and references.
    #[error("the hypotheses have {hypotheses} lines, but the references have {references}")]
    LineCount {
        /// Lines of the hypotheses.
        hypotheses: usize,
        /// Lines of every reference.
        references: usize,
    },

    /// Different numbers of lines in two references.
    #[error("reference 1 has {first} lines, but reference {number} has {lines}")]
    UnequalReferences {
        /// Lines of the first reference.
        first: usize,
        /// Number of the other reference, counted from 1.
        number: usize,
        /// Lines of the other reference.
        lines: usize,
    },

    /// Line without any reference, possible with references that may miss lines.
    #[error("line {line} has no reference")]
    NoReferenceForLine {
        /// Line number, counted from 1.
        line: usize,
    },

    /// Smoothing value that is negative, infinite or NaN.
    #[error(
        "smoothing method `{method}` has value {value}, expected a finite number of at least 0"
    )]
    SmoothingValue {
        /// Method by sacreBLEU's name, `floor` or `add-k`.
        method: &'static str,
        /// Value given.
        value: f64,
    },

    /// Character order and word order of chrF are both 0.
    #[error("chrF has character order 0 and word order 0, expected at least one of them above 0")]
    NoOrder,

    /// Different numbers of lines in two systems to compare.
    #[error("the baseline has {baseline} lines, but the system has {system}")]
    UnequalSystems {
        /// Lines of the baseline.
        baseline: usize,
        /// Lines of the system.
        system: usize,
    },

    /// Row of statistics with another length than the first.
    #[error("line {line} has {found} statistics, expected {expected}")]
    StatisticsOfLine {
        /// Line number, counted from 1.
        line: usize,
        /// Numbers in this row.
        found: usize,
        /// Numbers in the first row, or 1 if it is empty.
        expected: usize,
    },

    /// Statistics for more or fewer lines than the corpus has.
    #[error("the statistics have {found} lines, but the corpus has {expected}")]
    StatisticsCount {
        /// Lines with statistics.
        found: usize,
        /// Lines of the corpus.
        expected: usize,
    },

    /// Resampling with 0 samples.
    #[error("resampling has 0 samples, expected at least 1")]
    NoSamples,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_hold_both_numbers() {
        let message = ScoreError::LineCount { hypotheses: 3, references: 2 }.to_string();
        assert_eq!(message, "the hypotheses have 3 lines, but the references have 2");
        let message = ScoreError::UnequalReferences { first: 3, number: 2, lines: 4 }.to_string();
        assert_eq!(message, "reference 1 has 3 lines, but reference 2 has 4");
    }
}
