//! Tasks: translation, classification, language modeling, masked language modeling.

use std::{collections::HashSet, fmt};

use serde::{Deserialize, Serialize};
use tx_model::{Architecture, Pooling};

/// Kind of task that a model is trained for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskKind {
    /// Translates a source into a target.
    #[default]
    Translate,
    /// Assigns a label to a text.
    Classify,
    /// Continues a text.
    Generate,
    /// Replaces each `<mask>` in a text by a token.
    FillMask,
}

impl TaskKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Translate, Self::Classify, Self::Generate, Self::FillMask];

    /// Returns the name in files and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Translate => "translate",
            Self::Classify => "classify",
            Self::Generate => "generate",
            Self::FillMask => "fill-mask",
        }
    }

    /// Returns `true` if the task has one text and therefore one tokenizer.
    pub const fn has_one_text(self) -> bool {
        match self {
            Self::Translate => false,
            Self::Classify | Self::Generate | Self::FillMask => true,
        }
    }

    /// Returns `true` for the default, which a configuration omits.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for TaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Task of a model, with the data that the weights do not contain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ModelTask {
    /// Translation of a source into a target.
    #[default]
    Translate,
    /// Classification of a text.
    Classify {
        /// Names of the classes, in the order of the classes.
        labels: Vec<String>,
        /// Reduction of the encoder's output to one vector.
        pooling: Pooling,
    },
    /// Continuation of a text.
    Generate,
    /// Prediction of masked tokens.
    FillMask,
}

impl ModelTask {
    /// Returns the kind of the task.
    pub fn kind(&self) -> TaskKind {
        match self {
            Self::Translate => TaskKind::Translate,
            Self::Classify { .. } => TaskKind::Classify,
            Self::Generate => TaskKind::Generate,
            Self::FillMask => TaskKind::FillMask,
        }
    }

    /// Returns the names of the classes; empty for other tasks than classification.
    pub fn labels(&self) -> &[String] {
        match self {
            Self::Classify { labels, .. } => labels,
            Self::Translate | Self::Generate | Self::FillMask => &[],
        }
    }

    /// Returns the architecture of the model for this task.
    pub fn architecture(&self) -> Architecture {
        match self {
            Self::Translate => Architecture::EncoderDecoder,
            Self::Classify { labels, pooling } => {
                Architecture::Classifier { classes: labels.len(), pooling: *pooling }
            }
            Self::Generate => Architecture::LanguageModel,
            Self::FillMask => Architecture::MaskedLanguageModel,
        }
    }

    /// Combines the keys of a configuration.
    ///
    /// # Errors
    ///
    /// The first problem: a key that is missing or belongs to another task, fewer than two labels,
    /// or a label that is empty or occurs twice.
    pub(crate) fn from_keys(
        kind: TaskKind,
        labels: Option<Vec<String>>,
        pooling: Option<Pooling>,
    ) -> Result<Self, String> {
        let other = |task| match (&labels, pooling) {
            (None, None) => Ok(task),
            (Some(_), _) => Err(format!("the task `{kind}` has no `labels`")),
            (None, Some(_)) => Err(format!("the task `{kind}` has no `pooling`")),
        };
        match kind {
            TaskKind::Translate => other(Self::Translate),
            TaskKind::Generate => other(Self::Generate),
            TaskKind::FillMask => other(Self::FillMask),
            TaskKind::Classify => {
                let labels = labels.ok_or("the task `classify` needs `labels`")?;
                let pooling = pooling.ok_or("the task `classify` needs `pooling`")?;
                check_labels(&labels)?;
                Ok(Self::Classify { labels, pooling })
            }
        }
    }
}

fn check_labels(labels: &[String]) -> Result<(), String> {
    if labels.len() < 2 {
        return Err(format!("`labels` has {} entries, expected at least 2", labels.len()));
    }
    let mut seen = HashSet::new();
    for label in labels {
        if label.trim().is_empty() {
            return Err("`labels` contains an empty label".into());
        }
        if !seen.insert(label) {
            return Err(format!("`labels` contains {label:?} twice"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_files() {
        for kind in TaskKind::ALL {
            let json = serde_json::to_string(&kind).unwrap();
            assert_eq!(json, format!("\"{kind}\""));
            assert_eq!(serde_json::from_str::<TaskKind>(&json).unwrap(), kind);
        }
        assert!(serde_json::from_str::<TaskKind>("\"summarize\"").is_err());
        assert!(TaskKind::default().is_default() && !TaskKind::FillMask.is_default());
    }

    #[test]
    fn keys_of_a_configuration_give_one_task_or_the_problem() {
        let labels = |labels: &[&str]| Some(labels.iter().map(|&label| label.into()).collect());
        let mean = Some(Pooling::Mean);
        let found = ModelTask::from_keys(TaskKind::Classify, labels(&["b", "a"]), mean).unwrap();
        assert_eq!(
            found.architecture(),
            Architecture::Classifier { classes: 2, pooling: Pooling::Mean }
        );
        for kind in [TaskKind::Translate, TaskKind::Generate, TaskKind::FillMask] {
            assert_eq!(ModelTask::from_keys(kind, None, None).unwrap().kind(), kind);
        }
        for (kind, labels, pooling, problem) in [
            (TaskKind::Classify, None, mean, "needs `labels`"),
            (TaskKind::Classify, labels(&["a", "b"]), None, "needs `pooling`"),
            (TaskKind::Classify, labels(&["a"]), mean, "has 1 entries"),
            (TaskKind::Classify, labels(&[]), mean, "has 0 entries"),
            (TaskKind::Classify, labels(&["a", "b", "a"]), mean, "contains \"a\" twice"),
            (TaskKind::Classify, labels(&["a", " "]), mean, "an empty label"),
            (TaskKind::Generate, labels(&["a", "b"]), None, "`generate` has no `labels`"),
            (TaskKind::FillMask, None, mean, "`fill-mask` has no `pooling`"),
            (TaskKind::Translate, labels(&[]), mean, "`translate` has no `labels`"),
        ] {
            let error = ModelTask::from_keys(kind, labels, pooling).unwrap_err();
            assert!(error.contains(problem), "{problem}: {error}");
        }
    }
}
