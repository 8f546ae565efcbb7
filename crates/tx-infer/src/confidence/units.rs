//! Words of a translation with the features of their confidence, and whether a reference has them.

use tx_text::{spacing::is_unspaced, special::EOS};

use super::{Confidence, WordConfidence};
use crate::{
    calibration::{Calibration, Features, LARGEST},
    error::InferError,
    pair_tokenizer::PairTokenizer,
    tokens::Tokens,
    translator::TargetScore,
};

/// Words of a translation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Units {
    /// Each with its features.
    pub(crate) words: Vec<(String, Features)>,
}

impl Units {
    /// Divides a translation into words.
    pub(super) fn new(score: &TargetScore, texts: &PairTokenizer) -> Result<Self, InferError> {
        let TargetScore { ids, log_probabilities, .. } = score;
        let tokens = texts.hypothesis(ids)?;
        let logs = || log_probabilities.iter().map(|log| f64::from(*log));
        let mean = logs().sum::<f64>() / ids.len().max(1) as f64;
        let words = units(&tokens).into_iter().map(|(word, tokens)| {
            let log: f64 = tokens.filter_map(|token| logs().nth(token)).sum();
            // ln p - ln(1 - p)
            let odds = log - (-log.exp_m1()).max(f64::MIN_POSITIVE).ln();
            (word, [odds.clamp(-LARGEST, LARGEST), mean, 1.0])
        });
        Ok(Self { words: words.collect() })
    }

    /// Confidence in the translation.
    pub(super) fn confidence(&self, calibration: &Calibration) -> Confidence {
        let words = self.words.iter().map(|(word, features)| WordConfidence {
            word: word.clone(),
            probability: calibration.probability(*features),
        });
        let words: Vec<WordConfidence> = words.collect();
        let sum: f64 = words.iter().map(|word| word.probability).sum();
        let probability = if words.is_empty() { 1.0 } else { sum / words.len() as f64 };
        Confidence { probability, words }
    }

    /// Returns for each word whether it is part of the longest common subsequence with a reference.
    pub(super) fn found_in(
        &self,
        reference: &str,
        texts: &PairTokenizer,
    ) -> Result<Vec<bool>, InferError> {
        let reference = units(&texts.target(reference)?);
        let reference: Vec<&str> = reference.iter().map(|(word, _)| &**word).collect();
        let words: Vec<&str> = self.words.iter().map(|(word, _)| &**word).collect();
        Ok(common(&words, &reference))
    }
}

/// Words with the positions of their tokens. In scripts without spaces, each token is a word.
fn units(tokens: &Tokens) -> Vec<(String, std::ops::Range<usize>)> {
    let mut units: Vec<(String, std::ops::Range<usize>)> = Vec::new();
    let mut last = None;
    for (position, word) in tokens.word_of.iter().enumerate() {
        let (Some(word), true) = (*word, tokens.ids[position] != EOS) else {
            last = None;
            continue;
        };
        let text = tokens.words.get(word).map(String::as_str).unwrap_or_default();
        let is_unspaced = text.contains(is_unspaced);
        match units.last_mut() {
            Some((_, range)) if last == Some(word) && !is_unspaced => range.end = position + 1,
            _ => {
                let token = || tokens.tokens[position].trim_start_matches('▁').to_owned();
                let text = if is_unspaced { token() } else { text.to_owned() };
                units.push((text, position..position + 1));
            }
        }
        last = Some(word);
    }
    units
}

/// Returns for each item of `a` whether it is part of a longest common subsequence with `b`.
fn common(a: &[&str], b: &[&str]) -> Vec<bool> {
    // longest[i][j]: length of that of a[i..] and b[j..].
    let mut longest = vec![vec![0_usize; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            longest[i][j] = match a[i] == b[j] {
                true => longest[i + 1][j + 1] + 1,
                false => longest[i + 1][j].max(longest[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut found) = (0, 0, vec![false; a.len()]);
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            found[i] = true;
            (i, j) = (i + 1, j + 1);
        } else if longest[i + 1][j] >= longest[i][j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_longest_common_subsequence_are_right() {
        let words = |text: &'static str| text.split_whitespace().collect::<Vec<_>>();
        let found = |a, b| common(&words(a), &words(b));
        assert_eq!(found("a dog runs fast", "the dog runs"), [false, true, true, false]);
        assert_eq!(found("b a b", "a b"), [false, true, true]);
        assert_eq!(found("a", ""), [false]);
        assert_eq!(found("", "a"), [false; 0]);
    }

    #[test]
    fn tokens_of_a_word_are_one_unit() {
        let tokens = |words: &[&str], parts: &[(&str, Option<usize>)]| Tokens {
            ids: parts.iter().map(|(token, _)| if *token == "<eos>" { EOS } else { 9 }).collect(),
            tokens: parts.iter().map(|(token, _)| (*token).to_owned()).collect(),
            word_of: parts.iter().map(|(_, word)| *word).collect(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
        };
        let parts = [("▁do", Some(0)), ("g", Some(0)), (".", Some(1)), ("<eos>", None)];
        let expected = [("dog".to_owned(), 0..2), (".".to_owned(), 2..3)];
        assert_eq!(units(&tokens(&["dog", "."], &parts)), expected);
        let parts = [("▁小", Some(0)), ("狗", Some(0)), ("<eos>", None)];
        let expected = [("小".to_owned(), 0..1), ("狗".to_owned(), 1..2)];
        assert_eq!(units(&tokens(&["小狗"], &parts)), expected);
    }
}
