//! The interface of LibreTranslate.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    call::{Call, IGNORED, OPTIONS},
    files, reply,
};
use crate::{
    error::ApiError,
    service::{Service, request::TextAnswer},
};

/// `POST /translate`.
pub async fn translate(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let call = Call::read(&service, request).await?;
    call.parameters.only(&[&["q"], &OPTIONS[..]].concat(), &IGNORED)?;
    let (texts, is_array) = call.parameters.texts("q")?;
    let mut request = call.request(&service)?;
    call.access.characters(&service, &texts)?;
    request.texts = texts;
    let (asks, detects) = (request.alternatives > 0, request.source.is_none());
    let answer = service.translate(request).await?;
    service.log_texts(&answer.texts);
    let values = |of: &dyn Fn(&TextAnswer) -> Value| {
        let mut values: Vec<Value> = answer.texts.iter().map(of).collect();
        if is_array { Value::Array(values) } else { values.pop().unwrap_or_default() }
    };
    let mut result = json!({ "translatedText": values(&|text| text.text.clone().into()) });
    if detects {
        result["detectedLanguage"] = values(&|text| json!(text.detected));
    }
    if asks {
        result["alternatives"] = values(&|text| {
            text.alternatives.iter().map(|other| Value::from(&*other.text)).collect()
        });
    }
    if answer.texts.iter().any(|text| text.models.len() > 1) {
        result["models"] = values(&|text| json!(text.models));
    }
    if answer.texts.iter().any(|text| !text.unknown.is_empty()) {
        result["unknown"] = values(&|text| json!(text.unknown));
    }
    if answer.texts.iter().any(|text| text.copied) {
        result["copied"] = values(&|text| text.copied.into());
    }
    Ok(reply::json(&result))
}

/// `POST /detect`.
pub async fn detect(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let call = Call::read(&service, request).await?;
    call.parameters.only(&["q"], &IGNORED)?;
    let (texts, is_array) = call.parameters.texts("q")?;
    call.access.characters(&service, &texts)?;
    let detected = service.detect(texts, call.deadline.clone()).await?;
    Ok(reply::json(&if is_array && detected.len() != 1 {
        let of_text = |found| Vec::from_iter(found);
        json!(detected.into_iter().map(of_text).collect::<Vec<_>>())
    } else {
        json!(detected.into_iter().flatten().collect::<Vec<_>>())
    }))
}

/// `GET /languages`.
pub async fn languages(State(service): State<Arc<Service>>) -> Response {
    let languages = service.registry.languages();
    let render = || Bytes::from(json!(languages.all()).to_string());
    let body = languages.answers.libretranslate.get_or_init(render);
    reply::content("application/json", body.clone())
}

/// `GET /frontend/settings`.
pub async fn settings(State(service): State<Arc<Service>>) -> Response {
    let languages = service.registry.languages();
    let first = languages.sources().next();
    let target = first.and_then(|entry| entry.targets.first());
    let entry = |code: Option<&String>| {
        code.map(|code| json!({ "code": code, "name": crate::language::name(code) }))
    };
    let needs_key = service.keys().is_some();
    reply::json(&json!({
        "apiKeys": needs_key,
        "charLimit": service.limits().characters,
        "frontendTimeout": 500,
        "keyRequired": needs_key,
        "language": { "source": entry(first.map(|entry| &entry.code)), "target": entry(target) },
        "filesTranslation": true,
        "suggestions": false,
        "supportedFilesFormat": files::EXTENSIONS,
        "alternativesLimit": service.limits().alternatives,
        "offline": service.options.offline.is_some(),
    }))
}

/// `POST /suggest`, which the server does not collect.
pub async fn suggest() -> Result<Response, ApiError> {
    Err(ApiError::Forbidden("Suggestions are disabled on this server."))
}
