//! The Open Inference Protocol, version 2, of KServe and Triton.

use std::sync::Arc;

use axum::{
    extract::{Path, Request, State},
    http::StatusCode,
    response::Response,
};
use serde_json::{Map, Value, json};

use super::{body::shortened, call::Call, reply};
use crate::{
    error::ApiError,
    model::Model,
    service::{self, Service},
};

/// Name of the only input.
const INPUT: &str = "text";

/// Name of the only output.
const OUTPUT: &str = "translation";

/// Parameters of a request that change no translation: those of Triton's schedulers.
const SCHEDULING: [&str; 5] =
    ["priority", "timeout", "sequence_id", "sequence_start", "sequence_end"];

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

/// `GET /v2/models/M`, with or without `/versions/V`: inputs and outputs.
pub async fn model(
    State(service): State<Arc<Service>>,
    Path(path): Path<ModelPath>,
) -> Result<Response, ApiError> {
    let model = path.model(&service)?;
    let tensor = |name: &str| json!({ "name": name, "datatype": "BYTES", "shape": [-1] });
    Ok(reply::json(&json!({
        "name": model.name,
        "versions": [version(&model)],
        "platform": "tx",
        "inputs": [tensor(INPUT)],
        "outputs": [tensor(OUTPUT)],
        "parameters": model.info(),
    })))
}

/// `GET /v2/models/M/ready`, with or without `/versions/V`.
pub async fn model_ready(
    State(service): State<Arc<Service>>,
    Path(path): Path<ModelPath>,
) -> Response {
    let is_loaded = path.model(&service).is_ok();
    let is_ready = is_loaded && service.is_ready();
    let mut response = reply::json(&json!({ "name": path.model, "ready": is_ready }));
    if !is_ready {
        *response.status_mut() =
            if is_loaded { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::NOT_FOUND };
    }
    response
}

/// Model of an address, with its version.
#[derive(Debug, serde::Deserialize)]
pub struct ModelPath {
    model: String,
    version: Option<String>,
}

impl ModelPath {
    fn model(&self, service: &Service) -> Result<Arc<Model>, ApiError> {
        let model = service.registry.model(&self.model)?;
        match &self.version {
            Some(wanted) if *wanted != version(&model) => Err(ApiError::NotFound(format!(
                "no version `{}` of the model `{}`; its version is {}",
                shortened(wanted),
                model.name,
                version(&model)
            ))),
            _ => Ok(model),
        }
    }
}

/// Version of a model, which increases when it is loaded again.
fn version(model: &Model) -> String {
    model.id.to_string()
}

/// `POST /v2/models/M/infer`, with or without `/versions/V`: one input of type `BYTES` with the texts;
/// the languages, if the model has several, are the parameters `source` and `target`.
pub async fn infer(
    State(service): State<Arc<Service>>,
    Path(path): Path<ModelPath>,
    request: Request,
) -> Result<Response, ApiError> {
    if request.headers().contains_key("inference-header-content-length") {
        return Err(binary());
    }
    let call = Call::read(&service, request).await?;
    call.parameters.only(&["id", "parameters", "inputs", "outputs"], &[])?;
    let model = path.model(&service)?;
    let parameters = object(call.parameters.get("parameters"), "parameters")?;
    only(&parameters, "parameters", &["source", "target"], &SCHEDULING)?;
    let texts = texts(call.parameters.get("inputs"))?;
    check_outputs(call.parameters.get("outputs"))?;
    call.access.characters(&service, &texts)?;
    let language = |key: &str, codes: &[String]| match (parameters.get(key), codes) {
        (Some(Value::String(code)), _) => Ok(code.clone()),
        (Some(_), _) => Err(ApiError::Invalid(format!("`parameters.{key}` must be a string"))),
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(ApiError::Invalid(format!(
            "`parameters.{key}` is missing: the model has several languages"
        ))),
    };
    let source = language("source", model.sources().list())?;
    let target = language("target", model.targets().list())?;
    let request = service::request::Request {
        model: Some(model.name.clone()),
        ..service::request::Request::new(texts, Some(source), target, call.deadline.clone())
    };
    let answer = service.translate(request).await?;
    service.log_texts(&answer.texts);
    let data: Vec<&str> = answer.texts.iter().map(|text| &*text.text).collect();
    let mut result = json!({
        "model_name": model.name,
        "model_version": version(&model),
        "outputs": [{
            "name": OUTPUT, "datatype": "BYTES", "shape": [data.len()], "data": data,
        }],
    });
    if let Some(id) = call.parameters.given("id")? {
        result["id"] = id.into();
    }
    Ok(reply::json(&result))
}

/// Error of tensors that are not JSON.
fn binary() -> ApiError {
    ApiError::Invalid(
        "the extension `binary_tensor_data` is not supported; expected tensors with `data` in JSON, \
         and outputs without `binary_data`"
            .into(),
    )
}

/// An object; empty if it is missing.
fn object(value: Option<&Value>, name: &str) -> Result<Map<String, Value>, ApiError> {
    match value {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(values)) => Ok(values.clone()),
        Some(_) => Err(ApiError::Invalid(format!("`{name}` must be an object"))),
    }
}

/// Tests the names of an object: `known` ones, and `ignored` ones, which do not change the result.
fn only(
    values: &Map<String, Value>,
    place: &str,
    known: &[&str],
    ignored: &[&str],
) -> Result<(), ApiError> {
    for name in values.keys() {
        if name.starts_with("binary_data") {
            return Err(binary());
        }
        if !known.contains(&&**name) && !ignored.contains(&&**name) {
            let expected = if known.is_empty() { "none".into() } else { known.join(", ") };
            return Err(ApiError::Invalid(format!(
                "`{place}.{}` is not supported; expected {expected}",
                shortened(name)
            )));
        }
    }
    Ok(())
}

/// Texts of the inputs of a request.
fn texts(inputs: Option<&Value>) -> Result<Vec<String>, ApiError> {
    let wrong = |problem: &str| {
        ApiError::Invalid(format!("`inputs` must be one tensor `{INPUT}` of type BYTES: {problem}"))
    };
    let inputs = inputs.and_then(Value::as_array).ok_or_else(|| wrong("it is not an array"))?;
    let [input] = &inputs[..] else {
        return Err(wrong(&format!("it has {} tensors", inputs.len())));
    };
    let input = object(Some(input), "inputs[0]")?;
    only(&input, "inputs[0]", &["name", "datatype", "shape", "data", "parameters"], &[])?;
    only(
        &object(input.get("parameters"), "inputs[0].parameters")?,
        "inputs[0].parameters",
        &[],
        &[],
    )?;
    if input.get("name").and_then(Value::as_str) != Some(INPUT) {
        return Err(wrong("it has another `name`"));
    }
    if input.get("datatype").and_then(Value::as_str) != Some("BYTES") {
        return Err(wrong("it has another `datatype`"));
    }
    let data =
        input.get("data").and_then(Value::as_array).ok_or_else(|| wrong("it has no `data`"))?;
    let mut texts = Vec::new();
    flatten(data, 0, &mut texts).ok_or_else(|| wrong("its `data` are not strings"))?;
    let shape = input.get("shape").and_then(Value::as_array);
    let shape = shape.ok_or_else(|| wrong("it has no `shape`"))?;
    let size = shape.iter().try_fold(1_u64, |size, length| size.checked_mul(length.as_u64()?));
    if size != Some(texts.len() as u64) || shape.is_empty() {
        return Err(wrong(&format!(
            "its `shape` is {}, but its `data` has {} strings",
            shortened(&Value::from(shape.clone()).to_string()),
            texts.len()
        )));
    }
    Ok(texts)
}

/// Tests the requested outputs.
fn check_outputs(outputs: Option<&Value>) -> Result<(), ApiError> {
    let Some(outputs) = outputs else { return Ok(()) };
    let wrong = || ApiError::Invalid(format!("`outputs` must be one tensor `{OUTPUT}`"));
    for output in outputs.as_array().ok_or_else(wrong)? {
        let output = object(Some(output), "outputs[0]")?;
        only(&output, "outputs[0]", &["name", "parameters"], &[])?;
        if output.get("name").and_then(Value::as_str) != Some(OUTPUT) {
            return Err(wrong());
        }
        let mut parameters = object(output.get("parameters"), "outputs[0].parameters")?;
        // JSON is what it asks for.
        if parameters.get("binary_data") == Some(&Value::Bool(false)) {
            parameters.remove("binary_data");
        }
        only(&parameters, "outputs[0].parameters", &[], &[])?;
    }
    Ok(())
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
