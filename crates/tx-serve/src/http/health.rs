//! State of the server: liveness, readiness, metrics.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode, response::Response};
use serde_json::json;

use super::reply;
use crate::service::Service;

/// `GET /health`: `{"status": "ok"}`, as in LibreTranslate.
pub async fn health() -> Response {
    reply::json(&json!({ "status": "ok" }))
}

/// `GET /health/live`: the process answers.
pub async fn live() -> Response {
    reply::json(&json!({ "live": true }))
}

/// `GET /health/ready`: models are loaded, and the server is not stopping.
pub async fn ready(State(service): State<Arc<Service>>) -> Response {
    let is_ready = service.is_ready();
    let mut response = reply::json(&json!({ "ready": is_ready }));
    if !is_ready {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

/// `GET /metrics`: the text format of Prometheus.
pub async fn metrics(State(service): State<Arc<Service>>) -> Response {
    let models = service.registry.models().len();
    let text = service.metrics.render(service.pool.waiting(), models);
    reply::content("application/openmetrics-text; version=1.0.0; charset=utf-8", text)
}
