//! Signature of a score: its settings in one line, which make scores comparable.
//!
//! Post (2018), "A Call for Clarity in Reporting BLEU Scores", section 3.

use std::fmt;

/// Settings of a score, in order, printed as `key:value|key:value`.
///
/// Metrics of sacreBLEU print sacreBLEU's signature, so that a score can be quoted with those of
/// other papers. Its `version` is the sacreBLEU release whose numbers are reproduced. Metrics that
/// sacreBLEU does not have print `version:tx-…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    pairs: Vec<(&'static str, String)>,
}

impl Signature {
    /// Creates a signature of `nrefs`, `pairs` and `version`. `None` prints `nrefs:var`, for a
    /// number of references that varies between lines.
    pub fn new(
        n_references: Option<usize>,
        pairs: Vec<(&'static str, String)>,
        version: &'static str,
    ) -> Self {
        let n_references = n_references.map_or("var".to_owned(), |n| n.to_string());
        let mut all = vec![("nrefs", n_references)];
        all.extend(pairs);
        all.push(("version", version.to_owned()));
        Self { pairs: all }
    }

    /// Adds the keys of resampling after the number of references.
    pub(crate) fn resampled(mut self, keys: &[(&'static str, String)]) -> Self {
        self.pairs.splice(1..1, keys.iter().cloned());
        self
    }

    /// Keys and values, in the printed order.
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
        let signature = Signature::new(None, vec![("case", "lc".into())], "1.0");
        assert_eq!(signature.to_string(), "nrefs:var|case:lc|version:1.0");
        let signature = Signature::new(Some(2), vec![("case", "lc".into())], "1.0");
        let pairs: Vec<_> = signature.pairs().collect();
        assert_eq!(pairs, [("nrefs", "2"), ("case", "lc"), ("version", "1.0")]);
        let signature = signature.resampled(&[("bs", "1000".into()), ("seed", "12345".into())]);
        assert_eq!(signature.to_string(), "nrefs:2|bs:1000|seed:12345|case:lc|version:1.0");
    }
}
