//! Keys and limits of the clients of a request.

use std::{net::IpAddr, time::Instant};

use axum::http::{HeaderMap, header};

use crate::{error::ApiError, keys::Client, limiter::Unit, service::Service};

/// Address of the peer of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// Address of the client: the peer, or the address that a trusted proxy gives.
pub fn address(service: &Service, peer: Option<Peer>, headers: &HeaderMap) -> String {
    let forwarded = headers.get("x-forwarded-for").and_then(|value| value.to_str().ok());
    let forwarded =
        forwarded.and_then(|list| list.rsplit(',').next()?.trim().parse::<IpAddr>().ok());
    let forwarded = forwarded.filter(|_| service.options.trusts_proxy);
    match forwarded.or(peer.map(|peer| peer.0)) {
        Some(address) => address.to_string(),
        None => "unknown".into(),
    }
}

/// Key in the headers of a request.
fn key_of(headers: &HeaderMap) -> Option<&str> {
    if let Some(key) = headers.get("x-api-key") {
        return key.to_str().ok();
    }
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    let is_key =
        scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("deepl-auth-key");
    is_key.then_some(key.trim())
}

/// A permitted client.
#[derive(Debug, Clone)]
pub struct Access {
    client: Option<Client>,
    /// Address, which has limits if there is no key.
    address: String,
}

impl Access {
    /// Checks the key of a request, in its headers or its body, and counts the request.
    ///
    /// # Errors
    ///
    /// If keys are needed and the request has no valid one, or too many requests were made.
    pub fn check(
        service: &Service,
        peer: Option<Peer>,
        headers: &HeaderMap,
        key: Option<&str>,
    ) -> Result<Self, ApiError> {
        let keys = service.keys();
        let key = key_of(headers).or(key).filter(|key| !key.is_empty());
        let client = match key {
            _ if keys.is_empty() => None,
            None => {
                return Err(ApiError::Forbidden(
                    "Please contact the server operator to get an API key",
                ));
            }
            Some(key) => match keys.client(key) {
                Some(client) => Some(client.clone()),
                None => return Err(ApiError::Forbidden("Invalid API key")),
            },
        };
        let access = Self { client, address: address(service, peer, headers) };
        let limit = match &access.client {
            Some(client) => client.requests_per_minute,
            None => service.limits().requests_per_minute,
        };
        access.take(service, Unit::Requests, 1, limit)?;
        Ok(access)
    }

    /// Counts the characters of a request.
    ///
    /// # Errors
    ///
    /// If the limit of the key is exceeded.
    pub fn characters(&self, service: &Service, texts: &[String]) -> Result<(), ApiError> {
        let limit = self.client.as_ref().and_then(|client| client.characters_per_minute);
        let count = texts.iter().map(|text| text.chars().count()).sum();
        self.take(service, Unit::Characters, count, limit)
    }

    fn take(
        &self,
        service: &Service,
        unit: Unit,
        amount: usize,
        limit: Option<u32>,
    ) -> Result<(), ApiError> {
        let Some(limit) = limit else { return Ok(()) };
        // Names of keys and addresses are separate.
        let owner = match &self.client {
            Some(client) => format!("key {}", client.name),
            None => format!("address {}", self.address),
        };
        let taken = service.limiter.take(&owner, unit, amount, limit, Instant::now());
        taken.map_err(|retry| ApiError::SlowDown { retry })
    }

    /// Whether the key may change the models.
    pub fn is_admin(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.is_admin)
    }
}
