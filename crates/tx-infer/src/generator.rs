//! Continuation of texts.

mod continuations;
mod streaming;
mod text_scores;

use std::{path::Path, sync::Arc};

use tx_model::ModelConfig;
use tx_text::{Tokenizer, special::BOS};

#[cfg(feature = "burn")]
use crate::bundle::ModuleBundle;
use crate::{
    attention::Attention,
    bundle::{Bundle, check_same},
    cancellation::Cancellation,
    device::Device,
    error::InferError,
    precision::Precision,
    scheduler::{BATCH_TOKENS, Execution, InOrder},
    search::{Engine, Hypothesis, SearchOptions},
    task::TaskKind,
    tokens::{Tokens, encode_prefix, on_one_line, unknown_words},
};
use continuations::Prompts;
pub use text_scores::TextScore;

/// Continues texts with a language model.
///
/// ```no_run
/// use tx_infer::{Device, Generator};
///
/// let generator = Generator::open("runs/generate", &Device::Cpu)?;
/// println!("{}", generator.continue_text("The cat")?.text);
/// # Ok::<(), tx_infer::InferError>(())
/// ```
///
/// A text to continue, the prompt, is a prefix of the result in the search: its tokens count for
/// `max_len`, `min_len`, repetitions and log-probabilities. Options that depend on a source
/// (`max_len_ratio`, `max_len_extra`, `min_len_ratio`, `coverage_penalty`, `replace_unknown`,
/// `attention_layer`) are rejected unless they have their default values, which have no effect.
///
/// Any number of threads may call one generator, or its clones, which share weights and threads.
#[derive(Debug, Clone)]
pub struct Generator {
    model: Arc<Model>,
    options: SearchOptions,
    execution: Execution,
}

/// Parts of a bundle that generation needs.
#[derive(Debug, Clone)]
struct Model {
    config: ModelConfig,
    tokenizer: Tokenizer,
    engine: Engine,
}

/// A text to continue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prompt<'a> {
    /// The text; without words, a text is generated from its beginning.
    pub text: &'a str,
    /// Number of the text, from 0. Samples depend on it and on the seed.
    pub number: u64,
}

/// Result of one prompt.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Continuation {
    /// Prompt and best continuation, on one line.
    pub text: String,
    /// All texts requested, best first.
    pub hypotheses: Vec<ScoredText>,
    /// Words of the prompt that are not in the vocabulary, each once, in order of appearance. The
    /// model reads them as `<unk>`.
    pub unknown: Vec<String>,
}

/// A prompt and its continuation, with their score.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ScoredText {
    /// The prompt as given, followed by `continuation`, on one line.
    pub text: String,
    /// Text after the prompt.
    pub continuation: String,
    /// Ids of prompt and continuation, and their scores.
    pub hypothesis: Hypothesis,
}

impl Generator {
    /// Default maximum number of tokens of a batch: see
    /// [`with_batch_tokens`](Self::with_batch_tokens).
    pub const BATCH_TOKENS: usize = BATCH_TOKENS;

    /// Opens the bundle in `folder`.
    ///
    /// # Errors
    ///
    /// Same as [`Bundle::open`] and [`new`](Self::new).
    pub fn open(folder: impl AsRef<Path>, device: &Device) -> Result<Self, InferError> {
        Self::new(&Bundle::open_for_model(folder)?, device)
    }

    /// Creates a generator with a bundle, whose model is built on `device` in single precision.
    ///
    /// # Errors
    ///
    /// [`InferError::WrongTask`] if the model is for another task; otherwise the same as
    /// [`Bundle::engine`].
    pub fn new(bundle: &Bundle, device: &Device) -> Result<Self, InferError> {
        Self::new_in(bundle, bundle.precision(), device)
    }

    /// Creates a generator with a bundle, whose model is built on `device` in `precision`.
    ///
    /// # Errors
    ///
    /// Same as [`new`](Self::new) and [`Bundle::engine_in`].
    pub fn new_in(
        bundle: &Bundle,
        precision: Precision,
        device: &Device,
    ) -> Result<Self, InferError> {
        bundle.expect(TaskKind::Generate)?;
        let engine = bundle.engine_in(precision, device)?;
        let generator = Self::of(engine, bundle.config.clone(), bundle.tokenizers.target.clone());
        let options = bundle.search.clone().unwrap_or_else(SearchOptions::greedy);
        Ok(Self { options, ..generator })
    }

    /// Creates a generator with the model of `bundle`, which is on `device`.
    #[cfg(feature = "burn")]
    pub(crate) fn from_module(
        bundle: ModuleBundle<tx_model::LanguageModel>,
        device: &Device,
    ) -> Self {
        let padding = bundle.padding();
        let ModuleBundle { model, config, tokenizers, .. } = bundle;
        let engine = Engine::from_language_model(model, config.max_len, device);
        Self::of(engine.with_padding(padding), config, tokenizers.target)
    }

    /// Opens several bundles as an ensemble: the probability of a token is the mean of the models'
    /// probabilities. The bundles must have the same tokenizer.
    ///
    /// # Errors
    ///
    /// Same as [`open`](Self::open); [`InferError::OtherVocabulary`] if the tokenizers differ.
    pub fn open_ensemble(
        folders: &[impl AsRef<Path>],
        device: &Device,
    ) -> Result<Self, InferError> {
        let Some((first, others)) = folders.split_first() else {
            return Err(InferError::Search { problems: vec!["no bundle to open".into()] });
        };
        let first = first.as_ref();
        let alone = Self::open(first, device)?;
        others
            .iter()
            .map(AsRef::as_ref)
            .try_fold(alone, |all, path| all.with_member(first, path, Self::open(path, device)?))
    }

    /// Adds the model of `other` to the ensemble. `first` and `path` are the folders of this bundle
    /// and of `other`, for messages.
    ///
    /// # Errors
    ///
    /// [`InferError::OtherVocabulary`] if the tokenizers differ.
    pub fn with_member(self, first: &Path, path: &Path, other: Self) -> Result<Self, InferError> {
        let mut model = Arc::unwrap_or_clone(self.model);
        let other = Arc::unwrap_or_clone(other.model);
        check_same("text", (first, &model.tokenizer), (path, &other.tokenizer))?;
        model.engine = model.engine.with_member(other.engine);
        model.config.max_len = model.engine.max_len();
        let execution = self.execution.with_placement(model.engine.placement());
        Ok(Self { model: model.into(), execution, ..self })
    }

    fn of(engine: Engine, config: ModelConfig, tokenizer: Tokenizer) -> Self {
        Self {
            execution: Execution::new(engine.placement()),
            options: SearchOptions::greedy(),
            model: Model { config, tokenizer, engine }.into(),
        }
    }

    /// Sets the search options of calls that do not specify their own [default: those of
    /// the bundle, otherwise greedy search].
    ///
    /// # Errors
    ///
    /// [`InferError::Search`] with all problems of the options.
    pub fn with_options(self, options: SearchOptions) -> Result<Self, InferError> {
        self.check(&options)?;
        Ok(Self { options, ..self })
    }

    /// Sets the maximum number of prompt tokens of a batch, padding and hypotheses counted [default:
    /// [`BATCH_TOKENS`](Self::BATCH_TOKENS)].
    pub fn with_batch_tokens(self, batch_tokens: usize) -> Self {
        Self { execution: self.execution.with_batch_tokens(batch_tokens), ..self }
    }

    /// Sets the number of threads [default: all cores], as
    /// [`Translator::with_threads`](crate::Translator::with_threads) does.
    pub fn with_threads(self, threads: usize) -> Self {
        Self { execution: self.execution.with_threads(threads), ..self }
    }

    /// Returns the engine in use.
    pub fn engine(&self) -> &Engine {
        &self.model.engine
    }

    /// Tokenizer in use.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.model.tokenizer
    }

    /// Returns the search options of calls that do not specify their own.
    pub fn options(&self) -> &SearchOptions {
        &self.options
    }

    /// Returns the configuration of the model.
    pub fn config(&self) -> &ModelConfig {
        &self.model.config
    }

    /// Continues one text.
    ///
    /// # Errors
    ///
    /// [`InferError::LongPrefix`] if the text has so many tokens that none fits after it; if it cannot
    /// be tokenized; otherwise the same as [`Engine::search_requests`].
    pub fn continue_text(&self, text: &str) -> Result<Continuation, InferError> {
        Ok(self.continue_batch(&[text])?.pop().unwrap_or_default())
    }

    /// Continues many texts; results come in the order of `texts`.
    ///
    /// # Errors
    ///
    /// Same as [`continue_text`](Self::continue_text), for any of the texts.
    pub fn continue_batch(
        &self,
        texts: &[impl AsRef<str>],
    ) -> Result<Vec<Continuation>, InferError> {
        let prompts = texts.iter().zip(0..);
        let prompts: Vec<Prompt<'_>> =
            prompts.map(|(text, number)| Prompt { text: text.as_ref(), number }).collect();
        let mut found = Vec::with_capacity(texts.len());
        self.continue_lines(&prompts, &self.options, &Cancellation::new(), |ready| {
            found.extend(ready);
            Ok::<_, InferError>(())
        })?;
        Ok(found)
    }

    /// Continues many texts and passes the results to `sink`, in the order of `prompts`, in groups, as
    /// soon as they and all before them are complete. `sink` runs on this thread.
    ///
    /// # Errors
    ///
    /// Before any text is continued: [`InferError::Search`] with all problems of the options, and
    /// [`InferError::LongPrefix`]. [`InferError::Cancelled`] once `cancellation` is set. An error of
    /// a text, or of `sink`, after which `sink` is not called again.
    pub fn continue_lines<E: From<InferError>>(
        &self,
        prompts: &[Prompt<'_>],
        options: &SearchOptions,
        cancellation: &Cancellation,
        sink: impl FnMut(Vec<Continuation>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.check(options)?;
        let mut output = InOrder::new(prompts.len(), sink);
        let limits = self.execution.limits(options.rows());
        let prompts = Prompts::new(self.model.clone(), prompts, options.clone(), limits)?;
        self.execution.scheduler.run(prompts, cancellation, |ready| output.put(ready))
    }

    /// Computes the self-attention for a text.
    ///
    /// # Errors
    ///
    /// If the text cannot be tokenized.
    pub fn attention(&self, text: &str) -> Result<Attention, InferError> {
        let tokens = Tokens::of_target(&self.model.tokenizer, text, self.model.config.max_len)?;
        Ok(Attention::of(&self.model.engine, Tokens::default(), tokens))
    }

    /// # Errors
    ///
    /// [`InferError::Search`] with all problems of the options.
    fn check(&self, options: &SearchOptions) -> Result<(), InferError> {
        let mut problems = options.problems();
        options.problems_without_source(&mut problems);
        let ids = self.model.tokenizer.vocab_size();
        for id in options.suppress.iter().filter(|id| **id as usize >= ids) {
            problems.push(format!("`suppress` = {id}, but the vocabulary ends at {}", ids - 1));
        }
        if problems.is_empty() { Ok(()) } else { Err(InferError::Search { problems }) }
    }
}

impl Model {
    /// Returns the ids of a prompt, without `<bos>` and `<eos>`.
    fn encode_prompt(&self, prompt: &Prompt<'_>) -> Result<Vec<u32>, InferError> {
        encode_prefix(&self.tokenizer, prompt.text, prompt.number + 1, self.config.max_len)
    }

    /// Returns the words of a prompt, encoded as `ids`, that are not in the vocabulary.
    fn unknown_words(&self, prompt: &str, ids: &[u32]) -> Result<Vec<String>, InferError> {
        // The tokens of the text begin with `<bos>`.
        unknown_words(&self.tokenizer, prompt, &[&[BOS], ids].concat())
    }

    /// Decodes the ids of a prompt, of which there are `prompt_ids`, and its continuation. Returns
    /// the text after the prompt.
    ///
    /// The prompt and its continuation are decoded together, because the spaces between two tokens
    /// depend on both.
    fn continuation(
        &self,
        prompt: &str,
        ids: &[u32],
        prompt_ids: usize,
    ) -> Result<String, InferError> {
        let start = self.tokenizer.decode(&ids[..prompt_ids])?;
        let whole = self.tokenizer.decode(ids)?;
        let rest = match whole.strip_prefix(&start) {
            Some(rest) => rest.to_owned(),
            None => self.tokenizer.decode(&ids[prompt_ids..])?,
        };
        let rest = on_one_line(rest);
        let ends_with_space = prompt.is_empty() || prompt.ends_with(char::is_whitespace);
        Ok(if ends_with_space { rest.trim_start().to_owned() } else { rest })
    }

    fn scored(
        &self,
        prompt: &str,
        prompt_ids: usize,
        hypothesis: Hypothesis,
    ) -> Result<ScoredText, InferError> {
        let continuation = self.continuation(prompt, &hypothesis.ids, prompt_ids)?;
        let text = on_one_line(format!("{prompt}{continuation}"));
        Ok(ScoredText { text, continuation, hypothesis })
    }
}

#[cfg(test)]
#[cfg(feature = "burn")]
mod tests;
