//! Rows of a table, shared among the cores.

use std::mem::MaybeUninit;

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

/// A copy of `rows` on which `work` is called piece by piece, with what it gave, in their order;
/// `count` rows a piece.
///
/// A piece is copied by the core that works on it, where vectors copied or cleared before would be
/// so by one core, while the others wait.
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

/// Zeros, cleared by all cores.
pub fn zeros(count: usize) -> Vec<f32> {
    fresh(count, PIECE, |_, room| (room.write_copy_of_slice(&ZEROS[..room.len()]), ())).0
}

static ZEROS: [f32; PIECE] = [0.0; PIECE];

/// Numbers that `make` writes into their room piece by piece.
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
        assert!(made.as_ptr() == start && made.len() == len, "the whole room is written");
        result
    };
    let results = if count <= piece {
        room.chunks_mut(piece).enumerate().map(one).collect()
    } else {
        room.par_chunks_mut(piece).enumerate().map(one).collect()
    };
    // SAFETY: `make` gave every piece of the room back as numbers, which it can only if it has
    // written them.
    #[allow(unsafe_code)]
    unsafe {
        numbers.set_len(count);
    }
    (numbers, results)
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
