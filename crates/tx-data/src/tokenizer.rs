//! Text to token ids and back, on the Hugging Face `tokenizers` library.
//!
//! Everything a tokenizer does is in its `tokenizer.json`, so that any tool that reads that format
//! gets the same ids. One thing the format cannot say: here a text that holds `<eos>` holds five
//! characters, not the special token.

use std::{fs, ops::Range, path::Path};

use serde::{Deserialize, Serialize};
use tokenizers::{
    AddedToken, NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior, Tokenizer as Inner,
    decoders::{
        DecoderWrapper, fuse::Fuse, sequence::Sequence as DecoderSequence, wordpiece::WordPiece,
    },
    models::{
        ModelWrapper, TrainerWrapper,
        bpe::{BPE, BpeTrainerBuilder},
        wordlevel::{WordLevel, WordLevelTrainer},
    },
    normalizers::{
        Lowercase, NFC, Sequence as NormalizerSequence, Strip,
        replace::{Replace, ReplacePattern},
    },
    pre_tokenizers::{
        metaspace::{Metaspace, PrependScheme},
        punctuation::Punctuation,
        sequence::Sequence as PreTokenizerSequence,
        split::{Split, SplitPattern},
        whitespace::WhitespaceSplit,
    },
    processors::template::TemplateProcessing,
};

use crate::{
    error::DataError,
    pair::SentencePair,
    special::{BOS, EOS, PAD, SPECIAL_TOKENS, UNK},
};

/// Marks a side of a punctuation token that had no space, as OpenNMT's tokenizer does.
const JOINER: &str = "\u{ffed}";

/// How text becomes tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenizerConfig {
    /// What a token is.
    pub kind: TokenizerKind,
    /// Where words end. Characters need none.
    pub split: WordSplit,
    /// Whether all text is lower-cased first; case is then lost.
    pub lowercase: bool,
    /// Most token ids of a vocabulary, special tokens included. Fewer where the text has fewer.
    pub vocab_size: usize,
    /// Tokens seen less often in training become `<unk>` (words and characters), pairs seen less
    /// often are not merged (BPE).
    pub min_frequency: usize,
    /// One vocabulary for both sides.
    pub joint: bool,
    /// Whether a source starts with `<bos>`. It always ends with `<eos>`; a target always has both.
    pub source_bos: bool,
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenizerKind {
    /// A word.
    Word,
    /// A character (Unicode scalar value), spaces included.
    Character,
    /// A frequent piece of a word: byte-pair encoding (Sennrich et al. 2016).
    Bpe,
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

impl Default for TokenizerConfig {
    fn default() -> Self {
        Self {
            kind: TokenizerKind::Bpe,
            split: WordSplit::Punctuation,
            lowercase: false,
            vocab_size: 10_000,
            min_frequency: 1,
            joint: true,
            source_bos: false,
        }
    }
}

impl TokenizerConfig {
    /// The rules that are broken; empty when all is well.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.vocab_size <= SPECIAL_TOKENS.len() {
            problems.push(format!(
                "`vocab_size` = {} leaves no room beside the {} special tokens",
                self.vocab_size,
                SPECIAL_TOKENS.len()
            ));
        }
        if self.min_frequency == 0 {
            problems.push("`min_frequency` must be at least 1".into());
        }
        problems
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

impl Tokenizers {
    /// Learns the vocabularies from `pairs`, which should be the training part alone.
    ///
    /// The result depends on the texts and `config` only.
    ///
    /// # Errors
    ///
    /// When `config` breaks a rule.
    pub fn train(config: &TokenizerConfig, pairs: &[SentencePair]) -> Result<Self, DataError> {
        let problems = config.problems();
        if !problems.is_empty() {
            return Err(DataError::TokenizerConfig { problem: problems.join("; ") });
        }
        let sources = || pairs.iter().map(|pair| pair.source.as_str());
        let targets = || pairs.iter().map(|pair| pair.target.as_str());
        let (source, target) = if config.joint {
            let both = untrained_then_fed(config, sources().chain(targets()))?;
            (both.clone(), both)
        } else {
            (untrained_then_fed(config, sources())?, untrained_then_fed(config, targets())?)
        };
        let source_template = if config.source_bos { "<bos> $A <eos>" } else { "$A <eos>" };
        Ok(Self {
            source: Tokenizer::finish(source, source_template)?,
            target: Tokenizer::finish(target, "<bos> $A <eos>")?,
        })
    }
}

/// A token of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedToken {
    /// Its id.
    pub id: u32,
    /// Where in the text, in bytes, the word stands that it is part of; special tokens have none.
    pub word: Option<Range<usize>>,
}

/// Text to ids and back, for one side.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: Inner,
}

impl Tokenizer {
    fn finish(mut inner: Inner, template: &str) -> Result<Self, DataError> {
        let special = [("<bos>", BOS), ("<eos>", EOS)].map(|(token, id)| (token.to_owned(), id));
        let template = TemplateProcessing::builder()
            .try_single(template)
            .map_err(|problem| DataError::TokenizerConfig { problem })?
            .special_tokens(special.to_vec())
            .build()
            .map_err(|error| DataError::Tokenizer(error.into()))?;
        inner.with_post_processor(Some(template));
        inner.set_encode_special_tokens(true);
        Ok(Self { inner })
    }

    /// Opens a `tokenizer.json`.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or as [`from_json`](Self::from_json).
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let json =
            fs::read(path).map_err(|source| DataError::Read { path: path.into(), source })?;
        Self::from_json(&json, path)
    }

    /// Reads the content of a `tokenizer.json`; `path` is for messages.
    ///
    /// # Errors
    ///
    /// When it is no tokenizer, or has other special tokens or ids than
    /// [`special`](crate::special).
    pub fn from_json(json: &[u8], path: &Path) -> Result<Self, DataError> {
        let problem = |problem| DataError::TokenizerFile { path: path.into(), problem };
        let mut inner =
            Inner::from_bytes(json).map_err(|error| problem(format!("not readable: {error}")))?;
        for (id, token) in SPECIAL_TOKENS.iter().enumerate() {
            let found = inner.token_to_id(token);
            if found != Some(id as u32) {
                let found = found.map_or("none".to_owned(), |id| id.to_string());
                return Err(problem(format!("`{token}` must have id {id}, found {found}")));
            }
        }
        // A text that says `<eos>` means the five characters, not the end.
        inner.set_encode_special_tokens(true);
        Ok(Self { inner })
    }

    /// The content of a `tokenizer.json`; the same for the same tokenizer.
    ///
    /// # Errors
    ///
    /// When the library cannot write itself out; no such tokenizer is known.
    pub fn to_json(&self) -> Result<String, DataError> {
        self.inner.to_string(true).map_err(DataError::Tokenizer)
    }

    /// Token ids of a text, special tokens included.
    ///
    /// # Errors
    ///
    /// When the library refuses the text; no text is known that it refuses.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, DataError> {
        let encoding = self.inner.encode_fast(text, true).map_err(DataError::Tokenizer)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// [`encode`](Self::encode) for many texts, on all cores.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    pub fn encode_batch(&self, texts: Vec<&str>) -> Result<Vec<Vec<u32>>, DataError> {
        let encodings = self.inner.encode_batch_fast(texts, true).map_err(DataError::Tokenizer)?;
        Ok(encodings.iter().map(|encoding| encoding.get_ids().to_vec()).collect())
    }

    /// Tokens of a text, as [`encode`](Self::encode), each with the place of the word that it is
    /// part of. What a word is, the tokenizer's splitting says.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    pub fn encode_with_words(&self, text: &str) -> Result<Vec<PlacedToken>, DataError> {
        let encoding = self.inner.encode(text, true).map_err(DataError::Tokenizer)?;
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
    pub fn encode_with_spans(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>, DataError> {
        let encoding = self.inner.encode(text, true).map_err(DataError::Tokenizer)?;
        let spans = encoding.get_offsets().iter().map(|&(start, end)| start..end);
        Ok(encoding.get_ids().iter().copied().zip(spans).collect())
    }

    /// Readable text of token ids. Padding, start and end are left out; an unknown token shows as
    /// `<unk>`.
    ///
    /// For text without unknown tokens, `decode(encode(text))` is `text` with its spaces made
    /// single, its Unicode composed (NFC) and, if so configured, its case lost. Whitespace
    /// splitting keeps the text's own spaces around punctuation.
    ///
    /// # Errors
    ///
    /// When the library refuses the ids; no ids are known that it refuses.
    pub fn decode(&self, ids: &[u32]) -> Result<String, DataError> {
        let ids: Vec<u32> =
            ids.iter().copied().filter(|id| ![PAD, BOS, EOS].contains(id)).collect();
        self.inner.decode(&ids, false).map_err(DataError::Tokenizer)
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
        self.inner.get_vocab_size(true)
    }
}

/// Sets up normaliser, splitter, model and decoder, and learns the vocabulary from `texts`.
fn untrained_then_fed<'a>(
    config: &TokenizerConfig,
    texts: impl Iterator<Item = &'a str> + Send,
) -> Result<Inner, DataError> {
    let unknown = SPECIAL_TOKENS[UNK as usize].to_owned();
    let special = SPECIAL_TOKENS.map(|token| AddedToken::from(token, true)).to_vec();
    let (model, mut trainer): (ModelWrapper, TrainerWrapper) = match config.kind {
        TokenizerKind::Word | TokenizerKind::Character => {
            let model = WordLevel::builder().unk_token(unknown).build();
            let trainer = WordLevelTrainer::builder()
                .vocab_size(config.vocab_size)
                .min_frequency(config.min_frequency as u64)
                .show_progress(false)
                .special_tokens(special)
                .build()
                .map_err(|error| DataError::Tokenizer(error.into()))?;
            (model.map_err(DataError::Tokenizer)?.into(), trainer.into())
        }
        TokenizerKind::Bpe => {
            let model = BPE::builder().unk_token(unknown).fuse_unk(true).build();
            let trainer = BpeTrainerBuilder::new()
                .vocab_size(config.vocab_size)
                .min_frequency(config.min_frequency as u64)
                .show_progress(false)
                .special_tokens(special)
                .build();
            (model.map_err(DataError::Tokenizer)?.into(), trainer.into())
        }
    };
    let mut inner = Inner::new(model);
    let parts = Parts::new(config).map_err(DataError::Tokenizer)?;
    inner.with_normalizer(Some(parts.normalizer)).map_err(DataError::Tokenizer)?;
    inner.with_pre_tokenizer(Some(parts.pre_tokenizer));
    inner.with_decoder(parts.decoder);
    inner.train(&mut trainer, texts).map_err(DataError::Tokenizer)?;
    Ok(inner)
}

/// What stands around the vocabulary.
struct Parts {
    normalizer: NormalizerWrapper,
    pre_tokenizer: PreTokenizerWrapper,
    /// None joins tokens with spaces.
    decoder: Option<DecoderWrapper>,
}

impl Parts {
    fn new(config: &TokenizerConfig) -> tokenizers::Result<Self> {
        let mut normalizers: Vec<NormalizerWrapper> =
            vec![NFC.into(), replace_regex(r"\s+", " ")?.into(), Strip::new(true, true).into()];
        if config.lowercase {
            normalizers.push(Lowercase.into());
        }
        let (pre_tokenizer, decoder): (PreTokenizerWrapper, Option<DecoderWrapper>) =
            match (config.kind, config.split) {
                (TokenizerKind::Character, _) => {
                    let any = SplitPattern::Regex(r"[\s\S]".into());
                    let each = Split::new(any, SplitDelimiterBehavior::Isolated, false)?;
                    (each.into(), Some(Fuse::new().into()))
                }
                (TokenizerKind::Word, WordSplit::Whitespace) => {
                    // A word of the text must not be taken for a special token. `<unk>` may: it
                    // is how tokenized corpora write what their makers left out.
                    normalizers.push(replace_regex("<(?=(pad|bos|eos)>)", "< ")?.into());
                    (WhitespaceSplit.into(), None)
                }
                (TokenizerKind::Word, WordSplit::Punctuation) => {
                    normalizers.extend(mark_punctuation()?);
                    (WhitespaceSplit.into(), Some(join_punctuation()?))
                }
                (TokenizerKind::Bpe, split) => {
                    let spaces = Metaspace::new('▁', PrependScheme::Always, true);
                    let pre_tokenizer = match split {
                        WordSplit::Whitespace => spaces.clone().into(),
                        WordSplit::Punctuation => PreTokenizerSequence::new(vec![
                            spaces.clone().into(),
                            Punctuation::new(SplitDelimiterBehavior::Isolated).into(),
                        ])
                        .into(),
                    };
                    (pre_tokenizer, Some(spaces.into()))
                }
            };
        Ok(Self { normalizer: NormalizerSequence::new(normalizers).into(), pre_tokenizer, decoder })
    }
}

/// Sets punctuation off with spaces, and marks where there was none: `l'amico.` becomes
/// `l ￭'￭ amico ￭.`. Words carry no mark, so that each has one id.
fn mark_punctuation() -> tokenizers::Result<Vec<NormalizerWrapper>> {
    Ok(vec![
        // The mark itself is not kept apart from text.
        replace(JOINER, "")?.into(),
        replace_regex(r"(?<=[^\w\s])(?=\w)", &format!("{JOINER} "))?.into(),
        replace_regex(&format!(r"(?<=\S)(?=[^\w\s{JOINER}])"), &format!(" {JOINER}"))?.into(),
    ])
}

/// Undoes [`mark_punctuation`].
fn join_punctuation() -> tokenizers::Result<DecoderWrapper> {
    let spaces = WordPiece::new(JOINER.into(), false);
    Ok(DecoderSequence::new(vec![
        spaces.into(),
        Fuse::new().into(),
        replace(&format!("{JOINER} "), "")?.into(),
        replace(JOINER, "")?.into(),
    ])
    .into())
}

fn replace(text: &str, by: &str) -> tokenizers::Result<Replace> {
    Replace::new(ReplacePattern::String(text.into()), by)
}

fn replace_regex(regex: &str, by: &str) -> tokenizers::Result<Replace> {
    Replace::new(ReplacePattern::Regex(regex.into()), by)
}

#[cfg(test)]
mod tests;
