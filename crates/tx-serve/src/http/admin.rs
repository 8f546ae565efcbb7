//! Changes of the models while the server runs. They need a key with `admin = true`.

use std::sync::Arc;

use axum::{
    extract::{Path, Request, State},
    response::Response,
};
use serde_json::json;

use super::{body::Parameters, call::Call, reply};
use crate::{
    error::{ApiError, ServeError},
    model::ModelSpec,
    service::{self, Service},
};

async fn administrator(service: &Service, request: Request) -> Result<Parameters, ApiError> {
    let call = Call::read(service, request).await?;
    if call.access.is_admin() {
        Ok(call.parameters)
    } else {
        Err(ApiError::Forbidden("this needs the key of an administrator"))
    }
}

/// `POST /admin/reload`: loads all models and keys again.
pub async fn reload(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    administrator(&service, request).await?.only(&[], &[])?;
    let shared = service.clone();
    let errors = service::blocking(move || shared.reload()).await?;
    let errors: Vec<String> = errors.iter().map(ServeError::chain).collect();
    Ok(reply::json(&json!({ "models": service.registry.models().len(), "errors": errors })))
}

/// `POST /admin/models` with `name` and `folder`: adds or replaces a model.
pub async fn put(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let parameters = administrator(&service, request).await?;
    parameters.only(&["name", "folder"], &[])?;
    let (name, folder) = (parameters.required("name")?, parameters.required("folder")?);
    let spec: ModelSpec = format!("{name}={folder}").parse().map_err(ApiError::Invalid)?;
    let shared = service.clone();
    let info = service::blocking(move || shared.registry.put(&spec)).await?;
    let info = info.map_err(|error| ApiError::Invalid(error.chain()))?;
    tracing::info!(model = info.name, "model loaded");
    Ok(reply::json(&json!(info)))
}

/// `DELETE /admin/models/M`.
pub async fn remove(
    State(service): State<Arc<Service>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    administrator(&service, request).await?.only(&[], &[])?;
    // The list of languages is computed again.
    let (shared, removed) = (service.clone(), name.clone());
    if !service::blocking(move || shared.registry.remove(&removed)).await? {
        return Err(ApiError::NotFound(format!("no model `{name}`")));
    }
    tracing::info!(model = name, "model removed");
    Ok(reply::json(&json!({ "removed": name })))
}
