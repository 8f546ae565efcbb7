//! Lexical constraints: texts that a target must contain, and the places of the beam for hypotheses that
//! have met some of them.

use std::sync::Arc;

use tx_text::WordTable;

use super::candidates::Candidate;

/// Maximum number of constraints on a target.
pub(crate) const MAX_CONSTRAINTS: usize = 64;

/// Maximum number of forms of all constraints on a target. Each step compares each hypothesis with all of them.
const MAX_FORMS: usize = 256;

/// Texts that a target must contain, as token ids. Tokens that meet a constraint do not count for another one.
///
/// Beam search meets them by dynamic beam allocation (Post and Vilar 2018): at each step, the beam is
/// divided among the hypotheses that have the same number of tokens of constraints, so that a
/// hypothesis that meets a constraint does not compete with those that do not. `<eos>` is possible only
/// when all constraints are met. The number of hypotheses does not depend on that of the constraints.
#[derive(Debug, Clone)]
pub struct Constraints {
    required: Vec<Constraint>,
    words: Arc<WordTable>,
}

/// A text that a target must contain, in one of several forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Constraint {
    /// At least one.
    pub(crate) forms: Vec<Form>,
}

/// Tokens that meet a constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Form {
    /// At least one.
    pub(crate) ids: Vec<u32>,
    /// Whether they are a form at the beginning of the target only.
    pub(crate) at_start: bool,
    /// Whether the next token must not continue the last word.
    pub(crate) ends_word: bool,
}

/// Constraints that a partial target has met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Bit `i` is 1 if constraint `i` is met.
    met: u64,
    /// Number of tokens that the met constraints end with. They do not count for others.
    used: usize,
    /// Number of tokens of a form at the end of the target that lacks its last tokens.
    begun: usize,
    /// Whether the last token has met a constraint and the next one must not continue its word.
    ends_word: bool,
}

impl Constraint {
    /// Number of tokens of the longest form.
    fn len(&self) -> usize {
        self.forms.iter().map(|form| form.ids.len()).max().unwrap_or(0)
    }
}

impl Constraints {
    /// Creates constraints on a target that has `room` tokens for them. Those that do not fit, and those beyond the
    /// limits of their number and of their forms, are omitted. `words` is the table of the target vocabulary.
    pub(crate) fn new(
        mut required: Vec<Constraint>,
        mut room: usize,
        words: Arc<WordTable>,
    ) -> Self {
        let (mut count, mut forms) = (MAX_CONSTRAINTS, MAX_FORMS);
        required.retain(|constraint| {
            let fits = count > 0 && constraint.len() <= room && constraint.forms.len() <= forms;
            if fits {
                (count, room) = (count - 1, room - constraint.len());
                forms -= constraint.forms.len();
            }
            fits
        });
        Self { required, words }
    }

    /// Ids of all forms.
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> {
        self.required.iter().flat_map(|it| &it.forms).flat_map(|form| &form.ids).copied()
    }

    /// Maximum number of tokens that meet the constraints.
    pub(super) fn tokens(&self) -> usize {
        self.required.iter().map(Constraint::len).sum()
    }

    /// Returns `true` if all constraints are met.
    pub(super) fn are_met(&self, progress: Progress) -> bool {
        progress.met.count_ones() as usize == self.required.len()
    }

    /// Updates the progress of a target by its last token. The target begins with `given` tokens that are
    /// not text.
    pub(super) fn advance(&self, progress: &mut Progress, ids: &[u32], given: usize) {
        (progress.begun, progress.ends_word) = (0, false);
        let mut best: Option<(usize, &Form)> = None;
        for (index, form, len) in self.matches(*progress, ids, given) {
            let is_complete = len == form.ids.len();
            if is_complete && best.is_none_or(|(_, other)| other.ids.len() < len) {
                best = Some((index, form));
            } else if !is_complete {
                progress.begun = progress.begun.max(len);
            }
        }
        if let Some((index, form)) = best {
            progress.met |= 1 << index;
            progress.used = ids.len();
            (progress.begun, progress.ends_word) = (0, form.ends_word);
        }
    }

    /// Tokens that begin or continue a constraint that is not met.
    pub(super) fn next(&self, progress: Progress, ids: &[u32], given: usize) -> Vec<u32> {
        let begun = self.matches(progress, ids, given);
        let mut next: Vec<u32> =
            begun.filter_map(|(_, form, len)| form.ids.get(len).copied()).collect();
        next.sort_unstable();
        next.dedup();
        next
    }

    /// Forms of constraints that are not met, with their index and the number of their first tokens that
    /// the target ends with: all such numbers, from 0.
    fn matches(
        &self,
        progress: Progress,
        ids: &[u32],
        given: usize,
    ) -> impl Iterator<Item = (usize, &Form, usize)> {
        let unused = &ids[progress.used.max(given).min(ids.len())..];
        let open = self.required.iter().enumerate();
        let open = open.filter(move |(index, _)| !progress.has_met(*index));
        open.flat_map(move |(index, constraint)| {
            constraint.forms.iter().flat_map(move |form| {
                let lens = 0..=form.ids.len().min(unused.len());
                let ends = move |len: &usize| {
                    let is_place = !form.at_start || ids.len() - len <= given;
                    is_place && unused.ends_with(&form.ids[..*len])
                };
                lens.filter(ends).map(move |len| (index, form, len))
            })
        })
    }

    /// Returns `true` if `token` would continue the word of a constraint that has just been met.
    pub(super) fn forbids(&self, progress: Progress, token: u32) -> bool {
        progress.ends_word && self.words.continues(token)
    }

    /// Returns the number of tokens of constraints in a target.
    fn tokens_met(&self, progress: Progress) -> usize {
        let met = self.required.iter().enumerate().filter(|(index, _)| progress.has_met(*index));
        met.map(|(_, constraint)| constraint.len()).sum::<usize>() + progress.begun
    }

    /// Number of places in a beam of `width` hypotheses for those that have met all constraints.
    pub(super) fn places(&self, width: usize) -> usize {
        let banks = self.tokens() + 1;
        (width / banks + usize::from(!width.is_multiple_of(banks))).max(1)
    }

    /// Sorts `candidates`, best first, so that those that get a place in a beam of `width` hypotheses come
    /// first: each number of tokens of constraints has as many places, the larger numbers those that
    /// are left, and places that are not needed go to the best of the others. The best candidate with the largest
    /// number always has a place. `progress` is that of a candidate.
    pub(super) fn allocate(
        &self,
        candidates: &mut Vec<Candidate>,
        width: usize,
        progress: impl Fn(&Candidate) -> Progress,
    ) {
        let banks = self.tokens() + 1;
        let mut places: Vec<usize> = (0..banks)
            .map(|bank| width / banks + usize::from(banks - bank <= width % banks))
            .collect();
        let bank_of = |candidate: &Candidate| self.tokens_met(progress(candidate)).min(banks - 1);
        let bank: Vec<usize> = candidates.iter().map(bank_of).collect();
        let mut has_place = vec![false; candidates.len()];
        let mut left = width;
        // In a narrow beam the largest number of tokens goes first, so that it grows with each step.
        let furthest = bank.iter().position(|of| bank.iter().all(|other| other <= of));
        for index in furthest.into_iter().chain(0..candidates.len()) {
            let place = &mut places[bank[index]];
            if !has_place[index] && (*place > 0 || Some(index) == furthest) && left > 0 {
                *place = place.saturating_sub(1);
                left -= 1;
                has_place[index] = true;
            }
        }
        for has_place in has_place.iter_mut().filter(|has_place| !**has_place).take(left) {
            *has_place = true;
        }
        let mut placed = has_place.into_iter();
        let (first, rest): (Vec<_>, Vec<_>) =
            candidates.drain(..).partition(|_| placed.next().unwrap_or(false));
        candidates.extend(first.into_iter().chain(rest));
    }
}

impl Progress {
    fn has_met(self, index: usize) -> bool {
        self.met >> index & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use tx_text::{Tokenizer, TokenizerConfig, TokenizerKind, special::SpecialTokens};

    use super::*;

    /// Ids: 7 `▁a`, 8 `▁b`, and so on; no token continues a word.
    fn constraints(forms: &[&[&[u32]]]) -> Constraints {
        let form = |ids: &&[u32]| Form { ids: ids.to_vec(), at_start: false, ends_word: true };
        let constraint = |forms: &&[&[u32]]| Constraint { forms: forms.iter().map(form).collect() };
        let config = TokenizerConfig { kind: TokenizerKind::Word, ..TokenizerConfig::default() };
        let tokenizer = Tokenizer::train(&config, SpecialTokens::Standard, &["a b c"]).unwrap();
        let words = WordTable::of(&tokenizer);
        Constraints::new(forms.iter().map(constraint).collect(), 100, words.into())
    }

    fn progress(constraints: &Constraints, ids: &[u32]) -> Progress {
        let mut progress = Progress::default();
        (1..=ids.len()).for_each(|len| constraints.advance(&mut progress, &ids[..len], 0));
        progress
    }

    impl Constraints {
        /// Returns whether each constraint is met in a target, which begins with `given` other tokens.
        fn met(&self, ids: &[u32], given: usize) -> Vec<bool> {
            let mut progress = Progress::default();
            (1..=ids.len()).for_each(|len| self.advance(&mut progress, &ids[..len], given));
            (0..self.required.len()).map(|index| progress.has_met(index)).collect()
        }
    }

    #[test]
    fn tokens_meet_constraints_once() {
        let two = constraints(&[&[&[7, 8]], &[&[7, 8]]]);
        assert_eq!(two.met(&[5, 7, 8, 6], 0), [true, false]);
        assert_eq!(two.met(&[7, 8, 7, 8], 0), [true, true]);
        assert_eq!(two.met(&[7, 7, 8, 8], 0), [true, false]);
        assert_eq!(two.met(&[7, 5, 8], 0), [false, false]);
        // The longest form counts, and its tokens do not count again.
        let nested = constraints(&[&[&[8]], &[&[7, 8]]]);
        assert_eq!(nested.met(&[7, 8], 0), [false, true]);
        assert_eq!(nested.met(&[7, 8, 8], 0), [true, true]);
    }

    #[test]
    fn a_form_at_the_start_counts_there_only() {
        let mut one = constraints(&[&[&[7, 8], &[9]]]);
        one.required[0].forms[0].at_start = true;
        assert_eq!(one.met(&[7, 8], 0), [true]);
        assert_eq!(one.met(&[5, 7, 8], 0), [false]);
        assert_eq!(one.met(&[5, 7, 8], 1), [true]);
        assert_eq!(one.met(&[5, 9], 0), [true]);
        assert_eq!(one.next(Progress::default(), &[], 0), [7, 9]);
        assert_eq!(one.next(Progress::default(), &[5], 0), [9]);
        assert_eq!(one.next(Progress::default(), &[5], 1), [7, 9]);
    }

    #[test]
    fn constraints_beyond_the_limits_are_omitted() {
        let Constraints { required, words } =
            constraints(&[&[&[7, 8]], &[&[9]], &[&[5, 6, 7]], &[&[5]]]);
        let kept = |room| Constraints::new(required.clone(), room, words.clone()).tokens();
        assert_eq!([0, 1, 2, 3, 4, 6, 9].map(kept), [0, 1, 2, 3, 4, 6, 7]);
        let form = required[1].forms[0].clone();
        let many = |constraints: usize, forms: usize| {
            let constraint = Constraint { forms: vec![form.clone(); forms] };
            Constraints::new(vec![constraint; constraints], 1_000, words.clone()).tokens()
        };
        assert_eq!([many(65, 1), many(64, 4), many(64, 8)], [64, 64, 32]);
    }

    /// After `7`, the form goes on or begins again.
    #[test]
    fn the_next_tokens_begin_or_continue_forms() {
        let both = constraints(&[&[&[7, 8, 9]], &[&[5]]]);
        assert_eq!(both.next(progress(&both, &[7]), &[7], 0), [5, 7, 8]);
        assert_eq!(both.next(progress(&both, &[7, 8]), &[7, 8], 0), [5, 7, 9]);
        let ids = [7, 8, 9];
        let met = progress(&both, &ids);
        assert_eq!((both.next(met, &ids, 0), both.are_met(met)), (vec![5], false));
        let ids = [7, 8, 9, 5];
        let met = progress(&both, &ids);
        assert_eq!((both.next(met, &ids, 0), both.are_met(met)), (vec![], true));
    }

    /// One constraint of two tokens makes three banks; a beam of 5 has 1, 2 and 2 places for them.
    #[test]
    fn the_beam_is_divided_by_tokens_of_constraints() {
        let one = constraints(&[&[&[7, 8]]]);
        assert_eq!([1, 2, 3, 5, 6].map(|width| one.places(width)), [1, 1, 1, 2, 2]);
        let candidate = |beam, token| Candidate { beam, token, log_probability: 0.0 };
        let targets: [&[u32]; 3] = [&[5], &[7], &[7, 8]];
        let sorted = |mut candidates: Vec<Candidate>, width| {
            one.allocate(&mut candidates, width, |&Candidate { beam, token, .. }| {
                let ids = [targets[beam], &[token]].concat();
                progress(&one, &ids)
            });
            candidates.iter().map(|it| (it.beam, it.token)).collect::<Vec<_>>()
        };
        // Banks 0, 0, 0, 1, 2, 2, 2.
        let all = [(0, 4), (0, 5), (1, 4), (0, 7), (1, 8), (2, 4), (2, 5)];
        let all = all.map(|(beam, token)| candidate(beam, token));
        assert_eq!(
            sorted(all.to_vec(), 5),
            [(0, 4), (0, 5), (0, 7), (1, 8), (2, 4), (1, 4), (2, 5)]
        );
        assert_eq!(sorted(all.to_vec(), 2)[..2], [(0, 7), (1, 8)]);
        // A narrow beam goes on with the constraint.
        assert_eq!(sorted(all[..5].to_vec(), 1)[0], (1, 8));
        assert_eq!(sorted([all[0], all[1], all[3]].to_vec(), 2)[..2], [(0, 4), (0, 7)]);
        // Without others, the places of the banks that are empty go to the first.
        assert_eq!(sorted(all[..3].to_vec(), 2), [(0, 4), (0, 5), (1, 4)]);
    }
}
