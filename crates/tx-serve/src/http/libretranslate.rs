//! The interface of LibreTranslate.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use serde_json::{Value, json};
use tx_infer::Deadline;
use tx_markup::{Format, LineBreaks, PlanOptions};

use super::{body::Parameters, call::Call, files, reply};
use crate::{
    error::ApiError,
    service::{
        Service,
        request::{self, TextAnswer},
    },
};

/// Parameters that [`request()`] reads, besides the texts.
pub const OPTIONS: [&str; 8] =
    ["source", "target", "format", "line_breaks", "model", "pivot", "alternatives", "beam"];

/// Parameters of clients that change no result: `secret` is that of LibreTranslate's own page, `apiKey`
/// that of its npm client, which means `api_key`.
pub const IGNORED: [&str; 2] = ["secret", "apiKey"];

/// Options that all interfaces read in the same way.
///
/// # Errors
///
/// If one has a value that is not accepted.
pub fn request(parameters: &Parameters, deadline: &Deadline) -> Result<request::Request, ApiError> {
    let source = parameters.required("source")?;
    let format = match parameters.given("format")? {
        None | Some("text") => Format::Text,
        Some("html") => Format::Html,
        Some(other) => return Err(ApiError::Invalid(format!("{other} format is not supported"))),
    };
    let line_breaks = match parameters.given("line_breaks")? {
        None | Some("keep") => LineBreaks::Keep,
        Some("join") => LineBreaks::Join,
        Some(other) => {
            return Err(ApiError::Invalid(format!("`line_breaks` = {other} must be keep or join")));
        }
    };
    let given = |name: &str| -> Result<Option<String>, ApiError> {
        Ok(parameters.given(name)?.map(str::to_owned))
    };
    Ok(request::Request {
        texts: Vec::new(),
        source: Some(source.to_owned()).filter(|source| source != "auto"),
        target: parameters.required("target")?.to_owned(),
        model: given("model")?,
        pivot: given("pivot")?,
        plan: PlanOptions { format, line_breaks, ..PlanOptions::default() },
        alternatives: parameters.number("alternatives")?.unwrap_or(0),
        beam: parameters.number("beam")?,
        deadline: deadline.clone(),
    })
}

/// `POST /translate`.
pub async fn translate(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let call = Call::read(&service, request).await?;
    call.parameters.only(&[&["q"], &OPTIONS[..]].concat(), &IGNORED)?;
    let (texts, is_array) = call.parameters.texts("q")?;
    let mut request = self::request(&call.parameters, &call.deadline)?;
    call.access.characters(&service, &texts)?;
    request.texts = texts;
    let (asks, detects) = (request.alternatives > 0, request.source.is_none());
    let answer = service.translate(request).await?;
    log_texts(&service, &answer.texts);
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

/// Logs translations, if the operator enabled it.
pub fn log_texts(service: &Service, texts: &[TextAnswer]) {
    if service.options.logs_text {
        for text in texts {
            tracing::info!(source = %text.source, translation = %text.text, "translation");
        }
    }
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
    }))
}

/// `POST /suggest`, which the server does not collect.
pub async fn suggest() -> Result<Response, ApiError> {
    Err(ApiError::Forbidden("Suggestions are disabled on this server."))
}
