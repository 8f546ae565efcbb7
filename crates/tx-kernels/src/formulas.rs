//! Formulas of training and inference: moments of normalizations, and softmax.
//!
//! All functions are meant to be called inside [`vectorized`].

use crate::vector::{LANES, exp, map_two, max, mul_add, sum_of, vectorized};

/// Returns the mean of `x` and `1 / √(variance + epsilon)`.
#[inline(always)]
pub fn moments(x: &[f32], epsilon: f32) -> (f32, f32) {
    let width = x.len() as f32;
    let mean = sum_of(x, |x| x) / width;
    let variance = sum_of(x, |x| (x - mean) * (x - mean)) / width;
    (mean, 1.0 / (variance + epsilon).sqrt())
}

/// Returns 0 and `1 / √(mean of squares + epsilon)`: the [`moments`] of RMSNorm.
#[inline(always)]
pub fn root_mean_square(x: &[f32], epsilon: f32) -> (f32, f32) {
    let mean = sum_of(x, |x| x * x) / x.len() as f32;
    (0.0, 1.0 / (mean + epsilon).sqrt())
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
                map_two(sum, x, |sum, x| mul_add(factor, exp(x - max), sum));
            } else if x.iter().any(|x| x.is_nan()) {
                // The maximum ignores NaN.
                sum.fill(f32::NAN);
            }
        },
    );
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
        // Squares 1, 9, 25, 49: mean 21.
        assert_eq!(root_mean_square(&[1.0, 3.0, 5.0, 7.0], 4.0), (0.0, 0.2));
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
}
