//! Split of a corpus into training and validation pairs that share no sentence.

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use tx_text::SentencePair;

use crate::{
    encode::TargetSide,
    error::DataError,
    near_duplicate::{KEYS, keys_of_text, keys_with},
};

/// Corpus in two parts that share no sentence, on either side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Training pairs.
    pub train: Vec<SentencePair>,
    /// Validation pairs.
    pub validation: Vec<SentencePair>,
}

impl Split {
    /// Splits `pairs` by `held_out`, which tells for each pair whether it is a validation pair.
    /// Each part is in the order of the corpus.
    pub(crate) fn of(pairs: Vec<SentencePair>, held_out: &[bool]) -> Self {
        let mut split = Self { train: Vec::new(), validation: Vec::new() };
        for (pair, &held_out) in pairs.into_iter().zip(held_out) {
            if held_out { &mut split.validation } else { &mut split.train }.push(pair);
        }
        split
    }
}

/// Criterion of the split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SplitBy {
    /// The seed: exactly the requested fraction; another seed or corpus selects other pairs.
    Seed,
    /// The text of the pair: a pair stays in its part when the corpus grows, for any seed. The
    /// fraction is approximate.
    Hash,
}

/// Creates the error for a split of `count` examples, called `unit`, without any validation example.
pub fn none_set_aside(count: usize, unit: &'static str, fraction: f64, by: SplitBy) -> DataError {
    let one = unit.strip_suffix('s').unwrap_or(unit);
    let wanted = wanted(count, fraction);
    let reason = match (count, wanted, by) {
        (1, 0, _) => format!("there is one {one}, and the fraction is {fraction}"),
        (_, 0, _) => format!("the fraction {fraction} of {count} {unit} is less than half a {one}"),
        (_, _, SplitBy::Seed) => format!(
            "each of the {count} {unit} belongs to a group of near duplicates with more than {wanted} \
             {unit}, which are to be set aside"
        ),
        (_, _, SplitBy::Hash) => {
            format!("the hashes of the {count} {unit} select none for the fraction {fraction}")
        }
    };
    DataError::NoneSetAside { unit, reason }
}

/// Number of examples to set aside.
fn wanted(count: usize, fraction: f64) -> usize {
    (count as f64 * fraction).round() as usize
}

/// Moves about `fraction` of the pairs to validation.
///
/// Pairs whose sources or targets are near duplicates
/// ([`template`](crate::near_duplicate::template)), directly or through other pairs, stay in one
/// part: a sentence of the validation part does not occur in training, even with another number.
/// Each part is in the order of the corpus.
pub fn split(pairs: Vec<SentencePair>, fraction: f64, by: SplitBy, seed: u64) -> Split {
    let held_out = held_out(&pairs, TargetSide::Sentence, fraction, by, seed);
    Split::of(pairs, &held_out)
}

/// Moves about `fraction` of the texts to validation, as [`split`] does; returns training and
/// validation texts.
pub fn split_texts(
    texts: Vec<String>,
    fraction: f64,
    by: SplitBy,
    seed: u64,
) -> (Vec<String>, Vec<String>) {
    let keys = texts.iter().map(|text| keys_of_text(text)).collect();
    let held_out = held_out_by_keys(keys, fraction, by, seed);
    let (mut training, mut validation) = (Vec::new(), Vec::new());
    for (text, held_out) in texts.into_iter().zip(held_out) {
        if held_out { &mut validation } else { &mut training }.push(text);
    }
    (training, validation)
}

/// Selects the validation pairs of [`split`]. Returns for each pair whether it is selected. Targets that are
/// labels are not compared.
pub fn held_out(
    pairs: &[SentencePair],
    target: TargetSide,
    fraction: f64,
    by: SplitBy,
    seed: u64,
) -> Vec<bool> {
    let keys = pairs.iter().map(|pair| keys_with(pair, target)).collect();
    held_out_by_keys(keys, fraction, by, seed)
}

fn held_out_by_keys(keys: Vec<[u64; KEYS]>, fraction: f64, by: SplitBy, seed: u64) -> Vec<bool> {
    let mut groups = UnionFind::new(keys.len());
    groups.union_by_key(keys.as_flattened().iter().copied(), |_| true);
    let least = match by {
        SplitBy::Hash => groups.least_keys(keys.as_flattened().iter().copied()),
        SplitBy::Seed => Vec::new(),
    };
    groups.held_out(fraction, by, seed, &least)
}

/// Disjoint sets of pairs that are near duplicates; four bytes a pair.
#[derive(Debug, Clone)]
pub struct UnionFind {
    /// For each pair an earlier one of its set, or itself.
    parent: Vec<u32>,
}

impl UnionFind {
    /// Creates one set for each pair.
    ///
    /// # Panics
    ///
    /// If there are more than 4,294,967,295 pairs.
    pub fn new(pairs: usize) -> Self {
        assert!(u32::try_from(pairs).is_ok(), "{pairs} pairs are too many for one split");
        Self { parent: (0..pairs as u32).collect() }
    }

    /// Merges the sets of pairs that share a key. `keys` yields [`KEYS`] for each pair, in order.
    /// Only keys for which `is_included` holds are compared, so that the work can be divided into
    /// rounds that need little memory.
    pub fn union_by_key(
        &mut self,
        keys: impl Iterator<Item = u64>,
        is_included: impl Fn(u64) -> bool,
    ) {
        let mut positions: Vec<(u64, u32)> = keys
            .enumerate()
            .filter(|&(_, key)| is_included(key))
            .map(|(index, key)| (key, (index / KEYS) as u32))
            .collect();
        positions.sort_unstable();
        for pair in positions.windows(2) {
            if pair[0].0 == pair[1].0 {
                let (a, b) = (self.find(pair[0].1), self.find(pair[1].1));
                self.parent[a.max(b) as usize] = a.min(b);
            }
        }
    }

    /// The first pair of the set that contains `index`; shortens the path for the next call.
    fn find(&mut self, mut index: u32) -> u32 {
        while self.parent[index as usize] != index {
            self.parent[index as usize] = self.parent[self.parent[index as usize] as usize];
            index = self.parent[index as usize];
        }
        index
    }

    /// Returns the smallest key of each set, at the index of its first pair.
    pub fn least_keys(&mut self, keys: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut least = vec![u64::MAX; self.parent.len()];
        for (index, key) in keys.enumerate() {
            let root = self.find((index / KEYS) as u32) as usize;
            least[root] = least[root].min(key);
        }
        least
    }

    /// Number of pairs in each set, at the index of its first pair.
    fn sizes(&mut self) -> Vec<u32> {
        let mut sizes = vec![0; self.parent.len()];
        for index in 0..self.parent.len() {
            sizes[self.find(index as u32) as usize] += 1;
        }
        sizes
    }

    /// Selects sets for validation. Returns for each pair whether it is selected. [`SplitBy::Hash`]
    /// needs `least`, the [smallest keys](Self::least_keys).
    pub fn held_out(mut self, fraction: f64, by: SplitBy, seed: u64, least: &[u64]) -> Vec<bool> {
        let pairs = self.parent.len();
        let sizes = self.sizes();
        let wanted = wanted(pairs, fraction);
        let mut chosen = vec![false; pairs];
        match by {
            SplitBy::Seed => {
                let mut order: Vec<usize> = (0..pairs).filter(|&root| sizes[root] > 0).collect();
                order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
                let mut count = 0;
                for root in order {
                    // A set larger than the number of pairs still needed stays in training.
                    if count + sizes[root] as usize <= wanted {
                        count += sizes[root] as usize;
                        chosen[root] = true;
                    }
                }
            }
            SplitBy::Hash => {
                // A large set would make validation much larger or smaller than requested.
                let largest = wanted.div_ceil(10);
                for (root, &size) in sizes.iter().enumerate() {
                    let position = mixed(least.get(root).copied().unwrap_or_default());
                    chosen[root] = (1..=largest).contains(&(size as usize))
                        && (position as f64) < fraction * 2_f64.powi(64);
                }
            }
        }
        (0..pairs).map(|index| chosen[self.find(index as u32) as usize]).collect()
    }
}

/// Mixes a key by the last step of SplitMix64 (Steele et al. 2014), because the smallest of many
/// keys is not uniformly distributed.
fn mixed(key: u64) -> u64 {
    let key = (key ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ key >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ key >> 31
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::near_duplicate::{OverlapFinder, keys};

    fn words(number: usize) -> String {
        // Letters, because templates fold numbers.
        format!("{number}").bytes().map(|digit| (digit + b'a' - b'0') as char).collect()
    }

    fn corpus() -> Vec<SentencePair> {
        // 600 pairs; every third repeats the source of the one before it, in capitals.
        (0..600)
            .map(|i| {
                let source = if i % 3 == 2 {
                    format!("SOURCE  {}!", words(i - 1))
                } else {
                    format!("source {}", words(i))
                };
                SentencePair::new(source, format!("target {}", words(i)))
            })
            .collect()
    }

    fn assert_apart(split: &Split) {
        let mut finder = OverlapFinder::new(&split.validation);
        assert!(!split.train.iter().any(|pair| finder.meet(pair)));
    }

    #[test]
    fn no_sentence_is_in_both_parts() {
        let parts = split(corpus(), 0.1, SplitBy::Seed, 5);
        assert_eq!((parts.train.len(), parts.validation.len()), (540, 60));
        assert_apart(&parts);
        let parts = split(corpus(), 0.1, SplitBy::Hash, 5);
        assert!((30..90).contains(&parts.validation.len()), "{}", parts.validation.len());
        assert_apart(&parts);
    }

    #[test]
    fn a_split_depends_only_on_the_seed_or_only_on_the_text() {
        let by = |by, seed| split(corpus(), 0.1, by, seed);
        assert_eq!(by(SplitBy::Seed, 5), by(SplitBy::Seed, 5));
        assert_ne!(by(SplitBy::Seed, 5), by(SplitBy::Seed, 6));
        assert_eq!(by(SplitBy::Hash, 5), by(SplitBy::Hash, 6));
    }

    /// Splits half the corpus by hash, then all of it: no pair changes parts.
    #[test]
    fn a_split_by_hash_is_stable_when_the_corpus_grows() {
        let part = |count: usize| {
            let pairs = corpus().into_iter().take(count).collect();
            let validation = split(pairs, 0.1, SplitBy::Hash, 1).validation;
            validation.into_iter().collect::<HashSet<_>>()
        };
        let (half, all) = (part(300), part(600));
        let known: HashSet<_> = corpus().into_iter().take(300).collect();
        assert!(!half.is_empty());
        assert_eq!(half, all.intersection(&known).cloned().collect());
    }

    /// a–x, b–x, b–y are one set through x and b; c–z is another.
    #[test]
    fn groups_join_through_either_side() {
        let pairs = [("a", "x"), ("c", "z"), ("b", "y"), ("b", "x")]
            .map(|(source, target)| SentencePair::new(source, target));
        let keys: Vec<u64> = pairs.iter().flat_map(keys).collect();
        for rounds in [1, 3] {
            let mut groups = UnionFind::new(4);
            for round in 0..rounds {
                groups.union_by_key(keys.iter().copied(), |key| key % rounds == round);
            }
            let roots = [0, 1, 2, 3].map(|index| groups.find(index));
            assert_eq!(roots, [0, 1, 0, 0]);
        }
    }

    #[test]
    fn a_corpus_of_copies_cannot_be_split() {
        for by in [SplitBy::Seed, SplitBy::Hash] {
            let pairs = vec![SentencePair::new("a", "b"); 10];
            assert_eq!(split(pairs, 0.5, by, 1).validation, []);
        }
    }

    /// 300 sentences of each of six templates that differ only in numbers and names, among 1,000
    /// others: each template is in one part.
    #[test]
    fn templates_stay_together() {
        let names = ["Tom", "Mary", "Anna", "Karl", "Otto"];
        let mut pairs: Vec<SentencePair> = (0..1_000)
            .map(|i| SentencePair::new(format!("word {}", words(i)), format!("Wort {}", words(i))))
            .collect();
        for i in 0..300 {
            let name = names[i % 5];
            for (source, target) in [
                (format!("{name} is {i} years old."), format!("{name} ist {i} Jahre alt.")),
                (format!("See page {i}, {name}!"), format!("Siehe Seite {i}, {name}!")),
                (format!("{name} called at {i}:15."), format!("{name} rief um {i}:15 an.")),
                (format!("{i} dogs run"), format!("{i} Hunde laufen")),
                (format!("WHO IS {}?", name.to_uppercase()), format!("Wer ist {name}?")),
                (format!("\"{name}\" costs ${i}.50"), format!("„{name}“ kostet {i},50 $")),
            ] {
                pairs.push(SentencePair::new(source, target));
            }
        }
        for by in [SplitBy::Seed, SplitBy::Hash] {
            for seed in 1..=3 {
                let parts = split(pairs.clone(), 0.2, by, seed);
                assert!(parts.validation.len() > 100);
                assert_apart(&parts);
            }
        }
    }
}
