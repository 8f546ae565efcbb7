//! Training corpora of a run, opened: text in memory, or ids on disk.

use std::borrow::Cow;

use tx_data::{
    CleaningReport, DataError,
    pipeline::{CleanCorpus, Control, Progress, ValidationPairs},
    prepared::PreparedCorpus,
};
use tx_text::SentencePair;

use super::{
    DataAccess,
    fingerprints::Fingerprints,
    given::{ValidationText, given},
    prepared, print_annotations, print_overlap,
};
use crate::{
    config::{CorpusConfig, TrainConfig},
    corpus,
    error::TrainError,
};

/// Training corpus of a run.
pub(super) struct Opened {
    pub entry: CorpusConfig,
    /// Start of messages: the name, or empty if the corpus is the only one.
    pub label: String,
    pub pairs: OpenedPairs,
}

/// Pairs of a training corpus.
pub(super) enum OpenedPairs {
    /// Text in memory.
    Text(Box<CleanCorpus<Vec<SentencePair>>>),
    /// Ids on disk.
    Prepared(Box<PreparedCorpus>),
}

impl Opened {
    /// Returns the number of training pairs, before those that are too long are left out.
    pub fn training_pairs(&self) -> usize {
        match &self.pairs {
            OpenedPairs::Text(corpus) => corpus.training_pairs(),
            OpenedPairs::Prepared(corpus) => corpus.record.training_pairs,
        }
    }

    /// Returns the counts of each cleaning step.
    pub fn cleaning(&self) -> &CleaningReport {
        match &self.pairs {
            OpenedPairs::Text(corpus) => &corpus.cleaning,
            OpenedPairs::Prepared(corpus) => &corpus.record.cleaning,
        }
    }

    /// Returns the text of a corpus that is not prepared.
    pub fn text(&self) -> Option<&CleanCorpus<Vec<SentencePair>>> {
        match &self.pairs {
            OpenedPairs::Text(corpus) => Some(corpus),
            OpenedPairs::Prepared(_) => None,
        }
    }

    /// Returns the fingerprints of the training pairs and of `validation`, of which the first
    /// `used` are in use. Those of a prepared corpus are of its own validation pairs.
    pub fn fingerprints(
        &self,
        validation: &[SentencePair],
        used: usize,
    ) -> Result<Fingerprints, DataError> {
        match &self.pairs {
            OpenedPairs::Text(corpus) => {
                let found = Fingerprints::of_pairs(corpus.training()?, validation, used)?;
                Ok(found.with_annotations(corpus.annotations()))
            }
            OpenedPairs::Prepared(corpus) => Ok(Fingerprints {
                training: corpus.training_fingerprint(),
                validation: corpus.validation_fingerprint(),
                together: corpus.fingerprint(),
            }),
        }
    }
}

/// Opens the training corpora of `config`. Near duplicates of the validation pairs that are `given`
/// are handled as configured; if none are, the only corpus sets some aside.
///
/// # Errors
///
/// If a corpus cannot be read, has no pair, or the work is interrupted.
pub(super) fn open(
    config: &TrainConfig,
    given: &[ValidationText],
    access: &DataAccess<'_>,
) -> Result<Vec<Opened>, TrainError> {
    let open = |entry: CorpusConfig| {
        access.check()?;
        let is_named = config.data.has_lists() || entry.fraction.is_some();
        let label = if is_named { format!("{}: ", entry.name()) } else { String::new() };
        access.print_columns(config, &entry);
        let pairs = match &entry.prepared {
            Some(folder) => {
                let corpus = prepared::open(config, folder, &label, access)?;
                OpenedPairs::Prepared(Box::new(corpus))
            }
            None => {
                let given = given.iter().flat_map(|set| set.pairs.clone()).collect();
                OpenedPairs::Text(Box::new(clean(config, &entry, given, &label, access)?))
            }
        };
        Ok(Opened { entry, label, pairs })
    };
    config.data.corpora().into_iter().map(open).collect()
}

/// Reads and cleans the only corpus of `config`, in memory, with its validation pairs.
///
/// # Errors
///
/// If there are several corpora, a file cannot be read, or the work is interrupted.
pub(crate) fn load(
    config: &TrainConfig,
    access: &DataAccess<'_>,
) -> Result<CleanCorpus<Vec<SentencePair>>, TrainError> {
    match &config.data.corpora()[..] {
        [entry, ..] if !config.data.has_lists() => {
            access.print_columns(config, entry);
            let given = given(config, access)?;
            let given = given.into_iter().flat_map(|set| set.pairs).collect();
            clean(config, entry, given, "", access)
        }
        _ => {
            let problem = "[data] lists of corpora are available for training only".into();
            Err(TrainError::Problems { problems: vec![problem] })
        }
    }
}

/// Reads and cleans the pairs of `entry` in memory. The validation pairs are those `given`, or set
/// aside. `label` starts the messages.
///
/// # Errors
///
/// If a file cannot be read, no pair is left, or the work is interrupted.
fn clean(
    config: &TrainConfig,
    entry: &CorpusConfig,
    given: Vec<SentencePair>,
    label: &str,
    access: &DataAccess<'_>,
) -> Result<CleanCorpus<Vec<SentencePair>>, TrainError> {
    let validation = match entry.fraction {
        // Replayed pairs are all for training.
        Some(_) => ValidationPairs::Training(1),
        None => corpus::validation_or(config, given),
    };
    let options = corpus::corpus_options(config, entry, validation);
    let print = |progress: Progress<'_>| {
        if let Progress::Cleaned(report) = progress
            && !entry.is_generated()
        {
            (access.print)(&format!("{label}{report}"));
        }
    };
    let control = Control { stop: access.stop, progress: &print };
    let pairs = corpus::training(config, entry, access.cache)?;
    let annotations = corpus::annotations(entry)?;
    let corpus = CleanCorpus::read_annotated(pairs, annotations, options, Vec::new(), &control)?;
    if corpus.training_pairs() == 0 && !label.is_empty() {
        let (what, reason) = (format!("`{}`", entry.name()), "no pair is left".to_owned());
        return Err(DataError::NoPairs { what, reason }.into());
    }
    let unit = if config.task.has_one_text() { "texts" } else { "pairs" };
    print_overlap(corpus.overlap, corpus.overlap_dropped, unit, access.print);
    print_annotations(&corpus, access.print);
    if corpus.documents > 0 {
        (access.print)(&format!("{label}context: the sentences of {} documents", corpus.documents));
    }
    access.check()?;
    Ok(corpus)
}

/// Returns the text of the corpora that vocabularies are learned from, in order: all but those that
/// are prepared or replayed.
///
/// # Errors
///
/// If a text cannot be read.
pub(super) fn texts(
    corpora: &[Opened],
) -> Result<impl Iterator<Item = Result<Cow<'_, SentencePair>, DataError>>, DataError> {
    let learned = corpora.iter().filter(|corpus| corpus.entry.fraction.is_none());
    let texts = learned.filter_map(|corpus| Some(corpus.text()?.training()));
    Ok(texts.collect::<Result<Vec<_>, _>>()?.into_iter().flatten())
}
