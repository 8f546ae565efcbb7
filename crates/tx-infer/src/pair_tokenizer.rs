//! Tokens of the sources and targets of a model for translation, those of its languages included.

use std::{borrow::Cow, ops::Range, sync::Arc};

use tx_text::{
    Tokenizers,
    context::{ContextTokenizer, start_of_text},
};

use crate::{
    bundle::{Bundle, LanguagePlacement, Languages},
    error::InferError,
    lexicon::{Lexicon, SourceWords},
    reading::{Adaptation, Reading},
    tokens::{Limit, Tokens, encode_prefix, encode_truncated, encode_whole, readable},
};

/// Tokenizers of both sides of a model for translation, with the languages that were selected.
///
/// Tokens of languages are part of the ids that the model reads and generates. They belong to no word
/// and are not part of decoded text.
#[derive(Debug, Clone)]
pub struct PairTokenizer {
    tokenizers: Tokenizers,
    max_len: usize,
    languages: Option<Selection>,
    reading: Reading,
    /// Words of the training text, which say how words are written.
    lexicon: Option<Arc<Lexicon>>,
    context: Sentences,
}

/// Numbers of sentences of context.
#[derive(Debug, Clone, Copy, Default)]
struct Sentences {
    /// Maximum that the model was trained with.
    trained: usize,
    /// Maximum that it reads.
    read: usize,
}

/// A source as ids.
#[derive(Debug)]
pub(crate) struct SourceIds {
    /// At most `max_len` ids.
    pub(crate) ids: Vec<u32>,
    /// Number of ids that are context, between the token of a language and the text.
    pub(crate) context: usize,
    /// Whether the text is longer.
    pub(crate) truncated: bool,
}

/// Languages of a model, and those that are selected.
#[derive(Debug, Clone)]
struct Selection {
    of_model: Arc<Languages>,
    source: Option<String>,
    target: Option<String>,
    /// Ids of the target tokenizer that are tokens of languages.
    hidden: Arc<[u32]>,
}

/// A source without the token of a language that was typed before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceText<'a> {
    /// The text after the token.
    pub(crate) text: &'a str,
    /// Token of a language, which precedes the text.
    pub(crate) token: Option<u32>,
}

impl PairTokenizer {
    /// Creates the tokenizers of `bundle`, with its default languages.
    pub fn new(bundle: &Bundle) -> Self {
        let Bundle { tokenizers, config, languages, context, lexicon, .. } = bundle;
        let texts = Self::of(tokenizers.clone(), config.max_len, languages.clone());
        texts.trained_with(*context).with_lexicon(lexicon.clone())
    }

    /// Creates the tokenizers of a model that reads `max_len` tokens.
    pub(crate) fn of(tokenizers: Tokenizers, max_len: usize, languages: Option<Languages>) -> Self {
        let selection = languages.map(|languages| {
            let codes = languages.source.iter().chain(&languages.target);
            let ids =
                codes.filter_map(|code| tokenizers.target.special_id(&languages.token_of(code)));
            let mut hidden: Vec<u32> = ids.collect();
            hidden.sort_unstable();
            hidden.dedup();
            Selection {
                hidden: hidden.into(),
                of_model: languages.into(),
                source: None,
                target: None,
            }
        });
        Self {
            tokenizers,
            max_len,
            languages: selection,
            reading: Reading::default(),
            lexicon: None,
            context: Sentences::default(),
        }
    }

    /// Sets the number of sentences of context that the model was trained with, and reads by default.
    pub(crate) fn trained_with(self, context: usize) -> Self {
        Self { context: Sentences { trained: context, read: context }, ..self }
    }

    pub(crate) fn with_lexicon(self, lexicon: Option<Arc<Lexicon>>) -> Self {
        Self { lexicon, ..self }
    }

    /// Words of the training text.
    pub(crate) fn lexicon(&self) -> Option<&Lexicon> {
        self.lexicon.as_deref()
    }

    /// Sets the maximum number of sentences before a source that the model reads with it.
    ///
    /// # Errors
    ///
    /// [`InferError::Context`] if the model was trained with fewer.
    pub fn with_context(mut self, sentences: usize) -> Result<Self, InferError> {
        let trained = self.context.trained;
        if sentences > trained {
            return Err(InferError::Context { found: sentences, trained });
        }
        self.context.read = sentences;
        Ok(self)
    }

    /// Returns the maximum number of sentences before a source that the model reads with it: the number that
    /// it was trained with unless another one is set, 0 for most models.
    pub fn context(&self) -> usize {
        self.context.read
    }

    /// Returns those of the sentences before a source, the oldest first, that the model reads.
    pub(crate) fn read_context<'a>(&self, sentences: &'a [String]) -> &'a [String] {
        &sentences[sentences.len().saturating_sub(self.context())..]
    }

    /// Selects languages by their codes. A side without a code keeps its language.
    ///
    /// # Errors
    ///
    /// [`InferError::UnknownLanguage`] with the nearest code; [`InferError::NoLanguages`] if the model
    /// has none.
    pub fn with_languages(
        mut self,
        source: Option<&str>,
        target: Option<&str>,
    ) -> Result<Self, InferError> {
        if source.or(target).is_none() {
            return Ok(self);
        }
        let selection = self.languages.as_mut().ok_or(InferError::NoLanguages)?;
        let Languages { source: sources, target: targets, .. } = &*selection.of_model;
        let sides = [
            ("source", source, sources, &mut selection.source),
            ("target", target, targets, &mut selection.target),
        ];
        for (side, code, codes, selected) in sides {
            let Some(code) = code else { continue };
            if !codes.iter().any(|known| known == code) {
                let (code, nearest) = (code.to_owned(), nearest(code, codes).cloned());
                return Err(InferError::UnknownLanguage { side, code, nearest });
            }
            *selected = Some(code.to_owned());
        }
        Ok(self)
    }

    /// Sets the reading of sources that are written otherwise than the training text.
    pub fn with_reading(self, reading: Reading) -> Self {
        Self { reading, ..self }
    }

    pub(crate) fn with_max_len(self, max_len: usize) -> Self {
        Self { max_len, ..self }
    }

    /// Returns the languages of the model, if it is multilingual.
    pub fn languages(&self) -> Option<&Languages> {
        self.languages.as_ref().map(|selection| &*selection.of_model)
    }

    /// Returns the tokenizers of both sides.
    pub fn tokenizers(&self) -> &Tokenizers {
        &self.tokenizers
    }

    /// Tokenizes a source and truncates it to the tokens that the model reads.
    ///
    /// # Errors
    ///
    /// If the text cannot be tokenized, or needs a language that is not selected.
    pub fn source(&self, text: &str) -> Result<Tokens, InferError> {
        let SourceText { text, token } = self.split(text)?;
        let text = self.read(self.readable(text))?;
        let mut tokens = Tokens::of_source(&self.tokenizers.source, &text, self.max_len)?;
        if let Some(id) = token {
            let name = self.tokenizers.source.token(id).unwrap_or_default();
            let limit = Limit { max_len: self.max_len, ends: self.tokenizers.source.ends() };
            tokens.insert(start_of_text(&tokens.ids), id, name, limit);
        }
        Ok(tokens)
    }

    /// Tokenizes a target and truncates it to the tokens that the model generates.
    ///
    /// # Errors
    ///
    /// Same as [`source`](Self::source).
    pub fn target(&self, text: &str) -> Result<Tokens, InferError> {
        let mut tokens = Tokens::of_target(&self.tokenizers.target, text, self.max_len)?;
        if let Some(id) = self.forced_first()? {
            let name = self.tokenizers.target.token(id).unwrap_or_default();
            let limit = Limit { max_len: self.max_len, ends: self.tokenizers.target.ends() };
            tokens.insert(0, id, name, limit);
        }
        Ok(tokens)
    }

    /// Returns the tokens of a hypothesis, as [`Tokens::of_hypothesis`] does.
    ///
    /// # Errors
    ///
    /// If the ids cannot be decoded.
    pub fn hypothesis(&self, ids: &[u32]) -> Result<Tokens, InferError> {
        Tokens::of_hidden(&self.tokenizers.target, ids, self.max_len, self.hidden())
    }

    /// Ids that language tokens add to a source and to a target; `None` where there is no token.
    ///
    /// # Errors
    ///
    /// [`InferError::LanguageNeeded`] if no language is selected.
    pub fn language_ids(&self) -> Result<[Option<u32>; 2], InferError> {
        Ok([self.split("")?.token, self.forced_first()?])
    }

    /// Finds the token of a language before a source: that of the target language at the beginning of
    /// the text or selected, or that of the selected source language.
    pub(crate) fn split<'a>(&self, text: &'a str) -> Result<SourceText<'a>, InferError> {
        let Some(selection) = &self.languages else { return Ok(SourceText { text, token: None }) };
        let code = match selection.of_model.placement {
            LanguagePlacement::TargetInSource => match selection.typed(text) {
                Some((code, text)) => return Ok(SourceText { text, token: self.source_id(code) }),
                None => selection.target()?,
            },
            LanguagePlacement::BothSides => selection.source()?,
        };
        Ok(SourceText { text, token: self.source_id(code) })
    }

    /// Returns the position of the token of a language that a text begins with.
    pub(crate) fn typed_token(&self, text: &str) -> Option<Range<usize>> {
        let selection = self.languages.as_ref()?;
        let (code, _) = match selection.of_model.placement {
            LanguagePlacement::TargetInSource => selection.typed(text)?,
            LanguagePlacement::BothSides => return None,
        };
        let start = text.len() - text.trim_start().len();
        Some(start..start + selection.of_model.token_of(code).len())
    }

    /// Id of the token of a language in the source tokenizer.
    fn source_id(&self, code: &str) -> Option<u32> {
        let languages = self.languages()?;
        self.tokenizers.source.special_id(&languages.token_of(code))
    }

    /// Returns the first token of every target, if it is that of a language.
    pub(crate) fn forced_first(&self) -> Result<Option<u32>, InferError> {
        let Some(selection) = &self.languages else { return Ok(None) };
        match selection.of_model.placement {
            LanguagePlacement::TargetInSource => Ok(None),
            LanguagePlacement::BothSides => {
                let token = selection.of_model.token_of(selection.target()?);
                Ok(self.tokenizers.target.special_id(&token))
            }
        }
    }

    /// Returns the code of the selected source language.
    pub(crate) fn source_language(&self) -> Option<&str> {
        self.languages.as_ref()?.source.as_deref()
    }

    /// Returns the ids of a source, [read](Self::read), after those of the sentences before it.
    pub(crate) fn source_ids(
        &self,
        source: SourceText<'_>,
        context: &[String],
    ) -> Result<SourceIds, InferError> {
        let readable = self.readable(source.text);
        let text = self.read(readable)?;
        let found = self.read_ids(SourceText { text: &text, ..source }, context)?;
        let truncated = found.truncated || readable.len() < source.text.len();
        Ok(SourceIds { truncated, ..found })
    }

    /// Returns the ids of a source as it is after those of the sentences before it, the oldest first, of which the
    /// oldest are left out if they do not fit.
    pub(crate) fn read_ids(
        &self,
        source: SourceText<'_>,
        context: &[String],
    ) -> Result<SourceIds, InferError> {
        let SourceText { text, token } = source;
        let tokenizer = &self.tokenizers.source;
        let (mut ids, truncated) = encode_truncated(tokenizer, text, self.max_len)?;
        let context = match ContextTokenizer::new(tokenizer).filter(|_| !context.is_empty()) {
            Some(of_context) => {
                // Longer sentences do not fit.
                let is_long = |sentence: &String| self.readable(sentence).len() < sentence.len();
                let first = context.iter().rposition(is_long).map_or(0, |long| long + 1);
                let room = self.max_len.saturating_sub(usize::from(token.is_some()));
                of_context.add(&mut ids, &context[first..], room)?
            }
            None => 0,
        };
        let Some(token) = token else { return Ok(SourceIds { ids, context, truncated }) };
        ids.insert(start_of_text(&ids), token);
        let truncated = truncated || ids.len() > self.max_len;
        tokenizer.ends().truncate(&mut ids, self.max_len);
        Ok(SourceIds { ids, context, truncated })
    }

    /// Returns the ids of a target without `<bos>`; `None` if it is too long to be tokenized whole.
    pub(crate) fn target_ids(&self, text: &str) -> Result<Option<Vec<u32>>, InferError> {
        let ids = encode_whole(&self.tokenizers.target, text, self.max_len)?;
        let first = self.forced_first()?;
        Ok(ids.map(|ids| first.into_iter().chain(ids).collect()))
    }

    /// Returns the ids of the prefix of a translation, without the token of a language, for the line
    /// with this number, from 1.
    pub(crate) fn prefix_ids(&self, text: &str, line: u64) -> Result<Vec<u32>, InferError> {
        let first = usize::from(self.forced_first()?.is_some());
        let max_len = self.max_len.saturating_sub(first);
        encode_prefix(&self.tokenizers.target, text, line, max_len)
    }

    /// Returns the beginning of a text that is tokenized.
    pub(crate) fn readable<'a>(&self, text: &'a str) -> &'a str {
        readable(text, self.max_len)
    }

    /// Returns a source as the model reads it.
    pub(crate) fn read(&self, text: &str) -> Result<String, InferError> {
        Ok(self.cased(&self.corrected(text, |_| false))?.into_owned())
    }

    /// Returns a source without typos, other than words that are kept; owned if it differs.
    pub(crate) fn corrected<'a>(
        &self,
        text: &'a str,
        is_kept: impl Fn(&str) -> bool,
    ) -> Cow<'a, str> {
        self.reading.corrected(text, self.known(), is_kept)
    }

    /// Returns a source in the case that the model reads; owned if it differs. It has the same length in bytes.
    pub(crate) fn cased<'a>(&self, text: &'a str) -> Result<Cow<'a, str>, InferError> {
        Ok(self.reading.cased(text, &self.tokenizers.source, self.known())?)
    }

    /// Returns the differences between a source and the one that the model reads.
    pub(crate) fn adaptation(&self, text: &str, read: &str) -> Adaptation {
        self.reading.adaptation(text, read, self.known())
    }

    /// Words of the sources of the training text.
    fn known(&self) -> Option<&SourceWords> {
        self.lexicon().map(Lexicon::source)
    }

    /// Decodes target ids without tokens of languages.
    pub(crate) fn decode(&self, ids: &[u32]) -> Result<String, InferError> {
        let hidden = self.hidden();
        if hidden.is_empty() {
            return Ok(self.tokenizers.target.decode(ids)?);
        }
        let shown: Vec<u32> =
            ids.iter().copied().filter(|id| hidden.binary_search(id).is_err()).collect();
        Ok(self.tokenizers.target.decode(&shown)?)
    }

    fn hidden(&self) -> &[u32] {
        self.languages.as_ref().map_or(&[], |selection| &selection.hidden)
    }
}

impl Selection {
    /// Selected source language, or the only one.
    fn source(&self) -> Result<&str, InferError> {
        let Languages { source, default_source, .. } = &*self.of_model;
        selected("source", &self.source, default_source, source)
    }

    /// Selected target language, or the only one.
    fn target(&self) -> Result<&str, InferError> {
        let Languages { target, default_target, .. } = &*self.of_model;
        selected("target", &self.target, default_target, target)
    }

    /// Splits the token of a target language from the beginning of a text. Returns its code and the
    /// rest of the text.
    fn typed<'a, 'b>(&'a self, text: &'b str) -> Option<(&'a str, &'b str)> {
        let (before, after) = self.of_model.token.split_once("{}")?;
        // A bare code could be a word.
        if before.is_empty() || after.is_empty() {
            return None;
        }
        let (code, rest) = text.trim_start().strip_prefix(before)?.split_once(after)?;
        let code = self.of_model.target.iter().find(|known| *known == code)?;
        Some((code, rest.trim_start()))
    }
}

/// Code of the language of a side: selected, default, or the only one.
fn selected<'a>(
    side: &'static str,
    selected: &'a Option<String>,
    default: &'a Option<String>,
    codes: &'a [String],
) -> Result<&'a str, InferError> {
    let only = match codes {
        [only] => Some(only),
        _ => None,
    };
    let code = selected.as_ref().or(default.as_ref()).or(only);
    code.map(String::as_str)
        .ok_or_else(|| InferError::LanguageNeeded { side, codes: codes.to_vec() })
}

/// Returns the code with the fewest edits to `code`; on a tie, the first.
fn nearest<'a>(code: &str, codes: &'a [String]) -> Option<&'a String> {
    let code = code.to_lowercase();
    codes.iter().min_by_key(|known| strsim::damerau_levenshtein(&known.to_lowercase(), &code))
}
