//! The interface of LibreTranslate.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::HeaderMap,
    response::Response,
};
use serde_json::{Value, json};

use super::{
    access::{Access, Peer},
    body::Parameters,
    files, reply,
};
use crate::{
    error::ApiError,
    layout::LineBreaks,
    markup::Format,
    plan::PlanOptions,
    service::{self, Service, TextAnswer},
};

/// Reads the parameters of a request and checks its key.
///
/// # Errors
///
/// If the parameters are invalid, or the key is.
pub async fn permitted(
    service: &Service,
    request: Request,
) -> Result<(Parameters, Access), ApiError> {
    let peer = request.extensions().get::<Peer>().copied();
    let headers: HeaderMap = request.headers().clone();
    let timeout = service.limits().timeout;
    // A client that sends its body slowly must not occupy the server.
    let read = tokio::time::timeout(timeout, Parameters::read(request)).await;
    let parameters = read.map_err(|_| ApiError::Timeout(timeout.as_secs()))??;
    let key = parameters.text("api_key")?;
    let access = Access::check(service, peer, &headers, key)?;
    Ok((parameters, access))
}

/// Options that all interfaces read in the same way.
///
/// # Errors
///
/// If one has a value that is not accepted.
pub fn request(parameters: &Parameters) -> Result<service::Request, ApiError> {
    let source = parameters.required("source")?;
    let format = match parameters.text("format")? {
        None | Some("" | "text") => Format::Text,
        Some("html") => Format::Html,
        Some(other) => return Err(ApiError::Invalid(format!("{other} format is not supported"))),
    };
    let line_breaks = match parameters.text("line_breaks")? {
        None | Some("" | "keep") => LineBreaks::Keep,
        Some("join") => LineBreaks::Join,
        Some(other) => {
            return Err(ApiError::Invalid(format!("`line_breaks` = {other} must be keep or join")));
        }
    };
    let given = |name: &str| -> Result<Option<String>, ApiError> {
        Ok(parameters.text(name)?.filter(|text| !text.is_empty()).map(str::to_owned))
    };
    Ok(service::Request {
        texts: Vec::new(),
        source: Some(source.to_owned()).filter(|source| source != "auto"),
        target: parameters.required("target")?.to_owned(),
        model: given("model")?,
        pivot: given("pivot")?,
        plan: PlanOptions { format, line_breaks, ..PlanOptions::default() },
        alternatives: parameters.number("alternatives")?.unwrap_or(0),
        beam: parameters.number("beam")?,
    })
}

/// `POST /translate`.
pub async fn translate(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parameters, access) = permitted(&service, request).await?;
    let (texts, is_array) = parameters.texts("q")?;
    let mut request = self::request(&parameters)?;
    access.characters(&service, &texts)?;
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
    let (parameters, access) = permitted(&service, request).await?;
    let (texts, is_array) = parameters.texts("q")?;
    access.characters(&service, &texts)?;
    let detected = service::blocking(move || {
        let found = |text: &String| service.detect(text).into_iter().collect::<Vec<_>>();
        texts.iter().map(found).collect::<Vec<_>>()
    });
    let detected = detected.await?;
    Ok(reply::json(&if is_array && detected.len() != 1 {
        json!(detected)
    } else {
        json!(detected.into_iter().flatten().collect::<Vec<_>>())
    }))
}

/// `GET /languages`.
pub async fn languages(State(service): State<Arc<Service>>) -> Response {
    reply::json(&json!(service.registry.languages()))
}

/// `GET /frontend/settings`.
pub async fn settings(State(service): State<Arc<Service>>) -> Response {
    let languages = service.registry.source_languages();
    let first = languages.first();
    let target = first.and_then(|entry| entry.targets.first());
    let entry = |code: Option<&String>| {
        code.map(|code| json!({ "code": code, "name": crate::language::name(code) }))
    };
    reply::json(&json!({
        "apiKeys": !service.keys().is_empty(),
        "charLimit": service.limits().characters,
        "frontendTimeout": 500,
        "keyRequired": !service.keys().is_empty(),
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
