//! Import of tokenizers from other programs: a `tokenizer.json`, or a SentencePiece `.model`.
//!
//! tx has its special tokens at fixed ids ([`special`](crate::special)). Other tokenizers have them
//! at other ids and under other names, or not at all. Their ids are therefore renumbered: the
//! special tokens first, then all others in their order. The segmentation of text is unchanged: that of
//! the library for a `tokenizer.json`, that of SentencePiece for a `.model`.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use serde_json::{Map, Value, json};

use super::{
    check,
    ends::Ends,
    one_side::Tokenizer,
    sentencepiece::{self, Decoding, ModelTokens},
    special_text::apart,
    vocabulary::{SentencePieceFile, SentencePieceVocabulary},
};
use crate::{
    error::TextError,
    special::{MASK_TOKEN, SPECIAL_TOKENS, SpecialTokens, UNK},
};

/// Names of the special tokens in other programs, in the order of their ids in tx; the first one in
/// a vocabulary is used.
const NAMES: [&[&str]; 4] = [
    &["<pad>", "[PAD]", "<PAD>", "<|padding|>", "<blank>"],
    &["<bos>", "<s>", "[BOS]", "[SOS]", "[CLS]", "<BOS>", "<|startoftext|>"],
    &["<eos>", "</s>", "[EOS]", "[SEP]", "<EOS>", "<|endoftext|>"],
    &["<unk>", "[UNK]", "<UNK>", "<|unk|>"],
];
/// Names of the mask in other programs.
const MASK_NAMES: &[&str] = &["<mask>", "[MASK]", "<MASK>", "<|mask|>"];

/// Texts that a usable tokenizer can encode and decode.
const PROBES: [&str; 4] = ["a", "Hello, world! 123", "¿Qué? Привет, 東京 😀", "<unk> <eos> <0x41>"];

/// Opens a file of either kind, detected from its content, with the special tokens `special`. Adds the
/// special tokens `ends` to every text.
///
/// # Errors
///
/// If the file cannot be read, or is not a tokenizer that tx can use.
pub(super) fn open(
    path: &Path,
    special: SpecialTokens,
    ends: Ends,
) -> Result<Tokenizer, TextError> {
    let bytes =
        check::read(path).map_err(|source| TextError::Read { path: path.into(), source })?;
    let tokenizer = match SentencePieceFile::read(&bytes) {
        Some(file) => file.and_then(|file| written(file, special, ends)),
        None if bytes.trim_ascii_start().starts_with(b"{") => json(&bytes, special, ends),
        None => model(&bytes, special, ends),
    };
    tokenizer
        .and_then(probed)
        .map_err(|problem| TextError::TokenizerFile { path: path.into(), problem })
}

/// Opens a `tokenizer.json`.
fn json(bytes: &[u8], special: SpecialTokens, ends: Ends) -> Result<Tokenizer, String> {
    // The library converts files of all its versions to one form.
    let inner = check::open(bytes)?;
    check::id_sizes(&inner)?;
    let text = inner.to_string(false).map_err(|error| error.to_string())?;
    let json = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let inner = check::open(renumber(json, special)?.to_string().as_bytes())?;
    check::ids(&inner)?;
    Tokenizer::finish(inner, ends).map_err(|error| error.to_string())
}

/// Opens a SentencePiece model.
fn model(bytes: &[u8], ours: SpecialTokens, ends: Ends) -> Result<Tokenizer, String> {
    let ModelTokens { pieces, control, unknown } = sentencepiece::tokens(bytes)?;
    let vocabulary = Vocabulary { tokens: pieces, of_model: HashSet::new() };
    let special = special_names(&vocabulary, Some(unknown), ours);
    let order = new_order(&vocabulary, &special, ours)?;
    let tokens: Vec<String> = order.into_iter().map(str::to_owned).collect();
    let control = control.into_iter().filter(|token| !is_special(&special, token));
    let special: Vec<String> =
        ours.tokens().iter().map(|&token| token.to_owned()).chain(control).collect();
    let vocabulary =
        SentencePieceVocabulary { tokens: &tokens, special: &special, leading_code: false, ends };
    Tokenizer::of_model(bytes, vocabulary, Decoding::Exact)
}

/// Opens a file of a SentencePiece model that tx wrote, which has the special tokens of tx.
fn written(
    file: SentencePieceFile,
    special: SpecialTokens,
    ends: Ends,
) -> Result<Tokenizer, String> {
    let tokenizer = file.with_ends(ends).tokenizer()?;
    if special == SpecialTokens::WithMask && tokenizer.mask_id().is_none() {
        return Err(format!("it has no special token `{MASK_TOKEN}`"));
    }
    Ok(tokenizer)
}

/// Checks that a tokenizer can encode and decode.
fn probed(tokenizer: Tokenizer) -> Result<Tokenizer, String> {
    for text in PROBES {
        let ids = tokenizer
            .encode(text)
            .map_err(|error| format!("it cannot tokenize `{text}`: {error}"))?;
        tokenizer
            .decode(&ids)
            .map_err(|error| format!("it cannot decode the tokens of `{text}`: {error}"))?;
    }
    Ok(tokenizer)
}

/// Renumbers a tokenizer, so that the special tokens of tx have their ids.
fn renumber(mut json: Value, ours: SpecialTokens) -> Result<Value, String> {
    let root = json.as_object_mut().ok_or("it is not a tokenizer")?;
    let added = match root.remove("added_tokens") {
        Some(Value::Array(added)) => added,
        _ => Vec::new(),
    };
    let model = root.get_mut("model").and_then(Value::as_object_mut).ok_or("it has no model")?;
    let kind = model.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();

    let vocabulary = Vocabulary::of(&kind, model, &added)?;
    let special = special_names(&vocabulary, unknown_token(&kind, model), ours);
    let order = new_order(&vocabulary, &special, ours)?;
    renumber_model(&kind, model, &vocabulary, &order, ours);
    root.insert("added_tokens".into(), renumber_added(added, &special, &order, ours).into());
    for key in ["post_processor", "truncation", "padding"] {
        root.insert(key.into(), Value::Null);
    }
    keep_special_text_apart(root, ours)?;
    Ok(json)
}

/// All tokens of a tokenizer.
struct Vocabulary {
    /// Tokens in the order of their ids.
    tokens: Vec<String>,
    /// Tokens of the model itself; the others are in `added_tokens` only.
    of_model: HashSet<String>,
}

impl Vocabulary {
    /// Collects the tokens. Those in `added_tokens` only come last, because the library numbers
    /// them after those of the model.
    fn of(kind: &str, model: &Map<String, Value>, added: &[Value]) -> Result<Self, String> {
        let mut of_model = model_vocabulary(kind, model)?;
        of_model.sort();
        let known: HashSet<String> = of_model.iter().map(|(_, token)| token.clone()).collect();
        let mut only_added = Vec::new();
        for token in added {
            let (Some(id), Some(content)) = (token["id"].as_u64(), token["content"].as_str())
            else {
                return Err("an added token has no id or no content".into());
            };
            if !known.contains(content) {
                only_added.push((id, content.to_owned()));
            }
        }
        only_added.sort();
        let tokens = of_model.into_iter().chain(only_added).map(|(_, token)| token).collect();
        Ok(Self { tokens, of_model: known })
    }

    fn has(&self, name: &str) -> bool {
        self.tokens.iter().any(|token| token == name)
    }
}

/// Names of the special tokens in a vocabulary, in the order of their ids in tx; `None` for a token that
/// it does not have.
fn special_names(
    vocabulary: &Vocabulary,
    unknown: Option<String>,
    ours: SpecialTokens,
) -> Vec<Option<String>> {
    let named = |names: &[&str]| {
        names.iter().find(|name| vocabulary.has(name)).map(|&name| name.to_owned())
    };
    let mask = match ours {
        SpecialTokens::Standard => None,
        SpecialTokens::WithMask => Some(&MASK_NAMES),
    };
    let mut special: Vec<Option<String>> =
        NAMES.iter().chain(mask).map(|names| named(names)).collect();
    if let Some(unknown) = unknown {
        special[UNK as usize] = Some(unknown);
    }
    special
}

fn is_special(special: &[Option<String>], token: &str) -> bool {
    special.iter().flatten().any(|name| name == token)
}

/// Tokens in the order of their new ids: the special tokens, then all others in their old order.
fn new_order<'a>(
    vocabulary: &'a Vocabulary,
    special: &[Option<String>],
    ours: SpecialTokens,
) -> Result<Vec<&'a str>, String> {
    let tokens = vocabulary.tokens.iter().map(String::as_str);
    let others: Vec<&str> = tokens.filter(|token| !is_special(special, token)).collect();
    if let Some(taken) = others.iter().find(|token| ours.tokens().contains(token)) {
        return Err(format!("its token `{taken}` has another meaning than in tx"));
    }
    if others.is_empty() {
        return Err("its vocabulary holds special tokens only".into());
    }
    Ok(ours.tokens().iter().copied().chain(others).collect())
}

/// Gives the model the new ids, and turns off random segmentation, which tx does by itself in
/// training.
fn renumber_model(
    kind: &str,
    model: &mut Map<String, Value>,
    vocabulary: &Vocabulary,
    order: &[&str],
    ours: SpecialTokens,
) {
    let scores = scores(kind, model);
    match kind {
        "Unigram" => {
            let vocab: Vec<Value> =
                order.iter().map(|&token| json!([token, scores(token)])).collect();
            model.insert("vocab".into(), vocab.into());
            model.insert("unk_id".into(), UNK.into());
        }
        _ => {
            // Tokens that are only added must not be in the vocabulary of the model, too.
            let vocab: Map<String, Value> = order
                .iter()
                .enumerate()
                .filter(|&(id, &token)| id < ours.count() || vocabulary.of_model.contains(token))
                .map(|(id, token)| ((*token).to_owned(), id.into()))
                .collect();
            model.insert("vocab".into(), vocab.into());
            model.insert("unk_token".into(), SPECIAL_TOKENS[UNK as usize].into());
        }
    }
    for random in ["dropout", "alpha", "nbest_size"] {
        if model.contains_key(random) {
            model.insert(random.into(), Value::Null);
        }
    }
}

/// Added tokens with their new ids, the special tokens of tx instead of those of the tokenizer.
fn renumber_added(
    mut added: Vec<Value>,
    special: &[Option<String>],
    order: &[&str],
    ours: SpecialTokens,
) -> Vec<Value> {
    added.retain(|token| {
        token["content"].as_str().is_some_and(|content| !is_special(special, content))
    });
    let ids: HashMap<&str, usize> =
        order.iter().enumerate().map(|(id, token)| (*token, id)).collect();
    for token in &mut added {
        token["id"] =
            token["content"].as_str().and_then(|content| ids.get(content)).copied().into();
    }
    let special = ours.tokens().iter().enumerate().map(|(id, token)| {
        json!({
            "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true,
        })
    });
    let mut all: Vec<Value> = special.chain(added).collect();
    all.sort_by_key(|token| token["id"].as_u64());
    all
}

/// Splits text that looks like a special token, so that the text `<eos>` does not become the token.
fn keep_special_text_apart(
    root: &mut Map<String, Value>,
    ours: SpecialTokens,
) -> Result<(), String> {
    let apart = apart(ours).and_then(|split| Ok(serde_json::to_value(split)?));
    let apart = apart.map_err(|error| error.to_string())?;
    let pre_tokenizer = match root.remove("pre_tokenizer") {
        None | Some(Value::Null) => apart,
        Some(theirs) => json!({ "type": "Sequence", "pretokenizers": [theirs, apart] }),
    };
    root.insert("pre_tokenizer".into(), pre_tokenizer);
    Ok(())
}

/// Ids and tokens of the model itself.
fn model_vocabulary(kind: &str, model: &Map<String, Value>) -> Result<Vec<(u64, String)>, String> {
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

/// The unknown token of the model.
fn unknown_token(kind: &str, model: &Map<String, Value>) -> Option<String> {
    if kind == "Unigram" {
        let id = usize::try_from(model.get("unk_id")?.as_u64()?).ok()?;
        return Some(model.get("vocab")?.get(id)?.get(0)?.as_str()?.to_owned());
    }
    let unknown = model.get("unk_token")?.as_str()?;
    model.get("vocab")?.get(unknown).map(|_| unknown.to_owned())
}

/// Scores of the tokens of a Unigram model; 0 for tokens that it does not have.
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
