//! Weights of a log-linear model, as a TOML file.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};

use super::n_best_list::{NBestList, SCORE};
use crate::{error::InferError, file::write_whole};

/// Weights `λ_k` of features, and the tuning that found them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// Signature of the metric that the weights maximize, such as
    /// `BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Number of sentences of the validation set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentences: Option<usize>,
    /// Score of the first hypotheses of the lists, by their [`SCORE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<f64>,
    /// Score of the hypotheses that the weights select.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<f64>,
    /// Weight of each feature; features without a weight have no effect.
    pub weights: BTreeMap<String, f64>,
}

impl Weights {
    /// Weights that keep the order of a search: 1 for [`SCORE`].
    pub fn of_search() -> Self {
        Self { weights: [(SCORE.to_owned(), 1.0)].into(), ..Self::default() }
    }

    /// Reads a file of [`save`](Self::save).
    ///
    /// # Errors
    ///
    /// [`InferError::Read`]; [`InferError::Config`] if the file has another format or a weight is not
    /// finite.
    pub fn open(path: &Path) -> Result<Self, InferError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| InferError::Read { path: path.into(), source })?;
        let config = |problem| InferError::Config { path: path.into(), problem };
        let weights: Self = toml::from_str(&text).map_err(|error| config(error.to_string()))?;
        match weights.weights.iter().find(|(_, weight)| !weight.is_finite()) {
            Some((name, weight)) => {
                Err(config(format!("weight `{name}` = {weight} is not finite")))
            }
            None => Ok(weights),
        }
    }

    /// Writes the weights as TOML.
    ///
    /// # Errors
    ///
    /// [`InferError::Write`].
    pub fn save(&self, path: &Path) -> Result<(), InferError> {
        let write = |source| InferError::Write { path: path.into(), source };
        let text = toml::to_string(self).map_err(|error| write(std::io::Error::other(error)))?;
        write_whole(path, text.as_bytes()).map_err(write)
    }

    /// Returns `Σ_k λ_k h_k` of each hypothesis, with features added in alphabetical order.
    ///
    /// # Errors
    ///
    /// [`InferError::Rerank`] if the list lacks a feature.
    pub fn scores(&self, list: &NBestList) -> Result<Vec<f64>, InferError> {
        let mut scores = vec![0.0; list.entries().len()];
        for (name, weight) in &self.weights {
            let values = list.feature(name).ok_or_else(|| InferError::Rerank {
                problem: format!(
                    "the n-best list has no feature `{name}`, only `{}`",
                    list.feature_names().join("`, `")
                ),
            })?;
            scores.iter_mut().zip(values).for_each(|(score, value)| *score += weight * value);
        }
        Ok(scores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> NBestList {
        let lines =
            ["0 ||| a b ||| x= 1 ||| 5", "0 ||| c ||| x= 3 ||| 4", "1 ||| d ||| x= 0 ||| 0"];
        NBestList::parse(lines.map(|line| Ok::<_, InferError>(line.to_owned()))).unwrap()
    }

    /// 2 · 1 - 2 = 0, 2 · 3 - 1 = 5, and -1 for `d`.
    #[test]
    fn scores_are_weighted_sums() {
        let weights = Weights {
            weights: [("x".to_owned(), 2.0), ("words".to_owned(), -1.0)].into(),
            ..Weights::default()
        };
        assert_eq!(weights.scores(&list()).unwrap(), [0.0, 5.0, -1.0]);
        assert_eq!(Weights::of_search().scores(&list()).unwrap(), [5.0, 4.0, 0.0]);
        let other = Weights { weights: [("y".to_owned(), 1.0)].into(), ..Weights::default() };
        let error = other.scores(&list()).unwrap_err().to_string();
        assert!(error.contains("no feature `y`, only `x`, `score`, `words`"), "{error}");
    }

    #[test]
    fn a_file_keeps_every_digit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights.toml");
        let weights = Weights {
            metric: Some("chrF2".into()),
            sentences: Some(3),
            before: Some(0.1),
            after: Some(1.0 / 3.0),
            weights: [("x".to_owned(), 0.1 + 0.2), ("a b".to_owned(), -1e-9)].into(),
        };
        weights.save(&path).unwrap();
        assert_eq!(Weights::open(&path).unwrap(), weights);
        for (text, word) in
            [("", "weights"), ("[weights]\nx = nan", "`x` = NaN"), ("a = 1\n[weights]", "unknown")]
        {
            std::fs::write(&path, text).unwrap();
            let error = Weights::open(&path).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
