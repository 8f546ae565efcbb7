//! Translation of files, as in LibreTranslate.

use std::sync::Arc;

use axum::{
    extract::{Path, Request, State},
    http::{HeaderValue, header},
    response::Response,
};
use bytes::Bytes;
use serde_json::json;

use super::{
    libretranslate::{self, permitted},
    reply,
};
use crate::{
    error::ApiError,
    markup::Format,
    office::{Document, OfficeFormat},
    service::{self, Service},
    subtitles::{SubtitleFormat, Subtitles},
};

/// Extensions of the files that are translated.
pub const EXTENSIONS: [&str; 6] = [".txt", ".html", ".srt", ".vtt", ".docx", ".odt"];

/// A file to translate.
enum File {
    /// One text, plain or HTML.
    Text(String),
    Subtitles(Subtitles),
    Document(Box<Document>),
}

impl File {
    /// Reads a file by its extension, and sets the format of its texts. `max_bytes` limits the text of a
    /// compressed file.
    async fn read(
        name: &str,
        content: &Bytes,
        max_bytes: usize,
        format: &mut Format,
    ) -> Result<Self, ApiError> {
        let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        let extension = extension.unwrap_or_default();
        if let Some(office) = OfficeFormat::of_extension(&extension) {
            *format = Format::Html;
            let content = content.clone();
            let read = service::blocking(move || Document::read(content, office, max_bytes));
            return Ok(Self::Document(Box::new(read.await??)));
        }
        let text = std::str::from_utf8(content);
        let text = text.map_err(|_| ApiError::Invalid("the file is not UTF-8".into()));
        if let Some(subtitles) = SubtitleFormat::of_extension(&extension) {
            *format = subtitles.text_format();
            return Ok(Self::Subtitles(Subtitles::parse(text?, subtitles)));
        }
        match &*extension {
            "txt" | "text" | "md" | "html" | "htm" | "xhtml" => {
                if extension.contains("htm") {
                    *format = Format::Html;
                }
                Ok(Self::Text(text?.trim_start_matches('\u{feff}').to_owned()))
            }
            _ => Err(ApiError::Invalid(format!(
                "Invalid request: file format not supported; expected {}",
                EXTENSIONS.join(", ")
            ))),
        }
    }

    /// The texts to translate.
    fn texts(&self) -> Vec<String> {
        match self {
            Self::Text(text) => vec![text.clone()],
            Self::Subtitles(subtitles) => subtitles.texts(),
            Self::Document(document) => document.texts(),
        }
    }

    /// The texts without formatting, for the limits of the client.
    fn plain_texts(&self) -> Vec<String> {
        match self {
            Self::Text(_) | Self::Subtitles(_) => self.texts(),
            Self::Document(document) => document.plain_texts(),
        }
    }

    /// Whether the file has one language, although it has several texts.
    fn is_detected_as_one(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::Subtitles(_) | Self::Document(_) => true,
        }
    }

    /// Returns the file with translations of its texts.
    async fn with_texts(self, texts: Vec<String>) -> Result<Vec<u8>, ApiError> {
        match self {
            Self::Text(_) => Ok(texts.into_iter().next().unwrap_or_default().into_bytes()),
            Self::Subtitles(subtitles) => Ok(subtitles.with_texts(&texts).into_bytes()),
            Self::Document(document) => {
                service::blocking(move || document.with_texts(&texts)).await?
            }
        }
    }
}

/// `POST /translate_file`.
pub async fn translate_file(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.map(str::to_owned);
    let (parameters, access) = permitted(&service, request).await?;
    let Some(upload) = &parameters.file else {
        return Err(ApiError::Invalid("Invalid request: missing file parameter".into()));
    };
    let mut request = libretranslate::request(&parameters)?;
    let max_bytes = service.limits().body;
    let file = {
        // A document takes memory.
        let _permit = service.admit()?;
        File::read(&upload.name, &upload.content, max_bytes, &mut request.plan.format).await?
    };
    let plain = file.plain_texts();
    if request.source.is_none() && file.is_detected_as_one() {
        let detected = service.detect(&plain.join(" "));
        request.source = detected.map(|detected| detected.language);
    }
    access.characters(&service, &plain)?;
    request.texts = file.texts();
    let answer = translate_in_parts(&service, request).await?;
    let content = file.with_texts(answer).await?;
    let name = file_name(&upload.name);
    let id = service.downloads.add(name.clone(), content);
    let path = format!("download_file/{id}/{name}");
    let url = match host {
        Some(host) => format!("http://{host}/{path}"),
        None => format!("/{path}"),
    };
    Ok(reply::json(&json!({ "translatedFileUrl": url })))
}

/// Translates more texts than a request may have, part by part.
async fn translate_in_parts(
    service: &Arc<Service>,
    request: service::Request,
) -> Result<Vec<String>, ApiError> {
    let mut translated = Vec::with_capacity(request.texts.len());
    for texts in parts(&request.texts, service.limits().texts, service.limits().characters) {
        let part = service::Request { texts: texts.to_vec(), ..request.clone() };
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
