//! One shape for the result of every metric, for tables and JSON.

use std::fmt;

use crate::Signature;

/// A metric's result without its inner counts: all that a table row or a JSON object needs.
///
/// sacreBLEU's JSON object is `name`, `score` (= [`value`](Self::value), rounded), `signature`,
/// `verbose_score` (= [`verbose`](Self::verbose)) and one more key for each of
/// [`Signature::pairs`].
///
/// `Display` is the line that sacreBLEU prints; the precision is its `--width`, 2 if not given:
///
/// ```
/// use tx_eval::cer;
///
/// let score = cer(&["abxd"], &["abcd"])?.summary();
/// assert_eq!(score.to_string(), "CER = 25.00 (edits = 1 ref_len = 4)");
/// assert_eq!(format!("{score:.1}"), "CER = 25.0 (edits = 1 ref_len = 4)");
/// # Ok::<(), tx_eval::ScoreError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// The metric's name in the field: `BLEU`, `chrF2++`, `TER`, `CER`, `WER`, `exact match`.
    pub name: String,
    /// The score in percent. Higher is better for BLEU, chrF and exact match, lower for TER, CER and
    /// WER; an error rate may exceed 100.
    pub value: f64,
    /// What the value was computed from, in words and numbers; empty for chrF and TER, as for
    /// sacreBLEU.
    pub verbose: String,
    /// What the value was computed with.
    pub signature: Signature,
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(f, "{} = {:.digits$}", self.name, self.value)?;
        if !self.verbose.is_empty() {
            write!(f, " {}", self.verbose)?;
        }
        Ok(())
    }
}
