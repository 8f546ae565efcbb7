//! Terminology accuracy of translations.

use std::sync::Arc;

use tx_eval::{Corpus, Metric, ScoreError, SegmentStatistics, Signature};

use super::{Glossary, TermCount};

/// Share of the terms in the sources that are translated as in a glossary, in percent. Each translation in a target
/// counts for one term. References do not matter.
#[derive(Debug, Clone)]
pub struct TermAccuracy {
    /// The glossary.
    pub glossary: Arc<Glossary>,
    /// Sources of the hypotheses, line by line.
    pub sources: Vec<String>,
}

impl Metric for TermAccuracy {
    fn name(&self) -> String {
        "terms".into()
    }

    fn higher_is_better(&self) -> bool {
        true
    }

    fn signature(&self, n_references: Option<usize>) -> Signature {
        let entries = self.glossary.entries().len().to_string();
        Signature::new(
            n_references,
            vec![("entries", entries)],
            concat!("tx-", env!("CARGO_PKG_VERSION")),
        )
    }

    fn statistics(&self, corpus: &Corpus<'_>) -> Result<SegmentStatistics, ScoreError> {
        let lines = corpus.lines().zip(&self.sources).map(|((hypothesis, _), source)| {
            let TermCount { terms, translated } = self.glossary.count(source, hypothesis);
            vec![terms as f64, translated as f64]
        });
        SegmentStatistics::new(corpus, lines)
    }

    fn formula(&self, sum: &[f64]) -> f64 {
        match sum {
            [terms, translated] if *terms > 0.0 => 100.0 * translated / terms,
            _ => 100.0,
        }
    }

    fn verbose(&self, sum: &[f64]) -> String {
        match sum {
            [terms, translated] => format!("{translated}/{terms}"),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_terms_count() {
        let glossary = Glossary::new([("Hund", "dog"), ("Katze", "cat")]).unwrap();
        let sources = ["Hund und Katze", "Maus", "Hund"].map(String::from).to_vec();
        let metric = TermAccuracy { glossary: glossary.into(), sources };
        let hypotheses = ["a dog and a mouse", "a dog", "dog"];
        let corpus = Corpus::new(&hypotheses, &[[""; 3]]).unwrap();
        let score = metric.evaluate(&corpus).unwrap();
        assert_eq!((score.value, &*score.verbose), (200.0 / 3.0, "2/3"));
        let statistics = metric.statistics(&corpus).unwrap();
        assert_eq!(metric.line_scores(&statistics), [50.0, 100.0, 100.0]);
    }
}
