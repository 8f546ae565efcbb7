//! What `translate score` is asked for, and what of it goes together.

use std::{num::NonZero, path::PathBuf};

use clap::{Args, ValueEnum, ValueHint};
use tx_eval::{
    Bleu, Chrf, ErrorRate, ExactMatch, Smoothing, Ter, Tokenizer, Unit, confidence::Resampling,
};
use tx_infer::device::DeviceName;

/// What to score and how.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  translate score --reference test.en --hypothesis test.hyp
  translate score --reference a.en b.en --metrics bleu,chrf++,ter --confidence < test.hyp
  translate score --reference test.en --hypothesis old.hyp new.hyp --paired bootstrap
  translate score --model runs/de-en --source test.de --reference test.en --metrics chrf
  translate score --reference test.zh --tokenize zh --sentence-level < test.hyp")]
pub struct ScoreArgs {
    /// Files of right translations, one per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, num_args = 1.., required = true)]
    pub reference: Vec<PathBuf>,

    /// Files of translations to score, one for each system [default: standard input]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, num_args = 1..)]
    pub hypothesis: Vec<PathBuf>,

    /// Scores to compute; cer, wer and exact use the first reference
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_values_t = [MetricName::Bleu])]
    pub metrics: Vec<MetricName>,

    /// Score each line by itself instead of the corpus
    #[arg(long)]
    pub sentence_level: bool,

    /// Digits after the point
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=12))]
    pub width: u8,

    /// Print JSON with sacreBLEU's keys
    #[arg(long)]
    pub json: bool,

    /// Where translations come from if not from files
    #[command(flatten, next_help_heading = "Translate and score in one go")]
    pub translate: TranslateArgs,

    /// How sure a score is
    #[command(flatten, next_help_heading = "Confidence and significance")]
    pub resampling: ResamplingArgs,

    /// How BLEU is computed
    #[command(flatten, next_help_heading = "BLEU")]
    pub bleu: BleuArgs,

    /// How chrF is computed
    #[command(flatten, next_help_heading = "chrF")]
    pub chrf: ChrfArgs,

    /// How TER is computed
    #[command(flatten, next_help_heading = "TER")]
    pub ter: TerArgs,

    /// How error rates are computed
    #[command(flatten, next_help_heading = "CER and WER")]
    pub edits: EditArgs,
}

/// A model to translate with.
#[derive(Debug, Args)]
pub struct TranslateArgs {
    /// Folder written by `train`, to translate `--source` with
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "source", conflicts_with = "hypothesis")]
    pub model: Option<PathBuf>,

    /// File to translate
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "model")]
    pub source: Option<PathBuf>,

    /// File to write the translations to
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "model")]
    pub output: Option<PathBuf>,

    /// Hypotheses kept per sentence; 1 is greedy search
    #[arg(long, value_name = "N", default_value_t = 4, requires = "model", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub beam: u16,

    /// Exponent of the length that log-probabilities are divided by
    #[arg(
        long,
        value_name = "ALPHA",
        default_value_t = 1.0,
        requires = "model",
        allow_negative_numbers = true
    )]
    pub length_penalty: f32,

    /// Threads on the device cpu [default: all cores]
    #[arg(long, value_name = "N", requires = "model")]
    pub threads: Option<NonZero<usize>>,

    /// Device to run on: auto, cpu, ndarray, wgpu, vulkan or cuda, with :N for the Nth
    #[arg(long, value_name = "DEVICE", default_value = "auto", requires = "model")]
    pub device: DeviceName,
}

/// Intervals and tests.
#[derive(Debug, Args)]
pub struct ResamplingArgs {
    /// Print the 95 % confidence interval of each score, by bootstrap resampling
    #[arg(long)]
    pub confidence: bool,

    /// Samples drawn for it
    #[arg(long, value_name = "N", default_value = "1000", requires = "confidence")]
    pub confidence_n: NonZero<usize>,

    /// Test whether each further system differs from the first
    #[arg(long, value_enum, value_name = "TEST")]
    pub paired: Option<Paired>,

    /// Samples or trials of the test [default: 1000 for bootstrap, 10000 for randomization]
    #[arg(long, value_name = "N", requires = "paired")]
    pub paired_n: Option<NonZero<usize>>,

    /// What random numbers start from
    #[arg(long, value_name = "N", default_value_t = Resampling::SEED)]
    pub seed: u64,
}

/// Settings of BLEU, named as sacreBLEU's.
#[derive(Debug, Args)]
pub struct BleuArgs {
    /// How words are split: 13a for plain text, none for text that is tokenized already
    #[arg(long, value_enum, value_name = "NAME", default_value_t = Tokenize::V13a)]
    pub tokenize: Tokenize,

    /// Take upper and lower case as the same in BLEU
    #[arg(long)]
    pub lowercase: bool,

    /// What to do about n-grams of a length without a match
    #[arg(long, value_enum, value_name = "NAME", default_value_t = Smooth::Exp)]
    pub smooth_method: Smooth,

    /// Number that smoothing adds [default: 0.1 for floor, 1 for add-k]
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = smooth_value)]
    pub smooth_value: Option<f64>,

    /// Leave out lengths for which there are no n-grams; --sentence-level does so by itself
    #[arg(long)]
    pub effective_order: bool,
}

/// Settings of chrF, named as sacreBLEU's.
#[derive(Debug, Args)]
pub struct ChrfArgs {
    /// Longest n-gram of characters
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub chrf_char_order: usize,

    /// Longest n-gram of words in chrf; chrf++ has 2 [default: 0]
    #[arg(long, value_name = "N")]
    pub chrf_word_order: Option<usize>,

    /// How many times more recall weighs than precision
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub chrf_beta: u32,

    /// Count white space as characters
    #[arg(long)]
    pub chrf_whitespace: bool,

    /// Take upper and lower case as the same in chrF
    #[arg(long)]
    pub chrf_lowercase: bool,

    /// Smooth as chrF++.py, NLTK and Moses do, instead of leaving out orders without n-grams
    #[arg(long)]
    pub chrf_eps_smoothing: bool,
}

/// Settings of TER, named as sacreBLEU's.
#[derive(Debug, Args)]
pub struct TerArgs {
    /// Split off punctuation first
    #[arg(long)]
    pub ter_normalized: bool,

    /// Leave out punctuation
    #[arg(long)]
    pub ter_no_punct: bool,

    /// Take Chinese and Japanese characters apart; with one of the two above
    #[arg(long)]
    pub ter_asian_support: bool,

    /// Compare with case in TER
    #[arg(long)]
    pub ter_case_sensitive: bool,
}

/// Settings of CER and WER.
#[derive(Debug, Args)]
pub struct EditArgs {
    /// Take upper and lower case as the same in CER and WER
    #[arg(long)]
    pub wer_lowercase: bool,

    /// Leave out punctuation in CER and WER
    #[arg(long)]
    pub wer_no_punct: bool,
}

/// A score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MetricName {
    /// Corpus BLEU, 0 to 100
    Bleu,
    /// F-score of character n-grams, 0 to 100
    Chrf,
    /// chrF with words and pairs of words
    #[value(name = "chrf++")]
    ChrfPlusPlus,
    /// Translation edit rate, in percent
    Ter,
    /// Character error rate, in percent
    Cer,
    /// Word error rate, in percent
    Wer,
    /// Lines that are right to the letter, in percent
    Exact,
}

/// How BLEU splits words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Tokenize {
    /// As mteval-v13a.pl did
    #[value(name = "13a")]
    V13a,
    /// As mteval-v14.pl did: punctuation and symbols of all scripts apart
    Intl,
    /// Chinese characters apart, the rest as 13a
    Zh,
    /// Every character apart
    Char,
    /// At spaces only
    None,
}

/// How BLEU is smoothed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Smooth {
    /// 1/2, 1/4, … matches
    Exp,
    /// A small number of matches
    Floor,
    /// A number more of matches and n-grams
    AddK,
    /// Not at all
    None,
}

/// A test of significance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Paired {
    /// Paired bootstrap resampling
    Bootstrap,
    /// Approximate randomization
    Randomization,
}

impl ScoreArgs {
    /// What does not go together, in words.
    pub fn problem(&self) -> Option<String> {
        let systems = self.hypothesis.len().max(1);
        for (index, path) in self.hypothesis.iter().enumerate() {
            if self.hypothesis[..index].contains(path) {
                return Some(format!("hypothesis `{}` is given twice", path.display()));
            }
        }
        let ResamplingArgs { confidence, paired, seed, .. } = self.resampling;
        if self.sentence_level {
            let other = match (confidence, paired) {
                _ if systems > 1 => Some(format!("{systems} hypothesis files")),
                (true, _) => Some("`--confidence`".to_owned()),
                (_, Some(_)) => Some("`--paired`".to_owned()),
                _ => None,
            };
            if let Some(other) = other {
                return Some(format!("`--sentence-level` and {other} do not go together"));
            }
        }
        if paired.is_some() && systems < 2 {
            return Some(format!(
                "`--paired` compares systems, so it needs at least 2 hypothesis files, not {systems}"
            ));
        }
        if confidence && paired == Some(Paired::Bootstrap) {
            return Some(
                "`--paired bootstrap` has intervals of its own, from as many samples as \
                         `--paired-n` says; leave out `--confidence`"
                    .to_owned(),
            );
        }
        if seed != Resampling::SEED && !confidence && paired.is_none() {
            return Some("`--seed` has no use without `--confidence` or `--paired`".to_owned());
        }
        if let (Some(_), Smooth::Exp | Smooth::None) =
            (self.bleu.smooth_value, self.bleu.smooth_method)
        {
            return Some(
                "`--smooth-value` goes with `--smooth-method floor` or `add-k` only".to_owned(),
            );
        }
        self.option_without_metric()
    }

    /// An option of a metric that is not asked for.
    fn option_without_metric(&self) -> Option<String> {
        use MetricName::{Bleu, Cer, Chrf, ChrfPlusPlus, Ter, Wer};
        let (bleu, chrf, ter) = (&self.bleu, &self.chrf, &self.ter);
        let options: [(&str, bool, &[MetricName]); 17] = [
            ("--tokenize", bleu.tokenize != Tokenize::V13a, &[Bleu]),
            ("--lowercase", bleu.lowercase, &[Bleu]),
            ("--smooth-method", bleu.smooth_method != Smooth::Exp, &[Bleu]),
            ("--smooth-value", bleu.smooth_value.is_some(), &[Bleu]),
            ("--effective-order", bleu.effective_order, &[Bleu]),
            ("--chrf-char-order", chrf.chrf_char_order != 6, &[Chrf, ChrfPlusPlus]),
            ("--chrf-word-order", chrf.chrf_word_order.is_some(), &[Chrf]),
            ("--chrf-beta", chrf.chrf_beta != 2, &[Chrf, ChrfPlusPlus]),
            ("--chrf-whitespace", chrf.chrf_whitespace, &[Chrf, ChrfPlusPlus]),
            ("--chrf-lowercase", chrf.chrf_lowercase, &[Chrf, ChrfPlusPlus]),
            ("--chrf-eps-smoothing", chrf.chrf_eps_smoothing, &[Chrf, ChrfPlusPlus]),
            ("--ter-normalized", ter.ter_normalized, &[Ter]),
            ("--ter-no-punct", ter.ter_no_punct, &[Ter]),
            ("--ter-asian-support", ter.ter_asian_support, &[Ter]),
            ("--ter-case-sensitive", ter.ter_case_sensitive, &[Ter]),
            ("--wer-lowercase", self.edits.wer_lowercase, &[Cer, Wer]),
            ("--wer-no-punct", self.edits.wer_no_punct, &[Cer, Wer]),
        ];
        let (option, _, metrics) = options.into_iter().find(|(_, given, metrics)| {
            *given && !metrics.iter().any(|metric| self.metrics.contains(metric))
        })?;
        let names: Vec<String> = metrics
            .iter()
            .filter_map(|metric| Some(format!("`{}`", metric.to_possible_value()?.get_name())))
            .collect();
        Some(format!("`{option}` has no use without {} in `--metrics`", names.join(" or ")))
    }

    /// The metrics asked for, with their settings.
    ///
    /// Perplexity, which needs the model and not only text, would be one more here.
    pub fn metrics(&self) -> Vec<Box<dyn tx_eval::Metric>> {
        self.metrics.iter().map(|&name| self.metric(name)).collect()
    }

    fn metric(&self, name: MetricName) -> Box<dyn tx_eval::Metric> {
        let edit_rate = |unit| ErrorRate {
            unit,
            lowercase: self.edits.wer_lowercase,
            no_punct: self.edits.wer_no_punct,
        };
        match name {
            MetricName::Bleu => Box::new(Bleu {
                tokenizer: self.bleu.tokenize.into(),
                smoothing: self.bleu.smoothing(),
                lowercase: self.bleu.lowercase,
                effective_order: self.bleu.effective_order || self.sentence_level,
            }),
            MetricName::Chrf => {
                Box::new(self.chrf.settings(self.chrf.chrf_word_order.unwrap_or(0)))
            }
            MetricName::ChrfPlusPlus => Box::new(self.chrf.settings(Chrf::PLUS_PLUS.word_order)),
            MetricName::Ter => Box::new(Ter {
                normalized: self.ter.ter_normalized,
                no_punct: self.ter.ter_no_punct,
                asian_support: self.ter.ter_asian_support,
                case_sensitive: self.ter.ter_case_sensitive,
            }),
            MetricName::Cer => Box::new(edit_rate(Unit::Character)),
            MetricName::Wer => Box::new(edit_rate(Unit::Word)),
            MetricName::Exact => Box::new(ExactMatch),
        }
    }
}

impl BleuArgs {
    fn smoothing(&self) -> Smoothing {
        match (self.smooth_method, self.smooth_value) {
            (Smooth::Exp, _) => Smoothing::Exp,
            (Smooth::None, _) => Smoothing::None,
            (Smooth::Floor, value) => value.map_or(Smoothing::FLOOR, Smoothing::Floor),
            (Smooth::AddK, value) => value.map_or(Smoothing::ADD_K, Smoothing::AddK),
        }
    }
}

impl ChrfArgs {
    fn settings(&self, word_order: usize) -> Chrf {
        Chrf {
            char_order: self.chrf_char_order,
            word_order,
            beta: self.chrf_beta,
            lowercase: self.chrf_lowercase,
            whitespace: self.chrf_whitespace,
            eps_smoothing: self.chrf_eps_smoothing,
        }
    }
}

fn smooth_value(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("not a finite number of at least 0".to_owned()),
    }
}

impl From<Tokenize> for Tokenizer {
    fn from(name: Tokenize) -> Self {
        match name {
            Tokenize::V13a => Self::V13a,
            Tokenize::Intl => Self::Intl,
            Tokenize::Zh => Self::Zh,
            Tokenize::Char => Self::Char,
            Tokenize::None => Self::None,
        }
    }
}
