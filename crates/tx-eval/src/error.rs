//! Why a corpus cannot be scored.

/// The input cannot be scored; the message holds the numbers that disagree.
///
/// No metric of this crate truncates to the shorter side or skips a line: a score over lines that
/// do not belong together looks plausible and means nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScoreError {
    /// There is not a single hypothesis line. An *empty line* is fine; no line at all is not.
    #[error("there are no hypothesis lines to score")]
    NoLines,

    /// The list of references is empty.
    #[error("there is no reference to score against")]
    NoReference,

    /// Hypotheses and references differ in their number of lines.
    #[error("the hypotheses have {hypotheses} lines, but the references have {references}")]
    LineCount {
        /// Lines of the hypotheses.
        hypotheses: usize,
        /// Lines of every reference.
        references: usize,
    },

    /// Two references differ in their number of lines.
    #[error("reference 1 has {first} lines, but reference {number} has {lines}")]
    UnequalReferences {
        /// Lines of the first reference.
        first: usize,
        /// Which reference differs, counted from 1.
        number: usize,
        /// Lines of that reference.
        lines: usize,
    },

    /// With references that need not have every line: a line is in none of them.
    #[error("line {line} has no reference")]
    NoReferenceForLine {
        /// The line, counted from 1.
        line: usize,
    },

    /// The value given to a smoothing method is negative, infinite or not a number.
    #[error("smoothing `{method}` needs a finite value of at least 0, not {value}")]
    SmoothingValue {
        /// The method as sacreBLEU names it, `floor` or `add-k`.
        method: &'static str,
        /// The value found.
        value: f64,
    },

    /// chrF was asked for n-grams of no length at all.
    #[error("chrF needs a character order or a word order of at least 1, not 0 and 0")]
    NoOrder,

    /// Two systems that should be compared differ in their number of lines.
    #[error("the baseline has {baseline} lines, but the system has {system}")]
    UnequalSystems {
        /// Lines of the baseline.
        baseline: usize,
        /// Lines of the system.
        system: usize,
    },

    /// A metric gave a line another number of statistics than the first line.
    #[error("line {line} has {found} statistics, expected {expected}")]
    StatisticsOfLine {
        /// The line, counted from 1.
        line: usize,
        /// Numbers of this line.
        found: usize,
        /// Numbers of the first line, which needs at least one.
        expected: usize,
    },

    /// A metric gave statistics of more or fewer lines than there are.
    #[error("there are statistics of {found} lines, but the corpus has {expected}")]
    StatisticsCount {
        /// Lines with statistics.
        found: usize,
        /// Lines of the corpus.
        expected: usize,
    },

    /// Resampling was asked for with too few samples.
    #[error("resampling needs at least 1 sample, not 0")]
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
