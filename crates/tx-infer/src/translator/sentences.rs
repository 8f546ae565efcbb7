//! Texts of one call, as search requests.

mod names;

use std::{borrow::Cow, sync::Arc};

use tx_text::special::UNK;

use names::MAX_NAMES;

use super::{Line, Model, Scored, Translation, unknown};
use crate::{
    cancellation::Cancellation,
    error::InferError,
    glossary::{FoundTerms, forms_of},
    letter_case::is_in_capitals,
    lexicon::Lexicon,
    pair_tokenizer::{SourceIds, SourceText},
    pool::{Encoded, Placement, Task},
    reading::Adaptation,
    search::{Constraints, Hypothesis, Request, SearchOptions},
    tokens::{on_one_line, unknown_words},
};

/// Maximum number of new words of a text that its translation can have. Each step compares each hypothesis with all of
/// them.
const MAX_WORDS: usize = 256;

/// Translation of the texts of one call.
pub(super) struct Sentences {
    pub(super) model: Arc<Model>,
    pub(super) options: SearchOptions,
}

/// The part of a text that is tokenized.
pub(super) struct Text {
    text: String,
    /// Whether it differs from the text that was given.
    is_adapted: bool,
    /// Differences between the text and the one that the model reads.
    pub(super) adaptation: Adaptation,
    /// Token of a language before the text.
    token: Option<u32>,
    /// Whether the text is longer.
    truncated: bool,
    /// Token of a language before the target.
    forced_first: Option<u32>,
    /// Terms of the glossary.
    terms: Option<FoundTerms>,
    allowed: Allowed,
    /// Sentences before the text that are read with it.
    context: Vec<String>,
    /// Target ids.
    prefix: Vec<u32>,
    number: u64,
    /// Cancellation of this text or of its call.
    cancellation: Cancellation,
}

/// Words of the translation of a text.
struct Allowed {
    /// Terms that it must have.
    constraints: Option<Constraints>,
    /// Names and numbers of the source that it must have.
    names: Vec<String>,
    /// Words that it can have besides those of the lexicon; `None` allows all.
    words: Option<Vec<Vec<u32>>>,
}

/// Texts with the indices of their lines.
pub(super) type Texts = Vec<(usize, Text)>;

/// A text as source ids.
pub(super) type Source = SourceIds;

impl Sentences {
    /// Returns the text of a line, which leaves its batch when `call` is canceled; `None` if it has no
    /// words.
    ///
    /// # Errors
    ///
    /// If the prefix is too long or cannot be tokenized, or the text needs a language that is not selected.
    pub(super) fn text(
        &self,
        line: &Line<'_>,
        call: &Cancellation,
    ) -> Result<Option<Text>, InferError> {
        let tokenizer = &self.model.texts;
        let text = line.text.trim();
        if tokenizer.tokenizers().source.is_blank(text) {
            return Ok(None);
        }
        let SourceText { text, token } = tokenizer.split(text)?;
        let readable = tokenizer.readable(text);
        let mut terms = self.model.terms(readable)?;
        let is_term = |word: &str| terms.as_ref().is_some_and(|terms| terms.contains(word));
        let corrected = tokenizer.corrected(readable, is_term);
        if matches!(corrected, Cow::Owned(_)) {
            terms = self.model.terms(&corrected)?;
        }
        // Positions are the same in another case.
        let read = tokenizer.cased(&corrected)?;
        let adaptation = tokenizer.adaptation(&corrected, &read);
        let allowed = self.allowed(&read, adaptation, terms.as_ref())?;
        let read = match &terms {
            Some(terms) if self.options.glossary.inlines() => terms.written_into(&read),
            _ => read.into_owned(),
        };
        let text = Text {
            is_adapted: read != readable,
            adaptation,
            text: read,
            token,
            truncated: readable.len() < text.len(),
            forced_first: tokenizer.forced_first()?,
            terms,
            allowed,
            context: tokenizer.read_context(line.context).to_vec(),
            prefix: tokenizer.prefix_ids(line.prefix, line.number + 1)?,
            number: line.number,
            cancellation: line.cancellation.map_or_else(|| call.clone(), |own| own.or(call)),
        };
        Ok(Some(text).filter(|text| !text.text.is_empty()))
    }

    /// Returns the words that the translation of a text must and can have.
    fn allowed(
        &self,
        text: &str,
        adaptation: Adaptation,
        terms: Option<&FoundTerms>,
    ) -> Result<Allowed, InferError> {
        let Model { texts, config, .. } = &*self.model;
        let tokenizer = &texts.tokenizers().target;
        let options = &self.options;
        let constrains = options.glossary.constrains();
        let required =
            terms.filter(|_| constrains).map(|terms| terms.constraints.clone()).unwrap_or_default();
        // The lexicon has no words in capitals.
        let is_restricted = options.lexicon.restricts() && !is_in_capitals(text);
        let (mut words, mut names) = (Vec::new(), Vec::new());
        if let Some(source) = texts.lexicon().map(Lexicon::source) {
            // Names are not known from others in capitals.
            let has_names = self.copies_names() && !adaptation.is_lowered();
            let found = if has_names { source.copied_names(text, MAX_NAMES) } else { Vec::new() };
            let is_term = |name: &str| terms.is_some_and(|terms| terms.contains(name));
            names.extend(found.into_iter().filter(|name| !is_term(name)).map(str::to_owned));
            if is_restricted {
                for word in source.new_words(text, MAX_WORDS) {
                    words.extend(forms_of(word, tokenizer)?.into_iter().map(|form| form.ids));
                }
                let table = self.model.words();
                for form in required.iter().flat_map(|constraint| &constraint.forms) {
                    let of_form = table.words(&form.ids).into_iter();
                    words.extend(of_form.map(|word| form.ids[word].to_vec()));
                }
            }
        }
        // The token of a language and `<eos>` are in each target.
        let room = config.max_len.saturating_sub(2);
        let table = || self.model.words().clone();
        let constraints = (!required.is_empty()).then(|| Constraints::new(required, room, table()));
        Ok(Allowed { constraints, names, words: is_restricted.then_some(words) })
    }

    pub(super) fn translation(
        &self,
        text: &Text,
        source: &Source,
        hypotheses: Vec<Hypothesis>,
        samples: Vec<Hypothesis>,
    ) -> Result<Translation, InferError> {
        let scored = |found: Vec<Hypothesis>| {
            let scored = found.into_iter().map(|found| self.scored(found, text, source));
            scored.collect::<Result<Vec<_>, _>>()
        };
        let mut hypotheses = scored(hypotheses)?;
        if let Some(mbr) = &self.model.mbr {
            let samples = scored(samples)?.into_iter().map(|sample| sample.text);
            hypotheses = mbr.select(hypotheses, &samples.collect::<Vec<_>>(), &self.options)?;
        }
        let ids = &source.ids[text.before(source).min(source.ids.len())..];
        let Text { text, is_adapted, terms, .. } = text;
        let best = hypotheses.first().map(|best| best.text.clone()).unwrap_or_default();
        Ok(Translation {
            terms: terms.as_ref().map(|terms| terms.used_in(&best)).unwrap_or_default(),
            text: best,
            hypotheses,
            read: is_adapted.then(|| text.clone()),
            truncated: source.truncated,
            unknown: unknown_words(&self.model.texts.tokenizers().source, text, ids)?,
        })
    }

    fn scored(
        &self,
        hypothesis: Hypothesis,
        source: &Text,
        ids: &Source,
    ) -> Result<Scored, InferError> {
        let mut text = self.model.texts.decode(&hypothesis.ids)?;
        if self.options.replace_unknown && hypothesis.ids.contains(&UNK) {
            let words = &self.model.texts.tokenizers().source.encode_with_words(&source.text)?;
            text = unknown::replaced(text, &hypothesis, &source.text, words, source.before(ids));
        }
        Ok(Scored {
            text: source.adaptation.applied(on_one_line(text)),
            hypothesis,
            expected_utility: None,
        })
    }
}

impl Text {
    /// Number of ids before the text that are not part of it: the token of a language, and context.
    fn before(&self, source: &Source) -> usize {
        usize::from(self.token.is_some()) + source.context
    }

    /// Request for the translation; `None` if it is canceled.
    pub(super) fn request<'a>(&'a self, source: &'a Source) -> Option<Request<'a>> {
        let Self { forced_first, prefix, number, cancellation, allowed, .. } = self;
        let (forced_first, cancellation) = (*forced_first, Some(cancellation));
        let request = Request {
            context: source.context,
            forced_first,
            prefix,
            constraints: allowed.constraints.as_ref(),
            words: allowed.words.as_deref(),
            cancellation,
            ..Request::new(&source.ids, *number)
        };
        (!self.cancellation.is_cancelled()).then_some(request)
    }
}

impl Task for Sentences {
    type Text = Text;
    type Item = Source;
    type Output = Translation;

    fn bytes(text: &Text) -> usize {
        text.context.iter().map(String::len).fold(text.text.len(), usize::saturating_add)
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

    fn encode(&self, text: &Text) -> Result<Source, InferError> {
        let Text { text, token, context, truncated: is_part, .. } = text;
        let source = SourceText { text, token: *token };
        let source = self.model.texts.read_ids(source, context)?;
        Ok(Source { truncated: source.truncated || *is_part, ..source })
    }

    fn tokens(source: &Source) -> usize {
        source.ids.len()
    }

    fn run(
        &self,
        texts: &[Encoded<'_, Self>],
        _cancellation: &Cancellation,
    ) -> Result<Vec<Translation>, InferError> {
        let requests = texts.iter().map(|text| text.text.request(&text.item));
        let requests: Vec<Option<Request<'_>>> = requests.collect();
        let search = |options: &SearchOptions| {
            let requests: Vec<Request<'_>> = requests.iter().copied().flatten().collect();
            // Each text has its own cancellation.
            self.model.engine.search_requests(&requests, options, &Cancellation::new())
        };
        let mut found = search(&self.options)?;
        if self.copies_names() {
            let searched = texts.iter().zip(&requests);
            let searched = searched.filter_map(|(text, request)| Some((text, request.as_ref()?)));
            self.copy_names(&searched.collect::<Vec<_>>(), &mut found)?;
        }
        let mut found = found.into_iter();
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
            text.task().translation(text.text, &text.item, found, samples)
        };
        texts.iter().zip(&requests).map(translation).collect()
    }
}
