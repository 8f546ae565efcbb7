//! Burn's `Dataset` and `Batcher` for corpora of tx.
//!
//! | dataset | item | batcher |
//! |---|---|---|
//! | [`PairStore`], [`MappedShards`], [`Mixture`] | [`EncodedPair`] | [`Seq2SeqBatcher`], [`ClassificationBatcher`] |
//! | [`PackedDocuments`] | [`PackedRow`] | [`LanguageModelBatcher`] |
//! | [`TextParts`] | [`TextPart`] | [`MaskedBatcher`] |
//! | [`MappedText`], Burn's `InMemDataset` | [`SentencePair`] | – |
//!
//! All of them compose with Burn's transforms (shuffled, partial, mapped, sampled) and, by the batchers,
//! with its `DataLoaderBuilder`. [`BatchLoader`](crate::BatchLoader) is the loader of tx, with batches of
//! similar length and exact resume.
//!
//! ```
//! use burn::{
//!     data::{dataloader::DataLoaderBuilder, dataset::transform::PartialDataset},
//!     tensor::Device,
//! };
//! use tx_data::{EncodedPair, PairStore, dataset::Seq2SeqBatcher};
//!
//! let pairs: PairStore =
//!     (4..44).map(|id| EncodedPair::new(vec![id, 2], vec![1, id, 2])).collect();
//! let first_half = PartialDataset::new(pairs, 0, 20);
//! let loader = DataLoaderBuilder::new(Seq2SeqBatcher::default())
//!     .batch_size(8)
//!     .shuffle(1)
//!     .set_device(Device::flex())
//!     .build(first_half);
//! assert_eq!(loader.iter().count(), 3);
//! ```

use burn::{
    data::{
        dataloader::batcher::Batcher,
        dataset::{Dataset, DatasetError},
    },
    tensor::Device,
};
use tx_text::{SentencePair, special::BOS};

use crate::{
    batch::{ClassificationBatch, LanguageModelBatch, MaskedBatch, Seq2SeqBatch},
    documents::{TextPart, TextParts},
    encoded_pair::EncodedPair,
    masking::Masking,
    mixture::Mixture,
    packing::{PackedDocuments, PackedRow},
    prepared::{MappedShards, MappedText},
    store::PairStore,
};

impl Dataset<EncodedPair> for PairStore {
    fn get(&self, index: usize) -> Result<EncodedPair, DatasetError> {
        Ok(self.pair(index).into_owned())
    }

    fn len(&self) -> usize {
        self.len()
    }
}

impl Dataset<EncodedPair> for Mixture {
    fn get(&self, index: usize) -> Result<EncodedPair, DatasetError> {
        Ok(self.pair(index).into_owned())
    }

    fn len(&self) -> usize {
        self.len()
    }
}

impl Dataset<EncodedPair> for MappedShards {
    fn get(&self, index: usize) -> Result<EncodedPair, DatasetError> {
        Ok(self.pair(index))
    }

    fn len(&self) -> usize {
        self.len()
    }
}

impl Dataset<SentencePair> for MappedText {
    fn get(&self, index: usize) -> Result<SentencePair, DatasetError> {
        self.pair(index).map_err(DatasetError::new)
    }

    fn len(&self) -> usize {
        self.len()
    }
}

/// Batcher of encoded pairs, in the order given.
#[derive(Debug, Clone, Copy)]
pub struct Seq2SeqBatcher {
    /// First input id of the decoder.
    pub start: u32,
}

impl Default for Seq2SeqBatcher {
    /// Starts with `<bos>`.
    fn default() -> Self {
        Self { start: BOS }
    }
}

impl Batcher<EncodedPair, Seq2SeqBatch> for Seq2SeqBatcher {
    fn batch(&self, pairs: Vec<EncodedPair>, device: &Device) -> Seq2SeqBatch {
        Seq2SeqBatch::new(&pairs.iter().collect::<Vec<_>>(), self.start, device)
    }
}

impl Dataset<PackedRow> for PackedDocuments {
    fn get(&self, index: usize) -> Result<PackedRow, DatasetError> {
        Ok(self.row(index))
    }

    fn len(&self) -> usize {
        self.len()
    }
}

impl Dataset<TextPart> for TextParts {
    fn get(&self, index: usize) -> Result<TextPart, DatasetError> {
        Ok(self.part(index))
    }

    fn len(&self) -> usize {
        self.len()
    }
}

/// Batcher of labeled texts, as [`ClassificationBatch::new`].
#[derive(Debug, Clone, Copy, Default)]
pub struct ClassificationBatcher;

impl Batcher<EncodedPair, ClassificationBatch> for ClassificationBatcher {
    fn batch(&self, texts: Vec<EncodedPair>, device: &Device) -> ClassificationBatch {
        ClassificationBatch::new(&texts.iter().collect::<Vec<_>>(), device)
    }
}

/// Batcher of packed documents, as [`LanguageModelBatch::new`].
#[derive(Debug, Clone, Copy, Default)]
pub struct LanguageModelBatcher;

impl Batcher<PackedRow, LanguageModelBatch> for LanguageModelBatcher {
    fn batch(&self, rows: Vec<PackedRow>, device: &Device) -> LanguageModelBatch {
        LanguageModelBatch::new(&rows, device)
    }
}

/// Batcher of texts with masked tokens, as [`MaskedBatch::new`]. Burn's loader has no epochs, so the masks
/// are those of one epoch.
#[derive(Debug, Clone)]
pub struct MaskedBatcher {
    /// Choice of the tokens to predict.
    pub masking: Masking,
    /// Seed of the masks.
    pub seed: u64,
    /// Epoch of the masks.
    pub epoch: usize,
}

impl Batcher<TextPart, MaskedBatch> for MaskedBatcher {
    fn batch(&self, parts: Vec<TextPart>, device: &Device) -> MaskedBatch {
        let Self { masking, seed, epoch } = self;
        let masked = |part: TextPart| masking.of_example(&part.ids, *seed, *epoch, part.example);
        MaskedBatch::new(&parts.into_iter().map(masked).collect::<Vec<_>>(), device)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use burn::data::{
        dataloader::{DataLoader, DataLoaderBuilder},
        dataset::{
            InMemDataset,
            transform::{
                Mapper, MapperDataset, PartialDataset, SamplerDataset, SamplerDatasetOptions,
                ShuffledDataset,
            },
        },
    };

    use tx_text::{Tokenizer, TokenizerConfig, TokenizerKind, special::SpecialTokens};

    use super::*;
    use crate::documents::DocumentStore;

    /// 40 pairs; pair `i` has the id `i + 4` on both sides.
    fn store() -> PairStore {
        (4..44).map(|id| EncodedPair::new(vec![id, 2], vec![1, id, 2])).collect()
    }

    /// First source id of each pair, in order.
    fn ids<D: Dataset<EncodedPair>>(dataset: &D) -> Vec<u32> {
        dataset.iter().map(|pair| pair.unwrap().source[0]).collect()
    }

    /// First source id of each row, batch by batch.
    fn batches(loader: &dyn DataLoader<Seq2SeqBatch>) -> Vec<Vec<u32>> {
        let first_ids = |batch: Seq2SeqBatch| {
            let ids: Vec<u32> = batch.source.into_data().iter::<u32>().collect();
            ids.chunks(2).map(|row| row[0]).collect()
        };
        loader.iter().map(|batch| first_ids(batch.unwrap())).collect()
    }

    struct Reverse;

    impl Mapper<EncodedPair, EncodedPair> for Reverse {
        fn map(&self, pair: &EncodedPair) -> EncodedPair {
            EncodedPair::new(pair.target.clone(), pair.source.clone())
        }
    }

    #[test]
    fn transforms_of_burn_compose_with_a_store() {
        let all: Vec<u32> = (4..44).collect();
        assert_eq!(ids(&store()), all);
        assert_eq!(ids(&PartialDataset::new(store(), 10, 13)), [14, 15, 16]);

        let shuffled = ids(&ShuffledDataset::new(store(), 7));
        assert_eq!(ids(&ShuffledDataset::new(store(), 7)), shuffled);
        let mut sorted = shuffled.clone();
        sorted.sort_unstable();
        assert_eq!((sorted, shuffled != all), (all.clone(), true));

        let options = SamplerDatasetOptions::default().without_replacement().with_seed(7);
        let mut sampled = ids(&SamplerDataset::new(store(), options));
        sampled.sort_unstable();
        assert_eq!(sampled, all);

        let reversed: MapperDataset<_, _, EncodedPair> = MapperDataset::new(store(), Reverse);
        assert_eq!(ids(&reversed), [1; 40]);
        assert_eq!(reversed.get(3).unwrap().target, [7, 2]);
    }

    #[test]
    fn the_data_loader_of_burn_yields_batches_of_tx() {
        let build = |builder: DataLoaderBuilder<_, _>| {
            builder.batch_size(16).set_device(Device::flex()).build(store())
        };
        let in_order = batches(&*build(DataLoaderBuilder::new(Seq2SeqBatcher::default())));
        assert_eq!(in_order.concat(), (4..44).collect::<Vec<_>>());
        assert_eq!(in_order.iter().map(Vec::len).collect::<Vec<_>>(), [16, 16, 8]);
        for workers in [0, 2] {
            let builder =
                DataLoaderBuilder::new(Seq2SeqBatcher::default()).shuffle(3).num_workers(workers);
            let mut shuffled = batches(&*build(builder)).concat();
            assert_ne!(shuffled, in_order.concat());
            shuffled.sort_unstable();
            assert_eq!(shuffled, in_order.concat());
        }
    }

    #[test]
    fn batches_of_tasks_with_one_text_come_from_the_loader_of_burn() {
        fn batches<I: Send + Sync + Clone + Debug + 'static, B: Send + Clone + Debug + 'static>(
            dataset: impl Dataset<I> + 'static,
            batcher: impl Batcher<I, B> + 'static,
        ) -> Vec<B> {
            let builder = DataLoaderBuilder::new(batcher).batch_size(3).set_device(Device::flex());
            builder.build(dataset).iter().map(Result::unwrap).collect()
        }
        let texts: PairStore =
            (5..12).map(|id| EncodedPair::new(vec![1, id, 2], vec![id % 2])).collect();
        let classified = batches(texts, ClassificationBatcher);
        assert_eq!(classified.iter().map(|batch| batch.examples).collect::<Vec<_>>(), [3, 3, 1]);

        let documents: DocumentStore = (5..12).map(|id| vec![1, id, 2]).collect();
        let rows = PackedDocuments::new(documents.clone(), 2);
        let packed = batches::<PackedRow, _>(rows, LanguageModelBatcher);
        assert_eq!(packed.iter().map(|batch| batch.tokens).collect::<Vec<_>>(), [6, 6, 2]);

        let config = TokenizerConfig { kind: TokenizerKind::Character, ..Default::default() };
        let tokenizer = Tokenizer::train(&config, SpecialTokens::WithMask, &["abcdefg"]).unwrap();
        let masking = Masking::new(&tokenizer).unwrap();
        let batcher = MaskedBatcher { masking, seed: 1, epoch: 1 };
        let masked = batches::<TextPart, _>(TextParts::new(documents, 8), batcher);
        assert_eq!(masked.iter().map(|batch| batch.predicted).collect::<Vec<_>>(), [3, 3, 1]);
    }

    #[test]
    fn text_in_memory_is_a_dataset_of_burn() {
        let pairs = [("a", "x"), ("b", "y"), ("c", "z")].map(|(a, b)| SentencePair::new(a, b));
        let text = PartialDataset::new(InMemDataset::new(pairs.to_vec()), 1, 3);
        let found: Vec<SentencePair> = text.iter().map(Result::unwrap).collect();
        assert_eq!(found, pairs[1..]);
    }
}
