//! Calibration of the probabilities of words.

mod fit;

use serde::{Deserialize, Serialize};

use fit::logistic;

use crate::error::InferError;

/// Largest log-odds of a word before calibration.
pub(crate) const LARGEST: f64 = 12.0;

/// Calibration of a model: with `p` the probability of a word and `m` the mean log-probability of the tokens of its
/// translation, the word is right with probability `σ(word · ln(p / (1 - p)) + sentence · m + bias)`. `1 / word` is the
/// temperature.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Weight of the log-odds of the word.
    pub word: f64,
    /// Weight of the mean log-probability of a token.
    pub sentence: f64,
    /// Constant term.
    pub bias: f64,
}

/// Features of a word: the factors of [`Calibration::word`], [`Calibration::sentence`] and [`Calibration::bias`].
pub(crate) type Features = [f64; 3];

impl Calibration {
    /// Returns the problem of values that are not finite.
    pub(crate) fn problem(&self) -> Option<String> {
        let Self { word, sentence, bias } = *self;
        let is_finite = [word, sentence, bias].iter().all(|value| value.is_finite());
        (!is_finite).then(|| "`calibration` has a value that is not finite".into())
    }

    /// Fits the calibration to words and whether they are right, by the largest likelihood.
    ///
    /// # Errors
    ///
    /// [`InferError::Calibration`] if all words are right, or none.
    pub(crate) fn fit(words: &[(Features, bool)]) -> Result<Self, InferError> {
        let right = words.iter().filter(|(_, is_right)| *is_right).count();
        if right == 0 || right == words.len() {
            return Err(InferError::Calibration { words: words.len(), right });
        }
        let [word, sentence, bias] = logistic(words);
        Ok(Self { word, sentence, bias })
    }

    /// Probability that a word with these features is right.
    pub(crate) fn probability(&self, [word, sentence, constant]: Features) -> f64 {
        let logit = self.word * word + self.sentence * sentence + self.bias * constant;
        1.0 / (1.0 + (-logit).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_all_right_have_no_calibration() {
        for is_right in [true, false] {
            let error = Calibration::fit(&[([0.0, 0.0, 1.0], is_right); 3]).unwrap_err();
            assert!(error.to_string().contains("of 3 words"), "{error}");
        }
        assert!(Calibration::fit(&[]).is_err());
    }
}
