//! Gated recurrence over the positions of a sequence, and its backward pass.

use burn::backend::flex::FlexTensor;
use rayon::prelude::*;
use tx_kernels::{
    rows::{copy_pieces, per_piece, zeros},
    vector::{exp, vectorized},
};

use super::flex::{dims, floats, tensor};

/// Computes `s_t = f_t s_{t-1} + (1 - f_t) x_t` with `f = σ(gates)` and `s_{-1} = 0`.
///
/// # Shapes
///
/// - `x` and `gates`: `[B, T, width]`; returns the same
pub fn forward(x: &FlexTensor, gates: &FlexTensor) -> FlexTensor {
    let [_, len, width] = dims(x);
    let sequence = (len * width).max(1);
    let all = floats(gates);
    let (states, _) = copy_pieces(floats(x), sequence, per_piece(sequence), |first, states| {
        let gates = &all[first * sequence..][..states.len()];
        vectorized(
            #[inline(always)]
            || {
                for (states, gates) in
                    states.chunks_exact_mut(sequence).zip(gates.chunks_exact(sequence))
                {
                    for t in 0..len {
                        let (earlier, states) = states.split_at_mut(t * width);
                        let gates = &gates[t * width..][..width];
                        let previous = &earlier[earlier.len() - width.min(earlier.len())..];
                        step(&mut states[..width], gates, previous);
                    }
                }
            },
        );
    });
    tensor(states, x.layout().shape().clone())
}

/// Replaces candidates by states; without a previous state it is 0.
#[inline(always)]
fn step(states: &mut [f32], gates: &[f32], previous: &[f32]) {
    if previous.is_empty() {
        for (state, gate) in states.iter_mut().zip(gates) {
            *state *= 1.0 - sigmoid(*gate);
        }
    }
    for ((state, gate), previous) in states.iter_mut().zip(gates).zip(previous) {
        *state += sigmoid(*gate) * (previous - *state);
    }
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Returns the gradients of `x` and `gates`, from the result `states`.
///
/// With `g_t` the gradient of `s_t` from its own position and all later ones,
/// `g_t = dy_t + f_{t+1} g_{t+1}`: `dx_t = (1 - f_t) g_t`, and the gradient of the gate is
/// `(s_{t-1} - x_t) f_t (1 - f_t) g_t`.
pub fn backward(
    x: &FlexTensor,
    gates: &FlexTensor,
    states: &FlexTensor,
    dy: &FlexTensor,
) -> [FlexTensor; 2] {
    let [_, len, width] = dims(x);
    let sequence = (len * width).max(1);
    let (x_all, gates_all, states_all) = (floats(x), floats(gates), floats(states));
    let mut dx = floats(dy).to_vec();
    let mut dgates = zeros(dx.len());
    let pieces = dx.par_chunks_mut(sequence).zip(dgates.par_chunks_mut(sequence));
    pieces.enumerate().for_each(|(index, (dx, dgates))| {
        let at = index * sequence..(index + 1) * sequence;
        let (x, gates, states) = (&x_all[at.clone()], &gates_all[at.clone()], &states_all[at]);
        let mut later = vec![0.0; width];
        let start = vec![0.0; width];
        for t in (0..len).rev() {
            let row = t * width..(t + 1) * width;
            let previous = match t {
                0 => &start[..],
                _ => &states[row.start - width..row.start],
            };
            let (x, gates) = (&x[row.clone()], &gates[row.clone()]);
            let (dx, dgates) = (&mut dx[row.clone()], &mut dgates[row]);
            vectorized(
                #[inline(always)]
                || {
                    for i in 0..width {
                        let f = sigmoid(gates[i]);
                        let g = dx[i] + later[i];
                        later[i] = f * g;
                        dx[i] = g - f * g;
                        dgates[i] = (previous[i] - x[i]) * f * dx[i];
                    }
                },
            );
        }
    });
    let shape = || x.layout().shape().clone();
    [tensor(dx, shape()), tensor(dgates, shape())]
}
