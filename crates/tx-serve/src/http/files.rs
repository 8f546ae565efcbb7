//! Translation of files, as in LibreTranslate.

use std::{borrow::Cow, sync::Arc};

use axum::{
    extract::{Path, Request, State},
    http::{HeaderValue, header},
    response::Response,
};
use bytes::Bytes;
use serde_json::json;
use tx_infer::tx_text::{NotText, encoding};

use super::{
    body::Upload,
    call::Call,
    host,
    libretranslate::{self, IGNORED},
    reply,
};
use crate::{
    deadline::Deadline,
    detect::{self, Guess},
    error::ApiError,
    markup::Format,
    office::{Document, OfficeFormat},
    service::{Service, request},
    subtitles::{SubtitleFormat, Subtitles},
};

/// Parameters besides the file. There is one translation, so there are no alternatives.
const OPTIONS: [&str; 7] = ["source", "target", "format", "line_breaks", "model", "pivot", "beam"];

/// Extensions of the files that are translated.
pub const EXTENSIONS: [&str; 6] = [".txt", ".html", ".srt", ".vtt", ".docx", ".odt"];

/// Decodes a text file.
fn decoded(content: &[u8]) -> Result<Cow<'_, str>, ApiError> {
    if let Some(other) = NotText::of(content) {
        return Err(ApiError::Invalid(format!("the file {other}: {}", other.hint())));
    }
    encoding::decode(content).map_err(|_| {
        ApiError::Invalid("the file is neither UTF-8, nor UTF-16 with a byte order mark".into())
    })
}

/// Byte order mark of UTF-8, which subtitles keep.
const MARK: &str = "\u{feff}";

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
    fn read(
        name: &str,
        content: &Bytes,
        max_bytes: usize,
        format: &mut Format,
        deadline: &Deadline,
    ) -> Result<Self, ApiError> {
        let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        let extension = extension.unwrap_or_default();
        if let Some(office) = OfficeFormat::of_extension(&extension) {
            *format = Format::Html;
            let document = Document::read(content.clone(), office, max_bytes, deadline)?;
            return Ok(Self::Document(Box::new(document)));
        }
        let text = decoded(content);
        if let Some(subtitles) = SubtitleFormat::of_extension(&extension) {
            *format = subtitles.text_format();
            let mut text = text?;
            if content.starts_with(MARK.as_bytes()) {
                text.to_mut().insert_str(0, MARK);
            }
            return Ok(Self::Subtitles(Subtitles::parse(&text, subtitles)));
        }
        match &*extension {
            "txt" | "text" | "md" | "html" | "htm" | "xhtml" => {
                if extension.contains("htm") {
                    *format = Format::Html;
                }
                Ok(Self::Text(text?.into_owned()))
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

    /// Beginning of the file with its format, by which its language is detected.
    fn sample(&self, plain: &[String], format: Format) -> (String, Format) {
        let mut sample = String::new();
        for text in plain {
            if sample.len() >= detect::MAX_BYTES {
                break;
            }
            sample.push_str(text);
            sample.push(' ');
        }
        match self {
            Self::Text(_) | Self::Subtitles(_) => (sample, format),
            Self::Document(_) => (sample, Format::Text),
        }
    }

    /// Returns the file with translations of its texts.
    fn with_texts(self, texts: Vec<String>, deadline: &Deadline) -> Result<Vec<u8>, ApiError> {
        match self {
            Self::Text(_) => Ok(texts.into_iter().next().unwrap_or_default().into_bytes()),
            Self::Subtitles(subtitles) => Ok(subtitles.with_texts(&texts).into_bytes()),
            Self::Document(document) => document.with_texts(&texts, deadline),
        }
    }
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
    let mut request = libretranslate::request(&call.parameters, &call.deadline)?;
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
    let (max_bytes, mut format) = (service.limits().body, request.plan.format);
    let original = content.clone();
    let deadline = call.deadline.clone();
    let read = move || {
        let file = File::read(&name, &content, max_bytes, &mut format, &deadline)?;
        let plain = file.plain_texts();
        Ok::<_, ApiError>((file, plain, format))
    };
    let (file, plain, format) = service.compute(&call.deadline, read).await??;
    request.plan.format = format;
    call.access.characters(service, &plain)?;
    if request.source.is_none() {
        let (sample, format) = file.sample(&plain, format);
        match service.guess(request, &sample, format)? {
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
    let write = move || file.with_texts(answer, &deadline);
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
            plan: request.plan.clone(),
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
