//! Result of a training run.

use std::path::PathBuf;

use crate::{
    classification::report::ClassificationReport,
    language_modeling::report::LanguageModelReport,
    masked_language_modeling::report::MaskedLanguageModelReport,
    recording::run_state::RunState,
    translation::validation::Validation,
    validation_report::{Figure, ValidationReport},
};

/// Result of a training run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Run folder, which is also a bundle of the best model.
    pub run: PathBuf,
    /// State at the end of the run.
    pub state: RunState,
    /// Last validation.
    pub validation: Option<TaskValidation>,
    /// First validation inputs, to try the bundle with.
    pub examples: Vec<String>,
    /// Whether the run was interrupted.
    pub interrupted: bool,
    /// Update of the last checkpoint, to resume from, if there is one.
    pub checkpoint: Option<usize>,
}

/// Validation of a model, by its task.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskValidation {
    /// Translation.
    Translate(Validation),
    /// Classification.
    Classify(ClassificationReport),
    /// Language modeling.
    Generate(LanguageModelReport),
    /// Masked language modeling.
    FillMask(MaskedLanguageModelReport),
}

impl TaskValidation {
    /// Returns all metrics.
    pub fn figures(&self) -> Vec<Figure> {
        match self {
            Self::Translate(report) => report.figures(),
            Self::Classify(report) => report.figures(),
            Self::Generate(report) => report.figures(),
            Self::FillMask(report) => report.figures(),
        }
    }

    /// Returns all metrics in one line of text.
    pub fn summary(&self) -> String {
        match self {
            Self::Translate(report) => report.summary(),
            Self::Classify(report) => report.summary(),
            Self::Generate(report) => report.summary(),
            Self::FillMask(report) => report.summary(),
        }
    }

    /// Returns the validation of a translation model; `None` for other tasks.
    pub fn translation(&self) -> Option<&Validation> {
        match self {
            Self::Translate(report) => Some(report),
            Self::Classify(_) | Self::Generate(_) | Self::FillMask(_) => None,
        }
    }
}

impl From<Validation> for TaskValidation {
    fn from(report: Validation) -> Self {
        Self::Translate(report)
    }
}

impl From<ClassificationReport> for TaskValidation {
    fn from(report: ClassificationReport) -> Self {
        Self::Classify(report)
    }
}

impl From<LanguageModelReport> for TaskValidation {
    fn from(report: LanguageModelReport) -> Self {
        Self::Generate(report)
    }
}

impl From<MaskedLanguageModelReport> for TaskValidation {
    fn from(report: MaskedLanguageModelReport) -> Self {
        Self::FillMask(report)
    }
}
