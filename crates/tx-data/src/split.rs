//! Setting pairs aside for validation, so that none of them can be known from training.

use std::collections::HashMap;

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

use crate::pair::SentencePair;

/// A corpus in two parts that share no sentence, on either side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// To learn from.
    pub train: Vec<SentencePair>,
    /// To check on.
    pub validation: Vec<SentencePair>,
}

/// Moves about `share` of the pairs to validation, chosen by `seed` and by nothing else.
///
/// Pairs that share a source or a target sentence (case and spacing aside), directly or through
/// other pairs, stay on one side: a sentence of the validation part occurs nowhere in training.
/// Order within each part is the corpus's.
pub fn split(pairs: Vec<SentencePair>, share: f64, seed: u64) -> Split {
    let groups = groups(&pairs);
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));

    let wanted = (pairs.len() as f64 * share).round() as usize;
    let mut held_out = vec![false; pairs.len()];
    let mut count = 0;
    for group in order.into_iter().map(|index| &groups[index]) {
        // A group too large for what is still wanted goes to training.
        if count + group.len() <= wanted {
            count += group.len();
            group.iter().for_each(|&pair| held_out[pair] = true);
        }
    }

    let mut split = Split { train: Vec::new(), validation: Vec::new() };
    for (pair, held_out) in pairs.into_iter().zip(held_out) {
        if held_out { &mut split.validation } else { &mut split.train }.push(pair);
    }
    split
}

/// Indices of pairs joined by a shared sentence, in order of first occurrence.
fn groups(pairs: &[SentencePair]) -> Vec<Vec<usize>> {
    let mut parent: Vec<usize> = (0..pairs.len()).collect();
    let mut seen: HashMap<(bool, String), usize> = HashMap::new();
    for (index, pair) in pairs.iter().enumerate() {
        for key in [(true, normal(&pair.source)), (false, normal(&pair.target))] {
            let other = *seen.entry(key).or_insert(index);
            let (a, b) = (root(&mut parent, index), root(&mut parent, other));
            parent[a.max(b)] = a.min(b);
        }
    }
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); pairs.len()];
    for index in 0..pairs.len() {
        groups[root(&mut parent, index)].push(index);
    }
    groups.retain(|group| !group.is_empty());
    groups
}

/// The first pair of the group that `index` belongs to; shortens the way for the next call.
fn root(parent: &mut [usize], mut index: usize) -> usize {
    while parent[index] != index {
        parent[index] = parent[parent[index]];
        index = parent[index];
    }
    index
}

/// Sentences that differ in case or spacing only are the same sentence.
fn normal(sentence: &str) -> String {
    sentence.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn corpus() -> Vec<SentencePair> {
        // 600 pairs; every third repeats the source of the one before it, in capitals.
        (0..600)
            .map(|i| {
                let source =
                    if i % 3 == 2 { format!("SOURCE  {}", i - 1) } else { format!("source {i}") };
                SentencePair::new(source, format!("target {i}"))
            })
            .collect()
    }

    #[test]
    fn no_sentence_stands_on_both_sides() {
        let Split { train, validation } = split(corpus(), 0.1, 5);
        assert_eq!(train.len() + validation.len(), 600);
        assert_eq!(validation.len(), 60);
        let known: HashSet<String> = train.iter().map(|pair| normal(&pair.source)).collect();
        assert!(validation.iter().all(|pair| !known.contains(&normal(&pair.source))));
    }

    #[test]
    fn the_seed_alone_decides() {
        assert_eq!(split(corpus(), 0.1, 5), split(corpus(), 0.1, 5));
        assert_ne!(split(corpus(), 0.1, 5), split(corpus(), 0.1, 6));
    }

    /// a–x, b–x, b–y are one group through x and b; c–z is another.
    #[test]
    fn groups_join_through_either_side() {
        let pairs = [("a", "x"), ("c", "z"), ("b", "y"), ("b", "x")]
            .map(|(source, target)| SentencePair::new(source, target));
        assert_eq!(groups(&pairs), [vec![0, 2, 3], vec![1]]);
    }

    #[test]
    fn a_corpus_of_copies_cannot_be_split() {
        let pairs = vec![SentencePair::new("a", "b"); 10];
        assert_eq!(split(pairs, 0.5, 1).validation, []);
    }
}
