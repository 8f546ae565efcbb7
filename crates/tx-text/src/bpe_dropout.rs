//! BPE dropout (Provilkov et al. 2020): a random segmentation of each word, new in every epoch.
//!
//! At each step of the segmentation of a word, every possible merge is dropped with a given
//! probability. The input is a sequence of ids instead of text, so that a corpus that is already
//! tokenized can be used: the segmentation starts from the characters of the ids. The result is a
//! function of the random numbers, as exact resume requires.

use std::collections::HashMap;

use rand::{Rng, RngExt};

use crate::{
    error::TextError,
    special::SPECIAL_TOKENS,
    tokenizer::{Merges, Tokenizer, Tokenizers},
};

/// First character of the first token of a word: `▁`, or `Ġ` in byte-level vocabularies.
const WORD_STARTS: [char; 2] = ['▁', 'Ġ'];

/// BPE dropout of both sides of a pair.
#[derive(Debug, Clone)]
pub struct BpeDropout {
    source: MergeTable,
    target: MergeTable,
    rate: f64,
    max_len: usize,
}

impl BpeDropout {
    /// Creates BPE dropout that skips each merge of `tokenizers` with probability `rate`. A side
    /// that would become longer than `max_len` tokens keeps its segmentation.
    ///
    /// # Errors
    ///
    /// If the tokenizers are not a byte-pair encoding.
    pub fn new(tokenizers: &Tokenizers, rate: f64, max_len: usize) -> Result<Self, TextError> {
        let source = MergeTable::of(&tokenizers.source)?;
        let target = MergeTable::of(&tokenizers.target)?;
        Ok(Self { source, target, rate, max_len })
    }

    /// Replaces the segmentation of both sides of a pair.
    pub fn apply(&self, source: &mut Vec<u32>, target: &mut Vec<u32>, random: &mut impl Rng) {
        self.apply_to(source, &self.source, random);
        self.apply_to(target, &self.target, random);
    }

    /// Replaces the segmentation of a source without target, such as a text to classify.
    pub fn apply_to_source(&self, source: &mut Vec<u32>, random: &mut impl Rng) {
        self.apply_to(source, &self.source, random);
    }

    fn apply_to(&self, side: &mut Vec<u32>, table: &MergeTable, random: &mut impl Rng) {
        let dropped = table.segment(side, self.rate, random);
        if dropped.len() <= self.max_len {
            *side = dropped;
        }
    }
}

/// Result and rank of the merges of two symbols.
#[derive(Debug, Clone)]
struct MergeTable {
    /// For each id, the ids of its characters; the id itself if it is not segmented.
    symbols: Vec<Vec<u32>>,
    /// For each id, whether it starts a word.
    starts: Vec<bool>,
    /// For two ids, the rank of their merge and the resulting id.
    merges: HashMap<(u32, u32), (u32, u32)>,
}

impl MergeTable {
    fn of(tokenizer: &Tokenizer) -> Result<Self, TextError> {
        let Merges { vocab: vocabulary, merges: pairs } = tokenizer.merges().ok_or_else(|| {
            let problem = "BPE dropout needs `kind` = \"bpe\"".into();
            TextError::TokenizerConfig { problem }
        })?;
        let size = vocabulary.values().max().map_or(0, |&id| id as usize + 1);
        let mut symbols: Vec<Vec<u32>> = (0..size as u32).map(|id| vec![id]).collect();
        let mut merges = HashMap::with_capacity(pairs.len());
        for (rank, (left, right)) in pairs.iter().enumerate() {
            let merged = vocabulary.get(&format!("{left}{right}"));
            if let (Some(&a), Some(&b), Some(&c)) =
                (vocabulary.get(left), vocabulary.get(right), merged)
            {
                merges.entry((a, b)).or_insert((rank as u32, c));
                // The first merge of a token defines its characters. Its parts were merged before.
                let is_whole = symbols[c as usize] == [c];
                if is_whole && c as usize >= SPECIAL_TOKENS.len() {
                    symbols[c as usize] = [&symbols[a as usize][..], &symbols[b as usize]].concat();
                }
            }
        }
        let mut starts = vec![false; size];
        for (token, &id) in &vocabulary {
            starts[id as usize] = token.starts_with(WORD_STARTS);
        }
        Ok(Self { symbols, starts, merges })
    }

    fn segment(&self, ids: &[u32], rate: f64, random: &mut impl Rng) -> Vec<u32> {
        let mut out = Vec::with_capacity(ids.len() * 2);
        let mut word: Vec<u32> = Vec::new();
        for &id in ids {
            // No merge crosses a word boundary.
            if self.starts.get(id as usize).is_none_or(|&start| start) {
                self.merge(&mut word, rate, random);
                out.append(&mut word);
            }
            match self.symbols.get(id as usize) {
                Some(symbols) => word.extend_from_slice(symbols),
                None => out.push(id),
            }
        }
        self.merge(&mut word, rate, random);
        out.append(&mut word);
        out
    }

    /// Merges symbols in the order in which the merges were learned, dropping some at each step.
    fn merge(&self, word: &mut Vec<u32>, rate: f64, random: &mut impl Rng) {
        loop {
            let mut best: Option<(u32, usize, u32)> = None;
            for position in 1..word.len() {
                let Some(&(rank, merged)) = self.merges.get(&(word[position - 1], word[position]))
                else {
                    continue;
                };
                if random.random_bool(rate) {
                    continue;
                }
                if best.is_none_or(|(least, ..)| rank < least) {
                    best = Some((rank, position, merged));
                }
            }
            let Some((_, position, merged)) = best else { return };
            word[position - 1] = merged;
            word.remove(position);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::{
        pair::SentencePair,
        special::{BOS, EOS},
        tokenizer::{TokenizerConfig, TokenizerKind, WordSplit},
    };

    const TEXT: &str = "der hund (im haus) läuft, der hund im garten läuft nicht: hundert hunde!";

    fn tokenizers(split: WordSplit, byte_fallback: bool) -> Tokenizers {
        let config =
            TokenizerConfig { split, byte_fallback, vocab_size: 330, ..TokenizerConfig::default() };
        Tokenizers::train(&config, &[SentencePair::new(TEXT, TEXT.to_uppercase())]).unwrap()
    }

    fn pair(tokenizers: &Tokenizers, text: &str) -> (Vec<u32>, Vec<u32>) {
        (tokenizers.source.encode(text).unwrap(), tokenizers.target.encode(text).unwrap())
    }

    fn apply(dropout: &BpeDropout, pair: &mut (Vec<u32>, Vec<u32>), random: &mut impl Rng) {
        dropout.apply(&mut pair.0, &mut pair.1, random);
    }

    #[test]
    fn rate_zero_changes_nothing_and_other_rates_keep_the_text() {
        for (split, fallback) in [
            (WordSplit::Punctuation, false),
            (WordSplit::Whitespace, false),
            (WordSplit::Punctuation, true),
        ] {
            let tokenizers = tokenizers(split, fallback);
            for text in [TEXT, "hunde läuft 日本 (x)", ""] {
                let original = pair(&tokenizers, text);
                let mut random = ChaCha8Rng::seed_from_u64(1);
                let mut same = original.clone();
                let dropout = BpeDropout::new(&tokenizers, 0.0, 500).unwrap();
                apply(&dropout, &mut same, &mut random);
                assert_eq!(same, original);
                let dropout = BpeDropout::new(&tokenizers, 0.5, 500).unwrap();
                let mut other = original.clone();
                apply(&dropout, &mut other, &mut random);
                assert_eq!(
                    tokenizers.source.decode(&other.0).unwrap(),
                    tokenizers.source.decode(&original.0).unwrap(),
                );
                assert_eq!((other.1[0], other.1.last()), (BOS, Some(&EOS)));
                assert!(text != TEXT || other.0.len() > original.0.len());
            }
        }
    }

    #[test]
    fn the_result_depends_on_the_random_numbers_only() {
        let tokenizers = tokenizers(WordSplit::Punctuation, false);
        let dropout = BpeDropout::new(&tokenizers, 0.3, 500).unwrap();
        let dropped = |seed| {
            let mut pair = pair(&tokenizers, TEXT);
            apply(&dropout, &mut pair, &mut ChaCha8Rng::seed_from_u64(seed));
            pair
        };
        assert_eq!(dropped(1), dropped(1));
        assert_ne!(dropped(1), dropped(2));
    }

    /// With all merges dropped, characters remain; if those are too many, the side is unchanged.
    #[test]
    fn a_side_never_becomes_longer_than_allowed() {
        let tokenizers = tokenizers(WordSplit::Whitespace, false);
        let original = pair(&tokenizers, "der hund");
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut all = original.clone();
        apply(&BpeDropout::new(&tokenizers, 1.0, 10).unwrap(), &mut all, &mut random);
        // `▁der▁hund` has nine characters; with `<eos>` ten tokens, with `<bos>` eleven.
        assert_eq!(all.0.len(), 10);
        assert_eq!(all.1, original.1);
    }

    #[test]
    fn other_kinds_are_refused() {
        let config = TokenizerConfig { kind: TokenizerKind::Word, ..TokenizerConfig::default() };
        let words = Tokenizers::train(&config, &[SentencePair::new("a", "b")]).unwrap();
        let error = BpeDropout::new(&words, 0.1, 10).unwrap_err();
        assert_eq!(error.to_string(), "tokenizer: BPE dropout needs `kind` = \"bpe\"");
    }
}
