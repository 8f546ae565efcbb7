//! Simpler simple recurrent unit: "From Research to Production and Back: Ludicrously Fast Neural
//! Machine Translation" (Kim et al. 2019).

use burn::{
    module::Module,
    nn::Linear,
    tensor::{Device, Tensor},
};

use crate::{
    cache::Past,
    config::{Activation, ModelConfig},
    init::{self, project},
    kernels::{self, DropoutMask},
    product_precision::ProductPrecision,
};

/// Recurrent unit in place of the decoder's self-attention. With the forget gate
/// `f_t = σ(x_t W_f + b_f)`, the state is `c_t = f_t ⊙ c_{t-1} + (1 - f_t) ⊙ x_t W`, and the output
/// `relu(c_t)`. The state before the first token is 0.
#[derive(Module, Debug)]
pub struct Ssru {
    /// `W`, `[d_model, d_model]`, without a bias.
    candidate: Linear,
    /// `W_f`, `[d_model, d_model]`, and `b_f`, `[d_model]`.
    gate: Linear,
    #[module(skip)]
    precision: ProductPrecision,
}

impl Ssru {
    /// Initializes the weights; `config` must have been checked.
    pub(crate) fn new(config: &ModelConfig, device: &Device) -> Self {
        let linear = |bias| init::linear(config, config.d_model, config.d_model, bias, device);
        Self {
            candidate: linear(false),
            gate: linear(true),
            precision: ProductPrecision::default(),
        }
    }

    /// Sets the precision of products in training.
    pub(crate) fn set_product_precision(&mut self, precision: ProductPrecision) {
        self.precision = precision;
    }

    /// Reads the tokens `x` in their order.
    ///
    /// # Shapes
    ///
    /// - `x`: `[B, T, d_model]`
    /// - `past`: in decoding step by step, the state after the earlier tokens, which is replaced by the
    ///   state after `x`; T is 1 then
    /// - returns `[B, T, d_model]`
    pub(crate) fn forward(&self, x: Tensor<3>, past: Option<&mut Past>) -> Tensor<3> {
        let candidates = project(&self.candidate, x.clone(), self.precision);
        let gates = project(&self.gate, x, self.precision);
        let states = match past {
            Some(past) => past.advance(candidates, gates),
            None => kernels::recurrence(candidates, gates),
        };
        kernels::activation(states, Activation::Relu, DropoutMask::KeepAll)
    }
}

#[cfg(test)]
mod tests {
    use burn::{
        module::Param,
        tensor::{TensorData, Tolerance},
    };

    use super::*;

    /// d_model 1, W = 2, W_f = 0, b_f = ln 3, so that f = 3/4. On paper, for x = (4, -8, -4):
    ///
    /// ```text
    /// c  8/4 = 2    6/4 - 16/4 = -2.5    -7.5/4 - 8/4 = -3.875
    /// ```
    ///
    /// With x = (4, 8, -4): 2, 5.5, 2.125.
    #[test]
    fn states_by_hand() {
        let device = Device::flex();
        let config = ModelConfig { d_model: 1, ..ModelConfig::default() };
        let mut unit = Ssru::new(&config, &device);
        unit.candidate.weight = Param::from_data([[2.0]], &device);
        unit.gate.weight = Param::from_data([[0.0]], &device);
        unit.gate.bias = Some(Param::from_data([3.0_f32.ln()], &device));
        let x = Tensor::<3>::from_data([[[4.0], [-8.0], [-4.0]], [[4.0], [8.0], [-4.0]]], &device);
        let expected = TensorData::from([[[2.0_f32], [0.0], [0.0]], [[2.0], [5.5], [2.125]]]);
        let all = unit.forward(x.clone(), None);
        all.into_data().assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-5));

        let mut past = Past::default();
        let steps = (0..3).map(|t| unit.forward(x.clone().narrow(1, t, 1), Some(&mut past)));
        let steps = Tensor::cat(steps.collect(), 1);
        steps.into_data().assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-5));
    }
}
