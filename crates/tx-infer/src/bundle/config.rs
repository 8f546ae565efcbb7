//! `config.toml`: format, task, vocabulary sizes, hashes of the tokenizers, languages, context, search options,
//! model configuration.

use std::{io, path::Path};

use serde::{Deserialize, Serialize};
use tx_model::{DecoderStart, ModelConfig, Pooling, VocabSizes};
use tx_text::{Tokenizers, context::SEPARATOR};

use super::{CONFIG, Languages, MAX_CONTEXT, QUANTIZED_FORMAT, files::Files};
use crate::{
    calibration::Calibration,
    error::InferError,
    file::write_whole,
    search::SearchOptions,
    task::{ModelTask, TaskKind},
};

/// Maximum number of hypotheses or samples in the search options of a bundle, which may be untrusted:
/// memory grows with it.
const MAX_BUNDLE_ROWS: usize = 256;

/// Dtype of the matrices in a weights file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WeightDtype {
    /// Single precision.
    #[default]
    F32,
    /// Signed bytes with a scale for each column.
    Int8,
}

impl WeightDtype {
    fn is_f32(&self) -> bool {
        *self == Self::F32
    }
}

/// Content of `config.toml`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BundleConfig {
    pub(super) format: u32,
    /// Absent for translation.
    #[serde(default, skip_serializing_if = "TaskKind::is_default")]
    pub(super) task: TaskKind,
    /// Names of the classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) labels: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pooling: Option<Pooling>,
    /// Dtype of the weights. Absent in formats 1 and 2.
    #[serde(default, skip_serializing_if = "WeightDtype::is_f32")]
    pub(super) weights: WeightDtype,
    pub(super) vocabulary: VocabSizes,
    pub(super) tokenizers: Hashes,
    /// Absent in format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) languages: Option<Languages>,
    /// Sentences before a source that it is read with, at most. Absent if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) context: usize,
    /// Absent in format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) search: Option<SearchOptions>,
    /// Absent before the model is calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) calibration: Option<Calibration>,
    pub(super) model: ModelConfig,
}

/// SHA-256 of the tokenizer files, in hexadecimal: of two for translation, of one for other tasks.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hashes {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) source_sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) target_sha256: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl BundleConfig {
    /// Writes `config.toml` at `path`.
    pub(super) fn write(&self, path: &Path) -> Result<(), InferError> {
        let text = toml::to_string(self).map_err(io::Error::other);
        text.and_then(|text| write_whole(path, text.as_bytes()))
            .map_err(|source| InferError::Write { path: path.into(), source })
    }

    /// Reads `config.toml`; also returns the task.
    pub(super) fn read(files: &Files) -> Result<(Self, ModelTask), InferError> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let path = files.path(CONFIG);
        let problem = |problem| InferError::Config { path: path.clone(), problem };
        let parse_problem = |error: toml::de::Error| problem(error.to_string());
        let text = files.read_text(CONFIG)?;
        // The format is checked first, because another one may have other keys.
        let Format { format } = toml::from_str(&text).map_err(parse_problem)?;
        if !(1..=QUANTIZED_FORMAT).contains(&format) {
            let newest = QUANTIZED_FORMAT;
            return Err(InferError::Format { path: path.clone(), found: format, newest });
        }
        let mut config: Self = toml::from_str(&text).map_err(parse_problem)?;
        let task = ModelTask::from_keys(config.task, config.labels.take(), config.pooling);
        let task = task.map_err(problem)?;
        config.tokenizers.check(task.kind()).map_err(problem)?;
        if task.kind().has_one_text() && config.model.decoder_start != DecoderStart::Bos {
            return Err(problem(format!(
                "the task `{}` has no `model.decoder_start`",
                task.kind()
            )));
        }
        config.check_format().map_err(problem)?;
        Ok((config, task))
    }

    /// # Errors
    ///
    /// If a key is not part of the format.
    fn check_format(&self) -> Result<(), String> {
        let new = [
            ("languages", self.languages.is_some(), 2),
            ("context", self.context > 0, 2),
            ("search", self.search.is_some(), 2),
            ("calibration", self.calibration.is_some(), 2),
            ("weights", !self.weights.is_f32(), QUANTIZED_FORMAT),
        ];
        match new.iter().find(|(_, is_given, since)| *is_given && self.format < *since) {
            Some((key, ..)) => Err(format!("`{key}` is not part of format {}", self.format)),
            None => Ok(()),
        }
    }

    /// Checks languages, context and search options of a model with these tokenizers.
    ///
    /// # Errors
    ///
    /// [`InferError::Config`], which names `path`, with the problem.
    pub(super) fn check_options(
        &self,
        path: &Path,
        tokenizers: &Tokenizers,
    ) -> Result<(), InferError> {
        let languages = match (&self.languages, self.task) {
            (None, _) => None,
            (Some(languages), TaskKind::Translate) => languages.problem(tokenizers),
            (Some(_), task) => Some(format!("the task `{task}` has no `languages`")),
        };
        let context = self.context_problem(tokenizers);
        let search = self.search.as_ref().and_then(|search| self.search_problem(search));
        let calibration = self.calibration.as_ref().and_then(|calibration| match self.task {
            TaskKind::Translate => calibration.problem(),
            task => Some(format!("the task `{task}` has no `calibration`")),
        });
        match languages.or(context).or(search).or(calibration) {
            Some(problem) => Err(InferError::Config { path: path.into(), problem }),
            None => Ok(()),
        }
    }

    /// Returns the problem of the context, if there is one.
    fn context_problem(&self, tokenizers: &Tokenizers) -> Option<String> {
        let context = self.context;
        match self.task {
            _ if context == 0 => None,
            TaskKind::Translate if context > MAX_CONTEXT => {
                Some(format!("`context` = {context} must be at most {MAX_CONTEXT}"))
            }
            TaskKind::Translate => {
                let is_missing = tokenizers.source.special_id(SEPARATOR).is_none();
                let problem = || {
                    format!("`context` = {context}, but the source tokenizer has no {SEPARATOR}")
                };
                is_missing.then(problem)
            }
            TaskKind::Classify | TaskKind::Generate | TaskKind::FillMask => {
                Some(format!("the task `{}` has no `context`", self.task))
            }
        }
    }

    /// Returns the problems of the search options, if there are any.
    fn search_problem(&self, search: &SearchOptions) -> Option<String> {
        let mut problems = search.problems();
        match self.task {
            TaskKind::Translate => {}
            TaskKind::Generate => search.problems_without_source(&mut problems),
            TaskKind::Classify | TaskKind::FillMask => {
                return Some(format!("the task `{}` has no `search`", self.task));
            }
        }
        if search.rows() > MAX_BUNDLE_ROWS {
            problems.push(format!(
                "{} hypotheses or samples; a bundle has at most {MAX_BUNDLE_ROWS}",
                search.rows()
            ));
        }
        let layers = self.model.decoder_layers;
        if let Some(layer) = search.attention_layer.filter(|layer| *layer > layers) {
            problems
                .push(format!("`attention_layer` = {layer}, but the decoder has {layers} layers"));
        }
        let ids = self.vocabulary.target;
        if let Some(id) = search.suppress.iter().find(|id| **id as usize >= ids) {
            problems.push(format!("`suppress` has {id}, but the vocabulary has {ids} ids"));
        }
        (!problems.is_empty()).then(|| format!("`search`: {}", problems.join("; ")))
    }

    /// Returns the hashes of the source and the target tokenizer, which are equal for tasks with
    /// one text.
    pub(super) fn hashes(&self) -> [&str; 2] {
        let Hashes { sha256, source_sha256, target_sha256 } = &self.tokenizers;
        [source_sha256, target_sha256]
            .map(|hash| hash.as_ref().or(sha256.as_ref()).map_or("", String::as_str))
    }
}

impl Hashes {
    /// Checks that the hashes are those of a task's tokenizer files.
    fn check(&self, kind: TaskKind) -> Result<(), String> {
        let keys = [
            ("sha256", &self.sha256, kind.has_one_text()),
            ("source_sha256", &self.source_sha256, !kind.has_one_text()),
            ("target_sha256", &self.target_sha256, !kind.has_one_text()),
        ];
        for (key, value, is_expected) in keys {
            match (value.is_some(), is_expected) {
                (true, false) => {
                    return Err(format!("the task `{kind}` has no `tokenizers.{key}`"));
                }
                (false, true) => return Err(format!("`tokenizers.{key}` is missing")),
                (true, true) | (false, false) => {}
            }
        }
        Ok(())
    }
}
