//! Prompts of one call, as search requests.

use std::sync::Arc;

use super::{Continuation, Model, Prompt};
use crate::{
    cancellation::Cancellation,
    error::InferError,
    pool::{Encoded, Placement, Task},
    search::{Hypothesis, Request, SearchOptions},
};

/// Continuation of the texts of one call.
pub(super) struct Prompts {
    pub(super) model: Arc<Model>,
    pub(super) options: SearchOptions,
}

/// An encoded prompt.
pub(super) struct Text {
    text: String,
    ids: Vec<u32>,
    number: u64,
}

impl Prompts {
    /// Returns the encoded prompt.
    ///
    /// # Errors
    ///
    /// If it is too long or cannot be tokenized.
    pub(super) fn text(&self, prompt: &Prompt<'_>) -> Result<Text, InferError> {
        let ids = self.model.encode_prompt(prompt)?;
        Ok(Text { text: prompt.text.to_owned(), ids, number: prompt.number })
    }

    fn continuation(
        &self,
        text: &Text,
        hypotheses: Vec<Hypothesis>,
    ) -> Result<Continuation, InferError> {
        let Text { text, ids, .. } = text;
        let hypotheses = hypotheses.into_iter();
        let hypotheses = hypotheses.map(|found| self.model.scored(text, ids.len(), found));
        let hypotheses = hypotheses.collect::<Result<Vec<_>, _>>()?;
        Ok(Continuation {
            text: hypotheses.first().map(|best| best.text.clone()).unwrap_or_default(),
            hypotheses,
            unknown: self.model.unknown_words(text, ids)?,
        })
    }
}

impl Task for Prompts {
    type Text = Text;
    /// Number of tokens.
    type Item = usize;
    type Output = Continuation;

    fn bytes(text: &Text) -> usize {
        text.text.len()
    }

    fn rows(&self) -> usize {
        self.options.rows()
    }

    fn placement(&self) -> Placement {
        self.model.engine.placement()
    }

    fn encode(&self, text: &Text) -> Result<usize, InferError> {
        // `<bos>` is a token, too.
        Ok(text.ids.len() + 1)
    }

    fn tokens(tokens: &usize) -> usize {
        *tokens
    }

    fn run(
        &self,
        texts: &[Encoded<'_, Self>],
        cancellation: &Cancellation,
    ) -> Result<Vec<Continuation>, InferError> {
        let requests = texts.iter().map(|text| {
            let Text { ids, number, .. } = text.text;
            Request { prefix: ids, ..Request::new(&[], *number) }
        });
        let requests: Vec<Request<'_>> = requests.collect();
        let found = self.model.engine.search_requests(&requests, &self.options, cancellation)?;
        let texts = texts.iter().zip(found);
        texts.map(|(text, hypotheses)| self.continuation(text.text, hypotheses)).collect()
    }
}
