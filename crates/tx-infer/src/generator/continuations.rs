//! Prompts of one call, as search requests.

use std::sync::Arc;

use super::{Continuation, Model, Prompt};
use crate::{
    cancellation::Cancellation,
    error::InferError,
    pool::{Encoded, Placement, Task},
    search::{Hypothesis, Request, SearchOptions},
};

/// Texts to continue.
pub(super) struct Prompts {
    model: Arc<Model>,
    options: SearchOptions,
    texts: Vec<Text>,
}

/// An encoded prompt.
struct Text {
    text: String,
    ids: Vec<u32>,
    number: u64,
}

impl Prompts {
    /// Creates a task for `prompts`.
    ///
    /// # Errors
    ///
    /// If a prompt is too long or cannot be tokenized.
    pub(super) fn new(
        model: Arc<Model>,
        prompts: &[Prompt<'_>],
        options: SearchOptions,
    ) -> Result<Self, InferError> {
        let text = |prompt: &Prompt<'_>| {
            let ids = model.encode_prompt(prompt)?;
            Ok(Text { text: prompt.text.to_owned(), ids, number: prompt.number })
        };
        let texts = prompts.iter().map(text).collect::<Result<Vec<_>, InferError>>()?;
        Ok(Self { model, options, texts })
    }

    fn continuation(
        &self,
        index: usize,
        hypotheses: Vec<Hypothesis>,
    ) -> Result<Continuation, InferError> {
        let Text { text, ids, .. } = &self.texts[index];
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
    /// Number of tokens.
    type Item = usize;
    type Output = Continuation;

    fn texts(&self) -> Vec<(usize, usize)> {
        self.texts.iter().map(|text| text.text.len()).enumerate().collect()
    }

    fn rows(&self) -> usize {
        self.options.rows()
    }

    fn placement(&self) -> Placement {
        self.model.engine.placement()
    }

    fn encode(&self, index: usize) -> Result<usize, InferError> {
        // `<bos>` is a token, too.
        Ok(self.texts[index].ids.len() + 1)
    }

    fn tokens(tokens: &usize) -> usize {
        *tokens
    }

    fn run(
        &self,
        texts: &[Encoded<'_, Self>],
        cancellation: &Cancellation,
    ) -> Result<Vec<Continuation>, InferError> {
        let request = |text: &Encoded<'_, Self>| {
            let Text { ids, number, .. } = &self.texts[text.index];
            Request { prefix: ids, ..Request::new(&[], *number) }
        };
        let requests: Vec<Request<'_>> = texts.iter().map(request).collect();
        let found = self.model.engine.search_requests(&requests, &self.options, cancellation)?;
        let texts = texts.iter().zip(found);
        texts.map(|(text, hypotheses)| self.continuation(text.index, hypotheses)).collect()
    }
}
