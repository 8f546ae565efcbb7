//! Words of a text and their counts.

use std::collections::HashMap;

use tokenizers::{AddedToken, Result, Trainer, parallelism::MaybeParallelBridge};

/// Maximum number of characters of a word that a vocabulary is learned from. The time of a merge grows
/// with the square of the length of a word.
const LONGEST_WORD: usize = 1_000;

/// Trainer that learns from the parts of longer words, too.
pub(super) struct InParts<T>(pub(super) T);

impl<T: Trainer> Trainer for InParts<T> {
    type Model = T::Model;

    fn should_show_progress(&self) -> bool {
        self.0.should_show_progress()
    }

    fn train(&self, model: &mut T::Model) -> Result<Vec<AddedToken>> {
        self.0.train(model)
    }

    fn feed<I, S, F>(&mut self, texts: I, process: F) -> Result<()>
    where
        I: Iterator<Item = S> + Send,
        S: AsRef<str> + Send,
        F: Fn(&str) -> Result<Vec<String>> + Sync,
    {
        self.0.feed(texts, |text| Ok(in_parts(process(text)?)))
    }
}

/// Divides words with more than [`LONGEST_WORD`] characters.
fn in_parts(words: Vec<String>) -> Vec<String> {
    // A character has at least one byte.
    if words.iter().all(|word| word.len() <= LONGEST_WORD) {
        return words;
    }
    let mut parts = Vec::with_capacity(words.len());
    for word in words {
        let mut rest = word.as_str();
        while let Some((at, _)) = rest.char_indices().nth(LONGEST_WORD)
            && let Some((part, after)) = rest.split_at_checked(at)
        {
            parts.push(part.to_owned());
            rest = after;
        }
        parts.push(rest.to_owned());
    }
    parts
}

/// Counts the words that `process` returns for the texts, those that are too long in parts, on all
/// cores.
pub(super) fn count<I, S, F>(texts: I, process: F) -> Result<HashMap<String, u64>>
where
    I: Iterator<Item = S> + Send,
    S: AsRef<str> + Send,
    F: Fn(&str) -> Result<Vec<String>> + Sync,
{
    // Sums of integers do not depend on the order.
    texts
        .maybe_par_bridge()
        .map(|text| {
            let mut counts: HashMap<String, u64> = HashMap::new();
            for word in in_parts(process(text.as_ref())?) {
                *counts.entry(word).or_default() += 1;
            }
            Ok::<_, tokenizers::Error>(counts)
        })
        .reduce(
            || Ok(HashMap::new()),
            |a, b| {
                let (a, b) = (a?, b?);
                let (mut more, less) = if a.len() < b.len() { (b, a) } else { (a, b) };
                for (word, count) in less {
                    *more.entry(word).or_default() += count;
                }
                Ok(more)
            },
        )
}

/// Words in a deterministic order: the most frequent first, ties in the order of their text.
pub(super) fn by_frequency(counts: &HashMap<String, u64>) -> Vec<(&str, u64)> {
    let mut words: Vec<(&str, u64)> =
        counts.iter().map(|(word, &count)| (word.as_str(), count)).collect();
    words.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_word_is_counted_in_parts() {
        let long = "ä".repeat(2_500);
        let counts = count([long.as_str()].into_iter(), |word| Ok(vec![word.to_owned()])).unwrap();
        let found = by_frequency(&counts);
        assert_eq!(found, [("ä".repeat(1_000).as_str(), 2), ("ä".repeat(500).as_str(), 1)]);
        assert_eq!(in_parts(vec!["a".repeat(1_000)]), ["a".repeat(1_000)]);
    }
}
