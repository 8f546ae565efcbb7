//! The position-wise feed-forward network: equation 2 of the paper and its variants.

use super::PackedMatrix;
use crate::{
    config::Activation,
    kernels::simd::{erf, exp, vectorised},
};

/// `activation(x W_1 + b_1) W_2 + b_2`
#[derive(Debug, Clone)]
pub(crate) struct PackedFeedForward {
    pub(crate) inner: PackedMatrix,
    /// The third matrix of the gated variant.
    pub(crate) gate: Option<PackedMatrix>,
    pub(crate) outer: PackedMatrix,
    pub(crate) activation: Activation,
}

/// The inner features of some rows.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// `[rows, d_ff]`
    pub(super) values: Vec<f32>,
    /// `[rows, d_ff]`, used by the gated variant.
    gate: Vec<f32>,
}

impl PackedFeedForward {
    /// All but the last product: `activation(x W_1 + b_1)`.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, d_model]`
    pub(super) fn inner(&self, x: &[f32], hidden: &mut Hidden) {
        let Hidden { values, gate } = hidden;
        let len = x.len() / self.inner.inputs() * self.inner.outputs();
        values.resize(len, 0.0);
        self.inner.product(x, values);
        match (&self.gate, self.activation) {
            (Some(matrix), _) => {
                gate.resize(len, 0.0);
                matrix.product(x, gate);
                vectorised(
                    #[inline(always)]
                    || {
                        for (x, gate) in values.iter_mut().zip(&*gate) {
                            *x *= swish(*gate);
                        }
                    },
                );
            }
            (None, Activation::Gelu) => apply(values, gelu),
            (None, Activation::Swish) => apply(values, swish),
            (None, Activation::Relu | Activation::Gated) => apply(values, |x| x.max(0.0)),
        }
    }
}

#[inline(always)]
fn apply(values: &mut [f32], f: impl Fn(f32) -> f32) {
    vectorised(
        #[inline(always)]
        || {
            for x in &mut *values {
                *x = f(*x);
            }
        },
    );
}

/// `x · sigmoid(x)`
#[inline(always)]
fn swish(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// `x · Φ(x) = x (1 + erf(x / √2)) / 2`
#[inline(always)]
fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}
