//! The way of all requests with a key or a body: what can be checked without the body is checked before
//! it is read.

use std::sync::Arc;

use axum::extract::Request;
use tokio::sync::OwnedSemaphorePermit;
use tx_infer::{Deadline, Glossary, Priority, deadline::Waiting};
use tx_markup::{Format as TextFormat, LineBreaks, PlanOptions};

use super::{
    access::{Access, Peer},
    body::{self, Format, Parameters},
};
use crate::{
    bodies::Held,
    error::ApiError,
    service::{Service, request},
};

/// Parameters that [`Call::request`] reads, besides the texts.
pub const OPTIONS: [&str; 10] = [
    "source",
    "target",
    "format",
    "line_breaks",
    "model",
    "pivot",
    "alternatives",
    "beam",
    "glossary",
    "context",
];

/// Parameters of clients that change no result: `secret` is that of LibreTranslate's own page, `apiKey`
/// that of its npm client, which means `api_key`.
pub const IGNORED: [&str; 2] = ["secret", "apiKey"];

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

    /// Returns the glossary whose name or id is the value of a parameter.
    ///
    /// # Errors
    ///
    /// If the client has none.
    pub fn glossary(
        &self,
        service: &Service,
        parameter: &str,
    ) -> Result<Option<Arc<Glossary>>, ApiError> {
        let id = self.parameters.given(parameter)?;
        id.map(|id| service.glossaries.get(&self.access.owner(), id)).transpose()
    }

    /// Returns a request without texts, with the options that several interfaces read in the same way.
    ///
    /// # Errors
    ///
    /// If one has a value that is not accepted.
    pub fn request(&self, service: &Service) -> Result<request::Request, ApiError> {
        let parameters = &self.parameters;
        let source = parameters.required("source")?;
        let format = match parameters.given("format")? {
            None | Some("text") => TextFormat::Text,
            Some("html") => TextFormat::Html,
            Some(other) => {
                return Err(ApiError::Invalid(format!("{other} format is not supported")));
            }
        };
        let line_breaks = match parameters.given("line_breaks")? {
            None | Some("keep") => LineBreaks::Keep,
            Some("join") => LineBreaks::Join,
            Some(other) => {
                return Err(ApiError::Invalid(format!(
                    "`line_breaks` = {other} must be keep or join"
                )));
            }
        };
        let given = |name: &str| -> Result<Option<String>, ApiError> {
            Ok(parameters.given(name)?.map(str::to_owned))
        };
        Ok(request::Request {
            texts: Vec::new(),
            source: Some(source.to_owned()).filter(|source| source != "auto"),
            target: parameters.required("target")?.to_owned(),
            model: given("model")?,
            pivot: given("pivot")?,
            context: request::Context {
                text: given("context")?.unwrap_or_default(),
                is_document: false,
            },
            plan: PlanOptions { format, line_breaks, ..PlanOptions::default() },
            alternatives: parameters.number("alternatives")?.unwrap_or(0),
            beam: parameters.number("beam")?,
            glossary: self.glossary(service, "glossary")?,
            priority: Priority::Interactive,
            deadline: self.deadline.clone(),
        })
    }
}
