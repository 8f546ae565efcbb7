//! Texts of one call, as batches of search requests.

use std::{ops::Range, sync::Arc};

use tx_text::special::UNK;

use super::{Line, Model, Scored, Translation, unknown};
use crate::{
    cancellation::Cancellation,
    error::InferError,
    scheduler::{Batches, Claims, Limits, Task},
    search::{Hypothesis, Request, SearchOptions},
    tokens::{on_one_line, unknown_words},
};

/// Texts to translate.
pub(super) struct Sentences {
    model: Arc<Model>,
    options: SearchOptions,
    texts: Vec<Text>,
    batches: Batches,
}

/// The part of a text that is tokenized.
struct Text {
    text: String,
    /// Whether the text is longer.
    truncated: bool,
    /// Target ids.
    prefix: Vec<u32>,
    number: u64,
}

/// A text as source ids.
struct Source {
    index: usize,
    ids: Vec<u32>,
    truncated: bool,
}

impl Sentences {
    /// Creates a task for the texts of `lines` that contain words.
    ///
    /// # Errors
    ///
    /// If a prefix is too long or cannot be tokenized.
    pub(super) fn new(
        model: Arc<Model>,
        lines: &[Line<'_>],
        options: SearchOptions,
        limits: Limits,
    ) -> Result<Self, InferError> {
        let text = |line: &Line<'_>| {
            let text = line.text.trim();
            let readable = model.readable(text);
            Ok(Text {
                text: readable.into(),
                truncated: readable.len() < text.len(),
                prefix: if text.is_empty() { Vec::new() } else { model.encode_prefix(line)? },
                number: line.number,
            })
        };
        let texts = lines.iter().map(text).collect::<Result<Vec<_>, InferError>>()?;
        let bytes = texts.iter().map(|text| text.text.len()).enumerate();
        let batches = Batches::new(bytes.filter(|(_, bytes)| *bytes > 0), limits);
        Ok(Self { model, options, texts, batches })
    }

    fn source(&self, index: usize) -> Result<Source, InferError> {
        let (ids, truncated) = self.model.encode_source(&self.texts[index].text)?;
        Ok(Source { index, ids, truncated: truncated || self.texts[index].truncated })
    }

    fn translation(
        &self,
        source: &Source,
        hypotheses: Vec<Hypothesis>,
    ) -> Result<Translation, InferError> {
        let hypotheses = hypotheses.into_iter().map(|found| self.scored(found, source.index));
        let hypotheses = hypotheses.collect::<Result<Vec<_>, _>>()?;
        Ok(Translation {
            text: hypotheses.first().map(|best| best.text.clone()).unwrap_or_default(),
            hypotheses,
            truncated: source.truncated,
            unknown: unknown_words(
                &self.model.tokenizers.source,
                &self.texts[source.index].text,
                &source.ids,
            )?,
        })
    }

    fn scored(&self, hypothesis: Hypothesis, index: usize) -> Result<Scored, InferError> {
        let tokenizers = &self.model.tokenizers;
        let mut text = tokenizers.target.decode(&hypothesis.ids)?;
        if self.options.replace_unknown && hypothesis.ids.contains(&UNK) {
            let source = &self.texts[index].text;
            text = unknown::replaced(text, &hypothesis, source, &tokenizers.source)?;
        }
        Ok(Scored { text: on_one_line(text), hypothesis })
    }
}

impl Task for Sentences {
    type Output = Translation;

    fn items(&self) -> &dyn Claims {
        &self.batches
    }

    fn run(
        &self,
        batch: Range<usize>,
        cancellation: &Cancellation,
        put: &mut dyn FnMut(Vec<(usize, Translation)>),
    ) -> Result<(), InferError> {
        let texts = self.batches.texts(batch.clone());
        let sources = texts.iter().map(|&index| self.source(index));
        let mut sources = sources.collect::<Result<Vec<_>, _>>()?;
        self.batches.learn(batch, sources.iter().map(|source| source.ids.len()).sum());
        for sources in self.batches.split(&mut sources, |source| source.ids.len()) {
            let requests: Vec<Request<'_>> = sources
                .iter()
                .map(|Source { index, ids, .. }| {
                    let Text { prefix, number, .. } = &self.texts[*index];
                    Request { prefix, ..Request::new(ids, *number) }
                })
                .collect();
            let engine = &self.model.engine;
            let found = engine.search_requests(&requests, &self.options, cancellation)?;
            let ready = sources.iter().zip(found).map(|(source, hypotheses)| {
                Ok((source.index, self.translation(source, hypotheses)?))
            });
            put(ready.collect::<Result<Vec<_>, InferError>>()?);
        }
        Ok(())
    }
}
