//! Construction of batches from examples, for each kind of batch.

use std::{fmt::Debug, sync::Arc};

use burn::tensor::Device;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tx_text::{Segmentation, special::BOS};

use crate::{
    batch::{ClassificationBatch, LanguageModelBatch, MaskedBatch, Seq2SeqBatch},
    documents::TextParts,
    encoded_pair::EncodedPair,
    examples::Examples,
    masking::{MaskedText, Masking},
    mixture::Mixture,
    packing::{PackedDocuments, PackedRow},
    store::PairStore,
};

/// Mixed into the seed of word dropout, so that its random numbers differ from those of the order.
const WORDS: u64 = 0x5bd1_e995_7f4a_7c15;
/// Mixed into the seed of BPE dropout.
const MERGES: u64 = 0x94d0_49bb_1331_11eb;
/// Seed of the masks in validation, and their epoch.
const VALIDATION_MASKS: (u64, usize) = (0, 0);

/// Position of a batch in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Seed of a training run; `None` in validation.
    pub seed: Option<u64>,
    /// Epoch, from 1.
    pub epoch: usize,
    /// Number of the batch in its epoch, from 0.
    pub number: usize,
}

impl Turn {
    /// Random numbers of the batch, independent of the batches before it.
    fn random(self, mixed_in: u64) -> ChaCha8Rng {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed.unwrap_or_default() ^ mixed_in);
        random.set_stream((self.epoch as u64) << 32 | self.number as u64);
        random
    }
}

/// Random segmentation in the first epochs.
#[derive(Debug, Clone)]
pub struct EpochSegmentation {
    segmentation: Arc<Segmentation>,
    /// Last epoch with random segmentation; `None` if all have it.
    last_epoch: Option<usize>,
}

impl EpochSegmentation {
    /// Segments randomly until `last_epoch`, or in all epochs.
    pub fn new(segmentation: Segmentation, last_epoch: Option<usize>) -> Self {
        Self { segmentation: Arc::new(segmentation), last_epoch }
    }

    fn of(&self, turn: Turn) -> Option<&Segmentation> {
        self.last_epoch.is_none_or(|last| turn.epoch <= last).then_some(&*self.segmentation)
    }
}

/// Construction of batches. The result is a function of the arguments, as exact resume requires.
pub trait MakeBatch: Debug + Clone + Send + Sync + 'static {
    /// Examples.
    type Examples: Examples;
    /// Batch.
    type Batch: Send + 'static;

    /// Makes a batch of the examples at `indices` on a device.
    ///
    /// # Panics
    ///
    /// When an index is out of bounds.
    fn make(
        &self,
        examples: &Self::Examples,
        indices: &[usize],
        turn: Turn,
        device: &Device,
    ) -> Self::Batch;
}

/// Construction of [`Seq2SeqBatch`]es.
#[derive(Debug, Clone)]
pub struct MakeSeq2SeqBatch {
    /// First input id of the decoder.
    pub start: u32,
    /// Probability at which input tokens of encoder and decoder become `<unk>` in training; other
    /// tokens in each epoch.
    pub word_dropout: f64,
    /// Random segmentation of words, anew in each epoch. Batch sizes are computed from the lengths
    /// without it, so batches contain more tokens than their size.
    pub segmentation: Option<EpochSegmentation>,
}

impl Default for MakeSeq2SeqBatch {
    /// Starts with `<bos>`, without dropout.
    fn default() -> Self {
        Self { start: BOS, word_dropout: 0.0, segmentation: None }
    }
}

impl MakeBatch for MakeSeq2SeqBatch {
    type Examples = Mixture;
    type Batch = Seq2SeqBatch;

    fn make(
        &self,
        pairs: &Mixture,
        indices: &[usize],
        turn: Turn,
        device: &Device,
    ) -> Seq2SeqBatch {
        let pair = |&index: &usize| pairs.pair(index).into_owned();
        let mut pairs: Vec<EncodedPair> = indices.iter().map(pair).collect();
        if let Some(segmentation) = self.segmentation.as_ref().and_then(|one| one.of(turn)) {
            let mut random = turn.random(MERGES);
            for EncodedPair { source, target, annotation } in &mut pairs {
                segmentation.apply(source, target, &mut random);
                // The links are between other tokens.
                annotation.iter_mut().for_each(|annotation| annotation.links.clear());
            }
        }
        let pairs: Vec<&EncodedPair> = pairs.iter().collect();
        match turn.seed {
            Some(_) if self.word_dropout > 0.0 => {
                let mut random = turn.random(WORDS);
                let Self { start, word_dropout, .. } = *self;
                Seq2SeqBatch::with_word_dropout(&pairs, start, word_dropout, &mut random, device)
            }
            _ => Seq2SeqBatch::new(&pairs, self.start, device),
        }
    }
}

/// Construction of [`ClassificationBatch`]es.
#[derive(Debug, Clone, Default)]
pub struct MakeClassificationBatch {
    /// Random segmentation of words.
    pub segmentation: Option<EpochSegmentation>,
}

impl MakeBatch for MakeClassificationBatch {
    type Examples = PairStore;
    type Batch = ClassificationBatch;

    fn make(
        &self,
        texts: &PairStore,
        indices: &[usize],
        turn: Turn,
        device: &Device,
    ) -> ClassificationBatch {
        let text = |&index: &usize| texts.pair(index).into_owned();
        let mut texts: Vec<EncodedPair> = indices.iter().map(text).collect();
        if let Some(segmentation) = self.segmentation.as_ref().and_then(|one| one.of(turn)) {
            let mut random = turn.random(MERGES);
            for text in &mut texts {
                segmentation.apply_to_source(&mut text.source, &mut random);
            }
        }
        ClassificationBatch::new(&texts.iter().collect::<Vec<_>>(), device)
    }
}

/// Construction of [`LanguageModelBatch`]es.
#[derive(Debug, Clone, Copy, Default)]
pub struct MakeLanguageModelBatch;

impl MakeBatch for MakeLanguageModelBatch {
    type Examples = PackedDocuments;
    type Batch = LanguageModelBatch;

    fn make(
        &self,
        rows: &PackedDocuments,
        indices: &[usize],
        _: Turn,
        device: &Device,
    ) -> LanguageModelBatch {
        let rows: Vec<PackedRow> = indices.iter().map(|&index| rows.row(index)).collect();
        LanguageModelBatch::new(&rows, device)
    }
}

/// Construction of [`MaskedBatch`]es. The masks of a text are a function of the seed, the epoch and
/// the text, not of the batch; in validation they are always the same.
#[derive(Debug, Clone)]
pub struct MakeMaskedBatch {
    /// Choice of the tokens to predict.
    pub masking: Masking,
}

impl MakeBatch for MakeMaskedBatch {
    type Examples = TextParts;
    type Batch = MaskedBatch;

    fn make(
        &self,
        texts: &TextParts,
        indices: &[usize],
        turn: Turn,
        device: &Device,
    ) -> MaskedBatch {
        let (seed, epoch) = turn.seed.map_or(VALIDATION_MASKS, |seed| (seed, turn.epoch));
        let masked = |&index: &usize| {
            let part = texts.part(index);
            self.masking.of_example(&part.ids, seed, epoch, part.example)
        };
        let masked: Vec<MaskedText> = indices.iter().map(masked).collect();
        MaskedBatch::new(&masked, device)
    }
}
