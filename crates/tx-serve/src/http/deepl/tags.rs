//! Options of markup: `tag_handling`, `ignore_tags`, `splitting_tags`, `non_splitting_tags` and
//! `outline_detection`.

use serde_json::Value;
use tx_markup::{Format, TagOptions};

use crate::{error::ApiError, http::body::Parameters};

/// Format of the texts, and the treatment of their elements.
///
/// # Errors
///
/// If a value is not accepted, or elements are named for plain text.
pub fn tag_handling(parameters: &Parameters) -> Result<(Format, TagOptions), ApiError> {
    const NAMES: [&str; 3] = ["ignore_tags", "splitting_tags", "non_splitting_tags"];
    let format = match parameters.text("tag_handling")? {
        None | Some("") => Format::Text,
        Some("html") => Format::Html,
        Some("xml") => Format::Xml,
        Some(other) => {
            return Err(ApiError::Invalid(format!(
                "Value for 'tag_handling' not supported: `{other}`; expected `xml` or `html`"
            )));
        }
    };
    let mut names = [const { Vec::new() }; 3];
    for (parameter, names) in NAMES.into_iter().zip(&mut names) {
        *names = tag_names(parameters, parameter)?;
        if format == Format::Text && !names.is_empty() {
            return Err(ApiError::Invalid(format!(
                "`{parameter}` requires `tag_handling` = xml or html"
            )));
        }
        if format == Format::Html {
            names.iter_mut().for_each(|name| name.make_ascii_lowercase());
        }
    }
    let [ignored, splitting, non_splitting] = names;
    let outline = match parameters.get("outline_detection") {
        None => true,
        Some(Value::Bool(flag)) => *flag,
        Some(Value::Number(number)) if number.as_u64() == Some(0) => false,
        Some(Value::Number(number)) if number.as_u64() == Some(1) => true,
        Some(Value::String(text)) => match &**text {
            "0" | "false" => false,
            "" | "1" | "true" => true,
            other => {
                return Err(ApiError::Invalid(format!(
                    "Value for 'outline_detection' not supported: `{other}`; expected 0 or 1"
                )));
            }
        },
        Some(_) => {
            return Err(ApiError::Invalid(
                "Value for 'outline_detection' not supported; expected 0 or 1".into(),
            ));
        }
    };
    Ok((format, TagOptions { ignored, splitting, non_splitting, outline }))
}

/// Names of elements: an array, a repeated parameter, or a list with commas.
fn tag_names(parameters: &Parameters, name: &str) -> Result<Vec<String>, ApiError> {
    if parameters.get(name).is_none() {
        return Ok(Vec::new());
    }
    let (lists, _) = parameters.texts(name)?;
    let names = lists.iter().flat_map(|list| list.split(','));
    Ok(names.map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::http::body;

    fn read(body: Value) -> Result<(Format, TagOptions), ApiError> {
        let body = body.to_string();
        tag_handling(&Parameters::parse(body::Format::Json, body.as_bytes(), 100)?)
    }

    #[test]
    fn names_are_arrays_or_lists() {
        let body = json!({
            "tag_handling": "xml", "ignore_tags": ["x", "Y"], "splitting_tags": "par, title",
            "non_splitting_tags": "", "outline_detection": "0",
        });
        let (format, tags) = read(body).unwrap();
        assert_eq!(format, Format::Xml);
        assert_eq!(
            (tags.ignored, tags.splitting),
            (vec!["x".to_owned(), "Y".to_owned()], vec!["par".to_owned(), "title".to_owned()],)
        );
        assert!(tags.non_splitting.is_empty() && !tags.outline);
        let (format, tags) = read(json!({ "tag_handling": "html", "ignore_tags": ["Y"] })).unwrap();
        assert_eq!(
            (format, tags.ignored, tags.outline),
            (Format::Html, vec!["y".to_owned()], true)
        );
        assert_eq!(read(json!({})).unwrap(), (Format::Text, TagOptions::default()));
    }

    #[test]
    fn values_that_change_nothing_are_refused() {
        for (body, message) in [
            (json!({ "tag_handling": "markdown" }), "tag_handling"),
            (json!({ "ignore_tags": ["x"] }), "requires `tag_handling`"),
            (json!({ "tag_handling": "xml", "ignore_tags": [1] }), "ignore_tags"),
            (json!({ "tag_handling": "xml", "outline_detection": "no" }), "outline_detection"),
            (json!({ "tag_handling": "xml", "outline_detection": 2 }), "outline_detection"),
        ] {
            let error = read(body).unwrap_err();
            assert!(error.status() == 400 && error.to_string().contains(message), "{error}");
        }
    }
}
