//! Command line of `translate`.

pub mod format;
pub mod mbr;
pub mod model;
pub mod search;
pub mod split;

use std::{num::NonZero, path::PathBuf};

use clap::{
    ArgMatches, Args, CommandFactory, Parser, Subcommand, ValueEnum, ValueHint,
    error::{ContextKind, ContextValue},
    parser::ValueSource,
};
use tx_cli::manual::{CompletionsArgs, ManualArgs};
use tx_text::InvalidUtf8;

#[cfg(feature = "models")]
use crate::models::ModelsArgs;
#[cfg(feature = "serve")]
use crate::serve::ServeArgs;
use crate::{
    align::{AlignArgs, AlignmentFormat, AlignmentFrom},
    attention::AttentionArgs,
    bench::BenchArgs,
    calibrate::CalibrateArgs,
    check::CheckArgs,
    explain::ExplainArgs,
    export::ExportArgs,
    force::ForceArgs,
    import::ImportArgs,
    inspect::InspectArgs,
    lexicon::LexiconArgs,
    pack::PackArgs,
    quantize::QuantizeArgs,
    rerank::RerankArgs,
    score::{ScoreArgs, tokenizer_hint},
    shortlist::ShortlistArgs,
};
use format::Format;
use model::{TranslatorArgs, bundle_path};
use search::SeedArgs;
use split::SplitArgs;

/// Run a trained model on text, one line at a time: translate, classify, continue texts, fill masks
///
/// Reads lines from the input and writes one result per line, in the same order, to standard output.
/// Everything else goes to standard error, so the output can be piped. The task is that of the
/// bundle:
///
/// translate: the translation; an empty line for an empty line
///
/// classify: the label and its probability, separated by a tab; --top-k N prints N such pairs; an
/// empty line for an empty line
///
/// generate: the line and its continuation; an empty line is the beginning of a text
///
/// fill-mask: the line with a token in place of each `<mask>`; an empty line for an empty line
///
/// Search options that are not given have the values of the bundle, which `translate inspect` prints,
/// otherwise their defaults.
#[derive(Debug, Parser)]
#[command(
    name = "translate",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  translate --model runs/phrasebook --text 'Where is the cat?'
  translate --model runs/de-en < test.de > test.hyp
  translate --model runs/de-en --beam 8 --n-best 3 --json < test.de
  translate --model runs/de-en --mbr chrf --mbr-candidates 32 --mbr-samples 64 < test.de
  translate --model runs/de-en --input report.docx --output bericht.docx
  translate --model runs/de-en --interactive
  translate --model runs/classify --top-k 2 --text 'Is the cat here?'
  translate --model runs/generate --sample --seed 1 --text 'The cat'
  translate --model runs/fill-mask --top-k 3 --text 'The cat is <mask>.'
  translate force --model runs/de-en --source test.de --target test.en
  translate attention --model runs/de-en --text 'Ein Hund.' --out page.html
  translate score --reference test.en --hypothesis test.hyp
  translate import --from opus-mt-en-de --output runs/en-de
  translate export --model runs/de-en --format ctranslate2 --output de-en-ct2
  translate calibrate --model runs/de-en --source valid.de --reference valid.en
  translate quantize --model runs/de-en --output de-en-int8
  translate pack --model de-en-int8 --output de-en.tar
  translate shortlist --model runs/de-en --source train.de --target train.en --output de-en.lex
  translate models get argos-en-it
  translate serve --model en-de=runs/en-de"
)]
pub struct Cli {
    /// Command to run instead
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Options without a command
    #[command(flatten)]
    pub translate: TranslateArgs,
}

/// Commands other than running a model on lines.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Score translations against references
    Score(ScoreArgs),

    /// Score given translations with a model: log-probability and perplexity (forced decoding)
    Force(ForceArgs),

    /// Rerank n-best lists with a reverse model or a language model, by weights tuned on validation
    Rerank(RerankArgs),

    /// Align the words of translations with those of their sources
    Align(AlignArgs),

    /// Export attention weights as an HTML page, a picture or JSON
    Attention(AttentionArgs),

    /// Draw figures of concepts, such as positional encodings and masks, and write all values inside a model
    Explain(ExplainArgs),

    /// Print the contents of a bundle: sizes, vocabulary, memory, provenance, files
    Inspect(InspectArgs),

    /// Check the invariants of a model on a device: causality, batches, cache, search, tokenizers
    Check(CheckArgs),

    #[expect(missing_docs, reason = "the arguments have the text")]
    Bench(BenchArgs),

    /// Fit the confidence of a model to translations with references, or measure it
    ///
    /// The calibration becomes a part of the bundle. `translate --confidence` and the server report the
    /// probability that a word is right, and the expected share of right words.
    Calibrate(CalibrateArgs),

    /// Read a model of another toolkit and write it as a bundle: OPUS-MT, M2M-100, NLLB, Marian,
    /// CTranslate2, Argos Translate, fairseq, JoeyNMT, `nn.Transformer`
    ///
    /// The format is detected from the content of the files. An option of the model that tx does not
    /// support, and a weight that is missing or not used, is an error that names it. No code of the
    /// model is executed.
    Import(ImportArgs),

    /// Write a bundle in the format of another toolkit: CTranslate2, transformers or Marian
    ///
    /// A property of the model that the format cannot express is an error that names it. The folder
    /// appears when all of its files are complete.
    Export(ExportArgs),

    /// Write a bundle with weights in int8, a quarter of the size
    ///
    /// The device cpu computes with such a bundle in int8 by default, and uses its weights where they
    /// lie in the file, so that processes share them.
    Quantize(QuantizeArgs),

    /// Write a bundle as one file, for downloads and browsers
    ///
    /// The file is a tar archive of the folder. It is not compressed, so that its weights are used
    /// where they lie in the file. All commands open it like the folder.
    Pack(PackArgs),

    /// Add the words of the training text to a bundle
    ///
    /// Translations then have the words of the text, instead of words that a model composes of pieces, and names
    /// and numbers are copied. See --lexicon. Training adds a lexicon with data.lexicon.
    Lexicon(LexiconArgs),

    /// Write a vocabulary shortlist for --shortlist, from the alignments of a model on text
    ///
    /// A shortlist lists the target tokens that each source token is translated to. Translation with
    /// it is faster, but translations can change.
    Shortlist(ShortlistArgs),

    /// Download translation models by name: OPUS-MT, Argos Translate, and those of your own catalogue
    #[cfg(feature = "models")]
    Models(ModelsArgs),

    /// Serve translations by HTTP: LibreTranslate, DeepL and KServe interfaces, and a web page
    #[cfg(feature = "serve")]
    Serve(ServeArgs),

    /// Print the completions of a shell for this program
    Completions(CompletionsArgs),

    /// Write the manual pages of this program
    Manual(ManualArgs),
}

/// Input, output and options of running a model on lines.
#[derive(Debug, Args)]
pub struct TranslateArgs {
    /// Bundle to use: the folder of a training run, or the name of a model of `translate models`
    #[arg(
        long,
        value_name = "DIR",
        value_hint = ValueHint::DirPath,
        required = true,
        value_parser = bundle_path()
    )]
    pub model: Option<PathBuf>,

    /// Text to use instead of a file
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "input")]
    pub text: Option<String>,

    /// File to read, plain or gzip [default: standard input]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub input: Option<PathBuf>,

    /// Format of the input and the output [default: by the extension of --input, .html, .xml, .srt, .vtt,
    /// .docx or .odt; otherwise lines]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,

    /// File to write a translated file to [default: standard output]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Answer lines typed at a terminal, with a history; `:help` lists the commands
    #[arg(
        long,
        conflicts_with_all = ["text", "input", "json", "prefix", "prefix_file", "ensemble"]
    )]
    pub interactive: bool,

    /// Division into sentences
    #[command(flatten)]
    pub split: SplitArgs,

    /// Append a word alignment to each translation: `… ||| 0-0 1-2`, or as JSON
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        conflicts_with_all = ["json", "n_best", "samples", "ensemble"]
    )]
    pub alignment: Option<AlignmentFormat>,

    /// Layer and head of alignments
    #[command(flatten)]
    pub alignment_from: AlignmentFrom,

    /// Target prefix: text that every translation starts with
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "prefix_file")]
    pub prefix: Option<String>,

    /// File with the target prefix of each translation, one per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "text")]
    pub prefix_file: Option<PathBuf>,

    /// Print a JSON object per line, with all hypotheses, labels or tokens and their scores
    #[arg(long)]
    pub json: bool,

    /// Append a tab and the expected share of right words to each translation; with --json, also the probability of
    /// each word. Needs a bundle with a calibration, by `translate calibrate`
    #[arg(long, conflicts_with_all = ["alignment", "interactive"])]
    pub confidence: bool,

    /// Handling of bytes that are not UTF-8
    #[arg(long, value_enum, value_name = "ACTION", default_value_t)]
    pub invalid: Invalid,

    /// Maximum number of lines used together; 1 answers each line as soon as it arrives
    #[arg(long, value_name = "N", default_value = "1000")]
    pub batch_size: NonZero<usize>,

    /// Print results and errors only
    #[arg(short, long)]
    pub quiet: bool,

    /// Execution and search options of the translator
    #[command(flatten)]
    pub translator: TranslatorArgs,

    /// Seed of sampling
    #[command(flatten)]
    pub seed: SeedArgs,

    /// Names of the arguments on the command line, such as `beam`, with which the task of the bundle
    /// is compared
    #[arg(skip)]
    pub given: Vec<String>,
}

impl Cli {
    /// Adds the information of `matches` that the arguments themselves do not have: which options were
    /// given.
    #[must_use]
    pub fn with_matches(mut self, matches: &ArgMatches) -> Self {
        self.translate.given = given(matches);
        self
    }
}

/// Returns the next step after an error of the command line, if one is known.
pub fn usage_hint(error: &clap::Error) -> Option<String> {
    match (error.get(ContextKind::InvalidArg)?, error.get(ContextKind::InvalidValue)?) {
        (ContextValue::String(argument), ContextValue::String(value))
            if argument.starts_with("--tokenize") =>
        {
            tokenizer_hint(value)
        }
        _ => None,
    }
}

/// Names of the arguments without a subcommand that were given.
fn given(matches: &ArgMatches) -> Vec<String> {
    let command = Cli::command();
    let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let arguments = command.get_arguments().filter(|argument| is_given(argument.get_id().as_str()));
    arguments.filter_map(|argument| Some(argument.get_long()?.to_owned())).collect()
}

/// Handling of bytes that are not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Invalid {
    /// Stop with an error that names the line, after translating the lines before it
    #[default]
    Error,
    /// Replace each invalid byte by U+FFFD, the replacement character
    Replace,
}

impl From<Invalid> for InvalidUtf8 {
    fn from(invalid: Invalid) -> Self {
        match invalid {
            Invalid::Error => Self::Reject,
            Invalid::Replace => Self::Replace,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_argument_definitions_are_consistent() {
        Cli::command().debug_assert();
    }
}
