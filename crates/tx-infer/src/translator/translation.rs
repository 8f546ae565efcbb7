//! Texts to translate, and their translations.

use crate::{cancellation::Cancellation, glossary::Term, search::Hypothesis};

/// A text to translate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Line<'a> {
    /// The text.
    pub text: &'a str,
    /// Beginning of its translation, which the model continues; empty for none.
    pub prefix: &'a str,
    /// Sentences before the text in its document, the oldest first. A model reads the most recent of them
    /// with the text, as many as [`PairTokenizer::context`](crate::PairTokenizer::context), 0 for most models.
    pub context: &'a [String],
    /// Number of the text, from 0. Samples depend on it and on the seed.
    pub number: u64,
    /// Cancellation of this text alone. Once it is set, the text leaves its batch before the next
    /// decoding step, and its translation is empty, as that of a text without words.
    pub cancellation: Option<&'a Cancellation>,
}

impl<'a> Line<'a> {
    /// Creates the text with this `number`, without prefix and context.
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
    /// The text that the model read, if it differs: in another case, without typos, or with translations of terms.
    pub read: Option<String>,
    /// Whether the text was truncated because it has more tokens than the model's `max_len`. The
    /// translation then lacks its end.
    pub truncated: bool,
    /// Terms of the [glossary](crate::Translator::with_glossary) in the text, in order.
    pub terms: Vec<Term>,
    /// Words of the text that are not in the vocabulary, each once, in order of appearance. They
    /// become `<unk>`, so their translation is arbitrary.
    pub unknown: Vec<String>,
}

impl Translation {
    /// Creates a translation with this text alone, without hypotheses.
    pub fn of_text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
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
