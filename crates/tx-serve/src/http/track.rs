//! Log, metrics and security headers of all requests.

use std::{sync::Arc, time::Instant};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderName, HeaderValue, header},
    middleware::Next,
    response::Response,
};

use crate::service::Service;

/// Policy of the page: nothing from elsewhere, and no scripts in the page itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Answers a request, logs and counts it, and sets headers.
pub async fn track(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    // The pattern: paths may contain text, and patterns are few.
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("other", MatchedPath::as_str).to_owned();
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let defaults = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in defaults {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if service.is_leaving() {
        // A balancer that has not noticed yet must not send another request to a connection that ends.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let (status, duration) = (response.status().as_u16(), started.elapsed());
    service.metrics.answered(&route, status, duration);
    tracing::info!(
        method = method.as_str(),
        route,
        status,
        milliseconds = duration.as_millis() as u64,
        "request"
    );
    response
}
