//! Mixture of corpora: each epoch contains a number of pairs of each.

use std::{borrow::Cow, ops::Range, sync::Arc};

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use tx_text::special::BOS;

use crate::{encoded_pair::EncodedPair, store::PairStore};

/// Mixed into the seed of the choice, so that its random numbers differ from those of the order.
const CHOICE: u64 = 0x2545_f491_4f6c_dd1d;

/// Corpus of a mixture.
#[derive(Debug, Clone)]
pub struct MixturePart {
    /// Pairs to choose from.
    pub pairs: PairStore,
    /// Number of pairs in an epoch. Pairs are repeated if there are fewer.
    pub per_epoch: usize,
    /// First epoch with pairs of this corpus, from 1.
    pub first_epoch: usize,
    /// Last epoch with pairs of this corpus; `None` if there is no last one.
    pub last_epoch: Option<usize>,
    /// Ids added to each pair.
    pub added: AddedIds,
}

/// Ids added to the start of both sides of a pair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddedIds {
    /// Ids at the start of the source, after `<bos>` if there is one.
    pub source: Vec<u32>,
    /// Ids after the first id of the target, which is `<bos>`.
    pub target: Vec<u32>,
}

impl AddedIds {
    fn is_empty(&self) -> bool {
        self.source.is_empty() && self.target.is_empty()
    }

    /// Returns the largest number of ids that a side gets.
    pub fn most(&self) -> usize {
        self.source.len().max(self.target.len())
    }

    /// Adds the ids to a pair.
    pub fn add_to(&self, pair: &mut EncodedPair) {
        // A source starts with `<bos>` only if its tokenizer adds it.
        let source = usize::from(pair.source.first() == Some(&BOS));
        pair.insert_source(source, &self.source);
        pair.insert_target(pair.target.len().min(1), &self.target);
    }
}

impl MixturePart {
    /// Creates a part of all epochs.
    pub fn new(pairs: PairStore, per_epoch: usize) -> Self {
        Self { pairs, per_epoch, first_epoch: 1, last_epoch: None, added: AddedIds::default() }
    }

    /// Returns the number of pairs in an epoch, from 1.
    pub fn count(&self, epoch: usize) -> usize {
        let is_used = epoch >= self.first_epoch && self.last_epoch.is_none_or(|last| epoch <= last);
        if is_used && !self.pairs.is_empty() { self.per_epoch } else { 0 }
    }

    /// Chooses the pairs of an epoch.
    ///
    /// If an epoch contains each pair once, they are in the order of the corpus. Otherwise the
    /// pairs of successive epochs are successive parts of an endless sequence: all pairs in a
    /// random order, then all in another, and so on.
    fn choose(&self, seed: u64, epoch: usize) -> Chosen {
        let (count, available) = (self.count(epoch), self.pairs.len());
        if count == 0 || count == available {
            return Chosen::Range(0..count);
        }
        let first = (epoch - self.first_epoch).saturating_mul(count);
        let mut chosen = Vec::with_capacity(count);
        let (mut pass, mut skipped) = (first / available, first % available);
        while chosen.len() < count {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            random.set_stream(pass as u64);
            let mut order: Vec<u32> = (0..available as u32).collect();
            order.shuffle(&mut random);
            chosen.extend(order.into_iter().skip(skipped).take(count - chosen.len()));
            (pass, skipped) = (pass + 1, 0);
        }
        Chosen::Indices(chosen.into())
    }
}

/// Pairs of a corpus in an epoch, by index.
#[derive(Debug, Clone)]
enum Chosen {
    Range(Range<usize>),
    Indices(Arc<[u32]>),
}

impl Chosen {
    fn len(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::Indices(indices) => indices.len(),
        }
    }

    /// Index in the corpus of number `index` of the chosen pairs.
    fn get(&self, index: usize) -> usize {
        match self {
            Self::Range(range) => {
                assert!(index < range.len(), "{index} of {}", range.len());
                range.start + index
            }
            Self::Indices(indices) => indices[index] as usize,
        }
    }
}

/// Pairs of one or several corpora in one epoch: those of the first corpus, then those of the
/// second, and so on. A mixture of one corpus with as many pairs in an epoch as it has is that
/// corpus.
///
/// Seed and epoch determine them. A [`BatchSampler`](crate::sampler::BatchSampler) shuffles them.
#[derive(Debug, Clone)]
pub struct Mixture {
    parts: Arc<[MixturePart]>,
    /// Chosen pairs of each part.
    chosen: Vec<Chosen>,
    /// Range of all chosen pairs that a slice has in each epoch.
    range: Range<usize>,
}

impl Mixture {
    /// Creates the mixture of the first epoch with the seed 0; see [`of_epoch`](Self::of_epoch).
    pub fn new(parts: Vec<MixturePart>) -> Self {
        Self { parts: parts.into(), chosen: Vec::new(), range: 0..usize::MAX }.of_epoch(0, 1)
    }

    /// Returns the pairs of an epoch, from 1.
    pub fn of_epoch(&self, seed: u64, epoch: usize) -> Self {
        let choose = |(number, part): (usize, &MixturePart)| {
            // Odd factors, so that the choices of all parts differ.
            part.choose(seed ^ CHOICE.wrapping_mul(2 * number as u64 + 1), epoch.max(1))
        };
        let chosen = self.parts.iter().enumerate().map(choose).collect();
        Self { parts: self.parts.clone(), chosen, range: self.range.clone() }
    }

    /// Returns the number of pairs of the epoch.
    pub fn len(&self) -> usize {
        let all = self.chosen.iter().map(Chosen::len).sum::<usize>();
        all.min(self.range.end).saturating_sub(self.range.start)
    }

    /// Returns `true` if there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Corpus of a pair, and its index there.
    fn find(&self, index: usize) -> (&MixturePart, usize) {
        let mut index = self.range.start + index;
        // An index after the last pair is out of bounds in the last part.
        let mut part = 0;
        while part + 1 < self.parts.len() && index >= self.chosen[part].len() {
            index -= self.chosen[part].len();
            part += 1;
        }
        (&self.parts[part], self.chosen[part].get(index))
    }

    /// Returns the numbers of source and target tokens of a pair.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    pub fn lengths(&self, index: usize) -> [usize; 2] {
        let (part, index) = self.find(index);
        let [source, target] = part.pairs.lengths(index);
        [source + part.added.source.len(), target + part.added.target.len()]
    }

    /// Returns the pair at `index`.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    pub fn pair(&self, index: usize) -> Cow<'_, EncodedPair> {
        let (part, index) = self.find(index);
        let mut pair = part.pairs.pair(index);
        if !part.added.is_empty() {
            part.added.add_to(pair.to_mut());
        }
        pair
    }

    /// Returns the pairs from `start` to `end`, exclusive.
    ///
    /// # Panics
    ///
    /// If the range is out of bounds.
    pub fn slice(&self, start: usize, end: usize) -> Self {
        assert!(start <= end && end <= self.len(), "{start}..{end} of {}", self.len());
        let range = self.range.start + start..self.range.start + end;
        Self { range, ..self.clone() }
    }
}

impl<P: Into<PairStore>> From<P> for Mixture {
    /// Mixture of one corpus, with all of its pairs in each epoch.
    fn from(pairs: P) -> Self {
        let pairs = pairs.into();
        let count = pairs.len();
        Self::new(vec![MixturePart::new(pairs, count)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoded_pair::{Link, PairAnnotation};

    /// Pairs with the ids from `first`.
    fn pairs(first: u32, count: u32) -> PairStore {
        (first..first + count).map(|id| EncodedPair::new(vec![id, 2], vec![1, id, 2])).collect()
    }

    fn mixture(parts: &[(u32, u32, usize)]) -> Mixture {
        let part = |&(first, count, per_epoch)| MixturePart::new(pairs(first, count), per_epoch);
        Mixture::new(parts.iter().map(part).collect())
    }

    fn ids(pairs: &Mixture) -> Vec<u32> {
        (0..pairs.len()).map(|index| pairs.pair(index).source[0]).collect()
    }

    #[test]
    fn an_epoch_has_all_pairs_of_one_corpus_and_some_of_another() {
        let mixture_of_two = mixture(&[(10, 8, 8), (100, 5, 2)]);
        assert_eq!(mixture_of_two.len(), 10);
        let mut others = Vec::new();
        for epoch in 1..=5 {
            let found = ids(&mixture_of_two.of_epoch(1, epoch));
            assert_eq!(found[..8], [10, 11, 12, 13, 14, 15, 16, 17]);
            assert_eq!(ids(&mixture_of_two.of_epoch(1, epoch)), found);
            others.extend_from_slice(&found[8..]);
        }
        // Five epochs are two passes over the five pairs.
        let (first, second) = others.split_at_mut(5);
        assert_ne!(first, second);
        first.sort_unstable();
        second.sort_unstable();
        assert_eq!(first, [100, 101, 102, 103, 104]);
        assert_eq!(first, second);
        // Another seed chooses others; that 20 of 50 are the same in the same order is out of the question.
        let many = mixture(&[(10, 8, 8), (100, 50, 20)]);
        assert_ne!(ids(&many.of_epoch(1, 1)), ids(&many.of_epoch(2, 1)));
    }

    #[test]
    fn few_pairs_are_repeated_within_an_epoch() {
        let found = ids(&mixture(&[(10, 2, 2), (100, 2, 5)]).of_epoch(1, 3));
        assert_eq!(found.len(), 7);
        for id in [100, 101] {
            assert!(found.iter().filter(|&&found| found == id).count() >= 2, "{found:?}");
        }
        assert_eq!(mixture(&[(10, 2, 2), (100, 0, 5)]).of_epoch(1, 1).len(), 2);
    }

    /// 100 pairs at weight 0.3 and 40 at weight 2.5 in each epoch; after ten epochs each pair has
    /// occurred 3 and 25 times.
    #[test]
    fn all_pairs_of_a_corpus_occur_equally_often() {
        let mixture = mixture(&[(0, 100, 30), (1_000, 40, 100)]);
        let mut counts = std::collections::HashMap::new();
        for epoch in 1..=10 {
            let found = ids(&mixture.of_epoch(7, epoch));
            assert_eq!(found.iter().filter(|&&id| id < 1_000).count(), 30);
            assert_eq!(found.len(), 130);
            found.into_iter().for_each(|id| *counts.entry(id).or_insert(0) += 1);
        }
        assert!((0..100).all(|id| counts[&id] == 3));
        assert!((1_000..1_040).all(|id| counts[&id] == 25));
    }

    #[test]
    fn a_stage_starts_and_ends() {
        let part = |first, first_epoch, last_epoch| MixturePart {
            first_epoch,
            last_epoch,
            ..MixturePart::new(pairs(first, 3), 3)
        };
        let mixture = Mixture::new(vec![part(10, 1, Some(2)), part(100, 2, None)]);
        let of = |epoch| ids(&mixture.of_epoch(1, epoch));
        assert_eq!(of(1), [10, 11, 12]);
        assert_eq!(of(2), [10, 11, 12, 100, 101, 102]);
        assert_eq!(of(3), [100, 101, 102]);
    }

    #[test]
    fn a_slice_is_a_part_of_an_epoch() {
        let mixture = mixture(&[(10, 4, 4), (100, 9, 3), (200, 2, 2)]).of_epoch(1, 2);
        let all = ids(&mixture);
        for start in 0..=9 {
            for end in start..=9 {
                assert_eq!(ids(&mixture.slice(start, end)), all[start..end], "{start}..{end}");
            }
        }
        // A slice of a slice, and the same slice of another epoch.
        let slice = mixture.slice(2, 8);
        assert_eq!(ids(&slice.slice(1, 4)), all[3..6]);
        assert_eq!(ids(&slice.of_epoch(1, 3)), ids(&mixture.of_epoch(1, 3))[2..8]);
    }

    /// A corpus as the only one of a mixture is the corpus, in its order, in every epoch.
    #[test]
    fn a_mixture_of_one_corpus_is_the_corpus() {
        let mixture = Mixture::from(pairs(10, 5));
        for epoch in 1..=3 {
            assert_eq!(ids(&mixture.of_epoch(7, epoch)), [10, 11, 12, 13, 14]);
        }
    }

    #[test]
    fn tokens_precede_the_text() {
        let pair = || EncodedPair::new(vec![7, 8, 2], vec![1, 9, 2]);
        for (source, target, expected) in [
            (None, None, [vec![7, 8, 2], vec![1, 9, 2]]),
            (Some(5), None, [vec![5, 7, 8, 2], vec![1, 9, 2]]),
            (Some(5), Some(6), [vec![5, 7, 8, 2], vec![1, 6, 9, 2]]),
        ] {
            let (source, target) = (source.into_iter().collect(), target.into_iter().collect());
            let tokens = AddedIds { source, target };
            let mut pair = pair();
            tokens.add_to(&mut pair);
            assert_eq!([pair.source, pair.target], expected);
            assert_eq!(tokens.most(), usize::from(!tokens.source.is_empty()));
        }
    }

    /// A tag before the source of some pairs, and a language token on both sides of others.
    #[test]
    fn ids_are_added_to_the_pairs_of_a_corpus() {
        let part = |first, source: &[u32], target: &[u32]| MixturePart {
            added: AddedIds { source: source.into(), target: target.into() },
            ..MixturePart::new(pairs(first, 1), 1)
        };
        let mixture = Mixture::new(vec![part(10, &[5], &[]), part(20, &[6, 5], &[7])]);
        let pair = |index| mixture.pair(index).into_owned();
        assert_eq!((pair(0).source, pair(0).target), (vec![5, 10, 2], vec![1, 10, 2]));
        assert_eq!((pair(1).source, pair(1).target), (vec![6, 5, 20, 2], vec![1, 7, 20, 2]));
        assert_eq!([mixture.lengths(0), mixture.lengths(1)], [[3, 3], [4, 4]]);
        let bos = EncodedPair::new(vec![BOS, 9, 2], vec![1, 2]);
        let bos = MixturePart { pairs: vec![bos].into(), ..part(10, &[5], &[]) };
        assert_eq!(Mixture::new(vec![bos]).pair(0).source, [BOS, 5, 9, 2]);
        // A link between the texts `8` and `9` stays one.
        let links = vec![Link { source: 0, target: 1 }];
        let annotation = Some(Box::new(PairAnnotation { weight: 1.0, links }));
        let pair = EncodedPair { annotation, ..EncodedPair::new(vec![8, 2], vec![1, 9, 2]) };
        let part = MixturePart { pairs: vec![pair].into(), ..part(20, &[6, 5], &[7]) };
        let pair = Mixture::new(vec![part]).pair(0).into_owned();
        let link = pair.annotation.unwrap().links[0];
        assert_eq!((pair.source[link.source], pair.target[link.target]), (8, 9));
    }
}
