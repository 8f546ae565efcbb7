//! Weight matrices in the order in which a product reads them.
//!
//! The columns are grouped into panels of [`PANEL`], and each panel is stored row by row, so that a
//! product reads it once from front to back. For a few rows of input, reading the weights is most
//! of the work, and a panel is read at the full bandwidth of the memory. For many rows, a tile of
//! the output (some rows × one panel) is accumulated in registers while the panel stays in the
//! cache.

use std::cell::Cell;

use pulp::{Simd, WithSimd};

use crate::{
    layout::PANEL,
    panels::{PanelRow, Panels},
    prefetch::prefetch_ahead,
    vector::vectors,
};

/// Iterations of the innermost loop between two bounds checks.
const UNROLL: usize = 4;

/// Distance in bytes at which weights are prefetched: far enough for the latency of the memory, which the
/// products of several rows with the same weights do not hide. The weights after those of a panel are those
/// of the next one.
const AHEAD: usize = 1 << 12;

/// A product of few rows with at least this many weights is shared with other threads of the pool,
/// in pieces of about half as many: reading them takes a core longer than waking another.
const PARALLEL_THRESHOLD: usize = 1 << 18;

/// Maximum number of rows of a product that is shared. More rows belong to a batch of many
/// sentences, in which the other cores have batches of their own.
pub const FEW: usize = 16;

/// Matrix `[inputs, outputs]` with its bias, for products with rows from the left.
#[derive(Debug, Clone)]
pub struct PackedMatrix {
    /// `[panels, inputs]` rows; zeros beyond the last column.
    panels: Panels,
    /// `[panels · PANEL]`; zeros if there is no bias.
    bias: Vec<f32>,
    inputs: usize,
    outputs: usize,
}

/// Consecutive columns of a [`PackedMatrix`], whole panels except for the last.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    panels: &'a [PanelRow],
    bias: &'a [f32],
    inputs: usize,
    /// Index of the first of these columns in the matrix.
    pub first: usize,
    /// Number of columns.
    pub count: usize,
}

impl PackedMatrix {
    /// Packs matrices side by side, divided by `divisor`; on all cores if `parallel`.
    ///
    /// # Shapes
    ///
    /// - `weights`: `[inputs, _]` each, row by row; their columns are `outputs` together
    /// - `bias`: `[outputs]`, or empty
    ///
    /// # Panics
    ///
    /// If the shapes disagree, or `inputs` is 0.
    pub fn new(
        inputs: usize,
        weights: &[&[f32]],
        bias: Vec<f32>,
        divisor: f32,
        parallel: bool,
    ) -> Self {
        let outputs = weights.iter().map(|weight| weight.len() / inputs).sum::<usize>();
        let row = |panel: usize, input: usize| {
            let mut row = [0.0; PANEL];
            // Columns of the panel and of the weight, counted in the whole matrix.
            let columns = panel * PANEL..(panel + 1) * PANEL;
            let mut start = 0;
            for weight in weights {
                let width = weight.len() / inputs;
                let (first, end) = (columns.start.max(start), columns.end.min(start + width));
                if first < end {
                    let from = &weight[input * width..][first - start..end - start];
                    row[first - columns.start..end - columns.start].copy_from_slice(from);
                }
                start += width;
            }
            if divisor == 1.0 { row } else { row.map(|weight| weight / divisor) }
        };
        // Reads pieces of rows that are as long as the rows of so many panels.
        Self::from_rows([inputs, outputs], bias, 8, parallel, row)
    }

    /// Packs the transpose of a matrix, such as an embedding's table for the projection tied to it.
    ///
    /// # Shapes
    ///
    /// - `weight`: `[outputs, inputs]`, row by row
    /// - `bias`: `[outputs]`, or empty
    pub fn transposed(inputs: usize, weight: &[f32], bias: Vec<f32>, parallel: bool) -> Self {
        let outputs = weight.len() / inputs;
        let row = |panel: usize, input: usize| {
            let mut row = [0.0; PANEL];
            let first = panel * PANEL;
            let columns = &weight[first * inputs..(first + PANEL).min(outputs) * inputs];
            for (place, column) in row.iter_mut().zip(columns.chunks_exact(inputs)) {
                *place = column[input];
            }
            row
        };
        Self::from_rows([inputs, outputs], bias, 1, parallel, row)
    }

    /// Collects the rows of all panels; see [`Panels::fill`].
    fn from_rows(
        [inputs, outputs]: [usize; 2],
        mut bias: Vec<f32>,
        together: usize,
        parallel: bool,
        row: impl Fn(usize, usize) -> PanelRow + Sync,
    ) -> Self {
        assert!(bias.is_empty() || bias.len() == outputs, "length of the bias");
        let panels = outputs.div_ceil(PANEL);
        let rows = Panels::fill([panels, inputs], together, parallel, row);
        bias.resize(panels * PANEL, 0.0);
        Self { panels: rows, bias, inputs, outputs }
    }

    /// One column of the matrix, without its bias.
    ///
    /// # Panics
    ///
    /// If there is no such column.
    pub fn column(&self, column: usize) -> impl Iterator<Item = f32> {
        assert!(column < self.outputs, "column {column} of {}", self.outputs);
        let panel = &self.panels[column / PANEL * self.inputs..][..self.inputs];
        panel.iter().map(move |row| row[column % PANEL])
    }

    /// Returns a matrix of some of the columns, in this order.
    ///
    /// # Panics
    ///
    /// If there is no such column.
    pub fn gather(&self, columns: &[u32]) -> Self {
        let bias = columns.iter().map(|&column| self.bias[column as usize]).collect();
        let row = |panel: usize, input: usize| {
            let mut row = [0.0; PANEL];
            let columns = columns[panel * PANEL..].iter().take(PANEL);
            for (place, &column) in row.iter_mut().zip(columns) {
                let column = column as usize;
                *place = self.panels[column / PANEL * self.inputs + input][column % PANEL];
            }
            row
        };
        Self::from_rows([self.inputs, columns.len()], bias, 1, false, row)
    }

    /// Length of a row of input.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Length of a row of output.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Returns `true` if a product of few rows is shared with other threads of the pool.
    pub fn is_shared(&self) -> bool {
        self.inputs * self.outputs >= PARALLEL_THRESHOLD
    }

    /// `y = x W + b`
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, inputs]`, `y`: `[rows, outputs]`
    ///
    /// # Panics
    ///
    /// If the shapes disagree.
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

    /// Blocks of about `columns` columns.
    pub fn blocks(&self, columns: usize) -> impl Iterator<Item = Columns<'_>> {
        self.all().blocks(columns)
    }
}

impl<'a> Columns<'a> {
    /// Blocks of about `columns` of these columns, at least one panel each.
    fn blocks(self, columns: usize) -> impl Iterator<Item = Columns<'a>> {
        let columns = columns.next_multiple_of(PANEL).max(PANEL);
        let panels = self.panels.chunks(columns / PANEL * self.inputs);
        panels.zip(self.bias.chunks(columns)).enumerate().map(move |(block, (panels, bias))| {
            let first = block * columns;
            let count = bias.len().min(self.count - first);
            Columns { panels, bias, inputs: self.inputs, first: self.first + first, count }
        })
    }

    /// `y = x W + b` for these columns.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, inputs]`, `y`: `[rows, count]`
    pub fn product(self, x: &[f32], y: &mut [f32]) {
        self.multiply(x, y, false);
    }

    /// Number of rows of `x`.
    pub fn rows(self, x: &[f32]) -> usize {
        x.len() / self.inputs
    }

    fn multiply(self, x: &[f32], y: &mut [f32], add: bool) {
        let rows = self.rows(x);
        assert_eq!((x.len(), y.len()), (rows * self.inputs, rows * self.count), "x and y");
        let panels = self.bias.len() / PANEL;
        let pieces = (self.panels.len() * PANEL / (PARALLEL_THRESHOLD / 2)).min(panels);
        if rows <= FEW && pieces > 1 && has_helpers() {
            self.multiply_shared(x, y, add, panels.div_ceil(pieces) * PANEL);
        } else {
            self.multiply_alone(x, y, add);
        }
    }

    /// [`multiply`](Self::multiply) on this thread.
    fn multiply_alone(self, x: &[f32], y: &mut [f32], add: bool) {
        vectors().dispatch(Product { columns: self, x, y, rows: self.rows(x), add });
    }

    /// [`multiply`](Self::multiply) in blocks of `columns`, shared with idle threads of the pool.
    ///
    /// Blocks are short and wait for nothing, so that a thread that computes one soon returns to
    /// its own work.
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

thread_local! {
    /// Whether this thread computes its products without helpers.
    static IS_ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Returns `true` if this thread belongs to a pool with several threads, which may help.
pub fn has_helpers() -> bool {
    let is_in_pool = rayon::current_thread_index().is_some() && rayon::current_num_threads() > 1;
    is_in_pool && !IS_ALONE.get()
}

/// Runs `work` on this thread, which shares no product with other threads of its pool meanwhile.
pub fn without_helpers<T>(work: impl FnOnce() -> T) -> T {
    /// Restores the state, also after a panic.
    struct Before(bool);

    impl Drop for Before {
        fn drop(&mut self) {
            IS_ALONE.set(self.0);
        }
    }

    let _before = Before(IS_ALONE.replace(true));
    work()
}

/// Product on one thread.
struct Product<'a> {
    columns: Columns<'a>,
    x: &'a [f32],
    y: &'a mut [f32],
    rows: usize,
    /// Adds to `y` instead of replacing it.
    add: bool,
}

impl WithSimd for Product<'_> {
    type Output = ();

    /// Chooses the size of a tile by the number of registers: 32 of AVX-512 and NEON, 16 of AVX2. Vectors of
    /// WebAssembly are those of the machine, which may have 16. A tile has at least eight sums if possible, because
    /// each addition waits for the previous one to the same sum.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::F32_LANES {
            16 => self.run::<S, 2, 2, 11>(simd),
            8 if self.rows <= 2 => self.run::<S, 4, 4, 2>(simd),
            8 => self.run::<S, 4, 2, 6>(simd),
            4 if cfg!(target_family = "wasm") => self.run::<S, 8, 4, 3>(simd),
            4 if self.rows == 1 => self.run::<S, 8, 8, 1>(simd),
            4 => self.run::<S, 8, 4, 5>(simd),
            _ => self.run::<S, PANEL, PANEL, 1>(simd),
        }
    }
}

impl Product<'_> {
    /// Computes the product with `V` vectors a panel, and `W` of them and at most `MOST` rows a tile.
    #[inline(always)]
    fn run<S: Simd, const V: usize, const W: usize, const MOST: usize>(mut self, simd: S) {
        let Columns { panels, inputs, .. } = self.columns;
        // Tiles of similar height, because a low one does not fill the pipeline.
        let height = self.rows.div_ceil(self.rows.div_ceil(MOST).max(1)).max(1);
        for (index, panel) in panels.chunks_exact(inputs).enumerate() {
            let (panel, _) = S::as_simd_f32s(panel.as_flattened()).0.as_chunks::<V>();
            let mut row = 0;
            while row < self.rows {
                let rows = height.min(self.rows - row);
                for part in 0..V / W {
                    let at = (row, index, part);
                    // Heights above `MOST` are not compiled, because each would be thousands of
                    // instructions with narrow vectors.
                    match rows {
                        1 if const { MOST > 1 } => self.tile::<S, V, W, 1>(simd, panel, at),
                        2 if const { MOST > 2 } => self.tile::<S, V, W, 2>(simd, panel, at),
                        3 if const { MOST > 3 } => self.tile::<S, V, W, 3>(simd, panel, at),
                        4 if const { MOST > 4 } => self.tile::<S, V, W, 4>(simd, panel, at),
                        5 if const { MOST > 5 } => self.tile::<S, V, W, 5>(simd, panel, at),
                        6 if const { MOST > 6 } => self.tile::<S, V, W, 6>(simd, panel, at),
                        7 if const { MOST > 7 } => self.tile::<S, V, W, 7>(simd, panel, at),
                        8 if const { MOST > 8 } => self.tile::<S, V, W, 8>(simd, panel, at),
                        9 if const { MOST > 9 } => self.tile::<S, V, W, 9>(simd, panel, at),
                        10 if const { MOST > 10 } => self.tile::<S, V, W, 10>(simd, panel, at),
                        _ => self.tile::<S, V, W, MOST>(simd, panel, at),
                    }
                }
                row += rows;
            }
        }
    }

    /// Computes `R` rows of `y` from `first_row` in the columns of a part of one panel, `W` vectors.
    #[inline(always)]
    fn tile<S: Simd, const V: usize, const W: usize, const R: usize>(
        &mut self,
        simd: S,
        panel: &[[S::f32s; V]],
        (first_row, index, part): (usize, usize, usize),
    ) {
        let Columns { bias, inputs, count, .. } = self.columns;
        let columns = const { PANEL / V * W };
        let (first, start) = (index * PANEL + part * columns, part * W);
        if first >= count {
            return;
        }
        let width = columns.min(count - first);
        let mut sums = [[simd.splat_f32s(0.0); W]; R];

        let x: [_; R] = std::array::from_fn(|row| {
            self.x[(first_row + row) * inputs..][..inputs].as_chunks::<UNROLL>()
        });
        let (steps, rest) = panel.as_chunks::<UNROLL>();
        for (step, weights) in steps.iter().enumerate() {
            // Later tiles find the panel in the cache.
            if first_row == 0 && part == 0 {
                prefetch_ahead(weights, AHEAD);
            }
            let x: [&[f32; UNROLL]; R] = std::array::from_fn(|row| &x[row].0[step]);
            for (input, weights) in weights.iter().enumerate() {
                for row in 0..R {
                    let x = simd.splat_f32s(x[row][input]);
                    for v in 0..W {
                        sums[row][v] = simd.mul_add_e_f32s(x, weights[start + v], sums[row][v]);
                    }
                }
            }
        }
        for (input, weights) in rest.iter().enumerate() {
            for row in 0..R {
                let x = simd.splat_f32s(x[row].1[input]);
                for v in 0..W {
                    sums[row][v] = simd.mul_add_e_f32s(x, weights[start + v], sums[row][v]);
                }
            }
        }

        let bias = S::as_simd_f32s(&bias[first..first + columns]).0;
        // A copy, because the sums would otherwise be kept in memory for the loop below.
        let mut tile = [[simd.splat_f32s(0.0); W]; R];
        for row in 0..R {
            for v in 0..W {
                tile[row][v] = simd.add_f32s(sums[row][v], bias[v]);
            }
        }
        for (row, tile) in tile.iter().enumerate() {
            let y = &mut self.y[(first_row + row) * count + first..][..width];
            let mut edge = [0.0; PANEL];
            let y_simd = if width < columns {
                edge[..width].copy_from_slice(y);
                S::as_mut_simd_f32s(&mut edge).0
            } else {
                S::as_mut_simd_f32s(y).0
            };
            for (y, &sum) in y_simd.iter_mut().zip(tile) {
                *y = if self.add { simd.add_f32s(*y, sum) } else { sum };
            }
            if width < columns {
                y.copy_from_slice(&edge[..width]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
