//! Formulas that both the fused kernels and the packed engine compute: moments of layer
//! normalization, softmax, activation functions.
//!
//! All functions are meant to be called inside [`vectorized`].

use std::f32::consts::FRAC_1_SQRT_2;

use crate::{
    config::Activation,
    vector::{LANES, erf, exp, map, map_two, max, sum_of, vectorized},
};

/// `1 / √(2π)`
const INVERSE_ROOT_OF_TWO_PI: f32 = 0.398_942_3;

/// Returns the mean of `x` and `1 / √(variance + epsilon)`.
#[inline(always)]
pub fn moments(x: &[f32], epsilon: f32) -> (f32, f32) {
    let width = x.len() as f32;
    let mean = sum_of(x, |x| x) / width;
    let variance = sum_of(x, |x| (x - mean) * (x - mean)) / width;
    (mean, 1.0 / (variance + epsilon).sqrt())
}

/// `x ← e^(x - shift)` for each element: the numerators of a softmax, if `shift` is the maximum.
///
/// # Panics
///
/// If `x` is not a whole number of vectors of [`LANES`]. Rows of scores are padded to that.
#[inline(always)]
pub fn exp_shifted(x: &mut [f32], shift: f32) {
    let (vectors, rest) = x.as_chunks_mut::<LANES>();
    assert!(rest.is_empty(), "rows of scores are padded");
    for vector in vectors {
        for x in vector {
            *x = exp(*x - shift);
        }
    }
}

/// Returns the maximum of `x` and `Σ e^(x - max)`.
#[inline(always)]
pub fn max_and_exp_sum(x: &[f32]) -> (f32, f32) {
    let max = max(x);
    (max, sum_of(x, |x| exp(x - max)))
}

/// Replaces `x` by `log softmax(x)`. If all elements are minus infinity, they remain so.
pub fn log_softmax(x: &mut [f32]) {
    vectorized(
        #[inline(always)]
        || {
            let (max, sum) = max_and_exp_sum(x);
            if max > f32::NEG_INFINITY {
                let log_sum = f64::from(max) + f64::from(sum).ln();
                x.iter_mut().for_each(|x| *x = (f64::from(*x) - log_sum) as f32);
            }
        },
    );
}

/// `sum ← sum + factor · softmax(x)` for `x` and `sum` of the same length; all NaN if an element of `x`
/// is. If all elements are minus infinity, it adds nothing.
pub fn add_softmax(x: &[f32], factor: f32, sum: &mut [f32]) {
    vectorized(
        #[inline(always)]
        || {
            let (max, total) = max_and_exp_sum(x);
            if max > f32::NEG_INFINITY {
                let factor = factor / total;
                map_two(sum, x, |sum, x| factor.mul_add(exp(x - max), sum));
            } else if x.iter().any(|x| x.is_nan()) {
                // The maximum ignores NaN.
                sum.fill(f32::NAN);
            }
        },
    );
}

impl Activation {
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

    /// softmax(ln 1, ln 3) = (1/4, 3/4).
    #[test]
    fn softmax_is_added() {
        let mut sum = [1.0, 0.5];
        add_softmax(&[0.0, 3.0_f32.ln()], 2.0, &mut sum);
        assert!((sum[0] - 1.5).abs() < 1e-6 && (sum[1] - 2.0).abs() < 1e-6, "{sum:?}");
        add_softmax(&[f32::NEG_INFINITY; 2], 2.0, &mut sum);
        assert!((sum[0] - 1.5).abs() < 1e-6, "{sum:?}");
        for x in [[0.0, f32::NAN], [f32::NAN; 2]] {
            let mut sum = sum;
            add_softmax(&x, 2.0, &mut sum);
            assert!(sum.iter().all(|x| x.is_nan()), "{x:?} gives {sum:?}");
        }
    }

    /// (1, 3, 5, 7): mean 4, variance (9 + 1 + 1 + 9) / 4 = 5, with ε = 4 the scale is 1/3.
    #[test]
    fn moments_by_hand() {
        let (mean, scale) = moments(&[1.0, 3.0, 5.0, 7.0], 1e-5);
        assert_eq!(mean, 4.0);
        assert!((scale - 5.0_f32.sqrt().recip()).abs() < 1e-5, "{scale}");
        assert_eq!(moments(&[1.0, 3.0, 5.0, 7.0], 4.0), (4.0, 1.0 / 3.0));
    }

    /// Scores ln 1, ln 3, ln 4 become probabilities 1/8, 3/8, 4/8.
    #[test]
    fn probabilities_sum_to_one() {
        let mut x = [1.0_f32, 3.0, 4.0].map(f32::ln);
        log_softmax(&mut x);
        for (x, expected) in x.iter().zip([0.125, 0.375, 0.5]) {
            assert!((x.exp() - expected).abs() < 1e-6, "{x}");
        }
        let mut nothing = [f32::NEG_INFINITY; 3];
        log_softmax(&mut nothing);
        assert_eq!(nothing, [f32::NEG_INFINITY; 3]);
    }

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
