//! Translation of text.

mod paragraphs;
mod sentences;
mod target_scores;
mod unknown;

use std::{path::Path, sync::Arc};

use tx_model::ModelConfig;
use tx_text::Tokenizers;

use crate::{
    bundle::{Bundle, Languages, check_same_tokenizers},
    cancellation::Cancellation,
    device::Device,
    error::InferError,
    mbr::Mbr,
    pair_tokenizer::PairTokenizer,
    precision::Precision,
    scheduler::{BATCH_TOKENS, Execution, InOrder},
    search::{Engine, Hypothesis, SearchOptions},
    shortlist::Shortlist,
    task::TaskKind,
};
pub use paragraphs::{SentenceTranslation, TextTranslation};
use sentences::Sentences;
pub use target_scores::TargetScore;

/// Translates text with a bundle.
///
/// ```no_run
/// use tx_infer::{Device, Translator};
///
/// let translator = Translator::open("runs/de-en", &Device::Cpu)?;
/// println!("{}", translator.translate("ein hund läuft .")?.text);
/// # Ok::<(), tx_infer::InferError>(())
/// ```
///
/// # Threads
///
/// Any number of threads may call one translator, or its clones, which share weights, tokenizers
/// and threads. Calls take turns batch by batch, so that a short one does not wait for a long one.
/// A call blocks until its translations are complete; [`translate_lines`](Self::translate_lines)
/// passes them on earlier and can be canceled.
#[derive(Debug, Clone)]
pub struct Translator {
    model: Arc<Model>,
    texts: PairTokenizer,
    options: SearchOptions,
    mbr: Option<Mbr>,
    execution: Execution,
    /// Language of texts that are divided into sentences.
    text_language: Option<String>,
}

/// Model of a bundle.
#[derive(Debug, Clone)]
struct Model {
    config: ModelConfig,
    engine: Engine,
}

/// A text to translate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Line<'a> {
    /// The text.
    pub text: &'a str,
    /// Beginning of its translation, which the model continues; empty for none.
    pub prefix: &'a str,
    /// Number of the text, from 0. Samples depend on it and on the seed.
    pub number: u64,
    /// Cancellation of this text alone. Once it is set, the text leaves its batch before the next
    /// decoding step, and its translation is empty, as that of a text without words.
    pub cancellation: Option<&'a Cancellation>,
}

impl<'a> Line<'a> {
    /// Creates the text with this `number`, without a prefix.
    pub fn new(text: &'a str, number: u64) -> Self {
        Self { text, number, ..Self::default() }
    }
}

/// Result of one text.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Translation {
    /// The best translation, on one line: control characters and line separators, which a tokenizer
    /// of bytes can generate, are spaces. Empty for a text without words.
    pub text: String,
    /// All translations requested, best first; empty for a text without words.
    pub hypotheses: Vec<Scored>,
    /// Whether the text was truncated because it has more tokens than the model's `max_len`. The
    /// translation then lacks its end.
    pub truncated: bool,
    /// Words of the text that are not in the vocabulary, each once, in order of appearance. They
    /// become `<unk>`, so their translation is arbitrary.
    pub unknown: Vec<String>,
}

/// A translation with its score.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Scored {
    /// The translation, on one line.
    pub text: String,
    /// Its ids and scores.
    pub hypothesis: Hypothesis,
    /// Expected utility in percent, by which minimum Bayes risk decoding ranks hypotheses; `None`
    /// without it.
    pub expected_utility: Option<f64>,
}

impl Translator {
    /// Default maximum number of source tokens of a batch: see
    /// [`with_batch_tokens`](Self::with_batch_tokens).
    pub const BATCH_TOKENS: usize = BATCH_TOKENS;

    /// Opens the bundle in `folder`.
    ///
    /// # Errors
    ///
    /// Same as [`Bundle::open`] and [`Bundle::engine`].
    pub fn open(folder: impl AsRef<Path>, device: &Device) -> Result<Self, InferError> {
        Self::new(Bundle::open_for_model(folder)?, device)
    }

    /// Opens several bundles as an ensemble: the probability of a token is the mean of the models'
    /// probabilities. The bundles must have the same tokenizers.
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
    /// [`InferError::OtherVocabulary`] if the tokenizers differ; [`InferError::Search`] if a member has a
    /// shortlist.
    pub fn with_member(self, first: &Path, path: &Path, other: Self) -> Result<Self, InferError> {
        let (ours, theirs) = (self.texts.tokenizers(), other.texts.tokenizers());
        check_same_tokenizers([(first, ours), (path, theirs)])?;
        if self.engine().has_shortlist() || other.engine().has_shortlist() {
            let problems = vec!["`shortlist` conflicts with an ensemble".into()];
            return Err(InferError::Search { problems });
        }
        let mut model = Arc::unwrap_or_clone(self.model);
        let other = Arc::unwrap_or_clone(other.model);
        model.engine = model.engine.with_member(other.engine);
        model.config.max_len = model.engine.max_len();
        let texts = self.texts.with_max_len(model.config.max_len);
        let execution = self.execution.with_placement(model.engine.placement());
        Ok(Self { model: model.into(), texts, execution, ..self })
    }

    /// Creates a translator with a bundle, whose model is built on `device` in single precision.
    ///
    /// # Errors
    ///
    /// Same as [`Bundle::engine`]; [`InferError::WrongTask`] if the model is for another task.
    pub fn new(bundle: Bundle, device: &Device) -> Result<Self, InferError> {
        Self::new_in(&bundle, bundle.precision(), device)
    }

    /// Creates a translator with a bundle, whose model is built on `device` in `precision`.
    ///
    /// # Errors
    ///
    /// Same as [`new`](Self::new) and [`Bundle::engine_in`].
    pub fn new_in(
        bundle: &Bundle,
        precision: Precision,
        device: &Device,
    ) -> Result<Self, InferError> {
        bundle.expect(TaskKind::Translate)?;
        let engine = bundle.engine_in(precision, device)?;
        let Bundle { config, tokenizers, languages, search, .. } = bundle.clone();
        let translator = Self::from_engine(engine, config, tokenizers);
        let text_language = paragraphs::text_language(bundle);
        Ok(Self { text_language, ..translator.with_defaults(languages, search) })
    }

    /// Creates a translator with an engine, and the configuration and tokenizers of its model.
    pub fn from_engine(engine: Engine, config: ModelConfig, tokenizers: Tokenizers) -> Self {
        Self {
            execution: Execution::new(engine.placement()),
            texts: PairTokenizer::of(tokenizers, config.max_len, None),
            model: Model { config, engine }.into(),
            options: SearchOptions::default(),
            mbr: None,
            text_language: None,
        }
    }

    /// Sets languages and search options of a bundle.
    pub(crate) fn with_defaults(
        self,
        languages: Option<Languages>,
        search: Option<SearchOptions>,
    ) -> Self {
        let tokenizers = self.texts.tokenizers().clone();
        let texts = PairTokenizer::of(tokenizers, self.model.config.max_len, languages);
        Self { texts, options: search.unwrap_or_default(), ..self }
    }

    /// Selects languages of a multilingual model by their codes. A side without a code keeps its
    /// language: the one selected before, the default of the bundle, or the only one.
    ///
    /// With [`LanguagePlacement::TargetInSource`](crate::LanguagePlacement::TargetInSource), a token
    /// at the beginning of a text, such as `>>deu<<`, selects the target language of the text.
    ///
    /// # Errors
    ///
    /// [`InferError::UnknownLanguage`] with the nearest code; [`InferError::NoLanguages`] if the model
    /// has none.
    pub fn with_languages(
        self,
        source: Option<&str>,
        target: Option<&str>,
    ) -> Result<Self, InferError> {
        Ok(Self { texts: self.texts.with_languages(source, target)?, ..self })
    }

    /// Sets the search options of calls that do not specify their own [default: those of the bundle,
    /// otherwise [`SearchOptions::default`]].
    ///
    /// # Errors
    ///
    /// [`InferError::Search`] with all problems of the options.
    pub fn with_options(self, options: SearchOptions) -> Result<Self, InferError> {
        self.check(&options)?;
        Ok(Self { options, ..self })
    }

    /// Translates with the candidates of a shortlist, which is faster, but can change translations and
    /// scores. Forced decoding does not use it.
    ///
    /// # Errors
    ///
    /// [`InferError::ShortlistVocabulary`] if the model has other vocabularies than those of the
    /// shortlist; [`InferError::Search`] for an ensemble and a model that runs on tensors.
    pub fn with_shortlist(self, shortlist: impl Into<Arc<Shortlist>>) -> Result<Self, InferError> {
        let shortlist = shortlist.into();
        shortlist.check(self.tokenizers())?;
        let mut model = Arc::unwrap_or_clone(self.model);
        model.engine = model.engine.with_shortlist(shortlist)?;
        Ok(Self { model: model.into(), ..self })
    }

    /// Ranks hypotheses by [minimum Bayes risk](crate::mbr) in all calls: the candidates are the
    /// hypotheses of the search, [`n_best`](SearchOptions::n_best) or
    /// [`samples`](crate::Sampling::samples) of them, and [`Mbr::n_best`] of them are returned.
    ///
    /// # Errors
    ///
    /// [`InferError::Search`] with all problems of the options.
    pub fn with_mbr(self, mbr: Mbr) -> Result<Self, InferError> {
        let problems = mbr.problems(&self.options);
        if !problems.is_empty() {
            return Err(InferError::Search { problems });
        }
        Ok(Self { mbr: Some(mbr), ..self })
    }

    /// Sets the maximum number of source tokens of a batch, padding and hypotheses counted
    /// [default: [`BATCH_TOKENS`](Self::BATCH_TOKENS)].
    ///
    /// A longer text is its own batch. If there are few texts, they are distributed among the
    /// threads. Larger batches are faster up to a point, and take more memory.
    pub fn with_batch_tokens(self, batch_tokens: usize) -> Self {
        Self { execution: self.execution.with_batch_tokens(batch_tokens), ..self }
    }

    /// Keeps the texts of a call in as few batches as their size allows, for a caller that distributes
    /// texts itself [default: few texts are distributed among the threads].
    pub fn with_undivided_batches(self) -> Self {
        Self { execution: self.execution.undivided(), ..self }
    }

    /// Sets the number of threads [default: all cores]. The returned translator no longer shares
    /// its threads with clones of this one.
    ///
    /// On [`Device::Cpu`], each thread decodes a batch at a time, and threads without a batch take
    /// parts of the others' larger matrix products. On other devices one batch is decoded at a
    /// time; on a CPU, its tensor operations use the threads.
    pub fn with_threads(self, threads: usize) -> Self {
        Self { execution: self.execution.with_threads(threads), ..self }
    }

    /// Returns the engine in use.
    pub fn engine(&self) -> &Engine {
        &self.model.engine
    }

    /// Tokenizers in use.
    pub fn tokenizers(&self) -> &Tokenizers {
        self.texts.tokenizers()
    }

    /// Returns the tokenizers with the selected languages.
    pub fn texts(&self) -> &PairTokenizer {
        &self.texts
    }

    /// Returns the search options of calls that do not specify their own.
    pub fn options(&self) -> &SearchOptions {
        &self.options
    }

    /// Returns the configuration of the model; of an ensemble, that of the first model with the
    /// smallest `max_len`.
    pub fn config(&self) -> &ModelConfig {
        &self.model.config
    }

    /// Translates one text.
    ///
    /// A text with more tokens than the model's `max_len` is truncated;
    /// [`Translation::truncated`] reports it.
    ///
    /// # Errors
    ///
    /// If the text cannot be tokenized; [`InferError::LanguageNeeded`] if the model is multilingual and
    /// no language is selected; otherwise the same as [`Engine::search`].
    pub fn translate(&self, text: &str) -> Result<Translation, InferError> {
        let mut translations = self.translate_batch(&[text])?;
        Ok(translations.pop().unwrap_or_default())
    }

    /// Translates many texts; results come in the order of `texts`. Texts are truncated as by
    /// [`translate`](Self::translate).
    ///
    /// # Errors
    ///
    /// Same as [`translate`](Self::translate), for any of the texts.
    pub fn translate_batch(
        &self,
        texts: &[impl AsRef<str>],
    ) -> Result<Vec<Translation>, InferError> {
        self.translate_batch_with(texts, &self.options, &Cancellation::new())
    }

    /// Same as [`translate_batch`](Self::translate_batch), but with search options for this call
    /// only, and until `cancellation` is set.
    ///
    /// # Errors
    ///
    /// Same as [`translate_lines`](Self::translate_lines).
    pub fn translate_batch_with(
        &self,
        texts: &[impl AsRef<str>],
        options: &SearchOptions,
        cancellation: &Cancellation,
    ) -> Result<Vec<Translation>, InferError> {
        let lines = texts.iter().zip(0..);
        let lines: Vec<Line<'_>> =
            lines.map(|(text, number)| Line::new(text.as_ref(), number)).collect();
        let mut translations = Vec::with_capacity(texts.len());
        self.translate_lines(&lines, options, cancellation, |ready| {
            translations.extend(ready);
            Ok::<_, InferError>(())
        })?;
        Ok(translations)
    }

    /// Translates many texts and passes the translations to `sink`, in the order of `lines`, in
    /// groups, as soon as they and all before them are complete. `sink` runs on this thread.
    ///
    /// # Errors
    ///
    /// Before any text is translated: [`InferError::Search`] with all problems of the options, and
    /// [`InferError::LongPrefix`] and [`InferError::LanguageNeeded`]. [`InferError::Cancelled`] once `cancellation` is set. An error
    /// of a text, or of `sink`, after which `sink` is not called again.
    pub fn translate_lines<E: From<InferError>>(
        &self,
        lines: &[Line<'_>],
        options: &SearchOptions,
        cancellation: &Cancellation,
        sink: impl FnMut(Vec<Translation>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.check(options)?;
        let mut output = InOrder::new(lines.len(), sink);
        let rows = self.mbr.map_or(options.rows(), |mbr| mbr.rows(options));
        let limits = self.execution.limits(rows);
        let (model, texts) = (self.model.clone(), self.texts.clone());
        let options = (options.clone(), self.mbr);
        let sentences = Sentences::new(model, texts, lines, options, limits)?;
        output.put(sentences.without_words().map(|index| (index, Translation::default())))?;
        self.execution.scheduler.run(sentences, cancellation, |ready| output.put(ready))
    }

    /// # Errors
    ///
    /// [`InferError::Search`] with all problems of the options.
    fn check(&self, options: &SearchOptions) -> Result<(), InferError> {
        let mut problems = options.problems();
        let layers = self.model.engine.decoder_layers();
        if let Some(layer) = options.attention_layer.filter(|layer| *layer > layers) {
            problems
                .push(format!("`attention_layer` = {layer}, but the decoder has {layers} layers"));
        }
        let ids = self.tokenizers().target.vocab_size();
        for id in options.suppress.iter().filter(|id| **id as usize >= ids) {
            problems.push(format!("`suppress` = {id}, but the vocabulary ends at {}", ids - 1));
        }
        if problems.is_empty() { Ok(()) } else { Err(InferError::Search { problems }) }
    }
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod languages;
#[cfg(test)]
#[cfg(feature = "burn")]
mod tests;
