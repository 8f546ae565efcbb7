//! Configuration of a training run, as plain data.

use std::{fs, io, path::Path};

use serde::{Deserialize, Serialize};
use tx_infer::{TaskKind, file::write_whole};
use tx_model::{Architecture, ModelConfig, VocabSizes, WeightShape};
use tx_text::{TokenizerConfig, TokenizerKind, special::SpecialTokens};

use super::{
    classification::ClassificationConfig, corpus::CorpusConfig, data::DataConfig,
    interval::Interval, masking::MaskingConfig, optimization::OptimizationConfig,
    parent::ParentBundle, similar::nearest_of, validation::ValidationConfig,
};
use crate::error::TrainError;

/// Name of the configuration file in a run folder.
pub(crate) const CONFIG_FILE: &str = "train.toml";

/// Reads the task of the run in `run` from its configuration.
///
/// # Errors
///
/// If the configuration cannot be read.
pub(crate) fn task_of_run(run: &Path) -> Result<TaskKind, TrainError> {
    #[derive(Deserialize)]
    struct TaskOfRun {
        #[serde(default)]
        task: TaskKind,
    }
    let path = run.join(CONFIG_FILE);
    let text = fs::read_to_string(&path).map_err(TrainError::reading(&path))?;
    let TaskOfRun { task } = toml::from_str(&text).map_err(|error| TrainError::Config {
        location: path.display().to_string(),
        problem: error.message().to_owned(),
        nearest: None,
    })?;
    Ok(task)
}

/// Configuration of a training run.
///
/// [`ConfigBuilder`](super::ConfigBuilder) builds it from a recipe, a file or both. The run folder
/// contains it completely, as `train.toml`. An unknown key is an error.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// Recipe that the configuration was built from, for information. In a file, the key `recipe`
    /// names the recipe whose values the file overrides; a complete configuration has `from_recipe`
    /// instead.
    #[serde(rename = "from_recipe", alias = "recipe")]
    pub recipe: Option<String>,
    /// Bundle that the run starts from. In a file, the key `from` is its folder, and the keys of the
    /// model are those of the bundle; a complete configuration has `from_bundle` instead.
    #[serde(rename = "from_bundle", alias = "from", skip_serializing_if = "Option::is_none")]
    pub from: Option<ParentBundle>,
    /// Task that the model learns.
    #[serde(skip_serializing_if = "is_translation")]
    pub task: TaskKind,
    /// Training and validation data.
    pub data: DataConfig,
    /// Tokenizers.
    pub tokenizer: TokenizerConfig,
    /// Model.
    pub model: ModelConfig,
    /// Batches, learning rate, optimizer and regularization.
    pub train: OptimizationConfig,
    /// Classification: pooling and class weights.
    #[serde(skip_serializing_if = "is_default")]
    pub classification: ClassificationConfig,
    /// Masked language modeling: choice of the masked tokens.
    #[serde(skip_serializing_if = "is_default")]
    pub masking: MaskingConfig,
    /// Validation.
    pub validation: ValidationConfig,
    /// Checkpoints.
    pub checkpoint: CheckpointConfig,
    /// Metrics for programs.
    pub metrics: MetricsConfig,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_translation(task: &TaskKind) -> bool {
    *task == TaskKind::Translate
}

/// Returns `true` for a section without effect, which a saved configuration omits.
fn is_default<T: Default + PartialEq>(section: &T) -> bool {
    *section == T::default()
}

/// Section `[checkpoint]`: checkpoints to resume from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointConfig {
    /// Interval between checkpoints: `"1 epoch"`, `"500 steps"` or `"10 minutes"`. The end of a run
    /// always has one.
    pub every: Interval,
    /// Number of the last checkpoints to keep.
    pub keep_last: usize,
    /// Number of best models whose checkpoints are kept, too; each is saved at its validation.
    pub keep_best: usize,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self { every: Interval::Minutes(10.0), keep_last: 1, keep_best: 0 }
    }
}

/// Section `[metrics]`: metrics for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetricsConfig {
    /// Number of updates per line of `metrics.jsonl`.
    pub every_steps: usize,
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self { every_steps: 50 }
    }
}

impl TrainConfig {
    /// Returns the problems of the configuration, each with section, key, value and rule. Reads no
    /// file and uses no device.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut section = |name: &str, list: Vec<String>| {
            problems.extend(list.into_iter().map(|problem| format!("[{name}] {problem}")));
        };
        section("data", self.data.problems(self.task, self.model.max_len));
        section("tokenizer", self.tokenizer_problems());
        section("model", self.model.problems());
        section("train", self.train.problems());
        section("classification", self.classification.problems());
        section("validation", self.validation.problems(self.task));
        section("checkpoint", self.checkpoint.problems());
        section("metrics", self.metrics.problems());
        let tokenizer = &self.tokenizer;
        if !self.task.has_one_text()
            && self.model.tying == tx_model::Tying::All
            && !(tokenizer.joint || tokenizer.file.is_some())
        {
            problems.push(
                "[model] `tying` = \"all\" needs one vocabulary: set `tokenizer.joint` = true"
                    .into(),
            );
        }
        problems.extend(self.decoder_start_problem());
        problems.extend(self.dropout_problems());
        problems.extend(self.annotation_problems());
        if self.task == TaskKind::Generate && self.model.encoder_from.is_some() {
            problems.push("[model] `encoder_from`: a language model has no encoder".into());
        }
        if self.from.is_some() && self.model.encoder_from.is_some() {
            problems.push("[model] `encoder_from` and `from` exclude each other".into());
        }
        problems.extend(self.language_problems());
        if self.from.is_some() && self.data.prepared.is_some() {
            problems.push(
                "[data] `prepared` is not available with `from`, whose tokenizers it lacks".into(),
            );
        }
        // The weights of an invalid model are not defined.
        if self.model.problems().is_empty() {
            let found = self.train.selection_problems(&self.weight_shapes(), self.model.d_model);
            problems.extend(found.into_iter().map(|problem| format!("[train] {problem}")));
        }
        problems
    }

    /// Returns the weights of the model. Sizes of vocabularies and the number of classes are not
    /// those of the run, because they depend on the data.
    pub(crate) fn weight_shapes(&self) -> Vec<WeightShape> {
        let architecture = match self.task {
            TaskKind::Translate => Architecture::EncoderDecoder,
            TaskKind::Classify => {
                Architecture::Classifier { classes: 2, pooling: self.classification.pooling }
            }
            TaskKind::Generate => Architecture::LanguageModel,
            TaskKind::FillMask => Architecture::MaskedLanguageModel,
        };
        self.model.weight_shapes_of(architecture, VocabSizes { source: 2, target: 2 })
    }

    fn tokenizer_problems(&self) -> Vec<String> {
        match self.task {
            TaskKind::Translate => self.tokenizer.problems(),
            TaskKind::Classify | TaskKind::Generate => {
                self.tokenizer.problems_of_one_text(SpecialTokens::Standard)
            }
            TaskKind::FillMask => self.tokenizer.problems_of_one_text(SpecialTokens::WithMask),
        }
    }

    /// Problems of the languages of a multilingual model.
    fn language_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let (corpora, sets) = (self.data.corpora(), self.data.validation_sets());
        let mut codes: Vec<&str> = Vec::new();
        for entry in &corpora {
            let code = entry.target_language.as_deref();
            codes.extend(code.filter(|code| !codes.contains(code)));
        }
        if self.from.is_some() {
            if self.data.language_tokens.is_some() {
                problems.push("[data] `language_tokens`: those of `from` are used".into());
            }
        } else if self.data.language_tokens.is_none() && codes.len() > 1 {
            problems.push(format!(
                "[data] the target languages {} need `language_tokens` = \"target-in-source\" or \
                 \"both-sides\"",
                codes.join(", ")
            ));
        }
        if self.data.language_tokens.is_some() {
            for (list, entries) in [("train", &corpora), ("valid", &sets)] {
                for (number, entry) in (1..).zip(entries) {
                    for (side, code) in
                        [("source", &entry.source_language), ("target", &entry.target_language)]
                    {
                        if code.is_none() {
                            problems.push(format!(
                                "[data] `{list}` {number}: `language_tokens` needs `{side}_language`"
                            ));
                        }
                    }
                }
            }
        }
        if let Some(set) = &self.validation.best_set {
            let names: Vec<String> = self.data.valid.iter().map(CorpusConfig::name).collect();
            if !names.contains(set) {
                let nearest = nearest_of(set, names.iter().map(String::as_str));
                problems.push(format!(
                    "[validation] `best_set` = \"{set}\" is no name of a `[[data.valid]]`{nearest}"
                ));
            }
        }
        problems
    }

    /// Problem of the decoder's first input, which only a translation model has.
    fn decoder_start_problem(&self) -> Option<String> {
        let other = self.task != TaskKind::Translate
            && self.model.decoder_start != ModelConfig::default().decoder_start;
        other.then(|| {
            format!("[model] `decoder_start` is not available for the task \"{}\"", self.task)
        })
    }

    /// Problems of word dropout, BPE dropout, R-Drop and distillation.
    fn dropout_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let Self { task, tokenizer, train, .. } = self;
        let has_bpe_dropout = matches!(task, TaskKind::Translate | TaskKind::Classify);
        if train.bpe_dropout > 0.0 && !has_bpe_dropout {
            problems
                .push(format!("[train] `bpe_dropout` is not available for the task \"{task}\""));
        } else if train.bpe_dropout > 0.0
            && tokenizer.kind != TokenizerKind::Bpe
            && !tokenizer.is_imported()
        {
            problems.push("[train] `bpe_dropout` needs `tokenizer.kind` = \"bpe\"".into());
        }
        if train.unigram_alpha.is_some() && !has_bpe_dropout {
            problems
                .push(format!("[train] `unigram_alpha` is not available for the task \"{task}\""));
        } else if train.unigram_alpha.is_some()
            && tokenizer.kind != TokenizerKind::Unigram
            && !tokenizer.is_imported()
        {
            problems.push("[train] `unigram_alpha` needs `tokenizer.kind` = \"unigram\"".into());
        }
        if train.word_dropout > 0.0 && self.data.language_tokens.is_some() {
            problems.push("[train] `word_dropout` is not available with `language_tokens`".into());
        }
        for (key, value) in [("word_dropout", train.word_dropout), ("r_drop", train.r_drop)] {
            if value > 0.0 && *task != TaskKind::Translate {
                problems.push(format!("[train] `{key}` is not available for the task \"{task}\""));
            }
        }
        if train.distill.is_some() {
            if *task != TaskKind::Translate {
                problems
                    .push(format!("[train] `distill` is not available for the task \"{task}\""));
            }
            if self.model.encoder_from.is_some() {
                problems.push("[train] `distill` is not available with `encoder_from`".into());
            }
            if self.data.prepared.is_some() {
                problems.push(
                    "[train] `distill` is not available with `data.prepared`, which has other \
                     tokenizers than the teacher"
                        .into(),
                );
            }
        }
        problems
    }

    /// Problems of weights and word alignments of pairs.
    fn annotation_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let Self { task, data, train, .. } = self;
        let corpora = data.corpora();
        let has_weights = corpora.iter().any(|entry| entry.pair_weights.is_some());
        let has_alignments = corpora.iter().any(|entry| entry.alignments.is_some());
        for (key, is_given) in [("pair_weights", has_weights), ("alignments", has_alignments)] {
            if is_given && *task != TaskKind::Translate {
                problems.push(format!("[data] `{key}` is not available for the task \"{task}\""));
            }
            if is_given && data.prepared.is_some() {
                problems.push(format!("[data] `{key}` is not available with `prepared`"));
            }
        }
        match &train.guided_alignment {
            None if has_alignments => {
                problems.push("[data] `alignments` needs `train.guided_alignment`".into());
            }
            None => {}
            Some(guided) => {
                let found = guided.problems(self.model.decoder_layers);
                problems.extend(found.into_iter().map(|problem| format!("[train] {problem}")));
                if !has_alignments {
                    problems.push("[train] `guided_alignment` needs `data.alignments`".into());
                }
                if train.bpe_dropout > 0.0 || train.unigram_alpha.is_some() {
                    problems.push(
                        "[train] `guided_alignment` is not available with `bpe_dropout` or \
                         `unigram_alpha`, because an alignment belongs to one segmentation"
                            .into(),
                    );
                }
            }
        }
        problems
    }

    /// Writes the configuration into the run folder `run`, which is created if necessary.
    pub(crate) fn save(&self, run: &Path) -> Result<(), TrainError> {
        let path = run.join(CONFIG_FILE);
        let write = || {
            let text = toml::to_string(self).map_err(io::Error::other)?;
            fs::create_dir_all(run)?;
            write_whole(&path, text.as_bytes())
        };
        write().map_err(TrainError::writing(&path))
    }

    /// Returns the maximum length of a side of a training pair in tokens, including special tokens.
    pub fn max_len(&self) -> usize {
        self.data.max_len.unwrap_or(self.model.max_len)
    }
}

impl MetricsConfig {
    fn problems(&self) -> Vec<String> {
        let none = (self.every_steps == 0).then(|| "`every_steps` must be at least 1".into());
        none.into_iter().collect()
    }
}

impl CheckpointConfig {
    fn problems(&self) -> Vec<String> {
        let none = (self.keep_last == 0).then(|| "`keep_last` must be at least 1".into());
        none.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::GuidedAlignmentConfig;

    #[test]
    fn alignments_and_their_loss_need_each_other() {
        let mut config = TrainConfig::default();
        config.data.train_file = Some("a.tsv".into());
        config.data.alignments = Some("a.align".into());
        assert_eq!(config.problems(), ["[data] `alignments` needs `train.guided_alignment`"]);
        config.train.guided_alignment = Some(GuidedAlignmentConfig::default());
        assert_eq!(config.problems(), [""; 0]);
        config.data.alignments = None;
        config.train.bpe_dropout = 0.1;
        config.train.guided_alignment = Some(GuidedAlignmentConfig { weight: 0.0, layer: Some(7) });
        config.data.pair_weights = Some("a.weights".into());
        config.data.prepared = Some("corpus".into());
        assert_eq!(
            config.problems(),
            [
                "[data] `pair_weights` is not available with `prepared`",
                "[train] `guided_alignment.weight` = 0 must be more than 0",
                "[train] `guided_alignment.layer` = 7 must be in 1..=6, the decoder layers",
                "[train] `guided_alignment` needs `data.alignments`",
                "[train] `guided_alignment` is not available with `bpe_dropout` or `unigram_alpha`, \
                 because an alignment belongs to one segmentation",
            ]
        );
    }

    #[test]
    fn every_section_reports_its_problems_at_once() {
        let mut config = TrainConfig::default();
        config.data.train_source = Some("a".into());
        config.data.max_len = Some(9_999);
        config.tokenizer.joint = false;
        config.model.n_heads = 7;
        config.train.learning_rate = 0.0;
        config.train.warmup_steps = 0;
        config.validation.beam = 0;
        assert_eq!(
            config.problems(),
            [
                "[data] `train_source` and `train_target` go together",
                "[data] `max_len` = 9999 exceeds `model.max_len` = 512",
                "[model] `n_heads` = 7 must divide `d_model` = 512 (remainder 1)",
                "[train] `learning_rate` = 0 must be more than 0",
                "[train] `warmup_steps` must be at least 1 for this `schedule`",
                "[validation] `beam` must be at least 1",
                "[model] `tying` = \"all\" needs one vocabulary: set `tokenizer.joint` = true",
            ]
        );
    }
}
