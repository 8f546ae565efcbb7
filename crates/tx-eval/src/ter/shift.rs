//! Tercom's search for shifts: again and again the one that saves most edits, until none does.

use super::edit_distance::{Alignment, EditDistance};

/// The longest run of words that is shifted.
const MAX_SHIFT_SIZE: usize = 10;
/// The most words between a run and where it stands in the reference.
const MAX_SHIFT_DISTANCE: usize = 50;
/// So many shifts are tried for one sentence; then the best found last is no longer made.
const MAX_CANDIDATES: usize = 1_000;

/// The edits between hypothesis and reference, shifts included.
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
    /// The words after the shift that is looked at.
    shifted: Vec<u32>,
    /// Shifts looked at so far.
    tried: usize,
}

/// A run of words and the place before which it goes.
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
            // Into its own words means that far beyond them.
            let target = if target > end { target } else { target + len };
            let target = target.min(words.len());
            push(&words[..start]);
            push(&words[end..target]);
            push(&words[start..end]);
            push(&words[target..]);
        }
    }
}

/// A shift and the edits that it saves.
#[derive(Clone, Copy)]
struct Candidate {
    saved: i64,
    shift: Shift,
}

impl Candidate {
    /// Most saved, then the longest, then the earliest run, then the earliest place.
    fn is_better_than(&self, other: &Self) -> bool {
        let key = |candidate: &Self| {
            let Shift { start, len, target } = candidate.shift;
            (candidate.saved, len, std::cmp::Reverse(start), std::cmp::Reverse(target))
        };
        key(self) > key(other)
    }
}

impl Search<'_> {
    /// The best shift of the base `words`, whose distance is given; it may save nothing.
    fn best(&mut self, words: &[u32], distance: u32) -> Option<Candidate> {
        let Alignment { after, reference_errors, base_errors } = self.distances.alignment(words);
        let wrong =
            |errors: &[usize], start: usize, len: usize| errors[start + len] > errors[start];
        let mut best: Option<Candidate> = None;
        for start in 0..words.len() {
            let nearest = start.saturating_sub(MAX_SHIFT_DISTANCE);
            let farthest = (start + MAX_SHIFT_DISTANCE + 1).min(self.reference.len());
            for there in nearest..farthest {
                let same = words[start..].iter().zip(&self.reference[there..]);
                let longest = same.take(MAX_SHIFT_SIZE).take_while(|(a, b)| a == b).count();
                for len in 1..=longest {
                    // Only what is wrong here is moved, to where something is wrong, and not into
                    // itself.
                    if !wrong(&base_errors, start, len)
                        || !wrong(&reference_errors, there, len)
                        || (start + 1..start + len + 1).contains(&after[there])
                    {
                        continue;
                    }
                    self.try_places(words, distance, &after, there, start, len, &mut best);
                    if self.tried >= MAX_CANDIDATES {
                        return best;
                    }
                }
            }
        }
        best
    }

    /// Tries to put a run before and after each of the words it stands for in the reference.
    #[expect(clippy::too_many_arguments, reason = "the inside of one loop")]
    fn try_places(
        &mut self,
        words: &[u32],
        distance: u32,
        after: &[usize],
        there: usize,
        start: usize,
        len: usize,
        best: &mut Option<Candidate>,
    ) {
        let mut last = None;
        for word in there..there + len + 1 {
            // The place after the word before this one.
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
    fn a_run_goes_before_the_place() {
        assert_eq!(shifted(3, 2, 1), [0, 3, 4, 1, 2, 5]);
        assert_eq!(shifted(1, 2, 5), [0, 3, 4, 1, 2, 5]);
        assert_eq!(shifted(1, 2, 6), [0, 3, 4, 5, 1, 2]);
        assert_eq!(shifted(4, 2, 0), [4, 5, 0, 1, 2, 3]);
    }

    /// Into itself: past as many words as the place is within the run.
    #[test]
    fn a_run_can_be_put_into_itself() {
        assert_eq!(shifted(1, 2, 2), [0, 3, 1, 2, 4, 5]);
        assert_eq!(shifted(1, 2, 3), [0, 3, 4, 1, 2, 5]);
        assert_eq!(shifted(3, 3, 5), [0, 1, 2, 3, 4, 5]);
    }

    /// The example of Snover et al. (2006), section 2, in numbers for words:
    ///
    /// ```text
    /// reference   SAUDI ARABIA denied THIS WEEK information published in the AMERICAN new york times
    /// hypothesis  THIS WEEK THE SAUDIS denied information published in the new york times
    /// ```
    ///
    /// `this week` moves, `the saudis` is replaced by `saudi arabia`, `american` is missing: 4.
    #[test]
    fn the_example_of_the_paper_has_four_edits() {
        let reference = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13];
        let hypothesis = [4, 5, 9, 14, 3, 6, 7, 8, 9, 11, 12, 13];
        assert_eq!(edits(&hypothesis, &reference), 4);
    }

    #[test]
    fn without_a_side_all_of_the_other_is_edited() {
        assert_eq!(edits(&[], &[]), 0);
        assert_eq!(edits(&[1, 2], &[]), 2);
        assert_eq!(edits(&[], &[1, 2, 3]), 3);
    }
}
