//! Configuration of tokenizers.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::special::SpecialTokens;

/// Configuration of a tokenizer. The keys of `[tokenizer]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenizerConfig {
    /// Unit of a token.
    pub kind: TokenizerKind,
    /// Boundaries of words; not used for characters and bytes.
    pub split: WordSplit,
    /// Sides that are lowercased before tokenization. The case of a lowercased target is lost.
    pub lowercase: Lowercase,
    /// Maximum size of a vocabulary, special tokens included. Smaller if the text has fewer tokens;
    /// always 260 for bytes.
    pub vocab_size: usize,
    /// Words and characters that occur less often in training become `<unk>`; BPE and WordPiece do
    /// not merge pairs that occur less often.
    pub min_frequency: usize,
    /// BPE and Unigram: encodes a character that is not in the vocabulary as its bytes, which take
    /// 256 ids. Then no text is unknown.
    pub byte_fallback: bool,
    /// BPE and Unigram: tokens of numbers.
    #[serde(skip_serializing_if = "Digits::is_joined")]
    pub digits: Digits,
    /// Uses one vocabulary for both sides.
    pub joint: bool,
    /// Adds `<bos>` before a source. A target always has both.
    pub source_bos: bool,
    /// Adds `<eos>` after a source. Models of OpenNMT do not.
    pub source_eos: bool,
    /// Tokenizer file for both sides, used instead of learning one: a `tokenizer.json` or a
    /// SentencePiece `.model`. All other keys except `source_bos` and
    /// `source_eos` then have no effect.
    pub file: Option<PathBuf>,
    /// Tokenizer file of the source; requires `target_file`.
    pub source_file: Option<PathBuf>,
    /// Tokenizer file of the target; requires `source_file`.
    pub target_file: Option<PathBuf>,
}

/// Unit of a token.
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
    /// A piece of a word, segmented by a unigram language model (Kudo 2018).
    Unigram,
    /// A piece of a word, marked if it continues the word; segmented from the left, longest match
    /// first (Schuster and Nakajima 2012; BERT).
    Wordpiece,
}

/// Boundaries of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WordSplit {
    /// Spaces only, for text that is already tokenized.
    Whitespace,
    /// Spaces and punctuation marks; decoding restores the spacing of the marks.
    Punctuation,
}

/// Tokens of numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Digits {
    /// Digits merge as letters do, so that frequent numbers have tokens of their own.
    #[default]
    Joined,
    /// Each digit is a token, so that a model can copy any number.
    Split,
}

impl Digits {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
    fn is_joined(&self) -> bool {
        match self {
            Self::Joined => true,
            Self::Split => false,
        }
    }
}

/// Sides that are lowercased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lowercase {
    /// Neither side.
    None,
    /// The source; `HELLO` and `Hello` have the translation of `hello`.
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
            digits: Digits::Joined,
            joint: true,
            source_bos: false,
            source_eos: true,
            file: None,
            source_file: None,
            target_file: None,
        }
    }
}

impl TokenizerConfig {
    /// Returns the broken rules for the tokenizers of source and target; empty for a valid configuration.
    pub fn problems(&self) -> Vec<String> {
        self.problems_with(SpecialTokens::Standard)
    }

    /// Returns the broken rules for the tokenizer of a task with one text, which has no second side.
    pub fn problems_of_one_text(&self, special: SpecialTokens) -> Vec<String> {
        let no_sides = Self {
            lowercase: Lowercase::None,
            source_file: None,
            target_file: None,
            ..self.clone()
        };
        let mut problems = no_sides.problems_with(special);
        if self.source_file.is_some() || self.target_file.is_some() {
            problems.push(
                "`source_file` and `target_file` are for two sides: give the tokenizer as `file`"
                    .into(),
            );
        }
        problems
    }

    fn problems_with(&self, special: SpecialTokens) -> Vec<String> {
        let mut problems = Vec::new();
        let bytes = if self.byte_fallback { 256 } else { 0 };
        if self.vocab_size <= special.count() + bytes {
            let beside = match self.byte_fallback {
                true => " and the 256 bytes of `byte_fallback`",
                false => "",
            };
            problems.push(format!(
                "`vocab_size` = {} leaves no room beside the {} special tokens{beside}",
                self.vocab_size,
                special.count()
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
        if self.digits == Digits::Split
            && !matches!(self.kind, TokenizerKind::Bpe | TokenizerKind::Unigram)
        {
            problems.push("`digits` = \"split\" needs `kind` = \"bpe\" or \"unigram\"".into());
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

    /// Returns `true` if the tokenizers are read from files instead of learned.
    pub fn is_imported(&self) -> bool {
        self.file.is_some() || self.source_file.is_some()
    }

    /// Returns the tokenizer files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        [&self.file, &self.source_file, &self.target_file].into_iter().flatten().map(|p| &**p)
    }
}
