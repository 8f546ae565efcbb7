//! Texts of one call to a model with one text, as batches.

use std::{ops::Range, sync::Arc};

use super::{Batches, Claims, Limits, Task};
use crate::{cancellation::Cancellation, error::InferError};

/// Work of a model on single texts.
pub(crate) trait TextWork: Send + Sync + 'static {
    /// An encoded text.
    type Item: Send;
    /// Result of a text.
    type Output: Send;

    /// Encodes a text; `line` is its number, from 1, for messages.
    ///
    /// # Errors
    ///
    /// If the text cannot be encoded.
    fn encode(&self, text: &str, line: u64) -> Result<Self::Item, InferError>;

    /// Number of tokens of a text.
    fn tokens(item: &Self::Item) -> usize;

    /// Computes the results of texts, in their order. Errors name a line by
    /// [`Encoded::line`].
    ///
    /// # Errors
    ///
    /// The first error of a text.
    fn run(
        &self,
        texts: &[Encoded<Self::Item>],
        cancellation: &Cancellation,
    ) -> Result<Vec<Self::Output>, InferError>;
}

/// An encoded text of a call.
pub(crate) struct Encoded<T> {
    pub(crate) item: T,
    /// Number of the line, from 1.
    pub(crate) line: u64,
    index: usize,
}

/// Texts of one call.
pub(crate) struct Texts<W> {
    work: Arc<W>,
    texts: Vec<String>,
    /// Number of the first text, from 0.
    first: u64,
    batches: Batches,
}

impl<W: TextWork> Texts<W> {
    /// Creates a task for `texts`, numbered from `first`, of which `is_included` selects those to
    /// work on.
    pub(crate) fn new(
        work: Arc<W>,
        texts: &[impl AsRef<str>],
        first: u64,
        limits: Limits,
        is_included: impl Fn(&str) -> bool,
    ) -> Self {
        let texts: Vec<String> = texts.iter().map(|text| text.as_ref().to_owned()).collect();
        let included = texts.iter().enumerate().filter(|(_, text)| is_included(text));
        let batches = Batches::new(included.map(|(index, text)| (index, text.len())), limits);
        Self { work, texts, first, batches }
    }
}

impl<W: TextWork> Task for Texts<W> {
    type Output = W::Output;

    fn items(&self) -> &dyn Claims {
        &self.batches
    }

    fn run(
        &self,
        batch: Range<usize>,
        cancellation: &Cancellation,
        put: &mut dyn FnMut(Vec<(usize, W::Output)>),
    ) -> Result<(), InferError> {
        let encode = |&index: &usize| {
            let line = self.first + index as u64 + 1;
            let item = self.work.encode(&self.texts[index], line)?;
            Ok(Encoded { item, line, index })
        };
        let items = self.batches.texts(batch.clone()).iter().map(encode);
        let mut items = items.collect::<Result<Vec<_>, InferError>>()?;
        let tokens = |encoded: &Encoded<W::Item>| W::tokens(&encoded.item);
        self.batches.learn(batch, items.iter().map(tokens).sum());
        for part in self.batches.split(&mut items, tokens) {
            if cancellation.is_cancelled() {
                return Err(InferError::Cancelled);
            }
            let found = self.work.run(part, cancellation)?;
            put(part.iter().map(|encoded| encoded.index).zip(found).collect());
        }
        Ok(())
    }
}
