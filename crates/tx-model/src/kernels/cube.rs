//! Fused kernels for Burn's CubeCL devices: GPUs through WGPU, Vulkan or CUDA.
//!
//! A kernel uses only what every adapter has: 32-bit floats, at most 256 units in a cube, 8 buffers, and
//! no subgroups. Launches check bounds, so that a wrong index reads or writes nothing.

#![allow(
    clippy::too_many_arguments,
    clippy::manual_div_ceil,
    clippy::needless_range_loop,
    clippy::len_zero,
    clippy::manual_is_multiple_of,
    reason = "a kernel has an argument for each buffer and number, and is in a subset of Rust"
)]

pub mod activation;
pub mod adam;
mod attention;
mod cross_entropy;
pub mod decoding;
mod divergence;
pub mod dropout;
pub mod embedding;
pub mod extension;
pub mod flat;
#[cfg(feature = "autodiff")]
mod gradients;
pub mod layer_norm;
pub mod linear;
pub mod residual;
mod rotation;
mod sums;
mod teachers;

use burn::{
    backend::{Cube, Dispatch, DispatchDevice, ops::FloatTensorOps},
    tensor::{DType, Device, Int, Shape, Tensor},
};
use burn_cubecl::{
    cubecl::{self, CubeCount, CubeDim, calculate_cube_count_elemwise, prelude::*},
    ops::numeric::empty_device_contiguous_dtype,
    tensor::CubeTensor,
};

use super::{AttentionInput, LinearWeights, Norm, optional::OptionalTensor};
use extension::{Layer, NormWeights};

/// Units of a cube whose units work on elements of their own.
const UNITS: u32 = 256;

/// Returns `true` if the kernels take this tensor. Devices are equal whether or not they track
/// gradients.
pub(super) fn is_cube_f32<const D: usize>(x: &Tensor<D>) -> bool {
    x.dtype() == DType::F32 && is_cube(&x.device())
}

/// Returns `true` for a device of CubeCL.
pub fn is_cube(device: &Device) -> bool {
    matches!(device.clone().inner().as_dispatch(), DispatchDevice::Cube(_))
}

/// Returns `true` if the kernels take the sizes of this attention.
pub(super) fn takes_attention(input: &AttentionInput) -> bool {
    let ([_, _, queries, width], [_, _, keys, _]) = (input.queries.dims(), input.keys.dims());
    is_cube_f32(&input.queries)
        && (1..=attention::MAX_LEN).contains(&queries)
        && (1..=attention::MAX_LEN).contains(&keys)
        && input.values.dims()[3] == width
}

/// Returns weights as an argument of a kernel.
pub(super) fn layer(weights: LinearWeights) -> Layer<Dispatch> {
    Layer { w: weights.w.into_dispatch(), b: OptionalTensor::from_tensor(weights.b) }
}

impl From<Norm> for NormWeights<Dispatch> {
    fn from(Norm { gamma, beta, epsilon }: Norm) -> Self {
        let (gamma, beta) = (gamma.into_dispatch(), OptionalTensor::from_tensor(beta));
        Self { gamma, beta, epsilon: epsilon as f32 }
    }
}

/// Unwraps a tensor that the kernels take and that tracks no gradients; `None` for any other.
pub fn unwrapped<const D: usize>(x: &Tensor<D>) -> Option<CubeTensor> {
    is_cube_f32(x).then(|| x.clone().try_into_primitive::<Cube>().ok()).flatten()
}

/// Unwraps 32-bit integers of a device with the kernels; `None` for others.
pub fn unwrapped_ints<const D: usize>(x: &Tensor<D, Int>) -> Option<CubeTensor> {
    (x.dtype() == DType::I32).then(|| x.clone().try_into_primitive::<Cube>().ok()).flatten()
}

/// Reverses [`unwrapped_ints`].
pub fn wrapped_ints<const D: usize>(x: CubeTensor) -> Tensor<D, Int> {
    Tensor::from_primitive::<Cube>(x)
}

/// Reverses [`unwrapped`].
pub fn wrapped<const D: usize>(x: CubeTensor) -> Tensor<D> {
    Tensor::from_primitive::<Cube>(x)
}

/// Allocates a tensor without values on the device of `x`.
fn empty(x: &CubeTensor, shape: Shape) -> CubeTensor {
    empty_device_contiguous_dtype(x.client.clone(), x.device.clone(), shape, x.dtype)
}

/// Returns the number of rows and their length, if all dimensions but the last are flattened.
fn rows(x: &CubeTensor) -> [usize; 2] {
    let shape = x.meta.shape();
    let width = shape[shape.num_dims() - 1];
    [shape.num_elements() / width.max(1), width]
}

/// Returns `x` in another shape; copies it if its layout requires that.
fn reshaped<const D: usize>(x: CubeTensor, shape: [usize; D]) -> CubeTensor {
    Cube::float_reshape(x, Shape::new(shape))
}

/// Returns the arguments of a launch of at least `count` units.
fn units(x: &CubeTensor, count: usize) -> (CubeCount, CubeDim) {
    let dim = CubeDim::new_1d(UNITS);
    (calculate_cube_count_elemwise(&x.client, count, dim), dim)
}

/// Returns the arguments of a launch of `count` cubes whose units share work, and their number: `most`, a power
/// of two, or as many as a plane has if planes are small. Processors, which have such planes, switch
/// between planes at each barrier.
fn cubes(x: &CubeTensor, count: usize, most: usize) -> (CubeCount, CubeDim, usize) {
    let plane = x.client.properties().hardware.plane_size_max as usize;
    let units = if (2..16).contains(&plane) { plane.next_power_of_two().min(most) } else { most };
    let dim = CubeDim::new_1d(units as u32);
    (calculate_cube_count_elemwise(&x.client, count * units, dim), dim, units)
}

/// Adds up one number of each of the `units` units of a cube, a power of two. Every unit gets the sum.
#[cube]
fn sum_over_units(own: f32, #[comptime] units: usize) -> f32 {
    let groups = comptime!(groups_of(units));
    let size = comptime!(units / groups);
    let mut all = Shared::<[f32]>::new_slice(units);
    let mut of_groups = Shared::<[f32]>::new_slice(groups);
    let unit = UNIT_POS as usize;
    all[unit] = own;
    sync_cube();
    if unit < groups {
        let mut sum = 0.0f32;
        for other in 0..size {
            sum += all[unit * size + other];
        }
        of_groups[unit] = sum;
    }
    sync_cube();
    let mut sum = 0.0f32;
    for group in 0..groups {
        sum += of_groups[group];
    }
    sum
}

/// Returns the maximum of one number of each of the `units` units of a cube, a power of two, to every unit.
#[cube]
fn max_over_units(own: f32, #[comptime] units: usize) -> f32 {
    let groups = comptime!(groups_of(units));
    let size = comptime!(units / groups);
    let mut all = Shared::<[f32]>::new_slice(units);
    let mut of_groups = Shared::<[f32]>::new_slice(groups);
    let unit = UNIT_POS as usize;
    all[unit] = own;
    sync_cube();
    if unit < groups {
        let mut highest = all[unit * size];
        for other in 1..size {
            highest = max(highest, all[unit * size + other]);
        }
        of_groups[unit] = highest;
    }
    sync_cube();
    let mut highest = of_groups[0];
    for group in 1..groups {
        highest = max(highest, of_groups[group]);
    }
    highest
}

/// Returns `log Σ exp x` of the `len` elements of `x` from `first` to every unit of a cube.
#[cube]
fn log_sum_of_row(x: &[f32], first: usize, len: usize, #[comptime] units: usize) -> f32 {
    let mut own = x[first];
    let mut i = UNIT_POS as usize;
    while i < len {
        own = max(own, x[first + i]);
        i += units;
    }
    let highest = max_over_units(own, units);
    let mut own = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < len {
        own += (x[first + i] - highest).exp();
        i += units;
    }
    sum_over_units(own, units).ln() + highest
}

/// Number of groups of units whose results are combined in two steps: about the square root.
fn groups_of(units: usize) -> usize {
    1 << (units.ilog2() / 2)
}
