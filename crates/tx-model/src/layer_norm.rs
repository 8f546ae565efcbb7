//! Layer normalization (Ba et al. 2016) and RMSNorm (Zhang and Sennrich 2019).

use burn::{
    module::{Module, Param},
    nn::Initializer,
    tensor::{Device, Tensor},
};

use crate::{
    config::{ModelConfig, Normalization},
    kernels::{self, Norm},
};

/// Normalization of each token to mean 0 and variance 1, followed by a scale and a shift; without a
/// shift, division by the root mean square, followed by a scale.
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// Scale γ, `[d_model]`, initialized to 1.
    gamma: Param<Tensor<1>>,
    /// Shift β, `[d_model]`, initialized to 0; `None` in RMSNorm.
    beta: Option<Param<Tensor<1>>>,
    /// Added to the variance, or to the mean of the squares.
    #[module(skip)]
    epsilon: f64,
}

impl LayerNorm {
    /// Initializes the weights; `config` must have been checked.
    pub(crate) fn new(config: &ModelConfig, device: &Device) -> Self {
        Self {
            gamma: Initializer::Ones.init([config.d_model], device),
            beta: match config.normalization {
                Normalization::Layer => Some(Initializer::Zeros.init([config.d_model], device)),
                Normalization::Rms => None,
            },
            epsilon: config.norm_epsilon,
        }
    }

    /// Normalizes each token.
    ///
    /// # Shapes
    ///
    /// - `x`: `[B, L, d_model]`
    /// - returns `[B, L, d_model]`
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        kernels::layer_norm(x, self.weights())
    }

    /// Returns the weights.
    pub(crate) fn weights(&self) -> Norm {
        let beta = self.beta.as_ref().map(Param::val);
        Norm { gamma: self.gamma.val(), beta, epsilon: self.epsilon }
    }
}
