//! Search options of the command line.

mod options;

use std::num::NonZero;

use clap::{Args, ValueEnum};
use tx_infer::{
    EarlyStopping, GlossaryUse, LengthNorm, LexiconUse, Sampling, SearchOptions, mbr::DEFAULT_SCALE,
};

use super::mbr::UtilityName;

/// Search options, one argument for each field of [`SearchOptions`] and [`Sampling`] except the
/// seed. An option that is not given has the value of the bundle, if it has search options, otherwise
/// the default.
#[derive(Debug, Args)]
#[command(next_help_heading = "Search")]
#[group(requires = "model")]
pub struct SearchArgs {
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=64),
        help = format!(
            "Hypotheses kept per sentence; 1 is greedy search [default: {}; {} with --sample and to \
             continue texts]",
            SearchOptions::default().beam,
            SearchOptions::greedy().beam
        )
    )]
    pub beam: Option<u16>,

    #[arg(
        long,
        value_name = "N",
        help = format!(
            "Translations printed per sentence, best first; at most --beam or --mbr-candidates [default: {}]",
            SearchOptions::default().n_best
        )
    )]
    pub n_best: Option<usize>,

    #[arg(
        long,
        value_name = "ALPHA",
        allow_negative_numbers = true,
        help = format!(
            "Length penalty α: score = log P / length^α; larger α favors long translations [default: {}]",
            SearchOptions::default().length_penalty
        )
    )]
    pub length_penalty: Option<f32>,

    /// Penalty of each token of a hypothesis, subtracted from its log-probability; a negative one favors long
    /// translations [default: 0]
    #[arg(long, value_name = "PENALTY", allow_negative_numbers = true)]
    pub word_penalty: Option<f32>,

    /// Normalization of log-probabilities by the length n of a hypothesis [default: power]
    #[arg(long, value_enum, value_name = "NAME")]
    pub length_norm: Option<Norm>,

    #[arg(
        long,
        value_name = "BETA",
        allow_negative_numbers = true,
        help = format!(
            "Coverage penalty β: score += β Σ ln min(attention received, 1) over source tokens \
             [default: {}]",
            SearchOptions::default().coverage_penalty
        )
    )]
    pub coverage_penalty: Option<f32>,

    /// Condition that ends the search for a sentence [default: finished]
    #[arg(long, value_enum, value_name = "WHEN")]
    pub early_stopping: Option<Stopping>,

    #[arg(
        long,
        value_name = "FACTOR",
        allow_negative_numbers = true,
        help = format!(
            "Finished hypotheses that end the search, as a multiple of --beam [default: {}]",
            SearchOptions::default().patience
        )
    )]
    pub patience: Option<f32>,

    #[arg(
        long,
        value_name = "N",
        help = format!(
            "Groups of diverse beam search; must divide --beam [default: {}]",
            SearchOptions::default().groups
        )
    )]
    pub groups: Option<usize>,

    #[arg(
        long,
        value_name = "LAMBDA",
        allow_negative_numbers = true,
        help = format!(
            "Diversity penalty λ: score of a token -= λ for each earlier group that chose it \
             [default: {}]",
            SearchOptions::default().diversity
        )
    )]
    pub diversity: Option<f32>,

    /// Maximum length of a translation, in tokens including `<eos>` [default: that of the model]
    #[arg(long, value_name = "N")]
    pub max_len: Option<usize>,

    #[arg(
        long,
        value_name = "RATIO",
        allow_negative_numbers = true,
        help = format!(
            "Maximum length of a translation, in tokens per source token; --max-len-extra is added \
             [default: {}]",
            SearchOptions::default().max_len_ratio
        )
    )]
    pub max_len_ratio: Option<f32>,

    #[arg(
        long,
        value_name = "N",
        help = format!(
            "Tokens added to the maximum length that --max-len-ratio gives [default: {}]",
            SearchOptions::default().max_len_extra
        )
    )]
    pub max_len_extra: Option<usize>,

    /// End a translation that reaches its maximum length with `<eos>`, at no cost
    #[arg(long)]
    pub force_eos: bool,

    #[arg(
        long,
        value_name = "N",
        help = format!(
            "Minimum length of a translation, in tokens before `<eos>` [default: {}]",
            SearchOptions::default().min_len
        )
    )]
    pub min_len: Option<usize>,

    #[arg(
        long,
        value_name = "RATIO",
        allow_negative_numbers = true,
        help = format!(
            "Minimum length of a translation, in tokens per source token [default: {}]",
            SearchOptions::default().min_len_ratio
        )
    )]
    pub min_len_ratio: Option<f32>,

    #[arg(
        long,
        value_name = "THETA",
        allow_negative_numbers = true,
        help = format!(
            "Repetition penalty θ: θ > 1, such as 1.2, makes tokens generated before less likely \
             [default: {}]",
            SearchOptions::default().repetition_penalty
        )
    )]
    pub repetition_penalty: Option<f32>,

    #[arg(
        long,
        value_name = "N",
        help = format!(
            "Length of the n-grams that occur at most once in a translation; 0 is no limit \
             [default: {}]",
            SearchOptions::default().no_repeat_ngram
        )
    )]
    pub no_repeat_ngram: Option<usize>,

    #[arg(
        long,
        value_name = "N",
        help = format!(
            "Maximum number of times that a token sequence occurs in a row, unless the source has \
             more; 0 is no limit [default: {}]",
            SearchOptions::default().max_repeats
        )
    )]
    pub max_repeats: Option<usize>,

    /// Token that is never generated, written as in the vocabulary (repeatable)
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    pub suppress: Vec<String>,

    /// Id of a token that is never generated (repeatable)
    #[arg(long, value_name = "ID")]
    pub suppress_id: Vec<u32>,

    /// Never generate `<unk>`
    #[arg(long, conflicts_with = "replace_unk")]
    pub no_unk: bool,

    /// Redistribute the probability of suppressed tokens over the other tokens
    #[arg(long)]
    pub renormalize: bool,

    /// Replace `<unk>` by the source word with the largest attention weight
    #[arg(long)]
    pub replace_unk: bool,

    /// Use of --glossary [default: that of the bundle, otherwise constrain]
    #[arg(long, value_enum, value_name = "USE")]
    pub glossary_use: Option<Glossary>,

    /// Use of the lexicon of the bundle [default: that of the bundle]
    #[arg(long, value_enum, value_name = "USE")]
    pub lexicon: Option<Lexicon>,

    /// Decoder layer, from 1, whose attention --replace-unk and --coverage-penalty use [default:
    /// that of the bundle]
    #[arg(long, value_name = "N")]
    pub attention_layer: Option<usize>,

    /// Use sampling instead of beam search
    #[arg(long, group = "sampling")]
    pub sample: bool,

    #[arg(
        long,
        value_name = "N",
        requires = "sample",
        help = format!("Samples per sentence [default: {}]", Sampling::default().samples)
    )]
    pub samples: Option<usize>,

    #[arg(
        long,
        value_name = "T",
        requires = "sampling",
        allow_negative_numbers = true,
        help = format!(
            "Softmax temperature; below 1, the distribution is sharper [default: {}]",
            Sampling::default().temperature
        )
    )]
    pub temperature: Option<f32>,

    /// With --sample or --mbr-samples: sample from the K most likely tokens only [default: 0, all]. Without: labels
    /// printed per line [default: 1], or tokens per `<mask>`
    #[arg(long, value_name = "K")]
    pub top_k: Option<usize>,

    #[arg(
        long,
        value_name = "P",
        requires = "sampling",
        allow_negative_numbers = true,
        help = format!(
            "Nucleus sampling: sample from the fewest tokens whose probabilities sum to P [default: {}]",
            Sampling::default().top_p
        )
    )]
    pub top_p: Option<f32>,

    /// Choose the translation with the largest expected utility among the hypotheses of the search:
    /// the mean of this sentence-level metric over pseudo-references
    #[arg(long, value_enum, value_name = "METRIC", help_heading = MBR)]
    pub mbr: Option<UtilityName>,

    /// Candidates per sentence, of beam search with at least this beam; they are also the
    /// pseudo-references, weighted by their score [default: --beam; with --sample, --samples]
    #[arg(long, value_name = "N", requires = "mbr", conflicts_with = "sample", help_heading = MBR)]
    pub mbr_candidates: Option<NonZero<u16>>,

    /// Samples per sentence that are the pseudo-references, instead of the candidates
    #[arg(long, value_name = "N", requires = "mbr", group = "sampling", help_heading = MBR)]
    pub mbr_samples: Option<usize>,

    #[arg(
        long,
        value_name = "ALPHA",
        requires = "mbr",
        conflicts_with_all = ["sample", "mbr_samples"],
        allow_negative_numbers = true,
        help_heading = MBR,
        help = format!(
            "Weight of a candidate of beam search as pseudo-reference: exp(α · score), normalized; 0 \
             weights all the same [default: {DEFAULT_SCALE}]"
        )
    )]
    pub mbr_scale: Option<f32>,
}

/// Heading of the options of minimum Bayes risk decoding.
const MBR: &str = "Minimum Bayes risk";

/// Seed of sampling, apart from [`SearchArgs`] because `score` has a `--seed` of its own.
#[derive(Debug, Args)]
#[command(next_help_heading = "Search")]
pub struct SeedArgs {
    /// Seed of sampling; with the line number it determines the samples of a line
    #[arg(
        long,
        value_name = "N",
        requires = "sampling",
        default_value_t = Sampling::default().seed
    )]
    pub seed: u64,
}

/// Normalization of log-probabilities by length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Norm {
    /// No normalization
    None,
    /// n^α
    Power,
    /// ((5 + n) / 6)^α, as in Wu et al. 2016
    Wu,
}

impl From<Norm> for LengthNorm {
    fn from(norm: Norm) -> Self {
        match norm {
            Norm::None => Self::None,
            Norm::Power => Self::Power,
            Norm::Wu => Self::Wu,
        }
    }
}

/// Use of a glossary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Glossary {
    /// Constraints on the beam search: each translation as the glossary has it
    Constrain,
    /// Translations in the source, for models trained with data.noise.terms; words may have other forms
    Inline,
    /// Both
    Both,
}

impl From<Glossary> for GlossaryUse {
    fn from(given: Glossary) -> Self {
        match given {
            Glossary::Constrain => Self::Constrain,
            Glossary::Inline => Self::Inline,
            Glossary::Both => Self::Both,
        }
    }
}

/// Use of a lexicon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Lexicon {
    /// None: translations have any words
    Off,
    /// Translations have words of the training text, and new ones of the source
    Words,
    /// Names and numbers are copied, except by samples
    Names,
    /// Both
    Both,
}

impl From<Lexicon> for LexiconUse {
    fn from(given: Lexicon) -> Self {
        match given {
            Lexicon::Off => Self::Off,
            Lexicon::Words => Self::Words,
            Lexicon::Names => Self::Names,
            Lexicon::Both => Self::Both,
        }
    }
}

/// Condition that ends the search for a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Stopping {
    /// --patience times --beam hypotheses are finished
    Finished,
    /// The most likely continuation of a step ends, and --n-best hypotheses are finished
    First,
    /// No unfinished hypothesis can score better than those found
    Never,
    /// --beam hypotheses are finished, and none that is unfinished scores better at its length
    Improvement,
    /// --beam hypotheses are finished, of a beam that narrows with each of them
    Narrowing,
}

impl From<Stopping> for EarlyStopping {
    fn from(stopping: Stopping) -> Self {
        match stopping {
            Stopping::Finished => Self::Finished,
            Stopping::First => Self::First,
            Stopping::Never => Self::Never,
            Stopping::Improvement => Self::Improvement,
            Stopping::Narrowing => Self::Narrowing,
        }
    }
}
