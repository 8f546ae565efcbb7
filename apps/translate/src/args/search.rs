//! The options of searching, and what they ask of `tx-infer`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use tx_infer::{
    EarlyStopping, InferError, LengthNorm, Sampling, SearchOptions, Translator,
    tx_data::{
        Tokenizer,
        special::{EOS, UNK},
    },
};

/// How translations are searched for.
#[derive(Debug, Args)]
#[command(next_help_heading = "Search")]
pub struct SearchArgs {
    /// Hypotheses kept per sentence; 1 is greedy search [default: 4; with --sample 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub beam: Option<u16>,

    /// Translations given per sentence, best first; at most --beam
    #[arg(long, value_name = "N", conflicts_with = "sample")]
    pub n_best: Option<usize>,

    /// Exponent of what log-probabilities are divided by; 0 favours short translations [default: 1]
    #[arg(long, value_name = "ALPHA", allow_negative_numbers = true)]
    pub length_penalty: Option<f32>,

    /// What log-probabilities are divided by, for N tokens
    #[arg(long, value_enum, value_name = "NAME", default_value_t)]
    pub length_norm: Norm,

    /// Weight of the penalty for source tokens left out
    #[arg(long, value_name = "BETA", default_value_t = 0.0, allow_negative_numbers = true)]
    pub coverage_penalty: f32,

    /// When a sentence is done
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub early_stopping: Stop,

    /// Wait for so many times --beam finished hypotheses [default: 1]
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true)]
    pub patience: Option<f32>,

    /// Diverse beam search: groups of the beam that are kept apart; must divide --beam
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub groups: usize,

    /// How far apart: what a token loses for each time that an earlier group took it [default: 0.5]
    #[arg(long, value_name = "LAMBDA", requires = "groups", allow_negative_numbers = true)]
    pub diversity: Option<f32>,

    /// Longest translation, in tokens, the end counted
    #[arg(long, value_name = "N")]
    pub max_len: Option<usize>,

    /// Longest translation, in tokens per source token (and --max-len-extra more)
    #[arg(long, value_name = "RATIO", default_value_t = 2.0, allow_negative_numbers = true)]
    pub max_len_ratio: f32,

    /// See --max-len-ratio
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub max_len_extra: usize,

    /// Tokens that a translation has at least before it may end
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub min_len: usize,

    /// The same, in tokens per source token
    #[arg(long, value_name = "RATIO", default_value_t = 0.0, allow_negative_numbers = true)]
    pub min_len_ratio: f32,

    /// Makes tokens that were said less likely; above 1, such as 1.2
    #[arg(long, value_name = "THETA", default_value_t = 1.0, allow_negative_numbers = true)]
    pub repetition_penalty: f32,

    /// No N tokens in a row come twice in a translation; 0 allows all
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub no_repeat_ngram: usize,

    /// The same sequence of tokens comes at most N times in a row, or as often as the source repeats
    /// one; 0 allows all [default: 4]
    #[arg(long, value_name = "N")]
    pub max_repeats: Option<usize>,

    /// Token that is never said, as it stands in the vocabulary; may be given often
    #[arg(long, value_name = "TOKEN")]
    pub suppress: Vec<String>,

    /// Id of a token that is never said; may be given often
    #[arg(long, value_name = "ID")]
    pub suppress_id: Vec<u32>,

    /// Never say `<unk>`
    #[arg(long, conflicts_with = "replace_unk")]
    pub no_unk: bool,

    /// Let the other tokens share the probability of those that must not be said
    #[arg(long)]
    pub renormalize: bool,

    /// Replace `<unk>` by the source word that it looked at most
    #[arg(long)]
    pub replace_unk: bool,

    /// Decoder layer, from 1, whose attention counts for --replace-unk and --coverage-penalty
    /// [default: the last but one]
    #[arg(long, value_name = "N")]
    pub attention_layer: Option<usize>,

    /// Draw tokens at random instead of searching for the likeliest
    #[arg(long)]
    pub sample: bool,

    /// Translations drawn per sentence [default: 1]
    #[arg(long, value_name = "N", requires = "sample")]
    pub samples: Option<usize>,

    /// Below 1, likely tokens are drawn more often still [default: 1]
    #[arg(long, value_name = "T", requires = "sample", allow_negative_numbers = true)]
    pub temperature: Option<f32>,

    /// Draw from the K likeliest tokens only; 0 is all
    #[arg(long, value_name = "K", requires = "sample")]
    pub top_k: Option<usize>,

    /// Draw only from the fewest tokens that together have probability P
    #[arg(long, value_name = "P", requires = "sample", allow_negative_numbers = true)]
    pub top_p: Option<f32>,

    /// The same seed draws the same for the same line [default: 0]
    #[arg(long, value_name = "N", requires = "sample")]
    pub seed: Option<u64>,

    /// Another model of the same vocabulary, whose probabilities are averaged with --model's; may
    /// be given often
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub ensemble: Vec<PathBuf>,
}

/// What log-probabilities are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Norm {
    /// Nothing
    None,
    /// N^alpha
    #[default]
    Power,
    /// ((5 + N) / 6)^alpha, as Wu et al. 2016
    Wu,
}

/// When a sentence is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Stop {
    /// When --patience times --beam hypotheses are finished
    #[default]
    Finished,
    /// When the likeliest continuation of a step ends
    First,
    /// When no hypothesis under way can still win
    Never,
}

impl SearchArgs {
    /// Searches as asked for with `translator`, whose vocabulary knows the tokens' ids.
    ///
    /// # Errors
    ///
    /// When options contradict each other; all problems are named.
    pub fn apply(&self, translator: Translator) -> Result<Translator, InferError> {
        let mut problems = Vec::new();
        let suppress = self.suppressed(&translator.tokenizers().target, &mut problems);
        let options = SearchOptions { suppress, ..self.options() };
        self.contradictions(&options, &mut problems);
        if problems.is_empty() {
            return translator.with_options(options);
        }
        problems.extend(options.problems());
        Err(InferError::Search { problems })
    }

    fn options(&self) -> SearchOptions {
        let beam = self.beam.map_or(if self.sample { 1 } else { 4 }, usize::from);
        let default = SearchOptions::default();
        let drawn = Sampling::default();
        SearchOptions {
            beam,
            length_penalty: self.length_penalty.unwrap_or(default.length_penalty),
            length_norm: match self.length_norm {
                Norm::None => LengthNorm::None,
                Norm::Power => LengthNorm::Power,
                Norm::Wu => LengthNorm::Wu,
            },
            coverage_penalty: self.coverage_penalty,
            early_stopping: match self.early_stopping {
                Stop::Finished => EarlyStopping::Finished,
                Stop::First => EarlyStopping::First,
                Stop::Never => EarlyStopping::Never,
            },
            patience: self.patience.unwrap_or(default.patience),
            n_best: self.n_best.unwrap_or(default.n_best),
            groups: self.groups,
            diversity: self.diversity.unwrap_or(default.diversity),
            sampling: self.sample.then(|| Sampling {
                samples: self.samples.unwrap_or(drawn.samples),
                temperature: self.temperature.unwrap_or(drawn.temperature),
                top_k: self.top_k.unwrap_or(drawn.top_k),
                top_p: self.top_p.unwrap_or(drawn.top_p),
                seed: self.seed.unwrap_or(drawn.seed),
            }),
            max_len: self.max_len,
            max_len_ratio: self.max_len_ratio,
            max_len_extra: self.max_len_extra,
            min_len: self.min_len,
            min_len_ratio: self.min_len_ratio,
            repetition_penalty: self.repetition_penalty,
            no_repeat_ngram: self.no_repeat_ngram,
            max_repeats: self.max_repeats.unwrap_or(default.max_repeats),
            suppress: Vec::new(),
            renormalize: self.renormalize,
            replace_unknown: self.replace_unk,
            attention_layer: self.attention_layer,
        }
    }

    /// Ids that must not be said.
    fn suppressed(&self, vocabulary: &Tokenizer, problems: &mut Vec<String>) -> Vec<u32> {
        let mut ids = self.suppress_id.clone();
        for token in &self.suppress {
            match vocabulary.id(token) {
                Some(id) => ids.push(id),
                None => problems.push(format!(
                    "`--suppress {token}`: the target vocabulary has no such token (word pieces \
                     that begin a word start with `▁`)"
                )),
            }
        }
        if self.no_unk {
            ids.push(UNK);
        }
        ids
    }

    /// Options that were given and do nothing.
    fn contradictions(&self, options: &SearchOptions, problems: &mut Vec<String>) {
        if self.length_norm == Norm::None && self.length_penalty.is_some() {
            problems.push("`--length-penalty` does nothing with `--length-norm none`".into());
        }
        if self.diversity.is_some() && self.groups == 1 {
            problems.push("`--diversity` is for several `--groups`".into());
        }
        if self.attention_layer.is_some()
            && self.coverage_penalty == 0.0
            && !options.replace_unknown
        {
            problems
                .push("`--attention-layer` is for `--replace-unk` and `--coverage-penalty`".into());
        }
        let forbids = !options.suppress.is_empty()
            || self.no_repeat_ngram > 0
            || self.min_len > 0
            || self.min_len_ratio > 0.0;
        if self.renormalize && !forbids {
            problems.push(
                "`--renormalize` is for options that forbid tokens, such as `--min-len`".into(),
            );
        }
        if options.replace_unknown && options.suppress.contains(&UNK) {
            problems.push("`--replace-unk` has nothing to replace: `<unk>` is suppressed".into());
        }
        if self.suppress.iter().any(|token| token == "<eos>") || self.suppress_id.contains(&EOS) {
            problems.push("`<eos>` cannot be suppressed: use `--min-len`".into());
        }
    }
}
