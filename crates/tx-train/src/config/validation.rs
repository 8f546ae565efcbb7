//! Validation of a model during training.

use serde::{Deserialize, Serialize};
use tx_data::source::language::fit;
use tx_eval::Tokenizer;
use tx_infer::TaskKind;
use unicode_script::{Script, UnicodeScript};

/// Metric that ranks models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BestBy {
    /// Lowest loss on the validation data, which is also the lowest perplexity.
    #[serde(alias = "perplexity")]
    Loss,
    /// Highest BLEU of translated validation sources.
    Bleu,
    /// Highest chrF of translated validation sources.
    Chrf,
    /// Most validation sources translated exactly.
    ExactMatch,
    /// Highest fraction of texts, or of masked tokens, predicted correctly.
    Accuracy,
    /// Highest mean of the classes' F1 scores.
    MacroF1,
}

impl BestBy {
    /// Returns the metrics that a task has; the first is the default.
    pub fn of_task(task: TaskKind) -> &'static [Self] {
        match task {
            TaskKind::Translate => &[Self::Bleu, Self::Chrf, Self::ExactMatch, Self::Loss],
            TaskKind::Classify => &[Self::Accuracy, Self::MacroF1, Self::Loss],
            TaskKind::Generate => &[Self::Loss],
            TaskKind::FillMask => &[Self::Loss, Self::Accuracy],
        }
    }

    /// Returns the name in a configuration.
    fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Bleu => "bleu",
            Self::Chrf => "chrf",
            Self::ExactMatch => "exact-match",
            Self::Accuracy => "accuracy",
            Self::MacroF1 => "macro-f1",
        }
    }
}

/// Tokenizer of BLEU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BleuTokenizer {
    /// sacreBLEU's default, for untokenized text.
    #[serde(rename = "13a")]
    V13a,
    /// Split at punctuation and symbols of every script.
    #[serde(rename = "intl")]
    Intl,
    /// Split between Chinese characters.
    #[serde(rename = "zh")]
    Zh,
    /// Split between all characters, for text without spaces between words.
    #[serde(rename = "char")]
    Char,
    /// Split at spaces, for text that is already tokenized.
    #[serde(rename = "none")]
    None,
}

/// Scripts without spaces between words, besides Chinese characters.
const UNSPACED: [Script; 8] = [
    Script::Hiragana,
    Script::Katakana,
    Script::Thai,
    Script::Lao,
    Script::Khmer,
    Script::Myanmar,
    Script::Tibetan,
    Script::Tai_Tham,
];

impl BleuTokenizer {
    /// Returns the tokenizer for targets in a language, as sacreBLEU recommends: `zh` for Chinese, `char`
    /// for other languages without spaces between words, and otherwise `13a`. Without a language, the
    /// script of the references decides.
    pub(crate) fn of_targets<'a>(
        language: Option<&str>,
        references: impl Iterator<Item = &'a str>,
    ) -> Self {
        let is_any = |of: &[&str]| {
            language.is_some_and(|language| of.iter().any(|one| fit(language, one).is_some()))
        };
        if is_any(&["zh", "yue", "wuu", "lzh"]) {
            return Self::Zh;
        }
        if is_any(&["ja", "th", "lo", "km", "my", "bo"]) {
            return Self::Char;
        }
        let (mut letters, mut chinese, mut unspaced) = (0_usize, 0_usize, 0_usize);
        for c in references.flat_map(str::chars).filter(|c| c.is_alphabetic()) {
            letters += 1;
            match c.script() {
                Script::Han => chinese += 1,
                script if UNSPACED.contains(&script) => unspaced += 1,
                _ => {}
            }
        }
        match 2 * (chinese + unspaced) > letters {
            true if 10 * unspaced < chinese => Self::Zh,
            true => Self::Char,
            false => Self::V13a,
        }
    }

    /// Returns the implementation.
    pub(crate) fn tokenizer(self) -> Tokenizer {
        match self {
            Self::V13a => Tokenizer::V13a,
            Self::Intl => Tokenizer::Intl,
            Self::Zh => Tokenizer::Zh,
            Self::Char => Tokenizer::Char,
            Self::None => Tokenizer::None,
        }
    }
}

/// Section `[validation]`: validation of a model during training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ValidationConfig {
    /// Epochs from one validation to the next. The last epoch is always validated.
    pub every_epochs: usize,
    /// Updates from one validation to the next, in addition to those after epochs.
    pub every_steps: Option<usize>,
    /// Number of validation pairs, texts or documents in use, from the first.
    pub sentences: usize,
    /// Translation: beam size; 1 is greedy search.
    pub beam: usize,
    /// Number of sample outputs of each validation.
    pub samples: usize,
    /// Tokenizer of BLEU. Default: that of the target language, or else of the script of the validation
    /// targets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokenize: Option<BleuTokenizer>,
    /// Metric that ranks models; the loss breaks ties. Default: `bleu` for translation, `accuracy`
    /// for classification, `loss` for the other tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_by: Option<BestBy>,
    /// Translation: length penalties, of which the best on the validation data, in beam search with the
    /// default beam, becomes the default of the bundle at the end of a run. If empty, the bundle keeps
    /// the default of the programs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub length_penalties: Vec<f32>,
    /// Several validation sets: name of the one whose metrics rank models and are plotted. Default: the
    /// mean over all sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_set: Option<String>,
    /// Early stopping: number of validations without a better model that ends the run.
    pub patience: Option<usize>,
}

impl Default for ValidationConfig {
    fn default() -> Self {
        Self {
            every_epochs: 1,
            every_steps: None,
            sentences: 1_000,
            beam: 1,
            samples: 3,
            tokenize: None,
            best_by: None,
            length_penalties: Vec::new(),
            best_set: None,
            patience: None,
        }
    }
}

impl ValidationConfig {
    /// Returns the metric that ranks models of a task.
    pub fn best_by(&self, task: TaskKind) -> BestBy {
        self.best_by.unwrap_or(BestBy::of_task(task)[0])
    }

    /// Returns `true` if ranks of a task under this configuration and under `other` are comparable,
    /// with `pairs` available validation pairs.
    pub(crate) fn is_comparable(&self, other: &Self, task: TaskKind, pairs: usize) -> bool {
        self.best_by(task) == other.best_by(task)
            && self.best_set == other.best_set
            && self.sentences.min(pairs) == other.sentences.min(pairs)
            && self.beam == other.beam
            && self.tokenize == other.tokenize
    }

    pub(super) fn problems(&self, task: TaskKind) -> Vec<String> {
        let metrics = BestBy::of_task(task);
        let other = self.best_by.filter(|best_by| !metrics.contains(best_by)).map(|best_by| {
            let names: Vec<String> =
                metrics.iter().map(|metric| format!("\"{}\"", metric.name())).collect();
            let (found, names) = (best_by.name(), names.join(", "));
            format!("`best_by` = \"{found}\" is not a metric of the task \"{task}\": use {names}")
        });
        let zero = [
            ("every_epochs", self.every_epochs),
            ("every_steps", self.every_steps.unwrap_or(1)),
            ("sentences", self.sentences),
            ("beam", self.beam),
            ("patience", self.patience.unwrap_or(1)),
        ]
        .into_iter()
        .filter(|(_, value)| *value == 0)
        .map(|(key, _)| format!("`{key}` must be at least 1"));
        let penalties = &self.length_penalties;
        let wrong = penalties.iter().find(|penalty| !(0.0..=10.0).contains(*penalty));
        let wrong = wrong.map(|penalty| {
            format!("`length_penalties`: {penalty} must be at least 0 and at most 10")
        });
        let unused = (!penalties.is_empty() && task != TaskKind::Translate)
            .then(|| format!("`length_penalties` is not available for the task \"{task}\""));
        zero.chain(other).chain(wrong).chain(unused).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tokenizer_of_bleu_follows_language_and_script() {
        use BleuTokenizer::{Char, V13a, Zh};
        let of = |language: Option<&str>, reference: &str| {
            BleuTokenizer::of_targets(language, std::iter::once(reference))
        };
        for (language, expected) in [
            ("zh", Zh),
            ("zh-CN", Zh),
            ("zho_Hans", Zh),
            ("Chinese", Zh),
            ("yue", Zh),
            ("ja", Char),
            ("jpn", Char),
            ("th", Char),
            ("km", Char),
            ("de", V13a),
            ("ko", V13a),
            ("xx", V13a),
        ] {
            assert_eq!(of(Some(language), "ABC"), expected, "{language}");
        }
        for (reference, expected) in [
            ("我喜欢猫。", Zh),
            // Six Latin letters, and six or seven Chinese ones.
            ("我们用 Python 写程序", V13a),
            ("我们用 Python 写程序吗", Zh),
            ("猫が好きです。", Char),
            ("ฉันชอบแมว", Char),
            ("ខ្ញុំចូលចិត្តឆ្មា", Char),
            ("나는 고양이를 좋아한다.", V13a),
            ("The word 猫 means cat.", V13a),
            ("Я люблю кошек.", V13a),
            ("", V13a),
        ] {
            assert_eq!(of(None, reference), expected, "{reference}");
        }
    }

    #[test]
    fn every_tokenizer_of_scores_is_accepted() {
        for (name, tokenizer) in [
            ("13a", Tokenizer::V13a),
            ("intl", Tokenizer::Intl),
            ("zh", Tokenizer::Zh),
            ("char", Tokenizer::Char),
            ("none", Tokenizer::None),
        ] {
            let config: ValidationConfig =
                toml::from_str(&format!("tokenize = \"{name}\"")).unwrap();
            assert_eq!(config.tokenize.map(BleuTokenizer::tokenizer), Some(tokenizer));
            assert_eq!(tokenizer.name(), name);
        }
    }

    #[test]
    fn validations_with_the_same_metric_and_pairs_are_comparable() {
        let now = ValidationConfig::default();
        let other =
            ValidationConfig { patience: Some(3), samples: 9, every_epochs: 2, ..now.clone() };
        assert!(now.is_comparable(&other, TaskKind::Translate, 3_000));
        for other in [
            ValidationConfig { best_by: Some(BestBy::Loss), ..now.clone() },
            ValidationConfig { sentences: 2_000, ..now.clone() },
            ValidationConfig { beam: 5, ..now.clone() },
            ValidationConfig { tokenize: Some(BleuTokenizer::None), ..now.clone() },
            ValidationConfig { best_set: Some("news".into()), ..now.clone() },
        ] {
            assert!(!now.is_comparable(&other, TaskKind::Translate, 3_000), "{other:?}");
        }
        // Only 1,000 pairs are available in both cases.
        let more = ValidationConfig { sentences: 2_000, ..now.clone() };
        let task = TaskKind::Translate;
        assert!(now.is_comparable(&more, task, 1_000) && !now.is_comparable(&more, task, 1_001));
    }
    #[test]
    fn a_task_has_its_own_metrics() {
        let loss = ValidationConfig { best_by: Some(BestBy::Loss), ..ValidationConfig::default() };
        let bleu = ValidationConfig { best_by: Some(BestBy::Bleu), ..ValidationConfig::default() };
        for task in TaskKind::ALL {
            assert_eq!(ValidationConfig::default().problems(task), [""; 0]);
            assert_eq!(loss.problems(task), [""; 0]);
            assert_eq!(bleu.problems(task).is_empty(), task == TaskKind::Translate);
        }
        assert_eq!(
            bleu.problems(TaskKind::Classify),
            ["`best_by` = \"bleu\" is not a metric of the task \"classify\": use \"accuracy\", \
              \"macro-f1\", \"loss\""]
        );
        // The default of translation is the metric of older configurations.
        let default = ValidationConfig::default();
        assert!(default.is_comparable(&bleu, TaskKind::Translate, 10));
    }
}
