//! Translation of text.

mod paragraphs;
mod sentences;
mod streaming;
mod target_scores;
pub(crate) mod translation;
mod unknown;

use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

use tx_engine::{Ablation, PackedTransformer};
use tx_model::ModelConfig;
use tx_text::{Tokenizers, WordTable, context::before};

use crate::{
    bundle::{Parts, check_same_tokenizers},
    calibration::Calibration,
    cancellation::Cancellation,
    error::InferError,
    glossary::{FoundTerms, Glossary, Terms},
    lexicon::WordRestriction,
    mbr::Mbr,
    pair_tokenizer::PairTokenizer,
    pool::{Failure, InOrder, Placement, Priority},
    reading::Reading,
    runner::{EnsembleModel, Runner, TaskModel, ensemble_methods, runner_methods},
    search::{Engine, SearchOptions},
    shortlist::Shortlist,
    weights::Weights,
};
pub use paragraphs::{SentenceTranslation, TextTranslation};
use sentences::{Sentences, Texts};
pub use target_scores::TargetScore;
pub use translation::{Line, Scored, Translation};

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
    runner: Runner<Model>,
}

runner_methods!(Translator, Transformer);
ensemble_methods!(Translator);

/// Parts of a bundle that translation needs.
#[derive(Debug, Clone)]
struct Model {
    config: ModelConfig,
    /// Shared by the translators whose texts can be in one batch.
    engine: Arc<Engine>,
    texts: PairTokenizer,
    /// Search options of calls that do not specify their own.
    options: SearchOptions,
    mbr: Option<Mbr>,
    calibration: Option<Calibration>,
    glossary: Option<Terms>,
    /// Table of the target vocabulary for constraints.
    words: Arc<OnceLock<Arc<WordTable>>>,
    /// Language of texts that are divided into sentences.
    text_language: Option<String>,
}

impl Translator {
    /// Creates a translator with an engine, and the configuration and tokenizers of its model.
    pub fn from_engine(engine: Engine, config: ModelConfig, tokenizers: Tokenizers) -> Self {
        let texts = PairTokenizer::of(tokenizers, config.max_len, None);
        let model = Model {
            config,
            engine: engine.into(),
            texts,
            options: SearchOptions::default(),
            mbr: None,
            calibration: None,
            glossary: None,
            words: Arc::default(),
            text_language: None,
        };
        Self { runner: Runner::new(model) }
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
        let runner = self.runner.with_model(|model| {
            Ok(Model { texts: model.texts.with_languages(source, target)?, ..model })
        })?;
        Ok(Self { runner })
    }

    /// Sets the maximum number of sentences before a text that the model reads with it, in all calls
    /// [default: the number that the model was trained with].
    ///
    /// # Errors
    ///
    /// [`InferError::Context`] if the model was trained with fewer, as most models are.
    pub fn with_context(self, sentences: usize) -> Result<Self, InferError> {
        let runner = self.runner.with_model(|model| {
            Ok(Model { texts: model.texts.with_context(sentences)?, ..model })
        })?;
        Ok(Self { runner })
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
        let runner = self.runner.with_model(|model| {
            let engine = Arc::unwrap_or_clone(model.engine).with_shortlist(shortlist)?;
            Ok(Model { engine: engine.into(), ..model })
        })?;
        Ok(Self { runner })
    }

    /// Sets the reading of texts that are written otherwise than the training text, in all calls.
    pub fn with_reading(self, reading: Reading) -> Self {
        let model = Arc::unwrap_or_clone(self.runner.model);
        let model = Model { texts: model.texts.with_reading(reading), ..model };
        Self { runner: Runner { model: model.into(), ..self.runner } }
    }

    /// Translates terms as a glossary says, in all calls. [`Translation::terms`] lists those of a text.
    ///
    /// [`SearchOptions::glossary`] decides how. [Constraints](crate::search::Constraints) need a beam of at least 2 and
    /// one group.
    pub fn with_glossary(self, glossary: impl Into<Arc<Glossary>>) -> Self {
        let model = Arc::unwrap_or_clone(self.runner.model);
        let model = Model { glossary: Some(Terms::new(glossary.into())), ..model };
        Self { runner: Runner { model: model.into(), ..self.runner } }
    }

    /// Returns `true` if the bundle has a [lexicon](crate::lexicon).
    pub fn has_lexicon(&self) -> bool {
        self.texts().lexicon().is_some()
    }

    /// Calibration of the bundle.
    pub(crate) fn calibration(&self) -> Option<Calibration> {
        self.runner.model.calibration
    }

    /// Turns parts of the model off in all calls, to see what they contribute (Michel et al. 2019).
    ///
    /// # Errors
    ///
    /// [`InferError::Search`] if the model has no such part; for an ensemble, and models that run on tensors.
    pub fn with_ablations(self, ablations: Vec<Ablation>) -> Result<Self, InferError> {
        let runner = self.runner.with_model(|model| {
            let engine = Arc::unwrap_or_clone(model.engine).with_ablations(ablations)?;
            Ok(Model { engine: engine.into(), ..model })
        })?;
        Ok(Self { runner })
    }

    /// Ranks hypotheses by [minimum Bayes risk](crate::mbr) in all calls: the candidates are the
    /// hypotheses of the search, [`n_best`](SearchOptions::n_best) or
    /// [`samples`](crate::Sampling::samples) of them, and [`Mbr::n_best`] of them are returned.
    ///
    /// # Errors
    ///
    /// [`InferError::Search`] with all problems of the options.
    pub fn with_mbr(self, mbr: Mbr) -> Result<Self, InferError> {
        let problems = mbr.problems(self.options());
        if !problems.is_empty() {
            return Err(InferError::Search { problems });
        }
        let runner = self.runner.with_model(|model| Ok(Model { mbr: Some(mbr), ..model }))?;
        Ok(Self { runner })
    }

    /// Tokenizers in use.
    pub fn tokenizers(&self) -> &Tokenizers {
        self.texts().tokenizers()
    }

    /// Returns the tokenizers with the selected languages.
    pub fn texts(&self) -> &PairTokenizer {
        &self.runner.model.texts
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
        self.translate_batch_with(texts, self.options(), &Cancellation::new())
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
        self.translate_all(&lines, options, cancellation)
    }

    /// Translates the lines of documents, each with the lines before it if the model reads
    /// [context](PairTokenizer::context). An empty line ends a document.
    ///
    /// ```no_run
    /// use tx_infer::{Device, Translator};
    ///
    /// let translator = Translator::open("runs/en-it", &Device::Cpu)?.with_context(1)?;
    /// let lines = ["The table is new.", "It is expensive."].map(str::to_owned);
    /// let translations = translator.translate_document(&lines)?;
    /// assert_eq!(translations[1].text, "È costoso.");
    /// # Ok::<(), tx_infer::InferError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`translate_batch`](Self::translate_batch).
    pub fn translate_document(&self, lines: &[String]) -> Result<Vec<Translation>, InferError> {
        self.translate_all(&self.document(lines), self.options(), &Cancellation::new())
    }

    /// Returns the lines of a document, each with as many lines before it as the model reads as context.
    pub fn document<'a>(&self, lines: &'a [String]) -> Vec<Line<'a>> {
        let most = self.texts().context();
        let numbered = lines.iter().zip(0..).enumerate();
        let lines = numbered.map(|(index, (text, number))| Line {
            context: before(lines, index, most),
            ..Line::new(text, number)
        });
        lines.collect()
    }

    /// Same as [`translate_lines`](Self::translate_lines), with all translations together, in the order of
    /// `lines`.
    ///
    /// # Errors
    ///
    /// Same as [`translate_lines`](Self::translate_lines).
    pub fn translate_all(
        &self,
        lines: &[Line<'_>],
        options: &SearchOptions,
        cancellation: &Cancellation,
    ) -> Result<Vec<Translation>, InferError> {
        let mut translations = Vec::with_capacity(lines.len());
        self.translate_lines(lines, options, cancellation, |ready| {
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
        let mut output = InOrder::new(lines.len(), sink);
        let call = cancellation.child();
        let (sentences, texts, empty) = self.sentences(lines, options, &call)?;
        output.put(empty.into_iter().map(|index| (index, Translation::default())))?;
        self.runner.pool.run(sentences, texts, call, |ready| output.put(ready))
    }

    /// Translates many texts on the threads of the [pool](Self::with_pool), and returns immediately.
    /// The threads pass the translations, with the indices of their lines, to `receive`, in any order,
    /// until `cancellation` is set; those of texts without words are passed on first. `receive` must
    /// not block.
    ///
    /// # Errors
    ///
    /// [`InferError::QueueFull`] and [`InferError::PoolClosed`], and the errors that
    /// [`translate_lines`](Self::translate_lines) returns before any text is translated. The other
    /// errors are results of their texts. A text that fails does not fail others.
    pub fn submit(
        &self,
        lines: &[Line<'_>],
        options: &SearchOptions,
        priority: Priority,
        cancellation: &Cancellation,
        receive: impl Fn(Vec<(usize, Result<Translation, Failure>)>) + Send + Sync + 'static,
    ) -> Result<(), InferError> {
        let call = cancellation.child();
        let (sentences, texts, empty) = self.sentences(lines, options, &call)?;
        if !empty.is_empty() {
            let empty = empty.into_iter().map(|index| (index, Ok(Translation::default())));
            receive(empty.collect());
        }
        self.runner.pool.submit(sentences, texts, priority, call, receive)
    }

    /// Returns the task of a call, its texts with their indices, and the indices of texts without words,
    /// which are not translated.
    fn sentences(
        &self,
        lines: &[Line<'_>],
        options: &SearchOptions,
        call: &Cancellation,
    ) -> Result<(Arc<Sentences>, Texts, Vec<usize>), InferError> {
        let model = self.runner.model.clone();
        model.check(options)?;
        let sentences = Sentences { model, options: options.clone() };
        let (mut texts, mut empty) = (Vec::with_capacity(lines.len()), Vec::new());
        for (index, line) in lines.iter().enumerate() {
            match sentences.text(line, call)? {
                Some(text) => texts.push((index, text)),
                None => empty.push(index),
            }
        }
        Ok((sentences.into(), texts, empty))
    }
}

impl Model {
    /// Terms of the glossary in a source; `None` without a glossary, and if there are none.
    fn terms(&self, source: &str) -> Result<Option<FoundTerms>, InferError> {
        let Some(glossary) = &self.glossary else { return Ok(None) };
        let found = glossary.find(source, &self.texts.tokenizers().target)?;
        Ok(Some(found).filter(|found| !found.is_empty()))
    }

    /// Table of the target vocabulary.
    fn words(&self) -> &Arc<WordTable> {
        self.words.get_or_init(|| WordTable::of(&self.texts.tokenizers().target).into())
    }

    /// Language whose abbreviations divide text into sentences.
    fn text_language(&self) -> Option<&str> {
        self.text_language.as_deref().or_else(|| self.texts.source_language())
    }
}

impl TaskModel for Model {
    type Packed = PackedTransformer;

    fn new(weights: Weights<PackedTransformer>, parts: Parts<'_>) -> Self {
        let Parts { config, tokenizers, languages, context, search, .. } = parts;
        let texts = PairTokenizer::of(tokenizers.clone(), config.max_len, languages.cloned());
        let words: Arc<OnceLock<Arc<WordTable>>> = Arc::default();
        let mut engine = parts.engine(weights);
        if let Some(lexicon) = parts.lexicon {
            let words = words.get_or_init(|| WordTable::of(&tokenizers.target).into()).clone();
            engine = engine.with_lexicon(WordRestriction::new(lexicon.clone(), words));
        }
        Self {
            config: config.clone(),
            engine: engine.into(),
            texts: texts.trained_with(context).with_lexicon(parts.lexicon.cloned()),
            options: search.cloned().unwrap_or_default(),
            mbr: None,
            calibration: parts.calibration,
            glossary: None,
            words,
            text_language: paragraphs::text_language(parts),
        }
    }

    fn placement(&self) -> Placement {
        self.engine.placement()
    }
}

impl EnsembleModel for Model {
    fn with_member(mut self, first: &Path, path: &Path, other: Self) -> Result<Self, InferError> {
        let (ours, theirs) = (self.texts.tokenizers(), other.texts.tokenizers());
        check_same_tokenizers([(first, ours), (path, theirs)])?;
        if self.engine.has_shortlist() || other.engine.has_shortlist() {
            let problems = vec!["`shortlist` conflicts with an ensemble".into()];
            return Err(InferError::Search { problems });
        }
        let [ours, theirs] = [self.engine, other.engine].map(Arc::unwrap_or_clone);
        self.engine = ours.with_member(theirs).into();
        self.config.max_len = self.engine.max_len();
        self.texts = self.texts.with_max_len(self.config.max_len);
        Ok(self)
    }
}

impl Model {
    /// # Errors
    ///
    /// [`InferError::Search`] with all problems of the options.
    fn check(&self, options: &SearchOptions) -> Result<(), InferError> {
        let mut problems = options.problems();
        let constrains = self.glossary.is_some() && options.glossary.constrains();
        if constrains && (options.beam == 1 || options.groups > 1) {
            problems
                .push("`glossary` = constrain needs `beam` of at least 2, and `groups` = 1".into());
        }
        let layers = self.engine.decoder_layers();
        if let Some(layer) = options.attention_layer.filter(|layer| *layer > layers) {
            problems
                .push(format!("`attention_layer` = {layer}, but the decoder has {layers} layers"));
        }
        let ids = self.texts.tokenizers().target.vocab_size();
        for id in options.suppress.iter().filter(|id| **id as usize >= ids) {
            problems.push(format!("`suppress` = {id}, but the vocabulary ends at {}", ids - 1));
        }
        if problems.is_empty() { Ok(()) } else { Err(InferError::Search { problems }) }
    }
}

#[cfg(test)]
mod context;
#[cfg(test)]
mod fixture;
#[cfg(test)]
pub(crate) mod languages;
#[cfg(test)]
mod submitted;
#[cfg(test)]
#[cfg(feature = "burn")]
mod tests;
