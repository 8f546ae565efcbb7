//! Work on the rows of a matrix, divided among the cores.

use std::mem::MaybeUninit;

use rayon::prelude::*;

/// Number of elements of one piece of work: enough to repay using another core, few enough for its
/// cache.
const PIECE: usize = 1 << 13;

/// Minimum number of rows that are summed in one piece.
pub const MIN_SUMMED_ROWS: usize = 64;

/// Returns the number of rows of `width` elements in a piece of work. The number depends only on
/// `width`, so that sums over pieces are the same for any number of cores.
pub fn per_piece(width: usize) -> usize {
    (PIECE / width.max(1)).max(1)
}

/// Calls `work` with the index of the first row and the rows of each piece.
pub fn each_piece(rows: &mut [f32], width: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
    let count = per_piece(width);
    if rows.len() <= count * width {
        if !rows.is_empty() {
            work(0, rows);
        }
        return;
    }
    rows.par_chunks_mut(count * width)
        .enumerate()
        .for_each(|(piece, rows)| work(piece * count, rows));
}

/// Copies `rows` and calls `work` on each piece of `count` rows of the copy. Returns the copy, and
/// the results of `work` in the order of the pieces.
///
/// Each piece is copied by the core that works on it, because otherwise one core would copy
/// everything while the others wait.
pub fn copy_pieces<R: Send>(
    rows: &[f32],
    width: usize,
    count: usize,
    work: impl Fn(usize, &mut [f32]) -> R + Sync,
) -> (Vec<f32>, Vec<R>) {
    let piece = (count * width).max(1);
    fresh(rows.len(), piece, |number, room| {
        let from = &rows[number * piece..][..room.len()];
        let rows = room.write_copy_of_slice(from);
        let result = work(number * count, rows);
        (rows, result)
    })
}

/// Returns `count` zeros, written by all cores.
pub fn zeros(count: usize) -> Vec<f32> {
    fresh(count, PIECE, |_, room| (room.write_copy_of_slice(&ZEROS[..room.len()]), ())).0
}

/// Writes zeros.
pub fn filled_with_zeros(room: &mut [MaybeUninit<f32>]) -> &mut [f32] {
    for room in room.chunks_mut(PIECE) {
        room.write_copy_of_slice(&ZEROS[..room.len()]);
    }
    // SAFETY: all elements have been written.
    #[allow(unsafe_code)]
    unsafe {
        room.assume_init_mut()
    }
}

static ZEROS: [f32; PIECE] = [0.0; PIECE];

/// Allocates `count` elements and lets `make` initialize them piece by piece.
fn fresh<R: Send>(
    count: usize,
    piece: usize,
    make: impl Fn(usize, &mut [MaybeUninit<f32>]) -> (&mut [f32], R) + Sync,
) -> (Vec<f32>, Vec<R>) {
    let mut numbers = Vec::with_capacity(count);
    let room = &mut numbers.spare_capacity_mut()[..count];
    let one = |(number, room): (usize, &mut [MaybeUninit<f32>])| {
        let (start, len) = (room.as_ptr().cast(), room.len());
        let (made, result) = make(number, room);
        assert!(made.as_ptr() == start && made.len() == len, "the whole piece is written");
        result
    };
    let results = if count <= piece {
        room.chunks_mut(piece).enumerate().map(one).collect()
    } else {
        room.par_chunks_mut(piece).enumerate().map(one).collect()
    };
    // SAFETY: `make` returned every piece as initialized elements, which is checked above.
    #[allow(unsafe_code)]
    unsafe {
        numbers.set_len(count);
    }
    (numbers, results)
}

/// Calls `work` on each piece of `rows`, and sums the `len` elements that it writes in the order of
/// the pieces.
pub fn sum_pieces(
    rows: &[f32],
    width: usize,
    len: usize,
    work: impl Fn(usize, &[f32], &mut [f32]) + Sync,
) -> Vec<f32> {
    // Larger pieces than elsewhere, because the sums of the pieces are added too.
    let count = per_piece(width).max(MIN_SUMMED_ROWS);
    let sums: Vec<Vec<f32>> = rows
        .par_chunks((count * width).max(1))
        .enumerate()
        .map(|(piece, rows)| {
            let mut sum = vec![0.0; len];
            work(piece * count, rows, &mut sum);
            sum
        })
        .collect();
    sum_in_order(sums, len)
}

/// Adds up vectors of `len` elements in their order.
pub fn sum_in_order(parts: Vec<Vec<f32>>, len: usize) -> Vec<f32> {
    let mut total = vec![0.0; len];
    for part in parts {
        for (total, part) in total.iter_mut().zip(part) {
            *total += part;
        }
    }
    total
}
