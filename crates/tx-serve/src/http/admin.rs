//! Changes of the models while the server runs. They need a key with `admin = true`.

use std::sync::Arc;

use axum::{
    extract::{Path, Request, State},
    response::Response,
};
use serde_json::json;

use super::{access::Access, body::Parameters, libretranslate::permitted, reply};
use crate::{
    error::{ApiError, ServeError},
    model::ModelSpec,
    service::{self, Service},
};

async fn administrator(service: &Service, request: Request) -> Result<Parameters, ApiError> {
    let (parameters, access): (Parameters, Access) = permitted(service, request).await?;
    if access.is_admin() {
        Ok(parameters)
    } else {
        Err(ApiError::Forbidden("this needs the key of an administrator"))
    }
}

/// An error with its causes, for the administrator.
fn described(error: &ServeError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

/// `POST /admin/reload`: loads all models and keys again.
pub async fn reload(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    administrator(&service, request).await?;
    let shared = service.clone();
    let errors = service::blocking(move || shared.reload()).await?;
    let errors: Vec<String> = errors.iter().map(described).collect();
    Ok(reply::json(&json!({ "models": service.registry.models().len(), "errors": errors })))
}

/// `POST /admin/models` with `name` and `folder`: adds or replaces a model.
pub async fn put(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let parameters = administrator(&service, request).await?;
    let (name, folder) = (parameters.required("name")?, parameters.required("folder")?);
    let spec: ModelSpec = format!("{name}={folder}").parse().map_err(ApiError::Invalid)?;
    let shared = service.clone();
    let info = service::blocking(move || shared.registry.put(&spec)).await?;
    let info = info.map_err(|error| ApiError::Invalid(described(&error)))?;
    tracing::info!(model = info.name, "model loaded");
    Ok(reply::json(&json!(info)))
}

/// `DELETE /admin/models/M`.
pub async fn remove(
    State(service): State<Arc<Service>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    administrator(&service, request).await?;
    if !service.registry.remove(&name) {
        return Err(ApiError::NotFound(format!("no model `{name}`")));
    }
    tracing::info!(model = name, "model removed");
    Ok(reply::json(&json!({ "removed": name })))
}
