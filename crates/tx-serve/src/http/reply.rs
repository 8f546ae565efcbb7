//! Answers.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::error::ApiError;

/// Answer with JSON.
pub fn json(value: &Value) -> Response {
    let body = Body::from(value.to_string());
    let mut response = Response::new(body);
    set(&mut response, header::CONTENT_TYPE, "application/json");
    response
}

/// Answer with an error in the form of LibreTranslate.
pub fn error(error: &ApiError) -> Response {
    with_status(json(&json!({ "error": error.to_string() })), error)
}

/// Answer with an error in the form of DeepL.
pub fn deepl_error(error: &ApiError) -> Response {
    let message = match error {
        // Clients of DeepL look for the name of the parameter.
        ApiError::Unsupported { side, code } => {
            format!("Value for '{}_lang' not supported: {code}", side.name())
        }
        other => other.to_string(),
    };
    with_status(json(&json!({ "message": message })), error)
}

fn with_status(mut response: Response, error: &ApiError) -> Response {
    *response.status_mut() =
        StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// Answer with text of a content type.
pub fn content(content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    set(&mut response, header::CONTENT_TYPE, content_type);
    response
}

/// Sets a header.
pub fn set(response: &mut Response, name: header::HeaderName, value: &'static str) {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        error(&self)
    }
}
