//! Validation of a `tokenizer.json` before the library reads it, and of the resulting tokenizer.
//!
//! A bundle, a prepared corpus or a download may be untrusted. The library trusts its files: some
//! cause a panic, a stack overflow, or unbounded expansion of a short text. Each part is therefore
//! compared with limits that real tokenizers stay far below.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use data_encoding::BASE64;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use tokenizers::{
    DecoderWrapper, ModelWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper,
    Tokenizer as Inner, TokenizerImpl,
    models::{bpe::BPE, unigram::Unigram, wordlevel::WordLevel, wordpiece::WordPiece},
};

use super::{
    charsmap,
    ends::Ends,
    model_check::{Model, ModelKind},
};
use crate::{git_lfs, normalization::Normalization, special::SPECIAL_TOKENS};

/// Maximum size of a file in bytes. Vocabularies of 256,000 tokens take about 35 MB.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// Maximum number of steps of normalizer, pre-tokenizer and decoder together.
const MAX_STEPS: usize = 64;
/// Maximum nesting depth of sequences of steps.
const MAX_DEPTH: usize = 8;
/// Maximum number of bytes that normalizer and pre-tokenizer, or the decoder, may write for one
/// byte. Those of other programs write up to about 400 by this count, which is an upper bound.
const MAX_GROWTH: u64 = 1_024;
/// Maximum length of a regular expression in bytes. The library limits the work of a match, not its
/// size.
const MAX_PATTERN_BYTES: usize = 4_096;

/// Regular expressions of runs of spaces.
const SPACES: [&str; 2] = [r"\s+", " {2,}"];

/// Parts of a file that are validated.
///
/// The library reads every occurrence of a key, whereas most JSON readers keep the last. Serde's
/// derived reader rejects a second one, so both read the same parts.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    decoder: Value,
    #[serde(default)]
    added_tokens: Value,
    #[serde(borrow, default)]
    model: Model<'a>,
}

/// Reads a file up to the maximum size of a tokenizer.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let text = format!("it has more than {MAX_FILE_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    if git_lfs::is_pointer(&bytes) {
        let text = format!("it {}; {}", git_lfs::PROBLEM, git_lfs::HINT);
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(bytes)
}

/// Opens a `tokenizer.json` of any origin.
///
/// # Errors
///
/// If it is not a tokenizer, or a part exceeds a limit; the message names the part.
pub(super) fn open(json: &[u8]) -> Result<Inner, String> {
    if json.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("it has more than {MAX_FILE_BYTES} bytes"));
    }
    let read = match parts(json)? {
        Some(ModelKind::Bpe) => read_with_model::<BPE>(json),
        Some(ModelKind::Unigram) => read_with_model::<Unigram>(json),
        Some(ModelKind::WordLevel) => read_with_model::<WordLevel>(json),
        Some(ModelKind::WordPiece) => read_with_model::<WordPiece>(json),
        None => None,
    };
    let any = || Inner::from_bytes(json).map_err(|error| format!("not readable: {error}"));
    read.map_or_else(any, Ok)
}

/// Reads a file whose type of model is known; `None` if that fails. The library finds the type of any
/// model by copying its vocabulary twice, which takes most of the time of opening a large one.
fn read_with_model<M: DeserializeOwned + tokenizers::Model + Into<ModelWrapper>>(
    json: &[u8],
) -> Option<Inner> {
    type Whole<M> = TokenizerImpl<
        M,
        NormalizerWrapper,
        PreTokenizerWrapper,
        PostProcessorWrapper,
        DecoderWrapper,
    >;
    Some(serde_json::from_slice::<Whole<M>>(json).ok()?.into())
}

/// Compares the parts of a file with the limits, and returns the type of its model. They are freed
/// before the library reads the file again.
fn parts(json: &[u8]) -> Result<Option<ModelKind>, String> {
    let parts: Parts =
        serde_json::from_slice(json).map_err(|error| format!("not readable: {error}"))?;
    let mut steps = MAX_STEPS;
    let normalizer = Stage { name: "normalizer", list: "normalizers", growth: normalizer };
    let pre_tokenizer =
        Stage { name: "pre-tokenizer", list: "pretokenizers", growth: pre_tokenizer };
    let decoder = Stage { name: "decoder", list: "decoders", growth: decoder };
    // A recorded normalization is applied by tx, and its growth is that of NFKC.
    let text = match Normalization::split_steps(&parts.normalizer) {
        None => normalizer.check(&parts.normalizer, &mut steps)?,
        Some((_, rest)) => rest.iter().try_fold(1_u64, |growth, step| {
            Ok::<_, String>(growth.saturating_mul(normalizer.check(step, &mut steps)?))
        })?,
    };
    let text = text.saturating_mul(pre_tokenizer.check(&parts.pre_tokenizer, &mut steps)?);
    for growth in [text, decoder.check(&parts.decoder, &mut steps)?] {
        if growth > MAX_GROWTH {
            return Err(format!(
                "it may make a text {growth} times as long, expected at most {MAX_GROWTH} times"
            ));
        }
    }
    added_tokens(&parts.added_tokens)?;
    parts.model.check()?;
    Ok(parts.model.kind())
}

/// Checks that the ids of a tokenizer of another program are in proportion to the number of its
/// tokens. The library writes a tokenizer in time and memory that grow with its largest id.
///
/// # Errors
///
/// If an id is too large; the message names the token.
pub(super) fn id_sizes(inner: &Inner) -> Result<(), String> {
    let vocabulary = inner.get_vocab(true);
    let most = vocabulary.len().saturating_mul(4).saturating_add(1 << 16);
    // The model may have another id for an added token, which hides it.
    let of_model = inner.get_vocab(false);
    let largest = vocabulary.iter().chain(&of_model).max_by_key(|(_, id)| **id);
    match largest.filter(|(_, id)| **id as usize > most) {
        None => Ok(()),
        Some((token, id)) => {
            Err(format!("its token `{token}` has id {id}, but it has {} tokens", vocabulary.len()))
        }
    }
}

/// Number of ids of a tokenizer, which must be 0 to n − 1, one for each token.
///
/// # Errors
///
/// If ids are missing, shared or too large, or if the tokenizer truncates, pads or drops merges.
pub(super) fn ids(inner: &Inner) -> Result<usize, String> {
    if inner.get_truncation().is_some() || inner.get_padding().is_some() {
        return Err("it truncates or pads, which tx does by itself".into());
    }
    if let ModelWrapper::BPE(model) = inner.get_model()
        && model.dropout.is_some()
    {
        return Err("it drops merges at random".into());
    }
    let size = inner.get_vocab_size(true);
    if has_consecutive_ids(inner, size) {
        return Ok(size);
    }
    let vocabulary = inner.get_vocab(true);
    let mut tokens: Vec<(u32, &String)> =
        vocabulary.iter().map(|(token, &id)| (id, token)).collect();
    tokens.sort_unstable();
    let size = tokens.len();
    if inner.get_vocab_size(true) != size {
        return Err("a token is in its vocabulary twice".into());
    }
    match tokens.iter().zip(0..).find(|((id, _), expected)| id != expected) {
        Some(((id, token), expected)) => Err(format!(
            "its {size} tokens must have the ids 0 to {}, but `{token}` has {id}, expected \
             {expected}",
            size - 1
        )),
        None => Ok(size),
    }
}

/// Returns `true` if the `size` tokens of a tokenizer have the ids 0 to `size` − 1, one each. Does not
/// copy the vocabulary, unlike the search for the first problem.
fn has_consecutive_ids(inner: &Inner, size: usize) -> bool {
    let is_own = |id| inner.id_to_token(id).is_some_and(|it| inner.token_to_id(&it) == Some(id));
    u32::try_from(size).is_ok_and(|size| (0..size).all(is_own))
}

/// Returns the special tokens that a tokenizer adds to a text.
///
/// # Errors
///
/// If it adds other tokens.
pub(super) fn ends(inner: &Inner) -> Result<Ends, String> {
    let added = serde_json::to_value(inner.get_post_processor()).unwrap_or_default();
    let pieces = added["single"].as_array().map(Vec::as_slice).unwrap_or_default();
    let pieces: Vec<Option<&str>> = pieces
        .iter()
        .map(|piece| {
            let text = piece["Sequence"].as_object().map(|_| "text");
            text.or_else(|| piece["SpecialToken"]["id"].as_str())
        })
        .collect();
    let [_, bos, eos, _] = SPECIAL_TOKENS.map(Some);
    let text = Some("text");
    match pieces.as_slice() {
        [first] if *first == text => Ok(Ends { bos: false, eos: false }),
        [first, last] if *first == text && *last == eos => Ok(Ends::EOS),
        [first, last] if *first == bos && *last == text => Ok(Ends { bos: true, eos: false }),
        [first, middle, last] if *first == bos && *middle == text && *last == eos => Ok(Ends::BOTH),
        _ => Err(format!(
            "it must add at most `{}` after a text, and `{}` before it",
            SPECIAL_TOKENS[2], SPECIAL_TOKENS[1]
        )),
    }
}

/// Part that consists of one step or a sequence of steps.
struct Stage {
    name: &'static str,
    /// Key of the steps of a sequence.
    list: &'static str,
    /// Maximum number of bytes that a step writes for one byte, by its type.
    growth: fn(&str, &Map<String, Value>) -> Result<u64, String>,
}

impl Stage {
    /// Maximum number of bytes that the stage writes for one byte. Subtracts its steps from
    /// `steps`.
    fn check(&self, stage: &Value, steps: &mut usize) -> Result<u64, String> {
        match stage {
            Value::Null => Ok(1),
            step => self.step(step, steps, MAX_DEPTH),
        }
    }

    fn step(&self, step: &Value, steps: &mut usize, depth: usize) -> Result<u64, String> {
        let name = self.name;
        *steps = steps.checked_sub(1).ok_or(format!("it has more than {MAX_STEPS} steps"))?;
        let kind = step.get("type").and_then(Value::as_str);
        let (Some(step), Some(kind)) = (step.as_object(), kind) else {
            return Err(format!("a step of its {name} has no type"));
        };
        if kind != "Sequence" {
            return (self.growth)(kind, step)
                .map_err(|problem| format!("its {name} `{kind}` {problem}"));
        }
        let depth = depth
            .checked_sub(1)
            .ok_or(format!("its {name} nests sequences more than {MAX_DEPTH} deep"))?;
        let inner = step.get(self.list).and_then(Value::as_array);
        let inner = inner.ok_or(format!("a sequence of its {name} has no `{}`", self.list))?;
        inner.iter().try_fold(1_u64, |growth, step| {
            Ok(growth.saturating_mul(self.step(step, steps, depth)?))
        })
    }
}

fn normalizer(kind: &str, step: &Map<String, Value>) -> Result<u64, String> {
    match kind {
        "Strip" | "StripAccents" | "Nmt" => Ok(1),
        // Canonical decompositions, Turkish capitals, spaces around CJK: three bytes at most.
        "NFC" | "NFD" | "Lowercase" | "BertNormalizer" | "ByteLevel" => Ok(3),
        // U+FDFA becomes 18 characters, 33 bytes instead of 3.
        "NFKC" | "NFKD" => Ok(11),
        "Prepend" => Ok(text_of(step, "prepend")?.len() as u64 + 1),
        "Replace" => replace(step),
        "Precompiled" => {
            let table = text_of(step, "precompiled_charsmap")?;
            let table = BASE64.decode(table.as_bytes()).map_err(|_| "is not base64")?;
            charsmap::check(&table).map_err(|problem| format!("is damaged: {problem}"))
        }
        _ => Err("is not known".into()),
    }
}

fn pre_tokenizer(kind: &str, step: &Map<String, Value>) -> Result<u64, String> {
    match kind {
        "BertPreTokenizer" | "CharDelimiterSplit" | "Digits" | "Punctuation" | "UnicodeScripts"
        | "Whitespace" | "WhitespaceSplit" => Ok(1),
        // Two bytes for one, and a space before each word.
        "ByteLevel" => Ok(3),
        // A mark of up to four bytes for each space, and before each word.
        "Metaspace" => Ok(8),
        "Split" => pattern(step).map(|_| 1),
        // The library divides by it.
        "FixedLength" if step.get("length").is_some_and(|length| *length == 0) => {
            Err("has length 0".into())
        }
        "FixedLength" => Ok(1),
        _ => Err("is not known".into()),
    }
}

fn decoder(kind: &str, step: &Map<String, Value>) -> Result<u64, String> {
    match kind {
        "ByteFallback" | "ByteLevel" | "Fuse" | "Metaspace" => Ok(1),
        // A space before each token, or around each byte of it.
        "BPEDecoder" | "WordPiece" => Ok(2),
        "Replace" => replace(step),
        // The library strips beyond the start of tokens with fewer characters.
        "Strip" if step.get("stop").is_none_or(|stop| *stop != 0) => {
            Err("strips the ends of tokens, which is not supported".into())
        }
        "Strip" => Ok(1),
        _ => Err("is not known".into()),
    }
}

fn text_of<'a>(step: &'a Map<String, Value>, key: &str) -> Result<&'a str, String> {
    step.get(key).and_then(Value::as_str).ok_or_else(|| format!("has no `{key}`"))
}

/// Literal text of a pattern; `None` for a regular expression.
fn pattern(step: &Map<String, Value>) -> Result<Option<&str>, String> {
    let pattern = step.get("pattern").unwrap_or(&Value::Null);
    match (pattern["String"].as_str(), pattern["Regex"].as_str()) {
        (Some(text), None) => Ok(Some(text)),
        (None, Some(regex)) if regex.len() <= MAX_PATTERN_BYTES => Ok(None),
        (None, Some(_)) => Err(format!("has a pattern of more than {MAX_PATTERN_BYTES} bytes")),
        _ => Err("has no pattern".into()),
    }
}

/// Bytes that `Replace` writes for one byte. A regular expression may match the empty text before
/// any character, apart from those of runs of spaces.
fn replace(step: &Map<String, Value>) -> Result<u64, String> {
    let content = text_of(step, "content")?.len();
    let regex = step.get("pattern").and_then(|pattern| pattern["Regex"].as_str());
    let is_of_spaces = regex.is_some_and(|regex| SPACES.contains(&regex));
    let growth = match pattern(step)? {
        Some(text) if !text.is_empty() => content.div_ceil(text.len()).max(1),
        None if is_of_spaces => content.max(1),
        _ => content + 1,
    };
    Ok(growth as u64)
}

fn added_tokens(tokens: &Value) -> Result<(), String> {
    for token in tokens.as_array().into_iter().flatten() {
        let content = token["content"].as_str().unwrap_or_default();
        // Each space of a run would include all others.
        if token["rstrip"] == true && content.starts_with(char::is_whitespace) {
            return Err(format!(
                "its added token `{content}` starts with a space and has `rstrip`"
            ));
        }
    }
    Ok(())
}
