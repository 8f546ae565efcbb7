//! Quality of a calibration on translations with references.

use tx_eval::{Chrf, Corpus, Metric};

use super::Units;
use crate::{
    calibration::Calibration, error::InferError, pair_tokenizer::PairTokenizer,
    translator::Translation,
};

/// Bins of the expected calibration error.
const BINS: usize = 10;

/// Quality of a calibration.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Reliability {
    /// Number of words.
    pub words: usize,
    /// Number of words that are right.
    pub right: usize,
    /// Expected calibration error of the model's probabilities of words (Naeini et al. 2015): the mean distance of
    /// probability and share of right words in ten bins of equal width, weighted by their words.
    pub raw_error: f64,
    /// Expected calibration error of the confidence.
    pub error: f64,
    /// Pearson correlation of the score of translations with their chrF.
    pub raw_correlation: f64,
    /// Pearson correlation of the confidence in translations with their chrF.
    pub correlation: f64,
}

impl Reliability {
    pub(super) fn new(
        calibration: &Calibration,
        units: &[Units],
        translations: &[Translation],
        references: &[impl AsRef<str>],
        texts: &PairTokenizer,
    ) -> Result<Self, InferError> {
        let (mut raw, mut calibrated) = (Bins::default(), Bins::default());
        let mut confidences = Vec::with_capacity(units.len());
        for (units, reference) in units.iter().zip(references) {
            for ((_, features), is_right) in
                units.words.iter().zip(units.found_in(reference.as_ref(), texts)?)
            {
                let model = Calibration { word: 1.0, sentence: 0.0, bias: 0.0 };
                raw.add(model.probability(*features), is_right);
                calibrated.add(calibration.probability(*features), is_right);
            }
            confidences.push(units.confidence(calibration).probability);
        }
        let score = |it: &Translation| it.hypotheses.first().map(|best| best.hypothesis.score);
        let scores: Vec<f64> =
            translations.iter().map(|it| score(it).map_or(0.0, f64::from)).collect();
        let hypotheses: Vec<&str> = translations.iter().map(|it| &*it.text).collect();
        let references: Vec<&str> = references.iter().map(AsRef::as_ref).collect();
        let chrf = Corpus::new(&hypotheses, &[references]).and_then(|corpus| {
            let metric = Chrf::default();
            Ok(metric.line_scores(&metric.statistics(&corpus)?))
        });
        let chrf =
            chrf.map_err(|error| InferError::Search { problems: vec![error.to_string()] })?;
        Ok(Self {
            words: raw.count(),
            right: raw.right(),
            raw_error: raw.error(),
            error: calibrated.error(),
            raw_correlation: pearson(&scores, &chrf),
            correlation: pearson(&confidences, &chrf),
        })
    }
}

/// Words by their probability.
#[derive(Debug, Default)]
struct Bins([Bin; BINS]);

#[derive(Debug, Default, Clone, Copy)]
struct Bin {
    words: usize,
    right: usize,
    /// Sum of the probabilities.
    sum: f64,
}

impl Bins {
    fn add(&mut self, probability: f64, is_right: bool) {
        let bin = &mut self.0[((probability * BINS as f64) as usize).min(BINS - 1)];
        bin.words += 1;
        bin.right += usize::from(is_right);
        bin.sum += probability;
    }

    fn count(&self) -> usize {
        self.0.iter().map(|bin| bin.words).sum()
    }

    fn right(&self) -> usize {
        self.0.iter().map(|bin| bin.right).sum()
    }

    fn error(&self) -> f64 {
        let gaps: f64 = self.0.iter().map(|bin| (bin.sum - bin.right as f64).abs()).sum();
        gaps / self.count().max(1) as f64
    }
}

/// Pearson correlation; 0 if one of the lists is constant.
fn pearson(a: &[f64], b: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        a.iter().zip(b).map(|(a, b)| of(a - mean_a, b - mean_b)).sum()
    };
    let (ab, aa, bb) = (sum(&|a, b| a * b), sum(&|a, _| a * a), sum(&|_, b| b * b));
    if aa * bb > 0.0 { ab / (aa * bb).sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three words with 0.9, two of them right, and one with 0.2 that is wrong: (|2.7 - 2| + |0.2 - 0|) / 4.
    #[test]
    fn the_calibration_error_is_the_mean_gap_of_the_bins() {
        let mut bins = Bins::default();
        for (probability, is_right) in [(0.9, true), (0.9, true), (0.9, false), (0.2, false)] {
            bins.add(probability, is_right);
        }
        assert!((bins.error() - 0.225).abs() < 1e-12, "{}", bins.error());
        assert_eq!((bins.count(), bins.right()), (4, 2));
        bins.add(1.0, true);
        assert!((bins.error() - 0.18).abs() < 1e-12);
        assert_eq!(Bins::default().error(), 0.0);
    }

    #[test]
    fn correlations_are_those_of_pearson() {
        assert!((pearson(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]) - 1.0).abs() < 1e-12);
        // Deviations (-1, 0, 1) and (1, -2, 1): 0.
        assert_eq!(pearson(&[1.0, 2.0, 3.0], &[3.0, 0.0, 3.0]), 0.0);
        // Deviations (-1, 0, 1) and (-2, 1, 1): 3 / sqrt(2 · 6).
        assert!(
            (pearson(&[1.0, 2.0, 3.0], &[0.0, 3.0, 3.0]) - 3.0 / 12.0_f64.sqrt()).abs() < 1e-12
        );
        assert_eq!(pearson(&[1.0, 1.0], &[0.0, 3.0]), 0.0);
    }
}
