//! Position-wise feed-forward network: section 3.3 of the paper, equation 2.

use burn::{
    module::Module,
    nn::Linear,
    tensor::{Device, Tensor},
};

use crate::{
    config::{Activation, ModelConfig},
    dropout::Dropout,
    init::{self, weights},
    kernels::{self, DropoutMask, LinearOutput},
    product_precision::ProductPrecision,
};

/// Feed-forward network of two linear layers, `activation(x W_1 + b_1) W_2 + b_2`, applied to each
/// token.
#[derive(Module, Debug)]
pub struct FeedForward {
    pub(crate) inner: Linear,
    /// Third matrix of the gated variant.
    pub(crate) gate: Option<Linear>,
    pub(crate) outer: Linear,
    dropout: Dropout,
    #[module(skip)]
    pub(crate) activation: Activation,
    #[module(skip)]
    precision: ProductPrecision,
}

impl FeedForward {
    /// Initializes the weights; `config` must have been checked.
    pub(crate) fn new(config: &ModelConfig, device: &Device) -> Self {
        let (d_model, d_ff, bias) = (config.d_model, config.d_ff, config.feed_forward_bias);
        Self {
            inner: init::linear(config, d_model, d_ff, bias, device),
            gate: config
                .activation
                .is_gated()
                .then(|| init::linear(config, d_model, d_ff, bias, device)),
            outer: init::linear(config, d_ff, d_model, bias, device),
            dropout: Dropout::new(config.dropout.activation),
            activation: config.activation,
            precision: ProductPrecision::default(),
        }
    }

    /// Sets the precision of products in training.
    pub(crate) fn set_product_precision(&mut self, precision: ProductPrecision) {
        self.precision = precision;
    }

    /// Applies the network to each token.
    ///
    /// # Shapes
    ///
    /// - `x`: `[B, L, d_model]`
    /// - returns `[B, L, d_model]`
    pub fn forward(&self, x: Tensor<3>) -> LinearOutput {
        let mask = self.dropout.sample(&x.device());
        let [inner, outer] = [&self.inner, &self.outer].map(weights);
        let Some(gate) = &self.gate else {
            let layers = [inner, outer];
            return kernels::feed_forward(x, layers, self.activation, mask, self.precision);
        };
        let [inner, gate] = kernels::two_linear(x, [inner, weights(gate)], self.precision);
        let gate = kernels::activation(gate, self.activation, DropoutMask::KeepAll);
        let x = kernels::dropout(gate * inner, mask);
        kernels::linear_before_bias(x, outer, self.precision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::{
        module::Param,
        tensor::{TensorData, Tolerance},
    };

    /// d_model 1, d_ff 2, W_1 = (1, -1), W_2 = (1, 10), x = 2:
    /// relu (2, 0) → 2; gelu (2 Φ(2), -2 Φ(-2)) → 1.9545 - 0.4550; swish (2 σ(2), -2 σ(-2));
    /// gated with W_g = (0.5, 0.5): swish(1) · (2, -2).
    #[test]
    fn each_activation_by_hand() {
        let device = Device::flex();
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        for (activation, expected) in [
            (Activation::Relu, 2.0),
            (Activation::Gelu, 2.0 * 0.977_249_868 - 20.0 * 0.022_750_132),
            (Activation::Swish, 2.0 * sigmoid(2.0) - 20.0 * sigmoid(-2.0)),
            (Activation::Gated, sigmoid(1.0) * (2.0 - 20.0)),
        ] {
            let config = ModelConfig { d_model: 1, d_ff: 2, activation, ..ModelConfig::default() };
            let mut block = FeedForward::new(&config, &device);
            block.inner.weight = Param::from_data([[1.0, -1.0]], &device);
            block.outer.weight = Param::from_data([[1.0], [10.0]], &device);
            if let Some(gate) = &mut block.gate {
                gate.weight = Param::from_data([[0.5, 0.5]], &device);
            }
            let y = block.forward(Tensor::from_data([[[2.0]]], &device)).sum();
            let expected = TensorData::from([[[expected as f32]]]);
            y.into_data().assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-5));
        }
    }
}
