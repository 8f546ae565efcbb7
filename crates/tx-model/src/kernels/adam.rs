//! One update by Adam (Kingma and Ba 2015), all in one pass.

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
/// - all four alike
pub fn update(
    parameter: FlexTensor,
    gradient: FlexTensor,
    first: FlexTensor,
    second: FlexTensor,
    update: AdamUpdate,
) -> (FlexTensor, FlexTensor, FlexTensor) {
    let AdamUpdate { beta_1, beta_2, step, epsilon, penalty, shrink } = update;
    let piece = per_piece(1);
    let parameter = contiguous(parameter);
    let shape = parameter.layout().shape().clone();
    // Burn's Learner holds on to the old ones meanwhile: a copy in any case, by all cores then.
    let (mut parameter, _) = copy_pieces(floats(&parameter), 1, piece, |_, _| ());
    let [mut first, mut second] = [first, second].map(writable);
    let gradient = contiguous(gradient);
    let one = |parameter: &mut [f32], first: &mut [f32], second: &mut [f32], gradient: &[f32]| {
        vectorized(
            #[inline(always)]
            || {
                let moments = first.iter_mut().zip(second.iter_mut()).zip(gradient);
                for (x, ((m, v), g)) in parameter.iter_mut().zip(moments) {
                    let g = g + penalty * *x;
                    *m = beta_1 * *m + (1.0 - beta_1) * g;
                    *v = beta_2 * *v + (1.0 - beta_2) * g * g;
                    *x = shrink * *x - step * *m / (v.sqrt() + epsilon);
                }
            },
        );
    };
    let (x, m, v, g) = (
        &mut parameter[..],
        first.storage_mut::<f32>(),
        second.storage_mut::<f32>(),
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
    (tensor(parameter, shape), first, second)
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
