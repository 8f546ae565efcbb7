//! Result format shared by all metrics, for tables and JSON.

use std::fmt;

use crate::Signature;

/// Result of a metric without its counts: the content of a table row or a JSON object.
///
/// sacreBLEU's JSON object consists of `name`, `score` (= [`value`](Self::value), rounded),
/// `signature`, `verbose_score` (= [`verbose`](Self::verbose)) and one key for each of
/// [`Signature::pairs`].
///
/// `Display` prints sacreBLEU's line; the precision is its `--width`, 2 by default:
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
    /// Usual name of the metric: `BLEU`, `chrF2++`, `TER`, `CER`, `WER`, `exact match`.
    pub name: String,
    /// Score in percent. Higher is better for BLEU, chrF and exact match, lower for TER, CER and
    /// WER; an error rate may exceed 100.
    pub value: f64,
    /// Components of the score as text; empty for chrF and TER, as in sacreBLEU.
    pub verbose: String,
    /// Signature of the settings.
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
