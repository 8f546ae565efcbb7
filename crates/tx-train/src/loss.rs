//! Label-smoothed cross-entropy: section 5.4 of the paper, Szegedy et al. 2016.
//!
//! Axis letters: `B` batch, `T` target tokens, `V` target vocabulary.

use burn::tensor::{Int, Tensor};
use tx_model::kernels::{self, CrossEntropyConfig};
use tx_text::special::PAD;

use crate::task::BatchLoss;

/// Label-smoothed cross-entropy of a batch, without padding. [`kernels::cross_entropy`] gives the
/// formula, which is PyTorch's.
///
/// # Shapes
///
/// - `logits`: `[B, T, V]`; `target`: ids `[B, T]`
pub fn smoothed_cross_entropy(
    logits: Tensor<3>,
    target: Tensor<2, Int>,
    smoothing: f64,
) -> BatchLoss {
    let [batch, len, vocabulary] = logits.dims();
    let logits = logits.reshape([batch * len, vocabulary]);
    let target = target.reshape([batch * len]);
    let config = CrossEntropyConfig { smoothing, ignore_index: PAD };
    let (sum, correct) = kernels::cross_entropy(logits, target, config);
    BatchLoss { sum, correct }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, TensorData, Tolerance};

    /// V = 4, logits (0, 0, ln 2, 0), target 2, so that softmax is (1, 1, 2, 1) / 5.
    ///
    /// ```text
    /// ε = 0      ln 5 - ln 2
    /// ε = 0.1    ln 5 - 0.9 ln 2 - 0.1 · ln 2 / 4 = ln 5 - 0.925 ln 2
    /// ```
    ///
    /// The second row of the batch is padding and has no effect.
    #[test]
    fn padding_adds_nothing_to_the_loss_of_a_token() {
        let device = Device::flex();
        let ln2 = 2.0_f32.ln();
        let logits =
            Tensor::<3>::from_data([[[0.0, 0.0, ln2, 0.0]], [[9.0, -9.0, 3.0, 1.0]]], &device);
        let target = Tensor::<2, Int>::from_data([[2], [PAD as i32]], &device);
        for (smoothing, expected) in [(0.0, 5.0_f32.ln() - ln2), (0.1, 5.0_f32.ln() - 0.925 * ln2)]
        {
            let loss = smoothed_cross_entropy(logits.clone(), target.clone(), smoothing);
            let expected = TensorData::from([expected]);
            loss.sum.into_data().assert_approx_eq::<f32>(&expected, Tolerance::default());
            assert_eq!(loss.correct.into_scalar::<i64>(), 1);
        }
    }

    #[test]
    fn the_loss_of_huge_logits_is_finite() {
        let device = Device::flex();
        let logits = Tensor::<3>::from_data([[[1e30, -1e30, 0.0]]], &device);
        let target = Tensor::<2, Int>::from_data([[1]], &device);
        let loss = smoothed_cross_entropy(logits, target, 0.0).sum.into_scalar::<f32>();
        assert!(loss.is_finite() && loss > 1e30, "{loss}");
    }
}
