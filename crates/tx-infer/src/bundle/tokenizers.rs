//! Tokenizer files: one for each side of translation, one for tasks with one text.

use std::path::Path;

use tx_text::{TextError, Tokenizer, Tokenizers};

use super::{
    config::BundleConfig,
    files::{Files, sha256},
};
use crate::{error::InferError, file::write_whole, task::TaskKind};

/// Tokenizer of the source of translation.
pub(super) const SOURCE_TOKENIZER: &str = "source.tokenizer.json";
/// Tokenizer of the target of translation.
pub(super) const TARGET_TOKENIZER: &str = "target.tokenizer.json";
/// Tokenizer of tasks with one text.
pub(super) const TOKENIZER: &str = "tokenizer.json";

/// Largest tokenizer in bytes. The tokenizer of NLLB, with 256,000 tokens, has 17 MB.
const MAX_TOKENIZER: u64 = 256 << 20;

/// Returns the names of the tokenizer files of a task.
pub fn tokenizer_files(kind: TaskKind) -> &'static [&'static str] {
    if kind.has_one_text() { &[TOKENIZER] } else { &[SOURCE_TOKENIZER, TARGET_TOKENIZER] }
}

/// Reads the tokenizers in `folder`, which need not contain weights, of a model for a task of this
/// kind; `None` if there are no tokenizers yet. With one text, both sides have the same tokenizer.
///
/// # Errors
///
/// If one cannot be read.
pub fn saved_tokenizers(folder: &Path, kind: TaskKind) -> Result<Option<Tokenizers>, InferError> {
    let files = tokenizer_files(kind);
    if !files.iter().all(|name| folder.join(name).is_file()) {
        return Ok(None);
    }
    let open = |name| Tokenizer::open(&folder.join(name));
    Ok(Some(match kind.has_one_text() {
        true => Tokenizers::from(open_with_eos(&folder.join(TOKENIZER))?),
        false => Tokenizers {
            source: open(SOURCE_TOKENIZER)?,
            target: open_with_eos(&folder.join(TARGET_TOKENIZER))?,
        },
    }))
}

/// Opens the tokenizer of texts that a model generates or classifies.
fn open_with_eos(path: &Path) -> Result<Tokenizer, TextError> {
    let tokenizer = Tokenizer::open(path)?;
    match tokenizer.ends().eos {
        true => Ok(tokenizer),
        false => {
            let problem = "it must add `<eos>` after a text".into();
            Err(TextError::TokenizerFile { path: path.into(), problem })
        }
    }
}

/// Writes tokenizers into `folder`, for [`saved_tokenizers`], before there are weights for a
/// bundle. With one text, the target tokenizer is that of the text.
///
/// # Errors
///
/// If one cannot be written.
pub fn save_tokenizers(
    folder: &Path,
    kind: TaskKind,
    tokenizers: &Tokenizers,
) -> Result<(), InferError> {
    for (name, json) in tokenizer_contents(kind, tokenizers)? {
        let path = folder.join(name);
        write_whole(&path, json.as_bytes()).map_err(|source| InferError::Write { path, source })?;
    }
    Ok(())
}

/// Returns names and contents of the tokenizer files of a task.
pub(super) fn tokenizer_contents(
    kind: TaskKind,
    tokenizers: &Tokenizers,
) -> Result<Vec<(&'static str, String)>, InferError> {
    let Tokenizers { source, target } = tokenizers;
    Ok(match kind.has_one_text() {
        true => vec![(TOKENIZER, target.to_json()?)],
        false => {
            vec![(SOURCE_TOKENIZER, source.to_json()?), (TARGET_TOKENIZER, target.to_json()?)]
        }
    })
}

/// Compares the tokenizers of two bundles for translation, each with the folder of its bundle.
///
/// # Errors
///
/// [`InferError::OtherVocabulary`] if they differ.
pub fn check_same_tokenizers(
    [(first, ours), (other, theirs)]: [(&Path, &Tokenizers); 2],
) -> Result<(), InferError> {
    check_same("source", (first, &ours.source), (other, &theirs.source))?;
    check_same("target", (first, &ours.target), (other, &theirs.target))
}

/// Compares a tokenizer of two bundles of an ensemble, each with the folder of its bundle. `side`
/// names it in the message.
///
/// # Errors
///
/// [`InferError::OtherVocabulary`] if they differ.
pub(crate) fn check_same(
    side: &'static str,
    (first, ours): (&Path, &Tokenizer),
    (other, theirs): (&Path, &Tokenizer),
) -> Result<(), InferError> {
    let Some(problem) = difference(ours, theirs)? else { return Ok(()) };
    Err(InferError::OtherVocabulary {
        first: first.into(),
        other: other.into(),
        side,
        first_ids: ours.vocab_size(),
        other_ids: theirs.vocab_size(),
        problem,
    })
}

/// Returns the first difference of two tokenizers, if any.
fn difference(ours: &Tokenizer, theirs: &Tokenizer) -> Result<Option<String>, InferError> {
    let ids = ours.vocab_size().max(theirs.vocab_size()) as u32;
    if let Some(id) = (0..ids).find(|&id| ours.token(id) != theirs.token(id)) {
        let name =
            |token: Option<String>| token.map_or("nothing".into(), |token| format!("`{token}`"));
        let (ours, theirs) = (name(ours.token(id)), name(theirs.token(id)));
        return Ok(Some(format!("id {id} is {ours} in one and {theirs} in the other")));
    }
    Ok((!ours.is_same(theirs)?).then(|| {
        "the tokens are the same, but merges, normalization or special tokens differ".into()
    }))
}

/// Returns the total size of the tokenizer files; a missing file counts as 0.
pub(super) fn tokenizer_bytes(files: &Files, kind: TaskKind) -> u64 {
    tokenizer_files(kind).iter().map(|name| files.size(name)).fold(0, u64::saturating_add)
}

/// Reads the tokenizers of a bundle and compares them with its configuration.
pub(super) fn read_tokenizers(
    files: &Files,
    kind: TaskKind,
    config: &BundleConfig,
) -> Result<Tokenizers, InferError> {
    Ok(match kind.has_one_text() {
        true => Tokenizers::from(read_one_tokenizer(files, kind, config)?),
        false => Tokenizers {
            source: read_source_tokenizer(files, config)?,
            target: read_target_tokenizer(files, config)?,
        },
    })
}

pub(super) fn read_source_tokenizer(
    files: &Files,
    config: &BundleConfig,
) -> Result<Tokenizer, InferError> {
    let [hash, _] = config.hashes();
    read_tokenizer(files, SOURCE_TOKENIZER, hash, config.vocabulary.source)
}

pub(super) fn read_target_tokenizer(
    files: &Files,
    config: &BundleConfig,
) -> Result<Tokenizer, InferError> {
    let [_, hash] = config.hashes();
    read_tokenizer(files, TARGET_TOKENIZER, hash, config.vocabulary.target)
}

/// Reads the tokenizer of a task with one text.
pub(super) fn read_one_tokenizer(
    files: &Files,
    kind: TaskKind,
    config: &BundleConfig,
) -> Result<Tokenizer, InferError> {
    let [hash, _] = config.hashes();
    let tokenizer = read_tokenizer(files, TOKENIZER, hash, config.vocabulary.target)?;
    if kind == TaskKind::FillMask && tokenizer.mask_id().is_none() {
        return Err(InferError::NoMaskToken { path: files.path(TOKENIZER) });
    }
    Ok(tokenizer)
}

fn read_tokenizer(
    files: &Files,
    name: &str,
    hash: &str,
    vocabulary: usize,
) -> Result<Tokenizer, InferError> {
    let (json, path) = (files.read(name, MAX_TOKENIZER)?, files.path(name));
    let found = sha256(&json);
    if found != hash {
        let expected = hash.to_owned();
        return Err(InferError::OtherTokenizer { path, found, expected });
    }
    let tokenizer = Tokenizer::from_json(&json, &path)?;
    if tokenizer.vocab_size() != vocabulary {
        return Err(InferError::VocabSize {
            path,
            found: tokenizer.vocab_size(),
            expected: vocabulary,
        });
    }
    Ok(tokenizer)
}
