//! Dropout by a hash of the element's index, so that no mask is stored.

use burn_cubecl::{
    cubecl::{self, prelude::*},
    kernel::into_contiguous,
    tensor::CubeTensor,
};

use super::{empty, units};

/// Dropout mask of one tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeyedMask {
    key: u64,
    /// Elements whose hash is below this are dropped.
    threshold: u32,
    /// Factor of the other elements, 1 / (1 - rate).
    scale: f32,
}

/// [`KeyedMask`] in a kernel.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub struct Mask {
    low: u32,
    high: u32,
    threshold: u32,
    scale: f32,
}

impl KeyedMask {
    /// Creates a mask that drops each element with probability `rate`, in `0.0..1.0`.
    pub fn new(key: u64, rate: f64) -> Self {
        // The threshold is compared with the upper 31 bits of a hash.
        let threshold = (rate * f64::from(1_u32 << 31)) as u32;
        Self { key, threshold, scale: (1.0 / (1.0 - rate)) as f32 }
    }

    /// Returns the argument of a kernel; without a mask, one that keeps all elements.
    pub fn argument(mask: Option<Self>) -> MaskLaunch {
        let Self { key, threshold, scale } =
            mask.unwrap_or(Self { key: 0, threshold: 0, scale: 1.0 });
        MaskLaunch::new(key as u32, (key >> 32) as u32, threshold, scale)
    }

    /// Returns `x` with the elements of the mask set to 0 and the others scaled.
    pub fn apply(self, x: CubeTensor) -> CubeTensor {
        let x = into_contiguous(x);
        let y = empty(&x, x.meta.shape().clone());
        let (count, dim) = units(&x, x.meta.num_elements());
        masked::launch(
            &x.client.clone(),
            count,
            dim,
            x.into_buffer_arg(),
            y.clone().into_buffer_arg(),
            Self::argument(Some(self)),
        );
        y
    }
}

/// Returns the factor of an element: 0 or `scale`.
#[cube]
pub fn factor(mask: Mask, index: usize) -> f32 {
    let mut factor = mask.scale;
    if mask.threshold > 0u32 {
        // A 32-bit mixer with the multipliers of Wellons' `lowbias32` (2018), keyed twice.
        let mut x = u32::cast_from(index) + mask.low;
        x = (x ^ (x >> 16u32)) * 0x7feb_352du32;
        x ^= mask.high;
        x = (x ^ (x >> 15u32)) * 0x846c_a68bu32;
        x ^= x >> 16u32;
        factor = select((x >> 1u32) < mask.threshold, 0.0f32, mask.scale);
    }
    factor
}

#[cube(launch)]
fn masked(x: &[f32], y: &mut [f32], mask: Mask) {
    let i = ABSOLUTE_POS;
    if i < x.len() {
        y[i] = x[i] * factor(mask, i);
    }
}
