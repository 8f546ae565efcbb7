//! Loss of a batch: options, targets and result.

#[cfg(any(feature = "flex", feature = "cubecl"))]
use burn::backend::{
    Dispatch,
    tensor::{FloatTensor, IntTensor},
};
use burn::tensor::{Int, Tensor};

/// Options of [`cross_entropy()`](super::cross_entropy()).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrossEntropyConfig {
    /// Label smoothing `ε`: probability that is spread evenly over the vocabulary (section 5.4).
    pub smoothing: f64,
    /// Target id whose tokens do not count, such as padding.
    pub ignore_index: u32,
}

/// Loss of a batch, summed over the tokens that count. All tensors are `[1]`.
#[derive(Debug, Clone)]
pub struct CrossEntropy {
    /// Label-smoothed cross-entropy in nats.
    pub loss: Tensor<1>,
    /// Negative log-likelihood in nats, the same without smoothing. It has no gradient.
    pub nll: Tensor<1>,
    /// Number of tokens whose target has the highest logit.
    pub correct: Tensor<1, Int>,
}

#[cfg(any(feature = "flex", feature = "cubecl"))]
impl CrossEntropy {
    /// Wraps loss, negative log-likelihood and number of correct tokens of a kernel.
    pub(super) fn from_dispatch(
        (loss, nll, correct): (FloatTensor<Dispatch>, FloatTensor<Dispatch>, IntTensor<Dispatch>),
    ) -> Self {
        Self {
            loss: Tensor::from_dispatch(loss),
            nll: Tensor::from_dispatch(nll),
            correct: Tensor::from_dispatch(correct),
        }
    }
}

/// Target tokens of a loss.
#[derive(Debug, Clone)]
pub struct Targets {
    /// `[N]`
    pub ids: Tensor<1, Int>,
    /// Weights of the tokens, `[N]`; `None` if all are 1.
    pub weights: Option<Tensor<1>>,
}
