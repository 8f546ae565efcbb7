//! The residual connection around every sub-layer: section 3.1 of the paper.

use burn::{
    module::Module,
    tensor::{Device, Tensor},
};

use crate::{
    config::{ModelConfig, NormPlacement},
    dropout::Dropout,
    kernels::{self, LinearOutput},
    layer_norm::LayerNorm,
};

/// Residual connection around a sub-layer: sum, layer normalization and dropout in the order of
/// [`NormPlacement`].
#[derive(Module, Debug)]
pub struct Residual {
    pub(crate) norm: LayerNorm,
    dropout: Dropout,
    #[module(skip)]
    placement: NormPlacement,
}

impl Residual {
    /// Creates the connection, with dropout `rate` on the output of the sub-layer.
    pub(crate) fn new(config: &ModelConfig, rate: f64, device: &Device) -> Self {
        let norm = LayerNorm::new(config, device);
        Self { norm, dropout: Dropout::new(rate), placement: config.norm }
    }

    /// Returns the input of the sub-layer: `x`, normalized in pre-norm.
    ///
    /// # Shapes
    ///
    /// - `x`: `[B, L, d_model]`
    /// - returns `[B, L, d_model]`
    pub fn enter(&self, x: Tensor<3>) -> Tensor<3> {
        match self.placement {
            NormPlacement::Pre => self.norm.forward(x),
            NormPlacement::Post | NormPlacement::PostFinal | NormPlacement::SublayerOutput => x,
        }
    }

    /// Adds the output `y` of the sub-layer to its input `x`.
    ///
    /// # Shapes
    ///
    /// - `x` and `y`: `[B, L, d_model]`
    /// - returns `[B, L, d_model]`
    pub fn leave(&self, x: Tensor<3>, y: impl Into<LinearOutput>) -> Tensor<3> {
        let mask = self.dropout.sample(&x.device());
        match self.placement {
            NormPlacement::Pre => kernels::residual(x, y, mask),
            NormPlacement::Post | NormPlacement::PostFinal => {
                kernels::residual_norm(x, y, mask, self.norm.weights())
            }
            NormPlacement::SublayerOutput => {
                kernels::residual(x, self.norm.forward(y.into().sum()), mask)
            }
        }
    }
}

/// Norm after a whole stack, if the configuration has one.
pub(crate) fn final_norm(config: &ModelConfig, device: &Device) -> Option<LayerNorm> {
    config.norm.has_final_norm().then(|| LayerNorm::new(config, device))
}

/// Dropout rate after all sub-layers except the encoder's self-attention.
pub(crate) fn residual_dropout(config: &ModelConfig) -> f64 {
    match config.norm {
        NormPlacement::Pre | NormPlacement::Post | NormPlacement::PostFinal => {
            config.dropout.residual
        }
        NormPlacement::SublayerOutput => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{TensorData, Tolerance};

    /// x = (1, 3), f(x) = 2x. Normalized, any (a, b) with a < b is (-1, 1).
    ///
    /// ```text
    /// pre              x + 2 norm(x) = (1 - 2, 3 + 2)
    /// post             norm(3x)      = (-1, 1)
    /// sublayer-output  x + norm(2x)  = (1 - 1, 3 + 1)
    /// ```
    #[test]
    fn each_placement_by_hand() {
        let device = Device::flex();
        for (norm, expected) in [
            (NormPlacement::Pre, [-1.0_f32, 5.0]),
            (NormPlacement::Post, [-1.0, 1.0]),
            (NormPlacement::PostFinal, [-1.0, 1.0]),
            (NormPlacement::SublayerOutput, [0.0, 4.0]),
        ] {
            let config = ModelConfig { d_model: 2, norm, ..ModelConfig::default() };
            let residual = Residual::new(&config, 0.0, &device);
            let x = Tensor::<3>::from_data([[[1.0, 3.0]]], &device);
            let y = residual.leave(x.clone(), residual.enter(x) * 2.0);
            // 1e-5 is added to the variance, here 1 or more.
            y.into_data().assert_approx_eq::<f32>(
                &TensorData::from([[expected]]),
                Tolerance::absolute(2e-5),
            );
        }
    }
}
