//! Words of the targets, as token ids, and the tokens that a word can go on with.

use std::{ops::Range, sync::Arc};

use serde::{Deserialize, Serialize};
use tx_text::WordTable;

use super::Lexicon;

/// Words of the target text of a model, as token ids.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetWords {
    /// Ids of all words, which are sorted by their ids.
    ids: Vec<u32>,
    /// End of each word in `ids`.
    ends: Vec<u32>,
}

impl TargetWords {
    /// Creates the list of these words.
    pub(super) fn new(mut words: Vec<Vec<u32>>) -> Self {
        words.sort_unstable();
        words.dedup();
        let mut end = 0;
        let ends = words.iter().map(|word| {
            // Limited by the number of words.
            end += word.len() as u32;
            end
        });
        let ends = ends.collect();
        Self { ids: words.concat(), ends }
    }

    /// Returns the number of words.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns `true` if there are no words.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn get(&self, index: usize) -> &[u32] {
        let start = index.checked_sub(1).and_then(|before| self.ends.get(before));
        let range = start.map_or(0, |start| *start as usize)..self.ends[index] as usize;
        &self.ids[range]
    }

    /// Words of `within` that begin with the ids of their first `len` tokens and then `id`.
    fn with(&self, within: Range<usize>, len: usize, id: u32) -> Range<usize> {
        let bound = |is_before: &dyn Fn(Option<&u32>) -> bool| {
            let (mut low, mut high) = (within.start, within.end);
            while low < high {
                let middle = low.midpoint(high);
                if is_before(self.get(middle).get(len)) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            low
        };
        bound(&|found| found.is_none_or(|found| *found < id))..bound(&|found| {
            found.is_none_or(|found| *found <= id)
        })
    }

    /// Returns the first problem of a list for a vocabulary of this size.
    pub(super) fn problem(&self, vocabulary: usize) -> Option<String> {
        let last = self.ends.last().map_or(0, |end| *end as usize);
        if last != self.ids.len() || !self.ends.is_sorted() {
            return Some(format!("the `ends` of words do not ascend to {}", self.ids.len()));
        }
        if let Some(id) = self.ids.iter().find(|id| **id as usize >= vocabulary) {
            return Some(format!("id {id} of {vocabulary} target tokens"));
        }
        let is_sorted = (1..self.len()).all(|index| self.get(index - 1) < self.get(index));
        (!is_sorted).then(|| "the words are not in ascending order".into())
    }
}

/// Restriction of targets to the words of a lexicon.
///
/// It concerns words of letters in scripts with spaces. Others, such as numbers, are free.
#[derive(Debug, Clone)]
pub(crate) struct WordRestriction {
    lexicon: Arc<Lexicon>,
    table: Arc<WordTable>,
}

/// The last word of a target, which its next token can continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenWord<'a> {
    ids: &'a [u32],
    /// Words of the lexicon that begin so.
    begun: Range<usize>,
    /// Whether the restriction concerns the word.
    is_restricted: bool,
}

impl WordRestriction {
    pub(crate) fn new(lexicon: Arc<Lexicon>, table: Arc<WordTable>) -> Self {
        Self { lexicon, table }
    }

    fn words(&self) -> &TargetWords {
        self.lexicon.target()
    }

    /// The last word of a target. `more` are words that are allowed besides those of the lexicon. A word that is neither
    /// is free.
    pub(crate) fn open_word<'a>(&self, ids: &'a [u32], more: &[Vec<u32>]) -> OpenWord<'a> {
        let inner = ids.iter().rev().take_while(|id| self.table.continues(**id)).count();
        let (before, inner) = ids.split_at(ids.len() - inner);
        let has_mark = before.last().is_some_and(|id| self.table.starts(*id));
        let ids = &ids[ids.len() - inner.len() - usize::from(has_mark)..];
        let is_word = !ids.is_empty() && ids.iter().all(|id| self.table.is_letters(*id));
        let begun = match is_word {
            true => ids
                .iter()
                .enumerate()
                .fold(0..self.words().len(), |begun, (len, id)| self.words().with(begun, len, *id)),
            false => 0..0,
        };
        let is_mark = ids.len() == 1 && self.table.is_mark(ids[0]);
        let is_known =
            is_mark || !begun.is_empty() || more.iter().any(|word| word.starts_with(ids));
        OpenWord { ids, begun, is_restricted: is_word && is_known }
    }

    /// Returns `true` if a target whose last word is `open` can go on with a token.
    pub(crate) fn allows(&self, open: &OpenWord<'_>, next: u32, more: &[Vec<u32>]) -> bool {
        let OpenWord { ids, begun, is_restricted } = open;
        if self.table.continues(next) && !ids.is_empty() {
            let goes_on = |word: &Vec<u32>| {
                word.strip_prefix(*ids).is_some_and(|rest| rest.first() == Some(&next))
            };
            return !is_restricted
                || !self.table.is_letters(next)
                || !self.words().with(begun.clone(), ids.len(), next).is_empty()
                || more.iter().any(goes_on);
        }
        // The first of the words that begin so is the shortest.
        let is_whole = !is_restricted
            || ids.len() == 1 && self.table.is_mark(ids[0])
            || begun.clone().next().is_some_and(|first| self.words().get(first) == *ids)
            || more.iter().any(|word| word == ids);
        let starts_word = self.table.starts(next) || self.table.continues(next);
        let is_start = !starts_word
            || !self.table.is_letters(next)
            || self.table.is_mark(next)
            || !self.words().with(0..self.words().len(), 0, next).is_empty()
            || more.iter().any(|word| word.first() == Some(&next));
        is_whole && is_start
    }
}

#[cfg(test)]
mod tests {
    use tx_text::{Tokenizer, TokenizerConfig, TokenizerKind, special::SpecialTokens};

    use super::*;
    use crate::lexicon::SourceWords;

    /// Restriction to words, and a tokenizer into `a`, `##b`, and so on.
    fn restriction(words: &[&str]) -> (WordRestriction, Tokenizer) {
        let config = TokenizerConfig {
            kind: TokenizerKind::Wordpiece,
            // Letters, `1`, `.` and the special tokens.
            vocab_size: 11 + SpecialTokens::Standard.count(),
            ..TokenizerConfig::default()
        };
        let text = "abcd bcda cdab dabc 11 .";
        let tokenizer = Tokenizer::train(&config, SpecialTokens::Standard, &[text]).unwrap();
        let ids = words.iter().map(|word| ids(word, &tokenizer)).collect();
        let lexicon = Lexicon::new(SourceWords::default(), TargetWords::new(ids));
        let table = WordTable::of(&tokenizer).into();
        (WordRestriction::new(lexicon.into(), table), tokenizer)
    }

    fn ids(text: &str, tokenizer: &Tokenizer) -> Vec<u32> {
        let mut ids = tokenizer.encode(text).unwrap();
        ids.retain(|id| ![tx_text::special::BOS, tx_text::special::EOS].contains(id));
        ids
    }

    #[test]
    fn words_are_found_by_their_first_ids() {
        let words = TargetWords::new(vec![vec![5, 6], vec![4], vec![5], vec![5, 6, 1], vec![5, 6]]);
        assert_eq!((words.len(), words.get(0), words.get(3)), (4, &[4][..], &[5, 6, 1][..]));
        assert_eq!(words.with(0..4, 0, 5), 1..4);
        assert_eq!(words.with(1..4, 1, 6), 2..4);
        assert_eq!(words.with(2..4, 2, 1), 3..4);
        assert!(words.with(0..4, 0, 6).is_empty() && words.with(1..4, 1, 5).is_empty());
        assert!(TargetWords::default().with(0..0, 0, 1).is_empty());
    }

    #[test]
    fn damaged_lists_are_refused() {
        let words = || TargetWords::new(vec![vec![5, 6], vec![7]]);
        assert_eq!(words().problem(8), None);
        for (words, problem) in [
            (words(), "id 7 of 7 target tokens"),
            (TargetWords { ends: vec![2, 4], ..words() }, "do not ascend to 3"),
            (TargetWords { ends: vec![4, 3], ..words() }, "do not ascend to 3"),
            (TargetWords { ids: vec![7, 6, 5], ..words() }, "not in ascending order"),
            (TargetWords { ends: vec![0, 0, 3], ..words() }, "not in ascending order"),
        ] {
            let found = words.problem(7 + usize::from(!problem.starts_with("id"))).unwrap();
            assert!(found.contains(problem), "{found}");
        }
    }

    /// `next` is a token that continues the last word, or begins another one.
    #[test]
    fn targets_have_words_of_the_lexicon() {
        let (restriction, tokenizer) = restriction(&["ab", "abcd", "bc"]);
        let allows = |text: &str, next: &str, more: &[&str]| {
            let more: Vec<Vec<u32>> = more.iter().map(|word| ids(word, &tokenizer)).collect();
            let text = ids(text, &tokenizer);
            let next = tokenizer.id(next).unwrap();
            restriction.allows(&restriction.open_word(&text, &more), next, &more)
        };
        for (text, next, expected) in [
            // The first token of a word.
            ("", "a", true),
            ("", "c", false),
            ("ab", "c", false),
            // The next of its tokens.
            ("a", "##b", true),
            ("a", "##c", false),
            ("ab", "##c", true),
            ("abc", "##d", true),
            ("abcd", "##a", false),
            ("a. b", "##c", true),
            // A word ends if it is whole.
            ("a", "b", false),
            ("ab", "b", true),
            ("abc", ".", false),
            ("abcd", ".", true),
            // Numbers and words that are not in the lexicon are free.
            ("", "1", true),
            ("1", "##1", true),
            ("ab 1", "a", true),
            ("cc", "##d", true),
            ("cc", "a", true),
        ] {
            assert_eq!(allows(text, next, &[]), expected, "{text} {next}");
        }
        // Other words of a sentence.
        assert!(allows("", "c", &["cd"]) && allows("c", "##d", &["cd"]));
        assert!(allows("cd", ".", &["cd"]) && !allows("c", ".", &["cd"]));
        assert!(allows("ab", "##d", &["abd"]) && allows("abd", "a", &["abd"]));
    }

    #[test]
    fn a_target_ends_after_a_whole_word() {
        let (restriction, tokenizer) = restriction(&["ab"]);
        let ends = |text: &str| {
            let text = ids(text, &tokenizer);
            restriction.allows(&restriction.open_word(&text, &[]), tx_text::special::EOS, &[])
        };
        assert!(ends("ab") && ends("ab.") && ends("") && !ends("a") && !ends("ab a"));
    }
}
