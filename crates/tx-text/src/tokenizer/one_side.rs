//! Tokenizer of one side.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
};

use rayon::prelude::*;
use serde::Deserialize;
use tokenizers::{
    AddedToken, ModelWrapper, Tokenizer as Inner, processors::template::TemplateProcessing,
};

use super::{
    ends::Ends,
    recorded,
    sentencepiece::{Decoding, Extent, Processor, ScoredPieces, Token, Use},
};
use crate::{
    error::TextError,
    normalization::{Aligned, Normalization, is_blank},
    special::{BOS, EOS, MASK, MASK_TOKEN, SPECIAL_TOKENS, UNK},
};

/// Token of a text with the position of its word.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WordToken {
    /// Token id.
    pub id: u32,
    /// Bytes of the text that contain the word of the token; `None` for special tokens.
    pub word: Option<Range<usize>>,
}

/// Vocabulary and merges of a byte-pair encoding.
#[derive(Deserialize)]
pub(crate) struct Merges {
    /// Id of each token.
    pub vocab: HashMap<String, u32>,
    /// Merged pairs of tokens, in the order in which they were learned.
    pub merges: Vec<(String, String)>,
}

/// Pieces of a unigram model with their log-probabilities, by id.
#[derive(Deserialize)]
pub(crate) struct Pieces {
    pub vocab: Vec<(String, f64)>,
    /// Symbols that are not divided.
    #[serde(skip)]
    pub kept: HashSet<String>,
}

/// Tokenizer of one side: text to ids and back. Clones share the vocabulary.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    pub(crate) inner: Arc<Inner>,
    pub(super) ends: Ends,
    vocab_size: usize,
    /// Model that divides text instead of `inner`, which then contains the vocabulary only.
    pub(super) sentencepiece: Option<Arc<Processor>>,
    /// Normalization before that of `inner`, if the file records one.
    pub(super) recorded: Option<Normalization>,
    /// The same, or that of a tokenizer that records none.
    normalization: Normalization,
    /// Number of bytes of normalized text after which the rest of a text is left out.
    max_bytes: usize,
}

impl Tokenizer {
    /// Adds special tokens to every text. Takes a recorded normalization out of the normalizer.
    pub(super) fn finish(mut inner: Inner, ends: Ends) -> Result<Self, TextError> {
        let template = match (ends.bos, ends.eos) {
            (true, true) => "<bos> $A <eos>",
            (false, true) => "$A <eos>",
            (true, false) => "<bos> $A",
            (false, false) => "$A",
        };
        let special = [("<bos>", BOS), ("<eos>", EOS)].map(|(token, id)| (token.to_owned(), id));
        let template = TemplateProcessing::builder()
            .try_single(template)
            .map_err(|problem| TextError::TokenizerConfig { problem })?
            .special_tokens(special.to_vec())
            .build()
            .map_err(|error| TextError::Tokenizer(error.into()))?;
        inner.with_post_processor(Some(template));
        // The text `<eos>` encodes to five characters, not to the special token.
        inner.set_encode_special_tokens(true);
        let vocab_size = inner.get_vocab_size(true);
        let recorded = recorded::take(&mut inner)?;
        let normalization = match recorded {
            Some(recorded) => recorded::applied(&inner, recorded),
            None => recorded::unrecorded(&inner),
        };
        let (inner, max_bytes) = (Arc::new(inner), usize::MAX);
        let sentencepiece = None;
        Ok(Self { inner, ends, vocab_size, sentencepiece, recorded, normalization, max_bytes })
    }

    /// Normalizes every text before it is tokenized, and records this in the file. Replaces an earlier
    /// record.
    #[must_use]
    pub fn with_normalization(mut self, normalization: Normalization) -> Self {
        self.recorded = Some(normalization);
        self.normalization = match self.sentencepiece {
            None => recorded::applied(&self.inner, normalization),
            Some(_) => normalization,
        };
        self
    }

    /// Adds the steps of a normalization to those that are recorded.
    #[must_use]
    pub fn with_steps_of(self, normalization: Normalization) -> Self {
        let own = self.recorded.unwrap_or(Normalization::NONE);
        self.with_normalization(own.and(normalization))
    }

    /// Returns the normalization of text that the file of the tokenizer records: that of its training
    /// text.
    pub fn normalization(&self) -> Option<Normalization> {
        self.recorded
    }

    /// Leaves out the rest of a text after `max_bytes` bytes of normalized text, so that the time of
    /// tokenization has a limit. The limit is not part of the file.
    #[must_use]
    pub fn with_max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Returns `true` if a text has no visible character after normalization.
    pub fn is_blank(&self, text: &str) -> bool {
        is_blank(text) || (self.normalization.markup && is_blank(&self.normalization.apply(text)))
    }

    /// Returns `true` if the tokens are equal, and text is tokenized in the same way.
    ///
    /// # Errors
    ///
    /// Same as [`to_json`](Self::to_json).
    pub fn is_same(&self, other: &Self) -> Result<bool, TextError> {
        Ok(self.normalization == other.normalization && self.has_ids_of(other)?)
    }

    /// Returns `true` if the tokens are equal, and normalized text is tokenized in the same way.
    ///
    /// # Errors
    ///
    /// Same as [`to_json`](Self::to_json).
    pub fn has_ids_of(&self, other: &Self) -> Result<bool, TextError> {
        let [ours, theirs] =
            [self, other].map(|tokenizer| Self { recorded: None, ..tokenizer.clone() }.to_json());
        Ok(ours? == theirs?)
    }

    /// Returns `true` if words are segmented greedily, so that a word of known pieces may be unknown
    /// (WordPiece).
    pub fn is_greedy(&self) -> bool {
        matches!(self.inner.get_model(), ModelWrapper::WordPiece(_))
    }

    /// Divides text with a SentencePiece model.
    pub(super) fn with_sentencepiece(mut self, processor: Processor) -> Self {
        self.sentencepiece = Some(Arc::new(processor));
        self
    }

    /// Returns the SentencePiece model, the content of a `.spm` file, if the tokenizer was made
    /// from one by [`from_sentencepiece`](Self::from_sentencepiece).
    pub fn sentencepiece_model(&self) -> Option<&[u8]> {
        self.sentencepiece.as_deref().map(Processor::file)
    }

    /// Returns `true` if a text may start with a code, `>>…<<`, which is encoded to one token.
    pub fn has_leading_code(&self) -> bool {
        self.sentencepiece.as_deref().is_some_and(Processor::has_leading_code)
    }

    /// Returns `true` if the token of an id is special: no text is encoded to it.
    pub fn is_special(&self, id: u32) -> bool {
        (id as usize) < SPECIAL_TOKENS.len()
            || self
                .token(id)
                .is_some_and(|token| self.inner.get_added_vocabulary().is_special_token(&token))
    }

    /// Special tokens that are added to every text.
    pub fn ends(&self) -> Ends {
        self.ends
    }

    /// Returns this tokenizer with these special tokens around every text.
    ///
    /// # Errors
    ///
    /// When the library rejects the change; no such tokenizer is known.
    pub fn with_ends(self, ends: Ends) -> Result<Self, TextError> {
        if ends == self.ends {
            return Ok(self);
        }
        let inner = Arc::unwrap_or_clone(self.inner);
        let Self { inner, .. } = Self::finish(inner, ends)?;
        Ok(Self { inner, ends, ..self })
    }

    /// Adds special tokens after all other tokens, such as `<bt>` or `>>de<<`: no text is encoded to
    /// them, and decoding drops them. Tokens that are special already keep their ids.
    ///
    /// # Errors
    ///
    /// If a token is empty or an ordinary token of the vocabulary.
    pub fn with_special_tokens(self, tokens: &[String]) -> Result<Self, TextError> {
        let mut inner = Arc::unwrap_or_clone(self.inner);
        for token in tokens {
            let is_special = inner.get_added_vocabulary().is_special_token(token);
            if !is_special && (token.is_empty() || inner.token_to_id(token).is_some()) {
                let problem = format!("{token:?} is no name for a special token");
                return Err(TextError::TokenizerConfig { problem });
            }
            if !is_special {
                let added = AddedToken::from(token.clone(), true).normalized(false);
                inner.add_special_tokens([added]).map_err(TextError::Tokenizer)?;
            }
        }
        let Self { inner, vocab_size, .. } = Self::finish(inner, self.ends)?;
        Ok(Self { inner, vocab_size, ..self })
    }

    /// Encodes a text to token ids, special tokens included. A text without tokens is `<unk>`, so that
    /// no sequence is empty.
    ///
    /// # Errors
    ///
    /// If the library rejects the text; no such text is known.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let text = &*self.normalization.apply(text);
        if let Some(processor) = &self.sentencepiece {
            let tokens = self.sentencepiece_tokens(processor, text, false);
            let ids = tokens.iter().map(|token| token.id).collect();
            return Ok(not_empty(self.ends.around(ids, |id| id)));
        }
        let encoding = self.inner.encode_fast(text, true).map_err(TextError::Tokenizer)?;
        Ok(not_empty(encoding.get_ids().to_vec()))
    }

    /// Encodes texts one by one on the calling thread.
    ///
    /// # Errors
    ///
    /// Same as [`encode`](Self::encode).
    pub fn encode_batch(&self, texts: Vec<&str>) -> Result<Vec<Vec<u32>>, TextError> {
        texts.into_iter().map(|text| self.encode(text)).collect()
    }

    /// Encodes texts on all threads of the current Rayon pool.
    ///
    /// # Errors
    ///
    /// Same as [`encode`](Self::encode).
    pub fn par_encode_batch(&self, texts: &[&str]) -> Result<Vec<Vec<u32>>, TextError> {
        texts.par_iter().map(|text| self.encode(text)).collect()
    }

    /// Encodes a text as [`encode`](Self::encode) does, with the position of the word of each
    /// token. Word boundaries are those of the tokenizer.
    ///
    /// # Errors
    ///
    /// Same as [`encode`](Self::encode).
    pub fn encode_with_words(&self, text: &str) -> Result<Vec<WordToken>, TextError> {
        let Some(aligned) = self.normalization.align(text) else { return self.with_words(text) };
        let mut tokens = self.with_words(aligned.text())?;
        for word in tokens.iter_mut().filter_map(|token| token.word.as_mut()) {
            *word = aligned.origin(word.clone());
        }
        Ok(tokens)
    }

    /// Encodes a normalized text, with the position of the word of each token.
    fn with_words(&self, text: &str) -> Result<Vec<WordToken>, TextError> {
        if let Some(processor) = &self.sentencepiece {
            let words = words(text, &self.sentencepiece_tokens(processor, text, true));
            return Ok(self.ends.around(words, |id| WordToken { id, word: None }));
        }
        let encoding = self.inner.encode(text, true).map_err(TextError::Tokenizer)?;
        let (words, offsets) = (encoding.get_word_ids(), encoding.get_offsets());
        let mut tokens = Vec::with_capacity(words.len());
        // The last word and its position, and the end of the word before it.
        let (mut last, mut end_before) = (None, 0);
        for (index, (&id, word)) in encoding.get_ids().iter().zip(words).enumerate() {
            if let Some(word) = word
                && last.as_ref().is_none_or(|(other, _)| other != word)
            {
                let parts = words[index..].iter().zip(&offsets[index..]);
                let parts = parts.take_while(|(other, _)| **other == Some(*word));
                // The library assigns the last letter of a word to a punctuation mark split off
                // from it, too.
                end_before = last.map_or(end_before, |(_, word): (_, Range<usize>)| word.end);
                let (start, end) = parts.fold((text.len(), 0), |(start, end), (_, part)| {
                    (start.min(part.0), end.max(part.1))
                });
                let whole = text.get(start.max(end_before)..end).unwrap_or_default();
                // Some tokenizers include the space before a word.
                let start = end - whole.trim_start().len();
                last = Some((*word, start..start + whole.trim().len()));
            }
            let word = last.as_ref().filter(|_| word.is_some()).map(|(_, word)| word.clone());
            tokens.push(WordToken { id, word });
        }
        Ok(tokens)
    }

    /// Encodes a text as [`encode`](Self::encode) does, with the bytes of `text` that each token
    /// covers: an empty range for added special tokens. A byte-pair token includes the space before
    /// its word.
    ///
    /// # Errors
    ///
    /// Same as [`encode`](Self::encode).
    pub fn encode_with_spans(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>, TextError> {
        let aligned = self.normalization.align(text);
        let text = aligned.as_ref().map_or(text, Aligned::text);
        let mut spans: Vec<(u32, Range<usize>)> = match &self.sentencepiece {
            Some(processor) => {
                let tokens = self.sentencepiece_tokens(processor, text, true);
                let tokens = tokens.into_iter().map(|token| (token.id, token.bytes));
                self.ends.around(tokens.collect(), |id| (id, 0..0))
            }
            None => {
                let encoding = self.inner.encode(text, true).map_err(TextError::Tokenizer)?;
                let spans = encoding.get_offsets().iter().map(|&(start, end)| start..end);
                encoding.get_ids().iter().copied().zip(spans).collect()
            }
        };
        if let Some(aligned) = aligned {
            for (_, span) in spans.iter_mut().filter(|(_, span)| *span != (0..0)) {
                *span = aligned.origin(span.clone());
            }
        }
        Ok(spans)
    }

    /// Decodes token ids to text. `<pad>`, `<bos>`, `<eos>`, language tokens and ids without a token
    /// are dropped; an unknown token becomes `<unk>`.
    ///
    /// For text without unknown tokens, `decode(encode(text))` is `text` with single spaces, in
    /// Unicode normal form NFC and, if so configured, lowercased. With [`WordSplit::Whitespace`]
    /// the spacing of punctuation is unchanged.
    ///
    /// [`WordSplit::Whitespace`]: super::WordSplit::Whitespace
    ///
    /// # Errors
    ///
    /// If the library rejects the ids; no such ids are known.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TextError> {
        if let Some(processor) = &self.sentencepiece {
            let mask = self.mask_id();
            let is_shown = |id: u32| id == UNK || Some(id) == mask || !self.is_special(id);
            let shown = ids.iter().copied().filter(|&id| is_shown(id));
            let tokens: Vec<String> = shown.filter_map(|id| self.token(id)).collect();
            return Ok(processor.decode(tokens.iter().map(String::as_str)));
        }
        let is_shown = |&id: &u32| {
            (id as usize) < self.vocab_size && (id == UNK || id == MASK || !self.is_special(id))
        };
        let ids: Vec<u32> = ids.iter().copied().filter(is_shown).collect();
        // Some decoders of the library fail without a token.
        if ids.is_empty() {
            return Ok(String::new());
        }
        self.inner.decode(&ids, false).map_err(TextError::Tokenizer)
    }

    /// Returns the token of an id, as in the vocabulary.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// Returns the id of a token, as in the vocabulary.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Returns the id of a special token, which no text contains; `None` if the vocabulary has no such
    /// special token.
    pub fn special_id(&self, token: &str) -> Option<u32> {
        let is_special = self.inner.get_added_vocabulary().is_special_token(token);
        self.id(token).filter(|_| is_special)
    }

    /// Returns the id of `<mask>`; `None` if the vocabulary has no such special token.
    pub fn mask_id(&self) -> Option<u32> {
        self.special_id(MASK_TOKEN).filter(|&id| id == MASK)
    }

    /// Returns the number of ids, special tokens included.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// Tokens of a text, without `<bos>` and `<eos>`.
    fn sentencepiece_tokens(
        &self,
        processor: &Processor,
        text: &str,
        is_aligned: bool,
    ) -> Vec<Token> {
        let extent = Extent { max_bytes: self.max_bytes, is_aligned };
        processor.encode(text, extent, |token, use_as| self.id_of(token, use_as))
    }

    /// Id of a token for a use of a text.
    pub(super) fn id_of(&self, token: &str, use_as: Use) -> Option<u32> {
        match use_as {
            Use::Code => self.id(token),
            Use::Text => self.text_id(token),
        }
    }

    /// A text as the library or SentencePiece reads it.
    pub(super) fn normalized<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.normalization.apply(text)
    }

    /// Id of a token that a text can be encoded to.
    pub(super) fn text_id(&self, token: &str) -> Option<u32> {
        let is_special = |id: u32| {
            (id as usize) < SPECIAL_TOKENS.len()
                || self.inner.get_added_vocabulary().is_special_token(token)
        };
        self.id(token).filter(|&id| !is_special(id))
    }

    /// Vocabulary and merges; `None` unless the tokenizer is a byte-pair encoding.
    pub(crate) fn merges(&self) -> Option<Merges> {
        if let Some(processor) = self.own_pieces() {
            let merges = processor.merges()?;
            let ids = 0..self.vocab_size as u32;
            let vocab = ids.filter_map(|id| Some((self.token(id)?, id))).collect();
            return Some(Merges { vocab, merges });
        }
        let ModelWrapper::BPE(model) = self.inner.get_model() else { return None };
        serde_json::to_value(model).and_then(serde_json::from_value).ok()
    }

    /// Pieces; `None` unless the tokenizer is a unigram model.
    pub(crate) fn pieces(&self) -> Option<Pieces> {
        if let Some(processor) = self.own_pieces() {
            let ScoredPieces { scores, kept } = processor.scored_pieces()?;
            let tokens = (0..self.vocab_size as u32).map(|id| self.token(id).unwrap_or_default());
            let scored = tokens.map(|token| {
                let score = scores.get(&token).copied().unwrap_or_default();
                (token, score)
            });
            return Some(Pieces { vocab: scored.collect(), kept: kept.into_iter().collect() });
        }
        let ModelWrapper::Unigram(model) = self.inner.get_model() else { return None };
        serde_json::to_value(model).and_then(serde_json::from_value).ok()
    }

    /// Returns `true` if the tokens are the pieces of a SentencePiece model, as of one that was read from a
    /// tokenizer file.
    pub fn has_own_pieces(&self) -> bool {
        self.own_pieces().is_some()
    }

    /// SentencePiece model whose pieces are the tokens of the vocabulary.
    fn own_pieces(&self) -> Option<&Processor> {
        self.sentencepiece.as_deref().filter(|it| it.decoding() == Decoding::Exact)
    }
}

/// Tokens with their words: the bytes from the first to the last token of a word, without spaces.
fn words(text: &str, tokens: &[Token]) -> Vec<WordToken> {
    let mut words = Vec::with_capacity(tokens.len());
    for word in tokens.chunk_by(|_, next| !next.starts_word) {
        let start = word.first().map_or(0, |token| token.bytes.start);
        let end = word.last().map_or(0, |token| token.bytes.end);
        let whole = text.get(start..end).unwrap_or_default();
        let start = end - whole.trim_start().len();
        let range = start..start + whole.trim().len();
        words
            .extend(word.iter().map(|token| WordToken { id: token.id, word: Some(range.clone()) }));
    }
    words
}

/// Adds `<unk>` to an empty sequence.
fn not_empty(mut ids: Vec<u32>) -> Vec<u32> {
    if ids.is_empty() {
        ids.push(UNK);
    }
    ids
}
