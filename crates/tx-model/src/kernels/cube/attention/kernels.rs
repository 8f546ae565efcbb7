//! Kernels of attention.

use burn_cubecl::cubecl::{self, prelude::*};

use super::{LOWEST, Layout};
use crate::kernels::cube::{
    dropout::{Mask, factor},
    max_over_units, sum_over_units,
};

/// Returns the score of query `i` and key `j` of head `h` of sentence `b`; `LOWEST` if it is blocked.
#[cube]
fn score<M: Int>(
    q: &[f32],
    k: &[f32],
    bias: &Sequence<Box<[f32]>>,
    blocked: &Sequence<Box<[M]>>,
    layout: Layout,
    b: usize,
    h: usize,
    i: usize,
    j: usize,
    #[comptime] width: usize,
) -> f32 {
    let mut is_open = true;
    if comptime!(blocked.len() > 0) {
        let axes = layout.blocked;
        is_open =
            blocked[0][b * axes.b + h * axes.h + i * axes.l + j * axes.last] == M::from_int(0);
    }
    let mut found = f32::new(LOWEST);
    if is_open {
        let first_q = b * layout.q.b + h * layout.q.h + i * layout.q.l;
        let first_k = b * layout.k.b + h * layout.k.h + j * layout.k.l;
        let mut sum = 0.0f32;
        for d in 0..width {
            sum += q[first_q + d] * k[first_k + d];
        }
        found = sum * layout.scale;
        if comptime!(bias.len() > 0) {
            found += bias[0][h * layout.bias.h + i * layout.bias.l + j * layout.bias.last];
        }
    }
    found
}

/// Returns the product of `v` of key `j` and the gradient of the mixed values of query `i`.
#[cube]
fn change(
    v: &[f32],
    dy: &[f32],
    layout: Layout,
    b: usize,
    h: usize,
    i: usize,
    j: usize,
    #[comptime] width: usize,
) -> f32 {
    let first_v = b * layout.v.b + h * layout.v.h + j * layout.v.l;
    let first_y = ((b * layout.queries + i) * layout.heads + h) * width;
    let mut sum = 0.0f32;
    for d in 0..width {
        sum += v[first_v + d] * dy[first_y + d];
    }
    sum
}

/// Returns the factor of dropout of a weight.
#[cube]
fn dropout_factor(mask: Mask, layout: Layout, b: usize, h: usize, i: usize, j: usize) -> f32 {
    factor(mask, ((b * layout.heads + h) * layout.queries + i) * layout.keys + j)
}

/// Each cube mixes the values for one query of a head of a sentence.
#[cube(launch)]
pub fn attend<M: Int>(
    q: &[f32],
    k: &[f32],
    v: &[f32],
    bias: &Sequence<Box<[f32]>>,
    blocked: &Sequence<Box<[M]>>,
    y: &mut [f32],
    layout: Layout,
    rows: usize,
    mask: Mask,
    #[comptime] width: usize,
    #[comptime] room: usize,
    #[comptime] units: usize,
) {
    let row = CUBE_POS;
    if row >= rows {
        terminate!();
    }
    let i = row % layout.queries;
    let h = row / layout.queries % layout.heads;
    let b = row / layout.queries / layout.heads;
    let unit = UNIT_POS as usize;
    let mut weights = Shared::<[f32]>::new_slice(room);

    let mut own = f32::new(LOWEST);
    let mut j = unit;
    while j < layout.keys {
        let found = score::<M>(q, k, bias, blocked, layout, b, h, i, j, width);
        weights[j] = found;
        own = max(own, found);
        j += units;
    }
    let highest = max_over_units(own, units);
    let mut own = 0.0f32;
    let mut j = unit;
    while j < layout.keys {
        let found = weights[j];
        let weight = select(found == LOWEST, 0.0f32, (found - highest).exp());
        own += weight;
        weights[j] = weight * dropout_factor(mask, layout, b, h, i, j);
        j += units;
    }
    let sum = sum_over_units(own, units);
    let scale = select(sum == 0.0f32, 0.0f32, 1.0f32 / sum);

    let first_y = ((b * layout.queries + i) * layout.heads + h) * width;
    let mut d = unit;
    while d < width {
        let mut mixed = 0.0f32;
        for j in 0..layout.keys {
            mixed += weights[j] * v[b * layout.v.b + h * layout.v.h + j * layout.v.l + d];
        }
        y[first_y + d] = mixed * scale;
        d += units;
    }
}

/// Each cube computes the gradient of one query, and two numbers for the gradients of keys and values: the
/// logarithm of the sum of exponentials, and the mean change by the weights.
#[cube(launch)]
pub fn of_queries_kernel<M: Int>(
    q: &[f32],
    k: &[f32],
    v: &[f32],
    bias: &Sequence<Box<[f32]>>,
    blocked: &Sequence<Box<[M]>>,
    dy: &[f32],
    results: &mut [f32],
    layout: Layout,
    rows: usize,
    statistics: usize,
    mask: Mask,
    #[comptime] width: usize,
    #[comptime] room: usize,
    #[comptime] units: usize,
) {
    let row = CUBE_POS;
    if row >= rows {
        terminate!();
    }
    let i = row % layout.queries;
    let h = row / layout.queries % layout.heads;
    let b = row / layout.queries / layout.heads;
    let unit = UNIT_POS as usize;
    let mut scores = Shared::<[f32]>::new_slice(room);
    let mut changes = Shared::<[f32]>::new_slice(room);

    let mut own = f32::new(LOWEST);
    let mut j = unit;
    while j < layout.keys {
        let found = score::<M>(q, k, bias, blocked, layout, b, h, i, j, width);
        scores[j] = found;
        own = max(own, found);
        j += units;
    }
    let highest = max_over_units(own, units);
    let mut own = 0.0f32;
    let mut j = unit;
    while j < layout.keys {
        let found = scores[j];
        own += select(found == LOWEST, 0.0f32, (found - highest).exp());
        j += units;
    }
    let log_sum = sum_over_units(own, units).ln() + highest;
    let mut own = 0.0f32;
    let mut j = unit;
    while j < layout.keys {
        let found = scores[j];
        let mut weight = 0.0f32;
        let mut changed = 0.0f32;
        if found != LOWEST {
            weight = (found - log_sum).exp();
            changed =
                change(v, dy, layout, b, h, i, j, width) * dropout_factor(mask, layout, b, h, i, j);
        }
        scores[j] = weight;
        changes[j] = changed;
        own += weight * changed;
        j += units;
    }
    let mean = sum_over_units(own, units);
    let mut j = unit;
    while j < layout.keys {
        scores[j] = scores[j] * (changes[j] - mean) * layout.scale;
        j += units;
    }
    sync_cube();

    let first = ((b * layout.queries + i) * layout.heads + h) * width;
    let mut d = unit;
    while d < width {
        let mut sum = 0.0f32;
        for j in 0..layout.keys {
            sum += scores[j] * k[b * layout.k.b + h * layout.k.h + j * layout.k.l + d];
        }
        results[first + d] = sum;
        d += units;
    }
    if unit == 0 {
        results[statistics + 2 * row] = log_sum;
        results[statistics + 2 * row + 1] = mean;
    }
}

/// Each cube computes the gradients of one key and its value.
#[cube(launch)]
pub fn of_keys_kernel<M: Int>(
    q: &[f32],
    k: &[f32],
    v: &[f32],
    bias: &Sequence<Box<[f32]>>,
    blocked: &Sequence<Box<[M]>>,
    dy: &[f32],
    results: &mut [f32],
    layout: Layout,
    rows: usize,
    dk: usize,
    dv: usize,
    statistics: usize,
    mask: Mask,
    #[comptime] width: usize,
    #[comptime] room: usize,
    #[comptime] units: usize,
) {
    let row = CUBE_POS;
    if row >= rows {
        terminate!();
    }
    let j = row % layout.keys;
    let h = row / layout.keys % layout.heads;
    let b = row / layout.keys / layout.heads;
    let unit = UNIT_POS as usize;
    let mut of_scores = Shared::<[f32]>::new_slice(room);
    let mut weights = Shared::<[f32]>::new_slice(room);

    let mut i = unit;
    while i < layout.queries {
        let numbers = statistics + 2 * ((b * layout.heads + h) * layout.queries + i);
        let found = score::<M>(q, k, bias, blocked, layout, b, h, i, j, width);
        let mut weight = 0.0f32;
        let mut of_score = 0.0f32;
        if found != LOWEST {
            let kept = dropout_factor(mask, layout, b, h, i, j);
            let changed = change(v, dy, layout, b, h, i, j, width) * kept;
            weight = (found - results[numbers]).exp();
            of_score = weight * (changed - results[numbers + 1]) * layout.scale;
            weight *= kept;
        }
        weights[i] = weight;
        of_scores[i] = of_score;
        i += units;
    }
    sync_cube();

    let first = ((b * layout.keys + j) * layout.heads + h) * width;
    let mut d = unit;
    while d < width {
        let mut sum_k = 0.0f32;
        let mut sum_v = 0.0f32;
        for i in 0..layout.queries {
            let of_q = b * layout.q.b + h * layout.q.h + i * layout.q.l + d;
            let of_y = ((b * layout.queries + i) * layout.heads + h) * width + d;
            sum_k += of_scores[i] * q[of_q];
            sum_v += weights[i] * dy[of_y];
        }
        results[dk + first + d] = sum_k;
        results[dv + first + d] = sum_v;
        d += units;
    }
}

/// Each unit computes the gradient of one element of the bias, from every sentence.
#[cube(launch)]
pub fn of_bias_kernel<M: Int>(
    q: &[f32],
    k: &[f32],
    v: &[f32],
    bias: &Sequence<Box<[f32]>>,
    blocked: &Sequence<Box<[M]>>,
    dy: &[f32],
    results: &[f32],
    of_bias: &mut [f32],
    layout: Layout,
    batch: usize,
    statistics: usize,
    mask: Mask,
    #[comptime] width: usize,
) {
    let position = ABSOLUTE_POS;
    if position >= of_bias.len() {
        terminate!();
    }
    let j = position % layout.keys;
    let i = position / layout.keys % layout.queries;
    let h = position / layout.keys / layout.queries;
    let mut sum = 0.0f32;
    for b in 0..batch {
        let found = score::<M>(q, k, bias, blocked, layout, b, h, i, j, width);
        if found != LOWEST {
            let numbers = statistics + 2 * ((b * layout.heads + h) * layout.queries + i);
            let changed =
                change(v, dy, layout, b, h, i, j, width) * dropout_factor(mask, layout, b, h, i, j);
            sum += (found - results[numbers]).exp() * (changed - results[numbers + 1]);
        }
    }
    of_bias[position] = sum;
}
