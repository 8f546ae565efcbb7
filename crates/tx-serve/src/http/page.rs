//! The web page and its files.

use std::sync::Arc;

use axum::{Router, response::Response, routing::get};

use super::reply;
use crate::service::Service;

/// Routes of the page.
pub fn router() -> Router<Arc<Service>> {
    const HTML: &str = "text/html; charset=utf-8";
    const SCRIPT: &str = "text/javascript; charset=utf-8";
    const STYLE: &str = "text/css; charset=utf-8";
    Router::new()
        .route("/", get(|| file(HTML, include_str!("page/index.html"))))
        .route("/page/app.js", get(|| file(SCRIPT, include_str!("page/app.js"))))
        .route("/page/api.js", get(|| file(SCRIPT, include_str!("page/api.js"))))
        .route("/page/output.js", get(|| file(SCRIPT, include_str!("page/output.js"))))
        .route("/page/style.css", get(|| file(STYLE, include_str!("page/style.css"))))
        .route("/favicon.ico", get(|| file("image/svg+xml", include_str!("page/icon.svg"))))
}

async fn file(content_type: &'static str, content: &'static str) -> Response {
    reply::content(content_type, content)
}
