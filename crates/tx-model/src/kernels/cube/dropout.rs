//! Dropout by a hash of the element's index, so that no mask is stored, after a sum or an activation.
//!
//! The hash has a key of two random numbers of the device, which never leave it.

use burn::{
    backend::{Cube, ops::IntTensorOps},
    tensor::{Distribution, IntDType, Shape},
};
use burn_cubecl::{
    cubecl::{self, prelude::*},
    kernel::into_contiguous,
    tensor::CubeTensor,
};

use super::{empty, units};

/// Dropout mask of one tensor.
#[derive(Debug, Clone)]
pub struct KeyedMask {
    /// `[2]`, 32-bit integers.
    key: CubeTensor,
    /// Elements whose hash is below this are dropped.
    threshold: u32,
    /// Factor of the other elements, 1 / (1 - rate).
    scale: f32,
}

impl KeyedMask {
    /// Samples a mask for tensors on the device of `x` that drops each element with probability `rate`, in
    /// `0.0..1.0`.
    pub fn sample(x: &CubeTensor, rate: f64) -> Self {
        let range = Distribution::Uniform(0.0, f64::from(i32::MAX));
        let key = Cube::int_random(Shape::new([2]), range, &x.device, IntDType::I32);
        // The threshold is compared with the upper 31 bits of a hash.
        let threshold = (rate * f64::from(1_u32 << 31)) as u32;
        Self { key, threshold, scale: (1.0 / (1.0 - rate)) as f32 }
    }

    /// Returns key, threshold and scale of a kernel; no key without mask.
    pub fn arguments(mask: Option<&Self>) -> (SequenceArg<Box<[i32]>>, u32, f32) {
        let key = mask.map(|mask| mask.key.clone().into_buffer_arg()).into_iter().collect();
        let (threshold, scale) = mask.map_or((0, 1.0), |mask| (mask.threshold, mask.scale));
        (key, threshold, scale)
    }

    /// Returns `x` with the elements of the mask set to 0 and the others scaled.
    pub fn apply(&self, x: CubeTensor) -> CubeTensor {
        let x = into_contiguous(x);
        let y = empty(&x, x.meta.shape().clone());
        let (count, dim) = units(&x, x.meta.num_elements());
        masked::launch(
            &x.client.clone(),
            count,
            dim,
            x.into_buffer_arg(),
            self.key.clone().into_buffer_arg(),
            y.clone().into_buffer_arg(),
            self.threshold,
            self.scale,
        );
        y
    }

    /// Returns `x` plus `y` with this mask.
    pub fn add(&self, x: CubeTensor, y: CubeTensor) -> CubeTensor {
        let [x, y] = [x, y].map(into_contiguous);
        let sum = empty(&x, x.meta.shape().clone());
        let (count, dim) = units(&x, x.meta.num_elements());
        added::launch(
            &x.client.clone(),
            count,
            dim,
            x.into_buffer_arg(),
            y.into_buffer_arg(),
            self.key.clone().into_buffer_arg(),
            sum.clone().into_buffer_arg(),
            self.threshold,
            self.scale,
        );
        sum
    }
}

/// Returns the factor of an element: 0 or `scale`.
#[cube]
pub fn factor(key: &[i32], index: usize, threshold: u32, scale: f32) -> f32 {
    // A 32-bit mixer with the multipliers of Wellons' `lowbias32` (2018), keyed twice.
    let mut x = u32::cast_from(index) + u32::cast_from(key[0]);
    x = (x ^ (x >> 16u32)) * 0x7feb_352du32;
    x ^= u32::cast_from(key[1]);
    x = (x ^ (x >> 15u32)) * 0x846c_a68bu32;
    x ^= x >> 16u32;
    select((x >> 1u32) < threshold, 0.0f32, scale)
}

#[cube(launch)]
fn masked(x: &[f32], key: &[i32], y: &mut [f32], threshold: u32, scale: f32) {
    let i = ABSOLUTE_POS;
    if i < x.len() {
        y[i] = x[i] * factor(key, i, threshold, scale);
    }
}

#[cube(launch)]
fn added(x: &[f32], y: &[f32], key: &[i32], sum: &mut [f32], threshold: u32, scale: f32) {
    let i = ABSOLUTE_POS;
    if i < x.len() {
        sum[i] = x[i] + y[i] * factor(key, i, threshold, scale);
    }
}
