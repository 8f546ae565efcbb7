//! The interface of DeepL, version 2.

pub mod glossaries;
mod tags;

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use serde_json::{Value, json};
use tx_markup::{Format, LineBreaks, PlanOptions};

use super::{
    body::{Parameters, shortened},
    call::Call,
    reply,
};
use crate::{
    error::ApiError,
    registry::languages::LanguageEntry,
    service::{Service, request},
};

/// Parameters of `/v2/translate`, besides those of the markup.
const KNOWN: [&str; 8] = [
    "text",
    "source_lang",
    "target_lang",
    "context",
    "formality",
    "glossary_id",
    "split_sentences",
    "model_type",
];

/// Parameters of the markup.
const MARKUP: [&str; 5] =
    ["tag_handling", "ignore_tags", "splitting_tags", "non_splitting_tags", "outline_detection"];

/// Parameters that change no result of this server: `preserve_formatting` is what the models do anyway.
const IGNORED: [&str; 6] = [
    "auth_key",
    "debug",
    "enable_beta_languages",
    "preserve_formatting",
    "show_billed_characters",
    "tag_handling_version",
];

/// Maximum size of the body of a request for a list: some clients send its parameter as a form.
const SMALL: usize = 1 << 10;

/// `POST /v2/translate`.
pub async fn translate(State(service): State<Arc<Service>>, request: Request) -> Response {
    answer(service, request).await.unwrap_or_else(|error| reply::deepl_error(&error))
}

async fn answer(service: Arc<Service>, request: Request) -> Result<Response, ApiError> {
    let call = Call::read(&service, request).await?;
    let parameters = &call.parameters;
    parameters.only(&[&KNOWN[..], &MARKUP].concat(), &IGNORED)?;
    let (texts, _) = parameters.texts("text")?;
    call.access.characters(&service, &texts)?;
    let (format, tags) = tags::tag_handling(parameters)?;
    let source = parameters.given("source_lang")?;
    let target = parameters.required("target_lang")?;
    check_formality(parameters, target)?;
    let line_breaks = line_breaks(parameters, format)?;
    let model_type = model_type(parameters)?;
    let glossary = call.glossary(&service, "glossary_id")?;
    if glossary.is_some() && source.is_none() {
        return Err(ApiError::Invalid("'glossary_id' needs 'source_lang'".into()));
    }
    let characters: Vec<usize> = texts.iter().map(|text| text.chars().count()).collect();
    let request = request::Request {
        glossary,
        context: request::Context {
            text: parameters.given("context")?.unwrap_or_default().to_owned(),
            is_document: false,
        },
        plan: PlanOptions { format, line_breaks, tags: Arc::new(tags), ..PlanOptions::default() },
        ..request::Request::new(
            texts,
            source.map(str::to_ascii_lowercase),
            target.to_ascii_lowercase(),
            call.deadline.clone(),
        )
    };
    let answer = service.translate(request).await?;
    service.log_texts(&answer.texts);
    let translations: Vec<_> = answer
        .texts
        .iter()
        .zip(characters)
        .map(|(text, characters)| {
            let mut value = json!({
                "detected_source_language": text.source.to_ascii_uppercase(),
                "text": text.text,
                "billed_characters": characters,
            });
            if let Some(model_type) = model_type {
                value["model_type_used"] = model_type.into();
            }
            value
        })
        .collect();
    Ok(reply::json(&json!({ "translations": translations })))
}

fn unexpected(name: &str, value: &str, expected: &str) -> ApiError {
    let value = shortened(value);
    ApiError::Invalid(format!("Value for '{name}' not supported: {value}; expected {expected}"))
}

/// Tests the formality, which no model has.
fn check_formality(parameters: &Parameters, target: &str) -> Result<(), ApiError> {
    match parameters.given("formality")?.map(str::to_ascii_lowercase).as_deref() {
        None | Some("default" | "prefer_more" | "prefer_less") => Ok(()),
        Some(value @ ("more" | "less")) => Err(ApiError::Invalid(format!(
            "Target language {} has no formality {value}; 'formality' must be default, prefer_more or prefer_less",
            shortened(target)
        ))),
        Some(other) => {
            Err(unexpected("formality", other, "default, more, less, prefer_more or prefer_less"))
        }
    }
}

/// Treatment of line breaks, which is all that `split_sentences` changes. A sentence of a text that is
/// not divided would be longer than the models read, so `0` joins the lines only.
fn line_breaks(parameters: &Parameters, format: Format) -> Result<LineBreaks, ApiError> {
    let value = match parameters.get("split_sentences") {
        None => return Ok(LineBreaks::Keep),
        Some(Value::String(text)) => text.to_ascii_lowercase(),
        Some(value) => value.to_string(),
    };
    match (&*value, format) {
        ("" | "1", _) => Ok(LineBreaks::Keep),
        // HTML has no line breaks.
        ("0" | "nonewlines", Format::Text) => Ok(LineBreaks::Join),
        ("0" | "nonewlines", _) => Ok(LineBreaks::Keep),
        (other, _) => Err(unexpected("split_sentences", other, "0, 1 or nonewlines")),
    }
}

/// The type of the model that is used: each model is the only one of its languages.
fn model_type(parameters: &Parameters) -> Result<Option<&'static str>, ApiError> {
    match parameters.given("model_type")? {
        None => Ok(None),
        Some("quality_optimized" | "prefer_quality_optimized") => Ok(Some("quality_optimized")),
        Some("latency_optimized") => Ok(Some("latency_optimized")),
        Some(other) => Err(unexpected(
            "model_type",
            other,
            "quality_optimized, prefer_quality_optimized or latency_optimized",
        )),
    }
}

/// `GET /v2/languages`.
pub async fn languages(State(service): State<Arc<Service>>, request: Request) -> Response {
    list(service, request).await.unwrap_or_else(|error| reply::deepl_error(&error))
}

async fn list(service: Arc<Service>, request: Request) -> Result<Response, ApiError> {
    let call = Call::read_at_most(&service, request, SMALL).await?;
    call.parameters.only(&["type"], &["auth_key"])?;
    let languages = service.registry.languages();
    let body = match call.parameters.given("type")? {
        None | Some("source") => languages.answers.deepl_sources.get_or_init(|| {
            rendered(
                languages.sources(),
                |entry| json!({ "language": entry.code.to_ascii_uppercase(), "name": entry.name }),
            )
        }),
        Some("target") => languages.answers.deepl_targets.get_or_init(|| {
            rendered(languages.targets().iter(), |entry| {
                json!({
                    "language": entry.code.to_ascii_uppercase(),
                    "name": entry.name,
                    "supports_formality": false,
                })
            })
        }),
        Some(other) => return Err(unexpected("type", other, "source or target")),
    };
    Ok(reply::content("application/json", body.clone()))
}

fn rendered<'a>(
    entries: impl Iterator<Item = &'a LanguageEntry>,
    value: impl Fn(&LanguageEntry) -> Value,
) -> Bytes {
    Value::Array(entries.map(value).collect()).to_string().into()
}

/// `GET /v2/usage`: characters are not counted.
pub async fn usage(State(service): State<Arc<Service>>, request: Request) -> Response {
    match Call::read_at_most(&service, request, SMALL).await {
        Ok(_) => {
            reply::json(&json!({ "character_count": 0, "character_limit": 1_000_000_000_000_u64 }))
        }
        Err(error) => reply::deepl_error(&error),
    }
}
