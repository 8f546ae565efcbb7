//! Validation of the model of a `tokenizer.json`: its vocabulary and merges.
//!
//! The vocabulary is most of a file. It is measured while it is parsed and not stored, which
//! shortens the startup of `translate` by a tenth.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

/// Maximum length of the prefix or suffix that a model adds to each piece of a word, in bytes.
const LONGEST_AFFIX: usize = 64;
/// Maximum number of characters of a word that WordPiece segments. Its time grows with their cube.
const LONGEST_WORD: u64 = 1_000;
/// Maximum length of a piece of a Unigram model in bytes. The library frees the tree of pieces by
/// recursion, one level a byte.
const LONGEST_PIECE: usize = 1_024;
/// Maximum bytes of all pieces of a Unigram model. The tree takes about 350 bytes of memory for
/// each.
const MAX_PIECE_BYTES: usize = 8 << 20;

/// Type of a model in the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelKind {
    Bpe,
    Unigram,
    WordLevel,
    WordPiece,
}

/// The keys of a model that are validated. Each may be absent, because a model need not have a
/// type.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Model<'a> {
    #[serde(rename = "type")]
    kind: Value,
    end_of_word_suffix: Value,
    continuing_subword_prefix: Value,
    max_input_chars_per_word: Value,
    vocab: Vocabulary,
    #[serde(borrow)]
    merges: Vec<Merge<'a>>,
}

impl Model<'_> {
    /// Type of the model; `None` if it is unknown, or the file has none.
    pub(super) fn kind(&self) -> Option<ModelKind> {
        match self.kind.as_str()? {
            "BPE" => Some(ModelKind::Bpe),
            "Unigram" => Some(ModelKind::Unigram),
            "WordLevel" => Some(ModelKind::WordLevel),
            "WordPiece" => Some(ModelKind::WordPiece),
            _ => None,
        }
    }

    /// Compares the keys with the limits.
    pub(super) fn check(&self) -> Result<(), String> {
        affix("end_of_word_suffix", &self.end_of_word_suffix)?;
        let prefix = affix("continuing_subword_prefix", &self.continuing_subword_prefix)?;
        if self.max_input_chars_per_word.as_u64().is_some_and(|most| most > LONGEST_WORD) {
            return Err(format!("its `max_input_chars_per_word` is more than {LONGEST_WORD}"));
        }
        match self.vocab {
            Vocabulary::Absent => Ok(()),
            Vocabulary::Pieces { longest, all }
                if longest > LONGEST_PIECE || all > MAX_PIECE_BYTES =>
            {
                Err(format!(
                    "its pieces have more than {LONGEST_PIECE} bytes, or {MAX_PIECE_BYTES} together"
                ))
            }
            Vocabulary::Pieces { .. } => Ok(()),
            Vocabulary::Tokens { longest } => {
                self.merges.iter().try_for_each(|merge| merge.check(prefix, longest))
            }
        }
    }
}

fn affix<'a>(key: &str, affix: &'a Value) -> Result<&'a str, String> {
    match affix.as_str().unwrap_or_default() {
        affix if affix.len() > LONGEST_AFFIX => {
            Err(format!("its `{key}` has more than {LONGEST_AFFIX} bytes"))
        }
        affix => Ok(affix),
    }
}

/// Measures of a vocabulary, in bytes.
#[derive(Default)]
enum Vocabulary {
    #[default]
    Absent,
    /// Of BPE, WordPiece and word-level models, an object of ids by token.
    Tokens { longest: usize },
    /// Of Unigram models, a list of pieces with their scores.
    Pieces { longest: usize, all: usize },
}

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Measure;

        impl<'de> Visitor<'de> for Measure {
            type Value = Vocabulary;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tokens or a list of pieces")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocabulary, A::Error> {
                let mut longest = 0;
                while let Some((Text(token), IgnoredAny)) = map.next_entry()? {
                    longest = longest.max(token.len());
                }
                Ok(Vocabulary::Tokens { longest })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vocabulary, A::Error> {
                let (mut longest, mut all) = (0, 0);
                // The library rejects elements that are not a piece and a score.
                while let Some(piece) = list.next_element::<Value>()? {
                    let piece = piece[0].as_str().unwrap_or_default();
                    longest = longest.max(piece.len());
                    all += piece.len();
                }
                Ok(Vocabulary::Pieces { longest, all })
            }
        }

        deserializer.deserialize_any(Measure)
    }
}

/// A string of the file, borrowed if it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Two tokens that are merged, `"a b"` or `["a", "b"]`; `None` if there are not two parts, which
/// the library rejects.
struct Merge<'a>(Option<(Cow<'a, str>, Cow<'a, str>)>);

impl Merge<'_> {
    /// Compares the result of the merge with the longest token. The library writes it, without the
    /// prefix, into a buffer of that length.
    fn check(&self, prefix: &str, longest: usize) -> Result<(), String> {
        let Some((first, second)) = &self.0 else { return Ok(()) };
        let rest = second.get(prefix.len()..);
        if rest.is_none_or(|rest| first.len() + rest.len() > longest) {
            return Err(format!("its merge of `{first}` and `{second}` gives no token"));
        }
        Ok(())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Merge<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parts;

        impl<'de> Visitor<'de> for Parts {
            type Value = Merge<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("two tokens")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Merge<'de>, E> {
                let parts = text.split_once(' ');
                Ok(Merge(parts.map(|(a, b)| (Cow::Borrowed(a), Cow::Borrowed(b)))))
            }

            fn visit_str<E>(self, text: &str) -> Result<Merge<'de>, E> {
                let parts = text.split_once(' ');
                Ok(Merge(parts.map(|(a, b)| (Cow::Owned(a.into()), Cow::Owned(b.into())))))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Merge<'de>, A::Error> {
                let first = list.next_element::<Text<'de>>()?;
                let second = list.next_element::<Text<'de>>()?;
                let mut parts = first.zip(second);
                while list.next_element::<IgnoredAny>()?.is_some() {
                    parts = None;
                }
                Ok(Merge(parts.map(|(Text(first), Text(second))| (first, second))))
            }
        }

        deserializer.deserialize_any(Parts)
    }
}
