//! Description of the interfaces in OpenAPI.

use axum::response::Response;

use super::reply;

/// `GET /spec`.
pub async fn spec() -> Response {
    reply::content("application/json", include_str!("openapi.json"))
}
