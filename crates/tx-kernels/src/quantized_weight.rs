//! Weight matrices of signed bytes, in the order in which the kernels read them.
//!
//! Columns are grouped into panels of [`PANEL`] as in single precision. Inside a panel, four inputs
//! of a column lie side by side, because an instruction multiplies and adds up four bytes:
//! `[inputs / 4, PANEL, 4]`. The number of inputs is padded to a multiple of [`STEP`].

use rayon::prelude::*;

use crate::{
    layout::{PANEL, STEP},
    quantized_rows::{Scale, magnitude, signed_byte},
    shared_bytes::SharedBytes,
    vector::vectorized,
};

/// Largest magnitude of the sum of two weights of a column that are multiplied by the inputs `2 i` and `2 i + 1`.
/// Their products with two unsigned bytes have a sum of at most 255 · 128 = 32,640, which fits in 16 bits.
pub const LARGEST_PAIR: i16 = 128;

/// Maximum number of inputs: sums of their products fit in 32 bits.
pub const MAX_INPUTS: usize = 1 << 16;

/// Matrix `[inputs, outputs]` of signed bytes with a scale for each column: `w = scale · byte`. The scale is the
/// smallest with which all bytes, and the sums of pairs ([`LARGEST_PAIR`]), are small enough.
#[derive(Debug, Clone)]
pub struct QuantizedWeight {
    /// `[panels, padded inputs / 4, 32, 4]`. Bytes beyond the last column are zeros.
    pub panels: SharedBytes,
    /// `[outputs]`
    pub scales: Vec<f32>,
    /// Sum of the bytes of each column, `[outputs]`.
    pub sums: Vec<i32>,
}

/// Bytes, scales and sums of a panel.
type PanelMut<'a> = ((&'a mut [u8], &'a mut [f32]), &'a mut [i32]);

/// Table of signed bytes with a scale for each row: `w = scale · byte`.
#[derive(Debug, Clone)]
pub struct QuantizedTable {
    /// `[rows, width]`
    pub bytes: SharedBytes,
    /// `[rows]`
    pub scales: Vec<f32>,
}

impl QuantizedWeight {
    /// Returns the number of bytes of the panels of a matrix `[inputs, outputs]`.
    pub fn panel_bytes(inputs: usize, outputs: usize) -> usize {
        outputs.div_ceil(PANEL) * PANEL * inputs.next_multiple_of(STEP)
    }

    /// Quantizes a matrix.
    ///
    /// # Shapes
    ///
    /// - `weight`: `[inputs, outputs]`, or `[outputs, inputs]` if `is_transposed`, row by row
    ///
    /// # Panics
    ///
    /// If the number of inputs is 0 or does not divide the number of weights.
    pub fn quantize(inputs: usize, weight: &[f32], is_transposed: bool, parallel: bool) -> Self {
        let outputs = weight.len() / inputs;
        assert_eq!(weight.len(), inputs * outputs, "weights of {inputs} inputs");
        let size = PANEL * inputs.next_multiple_of(STEP);
        let mut bytes = vec![0; Self::panel_bytes(inputs, outputs)];
        let mut scales = vec![0.0; outputs];
        let mut sums = vec![0; outputs];
        let pack = |(index, ((panel, scales), sums)): (usize, PanelMut<'_>)| {
            let first = index * PANEL;
            // Columns of the panel, one after another.
            let mut columns = vec![0.0; scales.len() * inputs];
            if is_transposed {
                let count = columns.len();
                columns.copy_from_slice(&weight[first * inputs..][..count]);
            } else {
                for (input, row) in weight.chunks_exact(outputs).enumerate() {
                    for (column, value) in row[first..first + scales.len()].iter().enumerate() {
                        columns[column * inputs + input] = *value;
                    }
                }
            }
            for (column, values) in columns.chunks_exact(inputs).enumerate() {
                let largest = magnitude(values).max(magnitude_of_pairs(values));
                let Scale { scale, factor } = Scale::of(largest);
                scales[column] = scale;
                for (input, &value) in values.iter().enumerate() {
                    let byte = signed_byte(value, factor);
                    sums[column] += i32::from(byte);
                    panel[offset(input, column)] = byte as u8;
                }
            }
        };
        if parallel {
            let panels = bytes.par_chunks_exact_mut(size);
            let panels = panels.zip(scales.par_chunks_mut(PANEL)).zip(sums.par_chunks_mut(PANEL));
            panels.enumerate().for_each(pack);
        } else {
            let panels = bytes.chunks_exact_mut(size);
            let panels = panels.zip(scales.chunks_mut(PANEL)).zip(sums.chunks_mut(PANEL));
            panels.enumerate().for_each(pack);
        }
        Self { panels: bytes.into(), scales, sums }
    }

    /// Returns the matrix `[inputs, outputs]` in single precision, or `[outputs, inputs]` if
    /// `is_transposed`.
    pub fn dequantize(&self, inputs: usize, is_transposed: bool) -> Vec<f32> {
        let outputs = self.scales.len();
        let mut weight = vec![0.0; inputs * outputs];
        let panels = self.panels.as_slice();
        for (column, &scale) in self.scales.iter().enumerate() {
            for (input, value) in column_of(panels, scale, inputs, column).enumerate() {
                let at = match is_transposed {
                    true => column * inputs + input,
                    false => input * outputs + column,
                };
                weight[at] = value;
            }
        }
        weight
    }

    /// Returns the bytes of the columns of a matrix `[inputs, _]`, one after another: `[outputs,
    /// inputs]`.
    pub fn columns(&self, inputs: usize) -> Vec<i8> {
        let size = PANEL * inputs.next_multiple_of(STEP);
        let panels = self.panels.as_slice();
        let column = |column: usize| {
            let panel = &panels[column / PANEL * size..][..size];
            (0..inputs).map(move |input| panel[offset(input, column % PANEL)] as i8)
        };
        (0..self.scales.len()).flat_map(column).collect()
    }

    /// Returns the first problem of a matrix `[inputs, outputs]` that was read from a file: its number
    /// of bytes, a scale that is negative or not finite, a pair with a large sum, a byte of the padding that
    /// is not zero, or a wrong sum.
    pub fn problem(&self, inputs: usize) -> Option<String> {
        let (Self { panels, scales, sums }, outputs) = (self, self.scales.len());
        let panels = panels.as_slice();
        if panels.len() != Self::panel_bytes(inputs, outputs) || sums.len() != outputs {
            return Some(format!("has {} bytes and {} sums", panels.len(), sums.len()));
        }
        if let Some(problem) = scale_problem(scales) {
            return Some(problem);
        }
        let (size, used) = (PANEL * inputs.next_multiple_of(STEP), inputs / 4 * 4 * PANEL);
        for (index, panel) in panels.chunks_exact(size.max(1)).enumerate() {
            if !has_small_pairs(panel) {
                return Some(format!(
                    "has two weights side by side whose sum is above {LARGEST_PAIR}: quantize the model again"
                ));
            }
            let found = column_sums(panel);
            let expected = &sums[index * PANEL..(index * PANEL + PANEL).min(outputs)];
            if let Some(column) = found.iter().zip(expected).position(|(a, b)| a != b) {
                let column = index * PANEL + column;
                return Some(format!("has a sum that is not that of its column {column}"));
            }
            let (groups, _) = panel[used..].as_chunks::<4>();
            let first = inputs % 4;
            let padding = groups.iter().enumerate().any(|(group, bytes)| {
                let first = if group < PANEL { first } else { 0 };
                bytes[first..].iter().any(|&byte| byte != 0)
            });
            let is_last = expected.len() < PANEL;
            let beyond = is_last
                && panel
                    .chunks_exact(4 * PANEL)
                    .any(|row| row[4 * expected.len()..].iter().any(|&byte| byte != 0));
            if padding || beyond {
                return Some("has padding that is not zero".into());
            }
        }
        None
    }
}

/// Values of a column of panels.
pub(crate) fn column_of(
    panels: &[u8],
    scale: f32,
    inputs: usize,
    column: usize,
) -> impl Iterator<Item = f32> {
    let size = PANEL * inputs.next_multiple_of(STEP);
    let panel = &panels[column / PANEL * size..][..size];
    let (groups, _) = panel[column % PANEL * 4..].as_chunks::<4>();
    let bytes = groups.iter().step_by(PANEL).flatten().take(inputs);
    bytes.map(move |&byte| scale * f32::from(byte as i8))
}

/// Place of a weight in its panel.
fn offset(input: usize, column: usize) -> usize {
    (input / 4 * PANEL + column) * 4 + input % 4
}

/// Bits of the largest magnitude of the sum of two values that lie side by side. Rounded to multiples of a 127th of it,
/// two values have a sum of at most 127 + 2 · ½.
fn magnitude_of_pairs(values: &[f32]) -> u32 {
    let sums = values.chunks_exact(2).map(|pair| pair[0] + pair[1]);
    sums.fold(0, |most, sum| most.max(magnitude(&[sum])))
}

/// Whether all pairs of a panel have small sums.
fn has_small_pairs(panel: &[u8]) -> bool {
    vectorized(
        #[inline(always)]
        || {
            let sums = panel
                .as_chunks::<2>()
                .0
                .iter()
                .map(|&[a, b]| i16::from(a as i8) + i16::from(b as i8));
            sums.fold(0, |most, sum| most.max(sum.abs())) <= LARGEST_PAIR
        },
    )
}

/// Sums of the columns of a panel.
fn column_sums(panel: &[u8]) -> [i32; PANEL] {
    /// Groups whose bytes can be summed in 16 bits.
    const GROUPS: usize = 128;
    let mut sums = [0_i32; 4 * PANEL];
    vectorized(
        #[inline(always)]
        || {
            for groups in panel.chunks(GROUPS * 4 * PANEL) {
                let mut parts = [0_i16; 4 * PANEL];
                for group in groups.as_chunks::<{ 4 * PANEL }>().0 {
                    for (part, &byte) in parts.iter_mut().zip(group) {
                        *part += i16::from(byte as i8);
                    }
                }
                for (sum, part) in sums.iter_mut().zip(parts) {
                    *sum += i32::from(part);
                }
            }
        },
    );
    std::array::from_fn(|column| sums[4 * column..][..4].iter().sum())
}

fn scale_problem(scales: &[f32]) -> Option<String> {
    let position = scales.iter().position(|scale| !scale.is_finite() || *scale < 0.0)?;
    Some(format!("has the scale {} at {position}", scales[position]))
}

impl QuantizedTable {
    /// Returns the first problem of a table that was read from a file: its number of bytes, or a
    /// scale that is negative or not finite.
    pub fn problem(&self, width: usize) -> Option<String> {
        let (bytes, rows) = (self.bytes.as_slice().len(), self.scales.len());
        if rows.checked_mul(width) != Some(bytes) {
            return Some(format!("has {bytes} bytes and {rows} scales"));
        }
        scale_problem(&self.scales)
    }

    /// Quantizes a table `[rows, width]`.
    ///
    /// # Panics
    ///
    /// If the width is 0.
    pub fn quantize(width: usize, table: &[f32]) -> Self {
        let mut scales = Vec::with_capacity(table.len() / width);
        let mut bytes = Vec::with_capacity(table.len());
        for row in table.chunks_exact(width) {
            let Scale { scale, factor } = Scale::of(magnitude(row));
            scales.push(scale);
            bytes.extend(row.iter().map(|&value| signed_byte(value, factor) as u8));
        }
        Self { bytes: bytes.into(), scales }
    }

    /// Returns the table in single precision.
    pub fn dequantize(&self, width: usize) -> Vec<f32> {
        (0..self.scales.len()).flat_map(|row| self.row(width, row)).collect()
    }

    /// Values of a row.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub fn row(&self, width: usize, row: usize) -> impl Iterator<Item = f32> {
        let scale = self.scales[row];
        let bytes = &self.bytes.as_slice()[row * width..][..width];
        bytes.iter().map(move |&byte| scale * f32::from(byte as i8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns (1, -2) and (0, 0.5): scales 2/127 and 0.5/127, bytes (64, -127) and (0, 127).
    #[test]
    fn a_matrix_by_hand() {
        for (weight, is_transposed) in
            [([1.0, 0.0, -2.0, 0.5], false), ([1.0, -2.0, 0.0, 0.5], true)]
        {
            let found = QuantizedWeight::quantize(2, &weight, is_transposed, false);
            assert_eq!(found.scales, [2.0 / 127.0, 0.5 / 127.0]);
            assert_eq!(found.sums, [-63, 127]);
            assert_eq!(found.columns(2), [64, -127, 0, 127]);
            let panel = found.panels.as_slice();
            assert_eq!(panel.len(), PANEL * STEP);
            assert_eq!(panel[..8], [64, (-127_i8) as u8, 0, 0, 0, 127, 0, 0]);
            assert!(panel[8..].iter().all(|&byte| byte == 0));
            let scaled = 64.0 * 2.0 / 127.0;
            let expected = match is_transposed {
                true => [scaled, -2.0, 0.0, 0.5],
                false => [scaled, 0.0, -2.0, 0.5],
            };
            let close = |a: &f32, b: &f32| (a - b).abs() < 1e-6;
            let weight = found.dequantize(2, is_transposed);
            assert!(weight.iter().zip(&expected).all(|(a, b)| close(a, b)), "{weight:?}");
        }
    }

    /// Every byte of a matrix of two panels, changed: padding and sums are checked.
    #[test]
    fn changed_bytes_are_problems() {
        let weight: Vec<f32> = (0..5 * 33).map(|i| (i as f32).sin()).collect();
        let good = QuantizedWeight::quantize(5, &weight, false, false);
        assert_eq!(good.problem(5), None);
        let bytes = good.panels.as_slice();
        for place in 0..bytes.len() {
            let mut bytes = bytes.to_vec();
            bytes[place] ^= 1;
            let bad = QuantizedWeight { panels: bytes.into(), ..good.clone() };
            assert!(bad.problem(5).is_some(), "byte {place}");
        }
        for scale in [f32::NAN, f32::INFINITY, -1.0] {
            let mut bad = good.clone();
            bad.scales[3] = scale;
            assert!(bad.problem(5).is_some_and(|problem| problem.contains("scale")));
        }
        assert!(good.problem(65).is_some());
        let table = QuantizedTable::quantize(5, &weight);
        assert_eq!((table.problem(5), table.problem(4).is_some()), (None, true));
    }

    /// Columns (3, 1, -4) and (3, -1, -4), where the pair (3, 1) is as large as -4: scales 4/127. Column
    /// (3, 2, -4): scale 5/127, bytes 76, 51 and -102 (76.2, 50.8 and -101.6).
    #[test]
    fn pairs_determine_the_scale() {
        for (column, scale, bytes) in [
            ([3.0, 1.0, -4.0], 4.0 / 127.0, [95, 32, -127]),
            ([3.0, -1.0, -4.0], 4.0 / 127.0, [95, -32, -127]),
            ([3.0, 2.0, -4.0], 5.0 / 127.0, [76, 51, -102]),
            ([-3.0, -2.0, 4.0], 5.0 / 127.0, [-76, -51, 102]),
        ] {
            let found = QuantizedWeight::quantize(3, &column, false, false);
            assert_eq!((found.scales[0], found.columns(3)), (scale, bytes.to_vec()));
            assert_eq!(found.problem(3), None);
        }
    }

    /// Sums of 128 and -128 are the largest; the sum of the padding with a weight counts, too.
    #[test]
    fn large_pairs_are_problems() {
        for (pair, is_good) in [
            ([64_i8, 64], true),
            ([-64, -64], true),
            ([-128, 0], true),
            ([127, -128], true),
            ([64, 65], false),
            ([-64, -65], false),
            ([127, 127], false),
            ([-128, -128], false),
        ] {
            let mut bytes = vec![0; PANEL * STEP];
            bytes[..2].copy_from_slice(&pair.map(|byte| byte as u8));
            let sums = vec![i32::from(pair[0]) + i32::from(pair[1])];
            let weight = QuantizedWeight { panels: bytes.into(), scales: vec![1.0], sums };
            let problem = weight.problem(2);
            assert_eq!(problem.is_none(), is_good, "{pair:?}: {problem:?}");
            assert!(problem.is_none_or(|problem| problem.contains("quantize the model again")));
        }
    }

    /// Several panels and steps, packed on one core and on all.
    #[test]
    fn quantized_weights_are_close_to_the_weights() {
        for (inputs, outputs) in [(1, 1), (63, 31), (64, 32), (65, 33), (130, 100)] {
            let weight: Vec<f32> = (0..inputs * outputs).map(|i| (i as f32).sin()).collect();
            for parallel in [false, true] {
                let found = QuantizedWeight::quantize(inputs, &weight, false, parallel);
                assert_eq!(
                    found.panels.as_slice().len(),
                    QuantizedWeight::panel_bytes(inputs, outputs)
                );
                assert_eq!(found.problem(inputs), None);
                let columns = found.scales.iter().cycle();
                let pairs = found.dequantize(inputs, false).into_iter().zip(&weight);
                for ((found, expected), scale) in pairs.zip(columns) {
                    assert!((found - expected).abs() <= 0.51 * scale, "{inputs} {outputs}");
                    assert!(*scale <= 2.0 / 127.0);
                }
            }
            let table = QuantizedTable::quantize(outputs, &weight);
            for (found, expected) in table.dequantize(outputs).iter().zip(&weight) {
                assert!((found - expected).abs() <= 0.51 / 127.0, "{inputs} {outputs}");
            }
        }
    }
}
