//! Host names of the server: those that it answers for, and its address in answers.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{error::ApiError, service::Service};

/// Refuses requests for other hosts.
///
/// On a loopback address, a page of any origin could otherwise read answers: its name is resolved to
/// 127.0.0.1 after it was loaded (DNS rebinding), and the browser takes the server for a part of it.
pub async fn check(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let is_permitted = match host_of(&request) {
        Some(host) => is_permitted(&service, name_of(host)),
        // Browsers always send it.
        None => true,
    };
    if is_permitted {
        next.run(request).await
    } else {
        ApiError::Forbidden("this server does not answer for the host name of the request")
            .into_response()
    }
}

/// Host of a request, with its port.
fn host_of(request: &Request) -> Option<&str> {
    let authority = request.uri().authority().map(|authority| authority.as_str());
    authority.or_else(|| request.headers().get(header::HOST)?.to_str().ok())
}

/// Host without its port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

fn is_permitted(service: &Service, name: &str) -> bool {
    let options = &service.options;
    if options.hosts.is_empty() && !options.listen.ip().is_loopback() {
        return true;
    }
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    // Names of loopback are never resolved elsewhere, and addresses are not resolved.
    name.parse::<IpAddr>().is_ok()
        || name == "localhost"
        || name.ends_with(".localhost")
        || options.hosts.iter().any(|host| host.as_str() == name)
        || options.public_url.as_ref().is_some_and(|url| url.host() == name)
}

/// Address of the server without a final slash, as the client of a request sees it; empty if it is not
/// known.
pub fn base_url(service: &Service, request: &Request) -> String {
    if let Some(url) = &service.options.public_url {
        return url.as_str().to_owned();
    }
    let headers = request.headers();
    let forwarded =
        |name: &str| service.options.trusts_proxy.then(|| last(headers, name)).flatten();
    let is_host = |host: &&str| {
        !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c))
    };
    let host = forwarded("x-forwarded-host").or_else(|| host_of(request)).filter(is_host);
    let Some(host) = host else { return String::new() };
    let scheme = match forwarded("x-forwarded-proto") {
        Some(scheme) if scheme.eq_ignore_ascii_case("https") => "https",
        _ => "http",
    };
    format!("{scheme}://{host}")
}

/// Last value of a header, which the proxy of the server adds.
fn last<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let value = headers.get_all(name).iter().next_back()?.to_str().ok()?;
    value.rsplit(',').next().map(str::trim)
}
