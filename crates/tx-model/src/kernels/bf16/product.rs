//! Division of products into cache-sized parts and among the cores.

use std::{cell::Cell, ops::Range};

use rayon::prelude::*;

use super::{
    Split,
    panels::{Group, Panels},
    tile::{Start, Window, multiply},
    unit::{Side, Unit},
};
use crate::kernels::matrix::{Matrix, Output, Write};

/// Inner positions whose products are added up before they are added to the output. A tile's part
/// of the factors then fits into the cache of the second level.
const DEPTH: usize = 1_024;

/// Typical number of lines of the larger factor that are packed at once, so that they fit into the
/// cache of the second level.
const CHUNK: usize = 128;

/// Products with more multiplications than this are divided among the cores.
const PARALLEL_THRESHOLD: usize = 1 << 19;

/// Computes `a b`, or `a b + bias` in each row, in row-major order. Large products are divided
/// among the cores.
///
/// # Panics
///
/// If the shapes disagree.
pub fn product(
    unit: Unit,
    split: Split,
    [a, b]: [Matrix<'_>; 2],
    bias: Option<&[f32]>,
) -> Vec<f32> {
    assert_eq!(a.columns, b.rows, "inner sizes");
    let (rows, columns, inner) = (a.rows, b.columns, a.columns);
    assert!(bias.is_none_or(|bias| bias.len() == columns), "length of the bias");
    let count = rows * columns;
    if count == 0 || inner == 0 {
        return bias.map_or_else(|| vec![0.0; count], |bias| bias.repeat(rows));
    }
    let mut out = Vec::with_capacity(count);
    let data = out.spare_capacity_mut().as_mut_ptr().cast();
    let product = Product {
        unit,
        split,
        a,
        b: b.transposed(),
        bias,
        out: Window { data, row_stride: columns },
    };
    // SAFETY: there is room for all elements, and `Product` writes all of them before it reads them.
    #[allow(unsafe_code)]
    unsafe {
        product.compute();
        out.set_len(count);
    }
    out
}

struct Product<'a> {
    unit: Unit,
    split: Split,
    a: Matrix<'a>,
    /// Right factor, transposed.
    b: Matrix<'a>,
    bias: Option<&'a [f32]>,
    out: Window,
}

// SAFETY: the window is used by several threads, but each writes elements of its own.
#[allow(unsafe_code)]
unsafe impl Sync for Product<'_> {}

impl Product<'_> {
    /// Packs the smaller factor, then chunks of lines of the larger, each of which is multiplied by
    /// the smaller while it is in the cache.
    ///
    /// # Safety
    ///
    /// The output must be valid for writing all elements of the product.
    #[allow(unsafe_code)]
    unsafe fn compute(&self) {
        let (large, small, side) = if self.a.rows >= self.b.rows {
            (self.a, self.b, Side::Left)
        } else {
            (self.b, self.a, Side::Right)
        };
        let work = self.a.rows.saturating_mul(self.b.rows).saturating_mul(self.a.columns);
        let is_parallel = work >= PARALLEL_THRESHOLD;
        let resident: Vec<Panels> = depths(small.columns)
            .map(|inner| {
                let part = small.part(0..small.rows, inner);
                Panels::pack(self.unit, side.other(), part, self.split, Vec::new(), is_parallel)
            })
            .collect();
        let cores = if is_parallel { rayon::current_num_threads() } else { 1 };
        let rounds = (large.rows + cores * CHUNK / 2) / (cores * CHUNK);
        let lines = large.rows.div_ceil(cores * rounds.max(1));
        let chunk = lines.next_multiple_of(self.unit.step(side));
        let one = |index: usize| {
            let lines = index * chunk..(index * chunk + chunk).min(large.rows);
            let mut room = ROOMS.take();
            for (depth, inner) in depths(large.columns).enumerate() {
                let part = large.part(lines.clone(), inner);
                let packed = Panels::pack(self.unit, side, part, self.split, room.0, false);
                let (row, column, factors) = match side {
                    Side::Left => (lines.start, 0, [&packed, &resident[depth]]),
                    Side::Right => (0, lines.start, [&resident[depth], &packed]),
                };
                let start = match self.bias {
                    _ if depth > 0 => Start::Content,
                    Some(bias) => Start::Bias(&bias[column..][..factors[1].lines]),
                    None => Start::Zero,
                };
                // SAFETY: no other chunk has these rows or columns.
                unsafe {
                    let data = self.out.data.add(row * self.out.row_stride + column);
                    let out = Window { data, ..self.out };
                    multiply(self.unit, self.split, factors, 1.0, out, start);
                }
                room.0 = packed.into_room();
            }
            ROOMS.set(room);
        };
        let chunks = large.rows.div_ceil(chunk);
        if is_parallel {
            (0..chunks).into_par_iter().for_each(one);
        } else {
            (0..chunks).for_each(one);
        }
    }
}

/// Ranges of the inner positions that are added up in one tile.
fn depths(inner: usize) -> impl Iterator<Item = Range<usize>> {
    (0..inner).step_by(DEPTH).map(move |start| start..(start + DEPTH).min(inner))
}

thread_local! {
    /// Memory for the panels that a thread packs for itself.
    static ROOMS: Cell<(Vec<Group>, Vec<Group>)> = const { Cell::new((Vec::new(), Vec::new())) };
}

/// Computes `out = factor · a b`, or adds that to `out`, on this thread; for work that is already
/// divided among the cores.
///
/// # Panics
///
/// If the shapes disagree.
pub fn multiply_here(
    unit: Unit,
    split: Split,
    [a, b]: [Matrix<'_>; 2],
    factor: f32,
    out: Output<'_>,
    write: Write,
) {
    out.check(a, b);
    if a.rows == 0 || b.columns == 0 {
        return;
    }
    if a.columns == 0 && write == Write::Replace {
        out.data.chunks_mut(out.row_stride).take(a.rows).for_each(|y| y[..b.columns].fill(0.0));
    }
    let (mut left, mut right) = ROOMS.take();
    for (depth, inner) in depths(a.columns).enumerate() {
        let (a, b) = (a.part(0..a.rows, inner.clone()), b.transposed().part(0..b.columns, inner));
        let packed = [
            Panels::pack(unit, Side::Left, a, split, left, false),
            Panels::pack(unit, Side::Right, b, split, right, false),
        ];
        let start = match write {
            Write::Replace if depth == 0 => Start::Zero,
            Write::Replace | Write::Add => Start::Content,
        };
        let to = Window { data: out.data.as_mut_ptr(), row_stride: out.row_stride };
        // SAFETY: the rows lie in the output, which is borrowed for writing, as has been checked.
        #[allow(unsafe_code)]
        unsafe {
            multiply(unit, split, packed.each_ref(), factor, to, start);
        }
        [left, right] = packed.map(Panels::into_room);
    }
    ROOMS.set((left, right));
}
