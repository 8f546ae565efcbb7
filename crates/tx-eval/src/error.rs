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

    /// The value given to a smoothing method is negative, infinite or not a number.
    #[error("smoothing `{method}` needs a finite value of at least 0, not {value}")]
    SmoothingValue {
        /// The method as sacreBLEU names it, `floor` or `add-k`.
        method: &'static str,
        /// The value found.
        value: f64,
    },
}

/// Makes sure that every hypothesis has exactly one line in each reference.
pub(crate) fn check_line_counts(hypotheses: usize, references: &[usize]) -> Result<(), ScoreError> {
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
        assert_eq!(check_line_counts(3, &[3, 3]), Ok(()));
        assert_eq!(check_line_counts(3, &[]), Err(ScoreError::NoReference));
        assert_eq!(check_line_counts(0, &[0]), Err(ScoreError::NoLines));
        assert_eq!(
            check_line_counts(3, &[2]),
            Err(ScoreError::LineCount { hypotheses: 3, references: 2 })
        );
        assert_eq!(
            check_line_counts(3, &[3, 4]),
            Err(ScoreError::UnequalReferences { first: 3, number: 2, lines: 4 })
        );
    }

    #[test]
    fn messages_hold_both_numbers() {
        let message = ScoreError::LineCount { hypotheses: 3, references: 2 }.to_string();
        assert_eq!(message, "the hypotheses have 3 lines, but the references have 2");
        let message = ScoreError::UnequalReferences { first: 3, number: 2, lines: 4 }.to_string();
        assert_eq!(message, "reference 1 has 3 lines, but reference 2 has 4");
    }
}
