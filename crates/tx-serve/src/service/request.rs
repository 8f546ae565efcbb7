//! Requests for translations, and answers to them.

use std::sync::Arc;

use tx_infer::{Deadline, Glossary, Priority};
use tx_markup::{Done, Plan, PlanOptions};

use crate::detect::Detected;

/// Texts to translate with their options.
#[derive(Debug, Clone)]
pub struct Request {
    /// The texts.
    pub texts: Vec<String>,
    /// Code of the source language; `None` detects it for each text.
    pub source: Option<String>,
    /// Code of the target language.
    pub target: String,
    /// Name of the model; `None` selects one by the languages.
    pub model: Option<String>,
    /// Code of an intermediate language.
    pub pivot: Option<String>,
    /// Context of the texts.
    pub context: Context,
    /// Format and layout.
    pub plan: PlanOptions,
    /// Number of alternatives to each translation.
    pub alternatives: usize,
    /// Hypotheses of the search; `None` keeps the model's.
    pub beam: Option<usize>,
    /// Glossary of the languages.
    pub glossary: Option<Arc<Glossary>>,
    /// Urgency among other requests.
    pub priority: Priority,
    /// End of the time for the answer.
    pub deadline: Deadline,
}

/// Text before each text of a request. Models that were trained without context do not read it.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Plain text in the source language, which is not translated.
    pub text: String,
    /// Whether the texts are those of one document in order, so that each is in the context of those after it.
    pub is_document: bool,
}

impl Request {
    /// A request for plain texts by the first model that has the languages.
    pub fn new(
        texts: Vec<String>,
        source: Option<String>,
        target: String,
        deadline: Deadline,
    ) -> Self {
        Self {
            texts,
            source,
            target,
            model: None,
            pivot: None,
            context: Context::default(),
            plan: PlanOptions::default(),
            alternatives: 0,
            beam: None,
            glossary: None,
            priority: Priority::Interactive,
            deadline,
        }
    }
}

/// Answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// One for each text.
    pub texts: Vec<TextAnswer>,
}

/// Translation of a text.
#[derive(Debug, Default)]
pub struct TextAnswer {
    /// The translation.
    pub text: String,
    /// Whether the text was copied instead of translated, because its detected language is the target
    /// language.
    pub copied: bool,
    /// Score of the translation: see [`Plan::score`].
    pub score: Option<f32>,
    /// Words that the first model does not have: see [`Plan::unknown`].
    pub unknown: Vec<String>,
    /// Further translations, best first.
    pub alternatives: Vec<Alternative>,
    /// Detected language, if the request has none.
    pub detected: Option<Detected>,
    /// Names of the models, more than one with an intermediate language.
    pub models: Vec<String>,
    /// Code of the source language.
    pub source: String,
    /// Plan and results of the last model.
    pub result: Option<(Plan, Vec<Done>)>,
}

/// A further translation of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// The translation.
    pub text: String,
    /// Its score: see [`Plan::score`].
    pub score: Option<f32>,
}
