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

use crate::{
    batch::Seq2SeqBatch,
    encode::EncodedPair,
    sampler::{self, BatchSize, Grouping},
};

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
    /// None keeps the pairs in order of length.
    seed: Option<u64>,
    next_epoch: Arc<AtomicUsize>,
    device: Device,
}

impl PairLoader {
    /// Shuffles anew each epoch.
    pub fn training(pairs: Vec<EncodedPair>, size: BatchSize, seed: u64, device: Device) -> Self {
        Self { seed: Some(seed), ..Self::validation(pairs, size, device) }
    }

    /// Gives the same batches, sorted by length, every time.
    pub fn validation(pairs: Vec<EncodedPair>, size: BatchSize, device: Device) -> Self {
        let next_epoch = Arc::new(AtomicUsize::new(1));
        let grouping = Grouping::Length;
        Self { pairs: pairs.into(), size, grouping, seed: None, next_epoch, device }
    }

    /// Puts other sentences together than those of like length.
    pub fn grouped(self, grouping: Grouping) -> Self {
        Self { grouping, ..self }
    }

    /// The next iteration is that of `epoch`, from 1; for going on after a stop.
    pub fn starting_at(self, epoch: usize) -> Self {
        self.next_epoch.store(epoch, Ordering::SeqCst);
        self
    }

    /// Batches in the next epoch.
    pub fn batches(&self) -> usize {
        self.plan(self.next_epoch.load(Ordering::SeqCst)).len()
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
        let batches = self.plan(epoch).into_iter();
        Box::new(PairIterator { loader: self, batches, done: 0 })
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
    batches: std::vec::IntoIter<Vec<usize>>,
    /// Pairs given so far.
    done: usize,
}

impl Iterator for PairIterator<'_> {
    type Item = Result<Seq2SeqBatch, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let indices = self.batches.next()?;
        self.done += indices.len();
        let pairs: Vec<&EncodedPair> =
            indices.iter().map(|&index| &self.loader.pairs[index]).collect();
        Some(Ok(Seq2SeqBatch::new(&pairs, &self.loader.device)))
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
        assert_eq!(epoch(&loader().starting_at(2)), two);
        assert_eq!(epoch(&*loader().starting_at(2).to_device(&Device::flex())), two);
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
