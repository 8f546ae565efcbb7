//! Continuation of texts.

mod continuations;
mod streaming;
mod text_scores;

use std::path::Path;

use tx_engine::PackedLanguageModel;
use tx_model::ModelConfig;
use tx_text::{Tokenizer, special::BOS};

use crate::{
    attention::Attention,
    bundle::{Parts, check_same},
    cancellation::Cancellation,
    error::InferError,
    pool::{InOrder, Placement},
    runner::{EnsembleModel, Runner, TaskModel, ensemble_methods, runner_methods},
    search::{Engine, Hypothesis, SearchOptions},
    tokens::{Tokens, encode_prefix, on_one_line, unknown_words},
    weights::Weights,
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
    runner: Runner<Model>,
}

runner_methods!(Generator, LanguageModel);
ensemble_methods!(Generator);

/// Parts of a bundle that generation needs.
#[derive(Debug, Clone)]
struct Model {
    config: ModelConfig,
    tokenizer: Tokenizer,
    engine: Engine,
    /// Search options of calls that do not specify their own.
    options: SearchOptions,
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
    /// Tokenizer in use.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.runner.model.tokenizer
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
        self.continue_lines(&prompts, self.options(), &Cancellation::new(), |ready| {
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
        let Runner { model, pool } = &self.runner;
        model.check(options)?;
        let mut output = InOrder::new(prompts.len(), sink);
        let task = Prompts { model: model.clone(), options: options.clone() };
        let texts = prompts.iter().map(|prompt| task.text(prompt)).enumerate();
        let texts = texts.map(|(index, text)| Ok((index, text?)));
        let texts = texts.collect::<Result<_, InferError>>()?;
        pool.run(task.into(), texts, cancellation.child(), |ready| output.put(ready))
    }

    /// Computes the self-attention for a text.
    ///
    /// # Errors
    ///
    /// If the text cannot be tokenized.
    pub fn attention(&self, text: &str) -> Result<Attention, InferError> {
        let Model { config, tokenizer, engine, .. } = &*self.runner.model;
        let tokens = Tokens::of_target(tokenizer, text, config.max_len)?;
        Ok(Attention::of(engine, Tokens::default(), tokens))
    }
}

impl TaskModel for Model {
    type Packed = PackedLanguageModel;

    fn new(weights: Weights<PackedLanguageModel>, parts: Parts<'_>) -> Self {
        Self {
            config: parts.config.clone(),
            tokenizer: parts.tokenizers.target.clone(),
            engine: parts.engine(weights),
            options: parts.search.cloned().unwrap_or_else(SearchOptions::greedy),
        }
    }

    fn placement(&self) -> Placement {
        self.engine.placement()
    }
}

impl EnsembleModel for Model {
    fn with_member(mut self, first: &Path, path: &Path, other: Self) -> Result<Self, InferError> {
        check_same("text", (first, &self.tokenizer), (path, &other.tokenizer))?;
        self.engine = self.engine.with_member(other.engine);
        self.config.max_len = self.engine.max_len();
        Ok(self)
    }
}

impl Model {
    /// # Errors
    ///
    /// [`InferError::Search`] with all problems of the options.
    fn check(&self, options: &SearchOptions) -> Result<(), InferError> {
        let mut problems = options.problems();
        options.problems_without_source(&mut problems);
        let ids = self.tokenizer.vocab_size();
        for id in options.suppress.iter().filter(|id| **id as usize >= ids) {
            problems.push(format!("`suppress` = {id}, but the vocabulary ends at {}", ids - 1));
        }
        if problems.is_empty() { Ok(()) } else { Err(InferError::Search { problems }) }
    }

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
