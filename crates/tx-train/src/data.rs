//! Data of a run: read, cleaned, tokenized and encoded.

mod run_data;

mod given;
mod open;
mod prepared;

mod encode;
mod language_tokens;
mod lexicon;
mod validation;
mod vocabulary;

pub(crate) mod documents;
pub(crate) mod fingerprints;
pub(crate) mod labeled;
pub(crate) mod segmentation;
mod summary;

use std::{path::Path, sync::atomic::AtomicBool};

use tx_data::{
    PairAnnotation,
    near_duplicate::Overlap,
    pipeline::{CleanCorpus, TextStore},
    source::named::CorpusCache,
};
use tx_infer::{Bundle, TaskKind, bundle::Languages};
use tx_text::{SentencePair, Tokenizer, TokenizerKind, Tokenizers};

use crate::{
    config::{BleuTokenizer, CorpusConfig, TrainConfig},
    corpus,
    error::TrainError,
    interrupt::check,
};

pub(crate) use open::load;
pub use prepared::{ShardOptions, prepare_shard_part, prepared};
pub(crate) use run_data::PairData;
pub(crate) use summary::{DataSummary, ValidationCounts};
pub use tx_data::prepared::ShardPart;
pub(crate) use validation::ValidationSet;

/// Tokenizers that exist before the data is read, because weights belong to their ids.
pub(crate) enum Known {
    /// All tokenizers are learned.
    None,
    /// Tokenizer of the source or of the only text: that of the bundle that the encoder comes from.
    Source(Tokenizer),
    /// Tokenizers of a resumed run, or of the bundle that a run continues, and its languages.
    Both(Tokenizers, Option<Languages>),
}

impl Known {
    /// Reads the tokenizer of the bundle that the encoder of a run comes from, if there is one.
    ///
    /// # Errors
    ///
    /// If the bundle cannot be opened, has no encoder or one of another width, or lacks the
    /// `<mask>` that the task needs.
    pub fn of_encoder(config: &TrainConfig) -> Result<Self, TrainError> {
        let Some(folder) = &config.model.encoder_from else { return Ok(Self::None) };
        let bundle = encoder_bundle(folder)?;
        let tokenizer = bundle.tokenizers.source;
        let (found, expected) = (bundle.config.d_model, config.model.d_model);
        let (folder, task) = (folder.display(), config.task);
        let mut problems = Vec::new();
        if found != expected {
            problems.push(format!(
                "[model] `d_model` = {expected} differs from that of `encoder_from`: `{folder}` has \
                 {found}"
            ));
        }
        if task == TaskKind::FillMask && tokenizer.mask_id().is_none() {
            problems.push(format!(
                "[model] `encoder_from`: the vocabulary of `{folder}` has no `<mask>`, which the \
                 task \"{task}\" needs"
            ));
        }
        match problems.is_empty() {
            true => Ok(Self::Source(tokenizer)),
            false => Err(TrainError::Problems { problems }),
        }
    }

    /// Returns the tokenizer of a task with one text, if it is known.
    pub fn of_text(self) -> Option<Tokenizer> {
        match self {
            Self::None => None,
            Self::Source(tokenizer) => Some(tokenizer),
            Self::Both(tokenizers, _) => Some(tokenizers.source),
        }
    }
}

/// Opens the bundle that the encoder of a run comes from.
///
/// # Errors
///
/// If it cannot be opened, or is one of a language model, which has no encoder.
pub(crate) fn encoder_bundle(folder: &Path) -> Result<Bundle, TrainError> {
    let bundle = Bundle::open(folder)?;
    match bundle.task.kind() {
        TaskKind::Translate | TaskKind::Classify | TaskKind::FillMask => Ok(bundle),
        TaskKind::Generate => {
            let path = folder.display();
            let problem = format!(
                "[model] `encoder_from`: `{path}` is a language model, which has no encoder"
            );
            Err(TrainError::Problems { problems: vec![problem] })
        }
    }
}

/// Access to corpora, and interruption and messages while data is prepared.
#[derive(Clone, Copy)]
pub(crate) struct DataAccess<'a> {
    /// Cache of named corpora, if any.
    pub cache: Option<&'a CorpusCache>,
    /// Shards of prepared corpora that this process verifies.
    pub part: ShardPart,
    /// Ends the work with [`TrainError::Interrupted`] once set.
    pub stop: &'a AtomicBool,
    /// Receiver of messages.
    pub print: &'a dyn Fn(&str),
}

impl DataAccess<'_> {
    /// # Errors
    ///
    /// [`TrainError::Interrupted`] once `stop` is set.
    pub fn check(&self) -> Result<(), TrainError> {
        check(self.stop)
    }

    /// Prints which columns of the tables of `entry` are read, with the first pair.
    pub fn print_columns(&self, config: &TrainConfig, entry: &CorpusConfig) {
        let Some((name, layout, pair)) = corpus::table_layout(config, entry) else { return };
        let [source, target] = [pair.source, pair.target].map(|text| shortened(&text));
        let unit = if config.task == TaskKind::Classify { "text" } else { "pair" };
        (self.print)(&format!("{name}: columns: {layout}; first {unit}: {source} -> {target}"));
    }

    /// Returns the tokenizer of BLEU for the validation pairs `pairs`: that of `config`, or else that of
    /// the target `language` or their script, which is printed unless it is the usual one.
    pub fn bleu_tokenizer(
        &self,
        config: &TrainConfig,
        language: Option<&str>,
        pairs: &[SentencePair],
    ) -> BleuTokenizer {
        if let Some(tokenizer) = config.validation.tokenize {
            return tokenizer;
        }
        let references = pairs.iter().map(|pair| &*pair.target);
        let tokenizer = BleuTokenizer::of_targets(language, references);
        let reason = match tokenizer {
            BleuTokenizer::Zh => "the targets are Chinese",
            BleuTokenizer::Char => "the targets have no spaces between words",
            BleuTokenizer::V13a | BleuTokenizer::Intl | BleuTokenizer::None => return tokenizer,
        };
        let name = tokenizer.tokenizer().name();
        (self.print)(&format!(
            "validation: BLEU with the tokenizer \"{name}\", because {reason} (`validation.tokenize`)"
        ));
        tokenizer
    }

    /// Prints the vocabulary sizes.
    pub fn print_vocabulary(&self, config: &TrainConfig, tokenizers: &Tokenizers) {
        let (source, target) = (tokenizers.source.vocab_size(), tokenizers.target.vocab_size());
        (self.print)(&match config.task.has_one_text() {
            true => format!("vocabulary: {source} tokens"),
            false => format!("vocabulary: {source} source and {target} target tokens"),
        });
        let asked = config.tokenizer.vocab_size;
        let learned = config.tokenizer.kind == TokenizerKind::Bpe
            && !config.tokenizer.is_imported()
            && config.model.encoder_from.is_none()
            && config.from.is_none();
        if learned && source.max(target) < asked {
            (self.print)(&format!(
                "note: `tokenizer.vocab_size` = {asked} is more than the training text yields"
            ));
        }
    }

    /// Prints that not all validation examples are used, if there are more.
    pub fn print_used(&self, ValidationCounts { available, used }: ValidationCounts, unit: &str) {
        if used < available {
            (self.print)(&format!(
                "validation: {used} of {available} {unit} are used, of all lengths \
                 (`validation.sentences` = {used})"
            ));
        }
    }
}

/// Quotes a text for a message, shortened if it is long.
fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    let mut shown: String = text.chars().take(MOST).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// Prints the number of validation examples with near duplicates in training. `unit` names several
/// examples.
pub(crate) fn print_overlap(
    overlap: Option<Overlap>,
    dropped: usize,
    unit: &str,
    print: &dyn Fn(&str),
) {
    let Some(Overlap { validation, near, first_near: Some(first), .. }) = overlap else { return };
    let consequence = match dropped {
        0 => "; `data.overlap = \"drop\"` leaves these out of training".into(),
        dropped => format!("; {dropped} training {unit} dropped for that reason"),
    };
    print(&format!(
        "validation: {near} of {validation} {unit} have a near duplicate in training (first: \
         {first}){consequence}"
    ));
}

/// Prints numbers of pairs with word alignments, and the mean of their weights, if they have any.
pub(crate) fn print_annotations<T: TextStore>(corpus: &CleanCorpus<T>, print: &dyn Fn(&str)) {
    let (mut pairs, mut linked, mut weights) = (0_usize, 0_usize, 0.0);
    for PairAnnotation { weight, links } in corpus.annotations() {
        pairs += 1;
        linked += usize::from(!links.is_empty());
        weights += f64::from(*weight);
    }
    if pairs == 0 {
        return;
    }
    let unlinked = match corpus.unlinked {
        0 => String::new(),
        lost => format!("; {lost} lost their links, because cleaning changed their words"),
    };
    let mean = weights / pairs as f64;
    print(&format!(
        "annotations: {linked} of {pairs} pairs with links, mean weight {mean:.3}{unlinked}"
    ));
}
