//! Kernels of decoding.

use burn_cubecl::cubecl::{self, prelude::*};

use super::NOT_FINITE;
use crate::kernels::cube::{groups_of, max_over_units, sum_over_units};

/// Less than any finite score.
const LOWEST: f32 = -3.4e38;

/// Each cube computes one head of a row.
#[cube(launch)]
pub fn attend_past(
    qkv: &[f32],
    bias: &Sequence<Box<[f32]>>,
    positions: &Sequence<Box<[f32]>>,
    cache: &mut [f32],
    table: &mut [i32],
    y: &mut [f32],
    rows: usize,
    time: usize,
    max_len: usize,
    cache_rows: usize,
    cache_len: usize,
    bias_pitch: usize,
    zero_distance: usize,
    scale: f32,
    #[comptime] heads: usize,
    #[comptime] width: usize,
    #[comptime] room: usize,
    #[comptime] units: usize,
    #[comptime] is_rotary: bool,
) {
    let (row, head) = (CUBE_POS / heads, CUBE_POS % heads);
    if row >= rows {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let d_model = comptime!(heads * width);
    let of_head = head * width;
    let first = row * d_model + of_head;
    let part = rows * d_model;
    let of_values = cache_len * cache_rows * d_model;
    let own_place = (time * cache_rows + row) * d_model + of_head;
    let mut query = Shared::<[f32]>::new_slice(width);
    let mut key = Shared::<[f32]>::new_slice(width);
    let mut weights = Shared::<[f32]>::new_slice(room);

    let mut d = unit;
    while d < width {
        let mut q = qkv[first + d];
        let mut k = qkv[part + first + d];
        let mut v = qkv[2 * part + first + d];
        if comptime!(bias.len() > 0) {
            q += bias[0][of_head + d];
            k += bias[0][bias_pitch + of_head + d];
            v += bias[0][2 * bias_pitch + of_head + d];
        }
        query[d] = q;
        key[d] = k;
        cache[of_values + own_place + d] = v;
        d += units;
    }
    if is_rotary {
        sync_cube();
        let half = comptime!(width / 2);
        let mut pair = unit;
        while pair < half {
            let cos = positions[0][time * half + pair];
            let sin = positions[0][(max_len + time) * half + pair];
            let (a, b) = (query[pair], query[half + pair]);
            query[pair] = a * cos - b * sin;
            query[half + pair] = a * sin + b * cos;
            let (a, b) = (key[pair], key[half + pair]);
            key[pair] = a * cos - b * sin;
            key[half + pair] = a * sin + b * cos;
            pair += units;
        }
        sync_cube();
    }
    let mut d = unit;
    while d < width {
        cache[own_place + d] = key[d];
        d += units;
    }
    if head == 0 && unit == 0 {
        table[row * max_len + time] = i32::cast_from(row);
    }
    sync_cube();

    let mut own = f32::new(LOWEST);
    let mut s = unit;
    while s <= time {
        let mut sum = 0.0f32;
        if s == time {
            for d in 0..width {
                sum += query[d] * key[d];
            }
        } else {
            let other = usize::cast_from(table[row * max_len + s]);
            let place = (s * cache_rows + other) * d_model + of_head;
            for d in 0..width {
                sum += query[d] * cache[place + d];
            }
        }
        let mut found = sum * scale;
        if comptime!(!is_rotary && positions.len() > 0) {
            // The bias of distance 0, less the distance, which the first bias limits.
            let mut place = 0usize;
            if time - s < zero_distance {
                place = zero_distance + s - time;
            }
            found += positions[0][place * heads + head];
        }
        weights[s] = found;
        own = max(own, found);
        s += units;
    }
    let sum = exponentials(&mut weights, own, time + 1, units);

    let mut d = unit;
    while d < width {
        // This unit wrote the value.
        let mut mixed = weights[time] * cache[of_values + own_place + d];
        for s in 0..time {
            let other = usize::cast_from(table[row * max_len + s]);
            let place = (s * cache_rows + other) * d_model + of_head;
            mixed += weights[s] * cache[of_values + place + d];
        }
        y[first + d] = mixed / sum;
        d += units;
    }
}

/// Each cube computes one head of a row.
#[cube(launch)]
pub fn attend_source(
    q: &[f32],
    bias: &Sequence<Box<[f32]>>,
    keys_values: &[f32],
    sources: &[i32],
    lengths: &[i32],
    y: &mut [f32],
    rows: usize,
    batch: usize,
    len: usize,
    scale: f32,
    #[comptime] heads: usize,
    #[comptime] width: usize,
    #[comptime] room: usize,
    #[comptime] units: usize,
) {
    let (row, head) = (CUBE_POS / heads, CUBE_POS % heads);
    if row >= rows {
        terminate!();
    }
    let unit = UNIT_POS as usize;
    let d_model = comptime!(heads * width);
    let of_head = head * width;
    let first = row * d_model + of_head;
    let source = usize::cast_from(sources[row]);
    let open = usize::cast_from(lengths[source]);
    let of_keys = source * len * d_model + of_head;
    let of_values = batch * len * d_model + of_keys;
    let mut query = Shared::<[f32]>::new_slice(width);
    let mut weights = Shared::<[f32]>::new_slice(room);

    let mut d = unit;
    while d < width {
        let mut found = q[first + d];
        if comptime!(bias.len() > 0) {
            found += bias[0][of_head + d];
        }
        query[d] = found;
        d += units;
    }
    sync_cube();

    let mut own = f32::new(LOWEST);
    let mut s = unit;
    while s < open {
        let mut sum = 0.0f32;
        for d in 0..width {
            sum += query[d] * keys_values[of_keys + s * d_model + d];
        }
        let found = sum * scale;
        weights[s] = found;
        own = max(own, found);
        s += units;
    }
    let sum = exponentials(&mut weights, own, open, units);
    let scale = select(sum == 0.0f32, 0.0f32, 1.0f32 / sum);

    let mut d = unit;
    while d < width {
        let mut mixed = 0.0f32;
        for s in 0..open {
            mixed += weights[s] * keys_values[of_values + s * d_model + d];
        }
        y[first + d] = mixed * scale;
        d += units;
    }
}

/// Replaces `count` scores by `exp(score - max)`, given the maximum of those of this unit. Returns their sum.
#[cube]
fn exponentials(scores: &mut [f32], own: f32, count: usize, #[comptime] units: usize) -> f32 {
    let highest = max_over_units(own, units);
    let mut own = 0.0f32;
    let mut s = UNIT_POS as usize;
    while s < count {
        let weight = (scores[s] - highest).exp();
        scores[s] = weight;
        own += weight;
        s += units;
    }
    sum_over_units(own, units)
}

/// Each cube takes one row, and searches it once for each token.
#[cube(launch)]
pub fn best_tokens(
    logits: &[f32],
    bias: &Sequence<Box<[f32]>>,
    suppressed: &[i32],
    values: &mut [f32],
    ids: &mut [i32],
    tokens: &mut [i32],
    rows: usize,
    vocabulary: usize,
    #[comptime] count: usize,
    #[comptime] units: usize,
) {
    let row = CUBE_POS;
    if row >= rows {
        terminate!();
    }
    let first = row * vocabulary;
    let unit = UNIT_POS as usize;
    let mut own = f32::new(LOWEST);
    let mut own_flag = 0.0f32;
    let mut i = unit;
    while i < vocabulary {
        let value = logit(logits, bias, first, i);
        own = max(own, value);
        // Not by a comparison of numbers, of which drivers may assume that none is NaN.
        let bits = u32::reinterpret(value);
        if (bits & 0x7fff_ffffu32) > 0x7f80_0000u32 || bits == 0x7f80_0000u32 {
            own_flag = 1.0f32;
        }
        i += units;
    }
    let is_finite = max_over_units(own_flag, units) == 0.0f32;
    let highest = max_over_units(own, units);
    let mut own = 0.0f32;
    let mut i = unit;
    while i < vocabulary {
        own += (logit(logits, bias, first, i) - highest).exp();
        i += units;
    }
    let log_sum = sum_over_units(own, units).ln() + highest;

    let groups = comptime!(groups_of(units));
    let size = comptime!(units / groups);
    let mut all_values = Shared::<[f32]>::new_slice(units);
    let mut all_ids = Shared::<[i32]>::new_slice(units);
    let mut group_values = Shared::<[f32]>::new_slice(groups);
    let mut group_ids = Shared::<[i32]>::new_slice(groups);
    let mut last_value = -f32::new(LOWEST);
    let mut last_id = i32::new(-1);
    for place in 0..count {
        let mut found = f32::new(LOWEST);
        let mut id = i32::new(-1);
        let mut i = unit;
        while i < vocabulary {
            let value = logit(logits, bias, first, i);
            let own = i32::cast_from(i);
            let is_next = value < last_value || (value == last_value && own > last_id);
            if is_next && value > found && suppressed[i] == 0 {
                found = value;
                id = own;
            }
            i += units;
        }
        all_values[unit] = found;
        all_ids[unit] = id;
        sync_cube();
        if unit < groups {
            for other in 0..size {
                let value = all_values[unit * size + other];
                let own = all_ids[unit * size + other];
                if is_before(value, own, found, id) {
                    found = value;
                    id = own;
                }
            }
            group_values[unit] = found;
            group_ids[unit] = id;
        }
        sync_cube();
        for group in 0..groups {
            let value = group_values[group];
            let own = group_ids[group];
            if is_before(value, own, found, id) {
                found = value;
                id = own;
            }
        }
        if unit == 0 {
            values[row * count + place] = found - log_sum;
            ids[row * count + place] = select(is_finite, id, i32::new(NOT_FINITE));
            if place == 0 {
                tokens[row] = max(id, 0i32);
            }
        }
        last_value = found;
        last_id = id;
    }
}

/// Returns `true` if a token comes before another, of which there is none if its id is negative.
#[cube]
fn is_before(value: f32, id: i32, other_value: f32, other_id: i32) -> bool {
    id >= 0 && (other_id < 0 || value > other_value || (value == other_value && id < other_id))
}

#[cube]
fn logit(logits: &[f32], bias: &Sequence<Box<[f32]>>, first: usize, i: usize) -> f32 {
    let mut value = logits[first + i];
    if comptime!(bias.len() > 0) {
        value += bias[0][i];
    }
    value
}

/// Each unit takes the `rows` adjacent rows of one source.
#[cube(launch)]
pub fn extend_beams(
    values: &[f32],
    ids: &[i32],
    scores: &[f32],
    tokens: &mut [i32],
    parents: &mut [i32],
    new_scores: &mut [f32],
    groups: usize,
    end: i32,
    #[comptime] rows: usize,
    #[comptime] beam: usize,
    #[comptime] count: usize,
) {
    let group = ABSOLUTE_POS;
    if group >= groups {
        terminate!();
    }
    let first = group * rows;
    let first_new = group * beam;
    let candidates = comptime!(rows * count);
    let mut kept = 0usize;
    let mut last_score = -f32::new(LOWEST);
    let mut last = 0usize;
    let mut is_first = true;
    for _ in 0..comptime!(2 * beam) {
        let mut best = f32::new(LOWEST);
        let mut chosen = candidates.runtime();
        for candidate in 0..candidates {
            let row = first + candidate / count;
            let place = row * count + candidate % count;
            let score = scores[row] + values[place];
            let is_next =
                is_first || score < last_score || (score == last_score && candidate > last);
            if is_next && score > best && ids[place] >= 0 {
                best = score;
                chosen = candidate;
            }
        }
        if chosen < candidates {
            let row = first + chosen / count;
            let id = ids[row * count + chosen % count];
            if id != end && kept < beam {
                tokens[first_new + kept] = id;
                parents[first_new + kept] = i32::cast_from(row);
                new_scores[first_new + kept] = best;
                kept += 1;
            }
            last_score = best;
            last = chosen;
            is_first = false;
        }
    }
    // Too few: rows that no search has.
    while kept < beam {
        tokens[first_new + kept] = 0i32;
        parents[first_new + kept] = i32::cast_from(first);
        new_scores[first_new + kept] = f32::new(LOWEST);
        kept += 1;
    }
}

/// A unit takes one position of a row.
#[cube(launch)]
pub fn follow(
    table: &[i32],
    sources: &[i32],
    parents: &[i32],
    new_table: &mut [i32],
    new_sources: &mut [i32],
    count: usize,
    len: usize,
    max_len: usize,
) {
    let (row, s) = (ABSOLUTE_POS / (len + 1), ABSOLUTE_POS % (len + 1));
    if row < count {
        let parent = usize::cast_from(parents[row]);
        if s < len {
            new_table[row * max_len + s] = table[parent * max_len + s];
        } else {
            new_sources[row] = sources[parent];
        }
    }
}
