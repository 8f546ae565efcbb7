//! The residual connection around every sub-layer: section 3.1 of the paper.

use burn::{
    module::Module,
    nn::{LayerNorm, LayerNormConfig},
    tensor::{Device, Tensor},
};

use crate::{
    config::{ModelConfig, NormPlacement},
    dropout::Dropout,
    formulas::NORM_EPSILON,
    kernels,
};

/// Joins a sub-layer to its input: residual sum, layer normalisation and dropout in the order that
/// [`NormPlacement`] says.
#[derive(Module, Debug)]
pub struct Residual {
    norm: LayerNorm,
    dropout: Dropout,
    #[module(skip)]
    placement: NormPlacement,
}

impl Residual {
    /// `share` is dropped from the sub-layer's output in training.
    pub(crate) fn new(config: &ModelConfig, share: f64, device: &Device) -> Self {
        Self { norm: norm(config, device), dropout: Dropout::new(share), placement: config.norm }
    }

    /// What the sub-layer reads: `x`, normalised first in pre-norm.
    ///
    /// # Shapes
    ///
    /// - `x`: `[B, L, d_model]`, and so is the result
    pub fn enter(&self, x: Tensor<3>) -> Tensor<3> {
        match self.placement {
            NormPlacement::Pre => normalise(&self.norm, x),
            NormPlacement::Post | NormPlacement::SublayerOutput => x,
        }
    }

    /// Adds what the sub-layer gave, `y`, to what came in, `x`.
    ///
    /// # Shapes
    ///
    /// - `x` and `y`: `[B, L, d_model]`, and so is the result
    pub fn leave(&self, x: Tensor<3>, y: Tensor<3>) -> Tensor<3> {
        let draw = self.dropout.draw(&x.device());
        match self.placement {
            NormPlacement::Pre => kernels::residual(x, y, draw),
            NormPlacement::Post => normalise(&self.norm, kernels::residual(x, y, draw)),
            NormPlacement::SublayerOutput => kernels::residual(x, normalise(&self.norm, y), draw),
        }
    }
}

/// The norm after a whole stack, which only pre-norm needs: without it the sum of all residuals
/// would leave the stack unnormalised.
pub(crate) fn final_norm(config: &ModelConfig, device: &Device) -> Option<LayerNorm> {
    config.norm.has_final_norm().then(|| norm(config, device))
}

fn norm(config: &ModelConfig, device: &Device) -> LayerNorm {
    LayerNormConfig::new(config.d_model).with_epsilon(NORM_EPSILON).init(device)
}

/// `[B, L, d_model]`, each token with mean 0 and variance 1, then scaled and shifted.
pub(crate) fn normalise(norm: &LayerNorm, x: Tensor<3>) -> Tensor<3> {
    match &norm.beta {
        Some(beta) => kernels::layer_norm(x, norm.gamma.val(), beta.val()),
        None => norm.forward(x),
    }
}

/// The share dropped after every sub-layer but the encoder's self-attention.
pub(crate) fn residual_dropout(config: &ModelConfig) -> f64 {
    match config.norm {
        NormPlacement::Pre | NormPlacement::Post => config.dropout.residual,
        NormPlacement::SublayerOutput => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{TensorData, Tolerance};

    /// x = (1, 3), f(x) = 2x. Normalised, any (a, b) with a < b is (-1, 1).
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
            (NormPlacement::SublayerOutput, [0.0, 4.0]),
        ] {
            let config = ModelConfig { d_model: 2, norm, ..ModelConfig::default() };
            let residual = Residual::new(&config, 0.0, &device);
            let x = Tensor::<3>::from_data([[[1.0, 3.0]]], &device);
            let y = residual.leave(x.clone(), residual.enter(x) * 2.0);
            // Burn adds 1e-5 to the variance, here 1 or more.
            y.into_data().assert_approx_eq::<f32>(
                &TensorData::from([[expected]]),
                Tolerance::absolute(2e-5),
            );
        }
    }
}
