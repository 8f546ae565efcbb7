//! Weight matrices in the order in which a product reads them.
//!
//! The columns stand in panels of [`PANEL`], and a panel is stored row by row: a product walks
//! through it once, from front to back. For a few rows of input, reading the weights is all the
//! work there is, and a panel comes in at the full speed of the memory. For many rows, a tile of the
//! output (some rows × one panel) is summed up in registers while the panel stays in a near cache.

use burn::nn::Linear;
use pulp::{Arch, Simd, WithSimd};

use super::values;

/// Columns per panel: two vectors of AVX-512, four of AVX2, eight of NEON.
pub(super) const PANEL: usize = 32;

/// Steps of the innermost loop between two checks of bounds.
const UNROLL: usize = 4;

/// A product of few rows with at least so many weights is shared with other threads of the pool, in
/// pieces of about half as many: a core takes longer to read them than to wake another.
const SHARED: usize = 1 << 18;

/// More rows than this belong to a batch of many sentences, and other cores have batches of their
/// own.
pub(super) const FEW: usize = 16;

/// A matrix `[inputs, outputs]` with its bias, for products with rows from the left.
#[derive(Debug, Clone)]
pub struct PackedMatrix {
    /// `[panels, inputs, PANEL]`; zeros beyond the last column.
    panels: Vec<f32>,
    /// `[panels, PANEL]`; zeros where there is none.
    bias: Vec<f32>,
    inputs: usize,
    outputs: usize,
}

/// Neighbouring columns of a [`PackedMatrix`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns<'a> {
    panels: &'a [f32],
    bias: &'a [f32],
    inputs: usize,
    /// The first of these columns in the matrix.
    pub(super) first: usize,
    /// How many columns these are.
    pub(super) count: usize,
}

impl PackedMatrix {
    /// # Shapes
    ///
    /// - `weight`: `[inputs, outputs]`, row by row
    /// - `bias`: `[outputs]`
    ///
    /// # Panics
    ///
    /// When the shapes disagree, or there are no inputs.
    pub fn new(weight: &[f32], inputs: usize, bias: Option<&[f32]>) -> Self {
        let outputs = weight.len() / inputs;
        let mut matrix = Self::zeros(inputs, outputs, bias);
        for (input, row) in weight.chunks_exact(outputs.max(1)).enumerate() {
            for (panel, values) in row.chunks(PANEL).enumerate() {
                let at = (panel * inputs + input) * PANEL;
                matrix.panels[at..at + values.len()].copy_from_slice(values);
            }
        }
        matrix
    }

    /// As [`new`](Self::new), from the transposed matrix, as an embedding's table is of the
    /// projection tied to it.
    ///
    /// # Shapes
    ///
    /// - `weight`: `[outputs, inputs]`, row by row
    pub fn transposed(weight: &[f32], inputs: usize, bias: Option<&[f32]>) -> Self {
        let mut matrix = Self::zeros(inputs, weight.len() / inputs, bias);
        let panels = matrix.panels.chunks_exact_mut(inputs * PANEL);
        for (panel, columns) in panels.zip(weight.chunks(inputs * PANEL)) {
            for (place, column) in columns.chunks_exact(inputs).enumerate() {
                for (row, &value) in panel.chunks_exact_mut(PANEL).zip(column) {
                    row[place] = value;
                }
            }
        }
        matrix
    }

    /// The weights of a linear layer.
    pub(crate) fn of(linear: &Linear) -> Self {
        let [inputs, _] = linear.weight.dims();
        let bias = linear.bias.as_ref().map(|bias| values(bias.val()));
        Self::new(&values(linear.weight.val()), inputs, bias.as_deref())
    }

    fn zeros(inputs: usize, outputs: usize, bias: Option<&[f32]>) -> Self {
        let padded = outputs.next_multiple_of(PANEL);
        let mut padded_bias = vec![0.0; padded];
        if let Some(bias) = bias {
            padded_bias[..outputs].copy_from_slice(bias);
        }
        Self { panels: vec![0.0; inputs * padded], bias: padded_bias, inputs, outputs }
    }

    /// Length of a row of input.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Length of a row of output.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// `y = x W + b`
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, inputs]`, `y`: `[rows, outputs]`
    ///
    /// # Panics
    ///
    /// When the shapes disagree.
    pub fn product(&self, x: &[f32], y: &mut [f32]) {
        self.all().product(x, y);
    }

    /// `y += x W + b`; see [`product`](Self::product).
    pub fn add_product(&self, x: &[f32], y: &mut [f32]) {
        self.all().multiply(x, y, true);
    }

    fn all(&self) -> Columns<'_> {
        let Self { panels, bias, inputs, outputs } = self;
        Columns { panels, bias, inputs: *inputs, first: 0, count: *outputs }
    }

    /// The columns in blocks of about `columns`.
    pub(super) fn blocks(&self, columns: usize) -> impl Iterator<Item = Columns<'_>> {
        self.all().blocks(columns)
    }
}

impl<'a> Columns<'a> {
    /// These columns in blocks of about `columns`, at least a panel.
    fn blocks(self, columns: usize) -> impl Iterator<Item = Columns<'a>> {
        let columns = columns.next_multiple_of(PANEL).max(PANEL);
        let panels = self.panels.chunks(columns * self.inputs);
        panels.zip(self.bias.chunks(columns)).enumerate().map(move |(block, (panels, bias))| {
            let first = block * columns;
            let count = bias.len().min(self.count - first);
            Columns { panels, bias, inputs: self.inputs, first: self.first + first, count }
        })
    }

    /// `y = x W + b` for these columns alone.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, inputs]`, `y`: `[rows, count]`
    pub(super) fn product(self, x: &[f32], y: &mut [f32]) {
        self.multiply(x, y, false);
    }

    /// Rows of `x`.
    pub(super) fn rows(self, x: &[f32]) -> usize {
        x.len() / self.inputs
    }

    fn multiply(self, x: &[f32], y: &mut [f32], add: bool) {
        let rows = self.rows(x);
        assert_eq!((x.len(), y.len()), (rows * self.inputs, rows * self.count), "x and y");
        let panels = self.bias.len() / PANEL;
        let pieces = (self.panels.len() / (SHARED / 2)).min(panels);
        if rows <= FEW && pieces > 1 && has_helpers() {
            self.multiply_shared(x, y, add, panels.div_ceil(pieces) * PANEL);
        } else {
            self.multiply_alone(x, y, add);
        }
    }

    /// [`multiply`](Self::multiply) on this thread alone.
    fn multiply_alone(self, x: &[f32], y: &mut [f32], add: bool) {
        Arch::new().dispatch(Product { columns: self, x, y, rows: self.rows(x), add });
    }

    /// [`multiply`](Self::multiply) in blocks of `columns`, for whichever threads of the pool have
    /// nothing else to do.
    ///
    /// A block waits for nothing: a thread that computes one for another returns to its own work in
    /// a short time.
    fn multiply_shared(self, x: &[f32], y: &mut [f32], add: bool, columns: usize) {
        if x.len() == self.inputs {
            let mut rest = y;
            rayon::scope(|scope| {
                for block in self.blocks(columns) {
                    let (y, later) = std::mem::take(&mut rest).split_at_mut(block.count);
                    rest = later;
                    scope.spawn(move |_| block.multiply_alone(x, y, add));
                }
            });
            return;
        }
        let part = |block: Self| (block, vec![0.0; block.rows(x) * block.count]);
        let mut parts: Vec<(Self, Vec<f32>)> = self.blocks(columns).map(part).collect();
        rayon::scope(|scope| {
            for (block, y) in &mut parts {
                scope.spawn(move |_| block.multiply_alone(x, y, false));
            }
        });
        for (block, part) in parts {
            let first = block.first - self.first;
            for (y, part) in y.chunks_exact_mut(self.count).zip(part.chunks_exact(block.count)) {
                for (y, found) in y[first..first + block.count].iter_mut().zip(part) {
                    *y = if add { *y + found } else { *found };
                }
            }
        }
    }
}

/// Whether this thread belongs to a pool with other threads.
pub(super) fn has_helpers() -> bool {
    rayon::current_thread_index().is_some() && rayon::current_num_threads() > 1
}

struct Product<'a> {
    columns: Columns<'a>,
    x: &'a [f32],
    y: &'a mut [f32],
    rows: usize,
    /// Whether `y` is added to, or replaced.
    add: bool,
}

impl WithSimd for Product<'_> {
    type Output = ();

    /// As many rows in a tile as the registers hold: 32 of AVX-512 and NEON, 16 of AVX2.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::F32_LANES {
            16 => self.run::<S, 2, 11>(simd),
            8 => self.run::<S, 4, 3>(simd),
            4 => self.run::<S, 8, 3>(simd),
            _ => self.run::<S, PANEL, 1>(simd),
        }
    }
}

impl Product<'_> {
    /// `V` vectors make a panel; a tile has at most `MOST` rows.
    #[inline(always)]
    fn run<S: Simd, const V: usize, const MOST: usize>(mut self, simd: S) {
        let Columns { panels, inputs, .. } = self.columns;
        // Tiles of like height: a low one at the end would wait for its few sums.
        let height = self.rows.div_ceil(self.rows.div_ceil(MOST).max(1)).max(1);
        for (index, panel) in panels.chunks_exact(inputs * PANEL).enumerate() {
            let (panel, _) = S::as_simd_f32s(panel).0.as_chunks::<V>();
            let mut row = 0;
            while row < self.rows {
                let rows = height.min(self.rows - row);
                let at = (row, index);
                // Heights beyond `MOST` are not compiled: with narrow vectors, each would be
                // thousands of instructions.
                match rows {
                    1 if const { MOST > 1 } => self.tile::<S, V, 1>(simd, panel, at),
                    2 if const { MOST > 2 } => self.tile::<S, V, 2>(simd, panel, at),
                    3 if const { MOST > 3 } => self.tile::<S, V, 3>(simd, panel, at),
                    4 if const { MOST > 4 } => self.tile::<S, V, 4>(simd, panel, at),
                    5 if const { MOST > 5 } => self.tile::<S, V, 5>(simd, panel, at),
                    6 if const { MOST > 6 } => self.tile::<S, V, 6>(simd, panel, at),
                    7 if const { MOST > 7 } => self.tile::<S, V, 7>(simd, panel, at),
                    8 if const { MOST > 8 } => self.tile::<S, V, 8>(simd, panel, at),
                    9 if const { MOST > 9 } => self.tile::<S, V, 9>(simd, panel, at),
                    10 if const { MOST > 10 } => self.tile::<S, V, 10>(simd, panel, at),
                    _ => self.tile::<S, V, MOST>(simd, panel, at),
                }
                row += rows;
            }
        }
    }

    /// `R` rows of `y` from `first_row`, in the columns of one panel.
    #[inline(always)]
    fn tile<S: Simd, const V: usize, const R: usize>(
        &mut self,
        simd: S,
        panel: &[[S::f32s; V]],
        (first_row, index): (usize, usize),
    ) {
        let Columns { bias, inputs, count, .. } = self.columns;
        let (first, width) = (index * PANEL, PANEL.min(count - index * PANEL));
        let mut sums = [[simd.splat_f32s(0.0); V]; R];

        let x: [_; R] = std::array::from_fn(|row| {
            self.x[(first_row + row) * inputs..][..inputs].as_chunks::<UNROLL>()
        });
        let (steps, rest) = panel.as_chunks::<UNROLL>();
        for (step, weights) in steps.iter().enumerate() {
            let x: [&[f32; UNROLL]; R] = std::array::from_fn(|row| &x[row].0[step]);
            for (input, weights) in weights.iter().enumerate() {
                for row in 0..R {
                    let x = simd.splat_f32s(x[row][input]);
                    for v in 0..V {
                        sums[row][v] = simd.mul_add_e_f32s(x, weights[v], sums[row][v]);
                    }
                }
            }
        }
        for (input, weights) in rest.iter().enumerate() {
            for row in 0..R {
                let x = simd.splat_f32s(x[row].1[input]);
                for v in 0..V {
                    sums[row][v] = simd.mul_add_e_f32s(x, weights[v], sums[row][v]);
                }
            }
        }

        let bias = S::as_simd_f32s(&bias[first..first + PANEL]).0;
        // A copy, for a loop that is not unrolled would keep the sums in memory all the time.
        let mut tile = [[simd.splat_f32s(0.0); V]; R];
        for row in 0..R {
            for v in 0..V {
                tile[row][v] = simd.add_f32s(sums[row][v], bias[v]);
            }
        }
        for (row, tile) in tile.iter().enumerate() {
            let y = &mut self.y[(first_row + row) * count + first..][..width];
            let mut edge = [0.0; PANEL];
            let y_simd = if width < PANEL {
                edge[..width].copy_from_slice(y);
                S::as_mut_simd_f32s(&mut edge).0
            } else {
                S::as_mut_simd_f32s(y).0
            };
            for (y, &sum) in y_simd.iter_mut().zip(tile) {
                *y = if self.add { simd.add_f32s(*y, sum) } else { sum };
            }
            if width < PANEL {
                y.copy_from_slice(&edge[..width]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in -1..1, the same for the same `start`.
    fn noise(start: u32, count: usize) -> Vec<f32> {
        let value = |i: u32| (start + i).wrapping_mul(2_654_435_761) >> 8;
        (0..count as u32).map(|i| value(i) as f32 / (1 << 23) as f32 - 1.0).collect()
    }

    /// `x W + b` in double precision.
    fn expected(x: &[f32], weight: &[f32], bias: &[f32], inputs: usize) -> Vec<f64> {
        let outputs = bias.len();
        let mut y = Vec::new();
        for row in x.chunks_exact(inputs) {
            for (column, &bias) in bias.iter().enumerate() {
                let products = row
                    .iter()
                    .enumerate()
                    .map(|(input, &x)| f64::from(x) * f64::from(weight[input * outputs + column]));
                y.push(products.sum::<f64>() + f64::from(bias));
            }
        }
        y
    }

    /// All heights of tiles, and sizes around the edges of tiles, panels and unrolled loops.
    #[test]
    fn products_are_those_of_a_plain_loop() {
        for rows in (0..=12).chain([21, 22, 23, 33, 70]) {
            for (inputs, outputs) in
                [(1, 1), (3, 31), (4, 32), (5, 33), (12, 64), (17, 65), (64, 7), (129, 100)]
            {
                let x = noise(1, rows * inputs);
                let weight = noise(77, inputs * outputs);
                let bias = noise(999, outputs);
                let matrix = PackedMatrix::new(&weight, inputs, Some(&bias));
                let expected = expected(&x, &weight, &bias, inputs);
                let assert_close = |found: &[f32], times: f64, what: &str| {
                    for (found, expected) in found.iter().zip(&expected) {
                        let gap = (f64::from(*found) - times * expected).abs();
                        assert!(gap < 2e-5, "{rows}×{inputs}×{outputs} {what}: {gap:.1e}");
                    }
                };
                let mut y = vec![f32::NAN; rows * outputs];
                matrix.product(&x, &mut y);
                assert_close(&y, 1.0, "product");
                matrix.add_product(&x, &mut y);
                assert_close(&y, 2.0, "sum");

                let turned: Vec<f32> = (0..outputs)
                    .flat_map(|column| (0..inputs).map(move |input| input * outputs + column))
                    .map(|at| weight[at])
                    .collect();
                let turned = PackedMatrix::transposed(&turned, inputs, Some(&bias));
                assert_eq!((turned.inputs(), turned.outputs()), (inputs, outputs));
                turned.product(&x, &mut y);
                assert_close(&y, 1.0, "transposed");
            }
        }
    }

    /// Any number of rows and threads; most sizes have a last panel that is not full. With 8,192
    /// inputs, a single panel already holds as many weights as are worth sharing.
    #[test]
    fn a_shared_product_is_the_same_to_the_bit() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        for (inputs, outputs) in
            [(300, 4 * SHARED / 300 + 5), (8_192, 32), (8_192, 33), (16_384, 65)]
        {
            let weight = noise(3, inputs * outputs);
            let bias = noise(4, outputs);
            let matrix = PackedMatrix::new(&weight, inputs, Some(&bias));
            for rows in [1, 2, FEW, FEW + 1] {
                let what = format!("{rows} rows of {inputs} by {outputs}");
                let x = noise(5, rows * inputs);
                let (mut alone, mut shared) = (noise(6, rows * outputs), noise(6, rows * outputs));
                matrix.add_product(&x, &mut alone);
                pool.install(|| matrix.add_product(&x, &mut shared));
                assert_eq!(alone, shared, "{what}, added");
                matrix.product(&x, &mut alone);
                pool.install(|| matrix.product(&x, &mut shared));
                assert_eq!(alone, shared, "{what}");
            }
        }
    }

    #[test]
    fn blocks_of_columns_are_the_matrix_side_by_side() {
        let (inputs, outputs, rows) = (6, 100, 3);
        let x = noise(5, rows * inputs);
        let weight = noise(6, inputs * outputs);
        let matrix = PackedMatrix::new(&weight, inputs, None);
        let mut whole = vec![0.0; rows * outputs];
        matrix.product(&x, &mut whole);
        let mut seen = 0;
        for block in matrix.blocks(40) {
            assert_eq!(block.first, seen);
            let mut y = vec![0.0; rows * block.count];
            block.product(&x, &mut y);
            for (y, whole) in y.chunks_exact(block.count).zip(whole.chunks_exact(outputs)) {
                assert_eq!(y, &whole[block.first..block.first + block.count]);
            }
            seen += block.count;
        }
        assert_eq!(seen, outputs);
    }
}
