//! Confidence: the probability that a word of a translation is right.
//!
//! The probabilities of a model are not those of its words being right: label smoothing makes them too small, and text
//! that differs from the training text too large. A [`Calibration`] maps them to the share of words that a
//! reference has, by logistic regression on translations of a validation set (Platt 1999; Guo et al. 2017).

mod reliability;
mod units;

use crate::{
    calibration::Calibration,
    cancellation::Cancellation,
    error::InferError,
    translator::{Line, Translation, Translator},
};
pub use reliability::Reliability;
pub(crate) use units::Units;

/// Confidence in a translation.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Confidence {
    /// Expected share of words that are right: the mean over the words; 1 without words.
    pub probability: f64,
    /// Words of the translation in order, with the punctuation marks next to them; in scripts without spaces, tokens.
    pub words: Vec<WordConfidence>,
}

/// Confidence in a word.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct WordConfidence {
    /// The word.
    pub word: String,
    /// Probability that a reference has the word.
    pub probability: f64,
}

impl Translator {
    /// Returns the confidence in the best hypotheses of `translations`, which are those of `lines`, until
    /// `cancellation` is set: one more pass of the decoder over each.
    ///
    /// # Errors
    ///
    /// [`InferError::NotCalibrated`] if the bundle has no calibration; otherwise the same as
    /// [`score_with`](Self::score_with).
    pub fn confidences(
        &self,
        lines: &[Line<'_>],
        translations: &[Translation],
        cancellation: &Cancellation,
    ) -> Result<Vec<Confidence>, InferError> {
        let calibration = self.calibration().ok_or(InferError::NotCalibrated)?;
        let units = self.units(lines, translations, cancellation)?;
        Ok(units.iter().map(|units| units.confidence(&calibration)).collect())
    }

    /// Returns the words of the best hypotheses with their features.
    fn units(
        &self,
        lines: &[Line<'_>],
        translations: &[Translation],
        cancellation: &Cancellation,
    ) -> Result<Vec<Units>, InferError> {
        let ids = translations.iter().map(|translation| match translation.hypotheses.first() {
            Some(best) => best.hypothesis.ids.clone(),
            None => Vec::new(),
        });
        let ids: Vec<Vec<u32>> = ids.collect();
        let scores = self.score_ids(lines, ids, cancellation)?;
        scores.iter().map(|score| Units::new(score, self.texts())).collect()
    }

    /// Fits the calibration of the model to translations of `lines`, with a reference for each.
    ///
    /// # Errors
    ///
    /// [`InferError::Calibration`] if all words are right, or none; otherwise the same as [`score`](Self::score).
    pub fn calibrate(
        &self,
        lines: &[Line<'_>],
        translations: &[Translation],
        references: &[impl AsRef<str>],
    ) -> Result<Calibration, InferError> {
        let mut words = Vec::new();
        let units = self.units(lines, translations, &Cancellation::new())?;
        for (units, reference) in units.iter().zip(references) {
            let is_right = units.found_in(reference.as_ref(), self.texts())?;
            words.extend(units.words.iter().map(|(_, features)| *features).zip(is_right));
        }
        Calibration::fit(&words)
    }

    /// Measures a calibration on translations of `lines`, with a reference for each.
    ///
    /// # Errors
    ///
    /// Same as [`score`](Self::score).
    pub fn reliability(
        &self,
        calibration: &Calibration,
        lines: &[Line<'_>],
        translations: &[Translation],
        references: &[impl AsRef<str>],
    ) -> Result<Reliability, InferError> {
        let units = self.units(lines, translations, &Cancellation::new())?;
        Reliability::new(calibration, &units, translations, references, self.texts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// σ(0) = 1/2 and σ(ln 3) = 3/4.
    #[test]
    fn confidences_are_calibrated_log_odds() {
        let calibration = Calibration { word: 0.5, sentence: 1.0, bias: 2.0 };
        let words = [("a", [0.0, -2.0, 1.0]), ("b", [2.0 * 3.0_f64.ln(), -2.0, 1.0])];
        let units = Units { words: words.map(|(word, features)| (word.into(), features)).into() };
        let Confidence { probability, words } = units.confidence(&calibration);
        assert!((words[0].probability - 0.5).abs() < 1e-12, "{words:?}");
        assert!((words[1].probability - 0.75).abs() < 1e-12, "{words:?}");
        assert!((probability - 0.625).abs() < 1e-12);
        assert_eq!(Units { words: vec![] }.confidence(&calibration).probability, 1.0);
    }
}
