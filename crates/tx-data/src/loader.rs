//! Burn's data loader over encoded pairs, in an order that can be repeated.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use burn::{
    data::{
        dataloader::{DataLoader, DataLoaderIterator, Progress},
        dataset::DatasetError,
    },
    tensor::Device,
};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::{
    batch::Seq2SeqBatch,
    encode::EncodedPair,
    sampler::{self, BatchSize, Grouping},
};

/// Makes the random numbers of word dropout others than those of the order.
const WORDS: u64 = 0x5bd1_e995_7f4a_7c15;

/// Gives the batches of one epoch each time it is iterated over.
///
/// The order of a training loader is a function of the seed and the number of the epoch: the first
/// call of [`iter`](DataLoader::iter) gives epoch 1, or the one set by
/// [`starting_at`](Self::starting_at), and each later call the next. Loaders made with
/// [`to_device`](DataLoader::to_device) share that count.
#[derive(Debug, Clone)]
pub struct PairLoader {
    pairs: Arc<[EncodedPair]>,
    size: BatchSize,
    grouping: Grouping,
    word_dropout: f64,
    /// None keeps the pairs in order of length.
    seed: Option<u64>,
    next_epoch: Arc<AtomicUsize>,
    /// Batches that the next iteration leaves out.
    left_out: Arc<AtomicUsize>,
    device: Device,
}

impl PairLoader {
    /// Shuffles anew each epoch.
    pub fn training(pairs: Vec<EncodedPair>, size: BatchSize, seed: u64, device: Device) -> Self {
        Self { seed: Some(seed), ..Self::validation(pairs, size, device) }
    }

    /// Gives the same batches, sorted by length, every time.
    pub fn validation(pairs: Vec<EncodedPair>, size: BatchSize, device: Device) -> Self {
        Self {
            pairs: pairs.into(),
            size,
            grouping: Grouping::Length,
            word_dropout: 0.0,
            seed: None,
            next_epoch: Arc::new(AtomicUsize::new(1)),
            left_out: Arc::default(),
            device,
        }
    }

    /// Puts other sentences together than those of like length.
    pub fn grouped(self, grouping: Grouping) -> Self {
        Self { grouping, ..self }
    }

    /// Replaces so large a share of the words that are read by `<unk>`, other ones each epoch.
    pub fn dropping_words(self, share: f64) -> Self {
        Self { word_dropout: share, ..self }
    }

    /// The next iteration is that of `epoch`, from 1, without its first `batches`; for going on
    /// after a stop.
    pub fn starting_at(self, epoch: usize, batches: usize) -> Self {
        self.next_epoch.store(epoch, Ordering::SeqCst);
        self.left_out.store(batches, Ordering::SeqCst);
        self
    }

    /// Batches in the next epoch.
    pub fn batches(&self) -> usize {
        self.plan(self.next_epoch.load(Ordering::SeqCst)).len()
    }

    /// The most source and target tokens in a batch of the next epoch, padding included.
    pub fn largest_batch(&self) -> [usize; 2] {
        let mut largest = [0, 0];
        for batch in self.plan(self.next_epoch.load(Ordering::SeqCst)) {
            for (side, largest) in largest.iter_mut().enumerate() {
                let len = |&index: &usize| {
                    let EncodedPair { source, target } = &self.pairs[index];
                    [source.len(), target.len().saturating_sub(1)][side]
                };
                let tokens = batch.len() * batch.iter().map(len).max().unwrap_or(0);
                *largest = tokens.max(*largest);
            }
        }
        largest
    }

    fn plan(&self, epoch: usize) -> Vec<Vec<usize>> {
        match self.seed {
            Some(seed) => sampler::shuffled(&self.pairs, self.size, self.grouping, seed, epoch),
            None => sampler::sorted(&self.pairs, self.size),
        }
    }
}

impl DataLoader<Seq2SeqBatch> for PairLoader {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<Seq2SeqBatch> + 'a> {
        let epoch = self.next_epoch.fetch_add(1, Ordering::SeqCst);
        let mut batches = self.plan(epoch);
        let left_out = self.left_out.swap(0, Ordering::SeqCst).min(batches.len());
        let done = batches.drain(..left_out).map(|batch| batch.len()).sum();
        Box::new(PairIterator {
            loader: self,
            epoch,
            number: left_out,
            batches: batches.into_iter(),
            done,
        })
    }

    fn num_items(&self) -> usize {
        self.pairs.len()
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<Seq2SeqBatch>> {
        Arc::new(Self { device: device.clone(), ..self.clone() })
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<Seq2SeqBatch>> {
        let next_epoch = AtomicUsize::new(self.next_epoch.load(Ordering::SeqCst));
        Arc::new(Self {
            pairs: self.pairs[start..end].into(),
            next_epoch: Arc::new(next_epoch),
            ..self.clone()
        })
    }
}

/// One epoch on its way.
struct PairIterator<'a> {
    loader: &'a PairLoader,
    epoch: usize,
    /// Of the next batch in its epoch.
    number: usize,
    batches: std::vec::IntoIter<Vec<usize>>,
    /// Pairs given or left out so far.
    done: usize,
}

impl Iterator for PairIterator<'_> {
    type Item = Result<Seq2SeqBatch, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let indices = self.batches.next()?;
        self.done += indices.len();
        let pairs: Vec<&EncodedPair> =
            indices.iter().map(|&index| &self.loader.pairs[index]).collect();
        let number = self.number;
        self.number += 1;
        let PairLoader { seed, word_dropout, device, .. } = self.loader;
        Some(Ok(match seed {
            Some(seed) if *word_dropout > 0.0 => {
                // As for the plan of an epoch, no batch needs the ones before it.
                let mut random = ChaCha8Rng::seed_from_u64(*seed ^ WORDS);
                random.set_stream((self.epoch as u64) << 32 | number as u64);
                Seq2SeqBatch::with_words_dropped(&pairs, *word_dropout, &mut random, device)
            }
            _ => Seq2SeqBatch::new(&pairs, device),
        }))
    }
}

impl DataLoaderIterator<Seq2SeqBatch> for PairIterator<'_> {
    fn progress(&self) -> Progress {
        Progress::new(self.done, self.loader.pairs.len(), Some("pairs".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loader() -> PairLoader {
        let pairs = (0..40)
            .map(|i| EncodedPair { source: vec![i + 4, 2], target: vec![1, i + 4, 2] })
            .collect();
        PairLoader::training(pairs, BatchSize::Sentences(8), 1, Device::flex())
    }

    fn epoch(loader: &dyn DataLoader<Seq2SeqBatch>) -> Vec<i32> {
        loader
            .iter()
            .flat_map(|batch| batch.unwrap().source.into_data().try_into_vec::<i32>().unwrap())
            .collect()
    }

    #[test]
    fn epochs_differ_and_can_be_repeated() {
        let first = loader();
        let (one, two) = (epoch(&first), epoch(&first));
        assert_ne!(one, two);
        assert_eq!(epoch(&loader()), one);
        assert_eq!(epoch(&loader().starting_at(2, 0)), two);
        assert_eq!(epoch(&*loader().starting_at(2, 0).to_device(&Device::flex())), two);
    }

    /// 5 batches of 8 pairs, two ids each.
    #[test]
    fn an_epoch_can_be_gone_on_with() {
        assert_eq!(loader().largest_batch(), [8 * 2, 8 * 2]);
        for word_dropout in [0.0, 0.5] {
            let loader = || loader().dropping_words(word_dropout);
            let first = loader();
            let (one, two) = (epoch(&first), epoch(&first));
            assert_eq!(one.contains(&3), word_dropout > 0.0);
            for batches in 0..=5 {
                let later = loader().starting_at(1, batches);
                assert_eq!(epoch(&later), one[16 * batches..], "after {batches}");
                assert_eq!(epoch(&later), two, "the next is whole");
                let later = loader().starting_at(1, batches);
                let mut batches = later.iter();
                while batches.next().is_some() {}
                assert!(batches.progress().is_completed());
            }
        }
    }

    #[test]
    fn progress_ends_at_the_number_of_pairs() {
        let loader = loader();
        let mut batches = loader.iter();
        while batches.next().is_some() {}
        assert!(batches.progress().is_completed());
        assert_eq!(loader.num_items(), 40);
    }
}
