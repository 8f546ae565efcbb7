//! The Open Inference Protocol, version 2, of KServe and Triton.

use std::sync::Arc;

use axum::{
    extract::{Path, Request, State},
    http::StatusCode,
    response::Response,
};
use serde_json::{Value, json};

use super::{libretranslate::permitted, reply};
use crate::{
    error::ApiError,
    service::{self, Service},
};

/// `GET /v2`: name and version of the server.
pub async fn server() -> Response {
    reply::json(&json!({
        "name": "tx", "version": env!("CARGO_PKG_VERSION"), "extensions": [],
    }))
}

/// `GET /v2/health/ready`.
pub async fn ready(State(service): State<Arc<Service>>) -> Response {
    super::health::ready(State(service)).await
}

/// `GET /v2/models/M`: inputs and outputs.
pub async fn model(
    State(service): State<Arc<Service>>,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    let models = service.registry.models();
    let model = models.iter().find(|model| model.name == name).ok_or_else(|| missing(&name))?;
    let tensor = |name: &str| json!({ "name": name, "datatype": "BYTES", "shape": [-1] });
    Ok(reply::json(&json!({
        "name": name,
        "versions": [model.id.to_string()],
        "platform": "tx",
        "inputs": [tensor("text")],
        "outputs": [tensor("translation")],
        "parameters": model.info(),
    })))
}

/// `GET /v2/models/M/ready`.
pub async fn model_ready(
    State(service): State<Arc<Service>>,
    Path(name): Path<String>,
) -> Response {
    let is_loaded = service.registry.models().iter().any(|model| model.name == name);
    let is_ready = is_loaded && service.is_ready();
    let mut response = reply::json(&json!({ "name": name, "ready": is_ready }));
    if !is_ready {
        *response.status_mut() =
            if is_loaded { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::NOT_FOUND };
    }
    response
}

/// `POST /v2/models/M/infer`: one input of type `BYTES` with the texts; the languages, if the model
/// has several, are the parameters `source` and `target`.
pub async fn infer(
    State(service): State<Arc<Service>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parameters, access) = permitted(&service, request).await?;
    let models = service.registry.models();
    let model = models.iter().find(|model| model.name == name).ok_or_else(|| missing(&name))?;
    let texts = texts(parameters.get("inputs"))?;
    access.characters(&service, &texts)?;
    let given = |key: &str, codes: &[String]| {
        let value = parameters.get("parameters").and_then(|values| values.get(key)?.as_str());
        let only = || codes.first().filter(|_| codes.len() == 1).cloned();
        value.map(str::to_owned).or_else(only).ok_or_else(|| {
            ApiError::Invalid(format!(
                "`parameters.{key}` is missing: the model has several languages"
            ))
        })
    };
    let request = service::Request {
        source: Some(given("source", model.sources())?),
        target: given("target", model.targets())?,
        model: Some(name.clone()),
        texts,
        ..service::Request::default()
    };
    let (version, answer) = (model.id.to_string(), service.translate(request).await?);
    super::libretranslate::log_texts(&service, &answer.texts);
    let data: Vec<&str> = answer.texts.iter().map(|text| &*text.text).collect();
    let mut result = json!({
        "model_name": name,
        "model_version": version,
        "outputs": [{
            "name": "translation", "datatype": "BYTES", "shape": [data.len()], "data": data,
        }],
    });
    if let Some(id) = parameters.get("id").filter(|id| id.is_string()) {
        result["id"] = id.clone();
    }
    Ok(reply::json(&result))
}

fn missing(name: &str) -> ApiError {
    ApiError::NotFound(format!("no model `{name}`"))
}

/// Texts of the inputs of a request.
fn texts(inputs: Option<&Value>) -> Result<Vec<String>, ApiError> {
    let wrong = || ApiError::Invalid("`inputs` must be one tensor of type BYTES with texts".into());
    let [input] = &inputs.and_then(Value::as_array).ok_or_else(wrong)?[..] else {
        return Err(wrong());
    };
    if input.get("datatype").and_then(Value::as_str) != Some("BYTES") {
        return Err(wrong());
    }
    let data = input.get("data").and_then(Value::as_array).ok_or_else(wrong)?;
    let mut texts = Vec::new();
    flatten(data, 0, &mut texts).ok_or_else(wrong)?;
    Ok(texts)
}

/// Appends the texts of nested arrays.
fn flatten(data: &[Value], depth: usize, texts: &mut Vec<String>) -> Option<()> {
    const MAX_DEPTH: usize = 8;
    for value in data {
        match value {
            Value::String(text) => texts.push(text.clone()),
            Value::Array(inner) if depth < MAX_DEPTH => flatten(inner, depth + 1, texts)?,
            _ => return None,
        }
    }
    Some(())
}
