//! Prompts of one call, as batches of search requests.

use std::{ops::Range, sync::Arc};

use super::{Continuation, Model, Prompt};
use crate::{
    cancellation::Cancellation,
    error::InferError,
    pool::{Batches, Claims, Limits, Task},
    search::{Hypothesis, Request, SearchOptions},
};

/// Texts to continue.
pub(super) struct Prompts {
    model: Arc<Model>,
    options: SearchOptions,
    texts: Vec<Text>,
    batches: Batches,
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
        limits: Limits,
    ) -> Result<Self, InferError> {
        let text = |prompt: &Prompt<'_>| {
            let ids = model.encode_prompt(prompt)?;
            Ok(Text { text: prompt.text.to_owned(), ids, number: prompt.number })
        };
        let texts = prompts.iter().map(text).collect::<Result<Vec<_>, InferError>>()?;
        let bytes = texts.iter().map(|text| text.text.len()).enumerate();
        let batches = Batches::new(bytes, limits);
        Ok(Self { model, options, texts, batches })
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
    type Output = Continuation;

    fn items(&self) -> &dyn Claims {
        &self.batches
    }

    fn run(
        &self,
        batch: Range<usize>,
        cancellation: &Cancellation,
        put: &mut dyn FnMut(Vec<(usize, Continuation)>),
    ) -> Result<(), InferError> {
        let mut texts = self.batches.texts(batch.clone()).to_vec();
        // `<bos>` is a token, too.
        let tokens = |index: &usize| self.texts[*index].ids.len() + 1;
        self.batches.learn(batch, texts.iter().map(tokens).sum());
        for texts in self.batches.split(&mut texts, tokens) {
            let request = |&index: &usize| {
                let Text { ids, number, .. } = &self.texts[index];
                Request { prefix: ids, ..Request::new(&[], *number) }
            };
            let requests: Vec<Request<'_>> = texts.iter().map(request).collect();
            let engine = &self.model.engine;
            let found = engine.search_requests(&requests, &self.options, cancellation)?;
            let ready = texts
                .iter()
                .zip(found)
                .map(|(&index, hypotheses)| Ok((index, self.continuation(index, hypotheses)?)));
            put(ready.collect::<Result<Vec<_>, InferError>>()?);
        }
        Ok(())
    }
}
