//! Text to token ids and back, on the Hugging Face `tokenizers` library.
//!
//! Everything a tokenizer does is in its `tokenizer.json`, so that any tool that reads that format
//! gets the same ids. One thing the format cannot say: here a text that holds `<eos>` holds five
//! characters, not the special token.

mod build;
mod charsmap;
mod check;
mod import;
mod report;
mod sentencepiece;
mod unigram;
mod wordpiece;
mod words;

use std::{
    borrow::Cow,
    collections::HashMap,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tokenizers::{ModelWrapper, Tokenizer as Inner, processors::template::TemplateProcessing};

use crate::{
    error::TextError,
    pair::SentencePair,
    special::{BOS, EOS, PAD, SPECIAL_TOKENS},
};

pub use report::VocabularyReport;

/// How text becomes tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenizerConfig {
    /// What a token is.
    pub kind: TokenizerKind,
    /// Where words end. Characters and bytes need none.
    pub split: WordSplit,
    /// Sides that are lowercased first. A lowercased target has lost its case.
    pub lowercase: Lowercase,
    /// Most token ids of a vocabulary, special tokens included. Fewer where the text has fewer;
    /// bytes have 260 in any case.
    pub vocab_size: usize,
    /// Words and characters seen less often in training become `<unk>`; BPE and WordPiece do not
    /// merge pairs seen less often.
    pub min_frequency: usize,
    /// BPE and Unigram: whether a character that the vocabulary lacks is written as its bytes,
    /// which takes 256 of the ids. Nothing is unknown then.
    pub byte_fallback: bool,
    /// One vocabulary for both sides.
    pub joint: bool,
    /// Whether a source starts with `<bos>`. It always ends with `<eos>`; a target always has both.
    pub source_bos: bool,
    /// A tokenizer for both sides that is taken instead of learning one: a `tokenizer.json`, or a
    /// SentencePiece `.model`. Only `source_bos` counts then.
    pub file: Option<PathBuf>,
    /// The same for the source alone; goes with `target_file`.
    pub source_file: Option<PathBuf>,
    /// The same for the target alone.
    pub target_file: Option<PathBuf>,
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TokenizerKind {
    /// A word.
    Word,
    /// A character (Unicode scalar value), spaces included.
    Character,
    /// A byte of the text in UTF-8.
    Byte,
    /// A frequent piece of a word: byte-pair encoding (Sennrich et al. 2016).
    Bpe,
    /// A piece of a word, chosen so that words are likely (Kudo 2018).
    Unigram,
    /// A piece of a word that says whether it continues one, taken from the left, the longest
    /// first (Schuster and Nakajima 2012; BERT).
    Wordpiece,
}

/// Where words end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WordSplit {
    /// At spaces only: for text that is tokenized already.
    Whitespace,
    /// At spaces and around each punctuation mark; decoding puts the marks back where they were.
    Punctuation,
}

/// Sides that are lowercased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lowercase {
    /// Neither side.
    None,
    /// The source: `HELLO` and `Hello` are translated as `hello`.
    Source,
    /// Both sides.
    Both,
}

impl Default for TokenizerConfig {
    fn default() -> Self {
        Self {
            kind: TokenizerKind::Bpe,
            split: WordSplit::Punctuation,
            lowercase: Lowercase::None,
            vocab_size: 10_000,
            min_frequency: 1,
            byte_fallback: false,
            joint: true,
            source_bos: false,
            file: None,
            source_file: None,
            target_file: None,
        }
    }
}

impl TokenizerConfig {
    /// The rules that are broken; empty when all is well.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let bytes = if self.byte_fallback { 256 } else { 0 };
        if self.vocab_size <= SPECIAL_TOKENS.len() + bytes {
            let beside = match self.byte_fallback {
                true => " and the 256 bytes of `byte_fallback`",
                false => "",
            };
            problems.push(format!(
                "`vocab_size` = {} leaves no room beside the {} special tokens{beside}",
                self.vocab_size,
                SPECIAL_TOKENS.len()
            ));
        }
        if self.min_frequency == 0 {
            problems.push("`min_frequency` must be at least 1".into());
        }
        if self.lowercase == Lowercase::Source && self.joint {
            problems.push("`lowercase` = \"source\" needs `joint` = false".into());
        }
        if self.byte_fallback && !matches!(self.kind, TokenizerKind::Bpe | TokenizerKind::Unigram) {
            problems.push("`byte_fallback` needs `kind` = \"bpe\" or \"unigram\"".into());
        }
        match (&self.file, &self.source_file, &self.target_file) {
            (Some(_), None, None) | (None, None, None) => {}
            (None, Some(_), Some(_)) if self.joint => problems.push(
                "`source_file` and `target_file` are two vocabularies: set `joint` = false, or \
                 give one as `file`"
                    .into(),
            ),
            (None, Some(_), Some(_)) => {}
            (Some(_), ..) => problems
                .push("`file` is for both sides: leave out `source_file` and `target_file`".into()),
            (None, ..) => problems.push("`source_file` and `target_file` go together".into()),
        }
        problems
    }

    /// Whether the tokenizers are read from files and not learned.
    pub fn is_imported(&self) -> bool {
        self.file.is_some() || self.source_file.is_some()
    }

    /// The files that tokenizers are read from.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        [&self.file, &self.source_file, &self.target_file].into_iter().flatten().map(|p| &**p)
    }
}

/// The tokenizers of both sides; with a joint vocabulary they differ in the special tokens they
/// add, at most.
#[derive(Debug, Clone)]
pub struct Tokenizers {
    /// Of the text that is read.
    pub source: Tokenizer,
    /// Of the text that is written.
    pub target: Tokenizer,
}

/// Texts to learn from: of one type, so that the library's trainers are compiled once.
type Texts<'a> = Box<dyn Iterator<Item = Cow<'a, str>> + Send + 'a>;

/// Which texts a vocabulary is learned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Target,
    Both,
}

impl Tokenizers {
    /// Learns the vocabularies from `pairs`, which should be the training part alone; or reads
    /// them, if `config` names files.
    ///
    /// The result depends on the texts and `config` only.
    ///
    /// # Errors
    ///
    /// When `config` breaks a rule, or a file cannot be used.
    pub fn train(config: &TokenizerConfig, pairs: &[SentencePair]) -> Result<Self, TextError> {
        Self::make::<TextError>(config, &|side| {
            let sources = (side != Side::Target).then_some(pairs);
            let targets = (side != Side::Source).then_some(pairs);
            let sources = sources.into_iter().flatten().map(|pair| pair.source.as_str());
            let targets = targets.into_iter().flatten().map(|pair| pair.target.as_str());
            Ok(Box::new(sources.chain(targets).map(Cow::Borrowed)))
        })
    }

    /// [`train`](Self::train) on pairs that come one after the other; `stream` is called once for
    /// each vocabulary.
    ///
    /// # Errors
    ///
    /// As [`train`](Self::train), or the first error of the stream.
    pub fn train_on_stream<'a, I, E>(
        config: &TokenizerConfig,
        stream: impl Fn() -> Result<I, E>,
    ) -> Result<Self, E>
    where
        I: Iterator<Item = Result<SentencePair, E>> + Send + 'a,
        E: From<TextError> + Send + 'a,
    {
        // The library knows texts only: an error ends them and is kept here.
        let failed: Arc<Mutex<Option<E>>> = Arc::default();
        let tokenizers = Self::make::<E>(config, &|side| {
            let failed = failed.clone();
            let pairs = stream()?.map_while(move |pair| match pair {
                Ok(pair) => Some(pair),
                Err(error) => {
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    None
                }
            });
            let texts = pairs.flat_map(move |SentencePair { source, target }| {
                let source = (side != Side::Target).then_some(source);
                source.into_iter().chain((side != Side::Source).then_some(target))
            });
            Ok(Box::new(texts.map(Cow::Owned)))
        });
        match failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => tokenizers,
        }
    }

    fn make<'a, E: From<TextError>>(
        config: &TokenizerConfig,
        texts: &dyn Fn(Side) -> Result<Texts<'a>, E>,
    ) -> Result<Self, E> {
        let problems = config.problems();
        if !problems.is_empty() {
            return Err(TextError::TokenizerConfig { problem: problems.join("; ") }.into());
        }
        let lower = |side| match config.lowercase {
            Lowercase::None => false,
            Lowercase::Source => side == Side::Source,
            Lowercase::Both => true,
        };
        let (source, target) = match (&config.file, &config.source_file, &config.target_file) {
            (Some(file), ..) => {
                let both = import::open(file)?;
                (both.clone(), both)
            }
            (None, Some(source), Some(target)) => (import::open(source)?, import::open(target)?),
            _ if config.joint => {
                let both = build::learned(config, lower(Side::Both), texts(Side::Both)?)?;
                (both.clone(), both)
            }
            _ => {
                let source = build::learned(config, lower(Side::Source), texts(Side::Source)?)?;
                let target = build::learned(config, lower(Side::Target), texts(Side::Target)?)?;
                (source, target)
            }
        };
        Ok(Self {
            source: Tokenizer::finish(source, config.source_bos)?,
            target: Tokenizer::finish(target, true)?,
        })
    }
}

/// A token of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlacedToken {
    /// Its id.
    pub id: u32,
    /// Where in the text, in bytes, the word stands that it is part of; special tokens have none.
    pub word: Option<Range<usize>>,
}

/// What a byte-pair encoding has learned.
#[derive(Deserialize)]
pub(crate) struct Merges {
    /// Ids of the tokens.
    pub vocab: HashMap<String, u32>,
    /// Tokens that are merged, in order.
    pub merges: Vec<(String, String)>,
}

/// Text to ids and back, for one side. Clones share the vocabulary.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: Arc<Inner>,
    vocab_size: usize,
}

impl Tokenizer {
    /// Puts `<eos>` behind every text and, if so asked, `<bos>` before it.
    fn finish(mut inner: Inner, adds_bos: bool) -> Result<Self, TextError> {
        let template = if adds_bos { "<bos> $A <eos>" } else { "$A <eos>" };
        let special = [("<bos>", BOS), ("<eos>", EOS)].map(|(token, id)| (token.to_owned(), id));
        let template = TemplateProcessing::builder()
            .try_single(template)
            .map_err(|problem| TextError::TokenizerConfig { problem })?
            .special_tokens(special.to_vec())
            .build()
            .map_err(|error| TextError::Tokenizer(error.into()))?;
        inner.with_post_processor(Some(template));
        // A text that says `<eos>` means the five characters, not the end.
        inner.set_encode_special_tokens(true);
        let vocab_size = inner.get_vocab_size(true);
        Ok(Self { inner: Arc::new(inner), vocab_size })
    }

    /// Opens a `tokenizer.json`.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or as [`from_json`](Self::from_json).
    pub fn open(path: &Path) -> Result<Self, TextError> {
        let json =
            check::read(path).map_err(|source| TextError::Read { path: path.into(), source })?;
        Self::from_json(&json, path)
    }

    /// Reads the content of a `tokenizer.json` that tx wrote; `path` is for messages.
    ///
    /// The file may come from a stranger: whatever it holds, it is refused or can be used without a
    /// panic, and memory and time stay in proportion to file and text.
    ///
    /// # Errors
    ///
    /// When it is no tokenizer, has other special tokens or ids than [`special`](crate::special),
    /// ids other than 0 to n − 1, or parts that the library does not handle safely.
    pub fn from_json(json: &[u8], path: &Path) -> Result<Self, TextError> {
        let problem = |problem| TextError::TokenizerFile { path: path.into(), problem };
        let inner = check::open(json).map_err(problem)?;
        for (id, token) in SPECIAL_TOKENS.iter().enumerate() {
            let found = inner.token_to_id(token);
            if found != Some(id as u32) {
                let found = found.map_or("none".to_owned(), |id| id.to_string());
                return Err(problem(format!("`{token}` must have id {id}, found {found}")));
            }
        }
        check::ids(&inner).map_err(problem)?;
        let adds_bos = check::adds_bos(&inner).map_err(problem)?;
        Self::finish(inner, adds_bos)
    }

    /// The content of a `tokenizer.json`; the same for the same tokenizer.
    ///
    /// # Errors
    ///
    /// When the library cannot write itself out; no such tokenizer is known.
    pub fn to_json(&self) -> Result<String, TextError> {
        self.inner.to_string(true).map_err(TextError::Tokenizer)
    }

    /// Token ids of a text, special tokens included.
    ///
    /// # Errors
    ///
    /// When the library refuses the text; no text is known that it refuses.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let encoding = self.inner.encode_fast(text, true).map_err(TextError::Tokenizer)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// [`encode`](Self::encode) for many texts, one after the other on the calling thread.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    pub fn encode_batch(&self, texts: Vec<&str>) -> Result<Vec<Vec<u32>>, TextError> {
        texts.into_iter().map(|text| self.encode(text)).collect()
    }

    /// [`encode_batch`](Self::encode_batch) on all threads of the current Rayon pool.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    pub fn par_encode_batch(&self, texts: &[&str]) -> Result<Vec<Vec<u32>>, TextError> {
        texts.par_iter().map(|text| self.encode(text)).collect()
    }

    /// Tokens of a text, as [`encode`](Self::encode), each with the place of the word that it is
    /// part of. What a word is, the tokenizer's splitting says.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    pub fn encode_with_words(&self, text: &str) -> Result<Vec<PlacedToken>, TextError> {
        let encoding = self.inner.encode(text, true).map_err(TextError::Tokenizer)?;
        let (words, offsets) = (encoding.get_word_ids(), encoding.get_offsets());
        let mut tokens = Vec::with_capacity(words.len());
        // The last word and its place, and where the one before it ended.
        let (mut last, mut end_before) = (None, 0);
        for (index, (&id, word)) in encoding.get_ids().iter().zip(words).enumerate() {
            if let Some(word) = word
                && last.as_ref().is_none_or(|(other, _)| other != word)
            {
                let parts = words[index..].iter().zip(&offsets[index..]);
                let parts = parts.take_while(|(other, _)| **other == Some(*word));
                // A mark that was set off from a word counts the word's last letter as its own.
                end_before = last.map_or(end_before, |(_, place): (_, Range<usize>)| place.end);
                let (start, end) = parts.fold((text.len(), 0), |(start, end), (_, part)| {
                    (start.min(part.0), end.max(part.1))
                });
                let whole = text.get(start.max(end_before)..end).unwrap_or_default();
                // Some tokenizers count the space before a word to it.
                let start = end - whole.trim_start().len();
                last = Some((*word, start..start + whole.trim().len()));
            }
            let place = last.as_ref().filter(|_| word.is_some()).map(|(_, place)| place.clone());
            tokens.push(PlacedToken { id, word: place });
        }
        Ok(tokens)
    }

    /// [`encode`](Self::encode), and which bytes of `text` each token stands for: nothing for the
    /// special tokens that were added, and with a byte-pair token the space before its word too.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    pub fn encode_with_spans(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>, TextError> {
        let encoding = self.inner.encode(text, true).map_err(TextError::Tokenizer)?;
        let spans = encoding.get_offsets().iter().map(|&(start, end)| start..end);
        Ok(encoding.get_ids().iter().copied().zip(spans).collect())
    }

    /// Readable text of token ids. Padding, start and end are left out; an unknown token shows as
    /// `<unk>`, and an id that no token has is left out.
    ///
    /// For text without unknown tokens, `decode(encode(text))` is `text` with its spaces made
    /// single, its Unicode composed (NFC) and, if so configured, its case lost. Whitespace
    /// splitting keeps the text's own spaces around punctuation.
    ///
    /// # Errors
    ///
    /// When the library refuses the ids; no ids are known that it refuses.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TextError> {
        let is_shown = |id: &u32| ![PAD, BOS, EOS].contains(id) && (*id as usize) < self.vocab_size;
        let ids: Vec<u32> = ids.iter().copied().filter(is_shown).collect();
        // Some of the library's decoders need a token.
        if ids.is_empty() {
            return Ok(String::new());
        }
        self.inner.decode(&ids, false).map_err(TextError::Tokenizer)
    }

    /// The token of an id, as it stands in the vocabulary.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// The id of a token, as it stands in the vocabulary.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Number of ids, special tokens included.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// What was learned; none where the tokenizer is no byte-pair encoding.
    pub(crate) fn merges(&self) -> Option<Merges> {
        let ModelWrapper::BPE(model) = self.inner.get_model() else { return None };
        serde_json::to_value(model).and_then(serde_json::from_value).ok()
    }
}

/// Truncates a sequence to `max_len` tokens, the last of which is `<eos>`.
pub fn truncate(ids: &mut Vec<u32>, max_len: usize) {
    if ids.len() > max_len {
        ids.truncate(max_len);
        if let Some(last) = ids.last_mut() {
            *last = EOS;
        }
    }
}

#[cfg(test)]
mod tests;
