//! Layer normalization and RMSNorm, and the residual connection around every sub-layer.

use tx_kernels::{
    formulas::{moments, root_mean_square},
    vector::{mul_add, vectorized},
};
use tx_model::config::{NormPlacement, Normalization};

use crate::{Sublayer, linear::Linear, probe::Probe, source::Packer};

/// Layer normalization over the features of each row, or RMSNorm.
#[derive(Debug, Clone)]
pub(crate) struct PackedNorm {
    /// `[d_model]`
    gamma: Vec<f32>,
    /// `[d_model]`; `None` in RMSNorm.
    beta: Option<Vec<f32>>,
    /// Added to the variance, or to the mean of the squares.
    epsilon: f32,
}

impl PackedNorm {
    /// Packs the norm at path `name`.
    fn pack(packer: &Packer<'_>, name: &str) -> Self {
        Self {
            gamma: packer.weight(&format!("{name}.gamma")).into_owned(),
            beta: match packer.config.normalization {
                Normalization::Layer => Some(packer.weight(&format!("{name}.beta")).into_owned()),
                Normalization::Rms => None,
            },
            epsilon: packer.config.norm_epsilon as f32,
        }
    }

    /// Packs the norm after a whole stack, if the configuration has one.
    pub(crate) fn pack_final(packer: &Packer<'_>, stack: &str) -> Option<Self> {
        packer.config.norm.has_final_norm().then(|| Self::pack(packer, &format!("{stack}.norm")))
    }

    /// `x = (x - mean) / √(variance + ε) · γ + β`, row by row; without `β`,
    /// `x = x / √(mean of squares + ε) · γ`.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, d_model]`
    pub(crate) fn normalize(&self, x: &mut [f32]) {
        let features = self.gamma.len();
        vectorized(
            #[inline(always)]
            || {
                for row in x.chunks_exact_mut(features) {
                    match &self.beta {
                        Some(beta) => {
                            let (mean, scale) = moments(row, self.epsilon);
                            for ((x, gamma), beta) in row.iter_mut().zip(&self.gamma).zip(beta) {
                                *x = mul_add((*x - mean) * scale, *gamma, *beta);
                            }
                        }
                        None => {
                            let (_, scale) = root_mean_square(row, self.epsilon);
                            for (x, gamma) in row.iter_mut().zip(&self.gamma) {
                                *x *= scale * gamma;
                            }
                        }
                    }
                }
            },
        );
    }
}

/// Residual connection around a sub-layer, as `Residual` on tensors.
#[derive(Debug, Clone)]
pub(crate) struct PackedResidual {
    norm: PackedNorm,
    placement: NormPlacement,
}

impl PackedResidual {
    /// Packs the residual connection at path `name`.
    pub(crate) fn pack(packer: &Packer<'_>, name: &str) -> Self {
        let norm = PackedNorm::pack(packer, &format!("{name}.norm"));
        Self { norm, placement: packer.config.norm }
    }

    /// Returns the input of the sub-layer: `x`, normalized into the buffer `normalized` in
    /// pre-norm.
    pub(crate) fn enter<'a>(
        &self,
        sublayer: Sublayer,
        x: &'a [f32],
        normalized: &'a mut Vec<f32>,
        probe: &mut Probe,
    ) -> &'a [f32] {
        let input = match self.placement {
            NormPlacement::Pre => {
                normalized.clear();
                normalized.extend_from_slice(x);
                self.norm.normalize(normalized);
                normalized
            }
            NormPlacement::Post | NormPlacement::PostFinal | NormPlacement::SublayerOutput => x,
        };
        probe.enter(sublayer, input);
        input
    }

    /// Adds the output of the sub-layer to its input `x`.
    ///
    /// The sub-layer ends with the product of `inner` and `outer`. It is added to `x` directly if
    /// the placement of the norm allows that, and computed in the buffer `output` otherwise.
    pub(crate) fn leave(
        &self,
        x: &mut [f32],
        inner: &[f32],
        outer: &Linear,
        output: &mut Vec<f32>,
        probe: &mut Probe,
    ) {
        probe.record(|trace| {
            trace.inner.extend_from_slice(inner);
            let before = trace.output.len();
            trace.output.resize(before + x.len(), 0.0);
            outer.product_of(inner, &mut trace.output[before..]);
        });
        match self.placement {
            NormPlacement::Pre => outer.add_product(inner, x),
            NormPlacement::Post | NormPlacement::PostFinal => {
                outer.add_product(inner, x);
                self.norm.normalize(x);
            }
            NormPlacement::SublayerOutput => {
                output.resize(x.len(), 0.0);
                outer.product_of(inner, output);
                self.norm.normalize(output);
                add(x, output);
            }
        }
        probe.record(|trace| trace.residual.extend_from_slice(x));
    }

    /// Adds the output `y` of the sub-layer, which is overwritten, to its input `x`.
    pub(crate) fn add(&self, x: &mut [f32], y: &mut [f32], probe: &mut Probe) {
        probe.record(|trace| {
            trace.inner.extend_from_slice(y);
            trace.output.extend_from_slice(y);
        });
        match self.placement {
            NormPlacement::Pre => add(x, y),
            NormPlacement::Post | NormPlacement::PostFinal => {
                add(x, y);
                self.norm.normalize(x);
            }
            NormPlacement::SublayerOutput => {
                self.norm.normalize(y);
                add(x, y);
            }
        }
        probe.record(|trace| trace.residual.extend_from_slice(x));
    }
}

fn add(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += *y;
    }
}
