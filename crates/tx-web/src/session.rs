//! Answers to requests of the host.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tx_infer::Bundle;

use crate::{
    buffers::Buffers,
    model::Model,
    problem::Problem,
    request::{OnPart, Request},
};

/// Open models, and the buffers of the host.
///
/// ```
/// use tx_web::Session;
///
/// let mut session = Session::default();
/// let request = session.buffers.add(br#"{"call": "close", "model": 3}"#.to_vec());
/// let response = session.answer(request, &mut |_| true);
/// assert_eq!(session.buffers.take(response).unwrap(), br#"{"error":"there is no model 3"}"#);
/// ```
#[derive(Debug, Default)]
pub struct Session {
    /// Buffers of the host.
    pub buffers: Buffers,
    models: BTreeMap<u32, Model>,
    /// Number of models that were opened.
    opened: u32,
}

impl Session {
    /// Answers the request in a buffer, which is removed. Returns the buffer of the response: the
    /// result, or an object with the field `error`, and possibly `hint`.
    pub fn answer(&mut self, request: u32, part: OnPart<'_>) -> u32 {
        let bytes = self.buffers.take(request).unwrap_or_default();
        let response = match serde_json::from_slice(&bytes) {
            Ok(request) => self.run(request, part),
            Err(error) => Err(Problem::from(format!("the request is invalid: {error}"))),
        };
        let response = response.unwrap_or_else(|Problem { message, hint }| {
            let mut error = json!({ "error": message });
            if let Some(hint) = hint {
                error["hint"] = hint.into();
            }
            error
        });
        self.buffers.add(response.to_string().into_bytes())
    }

    fn run(&mut self, request: Request, part: OnPart<'_>) -> Result<Value, Problem> {
        match request {
            Request::Open { archive, files, precision } => {
                let bundle = self.bundle(archive, files)?;
                let precision = match precision {
                    Some(name) => name.parse().map_err(Problem::from)?,
                    None => bundle.precision(),
                };
                let model = Model::new(&bundle, precision)?;
                let number = self.opened;
                self.opened += 1;
                let mut description = model.describe(&bundle, precision);
                description["model"] = number.into();
                self.models.insert(number, model);
                Ok(description)
            }
            Request::Close { model } => {
                self.models.remove(&model).ok_or_else(|| missing(model))?;
                Ok(Value::Null)
            }
            Request::Translate { model, texts, languages, options } => {
                self.model(model)?.translate(&texts, &languages, options)
            }
            Request::Score { model, pairs, languages } => {
                self.model(model)?.score(&pairs, &languages)
            }
            Request::Attention { model, text, target, languages } => {
                self.model(model)?.attention(&text, target.as_deref(), &languages)
            }
            Request::Inside { model, text, prefix, ablations, languages, options } => {
                self.model(model)?.inside(&text, &prefix, &ablations, &languages, options)
            }
            Request::Classify { model, texts, top_k } => self.model(model)?.classify(&texts, top_k),
            Request::Generate { model, texts, stream, options } => {
                self.model(model)?.generate(&texts, stream.then_some(part), options)
            }
            Request::FillMask { model, texts, top_k } => self.model(model)?.fill(&texts, top_k),
        }
    }

    fn model(&self, number: u32) -> Result<&Model, Problem> {
        self.models.get(&number).ok_or_else(|| missing(number))
    }

    /// Opens the bundle whose bytes are in buffers.
    fn bundle(
        &mut self,
        archive: Option<u32>,
        files: BTreeMap<String, u32>,
    ) -> Result<Bundle, Problem> {
        let mut take = |number| {
            let bytes = self.buffers.take(number);
            bytes.ok_or_else(|| Problem::from(format!("there is no buffer {number}")))
        };
        Ok(match archive {
            Some(_) if !files.is_empty() => {
                return Err(Problem::from("`archive` and `files` exclude each other".to_owned()));
            }
            Some(number) => Bundle::from_archive(take(number)?)?,
            None => {
                let files = files.into_iter().map(|(name, number)| Ok((name, take(number)?)));
                Bundle::from_files(files.collect::<Result<_, Problem>>()?)?
            }
        })
    }
}

fn missing(model: u32) -> Problem {
    format!("there is no model {model}").into()
}

#[cfg(test)]
mod tests;
