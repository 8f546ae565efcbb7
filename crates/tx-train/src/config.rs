//! Everything that decides a training run, as plain data.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tx_data::{
    BatchSize, CleanConfig, Grouping, LongPolicy, SplitBy, TokenizerConfig, TokenizerKind,
    source::{format::Format, named},
};
use tx_model::ModelConfig;

use crate::schedule::Schedule;

/// One run: what to learn from, which model, how to train and how to check it.
///
/// Read from a recipe, a file or both (see [`recipe`](crate::recipe)); written whole into the run
/// folder as `train.toml`. An unknown key is an error.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// The recipe this came from, if any.
    pub recipe: Option<String>,
    /// What to learn from.
    pub data: DataConfig,
    /// How text becomes tokens.
    pub tokenizer: TokenizerConfig,
    /// The model's shape.
    pub model: ModelConfig,
    /// How to train.
    pub train: OptimizationConfig,
    /// How to check.
    pub validation: ValidationConfig,
    /// What to keep to go on from.
    pub checkpoint: CheckpointConfig,
    /// What to note for programs.
    pub metrics: MetricsConfig,
}

/// Where sentence pairs come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum DataSource {
    /// Files named by `train_source` and so on.
    Files,
    /// One pair of four words.
    Toy,
    /// Random words and their reverse.
    Reverse,
    /// A generated English–Italian phrase grammar.
    Phrasebook,
    /// A corpus that is fetched, by its name: see [`named`].
    Named(String),
}

impl From<String> for DataSource {
    fn from(name: String) -> Self {
        match name.as_str() {
            "files" => Self::Files,
            "toy" => Self::Toy,
            "reverse" => Self::Reverse,
            "phrasebook" => Self::Phrasebook,
            _ => Self::Named(name),
        }
    }
}

impl From<DataSource> for String {
    fn from(source: DataSource) -> Self {
        match source {
            DataSource::Files => "files".into(),
            DataSource::Toy => "toy".into(),
            DataSource::Reverse => "reverse".into(),
            DataSource::Phrasebook => "phrasebook".into(),
            DataSource::Named(name) => name,
        }
    }
}

/// What to learn from and what to check on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// Where sentence pairs come from.
    pub source: DataSource,
    /// Language of the source, as a code: for the record, and to find it in what has several.
    pub source_language: Option<String>,
    /// Language of the target, as a code: for the record, and to find it in what has several.
    pub target_language: Option<String>,
    /// Files: source side of the training pairs, plain or gzip.
    pub train_source: Option<PathBuf>,
    /// Files: target side of the training pairs.
    pub train_target: Option<PathBuf>,
    /// Files: both sides of the training pairs, tab-separated; instead of the two above.
    pub train_tsv: Option<PathBuf>,
    /// Files: source side of the validation pairs.
    pub valid_source: Option<PathBuf>,
    /// Files: target side of the validation pairs.
    pub valid_target: Option<PathBuf>,
    /// Files: both sides of the validation pairs, tab-separated.
    pub valid_tsv: Option<PathBuf>,
    /// Files: both sides of the training pairs, in any format that holds both.
    pub train_file: Option<PathBuf>,
    /// Files: both sides of the validation pairs, in any format that holds both.
    pub valid_file: Option<PathBuf>,
    /// Format of the files; told by their content if not given.
    pub format: Option<Format>,
    /// Name or number of the column, or name of the field, with the source.
    pub source_column: Option<String>,
    /// Name or number of the column, or name of the field, with the target.
    pub target_column: Option<String>,
    /// Whether the first row of a table holds names; told by itself if not given.
    pub header: Option<bool>,
    /// Named corpora: the subset, such as `en-it`; told by the languages if not given.
    pub subset: Option<String>,
    /// Named corpora: the split to train on, `train` if not given.
    pub split: Option<String>,
    /// Named corpora: branch, tag, commit or version; the newest if not given.
    pub revision: Option<String>,
    /// Training pairs: how many to generate, or the first so many of a file.
    pub train_pairs: Option<usize>,
    /// Validation pairs: how many to generate, or the first so many of a file.
    pub valid_pairs: Option<usize>,
    /// Files without validation files: the share of pairs set aside, in `0.0..1.0`. At 0 the
    /// training pairs themselves are checked on: for experiments in learning by heart.
    pub valid_share: f64,
    /// Longest side in tokens, special tokens included; `model.max_len` if not given.
    pub max_len: Option<usize>,
    /// What happens to longer pairs in training.
    pub long: LongPolicy,
    /// What decides which pairs are set aside: the `seed`, or the text of each pair (`hash`), which
    /// stays where it is when the corpus grows.
    pub split_by: SplitBy,
    /// Files: what happens to training pairs that are near duplicates of given validation pairs.
    pub overlap: OverlapPolicy,
    /// Folder of the data as ids, for a corpus larger than memory: trained from if it exists, made
    /// if it does not.
    pub prepared: Option<PathBuf>,
    /// Files: how training pairs are cleaned.
    pub clean: CleanConfig,
}

/// What happens to training pairs that are near duplicates of given validation pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OverlapPolicy {
    /// They are counted, and stay.
    Report,
    /// They are left out.
    Drop,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            source: DataSource::Files,
            source_language: None,
            target_language: None,
            train_source: None,
            train_target: None,
            train_tsv: None,
            valid_source: None,
            valid_target: None,
            valid_tsv: None,
            train_file: None,
            valid_file: None,
            format: None,
            source_column: None,
            target_column: None,
            header: None,
            subset: None,
            split: None,
            revision: None,
            train_pairs: None,
            valid_pairs: None,
            valid_share: 0.1,
            max_len: None,
            long: LongPolicy::Skip,
            split_by: SplitBy::Seed,
            overlap: OverlapPolicy::Report,
            prepared: None,
            clean: CleanConfig::default(),
        }
    }
}

/// Which update rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptimizerKind {
    /// Adam (Kingma and Ba 2015); weight decay is added to the gradient.
    Adam,
    /// AdamW (Loshchilov and Hutter 2019); weight decay shrinks the weight itself.
    AdamW,
}

/// How to train.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OptimizationConfig {
    /// Decides the first weights, the order of the data and dropout.
    pub seed: u64,
    /// Passes over the training pairs, at most.
    pub epochs: usize,
    /// Updates, at most.
    pub max_steps: Option<usize>,
    /// Minutes of training and validation, at most; those before a resume count.
    pub max_minutes: Option<f64>,
    /// How large a batch is: `{ tokens = 4096 }` or `{ sentences = 64 }`.
    pub batch: BatchSize,
    /// Batches that make an update together, one after the other: as one batch so many times as
    /// large, without its memory.
    pub accumulate: usize,
    /// Which sentences share a batch: those of like `length`, or `random` ones.
    pub grouping: Grouping,
    /// Which update rule.
    pub optimizer: OptimizerKind,
    /// Peak learning rate, or the factor of `schedule = "noam"`.
    pub learning_rate: f64,
    /// How the learning rate goes.
    pub schedule: Schedule,
    /// Updates until the peak; 0 starts there.
    pub warmup_steps: usize,
    /// Adam's decay of the mean of gradients. Paper: 0.9.
    pub beta1: f32,
    /// Adam's decay of the mean of squared gradients. Paper: 0.98.
    pub beta2: f32,
    /// Adam's guard against division by zero. Paper: 1e-9.
    pub epsilon: f32,
    /// Weight decay; 0 is none.
    pub weight_decay: f32,
    /// `schedule = "reduce-on-plateau"`: validations without a better model until the learning rate
    /// is reduced.
    pub plateau_patience: usize,
    /// `schedule = "reduce-on-plateau"`: what it is multiplied by then.
    pub plateau_factor: f64,
    /// Decay of a moving average of the weights, which then is what is validated and saved; 0 is
    /// none.
    pub ema_decay: f64,
    /// Share of the words read by encoder and decoder that are replaced by `<unk>`.
    pub word_dropout: f64,
    /// `tokenizer.kind = "bpe"`: share of the merges left out when words are segmented, other ones
    /// each epoch (Provilkov et al. 2020: 0.1).
    pub bpe_dropout: f64,
    /// Share of probability spread evenly over the vocabulary, `ε_ls` (section 5.4). Paper: 0.1.
    pub label_smoothing: f64,
    /// Longest gradient, as the norm over all weights together; longer ones are scaled down. 0 lets
    /// every gradient be.
    pub clip_norm: f64,
    /// What happens when a loss or a gradient is not a finite number.
    pub on_nonfinite: OnNonFinite,
}

/// What happens when a loss or a gradient is not a finite number. The weights stay as they were in
/// either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnNonFinite {
    /// The run ends with an error.
    Stop,
    /// The batch is left out, with a warning.
    Skip,
}

impl Default for OptimizationConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            epochs: 10,
            max_steps: None,
            max_minutes: None,
            batch: BatchSize::Tokens(4_096),
            accumulate: 1,
            grouping: Grouping::Length,
            optimizer: OptimizerKind::Adam,
            learning_rate: 1e-3,
            schedule: Schedule::InverseSqrt,
            warmup_steps: 400,
            beta1: 0.9,
            beta2: 0.98,
            epsilon: 1e-9,
            weight_decay: 0.0,
            plateau_patience: 3,
            plateau_factor: 0.5,
            ema_decay: 0.0,
            word_dropout: 0.0,
            bpe_dropout: 0.0,
            label_smoothing: 0.1,
            clip_norm: 1.0,
            on_nonfinite: OnNonFinite::Stop,
        }
    }
}

/// Which figure says that a model is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BestBy {
    /// Lowest loss per token on the validation pairs, and so the lowest perplexity.
    #[serde(alias = "perplexity")]
    Loss,
    /// Highest BLEU of translated validation sources.
    Bleu,
    /// Highest chrF of translated validation sources.
    Chrf,
    /// Most validation sources translated exactly.
    ExactMatch,
}

/// How BLEU splits words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BleuTokenizer {
    /// sacreBLEU's default, for text as it is written.
    #[serde(rename = "13a")]
    V13a,
    /// At spaces, for text that is tokenized already.
    #[serde(rename = "none")]
    None,
}

/// How to check a model during training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ValidationConfig {
    /// Epochs from one validation to the next; the last epoch is always validated.
    pub every_epochs: usize,
    /// Updates from one validation to the next, besides those after epochs.
    pub every_steps: Option<usize>,
    /// Validation pairs to check on, from the first: for the loss as for the translations.
    pub sentences: usize,
    /// Hypotheses kept when they are translated; 1 is greedy.
    pub beam: usize,
    /// Translations shown each time.
    pub samples: usize,
    /// How BLEU splits words.
    pub tokenize: BleuTokenizer,
    /// Which figure says that a model is better; the loss decides between equals.
    pub best_by: BestBy,
    /// The run ends after so many validations without a better model.
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
            tokenize: BleuTokenizer::V13a,
            best_by: BestBy::Bleu,
            patience: None,
        }
    }
}

/// What to keep to go on from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointConfig {
    /// From one checkpoint to the next: `"1 epoch"`, `"500 steps"` or `"10 minutes"`. There is one
    /// at the end of a run in any case.
    pub every: Interval,
    /// How many of the last checkpoints are kept.
    pub keep_last: usize,
    /// Of how many of the best models a checkpoint is kept besides; each is made at its validation.
    pub keep_best: usize,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self { every: Interval::Epochs(1), keep_last: 1, keep_best: 0 }
    }
}

/// What to note for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetricsConfig {
    /// Updates from one line of `metrics.jsonl` to the next.
    pub every_steps: usize,
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self { every_steps: 50 }
    }
}

/// From one checkpoint to the next.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Interval {
    /// Whole epochs.
    Epochs(usize),
    /// Updates.
    Steps(usize),
    /// Minutes of training and validation.
    Minutes(f64),
}

impl std::str::FromStr for Interval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let problem = || {
            format!("`{text}` is no interval such as \"1 epoch\", \"500 steps\" or \"10 minutes\"")
        };
        let (number, unit) = text.trim().split_once(' ').ok_or_else(problem)?;
        let whole = || number.parse().ok().filter(|&number| number > 0).ok_or_else(problem);
        match unit.trim() {
            "epoch" | "epochs" => Ok(Self::Epochs(whole()?)),
            "step" | "steps" => Ok(Self::Steps(whole()?)),
            "minute" | "minutes" | "min" => {
                let minutes = number
                    .parse()
                    .ok()
                    .filter(|minutes: &f64| *minutes > 0.0 && minutes.is_finite());
                Ok(Self::Minutes(minutes.ok_or_else(problem)?))
            }
            _ => Err(problem()),
        }
    }
}

impl TryFrom<String> for Interval {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Interval> for String {
    fn from(interval: Interval) -> Self {
        let several = |plural| if plural { "s" } else { "" };
        match interval {
            Interval::Epochs(count) => format!("{count} epoch{}", several(count != 1)),
            Interval::Steps(count) => format!("{count} step{}", several(count != 1)),
            Interval::Minutes(count) => format!("{count} minute{}", several(count != 1.0)),
        }
    }
}

impl TrainConfig {
    /// The rules that are broken, as `section.key …`; empty when all is well. Nothing is read and
    /// no device is touched.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut section = |name: &str, list: Vec<String>| {
            problems.extend(list.into_iter().map(|problem| format!("[{name}] {problem}")));
        };
        section("data", self.data.problems(self.model.max_len));
        section("tokenizer", self.tokenizer.problems());
        section("model", self.model.problems());
        section("train", self.train.problems());
        section("validation", self.validation.problems());
        section("checkpoint", self.checkpoint.problems());
        section("metrics", self.metrics.problems());
        if self.model.tying == tx_model::Tying::All
            && !(self.tokenizer.joint || self.tokenizer.file.is_some())
        {
            problems.push(
                "[model] `tying` = \"all\" needs one vocabulary: set `tokenizer.joint` = true"
                    .into(),
            );
        }
        let tokenizer = &self.tokenizer;
        if self.train.bpe_dropout > 0.0
            && tokenizer.kind != TokenizerKind::Bpe
            && !tokenizer.is_imported()
        {
            problems.push("[train] `bpe_dropout` needs `tokenizer.kind` = \"bpe\"".into());
        }
        problems
    }

    /// Longest side of a training pair in tokens, special tokens included.
    pub fn max_len(&self) -> usize {
        self.data.max_len.unwrap_or(self.model.max_len)
    }
}

/// Where the pairs of one part stand.
struct Sides<'a> {
    source: &'a Option<PathBuf>,
    target: &'a Option<PathBuf>,
    tsv: &'a Option<PathBuf>,
    file: &'a Option<PathBuf>,
}

/// What is wrong with them.
fn sides(part: &str, files: &Sides<'_>, needed: bool) -> Option<String> {
    let apart = (files.source.is_some(), files.target.is_some());
    let together = [("tsv", files.tsv), ("file", files.file)];
    let together: Vec<&str> =
        together.into_iter().filter(|(_, path)| path.is_some()).map(|(key, _)| key).collect();
    match (apart, together.as_slice()) {
        ((true, true), []) | ((false, false), [_]) => None,
        ((false, false), []) if !needed => None,
        ((false, false), []) => Some(format!(
            "`source` = \"files\" needs `{part}_source` and `{part}_target`, or `{part}_file`"
        )),
        (_, []) => Some(format!("`{part}_source` and `{part}_target` go together")),
        (_, [key, ..]) => Some(format!(
            "`{part}_{key}` holds both sides: leave out `{part}_source`, `{part}_target` and other \
             files"
        )),
    }
}

impl DataConfig {
    fn train_files(&self) -> Sides<'_> {
        Sides {
            source: &self.train_source,
            target: &self.train_target,
            tsv: &self.train_tsv,
            file: &self.train_file,
        }
    }

    fn valid_files(&self) -> Sides<'_> {
        Sides {
            source: &self.valid_source,
            target: &self.valid_target,
            tsv: &self.valid_tsv,
            file: &self.valid_file,
        }
    }

    /// How training pairs are cleaned; generated ones are clean.
    pub fn cleaning(&self) -> CleanConfig {
        if self.is_generated() {
            return CleanConfig::off();
        }
        let (source, target) = (&self.source_language, &self.target_language);
        self.clean.clone().with_languages(source.as_deref(), target.as_deref())
    }

    /// Whether the pairs are made here, and so clean.
    pub fn is_generated(&self) -> bool {
        matches!(self.source, DataSource::Toy | DataSource::Reverse | DataSource::Phrasebook)
    }

    fn problems(&self, model_max_len: usize) -> Vec<String> {
        let mut problems = self.clean.problems();
        match &self.source {
            DataSource::Files => {
                problems.extend(sides("train", &self.train_files(), true).into_iter().chain(sides(
                    "valid",
                    &self.valid_files(),
                    false,
                )))
            }
            DataSource::Named(name) if !named::Request::is_name(name) => {
                let known: Vec<&str> = named::KNOWN.iter().map(|known| known.name).collect();
                problems.push(format!(
                    "`source` = \"{name}\" is neither \"files\", \"phrasebook\", \"reverse\" nor \
                     \"toy\", and no corpus such as {}",
                    known.join(", ")
                ));
            }
            DataSource::Named(name) => {
                if self.source_language.is_none() || self.target_language.is_none() {
                    problems.push(format!(
                        "`source` = \"{name}\" needs `source_language` and `target_language`"
                    ));
                }
                problems.extend(sides("valid", &self.valid_files(), false));
            }
            _ => {}
        }
        for (key, count) in [("train_pairs", self.train_pairs), ("valid_pairs", self.valid_pairs)] {
            if count == Some(0) {
                problems.push(format!("`{key}` must be at least 1"));
            }
        }
        if !(0.0..1.0).contains(&self.valid_share) {
            problems.push(format!(
                "`valid_share` = {} must be at least 0 and below 1",
                self.valid_share
            ));
        }
        match self.max_len {
            Some(len) if len > model_max_len => problems
                .push(format!("`max_len` = {len} is more than `model.max_len` = {model_max_len}")),
            Some(len) if len < 3 => {
                problems
                    .push(format!("`max_len` = {len} leaves no room between `<bos>` and `<eos>`"));
            }
            _ => {}
        }
        problems
    }
}

impl OptimizationConfig {
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut rule = |holds: bool, problem: String| {
            if !holds {
                problems.push(problem);
            }
        };
        rule(self.epochs > 0, "`epochs` must be at least 1".into());
        rule(self.max_steps != Some(0), "`max_steps` must be at least 1".into());
        let minutes = self.max_minutes;
        rule(
            minutes.is_none_or(|minutes| minutes > 0.0),
            format!("`max_minutes` = {} must be more than 0", minutes.unwrap_or_default()),
        );
        let (BatchSize::Tokens(size) | BatchSize::Sentences(size)) = self.batch;
        rule(size > 0, "`batch` must hold at least 1".into());
        rule(self.accumulate > 0, "`accumulate` must be at least 1".into());
        rule(
            self.learning_rate > 0.0 && self.learning_rate.is_finite(),
            format!("`learning_rate` = {} must be more than 0", self.learning_rate),
        );
        rule(
            self.warmup_steps > 0 || !self.schedule.needs_warmup(),
            "`warmup_steps` must be at least 1 for this `schedule`".into(),
        );
        for (key, beta) in [("beta1", self.beta1), ("beta2", self.beta2)] {
            rule(
                (0.0..1.0).contains(&beta),
                format!("`{key}` = {beta} must be at least 0 and below 1"),
            );
        }
        rule(self.epsilon > 0.0, format!("`epsilon` = {} must be more than 0", self.epsilon));
        rule(
            self.weight_decay >= 0.0,
            format!("`weight_decay` = {} must be at least 0", self.weight_decay),
        );
        for (key, share) in [
            ("ema_decay", self.ema_decay),
            ("word_dropout", self.word_dropout),
            ("bpe_dropout", self.bpe_dropout),
            ("label_smoothing", self.label_smoothing),
        ] {
            rule(
                (0.0..1.0).contains(&share),
                format!("`{key}` = {share} must be at least 0 and below 1"),
            );
        }
        rule(self.plateau_patience > 0, "`plateau_patience` must be at least 1".into());
        let factor = self.plateau_factor;
        rule(
            factor > 0.0 && factor < 1.0,
            format!("`plateau_factor` = {factor} must be between 0 and 1"),
        );
        rule(self.clip_norm >= 0.0, format!("`clip_norm` = {} must be at least 0", self.clip_norm));
        problems
    }
}

impl ValidationConfig {
    fn problems(&self) -> Vec<String> {
        [
            ("every_epochs", self.every_epochs),
            ("every_steps", self.every_steps.unwrap_or(1)),
            ("sentences", self.sentences),
            ("beam", self.beam),
            ("patience", self.patience.unwrap_or(1)),
        ]
        .into_iter()
        .filter(|(_, value)| *value == 0)
        .map(|(key, _)| format!("`{key}` must be at least 1"))
        .collect()
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

    #[test]
    fn intervals_are_read_as_they_are_written() {
        for (text, interval) in [
            ("1 epoch", Interval::Epochs(1)),
            ("20 epochs", Interval::Epochs(20)),
            ("500 steps", Interval::Steps(500)),
            ("1 minute", Interval::Minutes(1.0)),
            ("2.5 minutes", Interval::Minutes(2.5)),
        ] {
            assert_eq!(text.parse(), Ok(interval));
            assert_eq!(String::from(interval), text);
        }
        assert_eq!(" 10  min ".parse(), Ok(Interval::Minutes(10.0)));
        for text in
            ["", "5", "steps", "0 steps", "-1 minutes", "1.5 epochs", "3 days", "inf epochs"]
        {
            let problem = text.parse::<Interval>().unwrap_err();
            assert!(problem.starts_with(&format!("`{text}` is no interval")), "{problem}");
        }
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
                "[data] `max_len` = 9999 is more than `model.max_len` = 512",
                "[model] `n_heads` = 7 must divide `d_model` = 512 (remainder 1)",
                "[train] `learning_rate` = 0 must be more than 0",
                "[train] `warmup_steps` must be at least 1 for this `schedule`",
                "[validation] `beam` must be at least 1",
                "[model] `tying` = \"all\" needs one vocabulary: set `tokenizer.joint` = true",
            ]
        );
    }
}
