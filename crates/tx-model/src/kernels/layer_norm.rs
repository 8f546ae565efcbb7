//! Layer normalization (Ba et al. 2016), RMSNorm (Zhang and Sennrich 2019), and their backward passes.

use burn::backend::flex::FlexTensor;
use tx_kernels::{
    formulas::{moments, root_mean_square},
    rows::{MIN_SUMMED_ROWS, copy_pieces, per_piece, sum_in_order},
    vector::{sum_of, sum_of_two, vectorized},
};

use super::flex::{floats, rows, tensor};

/// Computes `(x - mean) / √(variance + ε) · γ + β`, row by row; without `β`,
/// `x / √(mean of squares + ε) · γ`.
///
/// # Shapes
///
/// - `x`: `[.., width]`; `gamma` and `beta`: `[width]`; returns `[.., width]`
pub fn forward(
    x: &FlexTensor,
    gamma: &FlexTensor,
    beta: Option<&FlexTensor>,
    epsilon: f32,
) -> FlexTensor {
    let [_, width] = rows(x);
    let (gamma, beta) = (floats(gamma), beta.map(floats));
    let (out, _) = copy_pieces(floats(x), width, per_piece(width), |_, rows| {
        vectorized(
            #[inline(always)]
            || {
                for row in rows.chunks_exact_mut(width) {
                    match beta {
                        Some(beta) => {
                            let (mean, scale) = moments(row, epsilon);
                            for ((x, gamma), beta) in row.iter_mut().zip(gamma).zip(beta) {
                                *x = (*x - mean) * scale * gamma + beta;
                            }
                        }
                        None => {
                            let (_, scale) = root_mean_square(row, epsilon);
                            for (x, gamma) in row.iter_mut().zip(gamma) {
                                *x = *x * scale * gamma;
                            }
                        }
                    }
                }
            },
        );
    });
    tensor(out, x.layout().shape().clone())
}

/// Returns the gradients of `x`, `γ` and `β`.
///
/// With `x̂` the normalized row and `g = dy · γ`: `dx = (g - mean(g) - x̂ mean(g x̂)) / √(var +
/// ε)`, `dγ = Σ dy x̂`, `dβ = Σ dy`. Without a shift, `dx` has no `mean(g)`, and `dβ` has no meaning.
pub fn backward(
    x: &FlexTensor,
    gamma: &FlexTensor,
    has_shift: bool,
    dy: &FlexTensor,
    epsilon: f32,
) -> [FlexTensor; 3] {
    let [_, width] = rows(x);
    let (input, weight) = (floats(x), floats(gamma));
    let piece = per_piece(width).max(MIN_SUMMED_ROWS);
    // `dx` starts as a copy of `dy`.
    let (dx, sums) = copy_pieces(floats(dy), width, piece, |first, dx| {
        let input = &input[first * width..][..dx.len()];
        // Parts of dγ, then of dβ.
        let mut sums = vec![0.0; 2 * width];
        let (dgamma, dbeta) = sums.split_at_mut(width);
        vectorized(
            #[inline(always)]
            || {
                for (x, dx) in input.chunks_exact(width).zip(dx.chunks_exact_mut(width)) {
                    let (mean, scale) = match has_shift {
                        true => moments(x, epsilon),
                        false => root_mean_square(x, epsilon),
                    };
                    for ((g, weight), (dbeta, (dgamma, x))) in dx
                        .iter_mut()
                        .zip(weight)
                        .zip(dbeta.iter_mut().zip(dgamma.iter_mut().zip(x)))
                    {
                        *dgamma += *g * ((x - mean) * scale);
                        *dbeta += *g;
                        *g *= weight;
                    }
                    let mean_g = match has_shift {
                        true => sum_of(dx, |g| g) / width as f32,
                        false => 0.0,
                    };
                    let along =
                        sum_of_two(dx, x, |g, x| g * (x - mean)) * scale * scale / width as f32;
                    for (dx, x) in dx.iter_mut().zip(x) {
                        *dx = (*dx - mean_g - (x - mean) * along) * scale;
                    }
                }
            },
        );
        sums
    });
    let mut total = sum_in_order(sums, 2 * width);
    let dbeta = total.split_off(width);
    [tensor(dx, x.layout().shape().clone()), tensor(total, [width]), tensor(dbeta, [width])]
}
