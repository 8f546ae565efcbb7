//! One update by Adam (Kingma and Ba 2015) in a single pass.

use burn::backend::flex::FlexTensor;
use rayon::prelude::*;

use super::{
    AdamUpdate,
    flex::{contiguous, floats, tensor, writable},
    rows::{copy_pieces, per_piece},
};
use crate::vector::{sum_of, vectorized};

/// See [`adam`](super::adam()).
///
/// # Shapes
///
/// - all tensors have the same shape
pub fn update(
    parameter: FlexTensor,
    gradient: FlexTensor,
    exp_avg: FlexTensor,
    exp_avg_sq: FlexTensor,
    update: AdamUpdate,
) -> (FlexTensor, FlexTensor, FlexTensor) {
    let AdamUpdate { beta_1, beta_2, step, epsilon, l2, decay } = update;
    let piece = per_piece(1);
    let parameter = contiguous(parameter);
    let shape = parameter.layout().shape().clone();
    // Burn's Learner still refers to the old parameter, so a copy is unavoidable; here all cores
    // make it.
    let (mut parameter, _) = copy_pieces(floats(&parameter), 1, piece, |_, _| ());
    let [mut exp_avg, mut exp_avg_sq] = [exp_avg, exp_avg_sq].map(writable);
    let gradient = contiguous(gradient);
    let one = |parameter: &mut [f32], m: &mut [f32], v: &mut [f32], gradient: &[f32]| {
        vectorized(
            #[inline(always)]
            || {
                let moments = m.iter_mut().zip(v.iter_mut()).zip(gradient);
                for (x, ((m, v), g)) in parameter.iter_mut().zip(moments) {
                    let g = g + l2 * *x;
                    *m = beta_1 * *m + (1.0 - beta_1) * g;
                    *v = beta_2 * *v + (1.0 - beta_2) * g * g;
                    *x = decay * *x - step * *m / (v.sqrt() + epsilon);
                }
            },
        );
    };
    let (x, m, v, g) = (
        &mut parameter[..],
        exp_avg.storage_mut::<f32>(),
        exp_avg_sq.storage_mut::<f32>(),
        floats(&gradient),
    );
    if x.len() <= piece {
        one(x, m, v, g);
    } else {
        x.par_chunks_mut(piece)
            .zip(m.par_chunks_mut(piece))
            .zip(v.par_chunks_mut(piece))
            .zip(g.par_chunks(piece))
            .for_each(|(((x, m), v), g)| one(x, m, v, g));
    }
    (tensor(parameter, shape), exp_avg, exp_avg_sq)
}

/// `Σ x²`
pub fn sum_of_squares(x: FlexTensor) -> f64 {
    let x = contiguous(x);
    let one = |x: &[f32]| {
        f64::from(vectorized(
            #[inline(always)]
            || sum_of(x, |x| x * x),
        ))
    };
    let piece = per_piece(1);
    let parts: Vec<f64> = if floats(&x).len() <= piece {
        vec![one(floats(&x))]
    } else {
        floats(&x).par_chunks(piece).map(one).collect()
    };
    parts.iter().sum()
}
