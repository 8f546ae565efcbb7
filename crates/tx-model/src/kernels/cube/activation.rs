//! Activation functions of a sum with a bias, with dropout, and their backward pass.

use burn::tensor::Shape;
use burn_cubecl::{
    cubecl::{self, prelude::*},
    kernel::into_contiguous,
    tensor::CubeTensor,
};

use super::{
    dropout::{KeyedMask, Mask, factor},
    empty, rows,
    sums::{Groups, column, column_sums, group, rows_of_group},
    units,
};
use crate::config::Activation;

/// Code of a function in a kernel.
fn code(activation: Activation) -> u32 {
    match activation {
        Activation::Relu => RELU,
        Activation::Gelu => GELU,
        Activation::Swish | Activation::Gated => SWISH,
    }
}

const RELU: u32 = 0;
const GELU: u32 = 1;
const SWISH: u32 = 2;

/// Arguments of a forward pass, which the backward pass needs, too.
#[derive(Debug, Clone)]
pub struct Input {
    x: CubeTensor,
    bias: Option<CubeTensor>,
    activation: Activation,
    mask: Option<KeyedMask>,
}

impl Input {
    pub fn new(
        x: CubeTensor,
        bias: Option<CubeTensor>,
        activation: Activation,
        mask: Option<KeyedMask>,
    ) -> Self {
        Self { x: into_contiguous(x), bias: bias.map(into_contiguous), activation, mask }
    }

    fn bias(&self) -> SequenceArg<Box<[f32]>> {
        self.bias.clone().into_iter().map(CubeTensor::into_buffer_arg).collect()
    }
}

/// Computes `dropout(f(x + bias))`.
pub fn forward(input: &Input) -> CubeTensor {
    let x = input.x.clone();
    let y = empty(&x, x.meta.shape().clone());
    let ([_, width], (count, dim)) = (rows(&x), units(&x, x.meta.num_elements()));
    activated::launch(
        &x.client.clone(),
        count,
        dim,
        x.into_buffer_arg(),
        input.bias(),
        y.clone().into_buffer_arg(),
        KeyedMask::argument(input.mask),
        width,
        code(input.activation),
    );
    y
}

/// Returns the gradients of `x` and of the bias.
pub fn backward(input: &Input, dy: CubeTensor) -> (CubeTensor, Option<CubeTensor>) {
    let (x, dy) = (input.x.clone(), into_contiguous(dy));
    let dx = empty(&x, x.meta.shape().clone());
    let [count, width] = rows(&x);
    let has_bias = input.bias.is_some();
    let groups = Groups::new([count, width], has_bias);
    let parts = empty(&x, Shape::new(if has_bias { [groups.groups, width] } else { [1, 1] }));
    if count * width > 0 {
        let (cubes, dim) = groups.launch(&x);
        activated_backward::launch(
            &x.client.clone(),
            cubes,
            dim,
            x.into_buffer_arg(),
            input.bias(),
            dy.into_buffer_arg(),
            dx.clone().into_buffer_arg(),
            parts.clone().into_buffer_arg(),
            KeyedMask::argument(input.mask),
            count,
            groups.per_group,
            width,
            code(input.activation),
        );
    }
    let dbias = has_bias.then(|| {
        let [sum] = column_sums(parts);
        sum
    });
    (dx, dbias)
}

#[cube(launch)]
fn activated(
    x: &[f32],
    bias: &Sequence<Box<[f32]>>,
    y: &mut [f32],
    mask: Mask,
    #[comptime] width: usize,
    #[comptime] code: u32,
) {
    let i = ABSOLUTE_POS;
    if i < x.len() {
        let mut v = x[i];
        if comptime!(bias.len() > 0) {
            v += bias[0][i % width];
        }
        let mut value = max(v, 0.0f32);
        if comptime!(code == GELU) {
            value = 0.5f32 * v * (1.0f32 + Erf::erf(v * FRAC_1_SQRT_2));
        }
        if comptime!(code == SWISH) {
            value = v / (1.0f32 + (-v).exp());
        }
        y[i] = value * factor(mask, i);
    }
}

/// A unit takes one column of a group of rows.
#[cube(launch)]
fn activated_backward(
    x: &[f32],
    bias: &Sequence<Box<[f32]>>,
    dy: &[f32],
    dx: &mut [f32],
    parts: &mut [f32],
    mask: Mask,
    count: usize,
    per_group: usize,
    #[comptime] width: usize,
    #[comptime] code: u32,
) {
    let (group, column) = (group(width), column(width));
    let (start, end) = rows_of_group(group, per_group, count);
    if start >= count || column >= width {
        terminate!();
    }
    let mut shift = 0.0f32;
    if comptime!(bias.len() > 0) {
        shift = bias[0][column];
    }
    let mut sum = 0.0f32;
    for row in start..end {
        let i = row * width + column;
        let v = x[i] + shift;
        let mut slope = select(v > 0.0f32, 1.0f32, 0.0f32);
        if comptime!(code == GELU) {
            // Φ(x) + x φ(x)
            slope = 0.5f32 * (1.0f32 + Erf::erf(v * FRAC_1_SQRT_2))
                + v * FRAC_1_SQRT_2PI * (-0.5f32 * v * v).exp();
        }
        if comptime!(code == SWISH) {
            let sigmoid = 1.0f32 / (1.0f32 + (-v).exp());
            slope = sigmoid * (1.0f32 + v * (1.0f32 - sigmoid));
        }
        let gradient = dy[i] * slope * factor(mask, i);
        dx[i] = gradient;
        sum += gradient;
    }
    if comptime!(bias.len() > 0) {
        parts[group * width + column] = sum;
    }
}

const FRAC_1_SQRT_2: f32 = std::f32::consts::FRAC_1_SQRT_2;
/// `1 / √(2π)`
const FRAC_1_SQRT_2PI: f32 = 0.398_942_3;
