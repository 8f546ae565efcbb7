//! Layer normalisation (Ba et al. 2016), and back.

use burn::backend::flex::FlexTensor;

use super::{
    NORM_EPSILON,
    flex::{floats, rows, tensor},
    rows::{LEAST_SUMMED, each_piece, per_piece},
    simd::{sum_of, sum_of_two, vectorised},
};
use rayon::prelude::*;

/// `(x - mean) / √(variance + ε) · γ + β`, row by row.
///
/// # Shapes
///
/// - `x`: `[.., width]`, and so is the result; `gamma` and `beta`: `[width]`
pub fn forward(x: &FlexTensor, gamma: &FlexTensor, beta: &FlexTensor) -> FlexTensor {
    let [count, width] = rows(x);
    let (input, gamma, beta) = (floats(x), floats(gamma), floats(beta));
    let mut out = vec![0.0; count * width];
    each_piece(&mut out, width, |first, out| {
        let input = &input[first * width..first * width + out.len()];
        vectorised(
            #[inline(always)]
            || {
                for (x, y) in input.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
                    let (mean, scale) = moments(x);
                    for (((y, x), gamma), beta) in y.iter_mut().zip(x).zip(gamma).zip(beta) {
                        *y = (x - mean) * scale * gamma + beta;
                    }
                }
            },
        );
    });
    tensor(out, x.layout().shape().clone())
}

/// Gradients of `x`, `γ` and `β`.
///
/// With `x̂` the normalised row and `g = dy · γ`: `dx = (g - mean(g) - x̂ mean(g x̂)) / √(var + ε)`,
/// `dγ = Σ dy x̂`, `dβ = Σ dy`.
pub fn backward(x: &FlexTensor, gamma: &FlexTensor, dy: &FlexTensor) -> [FlexTensor; 3] {
    let [count, width] = rows(x);
    let (input, weight, dy) = (floats(x), floats(gamma), floats(dy));
    let mut dx = vec![0.0; count * width];
    let piece = per_piece(width).max(LEAST_SUMMED);
    let work = |(number, dx): (usize, &mut [f32])| {
        let first = number * piece * width;
        let (input, dy) = (&input[first..first + dx.len()], &dy[first..first + dx.len()]);
        // dγ, then dβ.
        let mut sums = vec![0.0; 2 * width];
        let (dgamma, dbeta) = sums.split_at_mut(width);
        vectorised(
            #[inline(always)]
            || {
                let rows = input.chunks_exact(width).zip(dy.chunks_exact(width));
                for ((x, dy), dx) in rows.zip(dx.chunks_exact_mut(width)) {
                    let (mean, scale) = moments(x);
                    for (((g, dy), weight), (dbeta, (dgamma, x))) in dx
                        .iter_mut()
                        .zip(dy)
                        .zip(weight)
                        .zip(dbeta.iter_mut().zip(dgamma.iter_mut().zip(x)))
                    {
                        *g = dy * weight;
                        *dgamma += dy * ((x - mean) * scale);
                        *dbeta += dy;
                    }
                    let mean_g = sum_of(dx, |g| g) / width as f32;
                    let along =
                        sum_of_two(dx, x, |g, x| g * (x - mean)) * scale * scale / width as f32;
                    for (dx, x) in dx.iter_mut().zip(x) {
                        *dx = (*dx - mean_g - (x - mean) * along) * scale;
                    }
                }
            },
        );
        sums
    };
    let sums: Vec<Vec<f32>> = if count <= piece {
        vec![work((0, &mut dx))]
    } else {
        dx.par_chunks_mut(piece * width).enumerate().map(work).collect()
    };
    let mut total = vec![0.0; 2 * width];
    for sum in sums {
        for (total, part) in total.iter_mut().zip(sum) {
            *total += part;
        }
    }
    let dbeta = total.split_off(width);
    [tensor(dx, x.layout().shape().clone()), tensor(total, [width]), tensor(dbeta, [width])]
}

/// Mean and `1 / √(variance + ε)`.
#[inline(always)]
fn moments(x: &[f32]) -> (f32, f32) {
    let width = x.len() as f32;
    let mean = sum_of(x, |x| x) / width;
    let variance = sum_of(x, |x| (x - mean) * (x - mean)) / width;
    (mean, 1.0 / (variance + NORM_EPSILON as f32).sqrt())
}
