//! Linear layer and the loss of R-Drop (Wu et al. 2021) with bf16 products, in one pass over the rows,
//! like [`linear_cross_entropy`](mod@super::linear_cross_entropy): the logits of a few tokens in both halves
//! of the batch stay in the cache.

use std::{mem::MaybeUninit, sync::Arc};

use burn::backend::flex::FlexTensor;
use rayon::prelude::*;
use tx_kernels::{
    bf16::{self, RightFactor, Unit},
    matrix::Matrix,
    vector::{LANES, exp, max, vectorized},
};

use super::{
    CrossEntropyConfig,
    cross_entropy::{CrossEntropyOutput, Row, RowOptions, RowsLoss},
    flex::{dims, floats, ids, matrix, rows},
    linear_cross_entropy::{Layer, LogitGradients, ROWS},
};

/// Tokens whose logits are computed together.
const TOKENS: usize = ROWS / 2;

/// Logits of one token in both halves: `x` and `y`, with the predictions `p` and `q`.
#[derive(Debug)]
struct Pair {
    largest: [f32; 2],
    /// `Σ e^(x - max x)` and `Σ e^(y - max y)`
    sums: [f32; 2],
    /// `ln` of the sums, the first minus the second.
    offset: f32,
    /// `KL(p ‖ q)` and `KL(q ‖ p)`
    divergences: [f32; 2],
}

impl Pair {
    /// Computes the sums. With `z = (x - max x) - (y - max y)`, `log p - log q = z - offset`, so that the
    /// divergences are `Σ p z - offset` and `offset - Σ q z`.
    #[inline(always)]
    fn new(x: &[f32], y: &[f32]) -> Self {
        let [first, second] = [max(x), max(y)];
        let mut lanes = [[0.0; LANES]; 4];
        let ((wide_x, x), (wide_y, y)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
        for (x, y) in wide_x.iter().zip(wide_y) {
            for lane in 0..LANES {
                add(&mut lanes, lane, x[lane] - first, y[lane] - second);
            }
        }
        for (lane, (x, y)) in x.iter().zip(y).enumerate() {
            add(&mut lanes, lane, x - first, y - second);
        }
        let [p, q, along_p, along_q] = lanes.map(|lanes| lanes.iter().sum::<f32>());
        let offset = p.ln() - q.ln();
        let divergences = [along_p / p - offset, offset - along_q / q];
        Self { largest: [first, second], sums: [p, q], offset, divergences }
    }

    /// Returns the gradients of one logit in both halves, without the part of a target.
    ///
    /// With `d = log p - log q`, the gradient of `KL(p ‖ q) + KL(q ‖ p)` is `p (d - KL(p ‖ q)) + p - q` for
    /// `x`, and `q (-d - KL(q ‖ p)) + q - p` for `y`.
    #[inline(always)]
    fn gradients(&self, x: f32, y: f32, factors: Factors) -> [f32; 2] {
        let Self { largest, sums, offset, divergences } = self;
        let (x, y) = (x - largest[0], y - largest[1]);
        let (p, q, d) = (exp(x) / sums[0], exp(y) / sums[1], x - y - offset);
        let Factors { entropy, divergence, constant } = factors;
        [
            p * (entropy + divergence * (d - divergences[0] + 1.0)) - divergence * q + constant,
            q * (entropy + divergence * (1.0 - d - divergences[1])) - divergence * p + constant,
        ]
    }
}

/// Adds the terms of two logits, minus the maximum of each half, to one lane of the sums.
#[inline(always)]
fn add(lanes: &mut [[f32; LANES]; 4], lane: usize, x: f32, y: f32) {
    let (z, p, q) = (x - y, exp(x), exp(y));
    lanes[0][lane] += p;
    lanes[1][lane] += q;
    lanes[2][lane] += p * z;
    lanes[3][lane] += q * z;
}

/// Factors of a token's loss.
#[derive(Debug, Clone, Copy)]
struct Factors {
    /// Of the cross-entropy of each half.
    entropy: f32,
    divergence: f32,
    /// Part of each gradient that does not depend on the logits.
    constant: f32,
}

/// Computes the loss of R-Drop for the logits `x w + b`, and their gradients. Negative log-likelihood and
/// correct tokens are those of both halves together.
///
/// # Shapes
///
/// - `targets` and `weights`: `[N]`, for the `2 N` rows of `x`
pub fn forward(
    Layer { x, w, b }: Layer<'_>,
    targets: &FlexTensor,
    weights: Option<&FlexTensor>,
    config: CrossEntropyConfig,
    alpha: f32,
) -> (CrossEntropyOutput, Arc<LogitGradients>) {
    let options = RowOptions::from(config);
    let [count, d_in] = rows(x);
    let [_, width] = dims(w);
    let (bias, weights, targets) = (b.map(floats), weights.map(floats), ids(targets));
    assert_eq!(2 * targets.len(), count, "one target for two rows");
    let layer = RightFactor::new(Unit::fastest(), matrix(w));
    let halves = floats(x).split_at(targets.len() * d_in);
    let sum_width = if bias.is_some() { width } else { 0 };
    let chunk = |scratch: &mut [Vec<f32>; 2],
                 (number, (rooms, targets)): (usize, (Rooms<'_>, &[i32]))| {
        let first = number * TOKENS;
        let [factor, logits] = scratch;
        factor.clear();
        for half in [halves.0, halves.1] {
            factor.extend_from_slice(&half[first * d_in..][..targets.len() * d_in]);
        }
        let len = 2 * targets.len() * width;
        logits.clear();
        logits.reserve(len);
        let factor = Matrix::new(factor, 2 * targets.len(), d_in);
        let logits = layer.multiply(factor, bias, &mut logits.spare_capacity_mut()[..len]);
        let mut part = RowsLoss::default();
        let mut sum = vec![0.0; sum_width];
        vectorized(
            #[inline(always)]
            || {
                let (x, y) = logits.split_at(targets.len() * width);
                for (row, &target) in targets.iter().enumerate() {
                    let places = row * width..(row + 1) * width;
                    let rooms = [&mut *rooms.0, &mut *rooms.1];
                    let rooms = rooms.map(|room| &mut room[places.clone()]);
                    let Some(target) = options.place(target) else {
                        for room in rooms {
                            room.fill(MaybeUninit::new(0));
                        }
                        continue;
                    };
                    let weight = weights.map_or(1.0, |weights| weights[first + row]);
                    let token = Token { target, weight, alpha, options };
                    token.run([&x[places.clone()], &y[places]], rooms, &mut part, &mut sum);
                }
            },
        );
        (part, sum)
    };
    let mut values = Vec::with_capacity(count * width);
    let (first, second) =
        values.spare_capacity_mut()[..count * width].split_at_mut(count / 2 * width);
    let parts = first
        .par_chunks_mut((TOKENS * width).max(1))
        .zip(second.par_chunks_mut((TOKENS * width).max(1)))
        .zip(targets.par_chunks(TOKENS))
        .enumerate()
        .map_init(Default::default, chunk)
        .collect();
    // SAFETY: every row of both halves has been written.
    #[allow(unsafe_code)]
    unsafe {
        values.set_len(count * width);
    }
    LogitGradients::collect(parts, values, sum_width)
}

/// Room for the gradients of some rows of both halves.
type Rooms<'a> = (&'a mut [MaybeUninit<u16>], &'a mut [MaybeUninit<u16>]);

/// Token that counts.
struct Token {
    target: usize,
    weight: f32,
    alpha: f32,
    options: RowOptions,
}

impl Token {
    /// Adds the loss of the token to `part`, writes the gradients of its logits, and adds them to `sum`
    /// unless that is empty.
    #[inline(always)]
    fn run(
        &self,
        [x, y]: [&[f32]; 2],
        [x_room, y_room]: [&mut [MaybeUninit<u16>]; 2],
        part: &mut RowsLoss,
        sum: &mut [f32],
    ) {
        let &Self { target, weight, alpha, options } = self;
        let entropy = 0.5 * weight;
        let [constant, of_target] = options.constant_gradients(entropy, x.len());
        let factors = Factors { entropy, divergence: 0.25 * alpha * weight, constant };
        let pair = Pair::new(x, y);
        for (half, x) in [x, y].into_iter().enumerate() {
            let row = Row::new(x, pair.largest[half], target, options);
            part.add_row(&row, pair.sums[half], entropy, options);
        }
        let [forward, reverse] = pair.divergences.map(f64::from);
        part.add_loss(f64::from(factors.divergence) * (forward + reverse));

        let rooms = x_room.iter_mut().zip(y_room.iter_mut());
        if sum.is_empty() {
            for ((x_place, y_place), (&x, &y)) in rooms.zip(x.iter().zip(y)) {
                let [x, y] = pair.gradients(x, y, factors);
                x_place.write(bf16::round(x));
                y_place.write(bf16::round(y));
            }
        } else {
            for (((x_place, y_place), (&x, &y)), sum) in
                rooms.zip(x.iter().zip(y)).zip(sum.iter_mut())
            {
                let [x, y] = pair.gradients(x, y, factors);
                *sum += x + y;
                x_place.write(bf16::round(x));
                y_place.write(bf16::round(y));
            }
            sum[target] += 2.0 * of_target;
        }
        let [x, y] = pair.gradients(x[target], y[target], factors);
        x_room[target].write(bf16::round(x + of_target));
        y_room[target].write(bf16::round(y + of_target));
    }
}
