//! Learning of a Unigram vocabulary (Kudo 2018, section 3.2).
//!
//! The trainer of the library sums probabilities in the order of its threads and hash tables, so
//! two runs on the same text yield different vocabularies. This trainer is deterministic.
//!
//! Starting from many candidates, the pieces that reduce the likelihood of the text least are
//! removed until the vocabulary has the requested size. Before each step, expectation maximization
//! fits the probabilities.

use std::collections::HashMap;

use tokenizers::{
    AddedToken, Result, Trainer,
    models::{ModelWrapper, unigram::Unigram},
};

use super::{special_text::byte_token, words};
use crate::special::{SpecialTokens, UNK};

/// Maximum number of characters of a piece.
const LONGEST: usize = 16;
/// Number of distinct words used for learning: the most frequent ones.
const WORDS: usize = 400_000;
/// Number of these words that candidates are taken from.
const CANDIDATE_WORDS: usize = 100_000;
/// Candidates for each requested piece, and the minimum and maximum number of candidates.
const CANDIDATES: usize = 10;
const MIN_CANDIDATES: usize = 20_000;
const MAX_CANDIDATES: usize = 1_000_000;
/// Fraction of the pieces that remains after each step.
const SHRINK: f64 = 0.75;
/// Rounds of expectation maximization before each step.
const ROUNDS: usize = 2;
/// Minimum expected count; pieces below it are dropped.
const MIN_EXPECTED: f64 = 0.5;

/// Piece and its log-probability.
type Piece = (String, f64);

/// Trainer of a Unigram model.
#[derive(Debug)]
pub(super) struct UnigramLearner {
    /// Maximum number of pieces, without special tokens and bytes.
    room: usize,
    /// Minimum count of a character that becomes a piece.
    min_frequency: u64,
    byte_fallback: bool,
    special: SpecialTokens,
    counts: HashMap<String, u64>,
}

impl UnigramLearner {
    pub(super) fn new(
        room: usize,
        min_frequency: u64,
        byte_fallback: bool,
        special: SpecialTokens,
    ) -> Self {
        Self { room, min_frequency, byte_fallback, special, counts: HashMap::new() }
    }

    /// Words, the most frequent first.
    fn words(&self) -> Vec<Word> {
        words::by_frequency(&self.counts)
            .into_iter()
            .take(WORDS)
            .map(|(word, count)| Word { characters: word.chars().collect(), count: count as f64 })
            .collect()
    }

    fn pieces(&self) -> Vec<Piece> {
        let words = self.words();
        let alphabet = self.alphabet();
        let mut pieces = candidates(&words, &alphabet, self.room);
        // A tenth more than requested; the least likely ones are removed at the end.
        let enough = self.room + self.room / 10;
        loop {
            for _ in 0..ROUNDS {
                pieces = fitted(&words, pieces);
            }
            if pieces.len() <= enough {
                break;
            }
            let wanted = enough.max((pieces.len() as f64 * SHRINK) as usize);
            pieces = pruned(&words, pieces, wanted);
        }
        finished(pieces, &alphabet, self.room)
    }

    /// Characters that are always pieces, the most frequent first.
    fn alphabet(&self) -> Vec<char> {
        let mut counts: HashMap<char, u64> = HashMap::new();
        for (word, count) in &self.counts {
            word.chars().for_each(|c| *counts.entry(c).or_default() += count);
        }
        let mut characters: Vec<(char, u64)> =
            counts.into_iter().filter(|&(_, count)| count >= self.min_frequency).collect();
        characters.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        characters.into_iter().take(self.room).map(|(c, _)| c).collect()
    }
}

impl Trainer for UnigramLearner {
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
        let pieces = self.pieces();
        // A byte is as unlikely as the least likely piece.
        let least = pieces.iter().map(|(_, score)| *score).fold(0.0, f64::min);
        let bytes = if self.byte_fallback { 0..256 } else { 0..0 };
        let special = self.special.tokens().iter();
        let vocab = special
            .map(|&token| (token.to_owned(), 0.0))
            .chain(pieces)
            .chain(bytes.map(|byte| (byte_token(byte), least)))
            .collect();
        *model = Unigram::from(vocab, Some(UNK as usize), self.byte_fallback)?.into();
        Ok(self.special.tokens().iter().map(|&token| AddedToken::from(token, true)).collect())
    }
}

/// Word of the text and its count.
struct Word {
    characters: Vec<char>,
    count: f64,
}

/// Characters of the alphabet, and the substrings of words that cover the most text.
fn candidates(words: &[Word], alphabet: &[char], room: usize) -> Vec<Piece> {
    let mut counts: HashMap<&[char], f64> = HashMap::new();
    for Word { characters, count } in words.iter().take(CANDIDATE_WORDS) {
        for start in 0..characters.len() {
            for end in start + 1..=characters.len().min(start + LONGEST) {
                *counts.entry(&characters[start..end]).or_default() += count;
            }
        }
    }
    let known: std::collections::HashSet<char> = alphabet.iter().copied().collect();
    let mut longer: Vec<(&[char], f64)> = counts
        .iter()
        .filter(|(piece, count)| {
            piece.len() > 1 && **count > 1.0 && piece.iter().all(|c| known.contains(c))
        })
        .map(|(piece, count)| (*piece, count * piece.len() as f64))
        .collect();
    longer.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    longer.truncate((CANDIDATES * room).clamp(MIN_CANDIDATES, MAX_CANDIDATES));
    let single = alphabet.iter().map(|c| {
        let count = counts.get(std::slice::from_ref(c)).copied().unwrap_or(1.0);
        (c.to_string(), count)
    });
    let mut pieces: Vec<Piece> = single
        .chain(longer.into_iter().map(|(piece, score)| (piece.iter().collect(), score)))
        .collect();
    let sum: f64 = pieces.iter().map(|(_, score)| score).sum();
    pieces.iter_mut().for_each(|(_, score)| *score = (*score / sum).ln());
    pieces
}

/// Fits the probabilities by one round of expectation maximization. Characters stay; other pieces
/// with a small expected count are dropped.
fn fitted(words: &[Word], pieces: Vec<Piece>) -> Vec<Piece> {
    let trie = Trie::new(&pieces);
    let mut expected = vec![0.0; pieces.len()];
    let mut lattice = Lattice::default();
    for Word { characters, count } in words {
        lattice.fill(&trie, &pieces, characters);
        lattice.add_expected(*count, &mut expected);
    }
    let kept: Vec<(String, f64)> = pieces
        .into_iter()
        .zip(expected)
        .filter(|((piece, _), count)| *count >= MIN_EXPECTED || is_single(piece))
        .map(|((piece, _), count)| (piece, count.max(MIN_EXPECTED)))
        .collect();
    // Variational form of section 3.2: many small counts weigh less than few large ones.
    let sum = digamma(kept.iter().map(|(_, count)| count).sum());
    kept.into_iter().map(|(piece, count)| (piece, digamma(count) - sum)).collect()
}

/// Keeps the `wanted` pieces whose removal would reduce the likelihood of the text most, and all
/// characters.
fn pruned(words: &[Word], pieces: Vec<Piece>, wanted: usize) -> Vec<Piece> {
    let trie = Trie::new(&pieces);
    let mut lattice = Lattice::default();
    let mut used = vec![0.0; pieces.len()];
    let mut total = 0.0;
    for Word { characters, count } in words {
        lattice.fill(&trie, &pieces, characters);
        for piece in lattice.best(None) {
            used[piece] += count;
            total += count;
        }
    }
    let total: f64 = total;
    let mut losses: Vec<(f64, usize)> = Vec::with_capacity(pieces.len());
    for (index, (piece, _)) in pieces.iter().enumerate() {
        if is_single(piece) {
            losses.push((f64::INFINITY, index));
        } else if used[index] > 0.0 {
            let characters: Vec<char> = piece.chars().collect();
            lattice.fill(&trie, &pieces, &characters);
            let others = lattice.best(Some(index));
            // Without the piece, the pieces that replace it occur more often.
            let before = (used[index] / total).ln();
            let sum = total + used[index] * (others.len() as f64 - 1.0);
            let after: f64 =
                others.iter().map(|&other| ((used[other] + used[index]) / sum).ln()).sum();
            losses.push((used[index] / total * (before - after), index));
        }
    }
    losses.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    losses.truncate(wanted);
    let mut kept = vec![false; pieces.len()];
    losses.iter().for_each(|&(_, index)| kept[index] = true);
    pieces.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(piece, _)| piece).collect()
}

/// At most `room` pieces, all characters included, the most likely first.
fn finished(pieces: Vec<Piece>, alphabet: &[char], room: usize) -> Vec<Piece> {
    let (mut kept, mut longer): (Vec<Piece>, Vec<Piece>) =
        pieces.into_iter().partition(|(piece, _)| is_single(piece));
    let by_score = |a: &Piece, b: &Piece| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0));
    longer.sort_unstable_by(by_score);
    longer.truncate(room.saturating_sub(alphabet.len()));
    kept.append(&mut longer);
    kept.sort_unstable_by(by_score);
    kept
}

fn is_single(piece: &str) -> bool {
    piece.chars().nth(1).is_none()
}

/// Derivative of the logarithm of the gamma function. The recurrence shifts `x` up to the range
/// where the first terms of the asymptotic series are accurate.
fn digamma(mut x: f64) -> f64 {
    let mut value = 0.0;
    while x < 8.0 {
        value -= 1.0 / x;
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = square * (1.0 / 12.0 - square * (1.0 / 120.0 - square / 252.0));
    value + x.ln() - 0.5 / x - series
}

/// Prefix tree of the pieces.
struct Trie {
    next: HashMap<(u32, char), u32>,
    /// For each node, the piece that ends there.
    piece: Vec<Option<u32>>,
}

impl Trie {
    fn new(pieces: &[Piece]) -> Self {
        let mut trie = Self { next: HashMap::with_capacity(pieces.len() * 2), piece: vec![None] };
        for (index, (piece, _)) in pieces.iter().enumerate() {
            let mut node = 0;
            for c in piece.chars() {
                let new = trie.piece.len() as u32;
                node = *trie.next.entry((node, c)).or_insert(new);
                if node == new {
                    trie.piece.push(None);
                }
            }
            trie.piece[node as usize] = Some(index as u32);
        }
        trie
    }
}

/// All segmentations of a word.
#[derive(Default)]
struct Lattice {
    /// Start, end, piece and log-probability, sorted by start.
    edges: Vec<(usize, usize, usize, f64)>,
    length: usize,
    alpha: Vec<f64>,
    beta: Vec<f64>,
}

impl Lattice {
    fn fill(&mut self, trie: &Trie, pieces: &[Piece], characters: &[char]) {
        self.length = characters.len();
        self.edges.clear();
        for start in 0..characters.len() {
            let mut node = 0;
            for (end, &c) in characters.iter().enumerate().skip(start).take(LONGEST) {
                let Some(&next) = trie.next.get(&(node, c)) else { break };
                node = next;
                if let Some(piece) = trie.piece[node as usize] {
                    let piece = piece as usize;
                    self.edges.push((start, end + 1, piece, pieces[piece].1));
                }
            }
        }
    }

    /// Adds the expected count of each piece in the word, over all segmentations, to `expected`. A
    /// word with a rare character, which cannot be segmented, adds nothing.
    fn add_expected(&mut self, count: f64, expected: &mut [f64]) {
        let Self { edges, length, alpha, beta } = self;
        for (values, first) in [(&mut *alpha, 0), (&mut *beta, *length)] {
            values.clear();
            values.resize(*length + 1, f64::NEG_INFINITY);
            values[first] = 0.0;
        }
        for &(start, end, _, score) in edges.iter() {
            alpha[end] = log_add(alpha[end], alpha[start] + score);
        }
        for &(start, end, _, score) in edges.iter().rev() {
            beta[start] = log_add(beta[start], beta[end] + score);
        }
        let all = alpha[*length];
        if all.is_finite() {
            for &(start, end, piece, score) in edges.iter() {
                expected[piece] += count * (alpha[start] + score + beta[end] - all).exp();
            }
        }
    }

    /// Pieces of the most likely segmentation that does not use the piece `without`.
    fn best(&mut self, without: Option<usize>) -> Vec<usize> {
        let mut best: Vec<Option<(f64, usize, usize)>> = vec![None; self.length + 1];
        for &(start, end, piece, score) in &self.edges {
            let before = if start == 0 { Some(0.0) } else { best[start].map(|(score, ..)| score) };
            let Some(before) = before.filter(|_| without != Some(piece)) else { continue };
            if best[end].is_none_or(|(known, ..)| before + score > known) {
                best[end] = Some((before + score, start, piece));
            }
        }
        let mut pieces = Vec::new();
        let mut end = self.length;
        while let Some((_, start, piece)) = best[end] {
            pieces.push(piece);
            end = start;
        }
        pieces.reverse();
        pieces
    }
}

fn log_add(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(list: &[(&str, f64)]) -> Vec<Piece> {
        list.iter().map(|&(piece, p)| (piece.to_owned(), p.ln())).collect()
    }

    fn lattice(pieces: &[Piece], word: &str) -> Lattice {
        let mut lattice = Lattice::default();
        let characters: Vec<char> = word.chars().collect();
        lattice.fill(&Trie::new(pieces), pieces, &characters);
        lattice
    }

    /// `ab` with p(a) = 0.5, p(b) = 0.25 and p(ab) = 0.25: the segmentations are a·b with 0.125 and
    /// ab with 0.25, so that a and b are expected 1/3 times and ab 2/3 times.
    #[test]
    fn expected_counts_by_hand() {
        let pieces = pieces(&[("a", 0.5), ("b", 0.25), ("ab", 0.25)]);
        let mut expected = vec![0.0; 3];
        lattice(&pieces, "ab").add_expected(3.0, &mut expected);
        for (found, wanted) in expected.iter().zip([1.0, 1.0, 2.0]) {
            assert!((found - wanted).abs() < 1e-12, "{expected:?}");
        }
    }

    #[test]
    fn the_best_segmentation_with_and_without_a_piece() {
        let pieces = pieces(&[("a", 0.2), ("b", 0.2), ("c", 0.1), ("ab", 0.3), ("bc", 0.2)]);
        let mut lattice = lattice(&pieces, "abc");
        // ab·c has 0.03, a·bc 0.04, a·b·c 0.004.
        assert_eq!(lattice.best(None), [0, 4]);
        assert_eq!(lattice.best(Some(4)), [3, 2]);
    }

    /// ψ(1) = −γ, ψ(½) = −γ − 2 ln 2, ψ(10) = H₉ − γ = 7129/2520 − γ.
    #[test]
    fn digamma_at_known_points() {
        const GAMMA: f64 = 0.577_215_664_901_532_9;
        for (x, value) in
            [(1.0, -GAMMA), (0.5, -GAMMA - 2.0 * 2_f64.ln()), (10.0, 7129.0 / 2520.0 - GAMMA)]
        {
            assert!((digamma(x) - value).abs() < 1e-8, "{x}: {}", digamma(x));
        }
    }

    /// A text of the words `ab` and `cd`: these are better pieces than any of their parts.
    #[test]
    fn frequent_sequences_become_pieces() {
        let mut learner = UnigramLearner::new(6, 1, false, SpecialTokens::Standard);
        learner.counts = [("▁abcd", 50), ("▁ab", 30), ("▁cd", 30), ("▁cdab", 40)]
            .map(|(word, count)| (word.to_owned(), count))
            .into();
        let pieces = learner.pieces();
        // Five characters, and one more.
        assert_eq!(pieces.len(), 6);
        let longer: Vec<&String> =
            pieces.iter().map(|(piece, _)| piece).filter(|piece| !is_single(piece)).collect();
        assert!(["ab", "cd", "▁ab", "▁cd"].contains(&longer[0].as_str()), "{longer:?}");
    }
}
