//! Residual sum with dropout and bias, and its backward pass.

use burn::tensor::Shape;
use burn_cubecl::{
    cubecl::{self, prelude::*},
    kernel::into_contiguous,
    tensor::CubeTensor,
};

use super::{
    dropout::{KeyedMask, Mask, MaskLaunch, factor},
    empty, rows,
    sums::{Groups, column, column_sums, group, rows_of_group},
    units,
};

/// Summand of a residual sum: `dropout(y + bias)`.
#[derive(Debug, Clone)]
pub struct Branch {
    pub y: CubeTensor,
    pub bias: Option<CubeTensor>,
    pub mask: Option<KeyedMask>,
}

impl Branch {
    pub fn new(y: CubeTensor, bias: Option<CubeTensor>, mask: Option<KeyedMask>) -> Self {
        Self { y: into_contiguous(y), bias: bias.map(into_contiguous), mask }
    }

    /// Returns the arguments of a kernel: `y`, the bias, and the mask.
    pub fn arguments(self) -> (BufferArg, SequenceArg<Box<[f32]>>, MaskLaunch) {
        let bias = self.bias.into_iter().map(CubeTensor::into_buffer_arg).collect();
        (self.y.into_buffer_arg(), bias, KeyedMask::argument(self.mask))
    }

    /// Returns `x` plus this.
    pub fn add_to(self, x: CubeTensor) -> CubeTensor {
        let x = into_contiguous(x);
        let sum = empty(&x, x.meta.shape().clone());
        let ([_, width], (count, dim)) = (rows(&x), units(&x, x.meta.num_elements()));
        let (y, bias, mask) = self.arguments();
        let client = x.client.clone();
        let (x, result) = (x.into_buffer_arg(), sum.clone().into_buffer_arg());
        added::launch(&client, count, dim, x, y, bias, result, mask, width);
        sum
    }
}

/// Returns the gradients of `y` and of the bias.
pub fn backward(
    dy: CubeTensor,
    mask: Option<KeyedMask>,
    has_bias: bool,
) -> (CubeTensor, Option<CubeTensor>) {
    let dy = into_contiguous(dy);
    let (masked, sums) = match (mask, has_bias) {
        (None, false) => return (dy, None),
        (Some(mask), false) => return (mask.apply(dy), None),
        (None, true) => (dy.clone(), dy),
        (Some(mask), true) => masked_with_sums(dy, mask),
    };
    let [dbias] = column_sums(sums);
    (masked, Some(dbias))
}

/// Returns the masked gradient, and the sums of groups of its rows.
fn masked_with_sums(dy: CubeTensor, mask: KeyedMask) -> (CubeTensor, CubeTensor) {
    let [count, width] = rows(&dy);
    let groups = Groups::new([count, width], true);
    let masked = empty(&dy, dy.meta.shape().clone());
    let parts = empty(&dy, Shape::new([groups.groups, width]));
    if count * width > 0 {
        let (cubes, dim) = groups.launch(&dy);
        added_backward::launch(
            &dy.client.clone(),
            cubes,
            dim,
            dy.into_buffer_arg(),
            masked.clone().into_buffer_arg(),
            parts.clone().into_buffer_arg(),
            KeyedMask::argument(Some(mask)),
            count,
            groups.per_group,
            width,
        );
    }
    (masked, parts)
}

#[cube(launch)]
fn added(
    x: &[f32],
    y: &[f32],
    bias: &Sequence<Box<[f32]>>,
    sum: &mut [f32],
    mask: Mask,
    #[comptime] width: usize,
) {
    let i = ABSOLUTE_POS;
    if i < x.len() {
        let mut value = y[i];
        if comptime!(bias.len() > 0) {
            value += bias[0][i % width];
        }
        sum[i] = x[i] + value * factor(mask, i);
    }
}

/// A unit takes one column of a group of rows.
#[cube(launch)]
fn added_backward(
    dy: &[f32],
    masked: &mut [f32],
    parts: &mut [f32],
    mask: Mask,
    count: usize,
    per_group: usize,
    #[comptime] width: usize,
) {
    let (group, column) = (group(width), column(width));
    let (start, end) = rows_of_group(group, per_group, count);
    if start >= count || column >= width {
        terminate!();
    }
    let mut sum = 0.0f32;
    for row in start..end {
        let i = row * width + column;
        let gradient = dy[i] * factor(mask, i);
        masked[i] = gradient;
        sum += gradient;
    }
    parts[group * width + column] = sum;
}
