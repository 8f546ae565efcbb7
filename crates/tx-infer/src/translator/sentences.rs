//! Texts of one call, as batches of search requests.

use std::{ops::Range, sync::Arc};

use tx_text::special::UNK;

use super::{Line, Model, Scored, Translation, unknown};
use crate::{
    cancellation::Cancellation,
    error::InferError,
    pair_tokenizer::SourceText,
    pool::{Batches, Claims, Limits, Task},
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
#[derive(Default)]
struct Text {
    text: String,
    /// Token of a language before the text.
    token: Option<u32>,
    /// Whether the text is longer.
    truncated: bool,
    /// Token of a language before the target.
    forced_first: Option<u32>,
    /// Target ids.
    prefix: Vec<u32>,
    number: u64,
    /// Cancellation of this text alone.
    cancellation: Option<Cancellation>,
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
    /// If a prefix is too long or cannot be tokenized, or a text needs a language that is not selected.
    pub(super) fn new(
        model: Arc<Model>,
        lines: &[Line<'_>],
        options: SearchOptions,
        limits: Limits,
    ) -> Result<Self, InferError> {
        let tokenizer = &model.texts;
        let text = |line: &Line<'_>| {
            let number = line.number;
            let text = line.text.trim();
            if tokenizer.tokenizers().source.is_blank(text) {
                return Ok(Text { number, ..Text::default() });
            }
            let SourceText { text, token } = tokenizer.split(text)?;
            let readable = tokenizer.readable(text);
            Ok(Text {
                text: readable.into(),
                token,
                truncated: readable.len() < text.len(),
                forced_first: tokenizer.forced_first()?,
                prefix: tokenizer.prefix_ids(line.prefix, number + 1)?,
                number,
                cancellation: line.cancellation.cloned(),
            })
        };
        let texts = lines.iter().map(text).collect::<Result<Vec<_>, InferError>>()?;
        let bytes = texts.iter().map(|text| text.text.len()).enumerate();
        let batches = Batches::new(bytes.filter(|(_, bytes)| *bytes > 0), limits);
        Ok(Self { model, options, texts, batches })
    }

    /// Indices of the texts without words, which are not translated.
    pub(super) fn without_words(&self) -> impl Iterator<Item = usize> + use<> {
        let texts = self.texts.iter().enumerate();
        let empty: Vec<usize> =
            texts.filter(|(_, text)| text.text.is_empty()).map(|(index, _)| index).collect();
        empty.into_iter()
    }

    fn source(&self, index: usize) -> Result<Source, InferError> {
        let Text { text, token, truncated: is_part, .. } = &self.texts[index];
        let source = SourceText { text, token: *token };
        let (ids, truncated) = self.model.texts.source_ids(source)?;
        Ok(Source { index, ids, truncated: truncated || *is_part })
    }

    fn translation(
        &self,
        source: &Source,
        hypotheses: Vec<Hypothesis>,
        samples: Vec<Hypothesis>,
    ) -> Result<Translation, InferError> {
        let scored = |found: Vec<Hypothesis>| {
            let scored = found.into_iter().map(|found| self.scored(found, source.index));
            scored.collect::<Result<Vec<_>, _>>()
        };
        let mut hypotheses = scored(hypotheses)?;
        if let Some(mbr) = &self.model.mbr {
            let samples = scored(samples)?.into_iter().map(|sample| sample.text);
            hypotheses = mbr.select(hypotheses, &samples.collect::<Vec<_>>(), &self.options)?;
        }
        // The token of a language is not part of the text.
        let Text { text, token, .. } = &self.texts[source.index];
        let ids = &source.ids[usize::from(token.is_some()).min(source.ids.len())..];
        Ok(Translation {
            text: hypotheses.first().map(|best| best.text.clone()).unwrap_or_default(),
            hypotheses,
            truncated: source.truncated,
            unknown: unknown_words(&self.model.texts.tokenizers().source, text, ids)?,
        })
    }

    fn scored(&self, hypothesis: Hypothesis, index: usize) -> Result<Scored, InferError> {
        let mut text = self.model.texts.decode(&hypothesis.ids)?;
        if self.options.replace_unknown && hypothesis.ids.contains(&UNK) {
            let Text { text: source, token, .. } = &self.texts[index];
            let words = &self.model.texts.tokenizers().source.encode_with_words(source)?;
            text =
                unknown::replaced(text, &hypothesis, source, words, usize::from(token.is_some()));
        }
        Ok(Scored { text: on_one_line(text), hypothesis, expected_utility: None })
    }
}

impl Task for Sentences {
    type Output = Translation;

    fn items(&self) -> &dyn Claims {
        &self.batches
    }

    fn is_shared(&self) -> bool {
        self.model.engine.gains_from_helpers()
    }

    fn run(
        &self,
        batch: Range<usize>,
        cancellation: &Cancellation,
        put: &mut dyn FnMut(Vec<(usize, Translation)>),
    ) -> Result<(), InferError> {
        let is_cancelled = |&index: &usize| {
            self.texts[index].cancellation.as_ref().is_some_and(Cancellation::is_cancelled)
        };
        let texts = self.batches.texts(batch.clone()).iter().copied();
        let (cancelled, texts): (Vec<usize>, Vec<usize>) = texts.partition(is_cancelled);
        if !cancelled.is_empty() {
            put(cancelled.into_iter().map(|index| (index, Translation::default())).collect());
        }
        let sources = texts.iter().map(|&index| self.source(index));
        let mut sources = sources.collect::<Result<Vec<_>, _>>()?;
        self.batches.learn(batch, sources.iter().map(|source| source.ids.len()).sum());
        for sources in self.batches.split(&mut sources, |source| source.ids.len()) {
            let requests: Vec<Request<'_>> = sources
                .iter()
                .map(|Source { index, ids, .. }| {
                    let Text { forced_first, prefix, number, cancellation, .. } =
                        &self.texts[*index];
                    let (forced_first, cancellation) = (*forced_first, cancellation.as_ref());
                    Request { forced_first, prefix, cancellation, ..Request::new(ids, *number) }
                })
                .collect();
            let engine = &self.model.engine;
            let found = engine.search_requests(&requests, &self.options, cancellation)?;
            let reference_search =
                self.model.mbr.as_ref().and_then(|mbr| mbr.reference_search(&self.options));
            let samples = match reference_search {
                Some(options) => engine.search_requests(&requests, &options, cancellation)?,
                None => vec![Vec::new(); found.len()],
            };
            let found = found.into_iter().zip(samples);
            let ready = sources.iter().zip(found).map(|(source, (hypotheses, samples))| {
                Ok((source.index, self.translation(source, hypotheses, samples)?))
            });
            put(ready.collect::<Result<Vec<_>, InferError>>()?);
        }
        Ok(())
    }
}
