//! Texts of one call to a model with one text.

use std::sync::Arc;

use super::{Encoded, Placement, Task};
use crate::{cancellation::Cancellation, error::InferError, runner::TaskModel};

/// Work of a model on single texts.
pub(crate) trait TextWork: TaskModel + Send + Sync + 'static {
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
        texts: &[Encoded<'_, Texts<Self>>],
        cancellation: &Cancellation,
    ) -> Result<Vec<Self::Output>, InferError>;
}

/// Texts of one call.
pub(crate) struct Texts<W> {
    work: Arc<W>,
    /// `None` for those that are not worked on.
    texts: Vec<Option<String>>,
    /// Number of the first text, from 0.
    first: u64,
}

impl<W: TextWork> Texts<W> {
    /// Creates a task for `texts`, numbered from `first`, of which `is_included` selects those to
    /// work on.
    pub(crate) fn new(
        work: Arc<W>,
        texts: &[impl AsRef<str>],
        first: u64,
        is_included: impl Fn(&str) -> bool,
    ) -> Self {
        let text = |text: &str| is_included(text).then(|| text.to_owned());
        let texts = texts.iter().map(|it| text(it.as_ref())).collect();
        Self { work, texts, first }
    }

    /// Number of a text, from 1.
    fn line(&self, index: usize) -> u64 {
        self.first + index as u64 + 1
    }
}

impl<W: TextWork> Encoded<'_, Texts<W>> {
    /// Number of the text, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.task().line(self.index)
    }
}

impl<W: TextWork> Task for Texts<W> {
    type Item = W::Item;
    type Output = W::Output;

    fn texts(&self) -> Vec<(usize, usize)> {
        let texts = self.texts.iter().enumerate();
        texts.filter_map(|(index, text)| Some((index, text.as_ref()?.len()))).collect()
    }

    fn placement(&self) -> Placement {
        self.work.placement()
    }

    fn encode(&self, index: usize) -> Result<W::Item, InferError> {
        let text = self.texts[index].as_deref().unwrap_or_default();
        self.work.encode(text, self.line(index))
    }

    fn tokens(item: &W::Item) -> usize {
        W::tokens(item)
    }

    fn run(
        &self,
        texts: &[Encoded<'_, Self>],
        cancellation: &Cancellation,
    ) -> Result<Vec<W::Output>, InferError> {
        self.work.run(texts, cancellation)
    }
}
