//! Classifier with its training loss, as Burn's Learner and the training loop require it.
//!
//! Axis letters: `B` batch, `C` classes.

use burn::{
    module::Module,
    tensor::{Device, Int, Tensor, activation::log_softmax},
};
use tx_data::ClassificationBatch;
use tx_model::Classifier;

use crate::learner_steps::learner_steps;
use crate::task::{Batch, BatchLoss, StepOutput, Trainable};

/// Classifier with the settings of its training loss.
#[derive(Module, Debug)]
pub struct TrainedClassifier {
    /// Model.
    pub model: Classifier,
    #[module(skip)]
    label_smoothing: f64,
    /// Weight of each class; all 1 if empty.
    #[module(skip)]
    class_weights: Vec<f32>,
}

impl TrainedClassifier {
    /// Wraps a model for training. Texts of a class count `class_weights` times in the loss; without
    /// weights, all count once.
    pub fn new(model: Classifier, label_smoothing: f64, class_weights: Vec<f32>) -> Self {
        Self { model, label_smoothing, class_weights }
    }
}

impl Trainable for TrainedClassifier {
    type Plain = Classifier;

    fn of_plain(model: Classifier) -> Self {
        Self::new(model, 0.0, Vec::new())
    }

    fn into_plain(self) -> Classifier {
        self.model
    }

    fn loss(&self, batch: ClassificationBatch) -> BatchLoss {
        let logits = self.model.forward(batch.ids, batch.blocked);
        class_loss(logits, batch.classes, self.label_smoothing, &self.class_weights)
    }

    fn validation_loss(&self, batch: ClassificationBatch) -> BatchLoss {
        class_loss(self.model.forward(batch.ids, batch.blocked), batch.classes, 0.0, &[])
    }
}

learner_steps!(TrainedClassifier, ClassificationBatch);

impl Batch for ClassificationBatch {
    fn token_counts(&self) -> StepOutput {
        let Self { tokens, examples, .. } = *self;
        StepOutput { source_tokens: tokens, target_tokens: examples, ..StepOutput::default() }
    }

    fn to_device(self, device: &Device) -> Self {
        Self::to_device(self, device)
    }
}

/// Label-smoothed cross-entropy of classes, summed over the batch.
///
/// For logits `x`, class `t`, smoothing `ε` and class weights `w`, the loss of a text is
/// `-w_t Σ_c q_c log softmax(x)_c` with `q_c = (1 - ε) [c = t] + ε / C`. `weights` is empty if all
/// are 1.
///
/// # Shapes
///
/// - `logits`: `[B, C]`; `classes`: `[B]`
pub(super) fn class_loss(
    logits: Tensor<2>,
    classes: Tensor<1, Int>,
    smoothing: f64,
    weights: &[f32],
) -> BatchLoss {
    let [batch, _] = logits.dims();
    let device = logits.device();
    let correct = logits.clone().argmax(1).reshape([batch]).equal(classes.clone()).int().sum();
    let log_probs = log_softmax(logits, 1);
    let of_class = log_probs.clone().gather(1, classes.clone().reshape([batch, 1]));
    let nll = of_class.clone().detach().sum().neg();
    let expected =
        of_class.mul_scalar(1.0 - smoothing) + log_probs.mean_dim(1).mul_scalar(smoothing);
    let losses = expected.neg().reshape([batch]);
    let losses = match weights {
        [] => losses,
        weights => losses * Tensor::<1>::from_floats(weights, &device).select(0, classes),
    };
    BatchLoss { sum: losses.sum(), nll, correct }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{TensorData, Tolerance};

    use super::*;

    /// C = 3, logits (0, ln 2, 0) for class 1 and (ln 2, 0, 0) for class 2: softmax (1, 2, 1) / 4
    /// and (2, 1, 1) / 4.
    ///
    /// ```text
    /// ε = 0        ln 4 - ln 2, ln 4
    /// ε = 0.3      ln 4 - 0.7 ln 2 - 0.1 ln 2, ln 4 - 0.1 ln 2
    /// ```
    #[test]
    fn the_loss_of_classes_by_hand() {
        let device = Device::flex();
        let ln2 = 2.0_f32.ln();
        let logits = Tensor::<2>::from_data([[0.0, ln2, 0.0], [ln2, 0.0, 0.0]], &device);
        let classes = Tensor::<1, Int>::from_data([1, 2], &device);
        for (smoothing, weights, expected) in [
            (0.0, &[][..], 3.0 * ln2),
            (0.3, &[][..], 3.1 * ln2),
            (0.0, &[9.0, 3.0, 0.5][..], 3.0 * ln2 + 0.5 * 2.0 * ln2),
        ] {
            let loss = class_loss(logits.clone(), classes.clone(), smoothing, weights);
            let expected = TensorData::from([expected]);
            loss.sum.into_data().assert_approx_eq::<f32>(&expected, Tolerance::default());
            assert_eq!(loss.correct.into_scalar::<i64>(), 1);
        }
    }
}
