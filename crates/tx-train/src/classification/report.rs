//! Result of the validation of a classifier: accuracy, F1 scores, confusion matrix.

use serde::{Deserialize, Serialize};

use crate::{
    config::BestBy,
    recording::metrics::null_as_nan,
    translation::validation::rank,
    validation_report::{Figure, Format, SampleOutput, Table, ValidationReport},
};

/// Maximum number of classes of a confusion matrix on the report page.
const SHOWN_CLASSES: usize = 40;

/// Result of the validation of a classifier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassificationReport {
    /// Loss in nats per text, without smoothing and class weights.
    #[serde(deserialize_with = "null_as_nan")]
    pub loss: f64,
    /// Fraction of texts classified correctly.
    pub accuracy: f64,
    /// Mean of the F1 scores of the classes that occur in the validation texts or in the
    /// predictions, in `0.0..=1.0`.
    pub macro_f1: f64,
    /// Labels of the classes.
    pub labels: Vec<String>,
    /// Number of texts by class, and by predicted class within it: `[classes, classes]`.
    pub confusion: Vec<Vec<usize>>,
    /// First texts.
    pub samples: Vec<ClassifiedSample>,
    /// Seconds that the validation took.
    #[serde(rename = "validation_seconds")]
    pub seconds: f64,
}

/// Validation text with its label and the predicted one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassifiedSample {
    /// Text.
    pub text: String,
    /// Label.
    pub label: String,
    /// Predicted label.
    pub predicted: String,
    /// Probability of the predicted label.
    pub probability: f64,
}

impl ClassificationReport {
    /// Returns the sort key of the model, higher is better: the chosen metric, then the negated
    /// loss. Metrics of other tasks count as the loss.
    pub fn rank(&self, by: BestBy) -> (f64, f64) {
        let first = match by {
            BestBy::Loss | BestBy::Bleu | BestBy::Chrf | BestBy::ExactMatch => -self.loss,
            BestBy::Accuracy => self.accuracy,
            BestBy::MacroF1 => self.macro_f1,
        };
        rank(first, self.loss)
    }
}

impl ValidationReport for ClassificationReport {
    const FIGURE: &'static str = "macro F1";
    const UNIT: &'static str = "text";

    fn figure(&self) -> f64 {
        self.macro_f1
    }

    fn figures(&self) -> Vec<Figure> {
        let macro_f1 =
            Figure::new("macro_f1", "macro F1", "Macro F1", self.macro_f1, Format::Fraction);
        let mut figures =
            Figure::of_every_task(self.loss, self.perplexity(), self.accuracy).to_vec();
        figures.push(macro_f1);
        figures
    }

    fn perplexity(&self) -> f64 {
        self.loss.exp()
    }

    fn seconds(&self) -> f64 {
        self.seconds
    }

    fn samples(&self) -> Vec<SampleOutput<'_>> {
        let outputs = self.samples.iter().map(|sample| SampleOutput {
            given: vec![("text", &*sample.text), ("label", &*sample.label)],
            output: (
                "prediction",
                format!("{} ({:.3})", sample.predicted, sample.probability).into(),
            ),
            attention: None,
        });
        outputs.collect()
    }

    fn tables(&self) -> Vec<Table> {
        let classes = f1_scores(&self.confusion);
        let mut scores =
            vec![["label", "texts", "precision", "recall", "F1"].map(str::to_owned).to_vec()];
        for (label, class) in self.labels.iter().zip(&classes) {
            let percent = |value: f64| format!("{:.2} %", 100.0 * value);
            scores.push(vec![
                label.clone(),
                class.texts.to_string(),
                percent(class.precision),
                percent(class.recall),
                percent(class.f1),
            ]);
        }
        let mut tables = vec![Table { title: "Classes of the best model", rows: scores }];
        if self.labels.len() <= SHOWN_CLASSES {
            let mut rows = vec![vec!["label / predicted".to_owned()]];
            rows[0].extend(self.labels.iter().cloned());
            for (label, counts) in self.labels.iter().zip(&self.confusion) {
                let counts = counts.iter().map(usize::to_string);
                rows.push([label.clone()].into_iter().chain(counts).collect());
            }
            tables.push(Table { title: "Confusion matrix of the best model", rows });
        }
        tables
    }
}

/// Scores of a class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ClassScores {
    /// Number of texts of the class.
    pub texts: usize,
    /// Number of texts predicted to be of the class.
    pub predicted: usize,
    /// Fraction of these that are of the class; 0 without any.
    pub precision: f64,
    /// Fraction of the texts of the class that are predicted so; 0 without any.
    pub recall: f64,
    /// Harmonic mean of precision and recall: `2 correct / (texts + predicted)`; 0 without any.
    pub f1: f64,
}

/// Computes the scores of each class.
pub(super) fn f1_scores(confusion: &[Vec<usize>]) -> Vec<ClassScores> {
    let ratio = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
    let scores = |class: usize| {
        let count = |row: &Vec<usize>| row.get(class).copied().unwrap_or(0);
        let texts: usize = confusion[class].iter().sum();
        let predicted: usize = confusion.iter().map(count).sum();
        let correct = count(&confusion[class]);
        ClassScores {
            texts,
            predicted,
            precision: ratio(correct, predicted),
            recall: ratio(correct, texts),
            f1: ratio(2 * correct, texts + predicted),
        }
    };
    (0..confusion.len()).map(scores).collect()
}

/// Computes the mean F1 score of the classes that occur in the texts or in the predictions, as
/// scikit-learn's `f1_score(average="macro")`.
pub(super) fn macro_f1(confusion: &[Vec<usize>]) -> f64 {
    let scores = f1_scores(confusion);
    let occurring: Vec<f64> = scores
        .iter()
        .filter(|class| class.texts + class.predicted > 0)
        .map(|class| class.f1)
        .collect();
    occurring.iter().sum::<f64>() / occurring.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three classes: 5 texts, of which 4 are right and 1 is taken for class 1; 3 texts, of which 2
    /// are right and 1 is taken for class 0; and a class without texts and predictions.
    ///
    /// ```text
    /// F1 of class 0   2·4 / (5 + 5) = 0.8
    /// F1 of class 1   2·2 / (3 + 3) = 2/3
    /// ```
    #[test]
    fn scores_by_hand() {
        let confusion = vec![vec![4, 1, 0], vec![1, 2, 0], vec![0, 0, 0]];
        let scores = f1_scores(&confusion);
        assert_eq!((scores[0].precision, scores[0].recall, scores[0].f1), (0.8, 0.8, 0.8));
        assert_eq!((scores[1].texts, scores[1].predicted), (3, 3));
        assert_eq!(scores[2].f1, 0.0);
        assert!((macro_f1(&confusion) - (0.8 + 2.0 / 3.0) / 2.0).abs() < 1e-12);
        assert_eq!(macro_f1(&[vec![0, 0], vec![0, 0]]), 0.0);
    }
}
