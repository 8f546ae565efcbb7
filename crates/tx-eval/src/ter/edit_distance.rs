//! Levenshtein distance of words in a beam around the diagonal, and the alignment of both sides.

use std::ops::Range;

/// Cells computed on each side of the diagonal, `BEAM_WIDTH` of Tercom.
const BEAM_WIDTH: usize = 25;

/// Cost of a cell outside the beam.
const OUTSIDE: u32 = u32::MAX / 2;

/// Edit distances between a reference and hypotheses of one length.
///
/// Row i and column j hold the minimum number of edits between the first i words of a hypothesis
/// and the first j words of the reference, or [`OUTSIDE`] outside the beam. The matrix of one
/// hypothesis, the *base*, is kept. Distances of other hypotheses start at the first row that
/// differs from it.
pub(super) struct EditDistance<'a> {
    reference: &'a [u32],
    /// Columns of each row inside the beam.
    windows: Vec<Range<usize>>,
    /// Costs of the base, row by row, for the cells inside the beam.
    costs: Vec<u32>,
    /// Start of each row in `costs`.
    starts: Vec<usize>,
    /// Two rows in full width; between computations all cells are [`OUTSIDE`].
    previous: Vec<u32>,
    current: Vec<u32>,
}

/// Alignment of the base with the reference.
pub(super) struct Alignment {
    /// Position in the base after each word of the reference.
    pub after: Vec<usize>,
    /// Number of inserted or substituted words among the first n words of the reference.
    pub reference_errors: Vec<usize>,
    /// Number of deleted or substituted words among the first n words of the base.
    pub base_errors: Vec<usize>,
}

impl<'a> EditDistance<'a> {
    /// Prepares distances for hypotheses of `hypothesis_len` words; `reference` has at least one
    /// word.
    pub(super) fn new(reference: &'a [u32], hypothesis_len: usize) -> Self {
        let columns = reference.len() + 1;
        let windows = windows(hypothesis_len, reference.len());
        let mut starts = Vec::with_capacity(windows.len());
        let mut size = 0;
        for window in &windows {
            starts.push(size);
            size += window.len();
        }
        let mut costs = vec![OUTSIDE; size];
        // Without words of the hypothesis, the whole reference is inserted.
        for (cost, column) in costs.iter_mut().zip(0..columns as u32) {
            *cost = column;
        }
        let row = vec![OUTSIDE; columns];
        Self { reference, windows, costs, starts, previous: row.clone(), current: row }
    }

    /// Sets `words` as the base and returns its distance.
    pub(super) fn set_base(&mut self, words: &[u32]) -> u32 {
        self.run(words, 0, true)
    }

    /// Returns the distance of `words`, whose first `same` words equal those of the base.
    pub(super) fn of(&mut self, words: &[u32], same: usize) -> u32 {
        self.run(words, same, false)
    }

    fn run(&mut self, words: &[u32], from: usize, keep: bool) -> u32 {
        let Self { reference, windows, costs, starts, previous, current } = self;
        let mut last = windows[from].clone();
        previous[last.clone()].copy_from_slice(&costs[starts[from]..][..last.len()]);
        for (index, word) in words.iter().enumerate().skip(from) {
            let window = windows[index + 1].clone();
            for column in window.clone() {
                current[column] = if column == 0 {
                    previous[0] + 1
                } else {
                    let replaced = previous[column - 1] + u32::from(reference[column - 1] != *word);
                    let cheapest = replaced.min(previous[column] + 1).min(current[column - 1] + 1);
                    cheapest.min(OUTSIDE)
                };
            }
            if keep {
                costs[starts[index + 1]..][..window.len()]
                    .copy_from_slice(&current[window.clone()]);
            }
            previous[last].fill(OUTSIDE);
            std::mem::swap(previous, current);
            last = window;
        }
        let distance = previous[reference.len()];
        previous[last].fill(OUTSIDE);
        distance
    }

    fn cost(&self, row: usize, column: usize) -> u32 {
        let window = &self.windows[row];
        if window.contains(&column) {
            self.costs[self.starts[row] + column - window.start]
        } else {
            OUTSIDE
        }
    }

    /// Traces the alignment from the last cell to the first. Among equal costs, a match or
    /// substitution comes first, then a deletion, then an insertion.
    pub(super) fn alignment(&self, base: &[u32]) -> Alignment {
        let mut after = vec![0; self.reference.len()];
        let mut reference_errors = vec![0; self.reference.len() + 1];
        let mut base_errors = vec![0; base.len() + 1];
        let (mut row, mut column) = (base.len(), self.reference.len());
        while row > 0 || column > 0 {
            if column > 0 {
                after[column - 1] = row;
            }
            let cost = self.cost(row, column);
            if row > 0 && column > 0 {
                let replaced = u32::from(base[row - 1] != self.reference[column - 1]);
                if cost == self.cost(row - 1, column - 1) + replaced {
                    base_errors[row] = replaced as usize;
                    reference_errors[column] = replaced as usize;
                    row -= 1;
                    column -= 1;
                    continue;
                }
            }
            if row > 0 && (column == 0 || cost == self.cost(row - 1, column) + 1) {
                base_errors[row] = 1;
                row -= 1;
            } else {
                reference_errors[column] = 1;
                column -= 1;
            }
        }
        for errors in [&mut reference_errors, &mut base_errors] {
            for index in 1..errors.len() {
                errors[index] += errors[index - 1];
            }
        }
        Alignment { after, reference_errors, base_errors }
    }
}

/// Columns of each row. The first row is complete, and the last one reaches the last column.
fn windows(hypothesis_len: usize, reference_len: usize) -> Vec<Range<usize>> {
    let ratio = reference_len as f64 / hypothesis_len.max(1) as f64;
    let beam = if BEAM_WIDTH as f64 >= ratio / 2.0 {
        BEAM_WIDTH
    } else {
        // Steep diagonals need wider beams; otherwise the beams of neighboring rows would not
        // overlap.
        (ratio / 2.0 + BEAM_WIDTH as f64).ceil() as usize
    };
    let mut windows = Vec::with_capacity(hypothesis_len + 1);
    windows.push(0..reference_len + 1);
    for row in 1..=hypothesis_len {
        let diagonal = (row as f64 * ratio).floor() as usize;
        let end = if row == hypothesis_len { usize::MAX } else { diagonal.saturating_add(beam) };
        windows.push(diagonal.saturating_sub(beam)..end.min(reference_len + 1));
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(hypothesis: &[u32], reference: &[u32]) -> u32 {
        EditDistance::new(reference, hypothesis.len()).set_base(hypothesis)
    }

    #[test]
    fn edits_are_as_few_as_possible_near_the_diagonal() {
        assert_eq!(distance(&[1, 2, 3], &[1, 2, 3]), 0);
        assert_eq!(distance(&[1, 9, 3], &[1, 2, 3, 4]), 2);
        assert_eq!(distance(&[], &[1, 2]), 2);
        assert_eq!(distance(&[2, 1], &[1, 2]), 2);
    }

    /// The hypothesis has a few words before thirty others, the reference has them after. The few
    /// words are deleted and inserted again. With 26 words, that path leaves the beam, and inside
    /// the beam every word is substituted.
    #[test]
    fn the_beam_limits_how_far_words_may_be_apart() {
        let first: Vec<u32> = (1..=30).collect();
        let second: Vec<u32> = (31..=33).collect();
        let (ahead, behind) = ([&second[..], &first].concat(), [&first[..], &second].concat());
        assert_eq!(distance(&ahead, &behind), 6);
        let second: Vec<u32> = (31..=56).collect();
        let (ahead, behind) = ([&second[..], &first].concat(), [&first[..], &second].concat());
        assert_eq!(distance(&ahead, &behind), 56);
    }

    #[test]
    fn distances_are_computed_from_the_first_difference() {
        let mut distances = EditDistance::new(&[1, 2, 3, 4], 4);
        assert_eq!(distances.set_base(&[1, 2, 4, 3]), 2);
        assert_eq!(distances.of(&[1, 2, 3, 4], 2), 0);
        assert_eq!(distances.of(&[1, 3, 2, 4], 1), 2);
        assert_eq!(distances.of(&[1, 2, 4, 3], 4), 2);
    }

    /// `1 x 3` against `1 2 3 4`: x substitutes 2, and 4 is missing after the third word.
    #[test]
    fn words_are_aligned() {
        let mut distances = EditDistance::new(&[1, 2, 3, 4], 3);
        assert_eq!(distances.set_base(&[1, 9, 3]), 2);
        let found = distances.alignment(&[1, 9, 3]);
        assert_eq!(found.after, [1, 2, 3, 3]);
        assert_eq!(found.reference_errors, [0, 0, 1, 1, 2]);
        assert_eq!(found.base_errors, [0, 0, 1, 1]);
    }
}
