//! Keys and limits of the clients of a request.

use std::{net::IpAddr, time::Instant};

use axum::http::{HeaderMap, header};

use crate::{
    error::ApiError,
    keys::{Client, Keys},
    limiter::{Owner, Unit},
    service::Service,
};

/// Address of the peer of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// Requests with wrong keys that an address may make per minute, without a limit of the operator.
const REFUSALS_PER_MINUTE: u32 = 60;

/// Address of the client: the peer, or the address that a trusted proxy gives.
pub fn address(service: &Service, peer: Option<Peer>, headers: &HeaderMap) -> String {
    // A proxy adds its entry behind those of the client: to the last header, or as another one.
    let forwarded = headers.get_all("x-forwarded-for").iter().next_back();
    let forwarded = forwarded.and_then(|value| value.to_str().ok());
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
    /// Checks the key in the headers of a request, and counts the request. `None` if a key is needed and
    /// the headers have none, so that the body may have it.
    ///
    /// # Errors
    ///
    /// If the key is not valid, or too many requests were made.
    pub fn of_headers(
        service: &Service,
        peer: Option<Peer>,
        headers: &HeaderMap,
    ) -> Result<Option<Self>, ApiError> {
        let address = address(service, peer, headers);
        let Some(keys) = service.keys() else {
            return Self { client: None, address }.counted(service).map(Some);
        };
        match key_of(headers).filter(|key| !key.is_empty()) {
            None => Ok(None),
            Some(key) => Self::of_key(service, &keys, key, address).map(Some),
        }
    }

    /// Checks the key in the body of a request whose headers have none, and counts the request.
    ///
    /// # Errors
    ///
    /// If the key is missing or not valid, or too many requests were made.
    pub fn of_body(
        service: &Service,
        peer: Option<Peer>,
        headers: &HeaderMap,
        key: Option<&str>,
    ) -> Result<Self, ApiError> {
        let address = address(service, peer, headers);
        let Some(keys) = service.keys() else {
            return Self { client: None, address }.counted(service);
        };
        match key.filter(|key| !key.is_empty()) {
            Some(key) => Self::of_key(service, &keys, key, address),
            None => {
                let message = "Please contact the server operator to get an API key";
                Err(refused(service, &address, message))
            }
        }
    }

    fn of_key(
        service: &Service,
        keys: &Keys,
        key: &str,
        address: String,
    ) -> Result<Self, ApiError> {
        match keys.client(key) {
            Some(client) => Self { client: Some(client.clone()), address }.counted(service),
            None => Err(refused(service, &address, "Invalid API key")),
        }
    }

    fn counted(self, service: &Service) -> Result<Self, ApiError> {
        let limit = match &self.client {
            Some(client) => client.requests_per_minute,
            None => service.limits().requests_per_minute,
        };
        self.take(service, Unit::Requests, 1, limit)?;
        Ok(self)
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
        let taken = service.limiter.take(&self.owner(), unit, amount, limit, Instant::now());
        taken.map_err(|retry| ApiError::SlowDown { retry })
    }

    /// Owner of limits and files. Names of keys and addresses are separate.
    pub fn owner(&self) -> Owner {
        match &self.client {
            Some(client) => format!("key {}", client.name),
            None => format!("address {}", self.address),
        }
    }

    /// Whether the key may change the models.
    pub fn is_admin(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.is_admin)
    }
}

/// Error of a request without a valid key, which its address is charged with. Requests with valid keys
/// from the same address are not affected: others may share it.
fn refused(service: &Service, address: &str, message: &'static str) -> ApiError {
    let limit = service.limits().requests_per_minute.unwrap_or(REFUSALS_PER_MINUTE);
    let owner = format!("address {address}");
    match service.limiter.take(&owner, Unit::Refusals, 1, limit, Instant::now()) {
        Ok(()) => ApiError::Forbidden(message),
        Err(retry) => ApiError::SlowDown { retry },
    }
}
