//! Layer normalization (Ba et al. 2016), RMSNorm (Zhang and Sennrich 2019), and their backward passes.

use burn::tensor::Shape;
use burn_cubecl::{
    cubecl::{self, calculate_cube_count_elemwise, prelude::*},
    tensor::CubeTensor,
};

use super::{empty, rows, sum_over_units, sums::column_sums};

/// Units of a cube that normalize a row together.
const UNITS: usize = 64;

/// Maximum number of groups of rows whose gradients of `γ` and `β` are added up first.
const MAX_GROUPS: usize = 256;

/// Computes `(x - mean) / √(variance + ε) · γ + β`, row by row; without `β`,
/// `x / √(mean of squares + ε) · γ`.
///
/// # Shapes
///
/// - `x`: `[.., width]`; `gamma` and `beta`: `[width]`; returns `[.., width]`; all contiguous
pub fn forward(
    x: CubeTensor,
    gamma: CubeTensor,
    beta: Option<CubeTensor>,
    epsilon: f32,
) -> CubeTensor {
    let [count, width] = rows(&x);
    let y = empty(&x, x.meta.shape().clone());
    if count * width == 0 {
        return y;
    }
    let dim = CubeDim::new_1d(UNITS as u32);
    let has_shift = beta.is_some();
    // A kernel has the same number of buffers with and without a shift.
    let beta = beta.unwrap_or_else(|| gamma.clone());
    normalize::launch(
        &x.client.clone(),
        calculate_cube_count_elemwise(&x.client, count * UNITS, dim),
        dim,
        x.into_buffer_arg(),
        gamma.into_buffer_arg(),
        beta.into_buffer_arg(),
        y.clone().into_buffer_arg(),
        count,
        epsilon,
        width,
        UNITS,
        has_shift,
    );
    y
}

/// Returns the gradients of `x`, `γ` and `β`.
///
/// With `x̂` the normalized row and `g = dy · γ`: `dx = (g - mean(g) - x̂ mean(g x̂)) / √(var +
/// ε)`, `dγ = Σ dy x̂`, `dβ = Σ dy`. Without a shift, `dx` has no `mean(g)`, and `dβ` has no meaning.
pub fn backward(
    x: CubeTensor,
    gamma: CubeTensor,
    has_shift: bool,
    dy: CubeTensor,
    epsilon: f32,
) -> [CubeTensor; 3] {
    let [count, width] = rows(&x);
    let dx = empty(&x, x.meta.shape().clone());
    let per_group = count.div_ceil(MAX_GROUPS).max(1);
    let groups = count.div_ceil(per_group);
    // Gradients of γ and β of each group, side by side.
    let parts = empty(&x, Shape::new([groups, 2 * width]));
    if count * width > 0 {
        let dim = CubeDim::new_1d(UNITS as u32);
        normalize_backward::launch(
            &x.client.clone(),
            calculate_cube_count_elemwise(&x.client, groups * UNITS, dim),
            dim,
            x.into_buffer_arg(),
            gamma.into_buffer_arg(),
            dy.into_buffer_arg(),
            dx.clone().into_buffer_arg(),
            parts.clone().into_buffer_arg(),
            count,
            per_group,
            epsilon,
            width,
            UNITS,
            has_shift,
        );
    }
    let [dgamma, dbeta] = column_sums(parts);
    [dx, dgamma, dbeta]
}

/// Returns mean and `1 / √(variance + ε)` of a row that starts at `first`; without a shift, 0 and
/// `1 / √(mean of squares + ε)`.
#[cube]
fn moments(
    x: &[f32],
    first: usize,
    epsilon: f32,
    #[comptime] width: usize,
    #[comptime] units: usize,
    #[comptime] has_shift: bool,
) -> (f32, f32) {
    let n = f32::cast_from(width);
    let mut mean = 0.0f32;
    if has_shift {
        let mut own = 0.0f32;
        let mut i = UNIT_POS as usize;
        while i < width {
            own += x[first + i];
            i += units;
        }
        mean = sum_over_units(own, units) / n;
    }
    let mut own = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < width {
        let d = x[first + i] - mean;
        own += d * d;
        i += units;
    }
    let variance = sum_over_units(own, units) / n;
    (mean, 1.0f32 / (variance + epsilon).sqrt())
}

/// Each cube normalizes one row.
#[cube(launch)]
fn normalize(
    x: &[f32],
    gamma: &[f32],
    beta: &[f32],
    y: &mut [f32],
    count: usize,
    epsilon: f32,
    #[comptime] width: usize,
    #[comptime] units: usize,
    #[comptime] has_shift: bool,
) {
    if CUBE_POS >= count {
        terminate!();
    }
    let first = CUBE_POS * width;
    let (mean, scale) = moments(x, first, epsilon, width, units, has_shift);
    let mut i = UNIT_POS as usize;
    while i < width {
        let mut scaled = (x[first + i] - mean) * scale * gamma[i];
        if has_shift {
            scaled += beta[i];
        }
        y[first + i] = scaled;
        i += units;
    }
}

/// Each cube takes `per_group` rows.
#[cube(launch)]
fn normalize_backward(
    x: &[f32],
    gamma: &[f32],
    dy: &[f32],
    dx: &mut [f32],
    parts: &mut [f32],
    count: usize,
    per_group: usize,
    epsilon: f32,
    #[comptime] width: usize,
    #[comptime] units: usize,
    #[comptime] has_shift: bool,
) {
    let n = f32::cast_from(width);
    let part = CUBE_POS * 2 * width;
    let start = CUBE_POS * per_group;
    if start >= count {
        terminate!();
    }
    let mut end = start + per_group;
    if end > count {
        end = count;
    }
    let mut i = UNIT_POS as usize;
    while i < width {
        parts[part + i] = 0.0f32;
        parts[part + width + i] = 0.0f32;
        i += units;
    }
    for row in start..end {
        let first = row * width;
        let (mean, scale) = moments(x, first, epsilon, width, units, has_shift);
        let mut own_g = 0.0f32;
        let mut own_gx = 0.0f32;
        let mut i = UNIT_POS as usize;
        while i < width {
            let normalized = (x[first + i] - mean) * scale;
            let d = dy[first + i];
            own_g += d * gamma[i];
            own_gx += d * gamma[i] * normalized;
            // Only this unit adds to these elements.
            parts[part + i] += d * normalized;
            parts[part + width + i] += d;
            i += units;
        }
        let mut mean_g = 0.0f32;
        if has_shift {
            mean_g = sum_over_units(own_g, units) / n;
        }
        let mean_gx = sum_over_units(own_gx, units) / n;
        let mut i = UNIT_POS as usize;
        while i < width {
            let normalized = (x[first + i] - mean) * scale;
            let g = dy[first + i] * gamma[i];
            dx[first + i] = scale * (g - mean_g - normalized * mean_gx);
            i += units;
        }
    }
}
