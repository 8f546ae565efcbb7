//! Rows of activations, quantized to bytes.

use std::cell::Cell;

use crate::{
    layout::STEP,
    vector::{mul_add, vectorized},
};

/// Byte that stands for zero: unsigned bytes are the quantized values plus this.
pub(crate) const ZERO: u8 = 128;

/// Largest magnitude of a quantized value.
pub(crate) const LARGEST: f32 = 127.0;

/// Number that rounds a value of small magnitude to an integer when added, whose last byte is the
/// integer.
const ROUNDER: f32 = 12_582_912.0;

/// Rows of input of a product, each with its scale: `x = scale · (byte - 128)`.
///
/// A row is scaled by its own largest magnitude, so no row depends on another one.
#[derive(Debug, Default)]
pub struct QuantizedRows {
    /// `[rows, inputs]`, with zeros up to the next multiple of [`STEP`] inputs.
    pub(crate) bytes: Vec<u8>,
    /// `[rows]`; NaN for a row with a value that is not finite.
    pub(crate) scales: Vec<f32>,
}

thread_local! {
    static BUFFER: Cell<QuantizedRows> = const {
        Cell::new(QuantizedRows { bytes: Vec::new(), scales: Vec::new() })
    };
}

impl QuantizedRows {
    /// Calls `work` with the rows of `x`, quantized into a buffer of this thread.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, inputs]`
    pub fn with<R>(x: &[f32], inputs: usize, work: impl FnOnce(&Self) -> R) -> R {
        let mut rows = BUFFER.take();
        rows.replace(x, inputs);
        let result = work(&rows);
        BUFFER.set(rows);
        result
    }

    /// Replaces the rows by those of `x`, `[rows, inputs]`.
    fn replace(&mut self, x: &[f32], inputs: usize) {
        let rows = x.len() / inputs;
        let padded = inputs.next_multiple_of(STEP);
        self.bytes.resize(rows * padded, 0);
        self.scales.clear();
        vectorized(
            #[inline(always)]
            || {
                let bytes = self.bytes.chunks_exact_mut(padded);
                for (x, bytes) in x.chunks_exact(inputs).zip(bytes) {
                    let (bytes, padding) = bytes.split_at_mut(inputs);
                    padding.fill(0);
                    self.scales.push(quantize(x, bytes));
                }
            },
        );
    }
}

/// Quantizes `x` to unsigned bytes, and returns the scale; NaN if a value is not finite.
#[inline(always)]
pub(crate) fn quantize(x: &[f32], bytes: &mut [u8]) -> f32 {
    let Scale { scale, factor } = Scale::of(magnitude(x));
    for (byte, x) in bytes.iter_mut().zip(x) {
        *byte = mul_add(*x, factor, ROUNDER + f32::from(ZERO)).to_bits() as u8;
    }
    scale
}

/// Quantized value of `x` for the factor of a [`Scale`].
pub(crate) fn signed_byte(x: f32, factor: f32) -> i8 {
    mul_add(x, factor, ROUNDER).to_bits() as i8
}

/// Bits of the largest magnitude in `x`. Those of infinity and NaN are larger than those of every
/// finite number.
#[inline(always)]
pub(crate) fn magnitude(x: &[f32]) -> u32 {
    x.iter().fold(0, |most, x| most.max(x.to_bits() & 0x7fff_ffff))
}

/// Scale of values with a largest magnitude.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Value of the quantized number 1.
    pub(crate) scale: f32,
    /// Factor with which a value is quantized.
    pub(crate) factor: f32,
}

impl Scale {
    /// Scale for the bits of a largest [`magnitude`]. Values so small that their factor would
    /// overflow become zeros.
    #[inline(always)]
    pub(crate) fn of(magnitude: u32) -> Self {
        let largest = f32::from_bits(magnitude);
        if !largest.is_finite() {
            return Self { scale: f32::NAN, factor: 0.0 };
        }
        if largest < LARGEST * f32::MIN_POSITIVE {
            return Self { scale: 0.0, factor: 0.0 };
        }
        Self { scale: largest / LARGEST, factor: LARGEST / largest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantized(x: &[f32]) -> (Vec<u8>, f32) {
        let mut bytes = vec![0; x.len()];
        let scale = quantize(x, &mut bytes);
        (bytes, scale)
    }

    /// The largest magnitude 254 becomes -127, so the scale is 2; halves round to even.
    #[test]
    fn values_are_rounded_to_multiples_of_the_scale() {
        let (bytes, scale) = quantized(&[-254.0, 0.0, 2.0, 3.0, 5.0, 253.0]);
        assert_eq!((bytes, scale), (vec![1, 128, 129, 130, 130, 254], 2.0));
    }

    #[test]
    fn rows_without_a_usable_scale() {
        for x in [0.0, -0.0, 1e-40, -1e-37] {
            assert_eq!(quantized(&[x; 3]), (vec![128; 3], 0.0), "{x}");
        }
        for x in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(quantized(&[1.0, x, 2.0]).1.is_nan(), "{x}");
        }
        let (bytes, scale) = quantized(&[f32::MAX, -f32::MAX]);
        assert_eq!((bytes, scale), (vec![255, 1], f32::MAX / 127.0));
    }

    #[test]
    fn rows_are_padded_and_scaled_alone() {
        let mut rows = QuantizedRows { bytes: vec![9; 1000], scales: vec![9.0] };
        rows.replace(&[1.0, 0.5, -1.0, 0.0, 0.0, 0.0], 3);
        assert_eq!(rows.scales, [1.0 / 127.0, 0.0]);
        assert_eq!(rows.bytes.len(), 2 * STEP);
        assert_eq!(rows.bytes[..4], [255, 192, 1, 0]);
        assert_eq!(rows.bytes[STEP..STEP + 4], [128, 128, 128, 0]);
        assert!(rows.bytes[STEP + 4..].iter().all(|&byte| byte == 0));
    }

    /// Numbers of all magnitudes: the error is at most half of the scale.
    #[test]
    fn the_error_is_half_a_step() {
        let x: Vec<f32> =
            (0..1000_u32).map(|i| i.wrapping_mul(2_654_435_761) as i32 as f32 / 1e6).collect();
        let (bytes, scale) = quantized(&x);
        for (x, byte) in x.iter().zip(bytes) {
            let found = (f32::from(byte) - 128.0) * scale;
            assert!((found - x).abs() <= 0.5001 * scale, "{x} {found}");
        }
    }
}
