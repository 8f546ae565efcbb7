//! Arguments of `translate score`, their contradictions, and their conversion into metrics.

use std::{num::NonZero, path::PathBuf};

use clap::{Args, ValueEnum, ValueHint};
use tx_eval::{
    Bleu, Chrf, ErrorRate, ExactMatch, Smoothing, Ter, Tokenizer, Unit, confidence::Resampling,
};
use tx_infer::{Sampling, TermAccuracy};

use crate::args::model::TranslatorArgs;

/// Arguments of `translate score`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  translate score --reference test.en --hypothesis test.hyp
  translate score --reference a.en b.en --metrics bleu,chrf++,ter --confidence < test.hyp
  translate score --reference test.en --hypothesis old.hyp new.hyp --paired bootstrap
  translate score --model runs/de-en --source test.de --reference test.en --metrics chrf
  translate score --source test.de --reference test.en --hypothesis test.hyp --glossary terms.tsv
  translate score --reference test.zh --tokenize zh --sentence-level < test.hyp")]
pub struct ScoreArgs {
    /// Files with reference translations, one per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, num_args = 1.., required = true)]
    pub reference: Vec<PathBuf>,

    /// Files with translations to score, one per system [default: standard input]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, num_args = 1..)]
    pub hypothesis: Vec<PathBuf>,

    /// Metrics to compute; cer, wer and exact use the first reference only
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_values_t = [MetricName::Bleu])]
    pub metrics: Vec<MetricName>,

    /// Score each line instead of the corpus
    #[arg(long)]
    pub sentence_level: bool,

    /// Digits after the decimal point
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=12))]
    pub width: u8,

    /// Print JSON with sacreBLEU's keys
    #[arg(long)]
    pub json: bool,

    /// Model whose translations are scored
    #[command(flatten, next_help_heading = "Translate, then score")]
    pub translate: ModelSystemArgs,

    /// Confidence intervals and significance tests
    #[command(flatten, next_help_heading = "Confidence and significance")]
    pub resampling: ResamplingArgs,

    /// Options of BLEU
    #[command(flatten, next_help_heading = "BLEU")]
    pub bleu: BleuArgs,

    /// Options of chrF
    #[command(flatten, next_help_heading = "chrF")]
    pub chrf: ChrfArgs,

    /// Options of TER
    #[command(flatten, next_help_heading = "TER")]
    pub ter: TerArgs,

    /// Options of CER and WER
    #[command(flatten, next_help_heading = "CER and WER")]
    pub edits: EditArgs,
}

/// Model whose translations are scored.
#[derive(Debug, Args)]
pub struct ModelSystemArgs {
    /// Bundle to translate `--source` with
    #[arg(
        long,
        value_name = "DIR",
        value_hint = ValueHint::DirPath,
        requires = "source",
        conflicts_with = "hypothesis"
    )]
    pub model: Option<PathBuf>,

    /// File to translate with --model, or in which the terms of --glossary are counted
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub source: Option<PathBuf>,

    /// Output file for the translations
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "model")]
    pub output: Option<PathBuf>,

    /// Execution and search options of the translator
    #[command(flatten)]
    pub translator: TranslatorArgs,
}

/// Confidence intervals and significance tests.
#[derive(Debug, Args)]
pub struct ResamplingArgs {
    /// Print the 95 % confidence interval of each score, by bootstrap resampling
    #[arg(long)]
    pub confidence: bool,

    /// Bootstrap samples of --confidence
    #[arg(
        long,
        value_name = "N",
        default_value_t = BOOTSTRAP_SAMPLES,
        requires = "confidence"
    )]
    pub confidence_n: NonZero<usize>,

    /// Significance test of each further system against the first
    #[arg(long, value_enum, value_name = "TEST")]
    pub paired: Option<Paired>,

    #[arg(
        long,
        value_name = "N",
        requires = "paired",
        help = format!(
            "Samples or trials of --paired [default: {} for bootstrap, {} for randomization]",
            Resampling::BOOTSTRAP.samples,
            Resampling::RANDOMIZATION.samples
        )
    )]
    pub paired_n: Option<NonZero<usize>>,

    #[arg(
        long,
        value_name = "N",
        help = format!(
            "Seed of --confidence, --paired and --sample [default: {}; {} for --sample]",
            Resampling::SEED,
            Sampling::default().seed
        )
    )]
    pub seed: Option<u64>,
}

/// Bootstrap samples of sacreBLEU.
const BOOTSTRAP_SAMPLES: NonZero<usize> = match NonZero::new(Resampling::BOOTSTRAP.samples) {
    Some(samples) => samples,
    None => NonZero::<usize>::MIN,
};

impl ResamplingArgs {
    /// Seed of resampling.
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or(Resampling::SEED)
    }
}

/// Options of BLEU, named as in sacreBLEU.
#[derive(Debug, Args)]
pub struct BleuArgs {
    /// Tokenization of BLEU: 13a for plain text, none for tokenized text
    #[arg(long, value_enum, value_name = "NAME", default_value_t = Tokenize::V13a)]
    pub tokenize: Tokenize,

    /// Ignore case in BLEU
    #[arg(long)]
    pub lowercase: bool,

    /// Smoothing of n-gram orders without a match
    #[arg(long, value_enum, value_name = "NAME", default_value_t = Smooth::Exp)]
    pub smooth_method: Smooth,

    /// Value of the smoothing [default: 0.1 for floor, 1 for add-k]
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = smooth_value)]
    pub smooth_value: Option<f64>,

    /// Omit n-gram orders for which the hypothesis is too short; implied by --sentence-level
    #[arg(long)]
    pub effective_order: bool,
}

/// Options of chrF, named as in sacreBLEU.
#[derive(Debug, Args)]
pub struct ChrfArgs {
    /// Maximum order of character n-grams
    #[arg(long, value_name = "N", default_value_t = Chrf::default().char_order)]
    pub chrf_char_order: usize,

    #[arg(
        long,
        value_name = "N",
        help = format!(
            "Maximum order of word n-grams in chrf; chrf++ has {} [default: {}]",
            Chrf::PLUS_PLUS.word_order,
            Chrf::default().word_order
        )
    )]
    pub chrf_word_order: Option<usize>,

    /// Weight β of recall relative to precision
    #[arg(long, value_name = "N", default_value_t = Chrf::default().beta)]
    pub chrf_beta: u32,

    /// Count white space as characters
    #[arg(long)]
    pub chrf_whitespace: bool,

    /// Ignore case in chrF
    #[arg(long)]
    pub chrf_lowercase: bool,

    /// Smooth as chrF++.py, NLTK and Moses do, instead of omitting orders without n-grams
    #[arg(long)]
    pub chrf_eps_smoothing: bool,
}

/// Options of TER, named as in sacreBLEU.
#[derive(Debug, Args)]
pub struct TerArgs {
    /// Split off punctuation before TER
    #[arg(long)]
    pub ter_normalized: bool,

    /// Ignore punctuation in TER
    #[arg(long)]
    pub ter_no_punct: bool,

    /// Tokenize Chinese and Japanese characters, with --ter-normalized or --ter-no-punct
    #[arg(long)]
    pub ter_asian_support: bool,

    /// Distinguish case in TER
    #[arg(long)]
    pub ter_case_sensitive: bool,
}

/// Options of CER and WER.
#[derive(Debug, Args)]
pub struct EditArgs {
    /// Ignore case in CER and WER
    #[arg(long)]
    pub wer_lowercase: bool,

    /// Ignore punctuation in CER and WER
    #[arg(long)]
    pub wer_no_punct: bool,
}

/// Name of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MetricName {
    /// Corpus BLEU, 0 to 100
    Bleu,
    /// F-score of character n-grams, 0 to 100
    Chrf,
    /// chrF with word unigrams and bigrams
    #[value(name = "chrf++")]
    ChrfPlusPlus,
    /// Translation edit rate, in percent
    Ter,
    /// Character error rate, in percent
    Cer,
    /// Word error rate, in percent
    Wer,
    /// Lines identical to the reference, in percent
    Exact,
}

/// Tokenization of BLEU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Tokenize {
    /// Rules of mteval-v13a.pl
    #[value(name = "13a")]
    V13a,
    /// Rules of mteval-v14.pl: separate punctuation and symbols of all scripts
    Intl,
    /// Separate Chinese characters; otherwise the rules of 13a
    Zh,
    /// Separate all characters
    Char,
    /// Split at white space only
    None,
}

/// Smoothing of BLEU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Smooth {
    /// Count 1/2, 1/4, … matches for orders without a match
    Exp,
    /// Count a small number of matches for orders without a match
    Floor,
    /// Add a number to matches and n-grams
    AddK,
    /// No smoothing
    None,
}

/// Significance test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Paired {
    /// Paired bootstrap resampling
    Bootstrap,
    /// Approximate randomization
    Randomization,
}

impl ScoreArgs {
    /// Returns the first contradiction between arguments.
    pub fn problem(&self) -> Option<String> {
        let systems = self.hypothesis.len().max(1);
        for (index, path) in self.hypothesis.iter().enumerate() {
            if self.hypothesis[..index].contains(path) {
                return Some(format!("hypothesis `{}` is given twice", path.display()));
            }
        }
        let ModelSystemArgs { model, source, translator, .. } = &self.translate;
        let has_glossary = translator.glossary.glossary.is_some();
        if source.is_some() && model.is_none() && !has_glossary {
            return Some("`--source` needs `--model` or `--glossary`".to_owned());
        }
        if has_glossary && source.is_none() {
            return Some("`--glossary` needs `--source`, whose terms are counted".to_owned());
        }
        let search = &translator.search;
        if !self.hypothesis.is_empty() && !search.is_default() {
            return Some("`--hypothesis` conflicts with search options".to_owned());
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
                return Some(format!("`--sentence-level` conflicts with {other}"));
            }
        }
        if paired.is_some() && systems < 2 {
            return Some(format!(
                "`--paired` compares systems: expected at least 2 hypothesis files, found {systems}"
            ));
        }
        if confidence && paired == Some(Paired::Bootstrap) {
            return Some(
                "`--confidence` conflicts with `--paired bootstrap`, which prints intervals from \
                 `--paired-n` samples"
                    .to_owned(),
            );
        }
        if seed.is_some() && !confidence && paired.is_none() && !search.sample {
            return Some(
                "`--seed` has no effect without `--confidence`, `--paired` or `--sample`"
                    .to_owned(),
            );
        }
        if let (Some(_), Smooth::Exp | Smooth::None) =
            (self.bleu.smooth_value, self.bleu.smooth_method)
        {
            return Some(
                "`--smooth-value` has no effect without `--smooth-method floor` or `add-k`"
                    .to_owned(),
            );
        }
        self.option_without_metric()
    }

    /// Returns the first option of a metric that is not computed.
    fn option_without_metric(&self) -> Option<String> {
        use MetricName::{Bleu, Cer, Chrf, ChrfPlusPlus, Ter, Wer};
        let (bleu, chrf, ter) = (&self.bleu, &self.chrf, &self.ter);
        let default = tx_eval::Chrf::default();
        let options: [(&str, bool, &[MetricName]); 17] = [
            ("--tokenize", bleu.tokenize != Tokenize::V13a, &[Bleu]),
            ("--lowercase", bleu.lowercase, &[Bleu]),
            ("--smooth-method", bleu.smooth_method != Smooth::Exp, &[Bleu]),
            ("--smooth-value", bleu.smooth_value.is_some(), &[Bleu]),
            ("--effective-order", bleu.effective_order, &[Bleu]),
            (
                "--chrf-char-order",
                chrf.chrf_char_order != default.char_order,
                &[Chrf, ChrfPlusPlus],
            ),
            ("--chrf-word-order", chrf.chrf_word_order.is_some(), &[Chrf]),
            ("--chrf-beta", chrf.chrf_beta != default.beta, &[Chrf, ChrfPlusPlus]),
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
        Some(format!("`{option}` has no effect without {} in `--metrics`", names.join(" or ")))
    }

    /// Returns the metrics to compute, with their options.
    pub fn metrics(&self, terms: Option<TermAccuracy>) -> Vec<Box<dyn tx_eval::Metric>> {
        let terms = terms.map(|metric| Box::new(metric) as Box<dyn tx_eval::Metric>);
        self.metrics.iter().map(|&name| self.metric(name)).chain(terms).collect()
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
            MetricName::Chrf => Box::new(
                self.chrf.settings(self.chrf.chrf_word_order.unwrap_or(Chrf::default().word_order)),
            ),
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

/// Returns the next step for a tokenizer of sacreBLEU that this program does not have.
pub fn tokenizer_hint(name: &str) -> Option<String> {
    let needs = match name {
        "ja-mecab" => "a dictionary of Japanese",
        "ko-mecab" => "a dictionary of Korean",
        "spm" | "flores101" | "flores200" | "spBLEU-1K" => "a SentencePiece model",
        _ => return None,
    };
    Some(format!(
        "`{name}` needs {needs}, which this program does not contain; use `--tokenize char`, or \
         `--metrics chrf`, which needs no tokenizer"
    ))
}

fn smooth_value(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("expected a finite number of at least 0".to_owned()),
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
