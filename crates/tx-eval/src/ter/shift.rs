//! Tercom's greedy search for shifts: applies the shift that saves the most edits until none saves
//! any.

use super::edit_distance::{Alignment, EditDistance};

/// Maximum length of a shifted word sequence.
const MAX_SHIFT_SIZE: usize = 10;
/// Maximum distance between a word sequence and its position in the reference.
const MAX_SHIFT_DISTANCE: usize = 50;
/// Maximum number of shifts tried per sentence; after that, the last best shift is not applied.
const MAX_CANDIDATES: usize = 1_000;

/// Number of edits between hypothesis and reference, including shifts.
pub(super) fn edits(hypothesis: &[u32], reference: &[u32]) -> usize {
    if reference.is_empty() {
        return hypothesis.len();
    }
    let mut words = hypothesis.to_vec();
    let mut search = Search {
        reference,
        distances: EditDistance::new(reference, hypothesis.len()),
        shifted: Vec::with_capacity(hypothesis.len()),
        tried: 0,
    };
    let mut shifts = 0;
    loop {
        let distance = search.distances.set_base(&words);
        match search.best(&words, distance) {
            Some(best) if search.tried < MAX_CANDIDATES && best.saved > 0 => {
                shifts += 1;
                best.shift.apply(&words, &mut search.shifted);
                words.copy_from_slice(&search.shifted);
            }
            _ => return shifts + distance as usize,
        }
    }
}

struct Search<'a> {
    reference: &'a [u32],
    distances: EditDistance<'a>,
    /// Words after the shift being tried.
    shifted: Vec<u32>,
    /// Number of shifts tried so far.
    tried: usize,
}

/// Shift of a word sequence to before `target`.
#[derive(Clone, Copy, PartialEq)]
struct Shift {
    start: usize,
    len: usize,
    target: usize,
}

impl Shift {
    fn apply(self, words: &[u32], shifted: &mut Vec<u32>) {
        let Self { start, len, target } = self;
        let end = start + len;
        shifted.clear();
        let mut push = |part: &[u32]| shifted.extend_from_slice(part);
        if target < start {
            push(&words[..target]);
            push(&words[start..end]);
            push(&words[target..start]);
            push(&words[end..]);
        } else {
            // A target inside the sequence itself means the same offset after it.
            let target = if target > end { target } else { target + len };
            let target = target.min(words.len());
            push(&words[..start]);
            push(&words[end..target]);
            push(&words[start..end]);
            push(&words[target..]);
        }
    }
}

/// Shift and the number of edits that it saves.
#[derive(Clone, Copy)]
struct Candidate {
    saved: i64,
    shift: Shift,
}

impl Candidate {
    /// Order by edits saved, then length, then earliest start, then earliest target.
    fn is_better_than(&self, other: &Self) -> bool {
        let key = |candidate: &Self| {
            let Shift { start, len, target } = candidate.shift;
            (candidate.saved, len, std::cmp::Reverse(start), std::cmp::Reverse(target))
        };
        key(self) > key(other)
    }
}

impl Search<'_> {
    /// Best shift of the base `words` with the given distance; it may save nothing.
    fn best(&mut self, words: &[u32], distance: u32) -> Option<Candidate> {
        let Alignment { after, reference_errors, base_errors } = self.distances.alignment(words);
        let wrong =
            |errors: &[usize], start: usize, len: usize| errors[start + len] > errors[start];
        let mut best: Option<Candidate> = None;
        for start in 0..words.len() {
            let nearest = start.saturating_sub(MAX_SHIFT_DISTANCE);
            let farthest = (start + MAX_SHIFT_DISTANCE + 1).min(self.reference.len());
            for reference_start in nearest..farthest {
                let same = words[start..].iter().zip(&self.reference[reference_start..]);
                let longest = same.take(MAX_SHIFT_SIZE).take_while(|(a, b)| a == b).count();
                for len in 1..=longest {
                    // Tercom shifts only sequences with an error on both sides, and not into
                    // themselves.
                    if !wrong(&base_errors, start, len)
                        || !wrong(&reference_errors, reference_start, len)
                        || (start + 1..start + len + 1).contains(&after[reference_start])
                    {
                        continue;
                    }
                    self.try_targets(
                        words,
                        distance,
                        &after,
                        reference_start,
                        start,
                        len,
                        &mut best,
                    );
                    if self.tried >= MAX_CANDIDATES {
                        return best;
                    }
                }
            }
        }
        best
    }

    /// Tries to move a sequence before and after each of its words' positions in the reference.
    #[expect(clippy::too_many_arguments, reason = "the inside of one loop")]
    fn try_targets(
        &mut self,
        words: &[u32],
        distance: u32,
        after: &[usize],
        reference_start: usize,
        start: usize,
        len: usize,
        best: &mut Option<Candidate>,
    ) {
        let mut last = None;
        for word in reference_start..reference_start + len + 1 {
            // Position after the previous word.
            let target = match word {
                0 => 0,
                _ => after[word - 1],
            };
            if last.replace(target) == Some(target) {
                continue;
            }
            let shift = Shift { start, len, target };
            shift.apply(words, &mut self.shifted);
            let found = self.distances.of(&self.shifted, start.min(target));
            self.tried += 1;
            let candidate = Candidate { saved: i64::from(distance) - i64::from(found), shift };
            if best.as_ref().is_none_or(|best| candidate.is_better_than(best)) {
                *best = Some(candidate);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shifted(start: usize, len: usize, target: usize) -> Vec<u32> {
        let mut words = Vec::new();
        Shift { start, len, target }.apply(&[0, 1, 2, 3, 4, 5], &mut words);
        words
    }

    #[test]
    fn a_sequence_moves_before_the_target() {
        assert_eq!(shifted(3, 2, 1), [0, 3, 4, 1, 2, 5]);
        assert_eq!(shifted(1, 2, 5), [0, 3, 4, 1, 2, 5]);
        assert_eq!(shifted(1, 2, 6), [0, 3, 4, 5, 1, 2]);
        assert_eq!(shifted(4, 2, 0), [4, 5, 0, 1, 2, 3]);
    }

    /// A target inside the sequence shifts past as many words as its offset in the sequence.
    #[test]
    fn a_sequence_can_move_into_itself() {
        assert_eq!(shifted(1, 2, 2), [0, 3, 1, 2, 4, 5]);
        assert_eq!(shifted(1, 2, 3), [0, 3, 4, 1, 2, 5]);
        assert_eq!(shifted(3, 3, 5), [0, 1, 2, 3, 4, 5]);
    }

    /// Example of Snover et al. (2006), section 2, with word ids:
    ///
    /// ```text
    /// reference   SAUDI ARABIA denied THIS WEEK information published in the AMERICAN new york times
    /// hypothesis  THIS WEEK THE SAUDIS denied information published in the new york times
    /// ```
    ///
    /// Edits: shift of `this week`, two substitutions in `the saudis`, insertion of `american`: 4.
    #[test]
    fn the_example_of_the_paper_has_four_edits() {
        let reference = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13];
        let hypothesis = [4, 5, 9, 14, 3, 6, 7, 8, 9, 11, 12, 13];
        assert_eq!(edits(&hypothesis, &reference), 4);
    }

    #[test]
    fn an_empty_side_costs_the_length_of_the_other() {
        assert_eq!(edits(&[], &[]), 0);
        assert_eq!(edits(&[1, 2], &[]), 2);
        assert_eq!(edits(&[], &[1, 2, 3]), 3);
    }
}
