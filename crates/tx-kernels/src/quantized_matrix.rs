//! Weight matrices of signed bytes with their bias, for products with quantized rows.

use crate::{
    int8_kernel::{Epilogue, Int8Kernel, Product},
    layout::{PANEL, STEP},
    packed_matrix::{FEW, has_helpers},
    quantized_rows::{QuantizedRows, ZERO},
    quantized_weight::{QuantizedWeight, column_of},
    shared_bytes::SharedBytes,
};

/// A product of few rows with at least this many weights is shared with other threads of the pool,
/// in pieces of about half as many. Reading a weight takes a quarter of the time that it takes in
/// single precision.
const PARALLEL_THRESHOLD: usize = 1 << 20;

/// Matrix `[inputs, outputs]` with its bias. It consists of matrices side by side, each with its own
/// panels.
#[derive(Debug, Clone)]
pub struct QuantizedMatrix {
    parts: Vec<Part>,
    inputs: usize,
    outputs: usize,
    kernel: Int8Kernel,
}

/// One of the matrices side by side. All lists have an element for each column of each panel.
#[derive(Debug, Clone)]
struct Part {
    /// Panels of `[padded inputs / 4, PANEL, 4]`.
    panels: SharedBytes,
    scales: Vec<f32>,
    /// Sums of the columns times the negative of the byte that stands for zero.
    offsets: Vec<i32>,
    bias: Vec<f32>,
    /// Number of columns.
    count: usize,
    /// Index of the first column in the matrix.
    first: usize,
}

/// Consecutive columns of a [`QuantizedMatrix`], whole panels except for the last.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    panels: &'a [u8],
    scales: &'a [f32],
    offsets: &'a [i32],
    bias: &'a [f32],
    kernel: Int8Kernel,
    /// Index of the first of these columns in the matrix.
    pub first: usize,
    /// Number of columns.
    pub count: usize,
}

impl QuantizedMatrix {
    /// Creates a matrix of `weights` side by side, divided by `divisor`.
    ///
    /// # Panics
    ///
    /// If the panels of a weight do not have the size of its outputs, `inputs` is 0, or a bias that
    /// is not empty has another length than there are columns.
    pub fn new(
        inputs: usize,
        weights: Vec<QuantizedWeight>,
        bias: &[f32],
        divisor: f32,
        kernel: Int8Kernel,
    ) -> Self {
        let outputs = weights.iter().map(|weight| weight.scales.len()).sum();
        assert!(bias.is_empty() || bias.len() == outputs, "length of the bias");
        let mut first = 0;
        let part = |weight: QuantizedWeight| {
            let QuantizedWeight { panels, mut scales, sums } = weight;
            let count = scales.len();
            assert_eq!(
                panels.as_slice().len(),
                QuantizedWeight::panel_bytes(inputs, count),
                "panels"
            );
            let padded = count.next_multiple_of(PANEL);
            scales.iter_mut().for_each(|scale| *scale /= divisor);
            scales.resize(padded, 0.0);
            let mut offsets: Vec<i32> =
                sums.iter().map(|sum| sum.wrapping_mul(-i32::from(ZERO))).collect();
            offsets.resize(padded, 0);
            let mut part_bias = bias.get(first..first + count).unwrap_or(&[]).to_vec();
            part_bias.resize(padded, 0.0);
            let part = Part { panels, scales, offsets, bias: part_bias, count, first };
            first += count;
            part
        };
        let parts = weights.into_iter().map(part).collect();
        Self { parts, inputs, outputs, kernel }
    }

    /// Number of features of a row of input.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Number of features of a row of output.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// One column of the matrix, without its bias.
    ///
    /// # Panics
    ///
    /// If there is no such column.
    pub fn column(&self, column: usize) -> impl Iterator<Item = f32> {
        let part = self.part_of(column);
        let column = column - part.first;
        column_of(part.panels.as_slice(), part.scales[column], self.inputs, column)
    }

    /// Returns a matrix of some of the columns, in this order.
    ///
    /// # Panics
    ///
    /// If there is no such column.
    pub fn gather(&self, columns: &[u32]) -> Self {
        let (count, size) = (columns.len(), PANEL * self.inputs.next_multiple_of(STEP));
        let padded = count.next_multiple_of(PANEL);
        let mut panels = vec![0; QuantizedWeight::panel_bytes(self.inputs, count)];
        let (mut scales, mut bias) = (vec![0.0; padded], vec![0.0; padded]);
        let mut offsets = vec![0; padded];
        for (place, &column) in columns.iter().enumerate() {
            let part = self.part_of(column as usize);
            let column = column as usize - part.first;
            let (from, _) =
                part.panels.as_slice()[column / PANEL * size..][..size].as_chunks::<4>();
            let (to, _) = panels[place / PANEL * size..][..size].as_chunks_mut::<4>();
            let from = from[column % PANEL..].iter().step_by(PANEL);
            let to = to[place % PANEL..].iter_mut().step_by(PANEL);
            to.zip(from).for_each(|(to, from)| *to = *from);
            scales[place] = part.scales[column];
            bias[place] = part.bias[column];
            offsets[place] = part.offsets[column];
        }
        let part = Part { panels: panels.into(), scales, offsets, bias, count, first: 0 };
        Self { parts: vec![part], inputs: self.inputs, outputs: count, kernel: self.kernel }
    }

    /// Returns `true` if a product of few rows is shared with other threads of the pool.
    pub fn is_shared(&self) -> bool {
        self.outputs * self.inputs.next_multiple_of(STEP) >= PARALLEL_THRESHOLD
    }

    /// Part of a column.
    ///
    /// # Panics
    ///
    /// If there is no such column.
    fn part_of(&self, column: usize) -> &Part {
        &self.parts[self.parts.partition_point(|part| part.first + part.count <= column)]
    }

    /// `y = x W + b`, used as the epilogue says.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, inputs]`, `y`: `[rows, outputs]`
    ///
    /// # Panics
    ///
    /// If the shapes disagree.
    pub fn multiply(&self, x: &QuantizedRows, y: &mut [f32], epilogue: Epilogue) {
        let rows = x.scales.len();
        let size = self.outputs * self.inputs.next_multiple_of(STEP);
        if rows <= FEW && self.is_shared() && has_helpers() {
            self.multiply_shared(x, y, epilogue, size);
            return;
        }
        for part in &self.parts {
            part.columns(self.kernel).multiply_into(x, y, self.outputs, part.first, epilogue);
        }
    }

    /// [`multiply`](Self::multiply), shared with idle threads of the pool.
    fn multiply_shared(&self, x: &QuantizedRows, y: &mut [f32], epilogue: Epilogue, size: usize) {
        let pieces = size / (PARALLEL_THRESHOLD / 2);
        let columns = self.outputs.div_ceil(pieces).next_multiple_of(PANEL);
        let rows = x.scales.len();
        let mut parts = Vec::new();
        for block in self.blocks(columns) {
            // Each block gets the content of its columns, to which the product may be added.
            let mut part = Vec::with_capacity(rows * block.count);
            for y in y.chunks_exact(self.outputs) {
                part.extend_from_slice(&y[block.first..block.first + block.count]);
            }
            parts.push((block.first, block.count, block, part));
        }
        rayon::scope(|scope| {
            for (_, count, block, y) in &mut parts {
                scope.spawn(move |_| block.multiply_into(x, y, *count, 0, epilogue));
            }
        });
        for (first, count, _, part) in parts {
            for (y, part) in y.chunks_exact_mut(self.outputs).zip(part.chunks_exact(count)) {
                y[first..first + count].copy_from_slice(part);
            }
        }
    }

    /// Blocks of about `columns` columns, at least one panel each.
    pub fn blocks(&self, columns: usize) -> impl Iterator<Item = Columns<'_>> {
        let columns = columns.next_multiple_of(PANEL).max(PANEL);
        let size = columns * self.inputs.next_multiple_of(STEP);
        self.parts.iter().flat_map(move |part| {
            let lists = part.scales.chunks(columns).zip(part.offsets.chunks(columns));
            let lists = lists.zip(part.bias.chunks(columns));
            let panels = part.panels.as_slice().chunks(size);
            panels.zip(lists).enumerate().map(
                move |(block, (panels, ((scales, offsets), bias)))| {
                    let first = block * columns;
                    let count = bias.len().min(part.count - first);
                    let first = part.first + first;
                    Columns { panels, scales, offsets, bias, kernel: self.kernel, first, count }
                },
            )
        })
    }
}

impl Part {
    fn columns(&self, kernel: Int8Kernel) -> Columns<'_> {
        let Self { panels, scales, offsets, bias, count, first } = self;
        let (first, count) = (*first, *count);
        Columns { panels: panels.as_slice(), scales, offsets, bias, kernel, first, count }
    }
}

impl Columns<'_> {
    /// `y = x W + b` for these columns.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, inputs]`, `y`: `[rows, count]`
    pub fn product(self, x: &QuantizedRows, y: &mut [f32]) {
        self.multiply_into(x, y, self.count, 0, Epilogue::Replace);
    }

    /// Computes the columns of `y`, rows of `stride` elements, from column `first` on.
    fn multiply_into(
        self,
        x: &QuantizedRows,
        y: &mut [f32],
        stride: usize,
        first: usize,
        epilogue: Epilogue,
    ) {
        let Self { panels, scales, offsets, bias, kernel, count: columns, .. } = self;
        let product =
            Product { x, panels, scales, offsets, bias, y, stride, first, columns, epilogue };
        kernel.run(product);
    }
}

#[cfg(test)]
mod tests;
