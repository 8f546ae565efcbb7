//! Layer normalization (Ba et al. 2016), RMSNorm (Zhang and Sennrich 2019), also of a residual sum, and
//! their backward passes.

use burn::tensor::Shape;
use burn_cubecl::{
    cubecl::{self, prelude::*},
    kernel::into_contiguous,
    tensor::CubeTensor,
};

use super::{
    cubes,
    dropout::{KeyedMask, Mask, factor},
    empty,
    flat::{alignment, view},
    residual::Branch,
    rows, sum_over_units,
    sums::{column_sums, rows_of_group},
};

/// Units of a cube that normalize a row together, at most.
const UNITS: usize = 64;

/// Maximum number of groups of rows whose gradients of `γ` and `β` are added up first.
const MAX_GROUPS: usize = 256;

/// Weights of a norm.
#[derive(Debug, Clone)]
pub struct Norm {
    gamma: CubeTensor,
    /// `None` in RMSNorm.
    beta: Option<CubeTensor>,
    epsilon: f32,
}

impl Norm {
    pub fn new(gamma: CubeTensor, beta: Option<CubeTensor>, epsilon: f32) -> Self {
        Self { gamma: into_contiguous(gamma), beta: beta.map(into_contiguous), epsilon }
    }

    /// Returns `true` unless this is an RMSNorm.
    pub fn has_shift(&self) -> bool {
        self.beta.is_some()
    }

    /// Returns `γ` and `β`; `γ` in place of a missing `β`, as a kernel has the same number of buffers with
    /// and without a shift.
    fn arguments(self) -> [BufferArg; 2] {
        let beta = self.beta.unwrap_or_else(|| self.gamma.clone());
        [self.gamma.into_buffer_arg(), beta.into_buffer_arg()]
    }
}

/// Computes `(x - mean) / √(variance + ε) · γ + β`, row by row; without `β`,
/// `x / √(mean of squares + ε) · γ`.
///
/// # Shapes
///
/// - `x`: `[.., width]`, contiguous; returns `[.., width]`
pub fn forward(x: CubeTensor, norm: Norm) -> CubeTensor {
    let [count, width] = rows(&x);
    let y = empty(&x, x.meta.shape().clone());
    if count * width == 0 {
        return y;
    }
    let (cubes, dim, units) = cubes(&x, count, UNITS);
    let (has_shift, epsilon) = (norm.has_shift(), norm.epsilon);
    let [gamma, beta] = norm.arguments();
    normalize::launch(
        &x.client.clone(),
        cubes,
        dim,
        x.into_buffer_arg(),
        gamma,
        beta,
        y.clone().into_buffer_arg(),
        count,
        epsilon,
        width,
        units,
        has_shift,
    );
    y
}

/// Adds `branch` to `x` and normalizes the sum. Returns the sum, too.
pub fn forward_of_sum(x: CubeTensor, branch: Branch, norm: Norm) -> [CubeTensor; 2] {
    let x = into_contiguous(x);
    let [count, width] = rows(&x);
    let [sum, result] = [(); 2].map(|()| empty(&x, x.meta.shape().clone()));
    if count * width == 0 {
        return [sum, result];
    }
    let (cubes, dim, units) = cubes(&x, count, UNITS);
    let (has_shift, epsilon) = (norm.has_shift(), norm.epsilon);
    let ((y, bias, mask), [gamma, beta]) = (branch.arguments(), norm.arguments());
    add_and_normalize::launch(
        &x.client.clone(),
        cubes,
        dim,
        x.into_buffer_arg(),
        y,
        bias,
        gamma,
        beta,
        sum.clone().into_buffer_arg(),
        result.clone().into_buffer_arg(),
        mask,
        count,
        epsilon,
        width,
        units,
        has_shift,
    );
    [sum, result]
}

/// Gradients of a norm.
#[derive(Debug)]
pub struct Gradients {
    pub x: CubeTensor,
    /// Of the branch before its mask, if `x` is a sum.
    pub branch: CubeTensor,
    /// Of the bias of the branch; of no meaning without one.
    pub bias: CubeTensor,
    pub gamma: CubeTensor,
    /// Of no meaning without a shift.
    pub beta: CubeTensor,
}

/// Returns the gradients of `x`, `γ` and `β`, and of what was added to get `x`.
///
/// With `x̂` the normalized row and `g = dy · γ`: `dx = (g - mean(g) - x̂ mean(g x̂)) / √(var +
/// ε)`, `dγ = Σ dy x̂`, `dβ = Σ dy`. Without a shift, `dx` has no `mean(g)`. The gradient of the branch
/// is the masked `dx`, and that of its bias the sum of its rows.
pub fn backward(
    x: CubeTensor,
    norm: Norm,
    mask: Option<KeyedMask>,
    has_bias: bool,
    dy: CubeTensor,
) -> Gradients {
    let ([count, width], shape) = (rows(&x), x.meta.shape().clone());
    let (is_masked, has_shift) = (mask.is_some(), norm.has_shift());
    // One buffer for both gradients, because the smallest adapters have few.
    let pitch = (count * width).next_multiple_of(alignment(&x));
    let results = empty(&x, Shape::new([if is_masked { 2 * pitch } else { pitch }]));
    let per_group = count.div_ceil(MAX_GROUPS).max(1);
    let groups = count.div_ceil(per_group);
    // Gradients of bias, γ and β of each group, side by side.
    let parts = empty(&x, Shape::new([groups, if has_bias { 3 * width } else { 2 * width }]));
    if count * width > 0 {
        let (cubes, dim, units) = cubes(&x, groups, UNITS);
        normalize_backward::launch(
            &x.client.clone(),
            cubes,
            dim,
            x.into_buffer_arg(),
            norm.gamma.into_buffer_arg(),
            into_contiguous(dy).into_buffer_arg(),
            results.clone().into_buffer_arg(),
            parts.clone().into_buffer_arg(),
            KeyedMask::argument(mask),
            count,
            per_group,
            pitch,
            norm.epsilon,
            width,
            units,
            has_shift,
            is_masked,
            has_bias,
        );
    }
    let [bias, gamma, beta] = if has_bias {
        column_sums(parts)
    } else {
        let [gamma, beta] = column_sums(parts);
        [gamma.clone(), gamma, beta]
    };
    let x = view(&results, 0, shape.clone());
    let branch = if is_masked { view(&results, pitch, shape) } else { x.clone() };
    Gradients { x, branch, bias, gamma, beta }
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
    normalize_row(x, gamma, beta, y, first, epsilon, width, units, has_shift);
}

/// Normalizes the row of `x` that starts at `first`.
#[cube]
fn normalize_row(
    x: &[f32],
    gamma: &[f32],
    beta: &[f32],
    y: &mut [f32],
    first: usize,
    epsilon: f32,
    #[comptime] width: usize,
    #[comptime] units: usize,
    #[comptime] has_shift: bool,
) {
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

/// Each cube normalizes one row of `x + dropout(y + bias)`.
#[cube(launch)]
fn add_and_normalize(
    x: &[f32],
    y: &[f32],
    bias: &Sequence<Box<[f32]>>,
    gamma: &[f32],
    beta: &[f32],
    sum: &mut [f32],
    result: &mut [f32],
    mask: Mask,
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
    // A unit reads only the elements of the sum that it wrote.
    let mut i = UNIT_POS as usize;
    while i < width {
        let mut branch = y[first + i];
        if comptime!(bias.len() > 0) {
            branch += bias[0][i];
        }
        sum[first + i] = x[first + i] + branch * factor(mask, first + i);
        i += units;
    }
    normalize_row(&*sum, gamma, beta, result, first, epsilon, width, units, has_shift);
}

/// Each cube takes `per_group` rows.
#[cube(launch)]
fn normalize_backward(
    x: &[f32],
    gamma: &[f32],
    dy: &[f32],
    results: &mut [f32],
    parts: &mut [f32],
    mask: Mask,
    count: usize,
    per_group: usize,
    pitch: usize,
    epsilon: f32,
    #[comptime] width: usize,
    #[comptime] units: usize,
    #[comptime] has_shift: bool,
    #[comptime] is_masked: bool,
    #[comptime] has_bias: bool,
) {
    let n = f32::cast_from(width);
    let of_bias = CUBE_POS * comptime!(if has_bias { 3 * width } else { 2 * width });
    let of_gamma = of_bias + comptime!(if has_bias { width } else { 0 });
    let of_beta = of_gamma + width;
    let (start, end) = rows_of_group(CUBE_POS, per_group, count);
    if start >= count {
        terminate!();
    }
    let mut i = UNIT_POS as usize;
    while i < width {
        if has_bias {
            parts[of_bias + i] = 0.0f32;
        }
        parts[of_gamma + i] = 0.0f32;
        parts[of_beta + i] = 0.0f32;
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
            parts[of_gamma + i] += d * normalized;
            parts[of_beta + i] += d;
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
            let dx = scale * (g - mean_g - normalized * mean_gx);
            results[first + i] = dx;
            let branch = dx * factor(mask, first + i);
            if is_masked {
                results[pitch + first + i] = branch;
            }
            if has_bias {
                parts[of_bias + i] += branch;
            }
            i += units;
        }
    }
}
