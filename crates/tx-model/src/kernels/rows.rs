//! Rows of a table, shared among the cores.

use rayon::prelude::*;

/// Elements of one piece of work: enough to be worth a core's while, few enough for its cache.
const PIECE: usize = 1 << 13;

/// Rows that are summed in one piece at least.
pub const LEAST_SUMMED: usize = 64;

/// How many rows of `width` make a piece of work. Depends on nothing else, so that sums over pieces
/// are the same on any number of cores.
pub fn per_piece(width: usize) -> usize {
    (PIECE / width.max(1)).max(1)
}

/// Calls `work` with the number of the first row and the rows themselves, piece by piece.
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

/// As [`each_piece`]; what `work` gives is added up, in the order of the pieces. `len` numbers each.
pub fn sum_pieces(
    rows: &[f32],
    width: usize,
    len: usize,
    work: impl Fn(usize, &[f32], &mut [f32]) + Sync,
) -> Vec<f32> {
    // Each piece has sums of its own, which have to be added up too.
    let count = per_piece(width).max(LEAST_SUMMED);
    let sums: Vec<Vec<f32>> = rows
        .par_chunks((count * width).max(1))
        .enumerate()
        .map(|(piece, rows)| {
            let mut sum = vec![0.0; len];
            work(piece * count, rows, &mut sum);
            sum
        })
        .collect();
    let mut total = vec![0.0; len];
    for sum in sums {
        for (total, part) in total.iter_mut().zip(sum) {
            *total += part;
        }
    }
    total
}
