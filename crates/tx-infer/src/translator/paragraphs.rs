//! Translation of text with several sentences.

use std::{borrow::Cow, collections::HashSet, ops::Range, sync::Arc};

use tx_text::{
    sentences::{clause_end, sentences},
    spacing::needs_space,
};

use super::{Line, Model, Translation, Translator};
use crate::{
    bundle::Parts, cancellation::Cancellation, error::InferError, tokens::BYTES_PER_TOKEN,
};

/// Translation of a text, sentence by sentence.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct TextTranslation {
    /// The translations of the sentences, with the white space of the text around and between them.
    ///
    /// Sentences without white space between them, as in Chinese, get a space between their
    /// translations, unless one of these has no spaces, either.
    pub text: String,
    /// The sentences in order. A sentence with more tokens than the model's `max_len` is several.
    pub sentences: Vec<SentenceTranslation>,
}

/// A sentence of a text and its translation.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SentenceTranslation {
    /// Position of the sentence in the text, in bytes.
    pub span: Range<usize>,
    /// Its translation.
    pub translation: Translation,
}

impl TextTranslation {
    /// Joins the translations of the sentences at `spans` of `text`: see [`Translator::spans`].
    pub fn join(
        text: &str,
        spans: impl IntoIterator<Item = Range<usize>>,
        translations: Vec<Translation>,
    ) -> Self {
        let mut joined = Self::default();
        let mut end = 0;
        for (span, translation) in spans.into_iter().zip(translations) {
            let gap = text.get(end..span.start).unwrap_or_default();
            joined.text.push_str(gap);
            if gap.is_empty() && needs_space(&joined.text, &translation.text) {
                joined.text.push(' ');
            }
            joined.text.push_str(&translation.text);
            end = span.end;
            joined.sentences.push(SentenceTranslation { span, translation });
        }
        joined.text.push_str(text.get(end..).unwrap_or_default());
        joined
    }

    /// Whether a sentence was truncated: see [`Translation::truncated`].
    pub fn truncated(&self) -> bool {
        self.sentences.iter().any(|sentence| sentence.translation.truncated)
    }

    /// Words of the text that are not in the vocabulary, each once, in order of appearance.
    pub fn unknown(&self) -> Vec<String> {
        let mut seen = HashSet::new();
        let words = self.sentences.iter().flat_map(|sentence| &sentence.translation.unknown);
        words.filter(|word| seen.insert(*word)).cloned().collect()
    }
}

impl Translator {
    /// Sets the language of texts that are divided into sentences, which selects the abbreviations: see
    /// [`tx_text::sentences::sentences`] [default: the selected source language,
    /// otherwise the one that the bundle records].
    pub fn with_text_language(mut self, code: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.runner.model).text_language = Some(code.into());
        self
    }

    /// Translates a text with several sentences, which are translated as one batch. A model with context reads
    /// each with the sentences before it.
    ///
    /// A line break ends a sentence. A sentence with more tokens than the model's `max_len` is divided
    /// at the end of a clause or between words. If it has neither, it is truncated;
    /// [`TextTranslation::truncated`] reports it. The token of a language at the beginning of the text,
    /// such as `>>deu<<`, applies to all sentences.
    ///
    /// # Errors
    ///
    /// Same as [`translate_batch`](Self::translate_batch).
    pub fn translate_text(&self, text: &str) -> Result<TextTranslation, InferError> {
        let spans = self.spans(text)?;
        let parts: Vec<Cow<'_, str>> =
            spans.iter().map(|span| self.sentence(text, span.clone())).collect();
        let sentences = self.context_of(text, &spans);
        let lines = parts.iter().zip(0..).enumerate().map(|(index, (part, number))| {
            let context = sentences.get(..index).unwrap_or_default();
            Line { context, ..Line::new(part, number) }
        });
        let lines: Vec<Line<'_>> = lines.collect();
        let translations = self.translate_all(&lines, self.options(), &Cancellation::new())?;
        Ok(TextTranslation::join(text, spans, translations))
    }

    /// Returns the sentences at `spans` of a text, which are the [context](Line::context) of those after them;
    /// none if the model reads no context.
    pub fn context_of(&self, text: &str, spans: &[Range<usize>]) -> Vec<String> {
        match self.texts().context() {
            0 => Vec::new(),
            _ => spans.iter().map(|span| text[span.clone()].to_owned()).collect(),
        }
    }

    /// Returns the sentence at a span of [`spans`](Self::spans) as it is translated: after the token of
    /// the language that the text begins with, if there is one.
    pub fn sentence<'a>(&self, text: &'a str, span: Range<usize>) -> Cow<'a, str> {
        let token = self.texts().typed_token(text).filter(|token| token.end <= span.start);
        let sentence = &text[span];
        match token {
            Some(token) => format!("{} {sentence}", &text[token]).into(),
            None => sentence.into(),
        }
    }

    /// Returns the spans that [`translate_text`](Self::translate_text) translates, in bytes, in order:
    /// sentences without white space around them. [`sentence`](Self::sentence) returns the text at a span.
    ///
    /// # Errors
    ///
    /// If the text cannot be tokenized.
    pub fn spans(&self, text: &str) -> Result<Vec<Range<usize>>, InferError> {
        let mut spans = Vec::new();
        let model = &self.runner.model;
        for sentence in sentences(text, model.text_language()) {
            let mut rest = vec![sentence];
            while let Some(span) = rest.pop() {
                let part = &text[span.clone()];
                // A token is at least one byte, except for the special ones.
                let long = part.len() > model.config.max_len / 2
                    && !self.fits(&self.sentence(text, span.clone()))?;
                match long.then(|| clause_end(part)).flatten() {
                    Some(at) => {
                        let left = part[..at].trim_end().len();
                        let right = part.len() - part[at..].trim_start().len();
                        rest.push(span.start + right..span.end);
                        rest.push(span.start..span.start + left);
                    }
                    None => spans.push(span),
                }
            }
        }
        Ok(spans)
    }

    /// Returns the number of sentences of `text`.
    pub fn count_sentences(&self, text: &str) -> usize {
        sentences(text, self.runner.model.text_language()).count()
    }

    /// Whether the model reads a sentence without truncation.
    fn fits(&self, sentence: &str) -> Result<bool, InferError> {
        let Model { config, texts, .. } = &*self.runner.model;
        let max = config.max_len.saturating_mul(BYTES_PER_TOKEN);
        Ok(sentence.len() <= max && !texts.source_ids(texts.split(sentence)?, &[])?.truncated)
    }
}

/// Returns the source language that a bundle without languages to select records in its provenance.
pub(super) fn text_language(parts: Parts<'_>) -> Option<String> {
    let code = parts.provenance.get("source_language").filter(|_| parts.languages.is_none());
    Some(code?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(text: &str, spans: &[Range<usize>], translations: &[&str]) -> String {
        let translations = translations
            .iter()
            .map(|text| Translation { text: (*text).into(), ..Translation::default() });
        TextTranslation::join(text, spans.to_vec(), translations.collect()).text
    }

    #[test]
    fn white_space_is_that_of_the_text() {
        assert_eq!(
            joined(" A.  B.\n\nC. ", &[1..3, 5..7, 9..11], &["x", "yy", "z"]),
            " x  yy\n\nz "
        );
        assert_eq!(joined("", &[], &[]), "");
        assert_eq!(joined(" \n", &[], &[]), " \n");
    }

    /// `你好。你好。` has no space between its sentences.
    #[test]
    fn a_space_is_inserted_if_the_translation_has_spaces() {
        let spans = [0..9, 9..18];
        assert_eq!(joined("你好。你好。", &spans, &["Hello.", "Hello."]), "Hello. Hello.");
        assert_eq!(joined("你好。你好。", &spans, &["こん。", "にちは。"]), "こん。にちは。");
        assert_eq!(joined("你好。你好。", &spans, &["", "Hello."]), "Hello.");
        assert_eq!(joined("Hi. Hi.", &[0..3, 4..7], &["你好。", "你好。"]), "你好。 你好。");
    }

    #[test]
    fn unknown_words_and_truncation_are_those_of_any_sentence() {
        let [first, second] = [["a", "b"], ["b", "c"]].map(|unknown| Translation {
            unknown: unknown.map(str::to_owned).to_vec(),
            truncated: unknown[0] == "b",
            ..Translation::default()
        });
        let found = TextTranslation::join("a b", [0..1, 2..3], vec![first, second]);
        assert_eq!(found.unknown(), ["a", "b", "c"]);
        assert!(found.truncated());
    }
}
