//! Label-smoothed cross-entropy: section 5.4 of the paper, Szegedy et al. 2016.
//!
//! Axis letters: `B` batch, `T` target tokens, `V` target vocabulary, `N = B · T`.

use burn::tensor::{Int, Tensor};
use tx_data::special::PAD;

/// The loss of a batch, summed over its real tokens; padding counts for nothing.
///
/// For logits `x`, the right token `y` and smoothing `ε`, a token costs
///
/// ```text
/// -Σ_v q_v log softmax(x)_v        q_v = (1 - ε) [v = y] + ε / V
/// = log Σ_v exp x_v - (1 - ε) x_y - ε mean(x)
/// ```
///
/// as in PyTorch. A sum, with the number of tokens known from the batch, lets batches of any size
/// be joined exactly: no average of averages.
///
/// # Shapes
///
/// - `logits`: `[B, T, V]`; `target`: ids `[B, T]`
/// - returns `[1]`, in nats
pub fn smoothed_cross_entropy(
    logits: Tensor<3>,
    target: Tensor<2, Int>,
    smoothing: f64,
) -> Tensor<1> {
    let [batch, len, vocabulary] = logits.dims();
    let x_nv = logits.reshape([batch * len, vocabulary]);
    let target_n1 = target.reshape([batch * len, 1]);

    // Shifted by the largest logit, no exponential overflows; the shift cancels out.
    let max_n1 = x_nv.clone().detach().max_dim(1);
    let log_sum_n1 = (x_nv.clone() - max_n1.clone()).exp().sum_dim(1).log() + max_n1;
    let right_n1 = x_nv.clone().gather(1, target_n1.clone());
    let mut loss_n1 = log_sum_n1 - right_n1 * (1.0 - smoothing);
    if smoothing > 0.0 {
        loss_n1 = loss_n1 - x_nv.mean_dim(1) * smoothing;
    }
    loss_n1.mask_fill(target_n1.equal_elem(PAD), 0.0).sum()
}

/// How many real tokens have the highest logit where they should: `[1]`, a whole number.
///
/// # Shapes
///
/// - `logits`: `[B, T, V]`; `target`: ids `[B, T]`
pub fn correct_tokens(logits: Tensor<3>, target: Tensor<2, Int>) -> Tensor<1, Int> {
    let best = logits.detach().argmax(2).squeeze_dim(2);
    let right = best.equal(target.clone()).bool_and(target.not_equal_elem(PAD));
    right.int().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, TensorData, Tolerance};

    /// V = 4, logits (0, 0, ln 2, 0), right token 2, so softmax is (1, 1, 2, 1) / 5.
    ///
    /// ```text
    /// ε = 0      ln 5 - ln 2
    /// ε = 0.1    ln 5 - 0.9 ln 2 - 0.1 · ln 2 / 4 = ln 5 - 0.925 ln 2
    /// ```
    ///
    /// The second row of the batch is padding and must not count.
    #[test]
    fn a_token_by_hand_and_padding_for_nothing() {
        let device = Device::flex();
        let ln2 = 2.0_f32.ln();
        let logits =
            Tensor::<3>::from_data([[[0.0, 0.0, ln2, 0.0]], [[9.0, -9.0, 3.0, 1.0]]], &device);
        let target = Tensor::<2, Int>::from_data([[2], [PAD as i32]], &device);
        for (smoothing, expected) in [(0.0, 5.0_f32.ln() - ln2), (0.1, 5.0_f32.ln() - 0.925 * ln2)]
        {
            let loss = smoothed_cross_entropy(logits.clone(), target.clone(), smoothing);
            let expected = TensorData::from([expected]);
            loss.into_data().assert_approx_eq::<f32>(&expected, Tolerance::default());
        }
        assert_eq!(correct_tokens(logits, target).into_scalar::<i64>(), 1);
    }

    #[test]
    fn huge_logits_stay_finite() {
        let device = Device::flex();
        let logits = Tensor::<3>::from_data([[[1e30, -1e30, 0.0]]], &device);
        let target = Tensor::<2, Int>::from_data([[1]], &device);
        let loss = smoothed_cross_entropy(logits, target, 0.0).into_scalar::<f32>();
        assert!(loss.is_finite() && loss > 1e30, "{loss}");
    }
}
