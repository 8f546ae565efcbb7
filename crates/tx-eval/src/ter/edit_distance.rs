//! Levenshtein distance of words near the diagonal, and how the words of both sides line up.

use std::ops::Range;

/// Cells looked at on each side of the diagonal, `BEAM_WIDTH` of Tercom.
const BEAM_WIDTH: usize = 25;

/// The cost of a cell outside the beam.
const OUTSIDE: u32 = u32::MAX / 2;

/// The cheapest edits between a reference and hypotheses of one length.
///
/// Row i and column j hold the fewest edits between the first i words of a hypothesis and the first
/// j of the reference, or [`OUTSIDE`] where the beam does not reach. The matrix of one hypothesis,
/// the *base*, is kept; others are measured from the first row in which they differ from it.
pub(super) struct EditDistance<'a> {
    reference: &'a [u32],
    /// Columns of each row that the beam reaches.
    windows: Vec<Range<usize>>,
    /// The base's costs, row by row, without what is outside the windows.
    costs: Vec<u32>,
    /// Where each row begins in `costs`.
    starts: Vec<usize>,
    /// Two rows in full width; outside of a computation all [`OUTSIDE`].
    previous: Vec<u32>,
    current: Vec<u32>,
}

/// How the base lines up with the reference.
pub(super) struct Alignment {
    /// For each word of the reference how many words of the base stand before the place after it.
    pub after: Vec<usize>,
    /// Words of the reference that the base has not at their place: of the first n.
    pub reference_errors: Vec<usize>,
    /// Words of the base that the reference has not at their place: of the first n.
    pub base_errors: Vec<usize>,
}

impl<'a> EditDistance<'a> {
    /// For hypotheses of so many words; `reference` has at least one.
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
        // Without words of the hypothesis all of the reference is inserted.
        for (cost, column) in costs.iter_mut().zip(0..columns as u32) {
            *cost = column;
        }
        let row = vec![OUTSIDE; columns];
        Self { reference, windows, costs, starts, previous: row.clone(), current: row }
    }

    /// Takes `words` as the base and gives back its distance.
    pub(super) fn set_base(&mut self, words: &[u32]) -> u32 {
        self.run(words, 0, true)
    }

    /// The distance of `words`, of which the first `same` are those of the base.
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

    /// Goes back from the last cell to the first. Where several edits are as cheap, a word kept or
    /// replaced comes first, then one deleted, then one inserted.
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

/// The columns of each row. The first row is whole, and the last reaches the last column.
fn windows(hypothesis_len: usize, reference_len: usize) -> Vec<Range<usize>> {
    let ratio = reference_len as f64 / hypothesis_len.max(1) as f64;
    let beam = if BEAM_WIDTH as f64 >= ratio / 2.0 {
        BEAM_WIDTH
    } else {
        // Steep diagonals need wider beams, or those of two rows do not touch.
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

    /// A few words and thirty others, against the same the other way round: the few are deleted
    /// and inserted again. If they are 26, that way leaves the beam, and inside it every word has
    /// to be replaced.
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
    fn other_words_are_measured_from_where_they_differ() {
        let mut distances = EditDistance::new(&[1, 2, 3, 4], 4);
        assert_eq!(distances.set_base(&[1, 2, 4, 3]), 2);
        assert_eq!(distances.of(&[1, 2, 3, 4], 2), 0);
        assert_eq!(distances.of(&[1, 3, 2, 4], 1), 2);
        assert_eq!(distances.of(&[1, 2, 4, 3], 4), 2);
    }

    /// `1 x 3` against `1 2 3 4`: x for 2, and 4 is missing after the third word.
    #[test]
    fn words_line_up() {
        let mut distances = EditDistance::new(&[1, 2, 3, 4], 3);
        assert_eq!(distances.set_base(&[1, 9, 3]), 2);
        let found = distances.alignment(&[1, 9, 3]);
        assert_eq!(found.after, [1, 2, 3, 3]);
        assert_eq!(found.reference_errors, [0, 0, 1, 1, 2]);
        assert_eq!(found.base_errors, [0, 0, 1, 1]);
    }
}
