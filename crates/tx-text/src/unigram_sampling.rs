//! Subword regularization (Kudo 2018): a random segmentation of each word by a unigram model.
//!
//! The segmentation `x` of a word is sampled with probability `P(x)^α / Σ P(x')^α` over all
//! segmentations into pieces of the vocabulary, where `P` is the product of the probabilities of the
//! pieces (section 3.3, with `l` = ∞). The input is a sequence of ids instead of text, so that a corpus
//! that is already tokenized can be used. The result is a function of the random numbers, as exact resume
//! requires.

use std::collections::HashMap;

use rand::{Rng, RngExt};

use crate::{
    error::TextError,
    special::SPECIAL_TOKENS,
    tokenizer::{Pieces, Tokenizer, Tokenizers},
};

/// First character of the first token of a word.
const WORD_START: char = '▁';

/// Sampling of segmentations of both sides of a pair.
#[derive(Debug, Clone)]
pub struct UnigramSampling {
    source: Lattice,
    target: Lattice,
    alpha: f64,
    max_len: usize,
}

impl UnigramSampling {
    /// Creates sampling with the exponent `alpha`: 0 makes all segmentations of a word equally likely, and
    /// large values prefer the best one. A side that would become longer than `max_len` tokens keeps its
    /// segmentation.
    ///
    /// # Errors
    ///
    /// If the tokenizers are not unigram models.
    pub fn new(tokenizers: &Tokenizers, alpha: f64, max_len: usize) -> Result<Self, TextError> {
        let source = Lattice::of(&tokenizers.source)?;
        let target = Lattice::of(&tokenizers.target)?;
        Ok(Self { source, target, alpha, max_len })
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

    fn apply_to(&self, side: &mut Vec<u32>, lattice: &Lattice, random: &mut impl Rng) {
        let sampled = lattice.segment(side, self.alpha, random);
        if sampled.len() <= self.max_len {
            *side = sampled;
        }
    }
}

/// Pieces of a unigram model.
#[derive(Debug, Clone)]
struct Lattice {
    /// For each id, its text; `None` if it is not segmented: special tokens, bytes and
    /// user-defined symbols.
    texts: Vec<Option<String>>,
    /// Id and log-probability of each piece.
    pieces: HashMap<String, (u32, f64)>,
    /// Characters of the longest piece.
    longest: usize,
}

impl Lattice {
    fn of(tokenizer: &Tokenizer) -> Result<Self, TextError> {
        let Pieces { vocab, kept } = tokenizer.pieces().ok_or_else(|| {
            let problem = "sampling of segmentations needs `kind` = \"unigram\"".into();
            TextError::TokenizerConfig { problem }
        })?;
        let (mut texts, mut pieces, mut longest) = (Vec::new(), HashMap::new(), 1);
        for (id, (piece, score)) in vocab.into_iter().enumerate() {
            let is_byte = piece.len() == 6 && piece.starts_with("<0x") && piece.ends_with('>');
            let is_text =
                id >= SPECIAL_TOKENS.len() && !is_byte && !tokenizer.is_special(id as u32);
            let is_text = is_text && !kept.contains(&piece);
            texts.push(is_text.then(|| piece.clone()));
            if is_text {
                longest = longest.max(piece.chars().count());
                pieces.insert(piece, (id as u32, score));
            }
        }
        Ok(Self { texts, pieces, longest })
    }

    fn segment(&self, ids: &[u32], alpha: f64, random: &mut impl Rng) -> Vec<u32> {
        let mut out = Vec::with_capacity(ids.len() * 2);
        let mut word = String::new();
        for &id in ids {
            match self.texts.get(id as usize) {
                Some(Some(text)) => {
                    // No piece crosses a word boundary.
                    if text.starts_with(WORD_START) {
                        self.sample(&mut word, alpha, random, &mut out);
                    }
                    word.push_str(text);
                }
                _ => {
                    self.sample(&mut word, alpha, random, &mut out);
                    out.push(id);
                }
            }
        }
        self.sample(&mut word, alpha, random, &mut out);
        out
    }

    /// Samples a segmentation of `word` by forward filtering and backward sampling, appends its ids, and
    /// empties `word`.
    fn sample(&self, word: &mut String, alpha: f64, random: &mut impl Rng, out: &mut Vec<u32>) {
        if word.is_empty() {
            return;
        }
        let mut bounds: Vec<usize> = word.char_indices().map(|(index, _)| index).collect();
        bounds.push(word.len());
        // For each end, the pieces that end there: start, id and log of the weight of all segmentations up
        // to the end whose last piece it is.
        let mut ending: Vec<Vec<(usize, u32, f64)>> = vec![Vec::new(); bounds.len()];
        let mut forward = vec![f64::NEG_INFINITY; bounds.len()];
        forward[0] = 0.0;
        for end in 1..bounds.len() {
            for start in end.saturating_sub(self.longest)..end {
                let piece = &word[bounds[start]..bounds[end]];
                if let Some(&(id, score)) = self.pieces.get(piece)
                    && forward[start].is_finite()
                {
                    ending[end].push((start, id, forward[start] + alpha * score));
                }
            }
            forward[end] = log_sum(ending[end].iter().map(|(_, _, weight)| *weight));
        }
        let (mut end, first) = (bounds.len() - 1, out.len());
        while end > 0 {
            let mut left = random.random::<f64>();
            let Some(mut chosen) = ending[end].last() else { break };
            for piece in &ending[end] {
                left -= (piece.2 - forward[end]).exp();
                if left < 0.0 {
                    chosen = piece;
                    break;
                }
            }
            out.push(chosen.1);
            end = chosen.0;
        }
        out[first..].reverse();
        word.clear();
    }
}

/// `ln Σ e^x`; −∞ without numbers.
fn log_sum(numbers: impl Iterator<Item = f64> + Clone) -> f64 {
    let most = numbers.clone().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return most;
    }
    most + numbers.map(|number| (number - most).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::{
        pair::SentencePair,
        tokenizer::{TokenizerConfig, TokenizerKind},
    };

    fn lattice(pieces: &[(&str, f64)]) -> Lattice {
        let ids = (10..).zip(pieces);
        let with_id = |(id, (piece, p)): (u32, &(&str, f64))| ((*piece).to_owned(), (id, p.ln()));
        let mut texts = vec![None; 10];
        texts.extend(pieces.iter().map(|(piece, _)| Some((*piece).to_owned())));
        Lattice { texts, pieces: ids.map(with_id).collect(), longest: 3 }
    }

    /// `▁ab` has the segmentations `▁ab` (½), `▁a b` (¼ · ⅛) and `▁ a b` (⅛ · ⅛ · ⅛). With α = 1, their
    /// probabilities are 256 : 16 : 1 of 273. With α = 0, all are ⅓. Of 20,000 samples with probability p,
    /// the standard deviation of the fraction is √(p (1 − p) / 20000) ≤ 0.0034.
    #[test]
    fn segmentations_have_the_probabilities_of_the_model() {
        let lattice =
            lattice(&[("▁ab", 0.5), ("▁a", 0.25), ("b", 0.125), ("▁", 0.125), ("a", 0.125)]);
        for (alpha, expected) in [(1.0, [256.0, 16.0, 1.0]), (0.0, [91.0, 91.0, 91.0])] {
            let mut random = ChaCha8Rng::seed_from_u64(1);
            let mut counts = [0; 3];
            for _ in 0..20_000 {
                match &lattice.segment(&[1, 10, 2], alpha, &mut random)[..] {
                    [1, 10, 2] => counts[0] += 1,
                    [1, 11, 12, 2] => counts[1] += 1,
                    [1, 13, 14, 12, 2] => counts[2] += 1,
                    other => panic!("{other:?}"),
                }
            }
            for (count, expected) in counts.into_iter().zip(expected) {
                let (found, expected) = (f64::from(count) / 20_000.0, expected / 273.0);
                assert!((found - expected).abs() < 0.014, "{alpha}: {found}, {expected}");
            }
        }
    }

    #[test]
    fn the_text_stays_and_other_tokenizers_are_refused() {
        let text = "der hund im haus läuft, der hund im garten läuft nicht: hundert hunde!";
        let pairs = [SentencePair::new(text, text.to_uppercase())];
        let config = TokenizerConfig {
            kind: TokenizerKind::Unigram,
            vocab_size: 330,
            byte_fallback: true,
            ..TokenizerConfig::default()
        };
        let tokenizers = Tokenizers::train(&config, &pairs).unwrap();
        let sampling = UnigramSampling::new(&tokenizers, 0.1, 500).unwrap();
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for text in [text, "hunde läuft 日本 (x)", ""] {
            let ids = || {
                (tokenizers.source.encode(text).unwrap(), tokenizers.target.encode(text).unwrap())
            };
            let (original, (mut source, mut target)) = (ids(), ids());
            sampling.apply(&mut source, &mut target, &mut random);
            for (tokenizer, sampled, original) in [
                (&tokenizers.source, &source, &original.0),
                (&tokenizers.target, &target, &original.1),
            ] {
                assert_eq!(tokenizer.decode(sampled).unwrap(), tokenizer.decode(original).unwrap());
                assert_eq!(sampled.last(), original.last());
            }
            assert!(text.len() < 40 || source != original.0);
        }
        let short = UnigramSampling::new(&tokenizers, 0.0, 3).unwrap();
        let mut kept = tokenizers.source.encode(text).unwrap();
        short.apply_to_source(&mut kept, &mut random);
        assert_eq!(kept, tokenizers.source.encode(text).unwrap());

        let words = TokenizerConfig { kind: TokenizerKind::Word, ..TokenizerConfig::default() };
        let words = Tokenizers::train(&words, &pairs).unwrap();
        let error = UnigramSampling::new(&words, 0.1, 10).unwrap_err();
        assert!(error.to_string().contains("needs `kind` = \"unigram\""), "{error}");
    }
}
