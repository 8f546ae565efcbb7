//! Corpus pipeline: clean, split, learn the tokenizers and encode a stream of pairs.
//!
//! [`CleanCorpus::read`] cleans the pairs, compares them with given validation pairs and writes
//! them to a [`TextStore`]. [`CleanCorpus::learn_tokenizers`] and [`CleanCorpus::encode`] stream
//! over the stored text; encoded pairs go to a [`CorpusSink`]. Text and ids are stored in memory
//! (`Vec<SentencePair>`, [`MemoryCorpus`]) or on disk ([`prepare`](crate::prepared::prepare())).
//! The result depends on the pairs and the options, not on the storage.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//! use tx_data::{
//!     CleanConfig, LongPolicy, SplitBy, TargetSide,
//!     pipeline::{CleanCorpus, Control, CorpusOptions, MemoryCorpus, Overlaps, ValidationPairs},
//!     source::generated,
//! };
//! use tx_text::{TokenizerConfig, TokenizerKind};
//!
//! let control = Control { stop: &AtomicBool::new(false), progress: &|_| {} };
//! let options = CorpusOptions {
//!     clean: CleanConfig::default(),
//!     validation: ValidationPairs::SetAside { fraction: 0.1, by: SplitBy::Seed, seed: 1 },
//!     overlaps: Overlaps::Count,
//!     target: TargetSide::Sentence,
//!     noise: None,
//!     context: None,
//! };
//! let pairs = generated::reverse(100, 1).into_iter().map(Ok);
//! let corpus = CleanCorpus::read(pairs, options, Vec::new(), &control)?;
//!
//! let config = TokenizerConfig { kind: TokenizerKind::Character, ..TokenizerConfig::default() };
//! let tokenizers = corpus.learn_tokenizers(&config, &control)?;
//! let mut encoded = MemoryCorpus::default();
//! let report = corpus.encode(&tokenizers, 32, LongPolicy::Skip, &mut encoded, &control)?;
//! assert_eq!((report.pairs, encoded.training.len(), encoded.validation.len()), (90, 90, 10));
//! # Ok::<(), tx_data::DataError>(())
//! ```

mod control;
mod options;
mod storage;

use std::borrow::Cow;

use tx_text::{
    Normalization, SentencePair, Tokenizer, TokenizerConfig, Tokenizers, context::SEPARATOR,
    special::SpecialTokens,
};

use crate::{
    annotation::{Annotations, annotate, word_counts},
    clean::{Cleaner, CleaningReport},
    context::{Context, ContextEncoder, Documents},
    encode::{Encoder, EncodingReport, LongPolicy, TargetSide},
    encoded_pair::{EncodedPair, PairAnnotation},
    error::DataError,
    labels::Labels,
    near_duplicate::{Overlap, OverlapFinder},
    noise::{Lexicon, LexiconBuilder, Noise},
    split::{Split, none_set_aside},
};
use control::check;
pub use control::{Control, Progress};
pub use options::{CorpusOptions, Overlaps, ValidationPairs};
pub use storage::{CorpusSink, MemoryCorpus, StoredPairs, TextStore};

/// Pairs tokenized and written together.
const PART: usize = 1 << 15;
/// Pairs between two progress reports.
const PROGRESS: usize = 1_000_000;
/// Names of the parts of a corpus in errors.
const TRAINING: &str = "the training data";
const VALIDATION: &str = "the validation data";

/// A pair of a corpus, as it is read.
struct ReadPair<'a> {
    place: Place,
    pair: Result<Cow<'a, SentencePair>, DataError>,
}

/// Place of an encoded pair.
#[derive(Clone, Copy)]
struct Place {
    /// Index among all pairs; that of its original for a noisy copy.
    index: usize,
    is_copy: bool,
}

/// Cleaned and split corpus, as text.
#[derive(Debug)]
pub struct CleanCorpus<T> {
    /// All pairs that passed cleaning, except given validation pairs.
    pub(crate) text: T,
    validation: ValidationPairs,
    target: TargetSide,
    /// For each pair of `text`, whether it is set aside for validation; empty if none is.
    held_out: Vec<bool>,
    /// Weight and word alignment of each pair of `text`; empty if they have none.
    annotations: Vec<PairAnnotation>,
    noise: Option<Noise>,
    context: Option<Context>,
    /// Number of documents; 0 for pairs without context.
    pub documents: usize,
    /// Pairs without the links that they had, because cleaning changed the number of their words.
    pub unlinked: usize,
    /// Counts of each cleaning step.
    pub cleaning: CleaningReport,
    /// Given validation pairs that are in training too; `None` if they were not searched for.
    pub overlap: Option<Overlap>,
    /// Training pairs dropped as near duplicates of given validation pairs.
    pub overlap_dropped: usize,
    /// Normalization of the training pairs, which their tokenizers record.
    pub normalization: Normalization,
}

impl<T: TextStore> CleanCorpus<T> {
    /// Cleans `pairs` into `text`, which must be empty, and selects the validation pairs.
    ///
    /// # Errors
    ///
    /// The first error of `pairs` or `text`, or [`DataError::NoPairs`] or [`DataError::NoTexts`] if none is left for
    /// validation.
    pub fn read(
        pairs: impl Iterator<Item = Result<SentencePair, DataError>>,
        options: CorpusOptions,
        text: T,
        control: &Control<'_>,
    ) -> Result<Self, DataError> {
        Self::read_annotated(pairs, Annotations::default(), options, text, control)
    }

    /// Same as [`read`](Self::read), with weights and word alignments of `pairs`.
    ///
    /// A pair whose number of words changes in cleaning loses its links.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read), and the first error of `annotations`.
    pub fn read_annotated(
        pairs: impl Iterator<Item = Result<SentencePair, DataError>>,
        mut annotations: Annotations,
        options: CorpusOptions,
        mut text: T,
        control: &Control<'_>,
    ) -> Result<Self, DataError> {
        let normalization = options.normalization();
        let CorpusOptions { clean, validation, overlaps, target, noise, context } = options;
        let mut cleaner = Cleaner::with_targets(clean, target);
        let mut finder = match (&validation, overlaps) {
            (ValidationPairs::Given(pairs), Overlaps::Count | Overlaps::Drop) => {
                Some(OverlapFinder::with_targets(pairs, target))
            }
            _ => None,
        };
        let (mut overlap_dropped, mut unlinked) = (0, 0);
        let mut kept = Vec::new();
        let mut documents = context.map(|context| Documents::new(context.sentences));
        for pair in pairs {
            control.check()?;
            let mut pair = pair?;
            documents.iter_mut().for_each(|documents| _ = documents.add_to(&mut pair));
            let mut annotation = annotations.next(&pair)?;
            let linked = annotation.as_mut().filter(|annotation| !annotation.links.is_empty());
            let linked = linked.map(|annotation| (word_counts(&pair), annotation));
            if let Some(pair) = cleaner.clean(pair) {
                if let Some((words, annotation)) = linked
                    && word_counts(&pair) != words
                {
                    annotation.links.clear();
                    unlinked += 1;
                }
                let overlaps_validation = finder.as_mut().is_some_and(|finder| finder.meet(&pair));
                if overlaps_validation && overlaps == Overlaps::Drop {
                    overlap_dropped += 1;
                } else {
                    text.append(pair)?;
                    kept.extend(annotation);
                }
            }
            let read = cleaner.report().pairs;
            if read.is_multiple_of(PROGRESS) {
                (control.progress)(Progress::Read(read));
            }
        }
        text.seal()?;
        annotations.finish(cleaner.report().pairs)?;
        // Frees the memory of duplicate detection before the split needs its own.
        let cleaning = cleaner.into_report();
        (control.progress)(Progress::Cleaned(&cleaning));
        control.check()?;
        let held_out = match validation {
            ValidationPairs::SetAside { fraction, by, seed } => {
                text.held_out(target, fraction, by, seed)?
            }
            ValidationPairs::Given(_) | ValidationPairs::Training(_) => Vec::new(),
        };
        let overlap = finder.map(|finder| finder.overlap());
        let mut corpus = Self {
            text,
            validation,
            target,
            held_out,
            annotations: kept,
            noise: None,
            context,
            documents: documents.map_or(0, |documents| documents.count()),
            unlinked,
            cleaning,
            overlap,
            overlap_dropped,
            normalization,
        };
        corpus.check_validation()?;
        corpus.noise = match noise {
            Some(noise) if noise.needs_lexicon() => Some(noise.with_lexicon(corpus.lexicon()?)),
            noise => noise,
        };
        Ok(corpus)
    }

    /// Learns translations of words for noise, unless the pairs have word alignments.
    fn lexicon(&self) -> Result<Lexicon, DataError> {
        let mut builder = LexiconBuilder::default();
        if self.annotations().all(|annotation| annotation.links.is_empty()) {
            for pair in self.training()? {
                if builder.is_full() {
                    break;
                }
                builder.add(&*pair?);
            }
        }
        Ok(builder.finish())
    }

    /// Returns an error if there are training pairs, but no validation pair.
    fn check_validation(&self) -> Result<(), DataError> {
        let pairs = self.text.pair_count();
        if pairs == 0 || self.validation_pairs() > 0 {
            return Ok(());
        }
        let unit = match self.target {
            TargetSide::Sentence => "pairs",
            TargetSide::Label => "texts",
        };
        if let ValidationPairs::SetAside { fraction, by, .. } = self.validation {
            return Err(none_set_aside(pairs, unit, fraction, by));
        }
        let (what, reason) = (VALIDATION.into(), "it is empty".into());
        Err(match self.target {
            TargetSide::Sentence => DataError::NoPairs { what, reason },
            TargetSide::Label => DataError::NoTexts { what, reason },
        })
    }

    /// Returns the number of training pairs, without noisy copies.
    pub fn training_pairs(&self) -> usize {
        self.text.pair_count() - self.held_out_pairs()
    }

    /// Returns the number of validation pairs.
    pub fn validation_pairs(&self) -> usize {
        match &self.validation {
            ValidationPairs::Given(pairs) => pairs.len(),
            ValidationPairs::SetAside { .. } => self.held_out_pairs(),
            ValidationPairs::Training(most) => self.text.pair_count().min(*most),
        }
    }

    fn held_out_pairs(&self) -> usize {
        self.held_out.iter().filter(|&&held_out| held_out).count()
    }

    /// Reads the training pairs in order, each followed by its noisy copies.
    ///
    /// # Errors
    ///
    /// If the text store cannot be opened.
    pub fn training(&self) -> Result<StoredPairs<'_>, DataError> {
        let held_out = &self.held_out[..];
        let training = self.noisy()?.filter(|read| !is_in(held_out, read.place.index));
        Ok(Box::new(training.map(|read| read.pair)))
    }

    /// Reads all pairs in order, each training pair followed by its noisy copies.
    fn noisy(&self) -> Result<impl Iterator<Item = ReadPair<'_>>, DataError> {
        let Self { held_out, annotations, noise, .. } = self;
        let mut previous: Option<SentencePair> = None;
        Ok(self.text.read()?.enumerate().flat_map(move |(index, pair)| {
            let mut copies = Vec::new();
            if let (Some(noise), Ok(pair)) = (noise, &pair)
                && !is_in(held_out, index)
            {
                let annotation = annotations.get(index).filter(|one| !one.links.is_empty());
                let links = annotation.map(|annotation| &annotation.links[..]);
                let before = previous.replace(pair.clone().into_owned());
                copies = noise.copies(index, pair, before.as_ref(), links);
            }
            let read = move |is_copy, pair| ReadPair { place: Place { index, is_copy }, pair };
            let copies = copies.into_iter().map(move |copy| read(true, Ok(Cow::Owned(copy))));
            std::iter::once(read(false, pair)).chain(copies)
        }))
    }

    /// Returns the weights and word alignments of the training pairs, in order; none if they have none.
    pub fn annotations(&self) -> impl Iterator<Item = &PairAnnotation> {
        let training = self.annotations.iter().enumerate();
        training.filter(|&(index, _)| !is_in(&self.held_out, index)).map(|(_, one)| one)
    }

    /// Labels of the training pairs.
    ///
    /// # Errors
    ///
    /// When there are fewer than two labels, or the text cannot be read.
    pub fn labels(&self, control: &Control<'_>) -> Result<Labels, DataError> {
        let mut failed = None;
        let labels = self.training()?.map_while(|pair| match control.check().and(pair) {
            Ok(pair) => Some(pair.into_owned().target),
            Err(error) => {
                failed = Some(error);
                None
            }
        });
        let labels = Labels::new(labels, TRAINING);
        failed.map_or(labels, Err)
    }

    /// Learns the tokenizers from the training pairs, or reads them from files if `config` names files. They
    /// record the normalization of the pairs, and have a separator if these have context.
    /// If the targets are labels, the tokenizer of the sources is that of both sides.
    ///
    /// # Errors
    ///
    /// If `config` breaks a rule, a file cannot be used, or the text cannot be read.
    pub fn learn_tokenizers(
        &self,
        config: &TokenizerConfig,
        control: &Control<'_>,
    ) -> Result<Tokenizers, DataError> {
        (control.progress)(Progress::LearningTokenizers);
        let stop = control.stop;
        let tokenizers = match self.target {
            TargetSide::Sentence => Tokenizers::train_on_stream(config, || {
                let pairs = self.training()?.map(move |pair| check(stop).and(pair));
                Ok::<_, DataError>(pairs.map(|pair| pair.map(Cow::into_owned)))
            })?,
            TargetSide::Label => {
                let pairs = self.training()?.map(move |pair| check(stop).and(pair));
                let texts = pairs.map(|pair| pair.map(|pair| Cow::Owned(pair.into_owned().source)));
                let special = SpecialTokens::Standard;
                Tokenizer::train_on_stream::<_, DataError>(config, special, texts)?.into()
            }
        };
        control.check()?;
        let tokenizers = match self.context {
            Some(_) => {
                tokenizers.with_special_tokens(config, vec![SEPARATOR.into()], Vec::new())?
            }
            None => tokenizers,
        };
        Ok(tokenizers.with_steps_of(self.normalization))
    }

    /// Encodes the training pairs and writes them, and the text of the validation pairs, to `sink`.
    /// Targets are encoded as sentences.
    ///
    /// # Errors
    ///
    /// If the text cannot be read or tokenized, `sink` fails, or no training pair is left.
    pub fn encode<S: CorpusSink>(
        &self,
        tokenizers: &Tokenizers,
        max_len: usize,
        long: LongPolicy,
        sink: &mut S,
        control: &Control<'_>,
    ) -> Result<EncodingReport, DataError> {
        let encoder = Encoder::new(tokenizers, max_len, long);
        let context = ContextEncoder::new(&tokenizers.source, max_len);
        self.encode_with(encoder, context, sink, control, |place, text, encoded| {
            match self.annotations.get(place.index) {
                // The links are between words of the original.
                Some(annotation) if place.is_copy => {
                    let links = Vec::new();
                    let annotation = PairAnnotation { links, ..annotation.clone() };
                    annotate(encoded, text, &annotation, tokenizers)
                }
                Some(annotation) => annotate(encoded, text, annotation, tokenizers),
                None => Ok(()),
            }
        })
    }

    /// Encodes the training texts with their classes and writes them, and the validation pairs as text, to
    /// `sink`.
    ///
    /// # Errors
    ///
    /// Those of [`encode`](Self::encode), or when a training or validation pair has an unknown label.
    pub fn encode_labeled<S: CorpusSink>(
        &self,
        tokenizer: &Tokenizer,
        labels: &Labels,
        max_len: usize,
        long: LongPolicy,
        sink: &mut S,
        control: &Control<'_>,
    ) -> Result<EncodingReport, DataError> {
        let encoder = Encoder::labeled(tokenizer, labels, max_len, long, TRAINING);
        let context = ContextEncoder::new(tokenizer, max_len);
        let mut checked = KnownLabels { labels, sink, validation: 0 };
        self.encode_with(encoder, context, &mut checked, control, |_, _, _| Ok(()))
    }

    /// Encodes the training pairs and their noisy copies; `add` completes each of them, given its place
    /// and its text.
    fn encode_with<S: CorpusSink>(
        &self,
        mut encoder: Encoder<'_>,
        mut context: ContextEncoder<'_>,
        sink: &mut S,
        control: &Control<'_>,
        add: impl Fn(Place, &SentencePair, &mut EncodedPair) -> Result<(), DataError>,
    ) -> Result<EncodingReport, DataError> {
        if let ValidationPairs::Given(pairs) = &self.validation {
            pairs.iter().try_for_each(|pair| sink.validation(pair))?;
        }
        let mut encode_part = |part: &[Cow<'_, SentencePair>], places: &[Place], sink: &mut S| {
            let contexts = self.contexts(part, places);
            let contexts = context.encode(contexts.iter().copied())?;
            encoder.encode(part, |position, mut pair| {
                control.check()?;
                add(places[position], &part[position], &mut pair)?;
                context.add(&mut pair, contexts.get(position).map_or(&[], Vec::as_slice));
                sink.training(pair)
            })
        };
        let (mut part, mut places) = (Vec::with_capacity(PART), Vec::with_capacity(PART));
        let (mut encoded, mut copies, all) = (0, 0, self.text.pair_count());
        for ReadPair { place, pair } in self.noisy()? {
            let pair = pair?;
            let Place { index, is_copy } = place;
            if is_copy {
                copies += 1;
            } else if self.validation.is_training(index, all) {
                sink.validation(&pair)?;
            } else if is_in(&self.held_out, index) {
                sink.validation(&pair)?;
                continue;
            }
            part.push(pair);
            places.push(place);
            if part.len() == PART {
                encode_part(&part, &places, sink)?;
                let before = encoded;
                encoded += part.len();
                if encoded / PROGRESS > before / PROGRESS {
                    (control.progress)(Progress::Encoded { pairs: encoded, total: all });
                }
                part.clear();
                places.clear();
            }
        }
        encode_part(&part, &places, sink)?;
        let report = encoder.finish(TRAINING)?;
        Ok(EncodingReport { copies, ..report }.with_context(&context))
    }

    /// Returns the context of each training pair of a part, which is empty for those that are trained without
    /// it.
    fn contexts<'p>(
        &self,
        part: &'p [Cow<'_, SentencePair>],
        places: &[Place],
    ) -> Vec<&'p [String]> {
        let Some(context) = self.context else { return Vec::new() };
        let of_pair = |(pair, place): (&'p Cow<'_, SentencePair>, &Place)| {
            let is_dropped = context.is_dropped(place.index, pair);
            if is_dropped { &[] } else { &pair.context[..] }
        };
        part.iter().zip(places).map(of_pair).collect()
    }
}

/// Sink that rejects validation pairs with unknown labels.
struct KnownLabels<'a, S> {
    labels: &'a Labels,
    sink: &'a mut S,
    /// Number of validation pairs so far.
    validation: usize,
}

impl<S: CorpusSink> CorpusSink for KnownLabels<'_, S> {
    fn training(&mut self, pair: EncodedPair) -> Result<(), DataError> {
        self.sink.training(pair)
    }

    fn validation(&mut self, pair: &SentencePair) -> Result<(), DataError> {
        self.validation += 1;
        // A pair without label is dropped and counted later.
        if !pair.target.trim().is_empty() {
            self.labels.class_in_line(&pair.target, self.validation, VALIDATION)?;
        }
        self.sink.validation(pair)
    }
}

impl CleanCorpus<Vec<SentencePair>> {
    /// Returns the training and validation pairs as text.
    pub fn into_split(self) -> Split {
        let Self { text, validation, held_out, .. } = self;
        match validation {
            ValidationPairs::Given(validation) => Split { train: text, validation },
            ValidationPairs::Training(_) => {
                let pairs = text.iter().enumerate();
                let selected =
                    pairs.filter(|(index, _)| validation.is_training(*index, text.len()));
                let validation = selected.map(|(_, pair)| pair.clone()).collect();
                Split { validation, train: text }
            }
            ValidationPairs::SetAside { .. } => Split::of(text, &held_out),
        }
    }
}

/// Returns `true` if the pair at `index` is set aside.
fn is_in(held_out: &[bool], index: usize) -> bool {
    held_out.get(index).copied().unwrap_or(false)
}

#[cfg(test)]
mod tests;
