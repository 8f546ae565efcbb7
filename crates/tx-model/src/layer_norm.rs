//! Layer normalization (Ba et al. 2016).

use burn::{
    module::{Module, Param},
    nn::Initializer,
    tensor::{Device, Tensor},
};

use crate::{config::ModelConfig, kernels};

/// Normalization of each token to mean 0 and variance 1, followed by a scale and a shift.
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// Scale γ, `[d_model]`, initialized to 1.
    gamma: Param<Tensor<1>>,
    /// Shift β, `[d_model]`, initialized to 0.
    beta: Param<Tensor<1>>,
    /// Added to the variance.
    #[module(skip)]
    epsilon: f64,
}

impl LayerNorm {
    /// Initializes the weights; `config` must have been checked.
    pub(crate) fn new(config: &ModelConfig, device: &Device) -> Self {
        Self {
            gamma: Initializer::Ones.init([config.d_model], device),
            beta: Initializer::Zeros.init([config.d_model], device),
            epsilon: config.norm_epsilon,
        }
    }

    /// Normalizes each token, then scales and shifts it.
    ///
    /// # Shapes
    ///
    /// - `x`: `[B, L, d_model]`
    /// - returns `[B, L, d_model]`
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        kernels::layer_norm(x, self.gamma.val(), self.beta.val(), self.epsilon)
    }
}
