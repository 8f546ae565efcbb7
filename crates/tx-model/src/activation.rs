//! Activation functions of the feed-forward block.
//!
//! Functions of slices are meant to be called inside [`vectorized`](tx_kernels::vector::vectorized).

use std::f32::consts::FRAC_1_SQRT_2;

use serde::{Deserialize, Serialize};
use tx_kernels::vector::{erf, exp, map, map_two};

/// `1 / √(2π)`
const INVERSE_ROOT_OF_TWO_PI: f32 = 0.398_942_3;

/// Activation function between the two linear layers of the feed-forward block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// `max(0, x)` (equation 2).
    Relu,
    /// `x · Φ(x)` (Hendrycks and Gimpel 2016).
    Gelu,
    /// `x · sigmoid(x)`, also called SiLU (Ramachandran et al. 2017).
    Swish,
    /// `swish(x W_g) ⊙ (x W_1)`, SwiGLU (Shazeer 2020), which has a third weight matrix.
    Gated,
}

impl Activation {
    /// Returns `true` if the feed-forward block has a third weight matrix, the gate.
    pub fn is_gated(self) -> bool {
        match self {
            Self::Gated => true,
            Self::Relu | Self::Gelu | Self::Swish => false,
        }
    }

    /// Returns the value of the activation function at `x`. [`Gated`](Self::Gated) applies swish to
    /// the gate.
    #[inline(always)]
    pub fn value(self, x: f32) -> f32 {
        match self {
            // Not `max`, which would turn NaN into 0.
            Self::Relu => {
                if x <= 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Self::Gelu => x * normal(x),
            Self::Swish | Self::Gated => x / (1.0 + exp(-x)),
        }
    }

    /// Returns the derivative of the activation function at `x`. For [`Relu`](Self::Relu), `x` may
    /// also be the value of the function, which has the same derivative.
    #[inline(always)]
    pub fn derivative(self, x: f32) -> f32 {
        match self {
            Self::Relu => {
                if x <= 0.0 {
                    0.0
                } else {
                    1.0
                }
            }
            Self::Gelu => normal(x) + x * exp(-0.5 * x * x) * INVERSE_ROOT_OF_TWO_PI,
            Self::Swish | Self::Gated => {
                let sigmoid = 1.0 / (1.0 + exp(-x));
                sigmoid * (1.0 + x * (1.0 - sigmoid))
            }
        }
    }

    /// `x ← f(x)` for each element.
    #[inline(always)]
    pub fn apply(self, x: &mut [f32]) {
        // The match is outside the loop, which would not vectorize otherwise.
        match self {
            Self::Relu => map(x, |x| Self::Relu.value(x)),
            Self::Gelu => map(x, |x| Self::Gelu.value(x)),
            Self::Swish | Self::Gated => map(x, |x| Self::Swish.value(x)),
        }
    }

    /// `x ← x · f(gate)` for each element.
    #[inline(always)]
    pub fn multiply_by_value(self, x: &mut [f32], gate: &[f32]) {
        match self {
            Self::Relu => map_two(x, gate, |x, gate| x * Self::Relu.value(gate)),
            Self::Gelu => map_two(x, gate, |x, gate| x * Self::Gelu.value(gate)),
            Self::Swish | Self::Gated => {
                map_two(x, gate, |x, gate| x * Self::Swish.value(gate));
            }
        }
    }

    /// `dy ← dy · f'(x)` for each element: the backward pass of [`apply`](Self::apply).
    #[inline(always)]
    pub fn multiply_by_derivative(self, dy: &mut [f32], x: &[f32]) {
        match self {
            Self::Relu => map_two(dy, x, |dy, x| dy * Self::Relu.derivative(x)),
            Self::Gelu => map_two(dy, x, |dy, x| dy * Self::Gelu.derivative(x)),
            Self::Swish | Self::Gated => map_two(dy, x, |dy, x| dy * Self::Swish.derivative(x)),
        }
    }
}

/// `Φ(x)`: cumulative distribution function of the standard normal distribution.
#[inline(always)]
fn normal(x: f32) -> f32 {
    0.5 * (1.0 + erf(x * FRAC_1_SQRT_2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Derivatives against central differences of the values, `(f(x + h) - f(x - h)) / 2h`.
    #[test]
    fn derivatives_are_the_slopes_of_the_values() {
        let step = 1e-2_f32;
        for activation in [Activation::Relu, Activation::Gelu, Activation::Swish, Activation::Gated]
        {
            for x in [-3.0_f32, -0.7, 0.4, 2.5] {
                let slope =
                    (activation.value(x + step) - activation.value(x - step)) / (2.0 * step);
                let found = activation.derivative(x);
                assert!((found - slope).abs() < 1e-3, "{activation:?} at {x}: {found} {slope}");
            }
        }
    }

    #[test]
    fn slices_get_the_values_of_each_element() {
        let (x, y) = ([-2.0_f32, 0.5, 3.0], [4.0_f32, 5.0, 6.0]);
        for activation in [Activation::Relu, Activation::Gelu, Activation::Swish, Activation::Gated]
        {
            let (mut values, mut gated, mut slopes) = (x, y, y);
            activation.apply(&mut values);
            activation.multiply_by_value(&mut gated, &x);
            activation.multiply_by_derivative(&mut slopes, &x);
            for i in 0..x.len() {
                assert_eq!(values[i], activation.value(x[i]));
                assert_eq!(gated[i], y[i] * activation.value(x[i]));
                assert_eq!(slopes[i], y[i] * activation.derivative(x[i]));
            }
        }
    }
}
