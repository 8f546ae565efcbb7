//! Activation functions with dropout, and their backward pass.

use burn_cubecl::{
    cubecl::{self, prelude::*},
    kernel::into_contiguous,
    tensor::CubeTensor,
};

use super::{
    dropout::{KeyedMask, factor},
    empty, units,
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

/// Computes `dropout(f(x))`.
pub fn forward(x: CubeTensor, activation: Activation, mask: Option<&KeyedMask>) -> CubeTensor {
    let x = into_contiguous(x);
    let y = empty(&x, x.meta.shape().clone());
    let (count, dim) = units(&x, x.meta.num_elements());
    let (key, threshold, scale) = KeyedMask::arguments(mask);
    activated::launch(
        &x.client.clone(),
        count,
        dim,
        x.into_buffer_arg(),
        key,
        y.clone().into_buffer_arg(),
        threshold,
        scale,
        code(activation),
    );
    y
}

/// Returns the gradient of `x`.
pub fn backward(
    x: CubeTensor,
    dy: CubeTensor,
    activation: Activation,
    mask: Option<&KeyedMask>,
) -> CubeTensor {
    let [x, dy] = [x, dy].map(into_contiguous);
    let dx = empty(&x, x.meta.shape().clone());
    let (count, dim) = units(&x, x.meta.num_elements());
    let (key, threshold, scale) = KeyedMask::arguments(mask);
    activated_backward::launch(
        &x.client.clone(),
        count,
        dim,
        x.into_buffer_arg(),
        dy.into_buffer_arg(),
        key,
        dx.clone().into_buffer_arg(),
        threshold,
        scale,
        code(activation),
    );
    dx
}

#[cube(launch)]
fn activated(
    x: &[f32],
    key: &Sequence<Box<[i32]>>,
    y: &mut [f32],
    threshold: u32,
    scale: f32,
    #[comptime] code: u32,
) {
    let i = ABSOLUTE_POS;
    if i < x.len() {
        let v = x[i];
        let mut value = max(v, 0.0f32);
        if comptime!(code == GELU) {
            value = 0.5f32 * v * (1.0f32 + Erf::erf(v * FRAC_1_SQRT_2));
        }
        if comptime!(code == SWISH) {
            value = v / (1.0f32 + (-v).exp());
        }
        if comptime!(key.len() > 0) {
            value *= factor(&key[0], i, threshold, scale);
        }
        y[i] = value;
    }
}

#[cube(launch)]
fn activated_backward(
    x: &[f32],
    dy: &[f32],
    key: &Sequence<Box<[i32]>>,
    dx: &mut [f32],
    threshold: u32,
    scale: f32,
    #[comptime] code: u32,
) {
    let i = ABSOLUTE_POS;
    if i < x.len() {
        let v = x[i];
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
        if comptime!(key.len() > 0) {
            slope *= factor(&key[0], i, threshold, scale);
        }
        dx[i] = dy[i] * slope;
    }
}

const FRAC_1_SQRT_2: f32 = std::f32::consts::FRAC_1_SQRT_2;
/// `1 / √(2π)`
const FRAC_1_SQRT_2PI: f32 = 0.398_942_3;
