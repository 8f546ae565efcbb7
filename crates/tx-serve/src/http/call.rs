//! The way of all requests with a key or a body: what can be checked without the body is checked before
//! it is read.

use axum::extract::Request;
use tokio::sync::OwnedSemaphorePermit;
use tx_infer::{Deadline, deadline::Waiting};

use super::{
    access::{Access, Peer},
    body::{self, Format, Parameters},
};
use crate::{bodies::Held, error::ApiError, service::Service};

/// Bytes of a body from which on another thread parses it.
const LARGE: usize = 64 << 10;

/// A request of a permitted client.
#[derive(Debug)]
pub struct Call {
    /// Parameters of body and address.
    pub parameters: Parameters,
    /// The client.
    pub access: Access,
    /// End of the time for the answer.
    pub deadline: Deadline,
    /// Held until the answer is complete.
    pub guard: Guard,
}

/// Resources of a request in progress. When its client leaves, it is dropped with the future that
/// answers the request.
#[derive(Debug)]
pub struct Guard {
    _waiting: Waiting,
    _permit: OwnedSemaphorePermit,
    _body: Held,
}

impl Call {
    /// Checks headers and key of a request, and reads its parameters within the time limit.
    ///
    /// # Errors
    ///
    /// If the client is not permitted, or the parameters are invalid, too large or too slow.
    pub async fn read(service: &Service, request: Request) -> Result<Self, ApiError> {
        Self::read_at_most(service, request, service.limits().body).await
    }

    /// Same as [`read`](Self::read), with a body of at most `max` bytes.
    ///
    /// # Errors
    ///
    /// Same as [`read`](Self::read).
    pub async fn read_at_most(
        service: &Service,
        request: Request,
        max: usize,
    ) -> Result<Self, ApiError> {
        let deadline = Deadline::after(service.limits().timeout);
        let waiting = deadline.waiting();
        let (parts, body) = request.into_parts();
        let peer = parts.extensions.get::<Peer>().copied();
        let access = Access::of_headers(service, peer, &parts.headers)?;
        let format = Format::of(&parts.headers)?;
        body::check_length(&parts.headers, max)?;
        let mut held = service.bodies.start(access.is_some());
        let read = body::read(body, max, &mut held);
        let read = tokio::time::timeout_at(deadline.end().into(), read).await;
        let body = read.map_err(|_| deadline.error())??;
        let permit = service.admit()?;
        // Each text is a value, in an array of its own for some clients.
        let max_values = service.limits().texts.saturating_mul(4).saturating_add(1_024);
        let (headers, uri) = (parts.headers.clone(), parts.uri.clone());
        let mut parameters = match format {
            Format::Multipart => Parameters::multipart(parts, body, max_values).await?,
            _ if body.len() < LARGE => Parameters::parse(format, &body, max_values)?,
            _ => {
                let parse = move || Parameters::parse(format, &body, max_values);
                service.compute(&deadline, parse).await??
            }
        };
        let access = match access {
            Some(access) => access,
            None => Access::of_body(service, peer, &headers, parameters.text("api_key")?)?,
        };
        parameters.add_query(&uri);
        let guard = Guard { _waiting: waiting, _permit: permit, _body: held };
        Ok(Self { parameters, access, deadline, guard })
    }
}
