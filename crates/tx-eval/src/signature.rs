//! What a score was computed with, in one line: the reason two BLEU scores can be compared.
//!
//! Post (2018), "A Call for Clarity in Reporting BLEU Scores", section 3.

use std::fmt;

/// The settings behind a score, in order, shown as `key:value|key:value`.
///
/// Metrics that reproduce sacreBLEU print sacreBLEU's own string, so that a score can be quoted
/// beside those of other papers; there, `version` names the sacreBLEU release whose numbers are
/// reproduced. Metrics that sacreBLEU does not have carry `version:tx-…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    pairs: Vec<(&'static str, String)>,
}

impl Signature {
    pub(crate) fn new(pairs: Vec<(&'static str, String)>) -> Self {
        Self { pairs }
    }

    /// Keys and values, in the order in which they are printed.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(key, value)| (*key, value.as_str()))
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (key, value)) in self.pairs().enumerate() {
            let separator = if index == 0 { "" } else { "|" };
            write!(f, "{separator}{key}:{value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_keep_their_order() {
        let signature = Signature::new(vec![("nrefs", "1".into()), ("case", "lc".into())]);
        assert_eq!(signature.to_string(), "nrefs:1|case:lc");
        assert_eq!(signature.pairs().collect::<Vec<_>>(), [("nrefs", "1"), ("case", "lc")]);
    }
}
