//! One update by Adam (Kingma and Ba 2015) in a single pass.

use std::mem::MaybeUninit;

use burn::backend::flex::FlexTensor;
use rayon::prelude::*;
use tx_kernels::{
    rows::per_piece,
    vector::{sum_of, vectorized},
};

use super::{
    AdamUpdate,
    flex::{contiguous, floats, tensor, writable},
};

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
    let [parameter, gradient] = [parameter, gradient].map(contiguous);
    let shape = parameter.layout().shape().clone();
    let [mut exp_avg, mut exp_avg_sq] = [exp_avg, exp_avg_sq].map(writable);
    // Burn's Learner still refers to the old parameter, so the new one has memory of its own.
    let (old, gradient) = (floats(&parameter), floats(&gradient));
    let mut new = Vec::with_capacity(old.len());
    let one =
        |new: &mut [MaybeUninit<f32>], m: &mut [f32], v: &mut [f32], old: &[f32], g: &[f32]| {
            vectorized(
                #[inline(always)]
                || {
                    let moments = m.iter_mut().zip(v.iter_mut()).zip(g);
                    for ((new, &x), ((m, v), g)) in new.iter_mut().zip(old).zip(moments) {
                        let g = g + l2 * x;
                        *m = beta_1 * *m + (1.0 - beta_1) * g;
                        *v = beta_2 * *v + (1.0 - beta_2) * g * g;
                        new.write(decay * x - step * *m / (v.sqrt() + epsilon));
                    }
                },
            );
        };
    let room = &mut new.spare_capacity_mut()[..old.len()];
    let (m, v) = (exp_avg.storage_mut::<f32>(), exp_avg_sq.storage_mut::<f32>());
    assert!([m.len(), v.len(), gradient.len()] == [old.len(); 3], "lengths of an update");
    let piece = per_piece(1);
    if old.len() <= piece {
        one(room, m, v, old, gradient);
    } else {
        room.par_chunks_mut(piece)
            .zip(m.par_chunks_mut(piece))
            .zip(v.par_chunks_mut(piece))
            .zip(old.par_chunks(piece).zip(gradient.par_chunks(piece)))
            .for_each(|(((room, m), v), (old, g))| one(room, m, v, old, g));
    }
    // SAFETY: `one` has written every element, because all slices have the same length.
    #[allow(unsafe_code)]
    unsafe {
        new.set_len(old.len());
    }
    (tensor(new, shape), exp_avg, exp_avg_sq)
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
