//! The words of a text and how often they stand there.

use std::collections::HashMap;

use tokenizers::{Result, parallelism::MaybeParallelBridge};

/// Counts the words that `process` finds in the texts, on all cores.
pub(super) fn count<I, S, F>(texts: I, process: F) -> Result<HashMap<String, u64>>
where
    I: Iterator<Item = S> + Send,
    S: AsRef<str> + Send,
    F: Fn(&str) -> Result<Vec<String>> + Sync,
{
    // Whole numbers: their sum does not depend on the order.
    texts
        .maybe_par_bridge()
        .map(|text| {
            let mut counts: HashMap<String, u64> = HashMap::new();
            for word in process(text.as_ref())? {
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

/// The words in an order that is always the same: the most frequent first.
pub(super) fn by_frequency(counts: &HashMap<String, u64>) -> Vec<(&str, u64)> {
    let mut words: Vec<(&str, u64)> =
        counts.iter().map(|(word, &count)| (word.as_str(), count)).collect();
    words.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    words
}
