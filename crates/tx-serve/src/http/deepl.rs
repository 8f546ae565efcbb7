//! The interface of DeepL, version 2.

mod tags;

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use serde_json::json;

use super::{body::Parameters, libretranslate::permitted, reply};
use crate::{
    error::ApiError,
    plan::PlanOptions,
    service::{self, Service},
};

/// `POST /v2/translate`.
pub async fn translate(State(service): State<Arc<Service>>, request: Request) -> Response {
    answer(service, request).await.unwrap_or_else(|error| reply::deepl_error(&error))
}

async fn answer(service: Arc<Service>, request: Request) -> Result<Response, ApiError> {
    let (parameters, access) = permitted(&service, request).await?;
    let (texts, _) = parameters.texts("text")?;
    access.characters(&service, &texts)?;
    let (format, tags) = tags::tag_handling(&parameters)?;
    let source = parameters.text("source_lang")?.filter(|source| !source.is_empty());
    let target = parameters.required("target_lang")?;
    let request = service::Request {
        texts,
        source: source.map(str::to_ascii_lowercase),
        target: target.to_ascii_lowercase(),
        plan: PlanOptions { format, tags: Arc::new(tags), ..PlanOptions::default() },
        ..service::Request::default()
    };
    let characters: Vec<usize> = request.texts.iter().map(|text| text.chars().count()).collect();
    let answer = service.translate(request).await?;
    super::libretranslate::log_texts(&service, &answer.texts);
    let translations: Vec<_> = answer
        .texts
        .iter()
        .zip(characters)
        .map(|(text, characters)| {
            json!({
                "detected_source_language": text.source.to_ascii_uppercase(),
                "text": text.text,
                "billed_characters": characters,
            })
        })
        .collect();
    Ok(reply::json(&json!({ "translations": translations })))
}

/// `GET /v2/languages`.
pub async fn languages(State(service): State<Arc<Service>>, request: Request) -> Response {
    let parameters = Parameters::read(request).await.unwrap_or_default();
    let wants_targets = matches!(parameters.text("type"), Ok(Some("target")));
    let entries = match wants_targets {
        true => service.registry.target_languages(),
        false => service.registry.source_languages(),
    };
    let entries = entries.into_iter().map(|entry| {
        let mut value = json!({ "language": entry.code.to_ascii_uppercase(), "name": entry.name });
        if wants_targets {
            value["supports_formality"] = false.into();
        }
        value
    });
    reply::json(&json!(entries.collect::<Vec<_>>()))
}

/// `GET /v2/usage`: characters are not counted.
pub async fn usage() -> Response {
    reply::json(&json!({ "character_count": 0, "character_limit": 1_000_000_000_000_u64 }))
}
