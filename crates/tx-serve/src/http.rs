//! The interfaces of the server.

mod access;
mod admin;
mod body;
mod call;
mod deepl;
mod files;
mod health;
mod host;
mod json;
mod kserve;
mod libretranslate;
mod native;
mod offline;
mod openapi;
mod page;
mod reply;
mod track;

pub use access::Peer;

use std::{net::IpAddr, sync::Arc};

use axum::{
    Router,
    extract::DefaultBodyLimit,
    http::{HeaderName, HeaderValue, Method, Uri, header},
    middleware,
    response::{IntoResponse, Response},
    routing::{delete, get, post},
};
use tower_http::{
    catch_panic::CatchPanicLayer,
    cors::{AllowOrigin, Any, CorsLayer},
};

use crate::{error::ApiError, options::Cors, service::Service};
use deepl::glossaries;

/// Routes of a server.
pub fn router(service: Arc<Service>) -> Router {
    let limit = service.limits().body;
    let cors = service.options.cors.clone();
    let routes = Router::new()
        .route("/translate", post(libretranslate::translate))
        .route("/detect", post(libretranslate::detect))
        .route("/languages", get(libretranslate::languages))
        .route("/frontend/settings", get(libretranslate::settings))
        .route("/translate_file", post(files::translate_file))
        .route("/download_file/{id}/{name}", get(files::download))
        .route("/suggest", post(libretranslate::suggest))
        .route("/spec", get(openapi::spec))
        .route("/v2/translate", post(deepl::translate))
        .route("/v2/languages", get(deepl::languages).post(deepl::languages))
        .route("/v2/usage", get(deepl::usage))
        .route("/v2/glossaries", get(glossaries::list).post(glossaries::create))
        .route("/v2/glossaries/{id}", get(glossaries::get).delete(glossaries::remove))
        .route("/v2/glossaries/{id}/entries", get(glossaries::entries))
        .route("/v2/glossary-language-pairs", get(glossaries::language_pairs))
        .route("/v2", get(kserve::server))
        .route("/v2/", get(kserve::server))
        .route("/v2/health/live", get(health::live))
        .route("/v2/health/ready", get(kserve::ready))
        .route("/v2/models/{model}", get(kserve::model))
        .route("/v2/models/{model}/ready", get(kserve::model_ready))
        .route("/v2/models/{model}/infer", post(kserve::infer))
        .route("/v2/models/{model}/versions/{version}", get(kserve::model))
        .route("/v2/models/{model}/versions/{version}/ready", get(kserve::model_ready))
        .route("/v2/models/{model}/versions/{version}/infer", post(kserve::infer))
        .route("/v1/translate", post(native::translate))
        .route("/v1/models", get(native::models))
        .route("/attention", post(native::attention))
        .route("/health", get(health::health))
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/metrics", get(health::metrics))
        .merge(page::router())
        .method_not_allowed_fallback(method_not_allowed);
    let routes = match &service.options.offline {
        Some(page) => routes.merge(offline::router(page)),
        None => routes,
    };
    let admin = Router::new()
        .route("/admin/reload", post(admin::reload))
        .route("/admin/models", post(admin::put))
        .route("/admin/models/{model}", delete(admin::remove))
        .method_not_allowed_fallback(method_not_allowed);
    // Pages of other origins may use the interfaces, but not administer the server.
    let routes = match cors {
        Some(cors) => routes.layer(cors_layer(&cors)),
        None => routes,
    };
    routes
        .merge(admin)
        .fallback(not_found)
        .layer(DefaultBodyLimit::max(limit))
        .layer(middleware::from_fn_with_state(service.clone(), host::check))
        .layer(CatchPanicLayer::custom(|_| {
            tracing::error!("a request panicked");
            reply::error(&ApiError::Internal)
        }))
        .layer(middleware::from_fn_with_state(service.clone(), track::track))
        .with_state(service)
}

fn cors_layer(cors: &Cors) -> CorsLayer {
    let origin = match cors {
        Cors::Any => AllowOrigin::from(Any),
        Cors::Local => AllowOrigin::predicate(|origin, _| is_local(origin)),
        Cors::Origin(origin) => match HeaderValue::from_str(origin) {
            Ok(origin) => origin.into(),
            Err(_) => AllowOrigin::list([]),
        },
    };
    CorsLayer::new()
        .allow_origin(origin)
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers([
            header::CONTENT_TYPE,
            header::AUTHORIZATION,
            HeaderName::from_static("x-api-key"),
        ])
}

/// Whether an origin is a page of a server on this machine.
fn is_local(origin: &HeaderValue) -> bool {
    let host = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
    let host = host.as_ref().and_then(Uri::host).unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost"
        || host.ends_with(".localhost")
        || address.is_ok_and(|address| address.is_loopback())
}

async fn not_found() -> Response {
    reply::error(&ApiError::NotFound("not found".into()))
}

async fn method_not_allowed() -> Response {
    let mut response = reply::json(&serde_json::json!({ "error": "method not allowed" }));
    *response.status_mut() = axum::http::StatusCode::METHOD_NOT_ALLOWED;
    response.into_response()
}

#[cfg(test)]
mod tests;
