//! Bodies of requests: JSON, forms and forms with files, as one table of parameters.

use axum::{
    Form,
    body::Bytes,
    extract::{FromRequest, Multipart, Query, Request},
    http::{Method, header},
};
use serde_json::{Map, Value};

use crate::error::ApiError;

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

impl Parameters {
    /// Reads the parameters of a request. Those of the address have lower precedence, and cannot contain
    /// a key, because addresses are logged.
    ///
    /// # Errors
    ///
    /// If the body is too large, incomplete or invalid.
    pub async fn read(request: Request) -> Result<Self, ApiError> {
        let content_type = request.headers().get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let essence =
            content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let query = Query::<Vec<(String, String)>>::try_from_uri(request.uri());
        let query = query.map_or_else(|_| Vec::new(), |Query(pairs)| pairs);
        let mut parameters = match &*essence {
            "application/json" => Self::json(&bytes(request).await?)?,
            "application/x-www-form-urlencoded" => Self::form(request).await?,
            "multipart/form-data" => Self::multipart(request).await?,
            "" => {
                let body = bytes(request).await?;
                if body.is_empty() { Self::default() } else { Self::json(&body)? }
            }
            other => {
                return Err(ApiError::MediaType(format!(
                    "`{other}` is not supported; expected JSON or a form"
                )));
            }
        };
        for (name, value) in query {
            if name != "api_key" && !parameters.values.contains_key(&name) {
                parameters.insert(name, value.into());
            }
        }
        Ok(parameters)
    }

    fn json(body: &[u8]) -> Result<Self, ApiError> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(values)) => Ok(Self { values, file: None }),
            Ok(_) => Err(ApiError::Invalid("the body must be a JSON object".into())),
            Err(error) => Err(ApiError::Invalid(format!("the body is not JSON: {error}"))),
        }
    }

    async fn form(mut request: Request) -> Result<Self, ApiError> {
        // Some clients send a form with GET, for which `Form` would read the address.
        *request.method_mut() = Method::POST;
        let form = Form::<Vec<(String, String)>>::from_request(request, &()).await;
        let Form(pairs) = form.map_err(|error| rejected(error.status().as_u16(), "form"))?;
        let mut parameters = Self::default();
        for (name, value) in pairs {
            parameters.insert(name, value.into());
        }
        Ok(parameters)
    }

    async fn multipart(request: Request) -> Result<Self, ApiError> {
        let multipart = Multipart::from_request(request, &()).await;
        let mut multipart = multipart.map_err(|error| rejected(error.status().as_u16(), "form"))?;
        let mut parameters = Self::default();
        loop {
            let field = multipart.next_field().await;
            let field = field.map_err(|error| rejected(error.status().as_u16(), "form"))?;
            let Some(field) = field else { return Ok(parameters) };
            let name = field.name().unwrap_or_default().to_owned();
            let file_name = field.file_name().map(str::to_owned);
            let content = field.bytes().await;
            let content = content.map_err(|error| rejected(error.status().as_u16(), "form"))?;
            match file_name {
                Some(file_name) => parameters.file = Some(Upload { name: file_name, content }),
                None => {
                    let text = String::from_utf8(content.into())
                        .map_err(|_| ApiError::Invalid(format!("`{name}` is not UTF-8")))?;
                    parameters.insert(name, text.into());
                }
            }
        }
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

    /// Returns a text that the request must have.
    ///
    /// # Errors
    ///
    /// If it is missing or of another type.
    pub fn required(&self, name: &str) -> Result<&str, ApiError> {
        let text = self.text(name)?;
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
    pub fn flag(&self, name: &str) -> bool {
        match self.get(name) {
            Some(Value::Bool(flag)) => *flag,
            Some(Value::String(text)) => matches!(&**text, "true" | "1" | "on" | "yes"),
            _ => false,
        }
    }
}

/// Reads a whole body.
///
/// # Errors
///
/// If it is larger than the limit, or the connection fails.
pub async fn bytes(request: Request) -> Result<Bytes, ApiError> {
    let read = Bytes::from_request(request, &()).await;
    read.map_err(|error| rejected(error.status().as_u16(), "body"))
}

fn rejected(status: u16, part: &str) -> ApiError {
    match status {
        413 => ApiError::TooLarge(format!("the {part} is too large")),
        415 => ApiError::MediaType(format!("the {part} has another content type")),
        _ => ApiError::Invalid(format!("the {part} is not valid")),
    }
}
