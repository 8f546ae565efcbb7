//! Learning of a WordPiece vocabulary: byte-pair encoding (Sennrich et al. 2016) with a mark on
//! pieces that continue a word.
//!
//! The trainer of the library numbers characters in the order of a hash table, so two runs on the
//! same text yield different vocabularies. This trainer is deterministic.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
};

use tokenizers::{
    AddedToken, Result, Trainer,
    models::{ModelWrapper, bpe::Vocab, wordpiece::WordPiece},
};

use super::words;
use crate::special::{SPECIAL_TOKENS, SpecialTokens, UNK};

/// Trainer of a WordPiece model.
#[derive(Debug)]
pub(super) struct WordPieceLearner {
    /// Maximum number of ids, special tokens included.
    vocab_size: usize,
    /// Minimum count of a character that becomes a piece, and of a pair that is merged.
    min_frequency: u64,
    /// Prefix of a piece that continues a word.
    continuing: &'static str,
    special: SpecialTokens,
    counts: HashMap<String, u64>,
}

impl WordPieceLearner {
    pub(super) fn new(
        vocab_size: usize,
        min_frequency: u64,
        continuing: &'static str,
        special: SpecialTokens,
    ) -> Self {
        Self { vocab_size, min_frequency, continuing, special, counts: HashMap::new() }
    }

    /// Pieces: characters in order, then merges in the order in which they were learned.
    fn pieces(&self) -> Vec<String> {
        let room = self.vocab_size - self.special.count();
        let mut words: Vec<(Vec<String>, u64)> = words::by_frequency(&self.counts)
            .into_iter()
            .map(|(word, count)| (self.characters(word), count))
            .collect();
        let mut counts: HashMap<&str, u64> = HashMap::new();
        for (word, count) in &words {
            word.iter().for_each(|c| *counts.entry(c).or_default() += count);
        }
        let mut alphabet: Vec<(&str, u64)> =
            counts.into_iter().filter(|&(_, count)| count >= self.min_frequency).collect();
        alphabet.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        alphabet.truncate(room);
        let mut pieces: Vec<String> = alphabet.into_iter().map(|(c, _)| c.to_owned()).collect();
        pieces.sort_unstable();
        // A word with a character that is not a piece is unknown as a whole.
        let known: HashSet<String> = pieces.iter().cloned().collect();
        words.retain(|(word, _)| word.iter().all(|c| known.contains(c)));
        self.merge(words, pieces, room)
    }

    fn characters(&self, word: &str) -> Vec<String> {
        let marked = |(index, c): (usize, char)| match index {
            0 => c.to_string(),
            _ => format!("{}{c}", self.continuing),
        };
        word.chars().enumerate().map(marked).collect()
    }

    /// Repeatedly merges the most frequent pair of adjacent pieces.
    fn merge(
        &self,
        words: Vec<(Vec<String>, u64)>,
        mut pieces: Vec<String>,
        room: usize,
    ) -> Vec<String> {
        let mut ids: HashMap<String, u32> = pieces.iter().cloned().zip(0..).collect();
        let mut words: Vec<(Vec<u32>, u64)> = words
            .into_iter()
            .map(|(word, count)| (word.iter().filter_map(|c| ids.get(c).copied()).collect(), count))
            .collect();
        let mut counts: HashMap<(u32, u32), u64> = HashMap::new();
        let mut positions: HashMap<(u32, u32), Vec<usize>> = HashMap::new();
        for (index, (word, count)) in words.iter().enumerate() {
            for pair in word.windows(2) {
                *counts.entry((pair[0], pair[1])).or_default() += count;
                positions.entry((pair[0], pair[1])).or_default().push(index);
            }
        }
        // The most frequent pair first; ties are broken by the older parts.
        let mut queue: BinaryHeap<(u64, Reverse<(u32, u32)>)> =
            counts.iter().map(|(&pair, &count)| (count, Reverse(pair))).collect();
        while pieces.len() < room {
            let Some((count, Reverse(pair))) = queue.pop() else { break };
            let now = counts.get(&pair).copied().unwrap_or(0);
            if now != count {
                // The count has changed since the pair was queued.
                if now > 0 {
                    queue.push((now, Reverse(pair)));
                }
                continue;
            }
            if count < self.min_frequency {
                break;
            }
            let (left, right) = (&pieces[pair.0 as usize], &pieces[pair.1 as usize]);
            let merged = format!("{left}{}", right.strip_prefix(self.continuing).unwrap_or(right));
            let new = *ids.entry(merged.clone()).or_insert(pieces.len() as u32);
            if new as usize == pieces.len() {
                pieces.push(merged);
            }
            let mut changed: HashSet<(u32, u32)> = HashSet::new();
            let mut affected = positions.remove(&pair).unwrap_or_default();
            affected.sort_unstable();
            affected.dedup();
            for index in affected {
                let (word, count) = &mut words[index];
                for pair in word.windows(2) {
                    if let Some(known) = counts.get_mut(&(pair[0], pair[1])) {
                        *known -= *count;
                    }
                }
                replace(word, pair, new);
                for next in word.windows(2) {
                    let next = (next[0], next[1]);
                    *counts.entry(next).or_default() += *count;
                    if next.0 == new || next.1 == new {
                        positions.entry(next).or_default().push(index);
                        changed.insert(next);
                    }
                }
            }
            counts.remove(&pair);
            for pair in changed {
                queue.push((counts.get(&pair).copied().unwrap_or(0), Reverse(pair)));
            }
        }
        pieces
    }
}

/// Replaces each occurrence of `pair` by one piece.
fn replace(word: &mut Vec<u32>, pair: (u32, u32), new: u32) {
    let mut from = 0;
    let mut merged = Vec::with_capacity(word.len());
    while from < word.len() {
        let is_pair = word[from] == pair.0 && word.get(from + 1) == Some(&pair.1);
        merged.push(if is_pair { new } else { word[from] });
        from += if is_pair { 2 } else { 1 };
    }
    *word = merged;
}

impl Trainer for WordPieceLearner {
    type Model = ModelWrapper;

    fn should_show_progress(&self) -> bool {
        false
    }

    fn feed<I, S, F>(&mut self, texts: I, process: F) -> Result<()>
    where
        I: Iterator<Item = S> + Send,
        S: AsRef<str> + Send,
        F: Fn(&str) -> Result<Vec<String>> + Sync,
    {
        self.counts = words::count(texts, process)?;
        Ok(())
    }

    fn train(&self, model: &mut ModelWrapper) -> Result<Vec<AddedToken>> {
        let special = self.special.tokens();
        let vocab = special.iter().map(|&token| token.to_owned()).chain(self.pieces()).zip(0..);
        *model = WordPiece::builder()
            .vocab(vocab.collect::<Vocab>())
            .unk_token(SPECIAL_TOKENS[UNK as usize].into())
            .continuing_subword_prefix(self.continuing.into())
            .build()?
            .into();
        Ok(special.iter().map(|&token| AddedToken::from(token, true)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ab` 5 times and `abc` 3 times: characters `##b`, `##c`, `a`; the pair a ##b occurs 8 times,
    /// then ab ##c 3 times.
    #[test]
    fn pieces_by_hand() {
        let mut learner = WordPieceLearner::new(100, 1, "##", SpecialTokens::Standard);
        learner.counts = [("ab", 5), ("abc", 3)].map(|(word, n)| (word.to_owned(), n)).into();
        assert_eq!(learner.pieces(), ["##b", "##c", "a", "ab", "abc"]);
        assert_eq!(WordPieceLearner { min_frequency: 4, ..learner }.pieces(), ["##b", "a", "ab"]);
    }

    /// `aaaa` is a ##a ##a ##a: ##a ##a occurs twice, a ##a once. Merging from the left gives a
    /// ##aa ##a; of its two pairs, a ##aa has the older first part.
    #[test]
    fn overlapping_pairs_are_merged_from_the_left() {
        let mut learner = WordPieceLearner::new(4 + 4, 1, "##", SpecialTokens::Standard);
        learner.counts = HashMap::from([("aaaa".to_owned(), 1)]);
        assert_eq!(learner.pieces(), ["##a", "a", "##aa", "aaa"]);
    }
}
