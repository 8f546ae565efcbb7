//! Distillation from one or more teachers.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Table `train.distill`: word-level knowledge distillation (Kim and Rush 2016, section 3.1), with several
/// teachers from an ensemble (Freitag et al. 2017).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistillationConfig {
    /// Bundles of the teachers. A new model uses their tokenizers.
    pub teacher: TeacherFolders,
    /// Weight of the cross-entropy with the teachers; that of the references is one minus this weight.
    #[serde(default = "default_weight")]
    pub weight: f64,
    /// Divisor of the logits of all models (Hinton et al. 2015).
    #[serde(default = "default_temperature")]
    pub temperature: f64,
}

/// Folders of the teachers' bundles: one path, or a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected the folder of a bundle, or a list of folders")]
pub enum TeacherFolders {
    /// One teacher.
    One(PathBuf),
    /// Ensemble, whose probabilities are averaged.
    Many(Vec<PathBuf>),
}

impl TeacherFolders {
    /// Returns the folders in their order.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        let folders = match self {
            Self::One(folder) => std::slice::from_ref(folder),
            Self::Many(folders) => folders,
        };
        folders.iter().map(PathBuf::as_path)
    }
}

fn default_weight() -> f64 {
    0.5
}

fn default_temperature() -> f64 {
    1.0
}

impl DistillationConfig {
    /// Returns the folder of the first teacher, whose tokenizers a new model uses.
    pub(crate) fn first(&self) -> Option<&Path> {
        self.teacher.folders().next()
    }

    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let Self { teacher: _, weight, temperature } = self;
        if self.first().is_none() {
            problems.push("`distill.teacher` is an empty list".into());
        }
        if !(*weight > 0.0 && *weight <= 1.0) {
            problems.push(format!("`distill.weight` = {weight} must be more than 0 and at most 1"));
        }
        if !(*temperature > 0.0 && temperature.is_finite()) {
            problems.push(format!("`distill.temperature` = {temperature} must be more than 0"));
        }
        problems
    }
}
