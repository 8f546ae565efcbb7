//! Burn's data loader over batches of tx, in a reproducible order.

use std::{
    io,
    mem::take,
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

use crate::{
    examples::Examples,
    make_batch::{
        MakeBatch, MakeClassificationBatch, MakeLanguageModelBatch, MakeMaskedBatch,
        MakeSeq2SeqBatch, Turn,
    },
    sampler::{self, BatchSampler, BatchSize, Grouping},
};

/// Number of batches sent to the device ahead of use, besides the one under construction.
const AHEAD: usize = 2;

/// Data loader whose iterator yields the batches of one epoch; `M` makes them.
///
/// The order of a training loader is a function of the seed and the epoch. The first call of
/// [`iter`](DataLoader::iter) yields epoch 1, or the epoch set by
/// [`resume_from`](Self::resume_from), and each later call the next epoch. Loaders created by
/// [`to_device`](DataLoader::to_device) share that count. For other orders, the examples are Burn
/// `Dataset`s with `Batcher`s ([`dataset`](crate::dataset)).
#[derive(Debug, Clone)]
pub struct BatchLoader<M: MakeBatch> {
    examples: M::Examples,
    make: M,
    size: BatchSize,
    grouping: Grouping,
    /// Seed of the order; `None` keeps the examples in order of length.
    seed: Option<u64>,
    next_epoch: Arc<AtomicUsize>,
    /// Number of batches that the next iteration skips.
    skipped: Arc<AtomicUsize>,
    share: Share,
    device: Device,
}

/// Batches that a loader yields, of those that `count` loaders divide in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    index: usize,
    count: usize,
}

impl Share {
    const ALL: Self = Self { index: 0, count: 1 };

    /// Returns `true` if the batch of this number is yielded.
    fn contains(self, number: usize) -> bool {
        number % self.count == self.index
    }
}

/// Loader of sentence pairs.
pub type PairLoader = BatchLoader<MakeSeq2SeqBatch>;
/// Loader of labeled texts.
pub type ClassificationLoader = BatchLoader<MakeClassificationBatch>;
/// Loader of packed documents.
pub type LanguageModelLoader = BatchLoader<MakeLanguageModelBatch>;
/// Loader of texts with masked tokens.
pub type MaskedLoader = BatchLoader<MakeMaskedBatch>;

impl<M: MakeBatch> BatchLoader<M> {
    /// Creates a loader of batches that `make` constructs: in each iteration the same batches,
    /// sorted by length, as for validation.
    pub fn new(examples: impl Into<M::Examples>, make: M, size: BatchSize, device: Device) -> Self {
        Self {
            examples: examples.into(),
            make,
            size,
            grouping: Grouping::Length,
            seed: None,
            next_epoch: Arc::new(AtomicUsize::new(1)),
            skipped: Arc::default(),
            share: Share::ALL,
            device,
        }
    }

    /// Orders the examples randomly, anew in each epoch, as for training.
    pub fn shuffled(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Sets the composition of the batches. Default: examples of similar length.
    pub fn with_grouping(self, grouping: Grouping) -> Self {
        Self { grouping, ..self }
    }

    /// Starts the next iteration at `epoch`, from 1, after its first `batches`.
    pub fn resume_from(self, epoch: usize, batches: usize) -> Self {
        self.next_epoch.store(epoch, Ordering::SeqCst);
        self.skipped.store(batches, Ordering::SeqCst);
        self
    }

    /// Yields only one of `count` batches in turn, of which the loader with `index` yields the
    /// first, counted from the first batch of an epoch or after those that
    /// [`resume_from`](Self::resume_from) skips. Batches of other loaders are not constructed.
    /// Numbers of batches and examples remain those of all loaders together.
    pub fn with_share(self, index: usize, count: usize) -> Self {
        Self { share: Share { index, count: count.max(1) }, ..self }
    }

    /// Number of batches in the next epoch.
    pub fn batches(&self) -> usize {
        let epoch = self.next_epoch.load(Ordering::SeqCst);
        self.plan(&self.examples_of(epoch), epoch).count()
    }

    /// Largest numbers of source and target tokens in a batch of the next epoch, padding included.
    pub fn largest_batch(&self) -> [usize; 2] {
        let mut largest = [0, 0];
        let epoch = self.next_epoch.load(Ordering::SeqCst);
        let examples = self.examples_of(epoch);
        for batch in self.plan(&examples, epoch) {
            for (side, largest) in largest.iter_mut().enumerate() {
                let len = |&index: &usize| {
                    let [source, target] = examples.lengths(index);
                    [source, target.saturating_sub(1)][side]
                };
                let tokens = batch.len() * batch.iter().map(len).max().unwrap_or(0);
                *largest = tokens.max(*largest);
            }
        }
        largest
    }

    /// Examples of an epoch.
    fn examples_of(&self, epoch: usize) -> M::Examples {
        match self.seed {
            Some(seed) => self.examples.of_epoch(seed, epoch),
            None => self.examples.clone(),
        }
    }

    /// Batches of an epoch as indices of its examples.
    fn plan(
        &self,
        examples: &M::Examples,
        epoch: usize,
    ) -> Box<dyn Iterator<Item = Vec<usize>> + Send> {
        let Self { size, grouping, seed, .. } = self;
        match *seed {
            Some(seed) => {
                Box::new(BatchSampler::new(examples.clone(), *size, *grouping, seed, epoch))
            }
            None => Box::new(sampler::sorted(examples, *size).into_iter()),
        }
    }

    /// Constructs the batches of `plan` from `examples`, the first of which is number `first` of
    /// its epoch, on a separate thread while the previous batch is used.
    ///
    /// The thread only fills vectors and sends them to the device. It must not run operations on
    /// the thread pool, because the only thread of a pool may be the one that waits for the batch.
    fn read(
        &self,
        examples: M::Examples,
        plan: Box<dyn Iterator<Item = Vec<usize>> + Send>,
        epoch: usize,
        first: usize,
    ) -> Receiver<Counted<M::Batch>> {
        let (sender, receiver) = sync_channel(AHEAD);
        let loader = self.clone();
        // The stream of the training thread, because a separate stream for each epoch would keep memory
        // pools on a GPU, and each use of its tensors would need synchronization.
        let stream = StreamId::current();
        thread::spawn(move || {
            stream.executes(|| {
                // Examples of batches of other loaders since the last own one.
                let mut others = 0;
                for (number, indices) in plan.enumerate() {
                    if !loader.share.contains(number) {
                        others += indices.len();
                        continue;
                    }
                    let turn = Turn { seed: loader.seed, epoch, number: first + number };
                    let batch = loader.make.make(&examples, &indices, turn, &loader.device);
                    let examples = indices.len() + take(&mut others);
                    // The receiver is dropped when an epoch is interrupted.
                    if sender.send(Counted { batch: Some(batch), examples }).is_err() {
                        return;
                    }
                }
                drop(sender.send(Counted { batch: None, examples: others }));
            });
        });
        receiver
    }
}

/// Batch of an epoch; `None` at its end.
struct Counted<B> {
    batch: Option<B>,
    /// Number of its examples, and of those of other loaders before it.
    examples: usize,
}

impl<M: MakeBatch> DataLoader<M::Batch> for BatchLoader<M> {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<M::Batch> + 'a> {
        let epoch = self.next_epoch.fetch_add(1, Ordering::SeqCst);
        let examples = self.examples_of(epoch);
        let mut plan = self.plan(&examples, epoch);
        let skipped = self.skipped.swap(0, Ordering::SeqCst);
        let (mut number, mut done) = (0, 0);
        for batch in plan.by_ref().take(skipped) {
            number += 1;
            done += batch.len();
        }
        let total = examples.count();
        let batches = self.read(examples, plan, epoch, number);
        let name = M::Examples::NAME;
        Box::new(EpochIterator { total, name, batches, done, failed: false })
    }

    fn num_items(&self) -> usize {
        self.examples.count()
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<M::Batch>> {
        Arc::new(Self { device: device.clone(), ..self.clone() })
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<M::Batch>> {
        let next_epoch = AtomicUsize::new(self.next_epoch.load(Ordering::SeqCst));
        Arc::new(Self {
            examples: self.examples.slice(start, end),
            next_epoch: Arc::new(next_epoch),
            ..self.clone()
        })
    }
}

/// Iterator over the batches of an epoch.
struct EpochIterator<B> {
    /// Number of examples of the epoch.
    total: usize,
    /// Name of several examples.
    name: &'static str,
    batches: Receiver<Counted<B>>,
    /// Number of examples returned or skipped so far.
    done: usize,
    /// True after an early end was reported.
    failed: bool,
}

impl<B> Iterator for EpochIterator<B> {
    type Item = Result<B, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.batches.recv() {
                Ok(Counted { batch, examples }) => {
                    self.done += examples;
                    if let Some(batch) = batch {
                        return Some(Ok(batch));
                    }
                }
                Err(_) if self.done < self.total && !self.failed => {
                    self.failed = true;
                    let ended = io::Error::other(
                        "the thread that constructs batches ended before the epoch",
                    );
                    return Some(Err(DatasetError::new(ended)));
                }
                Err(_) => return None,
            }
        }
    }
}

impl<B> DataLoaderIterator<B> for EpochIterator<B> {
    fn progress(&self) -> Progress {
        Progress::new(self.done, self.total, Some(self.name.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use tx_text::{Tokenizer, TokenizerConfig, TokenizerKind, special::SpecialTokens};

    use super::*;
    use crate::{
        batch::Seq2SeqBatch,
        documents::{DocumentStore, TextParts},
        encoded_pair::EncodedPair,
        masking::Masking,
        mixture::{Mixture, MixturePart},
        packing::PackedDocuments,
        store::PairStore,
    };

    fn loader() -> PairLoader {
        of_pairs(pairs(), 0.0)
    }

    fn pairs() -> Vec<EncodedPair> {
        (0..40).map(|i| EncodedPair::new(vec![i + 4, 2], vec![1, i + 4, 2])).collect()
    }

    /// Shuffled batches of 8 pairs.
    fn of_pairs(pairs: impl Into<Mixture>, word_dropout: f64) -> PairLoader {
        let make = MakeSeq2SeqBatch { word_dropout, ..MakeSeq2SeqBatch::default() };
        PairLoader::new(pairs, make, BatchSize::Sentences(8), Device::flex()).shuffled(1)
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
        assert_eq!(epoch(&loader().resume_from(2, 0)), two);
        assert_eq!(epoch(&*loader().resume_from(2, 0).to_device(&Device::flex())), two);
    }

    /// 5 batches of 8 pairs, two ids each.
    #[test]
    fn an_epoch_can_be_resumed() {
        assert_eq!(loader().largest_batch(), [8 * 2, 8 * 2]);
        for word_dropout in [0.0, 0.5] {
            let loader = || of_pairs(pairs(), word_dropout);
            let first = loader();
            let (one, two) = (epoch(&first), epoch(&first));
            assert_eq!(one.contains(&3), word_dropout > 0.0);
            for batches in 0..=5 {
                let later = loader().resume_from(1, batches);
                assert_eq!(epoch(&later), one[16 * batches..], "after {batches}");
                assert_eq!(epoch(&later), two, "the next is whole");
                let later = loader().resume_from(1, batches);
                let mut batches = later.iter();
                while batches.next().is_some() {}
                assert!(batches.progress().is_completed());
            }
        }
    }

    /// 5 batches of 8 pairs, the first `skipped` of which are used.
    #[test]
    fn loaders_that_share_an_epoch_yield_its_batches_in_turn() {
        let batches = |loader: PairLoader| -> Vec<Vec<i32>> {
            loader.iter().map(|batch| ints(batch.unwrap().source)).collect()
        };
        for (skipped, count) in [(0, 2), (1, 2), (0, 3), (2, 4), (0, 9)] {
            let resumed = || of_pairs(pairs(), 0.5).resume_from(1, skipped);
            let all = batches(resumed());
            assert_eq!(all.len(), 5 - skipped);
            for index in 0..count {
                let loader = resumed().with_share(index, count);
                assert_eq!((loader.batches(), loader.num_items()), (5, 40));
                let expected: Vec<_> = all.iter().skip(index).step_by(count).cloned().collect();
                assert_eq!(batches(loader), expected, "{index} of {count} after {skipped}");
            }
        }
    }

    /// 20 training pairs and 10 of 15 others in each epoch.
    #[test]
    fn a_mixture_changes_with_the_epoch_and_resumes() {
        let pairs = |first: u32, count: u32| -> PairStore {
            let pair = |i| EncodedPair::new(vec![i, 2], vec![1, i, 2]);
            (first..first + count).map(pair).collect()
        };
        let replayed = || {
            let part = |first, count, per_epoch| MixturePart::new(pairs(first, count), per_epoch);
            Mixture::new(vec![part(4, 20, 20), part(100, 15, 10)])
        };
        let epochs = assert_resumes(|| of_pairs(replayed(), 0.0), |batch| ints(batch.source));
        let others = epochs.iter().map(|batches| {
            let ids = batches.iter().flatten().copied().filter(|&id| id != 2);
            let (mut training, mut others): (Vec<i32>, Vec<i32>) = ids.partition(|&id| id < 100);
            training.sort_unstable();
            assert_eq!(training, (4..24).collect::<Vec<_>>());
            assert_eq!(others.len(), 10);
            others.sort_unstable();
            others
        });
        let others: Vec<Vec<i32>> = others.collect();
        assert_ne!(others[0], others[1]);
        // The second epoch begins with the five pairs that the first lacks.
        let mut new: Vec<i32> = others[1].clone();
        new.retain(|id| !others[0].contains(id));
        new.dedup();
        assert_eq!(new.len(), 5);
        let loader = of_pairs(replayed(), 0.0);
        assert_eq!((loader.num_items(), loader.batches()), (30, 4));
    }

    #[test]
    fn progress_ends_at_the_number_of_pairs() {
        let loader = loader();
        let mut batches = loader.iter();
        while batches.next().is_some() {}
        assert!(batches.progress().is_completed());
        assert_eq!(loader.num_items(), 40);
    }

    /// Every epoch and every resumed epoch of a loader that `loader` creates anew, as `ids` of its
    /// batches.
    fn assert_resumes<M: MakeBatch, T: PartialEq + Debug>(
        loader: impl Fn() -> BatchLoader<M>,
        ids: impl Fn(M::Batch) -> T,
    ) -> Vec<Vec<T>> {
        let read = |loader: &BatchLoader<M>| -> Vec<T> {
            loader.iter().map(|batch| ids(batch.unwrap())).collect()
        };
        let first = loader();
        let epochs = vec![read(&first), read(&first)];
        assert!(epochs[0].len() > 2);
        for (epoch, batches) in epochs.iter().enumerate() {
            for skipped in 0..=batches.len() {
                let later = loader().resume_from(epoch + 1, skipped);
                assert_eq!(read(&later), batches[skipped..], "epoch {epoch} after {skipped}");
            }
        }
        epochs
    }

    fn ints<const D: usize>(tensor: burn::tensor::Tensor<D, burn::tensor::Int>) -> Vec<i32> {
        tensor.into_data().iter::<i32>().collect()
    }

    #[test]
    fn labeled_texts_resume_and_keep_their_classes() {
        let texts = || {
            let text = |i: u32| EncodedPair::new(vec![1, i + 5, 2], vec![i % 3]);
            (0..40).map(text).collect::<Vec<_>>()
        };
        let size = BatchSize::Sentences(8);
        let epochs = assert_resumes(
            || {
                let make = MakeClassificationBatch::default();
                ClassificationLoader::new(texts(), make, size, Device::flex()).shuffled(1)
            },
            |batch| (ints(batch.ids), ints(batch.classes)),
        );
        assert_ne!(epochs[0], epochs[1]);
        for (ids, classes) in epochs.concat() {
            let expected: Vec<i32> = ids.chunks(3).map(|row| (row[1] - 5) % 3).collect();
            assert_eq!(classes, expected);
        }
    }

    #[test]
    fn packed_documents_resume_and_lose_no_label() {
        let documents: DocumentStore = (0..40).map(|i| vec![1, i + 5, i + 5, i + 5, 2]).collect();
        let rows = || PackedDocuments::new(documents.clone(), 7);
        let size = BatchSize::Tokens(28);
        let loader = || {
            let make = MakeLanguageModelBatch;
            LanguageModelLoader::new(rows(), make, size, Device::flex()).shuffled(1)
        };
        let epochs = assert_resumes(loader, |batch| ints(batch.labels));
        assert_ne!(epochs[0], epochs[1]);
        for epoch in epochs {
            let mut labels: Vec<i32> = epoch.concat().into_iter().filter(|&id| id != 0).collect();
            labels.sort_unstable();
            let mut expected: Vec<i32> = (0..40).flat_map(|i| [i + 5, i + 5, i + 5, 2]).collect();
            expected.sort_unstable();
            assert_eq!(labels, expected);
        }
        assert_eq!(loader().largest_batch(), [28, 0]);
    }

    /// Characters of 40 texts of 30 letters; the first letters tell the texts apart.
    fn masked_loader(size: BatchSize, seed: Option<u64>) -> MaskedLoader {
        let letters = |i: u8| format!("{}{}", (b'a' + i / 8) as char, (b'k' + i % 8) as char);
        let texts: Vec<String> = (0..40).map(|i| letters(i).repeat(15)).collect();
        let config =
            TokenizerConfig { kind: TokenizerKind::Character, ..TokenizerConfig::default() };
        let tokenizer = Tokenizer::train(&config, SpecialTokens::WithMask, &texts).unwrap();
        let (documents, _) = DocumentStore::encode(&texts, &tokenizer, "test").unwrap();
        let masking = Masking::new(&tokenizer).unwrap();
        let texts = TextParts::new(documents, 64);
        let loader = MaskedLoader::new(texts, MakeMaskedBatch { masking }, size, Device::flex());
        match seed {
            Some(seed) => loader.shuffled(seed),
            None => loader,
        }
    }

    /// Rows of input and labels of an epoch, sorted.
    fn rows(loader: &MaskedLoader) -> Vec<(Vec<i32>, Vec<i32>)> {
        let mut rows = Vec::new();
        for batch in loader.iter() {
            let batch = batch.unwrap();
            let len = batch.ids.dims()[1];
            let ids = ints(batch.ids);
            let mut labels = vec![0; ids.len()];
            for (position, label) in ints(batch.positions).into_iter().zip(ints(batch.labels)) {
                labels[position as usize] = label;
            }
            let pairs = ids.chunks(len).zip(labels.chunks(len));
            rows.extend(pairs.map(|(ids, labels)| (ids.to_vec(), labels.to_vec())));
        }
        rows.sort_unstable();
        rows
    }

    #[test]
    fn masked_texts_resume_with_the_same_masks() {
        let size = BatchSize::Sentences(8);
        let epochs = assert_resumes(
            || masked_loader(size, Some(1)),
            |batch| (ints(batch.ids), ints(batch.positions), ints(batch.labels), batch.predicted),
        );
        assert_ne!(epochs[0], epochs[1]);
    }

    #[test]
    fn the_masks_of_a_text_do_not_depend_on_its_batch() {
        let of = |size, grouping| {
            rows(&masked_loader(BatchSize::Sentences(size), Some(1)).with_grouping(grouping))
        };
        let expected = of(8, Grouping::Length);
        assert_eq!(expected.len(), 40);
        for size in [1, 3, 40] {
            assert_eq!(of(size, Grouping::Length), expected);
            assert_eq!(of(size, Grouping::Random), expected);
        }
        let other_epoch = masked_loader(BatchSize::Sentences(8), Some(1)).resume_from(2, 0);
        assert_ne!(rows(&other_epoch), expected);
    }

    #[test]
    fn validation_has_the_same_masks_in_each_iteration() {
        let loader = masked_loader(BatchSize::Sentences(8), None);
        let first = rows(&loader);
        assert_eq!(rows(&loader), first);
        assert_eq!(rows(&masked_loader(BatchSize::Sentences(5), None)), first);
    }
}
