//! Translation of files, as in LibreTranslate.

use std::sync::Arc;

use axum::{
    extract::{Path, Request, State},
    http::{HeaderValue, header},
    response::Response,
};
use serde_json::json;
use tx_infer::{Deadline, Priority};
use tx_markup::{File, FileFormat, Format};

use super::{
    body::Upload,
    call::{Call, IGNORED},
    host, reply,
};
use crate::{
    detect::{self, Guess},
    error::ApiError,
    service::{Service, request},
};

/// Parameters besides the file. There is one translation, so there are no alternatives.
const OPTIONS: [&str; 7] = ["source", "target", "format", "line_breaks", "model", "pivot", "beam"];

/// Extensions of the files that are translated.
pub const EXTENSIONS: [&str; 6] = [".txt", ".html", ".srt", ".vtt", ".docx", ".odt"];

/// Format of a file by its name.
fn format_of(name: &str) -> Result<FileFormat, ApiError> {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    match FileFormat::of_extension(extension) {
        Some(FileFormat::Xml) | None => Err(ApiError::Invalid(format!(
            "Invalid request: file format not supported; expected {}",
            EXTENSIONS.join(", ")
        ))),
        Some(format) => Ok(format),
    }
}

/// Beginning of a file, by which its language is detected.
fn sample(plain: &[String]) -> String {
    let mut sample = String::new();
    for text in plain {
        if sample.len() >= detect::MAX_BYTES {
            break;
        }
        sample.push_str(text);
        sample.push(' ');
    }
    sample
}

/// `POST /translate_file`.
pub async fn translate_file(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let base = host::base_url(&service, &request);
    let mut call = Call::read(&service, request).await?;
    let Some(upload) = call.parameters.file.take() else {
        return Err(ApiError::Invalid("Invalid request: missing file parameter".into()));
    };
    call.parameters.only(&OPTIONS, &IGNORED)?;
    let mut request = call.request(&service)?;
    request.priority = Priority::Bulk;
    // What is read from a file takes more memory than the file, until its translation is written.
    let _permit = service.admit_document()?;
    let name = file_name(&upload.name);
    let (content, copied) = translated(&service, &call, &mut request, upload).await?;
    let id = service.downloads.add(call.access.owner(), name.clone(), content)?;
    let mut answer = json!({ "translatedFileUrl": format!("{base}/download_file/{id}/{name}") });
    if copied {
        answer["copied"] = true.into();
    }
    Ok(reply::json(&answer))
}

/// Returns the translated file, and whether it was copied because it is in the target language.
async fn translated(
    service: &Arc<Service>,
    call: &Call,
    request: &mut request::Request,
    upload: Upload,
) -> Result<(Vec<u8>, bool), ApiError> {
    let Upload { name, content } = upload;
    let (max_bytes, format) = (service.limits().body, format_of(&name)?);
    let original = content.clone();
    let deadline = call.deadline.clone();
    let read = move || {
        let file = File::read(content, format, max_bytes, &deadline)?;
        let plain = file.plain_texts();
        Ok::<_, ApiError>((file, plain))
    };
    let (file, plain) = service.compute(&call.deadline, read).await??;
    // The client chooses the format of plain text.
    if format != FileFormat::Text {
        request.plan.format = format.text_format();
    }
    call.access.characters(service, &plain)?;
    if request.source.is_none() {
        let format = match format {
            FileFormat::Office(_) => Format::Text,
            _ => request.plan.format,
        };
        match service.guess(request, &sample(&plain), format)? {
            Guess::Source(found) => request.source = Some(found.language),
            Guess::Target(_) => {
                service.metrics.copied();
                return Ok((original.into(), true));
            }
        }
    }
    drop(plain);
    request.texts = file.texts();
    let answer = translate_in_parts(service, request, &call.deadline).await?;
    let deadline = call.deadline.renewed();
    let waiting = deadline.clone();
    let write = move || file.with_texts(&answer, &deadline);
    Ok((service.compute(&waiting, write).await??, false))
}

/// Translates more texts than a request may have, part by part, each of which has the time of a request.
async fn translate_in_parts(
    service: &Arc<Service>,
    request: &request::Request,
    deadline: &Deadline,
) -> Result<Vec<String>, ApiError> {
    let mut translated = Vec::with_capacity(request.texts.len());
    for texts in parts(&request.texts, service.limits().texts, service.limits().characters) {
        let part = request::Request {
            texts: texts.to_vec(),
            deadline: deadline.renewed(),
            source: request.source.clone(),
            target: request.target.clone(),
            model: request.model.clone(),
            pivot: request.pivot.clone(),
            context: request::Context { is_document: true, ..request.context.clone() },
            plan: request.plan.clone(),
            glossary: request.glossary.clone(),
            ..*request
        };
        let answer = service.translate(part).await?;
        translated.extend(answer.texts.into_iter().map(|text| text.text));
    }
    Ok(translated)
}

/// Divides texts into parts with at most so many texts and characters. A longer text is a part.
fn parts(texts: &[String], max_texts: usize, max_characters: usize) -> Vec<&[String]> {
    let (mut parts, mut start, mut characters) = (Vec::new(), 0, 0);
    for (index, text) in texts.iter().enumerate() {
        let length = text.chars().count();
        if index > start && (index - start >= max_texts || characters + length > max_characters) {
            parts.push(&texts[start..index]);
            (start, characters) = (index, 0);
        }
        characters += length;
    }
    if start < texts.len() {
        parts.push(&texts[start..]);
    }
    parts
}

/// A name of a file without a path, for addresses and headers.
fn file_name(name: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name: String = name.chars().map(|c| if is_safe(c) { c } else { '_' }).collect();
    format!("translated_{}", name.trim_start_matches('.'))
}

/// `GET /download_file/…`.
pub async fn download(
    State(service): State<Arc<Service>>,
    Path((id, _)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let missing = || ApiError::NotFound("the file does not exist, or has expired".into());
    let file = service.downloads.get(&id).ok_or_else(missing)?;
    // Never shown by a browser as a page of this server.
    let mut response = reply::content("application/octet-stream", file.content);
    let disposition = HeaderValue::from_str(&format!("attachment; filename=\"{}\"", file.name));
    if let Ok(disposition) = disposition {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, disposition);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_the_limits_of_a_request() {
        let texts = ["aaa", "bb", "c", "dddddd", "e", ""].map(String::from);
        let found = |max_texts, max_characters| {
            let parts = parts(&texts, max_texts, max_characters);
            parts.iter().map(|part| part.concat()).collect::<Vec<_>>()
        };
        assert_eq!(found(2, 5), ["aaabb", "c", "dddddd", "e"]);
        assert_eq!(found(9, 6), ["aaabbc", "dddddd", "e"]);
        assert_eq!(found(0, 0).len(), 6);
        assert!(parts(&[], 1, 1).is_empty());
    }
}
