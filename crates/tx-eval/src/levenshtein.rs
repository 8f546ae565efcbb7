//! Edit distance of two sequences, 64 units at a time: Myers (1999), "A Fast Bit-Vector Algorithm
//! for Approximate String Matching Based on Dynamic Programming", in the form of Hyyrö (2003).
//!
//! The algorithm does not store the table of distances. For one column it stores the differences
//! between neighboring rows, which are −1, 0 or 1, as one bit each in two machine words.

use std::{collections::HashMap, hash::Hash};

/// Differences of 64 neighboring rows of a column.
#[derive(Debug, Clone, Copy)]
struct Block {
    /// Rows with a distance one above that of the row before.
    up: u64,
    /// Rows with a distance one below that of the row before.
    down: u64,
}

/// Returns the minimum number of insertions, deletions and substitutions between two sequences.
/// Time is proportional to the product of the lengths divided by 64, memory to their sum.
pub(crate) fn levenshtein<T: Eq + Hash>(from: &[T], to: &[T]) -> usize {
    let (from, to) = without_common_ends(from, to);
    // The shorter sequence gives the rows, because fewer rows need fewer machine words per unit.
    let (rows, columns) = if from.len() <= to.len() { (from, to) } else { (to, from) };
    if rows.is_empty() {
        return columns.len();
    }
    let n_blocks = rows.len().div_ceil(64);
    // Blocks that contain each unit, with a bit mask of the rows.
    let mut occurrences: HashMap<&T, Vec<(usize, u64)>> = HashMap::new();
    for (row, unit) in rows.iter().enumerate() {
        let (block, bit) = (row / 64, 1 << (row % 64));
        let blocks = occurrences.entry(unit).or_default();
        match blocks.last_mut() {
            Some((last, bits)) if *last == block => *bits |= bit,
            _ => blocks.push((block, bit)),
        }
    }
    // Distances in the first column increase from 0.
    let mut blocks = vec![Block { up: u64::MAX, down: 0 }; n_blocks];
    let last_bit = 1_u64 << ((rows.len() - 1) % 64);
    let mut distance = rows.len();
    for unit in columns {
        let mut equal = occurrences.get(unit).map_or(&[][..], Vec::as_slice).iter().peekable();
        // Horizontal difference above the block, between the previous column and this one; the
        // first row increases.
        let (mut up_above, mut down_above) = (1, 0);
        for (index, block) in blocks.iter_mut().enumerate() {
            let equal = equal.next_if(|(block, _)| *block == index).map_or(0, |(_, bits)| *bits);
            let Block { up, down } = *block;
            let vertical = equal | down;
            let equal = equal | down_above;
            let diagonal = (((equal & up).wrapping_add(up)) ^ up) | equal;
            let mut right_up = down | !(diagonal | up);
            let mut right_down = up & diagonal;
            if index + 1 == n_blocks {
                distance += usize::from(right_up & last_bit != 0);
                distance -= usize::from(right_down & last_bit != 0);
            }
            let below = (right_up >> 63, right_down >> 63);
            right_up = right_up << 1 | up_above;
            right_down = right_down << 1 | down_above;
            *block = Block { up: right_down | !(vertical | right_up), down: right_up & vertical };
            (up_above, down_above) = below;
        }
    }
    distance
}

/// Two sequences without their common prefix and suffix.
fn without_common_ends<'a, T: Eq>(a: &'a [T], b: &'a [T]) -> (&'a [T], &'a [T]) {
    let first = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[first..], &b[first..]);
    let last = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    (&a[..a.len() - last], &b[..b.len() - last])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numpy_random::Pcg64;

    fn distance(from: &str, to: &str) -> usize {
        levenshtein(&from.chars().collect::<Vec<_>>(), &to.chars().collect::<Vec<_>>())
    }

    /// kitten → sitten → sittin → sitting.
    #[test]
    fn edits_are_as_few_as_possible() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(distance("ab", "ba"), 2);
        assert_eq!(distance("aba", "ababa"), 2);
    }

    /// Reference implementation with the full table.
    fn by_table(from: &[u32], to: &[u32]) -> usize {
        let mut table = vec![vec![0; to.len() + 1]; from.len() + 1];
        for i in 0..=from.len() {
            for j in 0..=to.len() {
                table[i][j] = match (i, j) {
                    (0, distance) | (distance, 0) => distance,
                    _ => {
                        let substituted =
                            table[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
                        substituted.min(table[i - 1][j] + 1).min(table[i][j - 1] + 1)
                    }
                };
            }
        }
        table[from.len()][to.len()]
    }

    /// Lengths around one, two and three machine words; few distinct units, for many matches, and
    /// many distinct units.
    #[test]
    fn distances_are_those_of_the_table() {
        let mut random = Pcg64::new(1);
        let lengths = [0, 1, 2, 63, 64, 65, 127, 128, 129, 200];
        for units in [1, 2, 4, 300] {
            for from in lengths {
                for to in lengths {
                    let [from, to] = [from, to]
                        .map(|len| (0..len).map(|_| random.below(units)).collect::<Vec<_>>());
                    assert_eq!(levenshtein(&from, &to), by_table(&from, &to), "{from:?} {to:?}");
                }
            }
        }
    }
}
