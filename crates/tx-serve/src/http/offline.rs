//! The page that translates in the browser, and the models that it may download.

use std::{fs, path::PathBuf, sync::Arc};

use axum::{
    Router,
    extract::{Path, Request, State},
    http::header,
    middleware,
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::{Value, json};
use tower::ServiceExt;
use tower_http::services::{ServeDir, ServeFile};

use super::reply;
use crate::{error::ApiError, options::OfflinePage, service::Service};

/// Files of a bundle in a folder.
const FILES: [&str; 7] = [
    "config.toml",
    "provenance.toml",
    "model.safetensors",
    "tokenizer.json",
    "source.tokenizer.json",
    "target.tokenizer.json",
    "lexicon.json",
];

/// Policy of the page, which also compiles WebAssembly and can load models of other servers.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; \
     img-src 'self'; manifest-src 'self'; connect-src 'self' https: blob:; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

/// Routes of the page.
pub fn router(page: &OfflinePage) -> Router<Arc<Service>> {
    Router::new()
        .route("/offline/models.json", get(models))
        .route("/offline/served/{file}", get(archive))
        .route("/offline/served/{model}/{file}", get(file))
        .nest_service("/offline", ServeDir::new(&page.folder))
        .layer(middleware::map_response(with_policy))
}

/// Browsers may keep the files, and ask whether they have changed.
async fn with_policy(mut response: Response) -> Response {
    reply::set(&mut response, header::CONTENT_SECURITY_POLICY, POLICY);
    reply::set(&mut response, header::CACHE_CONTROL, "no-cache");
    response
}

/// `GET /offline/models.json`: the models that may be downloaded, after those that the page contains.
async fn models(State(service): State<Arc<Service>>) -> Response {
    let own = service.options.offline.as_ref().map(|page| page.folder.join("models.json"));
    let own = own.and_then(|path| fs::read(path).ok());
    let own = own.and_then(|list| serde_json::from_slice::<Vec<Value>>(&list).ok());
    let models = service.registry.models();
    let offered = models.iter().filter(|model| service.options.offers(&model.name));
    let entry = |name: &str, is_file: bool| {
        let end = if is_file { ".tar" } else { "/" };
        json!({ "name": name, "address": format!("served/{name}{end}") })
    };
    let entries = offered.map(|model| entry(&model.name, model.folder().is_file()));
    reply::json(&own.into_iter().flatten().chain(entries).collect::<Value>())
}

/// `GET /offline/served/{model}.tar`: a model in one file.
async fn archive(
    State(service): State<Arc<Service>>,
    Path(file): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let name = file.strip_suffix(".tar").ok_or_else(missing)?;
    let path = offered(&service, name)?;
    if path.is_file() { send(path, request).await } else { Err(missing()) }
}

/// `GET /offline/served/{model}/{file}`: a file of a model in a folder.
async fn file(
    State(service): State<Arc<Service>>,
    Path((model, file)): Path<(String, String)>,
    request: Request,
) -> Result<Response, ApiError> {
    let folder = offered(&service, &model)?;
    if !FILES.contains(&&*file) {
        return Err(missing());
    }
    send(folder.join(file), request).await
}

/// Path of a model that may be downloaded.
fn offered(service: &Service, name: &str) -> Result<PathBuf, ApiError> {
    if !service.options.offers(name) {
        return Err(missing());
    }
    let model = service.registry.model(name).map_err(|_| missing())?;
    Ok(model.folder().to_owned())
}

async fn send(path: PathBuf, request: Request) -> Result<Response, ApiError> {
    let Ok(response) = ServeFile::new(path).oneshot(request).await;
    Ok(response.into_response())
}

fn missing() -> ApiError {
    ApiError::NotFound("not found".into())
}
