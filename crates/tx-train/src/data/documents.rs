//! Documents of a run, for language models.

use std::path::Path;

use tx_data::{
    DataError, DocumentEnd, DocumentStore, documents,
    documents::DocumentReport,
    source::{
        phrasebook,
        read::{self, ReadOptions},
    },
    split::split_texts,
    subset,
};
use tx_text::{Tokenizer, special::SpecialTokens};

use super::{DataAccess, DataSummary, Known, ValidationCounts, fingerprints::Fingerprints};
use crate::{
    config::{DataSource, TrainConfig},
    corpus::{GENERATED_TRAINING, GENERATED_VALIDATION},
    error::TrainError,
};

/// Encoded training and validation documents of a run.
pub(crate) struct DocumentData {
    pub summary: DataSummary,
    pub train: DocumentStore,
    pub valid: DocumentStore,
    /// Counts of the validation documents in use.
    pub report: DocumentReport,
    /// The validation documents in use.
    pub validation: Vec<String>,
}

impl DocumentData {
    /// Reads and encodes the documents of `config`. The tokenizer is learned, with `special`
    /// tokens, unless it is `known`. Documents are not cleaned.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or a part has no documents.
    pub(crate) fn new(
        config: &TrainConfig,
        known: Known,
        special: SpecialTokens,
        access: &DataAccess<'_>,
    ) -> Result<Self, TrainError> {
        let (training, validation) = read(config, access)?;
        let fingerprints = Fingerprints::of_documents(&training, &validation);
        let tokenizer = match known.of_text() {
            Some(tokenizer) => tokenizer,
            None => Tokenizer::train(&config.tokenizer, special, &training)?,
        };
        access.check()?;
        let (train, report) = DocumentStore::encode(&training, &tokenizer, "the training data")?;
        let tokenizers = tokenizer.clone().into();
        access.print_vocabulary(config, &tokenizers);
        (access.print)(&format!("training: {}", described(&report)));
        let available = validation.len();
        let (most, seed) = (config.validation.sentences, config.train.seed);
        let validation = subset::stratified(validation, most, seed, String::len);
        let counts = ValidationCounts { available, used: validation.len() };
        access.print_used(counts, "documents");
        let (valid, report) =
            DocumentStore::encode(&validation, &tokenizer, "the validation data")?;
        (access.print)(&format!("validation: {}", described(&report)));
        Ok(Self {
            summary: DataSummary::new(
                "documents",
                training.len(),
                counts,
                fingerprints,
                tokenizers,
            ),
            train,
            valid,
            report,
            validation,
        })
    }
}

fn described(report: &DocumentReport) -> String {
    let DocumentReport { documents, tokens, longest, words, characters, .. } = report;
    format!(
        "{documents} documents, {tokens} tokens, {words} words, {characters} characters; the longest \
         has {longest} tokens"
    )
}

/// Reads or generates the documents of both parts.
fn read(
    config: &TrainConfig,
    access: &DataAccess<'_>,
) -> Result<(Vec<String>, Vec<String>), TrainError> {
    let data = &config.data;
    let most = data.valid_pairs.unwrap_or(usize::MAX);
    if data.source == DataSource::Phrasebook {
        let (training, validation) = (
            data.train_pairs.unwrap_or(GENERATED_TRAINING),
            data.valid_pairs.unwrap_or(GENERATED_VALIDATION),
        );
        let texts = |pairs: Vec<tx_text::SentencePair>| {
            pairs.into_iter().map(|pair| pair.source).collect::<Vec<_>>()
        };
        let seed = config.train.seed;
        return Ok((
            texts(phrasebook::typed_training(training, seed)),
            texts(phrasebook::typed_validation(validation, seed)),
        ));
    }
    let Some(path) = &data.train_source else {
        return Err(TrainError::Problems { problems: config.problems() });
    };
    let mut training = file(path, config, access)?;
    training.truncate(data.train_pairs.unwrap_or(usize::MAX));
    let (training, mut validation) = match &data.valid_source {
        Some(path) => (training, file(path, config, access)?),
        None if data.valid_share == 0.0 => {
            let validation = training.iter().take(most).cloned().collect();
            (training, validation)
        }
        None => split_texts(training, data.valid_share, data.split_by, config.train.seed),
    };
    validation.truncate(most);
    if validation.is_empty() && !training.is_empty() {
        let documents = training.len();
        let reason = match data.documents {
            _ if data.valid_source.is_some() => "its file has no text".to_owned(),
            DocumentEnd::EmptyLine => format!(
                "none of the {documents} documents, which are separated by empty lines, can be set \
                 aside; name a file as `data.valid_source`, set `data.documents = \"line\"`, or set \
                 `data.valid_share` = 0 to validate on training data"
            ),
            DocumentEnd::Line => format!(
                "none of the {documents} lines can be set aside; name a file as \
                 `data.valid_source`, or set `data.valid_share` = 0 to validate on training data"
            ),
        };
        let what = "the validation data".into();
        return Err(DataError::NoDocuments { what, reason }.into());
    }
    Ok((training, validation))
}

/// Reads the documents of a file.
fn file(
    path: &Path,
    config: &TrainConfig,
    access: &DataAccess<'_>,
) -> Result<Vec<String>, TrainError> {
    let options = ReadOptions { format: config.data.format, ..ReadOptions::default() };
    let mut lines = Vec::new();
    for line in read::lines(path, &options)? {
        access.check()?;
        lines.push(line?);
    }
    Ok(documents::documents(lines, config.data.documents))
}
