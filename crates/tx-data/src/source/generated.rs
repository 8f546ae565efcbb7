//! Generated corpora, which need no file and no network.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tx_text::SentencePair;

/// Returns the single pair of graykode's tutorial: *ich mochte ein bier* → *i want a beer*.
pub fn toy() -> Vec<SentencePair> {
    vec![SentencePair::new("ich mochte ein bier", "i want a beer")]
}

/// Generates `count` random words of 10 to 19 lowercase letters, each with its reverse, as in
/// Etienne's guide. The same seed gives the same words on every machine.
///
/// ```
/// let pairs = tx_data::source::generated::reverse(3, 1);
/// assert_eq!(pairs[0].target, pairs[0].source.chars().rev().collect::<String>());
/// ```
pub fn reverse(count: usize, seed: u64) -> Vec<SentencePair> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..count)
        .map(|_| {
            let len = rng.random_range(10..=19);
            let word: String = (0..len).map(|_| rng.random_range('a'..='z')).collect();
            let reversed = word.chars().rev().collect::<String>();
            SentencePair::new(word, reversed)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reversed_words_have_the_published_lengths() {
        let pairs = reverse(2_000, 7);
        let lengths: Vec<usize> = pairs.iter().map(|pair| pair.source.len()).collect();
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&10), Some(&19)));
        // The mean of 10..=19 is 14.5; the standard error of 2,000 samples is 0.064.
        let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
        assert!((mean - 14.5).abs() < 0.3, "{mean}");
        assert!(pairs.iter().all(|pair| pair.source.bytes().all(|c| c.is_ascii_lowercase())));
    }

    #[test]
    fn a_seed_fixes_the_words() {
        assert_eq!(reverse(5, 3), reverse(5, 3));
        assert_ne!(reverse(5, 3), reverse(5, 4));
        assert_eq!(reverse(5, 3), reverse(9, 3)[..5]);
    }
}
