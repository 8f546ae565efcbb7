//! Division of products into cache-sized parts and among the cores.

use std::{cell::Cell, mem::MaybeUninit, ops::Range};

use rayon::prelude::*;

use super::{
    Split,
    layout::Group,
    pack::Number,
    panels::Panels,
    tile::{Addend, Part, Sums, Window, multiply},
    unit::{Side, Unit},
};
use crate::matrix::{Matrix, Output, Write};

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
pub fn product<A: Number, B: Number>(
    unit: Unit,
    split: Split,
    (a, b): (Matrix<'_, A>, Matrix<'_, B>),
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

struct Product<'a, A, B> {
    unit: Unit,
    split: Split,
    a: Matrix<'a, A>,
    /// Right factor, transposed.
    b: Matrix<'a, B>,
    bias: Option<&'a [f32]>,
    out: Window,
}

// SAFETY: the window is used by several threads, but each writes elements of its own.
#[allow(unsafe_code)]
unsafe impl<A: Sync, B: Sync> Sync for Product<'_, A, B> {}

impl<A: Number, B: Number> Product<'_, A, B> {
    /// Packs the smaller factor, then chunks of lines of the larger, each of which is multiplied by
    /// the smaller while it is in the cache.
    ///
    /// # Safety
    ///
    /// The output must be valid for writing all elements of the product.
    #[allow(unsafe_code)]
    unsafe fn compute(&self) {
        // SAFETY: the caller guarantees the output.
        unsafe {
            if self.a.rows >= self.b.rows {
                self.compute_by_chunks(Side::Left, self.a, self.b);
            } else {
                self.compute_by_chunks(Side::Right, self.b, self.a);
            }
        }
    }

    /// Does the work of [`compute`](Self::compute); `side` is that of the larger factor.
    ///
    /// # Safety
    ///
    /// Same as [`compute`](Self::compute).
    #[allow(unsafe_code)]
    unsafe fn compute_by_chunks<L: Number, S: Number>(
        &self,
        side: Side,
        large: Matrix<'_, L>,
        small: Matrix<'_, S>,
    ) {
        let work = large.rows.saturating_mul(small.rows).saturating_mul(large.columns);
        let is_parallel = work >= PARALLEL_THRESHOLD;
        let resident = resident(self.unit, side.other(), small, self.split, is_parallel);
        let cores = if is_parallel { rayon::current_num_threads() } else { 1 };
        let rounds = (large.rows + cores * CHUNK / 2) / (cores * CHUNK);
        let lines = large.rows.div_ceil(cores * rounds.max(1));
        let chunk = lines.next_multiple_of(self.unit.step(side));
        let one = |index: usize| {
            let lines = index * chunk..(index * chunk + chunk).min(large.rows);
            let mut room = ROOM.take();
            for (depth, inner) in depths(self.unit, large.columns).enumerate() {
                let part = large.part(lines.clone(), inner);
                let packed = Panels::pack(self.unit, side, part, self.split, room.left, false);
                let (row, column, factors) = match side {
                    Side::Left => (lines.start, 0, [&packed, &resident[depth]]),
                    Side::Right => (0, lines.start, [&resident[depth], &packed]),
                };
                let start = self
                    .bias
                    .map_or(Addend::Zero, |bias| Addend::Bias(&bias[column..][..factors[1].lines]));
                let index = [depth, resident.len()];
                let (start, part) = Part::of(index, factors, start, &mut room.sums);
                // SAFETY: no other chunk has these rows or columns.
                unsafe {
                    let data = self.out.data.add(row * self.out.row_stride + column);
                    let out = Window { data, ..self.out };
                    multiply(self.unit, self.split, factors, 1.0, out, start, part);
                }
                room.left = packed.into_room();
            }
            ROOM.set(room);
        };
        let chunks = large.rows.div_ceil(chunk);
        if is_parallel {
            (0..chunks).into_par_iter().for_each(one);
        } else {
            (0..chunks).for_each(one);
        }
    }
}

/// Packs a whole factor, one part for each of the [`depths`].
fn resident<T: Number>(
    unit: Unit,
    side: Side,
    lines: Matrix<'_, T>,
    split: Split,
    is_parallel: bool,
) -> Vec<Panels> {
    let depths: Vec<Range<usize>> = depths(unit, lines.columns).collect();
    // Several parts are divided among the cores at once, a single one is divided itself.
    let is_divided = is_parallel && depths.len() == 1;
    let pack = |inner| {
        let part = lines.part(0..lines.rows, inner);
        Panels::pack(unit, side, part, split, Vec::new(), is_divided)
    };
    if is_parallel && !is_divided {
        depths.into_par_iter().map(pack).collect()
    } else {
        depths.into_iter().map(pack).collect()
    }
}

/// Right factor that is packed once for products with several left factors.
#[derive(Debug)]
pub struct RightFactor {
    unit: Unit,
    /// Its parts by inner positions.
    parts: Vec<Panels>,
    inner: usize,
    columns: usize,
}

impl RightFactor {
    /// Packs a factor on all cores.
    pub fn new(unit: Unit, b: Matrix<'_>) -> Self {
        let parts = resident(unit, Side::Right, b.transposed(), Split::High, true);
        Self { unit, parts, inner: b.rows, columns: b.columns }
    }

    /// Writes `a b`, or `a b + bias` in each row, to `out`, on this thread.
    ///
    /// # Panics
    ///
    /// If the shapes disagree, or there is no inner position.
    pub fn multiply<'a, T: Number>(
        &self,
        a: Matrix<'_, T>,
        bias: Option<&[f32]>,
        out: &'a mut [MaybeUninit<f32>],
    ) -> &'a mut [f32] {
        assert!(a.columns == self.inner && self.inner > 0, "inner sizes");
        assert_eq!(out.len(), a.rows * self.columns, "length of the output");
        let mut room = ROOM.take();
        for (depth, (inner, right)) in depths(self.unit, a.columns).zip(&self.parts).enumerate() {
            let part = a.part(0..a.rows, inner);
            let left = Panels::pack(self.unit, Side::Left, part, Split::High, room.left, false);
            let start = bias.map_or(Addend::Zero, Addend::Bias);
            let (index, factors) = ([depth, self.parts.len()], [&left, right]);
            let (start, part) = Part::of(index, factors, start, &mut room.sums);
            let window = Window { data: out.as_mut_ptr().cast(), row_stride: self.columns };
            // SAFETY: the output has all elements of the product, and the first part writes all of
            // them before they are read.
            #[allow(unsafe_code)]
            unsafe {
                multiply(self.unit, Split::High, factors, 1.0, window, start, part);
            }
            room.left = left.into_room();
        }
        ROOM.set(room);
        // SAFETY: there is at least one part, which has written all elements.
        #[allow(unsafe_code)]
        unsafe {
            out.assume_init_mut()
        }
    }
}

/// Ranges of the inner positions that are added up in one tile.
fn depths(unit: Unit, inner: usize) -> impl Iterator<Item = Range<usize>> {
    let depth = unit.depth();
    (0..inner).step_by(depth).map(move |start| start..(start + depth).min(inner))
}

/// Memory of a thread for panels that it packs for itself, and for sums.
#[derive(Default)]
struct Room {
    left: Vec<Group>,
    right: Vec<Group>,
    sums: Vec<Sums>,
}

thread_local! {
    static ROOM: Cell<Room> =
        const { Cell::new(Room { left: Vec::new(), right: Vec::new(), sums: Vec::new() }) };
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
    let Room { mut left, mut right, mut sums } = ROOM.take();
    let count = depths(unit, a.columns).count();
    let start = match write {
        Write::Replace => Addend::Zero,
        Write::Add => Addend::Content,
    };
    for (depth, inner) in depths(unit, a.columns).enumerate() {
        let (a, b) = (a.part(0..a.rows, inner.clone()), b.transposed().part(0..b.columns, inner));
        let packed = [
            Panels::pack(unit, Side::Left, a, split, left, false),
            Panels::pack(unit, Side::Right, b, split, right, false),
        ];
        let factors = packed.each_ref();
        let (start, part) = Part::of([depth, count], factors, start, &mut sums);
        let to = Window { data: out.data.as_mut_ptr(), row_stride: out.row_stride };
        // SAFETY: the rows lie in the output, which is borrowed for writing, as has been checked.
        #[allow(unsafe_code)]
        unsafe {
            multiply(unit, split, factors, factor, to, start, part);
        }
        [left, right] = packed.map(Panels::into_room);
    }
    ROOM.set(Room { left, right, sums });
}
