//! Tokenizers that others made: a `tokenizer.json`, or a SentencePiece `.model`.
//!
//! tx has its special tokens at fixed ids ([`special`](crate::special)). A tokenizer of another
//! making has them elsewhere and under other names, or not at all. Its ids are therefore given
//! anew: the special tokens first, all others after them in their order. What text becomes which
//! pieces stays as it is.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use serde_json::{Map, Value, json};
use tokenizers::Tokenizer as Inner;

use super::{build::apart, check, sentencepiece};
use crate::{
    error::TextError,
    special::{SPECIAL_TOKENS, UNK},
};

/// Under which names the special tokens go elsewhere, in the order of their ids here; the first that
/// a vocabulary has is taken.
const NAMES: [&[&str]; 4] = [
    &["<pad>", "[PAD]", "<PAD>", "<|padding|>", "<blank>"],
    &["<bos>", "<s>", "[BOS]", "[CLS]", "<BOS>", "<|startoftext|>"],
    &["<eos>", "</s>", "[EOS]", "[SEP]", "<EOS>", "<|endoftext|>"],
    &["<unk>", "[UNK]", "<UNK>", "<|unk|>"],
];

/// Texts that a tokenizer must be able to tokenize.
const PROBES: [&str; 4] = ["a", "Hello, world! 123", "¿Qué? Привет, 東京 😀", "<unk> <eos> <0x41>"];

/// Opens a file of either kind, told by content.
///
/// # Errors
///
/// When the file cannot be read, or holds no tokenizer that tx can use.
pub(super) fn open(path: &Path) -> Result<Inner, TextError> {
    let bytes =
        check::read(path).map_err(|source| TextError::Read { path: path.into(), source })?;
    imported(&bytes).map_err(|problem| TextError::TokenizerFile { path: path.into(), problem })
}

fn imported(bytes: &[u8]) -> Result<Inner, String> {
    let is_json = bytes.trim_ascii_start().starts_with(b"{");
    let json = match is_json {
        true => {
            // In one form, whatever version wrote it.
            let text = check::open(bytes)?.to_string(false).map_err(|error| error.to_string())?;
            serde_json::from_str(&text).map_err(|error| error.to_string())?
        }
        false => sentencepiece::to_json(bytes)?,
    };
    let inner = check::open(with_our_ids(json)?.to_string().as_bytes())?;
    check::ids(&inner)?;
    for text in PROBES {
        let ids = inner
            .encode_fast(text, false)
            .map_err(|error| format!("it cannot tokenize `{text}`: {error}"))?;
        inner
            .decode(ids.get_ids(), false)
            .map_err(|error| format!("it cannot put `{text}` together again: {error}"))?;
    }
    Ok(inner)
}

/// The same tokenizer with the special tokens of tx at their ids.
fn with_our_ids(mut json: Value) -> Result<Value, String> {
    let root = json.as_object_mut().ok_or("it is no tokenizer")?;
    let mut added = match root.remove("added_tokens") {
        Some(Value::Array(added)) => added,
        _ => Vec::new(),
    };
    let model = root.get_mut("model").and_then(Value::as_object_mut).ok_or("it has no model")?;
    let kind = model.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();

    // Tokens in the order of their ids. Those that only `added_tokens` has come last: the library
    // numbers them itself, after the model's own.
    let mut tokens: Vec<(u64, String)> = vocabulary(&kind, model)?;
    tokens.sort();
    let known: HashSet<String> = tokens.iter().map(|(_, token)| token.clone()).collect();
    let mut only_added = Vec::new();
    for token in &added {
        let (Some(id), Some(content)) = (token["id"].as_u64(), token["content"].as_str()) else {
            return Err("an added token has no id or no content".into());
        };
        if !known.contains(content) {
            only_added.push((id, content.to_owned()));
        }
    }
    only_added.sort();
    tokens.append(&mut only_added);

    let unknown = unknown_token(&kind, model);
    let ours = SPECIAL_TOKENS.iter().enumerate().map(|(id, _)| {
        let named = |name: &str| tokens.iter().any(|(_, token)| token == name);
        match &unknown {
            Some(unknown) if id == UNK as usize => Some(unknown.clone()),
            _ => NAMES[id].iter().find(|name| named(name)).map(|&name| name.to_owned()),
        }
    });
    let ours: Vec<Option<String>> = ours.collect();
    let is_ours = |token: &str| ours.iter().flatten().any(|name| name == token);
    let others: Vec<&str> =
        tokens.iter().map(|(_, token)| token.as_str()).filter(|token| !is_ours(token)).collect();
    if let Some(taken) = others.iter().find(|token| SPECIAL_TOKENS.contains(token)) {
        return Err(format!("its token `{taken}` stands for something else than in tx"));
    }
    if others.is_empty() {
        return Err("its vocabulary holds special tokens only".into());
    }
    let order: Vec<&str> = SPECIAL_TOKENS.into_iter().chain(others).collect();

    // What text never becomes by itself must not be in the model's own vocabulary twice.
    let scores = scores(&kind, model);
    let is_in_model = |token: &str| known.contains(token);
    match kind.as_str() {
        "Unigram" => {
            let vocab: Vec<Value> =
                order.iter().map(|&token| json!([token, scores(token)])).collect();
            model.insert("vocab".into(), vocab.into());
            model.insert("unk_id".into(), UNK.into());
        }
        _ => {
            let vocab: Map<String, Value> = order
                .iter()
                .enumerate()
                .filter(|(id, token)| *id < SPECIAL_TOKENS.len() || is_in_model(token))
                .map(|(id, token)| ((*token).to_owned(), id.into()))
                .collect();
            model.insert("vocab".into(), vocab.into());
            model.insert("unk_token".into(), SPECIAL_TOKENS[UNK as usize].into());
        }
    }
    // Random segmentation belongs to training alone, and is repeatable there.
    for random in ["dropout", "alpha", "nbest_size"] {
        if model.contains_key(random) {
            model.insert(random.into(), Value::Null);
        }
    }

    added.retain(|token| token["content"].as_str().is_some_and(|content| !is_ours(content)));
    let ids: HashMap<&str, usize> =
        order.iter().enumerate().map(|(id, token)| (*token, id)).collect();
    for token in &mut added {
        token["id"] =
            token["content"].as_str().and_then(|content| ids.get(content)).copied().into();
    }
    let special = SPECIAL_TOKENS.iter().enumerate().map(|(id, token)| {
        json!({
            "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true,
        })
    });
    let mut all: Vec<Value> = special.chain(added).collect();
    all.sort_by_key(|token| token["id"].as_u64());
    root.insert("added_tokens".into(), all.into());
    for key in ["post_processor", "truncation", "padding"] {
        root.insert(key.into(), Value::Null);
    }

    // A text that says `<eos>` must not become the end.
    let apart = apart().and_then(|split| Ok(serde_json::to_value(split)?));
    let apart = apart.map_err(|error| error.to_string())?;
    let pre_tokenizer = match root.remove("pre_tokenizer") {
        None | Some(Value::Null) => apart,
        Some(theirs) => json!({ "type": "Sequence", "pretokenizers": [theirs, apart] }),
    };
    root.insert("pre_tokenizer".into(), pre_tokenizer);
    Ok(json)
}

/// Ids and tokens of the model itself.
fn vocabulary(kind: &str, model: &Map<String, Value>) -> Result<Vec<(u64, String)>, String> {
    let none = || format!("its model `{kind}` has no vocabulary");
    match model.get("vocab") {
        Some(Value::Object(vocab)) => vocab
            .iter()
            .map(|(token, id)| {
                let id = id.as_u64().ok_or_else(|| format!("`{token}` has no id"))?;
                Ok((id, token.clone()))
            })
            .collect(),
        Some(Value::Array(vocab)) => vocab
            .iter()
            .zip(0..)
            .map(|(entry, id)| match entry.get(0).and_then(Value::as_str) {
                Some(token) => Ok((id, token.to_owned())),
                None => Err(none()),
            })
            .collect(),
        _ => Err(none()),
    }
}

/// What the model gives for what it does not know.
fn unknown_token(kind: &str, model: &Map<String, Value>) -> Option<String> {
    if kind == "Unigram" {
        let id = usize::try_from(model.get("unk_id")?.as_u64()?).ok()?;
        return Some(model.get("vocab")?.get(id)?.get(0)?.as_str()?.to_owned());
    }
    let unknown = model.get("unk_token")?.as_str()?;
    model.get("vocab")?.get(unknown).map(|_| unknown.to_owned())
}

/// The scores of the tokens of a Unigram model; 0 for those that it does not have.
fn scores(kind: &str, model: &Map<String, Value>) -> impl Fn(&str) -> f64 + use<> {
    let vocab = match model.get("vocab") {
        Some(Value::Array(vocab)) if kind == "Unigram" => vocab.as_slice(),
        _ => &[],
    };
    let scores: HashMap<String, f64> = vocab
        .iter()
        .filter_map(|entry| Some((entry.get(0)?.as_str()?.to_owned(), entry.get(1)?.as_f64()?)))
        .collect();
    move |token| scores.get(token).copied().unwrap_or(0.0)
}
