//! Bodies of requests: JSON, forms and forms with files, as one table of parameters.

use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, Multipart, Query, Request},
    http::{HeaderMap, Uri, header, request::Parts},
};
use bytes::BytesMut;
use encoding_rs::Encoding;
use futures_util::StreamExt;
use percent_encoding::percent_decode;
use serde_json::{Map, Value};

use super::json;
use crate::{bodies::Held, error::ApiError};

/// Parameters of a request.
#[derive(Debug, Default)]
pub struct Parameters {
    values: Map<String, Value>,
    /// Uploaded file.
    pub file: Option<Upload>,
}

/// An uploaded file.
#[derive(Debug)]
pub struct Upload {
    /// Name that the client gave.
    pub name: String,
    /// Content.
    pub content: Bytes,
}

/// Format of a body.
#[derive(Debug, Clone, Copy)]
pub enum Format {
    /// JSON, which may be absent.
    Json,
    /// `application/x-www-form-urlencoded` with this encoding.
    Form(&'static Encoding),
    /// `multipart/form-data`.
    Multipart,
}

impl Format {
    /// Format of the body of a request with these headers.
    ///
    /// # Errors
    ///
    /// If it is not supported.
    pub fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let content_type = headers.get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (essence, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
        match &*essence.trim().to_ascii_lowercase() {
            "application/json" | "" => Ok(Self::Json),
            "application/x-www-form-urlencoded" => {
                let charset = parameters.split(';').find_map(|parameter| {
                    let (name, value) = parameter.split_once('=')?;
                    name.trim().eq_ignore_ascii_case("charset").then_some(value)
                });
                let label = charset.map_or("utf-8", |label| label.trim().trim_matches('"'));
                let encoding = Encoding::for_label(label.as_bytes());
                encoding
                    .filter(|encoding| encoding.is_ascii_compatible())
                    .map(Self::Form)
                    .ok_or_else(|| {
                        ApiError::MediaType(format!("the charset `{label}` is not supported"))
                    })
            }
            "multipart/form-data" => Ok(Self::Multipart),
            other => Err(ApiError::MediaType(format!(
                "`{other}` is not supported; expected JSON or a form"
            ))),
        }
    }
}

/// Tests the announced length of a body.
///
/// # Errors
///
/// If it is larger than `max`.
pub fn check_length(headers: &HeaderMap, max: usize) -> Result<(), ApiError> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    match length.and_then(|length| length.parse::<u64>().ok()) {
        Some(length) if length > max as u64 => Err(too_large(max)),
        _ => Ok(()),
    }
}

/// Reads a body.
///
/// # Errors
///
/// If it is larger than `max`, those of all requests are too large, or the connection fails.
pub async fn read(body: Body, max: usize, held: &mut Held) -> Result<Bytes, ApiError> {
    let mut chunks = body.into_data_stream();
    let mut bytes = BytesMut::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| ApiError::Invalid("the body is not complete".into()))?;
        if bytes.len() + chunk.len() > max {
            return Err(too_large(max));
        }
        held.add(chunk.len())?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}

fn too_large(max: usize) -> ApiError {
    ApiError::TooLarge(format!("the body is too large; the limit is {max} bytes"))
}

impl Parameters {
    /// Parses JSON or a form with at most `max` values.
    ///
    /// # Errors
    ///
    /// If it is invalid, or has more values.
    pub fn parse(format: Format, body: &[u8], max: usize) -> Result<Self, ApiError> {
        match format {
            Format::Json if body.is_empty() => Ok(Self::default()),
            Format::Json => match json::parse(body, max)? {
                Value::Object(values) => Ok(Self { values, file: None }),
                _ => Err(ApiError::Invalid("the body must be a JSON object".into())),
            },
            Format::Form(encoding) => Self::form(body, encoding, max),
            Format::Multipart => Err(ApiError::Internal),
        }
    }

    fn form(body: &[u8], encoding: &'static Encoding, max: usize) -> Result<Self, ApiError> {
        let decoded = |text: &[u8]| -> Result<String, ApiError> {
            let spaced: Vec<u8> =
                text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
            let bytes: Vec<u8> = percent_decode(&spaced).collect();
            let text = encoding.decode_without_bom_handling_and_without_replacement(&bytes);
            let wrong = || ApiError::Invalid(format!("the form is not {}", encoding.name()));
            Ok(text.ok_or_else(wrong)?.into_owned())
        };
        let mut parameters = Self::default();
        for (index, pair) in body.split(|byte| *byte == b'&').enumerate() {
            if index >= max {
                return Err(too_many(max));
            }
            if !pair.is_empty() {
                let end = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
                let value = pair.get(end + 1..).unwrap_or_default();
                parameters.insert(decoded(&pair[..end])?, decoded(value)?.into());
            }
        }
        Ok(parameters)
    }

    /// Parses a form with files.
    ///
    /// # Errors
    ///
    /// Same as [`parse`](Self::parse).
    pub async fn multipart(parts: Parts, body: Bytes, max: usize) -> Result<Self, ApiError> {
        let request = Request::from_parts(parts, Body::from(body));
        let multipart = Multipart::from_request(request, &()).await;
        let mut multipart = multipart.map_err(|error| rejected(error.status().as_u16()))?;
        let mut parameters = Self::default();
        for _ in 0..max {
            let field = multipart.next_field().await;
            let field = field.map_err(|error| rejected(error.status().as_u16()))?;
            let Some(field) = field else { return Ok(parameters) };
            let name = field.name().unwrap_or_default().to_owned();
            let file_name = field.file_name().map(str::to_owned);
            let content = field.bytes().await;
            let content = content.map_err(|error| rejected(error.status().as_u16()))?;
            match file_name {
                Some(_) if name != "file" => {
                    return Err(ApiError::Invalid(format!(
                        "`{name}` is not a parameter for files; expected `file`"
                    )));
                }
                Some(_) if parameters.file.is_some() => {
                    return Err(ApiError::Invalid("the request has more than one file".into()));
                }
                Some(file_name) => parameters.file = Some(Upload { name: file_name, content }),
                None => {
                    let text = String::from_utf8(content.into())
                        .map_err(|_| ApiError::Invalid(format!("`{name}` is not UTF-8")))?;
                    parameters.insert(name, text.into());
                }
            }
        }
        Err(too_many(max))
    }

    /// Adds the parameters of an address. They have lower precedence than those of the body, and cannot
    /// contain a key, because addresses are logged.
    pub fn add_query(&mut self, uri: &Uri) {
        let query = Query::<Vec<(String, String)>>::try_from_uri(uri);
        let Ok(Query(pairs)) = query else { return };
        let mut added = Self::default();
        for (name, value) in pairs {
            if name != "api_key" && !self.values.contains_key(&name) {
                added.insert(name, value.into());
            }
        }
        self.values.append(&mut added.values);
    }

    /// Adds a value; a repeated name becomes an array.
    fn insert(&mut self, name: String, value: Value) {
        match self.values.get_mut(&name) {
            Some(Value::Array(values)) => values.push(value),
            Some(first) => *first = Value::Array(vec![first.take(), value]),
            None => {
                self.values.insert(name, value);
            }
        }
    }

    /// Tests the names of all parameters: `known` ones of the route, and `ignored` ones, which do not
    /// change its result.
    ///
    /// # Errors
    ///
    /// If there is another one, which the client expects to change the result.
    pub fn only(&self, known: &[&str], ignored: &[&str]) -> Result<(), ApiError> {
        let is_unknown = |name: &&String| {
            ![known, ignored, &["api_key"]].iter().any(|names| names.contains(&&***name))
        };
        match self.values.keys().find(is_unknown) {
            None => Ok(()),
            Some(name) => Err(ApiError::Invalid(format!(
                "Invalid request: `{}` is not a parameter of this request; expected {}",
                shortened(name),
                known.join(", ")
            ))),
        }
    }

    /// Returns a value.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name).filter(|value| !value.is_null())
    }

    /// Returns a text.
    ///
    /// # Errors
    ///
    /// If the value is of another type.
    pub fn text(&self, name: &str) -> Result<Option<&str>, ApiError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(ApiError::Invalid(format!("Invalid request: {name} must be a string"))),
        }
    }

    /// Returns a text, unless it is empty.
    ///
    /// # Errors
    ///
    /// If the value is of another type.
    pub fn given(&self, name: &str) -> Result<Option<&str>, ApiError> {
        Ok(self.text(name)?.filter(|text| !text.is_empty()))
    }

    /// Returns a text that the request must have, and that is not empty.
    ///
    /// # Errors
    ///
    /// If it is missing or of another type.
    pub fn required(&self, name: &str) -> Result<&str, ApiError> {
        let text = self.given(name)?;
        text.ok_or_else(|| ApiError::Invalid(format!("Invalid request: missing {name} parameter")))
    }

    /// Returns one or more texts, and whether they are an array.
    ///
    /// # Errors
    ///
    /// If they are missing or of another type.
    pub fn texts(&self, name: &str) -> Result<(Vec<String>, bool), ApiError> {
        let wrong = || {
            ApiError::Invalid(format!(
                "Invalid request: {name} must be a string or an array of strings"
            ))
        };
        match self.get(name) {
            None => Err(ApiError::Invalid(format!("Invalid request: missing {name} parameter"))),
            Some(Value::String(text)) => Ok((vec![text.clone()], false)),
            Some(Value::Array(values)) => {
                let texts = values.iter().map(|value| value.as_str().map(str::to_owned));
                Ok((texts.collect::<Option<_>>().ok_or_else(wrong)?, true))
            }
            Some(_) => Err(wrong()),
        }
    }

    /// Returns a number, which forms contain as text.
    ///
    /// # Errors
    ///
    /// If the value is not a whole number from 0.
    pub fn number(&self, name: &str) -> Result<Option<usize>, ApiError> {
        let wrong =
            || ApiError::Invalid(format!("Invalid request: {name} must be a number from 0"));
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => text.parse().map(Some).map_err(|_| wrong()),
            Some(value) => {
                let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
                number.map(Some).ok_or_else(wrong)
            }
        }
    }

    /// Returns a switch; `false` if it is missing.
    ///
    /// # Errors
    ///
    /// If the value is neither `true` nor `false`, nor a usual form of them in a form.
    pub fn flag(&self, name: &str) -> Result<bool, ApiError> {
        let found = match self.get(name) {
            None => Some(false),
            Some(Value::Bool(flag)) => Some(*flag),
            Some(Value::Number(number)) if number.as_u64() == Some(0) => Some(false),
            Some(Value::Number(number)) if number.as_u64() == Some(1) => Some(true),
            Some(Value::String(text)) => match &*text.to_ascii_lowercase() {
                "true" | "1" | "on" | "yes" => Some(true),
                "false" | "0" | "off" | "no" | "" => Some(false),
                _ => None,
            },
            Some(_) => None,
        };
        found.ok_or_else(|| {
            ApiError::Invalid(format!("Invalid request: {name} must be true or false"))
        })
    }
}

/// Beginning of a value of a client, for messages.
pub fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(80)]
}

fn too_many(max: usize) -> ApiError {
    ApiError::Invalid(format!("the form has more than {max} values"))
}

fn rejected(status: u16) -> ApiError {
    match status {
        413 => ApiError::TooLarge("the form is too large".into()),
        415 => ApiError::MediaType("the form has another content type".into()),
        _ => ApiError::Invalid("the form is not valid".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(content_type: &str, body: &[u8]) -> Result<Value, ApiError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        Ok(Value::Object(Parameters::parse(Format::of(&headers)?, body, 5)?.values))
    }

    #[test]
    fn forms_have_their_charset() {
        let plain = "application/x-www-form-urlencoded";
        let latin = "application/x-www-form-urlencoded; charset=\"ISO-8859-1\"";
        let expected = serde_json::json!({ "q": "le café noir" });
        for (content_type, body) in [
            (plain, &b"q=le+caf%C3%A9%20noir"[..]),
            (plain, "q=le+café noir".as_bytes()),
            (latin, b"q=le+caf%E9+noir"),
            (plain, "q=le+café%20noir".as_bytes()),
            (latin, b"q=le+caf\xe9%20noir"),
        ] {
            assert_eq!(form(content_type, body).unwrap(), expected, "{content_type}");
        }
        assert!(form(plain, b"q=caf%E9").is_err() && form(plain, b"q=caf\xe9").is_err());
        let unknown = "application/x-www-form-urlencoded; charset=klingon";
        assert_eq!(form(unknown, b"q=a").unwrap_err().status(), 415);
        let several = serde_json::json!({ "q": ["a", "b"], "e": "" });
        assert_eq!(form(plain, b"q=a&&q=b&e").unwrap(), several);
        assert!(form(plain, b"a&b&c&d&e&f").unwrap_err().to_string().contains("more than 5"));
    }

    #[test]
    fn switches_have_two_values() {
        let body = br#"{"a":true,"b":"off","c":1,"d":"maybe","e":2}"#;
        let parameters = Parameters::parse(Format::Json, body, 9).unwrap();
        for (name, expected) in
            [("a", Some(true)), ("b", Some(false)), ("c", Some(true)), ("d", None), ("e", None)]
        {
            assert_eq!(parameters.flag(name).ok(), expected, "{name}");
        }
        assert_eq!(parameters.flag("none"), Ok(false));
    }
}
