//! Burn's data loader over encoded pairs, in an order that can be repeated.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, sync_channel},
    },
    thread,
};

use burn::{
    data::{
        dataloader::{DataLoader, DataLoaderIterator, Progress},
        dataset::DatasetError,
    },
    tensor::{Device, StreamId},
};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tx_text::BpeDropout;

use crate::{
    batch::Seq2SeqBatch,
    encode::EncodedPair,
    sampler::{self, BatchSize, Grouping, Shuffled},
    store::PairStore,
};

/// Makes the random numbers of word dropout others than those of the order.
const WORDS: u64 = 0x5bd1_e995_7f4a_7c15;
/// And those of BPE dropout others again.
const MERGES: u64 = 0x94d0_49bb_1331_11eb;
/// Batches that are on the device before they are asked for, beside the one being made.
const AHEAD: usize = 2;

/// Gives the batches of one epoch each time it is iterated over.
///
/// The order of a training loader is a function of the seed and the number of the epoch: the first
/// call of [`iter`](DataLoader::iter) gives epoch 1, or the one set by
/// [`starting_at`](Self::starting_at), and each later call the next. Loaders made with
/// [`to_device`](DataLoader::to_device) share that count.
#[derive(Debug, Clone)]
pub struct PairLoader {
    pairs: PairStore,
    size: BatchSize,
    grouping: Grouping,
    word_dropout: f64,
    bpe_dropout: Option<Arc<BpeDropout>>,
    /// None keeps the pairs in order of length.
    seed: Option<u64>,
    next_epoch: Arc<AtomicUsize>,
    /// Batches that the next iteration leaves out.
    left_out: Arc<AtomicUsize>,
    device: Device,
}

impl PairLoader {
    /// Shuffles anew each epoch.
    pub fn training(
        pairs: impl Into<PairStore>,
        size: BatchSize,
        seed: u64,
        device: Device,
    ) -> Self {
        Self { seed: Some(seed), ..Self::validation(pairs, size, device) }
    }

    /// Gives the same batches, sorted by length, every time.
    pub fn validation(pairs: impl Into<PairStore>, size: BatchSize, device: Device) -> Self {
        Self {
            pairs: pairs.into(),
            size,
            grouping: Grouping::Length,
            word_dropout: 0.0,
            bpe_dropout: None,
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

    /// Segments words anew each epoch. Batches are planned by the lengths without dropout, so they
    /// hold more tokens then.
    pub fn dropping_merges(self, dropout: BpeDropout) -> Self {
        Self { bpe_dropout: Some(Arc::new(dropout)), ..self }
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
        self.plan(self.next_epoch.load(Ordering::SeqCst)).count()
    }

    /// The most source and target tokens in a batch of the next epoch, padding included.
    pub fn largest_batch(&self) -> [usize; 2] {
        let mut largest = [0, 0];
        for batch in self.plan(self.next_epoch.load(Ordering::SeqCst)) {
            for (side, largest) in largest.iter_mut().enumerate() {
                let len = |&index: &usize| {
                    let [source, target] = self.pairs.lengths(index);
                    [source, target.saturating_sub(1)][side]
                };
                let tokens = batch.len() * batch.iter().map(len).max().unwrap_or(0);
                *largest = tokens.max(*largest);
            }
        }
        largest
    }

    fn plan(&self, epoch: usize) -> Box<dyn Iterator<Item = Vec<usize>> + Send> {
        let Self { pairs, size, grouping, seed, .. } = self;
        match *seed {
            Some(seed) => Box::new(Shuffled::new(pairs.clone(), *size, *grouping, seed, epoch)),
            None => Box::new(sampler::sorted(pairs, *size).into_iter()),
        }
    }

    /// The batches of `plan`, of which the first is number `first` of its epoch; made by a thread of
    /// their own while the batch before is learned from.
    ///
    /// That thread only fills vectors and sends them to the device. It must run no operation that
    /// needs the thread pool: with a pool of one thread, that thread may be the one waiting here.
    fn read(
        &self,
        plan: Box<dyn Iterator<Item = Vec<usize>> + Send>,
        epoch: usize,
        first: usize,
    ) -> Receiver<Batch> {
        let (sender, receiver) = sync_channel(AHEAD);
        let loader = self.clone();
        // The stream of the thread that trains: a stream of its own for each epoch would keep memory
        // pools on a GPU, and each use of its tensors would have to be synchronized.
        let stream = StreamId::current();
        thread::spawn(move || {
            stream.executes(|| {
                let mut batches = plan
                    .enumerate()
                    .map(|(number, indices)| loader.batch(&indices, epoch, first + number));
                // Nobody receives any more when an epoch is broken off.
                while batches.next().is_some_and(|batch| sender.send(batch).is_ok()) {}
            });
        });
        receiver
    }

    /// The pairs at `indices` as batch `number` of `epoch`.
    fn batch(&self, indices: &[usize], epoch: usize, number: usize) -> Batch {
        let Self { pairs, word_dropout, bpe_dropout, seed, device, .. } = self;
        let mut pairs: Vec<EncodedPair> =
            indices.iter().map(|&index| pairs.pair(index).into_owned()).collect();
        if let Some(dropout) = bpe_dropout {
            let mut random = random_of_batch(seed.unwrap_or_default() ^ MERGES, epoch, number);
            for EncodedPair { source, target } in &mut pairs {
                dropout.apply(source, target, &mut random);
            }
        }
        let pairs: Vec<&EncodedPair> = pairs.iter().collect();
        let batch = match *seed {
            Some(seed) if *word_dropout > 0.0 => {
                let mut random = random_of_batch(seed ^ WORDS, epoch, number);
                Seq2SeqBatch::with_words_dropped(&pairs, *word_dropout, &mut random, device)
            }
            _ => Seq2SeqBatch::new(&pairs, device),
        };
        Batch { batch, pairs: indices.len() }
    }
}

/// As for the plan of an epoch, no batch needs the ones before it.
fn random_of_batch(seed: u64, epoch: usize, number: usize) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream((epoch as u64) << 32 | number as u64);
    random
}

/// A batch with the number of its pairs.
struct Batch {
    batch: Seq2SeqBatch,
    pairs: usize,
}

impl DataLoader<Seq2SeqBatch> for PairLoader {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<Seq2SeqBatch> + 'a> {
        let epoch = self.next_epoch.fetch_add(1, Ordering::SeqCst);
        let mut plan = self.plan(epoch);
        let left_out = self.left_out.swap(0, Ordering::SeqCst);
        let (mut number, mut done) = (0, 0);
        for batch in plan.by_ref().take(left_out) {
            number += 1;
            done += batch.len();
        }
        let batches = self.read(plan, epoch, number);
        Box::new(PairIterator { total: self.pairs.len(), batches, done, failed: false })
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
            pairs: self.pairs.slice(start, end),
            next_epoch: Arc::new(next_epoch),
            ..self.clone()
        })
    }
}

/// One epoch on its way.
struct PairIterator {
    /// Pairs of the epoch.
    total: usize,
    batches: Receiver<Batch>,
    /// Pairs given or left out so far.
    done: usize,
    /// Whether it ended before its time.
    failed: bool,
}

impl Iterator for PairIterator {
    type Item = Result<Seq2SeqBatch, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.batches.recv() {
            Ok(Batch { batch, pairs }) => {
                self.done += pairs;
                Some(Ok(batch))
            }
            Err(_) if self.done < self.total && !self.failed => {
                self.failed = true;
                let ended = io::Error::other("reading ahead ended before the epoch did");
                Some(Err(DatasetError::new(ended)))
            }
            Err(_) => None,
        }
    }
}

impl DataLoaderIterator<Seq2SeqBatch> for PairIterator {
    fn progress(&self) -> Progress {
        Progress::new(self.done, self.total, Some("pairs".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loader() -> PairLoader {
        let pairs = (0..40)
            .map(|i| EncodedPair { source: vec![i + 4, 2], target: vec![1, i + 4, 2] })
            .collect::<Vec<_>>();
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
