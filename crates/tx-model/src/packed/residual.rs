//! Layer normalisation, and the residual connection around every sub-layer.

use burn::nn::LayerNorm;

use super::{PackedMatrix, values};
use crate::{
    config::NormPlacement,
    kernels::{
        NORM_EPSILON,
        simd::{sum_of, vectorised},
    },
};

/// Layer normalisation over the features of each row.
#[derive(Debug, Clone)]
pub(crate) struct PackedNorm {
    /// `[d_model]`
    pub(crate) gamma: Vec<f32>,
    /// `[d_model]`; zeros where there is none.
    pub(crate) beta: Vec<f32>,
    pub(crate) epsilon: f32,
}

impl PackedNorm {
    pub(crate) fn of(norm: &LayerNorm) -> Self {
        let gamma = values(norm.gamma.val());
        let beta = match &norm.beta {
            Some(beta) => values(beta.val()),
            None => vec![0.0; gamma.len()],
        };
        Self { gamma, beta, epsilon: NORM_EPSILON as f32 }
    }

    /// `x = (x - mean) / √(variance + ε) · γ + β`, row by row.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, d_model]`
    pub(super) fn normalise(&self, x: &mut [f32]) {
        let features = self.gamma.len();
        vectorised(
            #[inline(always)]
            || {
                for row in x.chunks_exact_mut(features) {
                    self.normalise_row(row);
                }
            },
        );
    }

    #[inline(always)]
    fn normalise_row(&self, row: &mut [f32]) {
        let features = row.len() as f32;
        let mean = sum_of(row, |x| x) / features;
        let variance = sum_of(row, |x| (x - mean) * (x - mean)) / features;
        let scale = (variance + self.epsilon).sqrt().recip();
        for ((x, gamma), beta) in row.iter_mut().zip(&self.gamma).zip(&self.beta) {
            *x = ((*x - mean) * scale).mul_add(*gamma, *beta);
        }
    }
}

/// Joins a sub-layer to its input, as [`Residual`](crate::residual::Residual) does.
#[derive(Debug, Clone)]
pub(crate) struct PackedResidual {
    pub(crate) norm: PackedNorm,
    pub(crate) placement: NormPlacement,
}

impl PackedResidual {
    /// What the sub-layer reads: `x`, normalised first in pre-norm, by way of `normalised`.
    pub(super) fn enter<'a>(&self, x: &'a [f32], normalised: &'a mut Vec<f32>) -> &'a [f32] {
        match self.placement {
            NormPlacement::Pre => {
                normalised.clear();
                normalised.extend_from_slice(x);
                self.norm.normalise(normalised);
                normalised
            }
            NormPlacement::Post | NormPlacement::SublayerOutput => x,
        }
    }

    /// Adds what the sub-layer gives to what came in, `x`.
    ///
    /// The sub-layer ends with the product of `inner` and `outer`, which is added as it is made,
    /// where the placement allows that; else it goes by way of `output`.
    pub(super) fn leave(
        &self,
        x: &mut [f32],
        inner: &[f32],
        outer: &PackedMatrix,
        output: &mut Vec<f32>,
    ) {
        match self.placement {
            NormPlacement::Pre => outer.add_product(inner, x),
            NormPlacement::Post => {
                outer.add_product(inner, x);
                self.norm.normalise(x);
            }
            NormPlacement::SublayerOutput => {
                output.resize(x.len(), 0.0);
                outer.product(inner, output);
                self.norm.normalise(output);
                for (x, y) in x.iter_mut().zip(output) {
                    *x += *y;
                }
            }
        }
    }
}
