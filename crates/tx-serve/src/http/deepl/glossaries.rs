//! Glossaries in the interface of DeepL.

use std::sync::Arc;

use axum::{
    extract::{Path, Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tx_infer::{Glossary, GlossaryFormat};

use super::{SMALL, unexpected};
use crate::{
    error::ApiError,
    glossaries::{CLIENT_BYTES, Uploaded},
    http::{call::Call, reply},
    service::Service,
};

/// Parameters of `POST /v2/glossaries`.
const KNOWN: [&str; 5] = ["name", "source_lang", "target_lang", "entries", "entries_format"];

/// Parameter that changes no result.
const IGNORED: [&str; 1] = ["auth_key"];

/// `POST /v2/glossaries`.
pub async fn create(State(service): State<Arc<Service>>, request: Request) -> Response {
    upload(service, request).await.unwrap_or_else(|error| reply::deepl_error(&error))
}

async fn upload(service: Arc<Service>, request: Request) -> Result<Response, ApiError> {
    // Escaped as a form, a byte takes three.
    let call = Call::read_at_most(&service, request, 4 * CLIENT_BYTES).await?;
    let parameters = &call.parameters;
    parameters.only(&KNOWN, &IGNORED)?;
    let name = parameters.required("name")?.to_owned();
    let languages = ["source_lang", "target_lang"].map(|name| parameters.required(name));
    let [source, target] = languages;
    let languages = [source?.to_ascii_lowercase(), target?.to_ascii_lowercase()];
    let format = match parameters.given("entries_format")? {
        None | Some("tsv") => GlossaryFormat::Tsv,
        Some("csv") => GlossaryFormat::Csv,
        Some(other) => return Err(unexpected("entries_format", other, "tsv or csv")),
    };
    let entries = parameters.required("entries")?.to_owned();
    if name.len() > 1_024 || languages.iter().any(|code| code.len() > 64) {
        return Err(ApiError::Invalid("the name or a language of the glossary is too long".into()));
    }
    if entries.len() > CLIENT_BYTES {
        return Err(ApiError::TooLarge(format!("a glossary has at most {CLIENT_BYTES} bytes")));
    }
    // Preparing a glossary takes memory, as reading a document does.
    let _permit = service.admit_document()?;
    let parse = move || {
        let bytes = entries.len() + name.len();
        let glossary = Glossary::parse(&entries, format, None);
        let glossary = glossary.map_err(|error| ApiError::Invalid(error.to_string()))?;
        if glossary.entries().is_empty() {
            return Err(ApiError::Invalid("the glossary has no entries".into()));
        }
        Uploaded::new(name, languages, glossary, bytes)
    };
    let uploaded = service.compute(&call.deadline, parse).await??;
    let uploaded = service.glossaries.add(call.access.owner(), uploaded)?;
    let mut response = reply::json(&described(&uploaded));
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}

/// `GET /v2/glossaries`.
pub async fn list(State(service): State<Arc<Service>>, request: Request) -> Response {
    match Call::read_at_most(&service, request, SMALL).await {
        Ok(call) => {
            let own = service.glossaries.of(&call.access.owner());
            let own: Vec<Value> = own.iter().map(|it| described(it)).collect();
            reply::json(&json!({ "glossaries": own }))
        }
        Err(error) => reply::deepl_error(&error),
    }
}

/// `GET /v2/glossaries/{id}`.
pub async fn get(
    State(service): State<Arc<Service>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    match found(&service, &id, request).await {
        Ok(glossary) => reply::json(&described(&glossary)),
        Err(error) => reply::deepl_error(&error),
    }
}

/// `GET /v2/glossaries/{id}/entries`: lines with a term, a tab and its translation.
pub async fn entries(
    State(service): State<Arc<Service>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    match found(&service, &id, request).await {
        Ok(glossary) => {
            let lines = glossary.glossary.entries().iter().flat_map(|entry| {
                entry.targets.iter().map(|target| format!("{}\t{target}", entry.source))
            });
            let lines: Vec<String> = lines.collect();
            reply::content("text/tab-separated-values; charset=UTF-8", lines.join("\n"))
        }
        Err(error) => reply::deepl_error(&error),
    }
}

async fn found(service: &Service, id: &str, request: Request) -> Result<Arc<Uploaded>, ApiError> {
    let call = Call::read_at_most(service, request, SMALL).await?;
    service.glossaries.uploaded(&call.access.owner(), id)
}

/// `DELETE /v2/glossaries/{id}`.
pub async fn remove(
    State(service): State<Arc<Service>>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let removed = match Call::read_at_most(&service, request, SMALL).await {
        Ok(call) => service.glossaries.remove(&call.access.owner(), &id),
        Err(error) => Err(error),
    };
    match removed {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => reply::deepl_error(&error),
    }
}

/// `GET /v2/glossary-language-pairs`: those of the models.
pub async fn language_pairs(State(service): State<Arc<Service>>, request: Request) -> Response {
    match Call::read_at_most(&service, request, SMALL).await {
        Ok(_) => {
            let languages = service.registry.languages();
            let pairs = languages.sources().flat_map(|source| {
                let targets = source.targets.iter().filter(|target| **target != source.code);
                targets.map(|target| json!({ "source_lang": source.code, "target_lang": target }))
            });
            reply::json(&json!({ "supported_languages": pairs.collect::<Vec<_>>() }))
        }
        Err(error) => reply::deepl_error(&error),
    }
}

fn described(glossary: &Uploaded) -> Value {
    let entries = glossary.glossary.entries().iter().map(|entry| entry.targets.len());
    json!({
        "glossary_id": glossary.id,
        "name": glossary.name,
        "ready": true,
        "source_lang": glossary.source,
        "target_lang": glossary.target,
        "creation_time": glossary.created(),
        "entry_count": entries.sum::<usize>(),
    })
}
