//! Texts of one call, as search requests.

use std::sync::Arc;

use tx_text::special::UNK;

use super::{Line, Model, Scored, Translation, unknown};
use crate::{
    cancellation::Cancellation,
    error::InferError,
    pair_tokenizer::SourceText,
    pool::{Encoded, Placement, Task},
    search::{Hypothesis, Request, SearchOptions},
    tokens::{on_one_line, unknown_words},
};

/// Texts to translate.
pub(super) struct Sentences {
    model: Arc<Model>,
    options: SearchOptions,
    texts: Vec<Text>,
    cancellation: Cancellation,
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
    /// Cancellation of this text or its call, unless it is that of its call alone.
    cancellation: Option<Cancellation>,
}

/// A text as source ids.
pub(super) struct Source {
    ids: Vec<u32>,
    truncated: bool,
}

impl Sentences {
    /// Creates a task for the texts of `lines` that contain words. They leave their batch when
    /// `cancellation` is set.
    ///
    /// # Errors
    ///
    /// If a prefix is too long or cannot be tokenized, or a text needs a language that is not selected.
    pub(super) fn new(
        model: Arc<Model>,
        lines: &[Line<'_>],
        options: SearchOptions,
        cancellation: &Cancellation,
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
                cancellation: line.cancellation.map(|own| own.or(cancellation)),
            })
        };
        let texts = lines.iter().map(text).collect::<Result<Vec<_>, InferError>>()?;
        Ok(Self { model, options, texts, cancellation: cancellation.clone() })
    }

    /// Indices of the texts without words, which are not translated.
    pub(super) fn without_words(&self) -> impl Iterator<Item = usize> + use<> {
        let texts = self.texts.iter().enumerate();
        let empty: Vec<usize> =
            texts.filter(|(_, text)| text.text.is_empty()).map(|(index, _)| index).collect();
        empty.into_iter()
    }

    /// Request for the translation of a text; `None` if it is canceled.
    fn request<'a>(&'a self, index: usize, source: &'a Source) -> Option<Request<'a>> {
        let Text { forced_first, prefix, number, cancellation, .. } = &self.texts[index];
        let cancellation = cancellation.as_ref().unwrap_or(&self.cancellation);
        let request = Request {
            forced_first: *forced_first,
            prefix,
            cancellation: Some(cancellation),
            ..Request::new(&source.ids, *number)
        };
        (!cancellation.is_cancelled()).then_some(request)
    }

    fn translation(
        &self,
        index: usize,
        source: &Source,
        hypotheses: Vec<Hypothesis>,
        samples: Vec<Hypothesis>,
    ) -> Result<Translation, InferError> {
        let scored = |found: Vec<Hypothesis>| {
            let scored = found.into_iter().map(|found| self.scored(found, index));
            scored.collect::<Result<Vec<_>, _>>()
        };
        let mut hypotheses = scored(hypotheses)?;
        if let Some(mbr) = &self.model.mbr {
            let samples = scored(samples)?.into_iter().map(|sample| sample.text);
            hypotheses = mbr.select(hypotheses, &samples.collect::<Vec<_>>(), &self.options)?;
        }
        // The token of a language is not part of the text.
        let Text { text, token, .. } = &self.texts[index];
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
    type Item = Source;
    type Output = Translation;

    fn texts(&self) -> Vec<(usize, usize)> {
        let bytes = self.texts.iter().map(|text| text.text.len()).enumerate();
        bytes.filter(|(_, bytes)| *bytes > 0).collect()
    }

    fn rows(&self) -> usize {
        self.model.mbr.map_or(self.options.rows(), |mbr| mbr.rows(&self.options))
    }

    fn placement(&self) -> Placement {
        self.model.engine.placement()
    }

    fn is_shared(&self) -> bool {
        self.model.engine.gains_from_helpers()
    }

    /// The languages may differ. Tensors round differently in other batches.
    fn fits(&self, other: &Self) -> bool {
        let (ours, theirs) = (&self.model, &other.model);
        Arc::ptr_eq(&ours.engine, &theirs.engine)
            && self.placement().is_parallel()
            && ours.mbr == theirs.mbr
            && self.options == other.options
    }

    fn encode(&self, index: usize) -> Result<Source, InferError> {
        let Text { text, token, truncated: is_part, .. } = &self.texts[index];
        let source = SourceText { text, token: *token };
        let (ids, truncated) = self.model.texts.source_ids(source)?;
        Ok(Source { ids, truncated: truncated || *is_part })
    }

    fn tokens(source: &Source) -> usize {
        source.ids.len()
    }

    fn run(
        &self,
        texts: &[Encoded<'_, Self>],
        _cancellation: &Cancellation,
    ) -> Result<Vec<Translation>, InferError> {
        let requests = texts.iter().map(|text| text.task().request(text.index, &text.item));
        let requests: Vec<Option<Request<'_>>> = requests.collect();
        let search = |options: &SearchOptions| {
            let requests: Vec<Request<'_>> = requests.iter().copied().flatten().collect();
            // Each text has its own cancellation.
            self.model.engine.search_requests(&requests, options, &Cancellation::new())
        };
        let mut found = search(&self.options)?.into_iter();
        let reference_search =
            self.model.mbr.as_ref().and_then(|mbr| mbr.reference_search(&self.options));
        let samples = reference_search.map(|options| search(&options)).transpose()?;
        let mut samples = samples.unwrap_or_default().into_iter();
        let translation = |(text, request): (&Encoded<'_, Self>, &Option<Request<'_>>)| {
            if request.is_none() {
                return Ok(Translation::default());
            }
            let (found, samples) = (found.next(), samples.next());
            let (found, samples) = (found.unwrap_or_default(), samples.unwrap_or_default());
            text.task().translation(text.index, &text.item, found, samples)
        };
        texts.iter().zip(&requests).map(translation).collect()
    }
}
