//! Position-wise feed-forward network in its residual connection: equation 2 of the paper and its
//! variants.

use tx_kernels::vector::vectorized;
use tx_model::config::{Activation, ModelConfig};

use crate::{
    Sublayer,
    linear::Linear,
    residual::PackedResidual,
    scratch::{Hidden, Scratch},
    source::Packer,
};

/// `activation(x W_1 + b_1) W_2 + b_2`, with its residual connection.
#[derive(Debug, Clone)]
pub(crate) struct PackedFeedForward {
    inner: Linear,
    /// Third matrix of the gated variant.
    gate: Option<Linear>,
    outer: Linear,
    activation: Activation,
    residual: PackedResidual,
}

impl PackedFeedForward {
    /// Packs the feed-forward network of the layer at path `layer`.
    pub(crate) fn pack(packer: &Packer<'_>, layer: &str) -> Self {
        let ModelConfig { d_model, d_ff, feed_forward_bias: bias, activation, .. } = *packer.config;
        let name = format!("{layer}.feed_forward");
        Self {
            inner: packer.linear(&format!("{name}.inner"), d_model, bias),
            gate: activation
                .is_gated()
                .then(|| packer.linear(&format!("{name}.gate"), d_model, bias)),
            outer: packer.linear(&format!("{name}.outer"), d_ff, bias),
            activation,
            residual: PackedResidual::pack(packer, &format!("{name}_residual")),
        }
    }

    /// Applies the network to each row, and adds the result.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, d_model]`; replaced by the result
    pub(crate) fn forward(&self, x: &mut [f32], scratch: &mut Scratch) {
        let Scratch { normalized, hidden, output, probe, .. } = scratch;
        let y = self.residual.enter(Sublayer::FeedForward, x, normalized, probe);
        self.inner(y, hidden);
        self.residual.leave(x, &hidden.values, &self.outer, output, probe);
    }

    /// Computes all but the last product: `activation(x W_1 + b_1)`.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, d_model]`
    fn inner(&self, x: &[f32], hidden: &mut Hidden) {
        let Hidden { values, gate } = hidden;
        let len = x.len() / self.inner.inputs() * self.inner.outputs();
        values.resize(len, 0.0);
        self.inner.with_input(x, |x| match &self.gate {
            Some(matrix) => {
                self.inner.product(x, values);
                gate.resize(len, 0.0);
                matrix.product(x, gate);
                vectorized(
                    #[inline(always)]
                    || self.activation.multiply_by_value(values, gate),
                );
            }
            None => self.inner.activated_product(x, values, self.activation),
        });
    }
}
