//! `config.toml`: format, task, vocabulary sizes, hashes of the tokenizers, model configuration.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tx_model::{ModelConfig, Pooling, VocabSizes};

use super::{FORMAT, files::read_text};
use crate::{
    error::InferError,
    task::{ModelTask, TaskKind},
};

/// Content of `config.toml`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BundleConfig {
    format: u32,
    /// Absent for translation.
    #[serde(default, skip_serializing_if = "TaskKind::is_default")]
    task: TaskKind,
    /// Names of the classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    labels: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pooling: Option<Pooling>,
    pub(super) vocabulary: VocabSizes,
    tokenizers: Hashes,
    pub(super) model: ModelConfig,
}

/// SHA-256 of the tokenizer files, in hexadecimal: of two for translation, of one for other tasks.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hashes {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source_sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target_sha256: Option<String>,
}

impl BundleConfig {
    /// Describes a model; `hashes` are those of its tokenizer files, in the order of
    /// [`tokenizer_files`](super::tokenizer_files).
    #[cfg(feature = "burn")]
    pub(super) fn new(
        task: &ModelTask,
        vocabulary: VocabSizes,
        hashes: impl IntoIterator<Item = String>,
        model: &ModelConfig,
    ) -> Self {
        let (labels, pooling) = match task {
            ModelTask::Classify { labels, pooling } => (Some(labels.clone()), Some(*pooling)),
            ModelTask::Translate | ModelTask::Generate | ModelTask::FillMask => (None, None),
        };
        let mut hashes = hashes.into_iter();
        let tokenizer_hashes = if task.kind().has_one_text() {
            Hashes { sha256: hashes.next(), source_sha256: None, target_sha256: None }
        } else {
            Hashes { sha256: None, source_sha256: hashes.next(), target_sha256: hashes.next() }
        };
        Self {
            format: FORMAT,
            task: task.kind(),
            labels,
            pooling,
            vocabulary,
            tokenizers: tokenizer_hashes,
            model: model.clone(),
        }
    }

    /// Reads `config.toml` at `path`; also returns the task.
    pub(super) fn read(path: &Path) -> Result<(Self, ModelTask), InferError> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let problem = |problem| InferError::Config { path: path.into(), problem };
        let parse_problem = |error: toml::de::Error| problem(error.to_string());
        let text = read_text(path)?;
        // The format is checked first, because another one may have other keys.
        let Format { format } = toml::from_str(&text).map_err(parse_problem)?;
        if format != FORMAT {
            return Err(InferError::Format { path: path.into(), found: format, newest: FORMAT });
        }
        let mut config: Self = toml::from_str(&text).map_err(parse_problem)?;
        let task = ModelTask::from_keys(config.task, config.labels.take(), config.pooling);
        let task = task.map_err(problem)?;
        config.tokenizers.check(task.kind()).map_err(problem)?;
        Ok((config, task))
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
