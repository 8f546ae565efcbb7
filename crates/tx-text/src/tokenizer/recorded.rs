//! Normalization of a tokenizer of the library: recorded in its normalizer, or known from the way it was
//! learned.

use serde_json::{Value, json};
use tokenizers::{NormalizerWrapper, Tokenizer as Inner};

use crate::{
    error::TextError,
    normalization::{NormalForm, Normalization, may_be_removed},
};

/// Takes the recorded normalization out of the normalizer of a tokenizer.
///
/// # Errors
///
/// If the library rejects the rest of the normalizer; no such normalizer is known.
pub(super) fn take(inner: &mut Inner) -> Result<Option<Normalization>, TextError> {
    let normalizer = of(inner);
    let Some((recorded, rest)) = Normalization::split_steps(&normalizer) else { return Ok(None) };
    let rest = match rest {
        [] => None,
        [only] => Some(read(only)?),
        steps => Some(read(&json!({ "type": "Sequence", "normalizers": steps }))?),
    };
    inner.with_normalizer(rest).map_err(TextError::Tokenizer)?;
    Ok(Some(recorded))
}

/// Returns the content of a `tokenizer.json` with a recorded normalization.
///
/// # Errors
///
/// If the library cannot serialize the tokenizer; no such tokenizer is known.
pub(super) fn to_json(inner: &Inner, recorded: Normalization) -> Result<String, TextError> {
    let rest = match of(inner) {
        Value::Null => None,
        // Only a sequence that starts with a record is taken apart when it is read.
        rest => Some(rest),
    };
    let steps: Vec<Value> = [recorded.steps()].into_iter().chain(rest).collect();
    let mut inner = inner.clone();
    let normalizer = read(&json!({ "type": "Sequence", "normalizers": steps }))?;
    inner.with_normalizer(Some(normalizer)).map_err(TextError::Tokenizer)?;
    inner.to_string(true).map_err(TextError::Tokenizer)
}

/// Returns the part of a normalization that a tokenizer does not do by itself: learned tokenizers
/// compose characters.
pub(super) fn applied(inner: &Inner, normalization: Normalization) -> Normalization {
    match normalization.form {
        NormalForm::Nfc if is_learned(inner) => {
            Normalization { form: NormalForm::None, ..normalization }
        }
        _ => normalization,
    }
}

/// Returns the normalization of a tokenizer that records none: a learned tokenizer ignores invisible
/// characters that would be unknown, because none of its tokens has one, or stands for a byte.
pub(super) fn unrecorded(inner: &Inner) -> Normalization {
    let decoder = serde_json::to_string(&inner.get_decoder()).unwrap_or_default();
    let has_bytes = decoder.contains("ByteLevel") || decoder.contains("ByteFallback");
    let has_invisible = || {
        let tokens = 0..inner.get_vocab_size(true) as u32;
        tokens.filter_map(|id| inner.id_to_token(id)).any(|token| token.contains(may_be_removed))
    };
    match is_learned(inner) && !has_bytes && !has_invisible() {
        true => Normalization { spaces: true, ..Normalization::NONE },
        false => Normalization::NONE,
    }
}

/// Returns `true` if a tokenizer starts with the steps of those that tx learns.
fn is_learned(inner: &Inner) -> bool {
    let normalizer = of(inner);
    let steps = [
        json!({ "type": "NFC" }),
        json!({ "type": "Replace", "pattern": { "Regex": r"\s+" }, "content": " " }),
        json!({ "type": "Strip", "strip_left": true, "strip_right": true }),
    ];
    normalizer["normalizers"].as_array().is_some_and(|found| found.starts_with(&steps))
}

fn of(inner: &Inner) -> Value {
    serde_json::to_value(inner.get_normalizer()).unwrap_or_default()
}

fn read(normalizer: &Value) -> Result<NormalizerWrapper, TextError> {
    let read = serde_json::from_str(&normalizer.to_string());
    read.map_err(|error| TextError::Tokenizer(error.into()))
}

#[cfg(test)]
mod tests {
    use crate::{
        NormalForm, Normalization, Tokenizer, TokenizerConfig, WordSplit,
        special::{SpecialTokens, UNK},
        tokenizer::{TokenizerKind, tests::KINDS},
    };

    const TEXT: &str = "the garden (1 flat)";
    const CLEAN: Normalization =
        Normalization { form: NormalForm::Nfc, spaces: true, markup: false };
    const COMPATIBLE: Normalization =
        Normalization { form: NormalForm::Nfkc, spaces: true, markup: true };

    fn trained(kind: TokenizerKind, texts: &[&str]) -> Tokenizer {
        let split = WordSplit::Punctuation;
        let config = TokenizerConfig { kind, split, ..TokenizerConfig::default() };
        Tokenizer::train(&config, SpecialTokens::WithMask, texts).unwrap()
    }

    fn opened(tokenizer: &Tokenizer) -> Tokenizer {
        let json = tokenizer.to_json().unwrap();
        let opened = Tokenizer::from_json(json.as_bytes(), "x".as_ref()).unwrap();
        assert_eq!(opened.to_json().unwrap(), json);
        assert!(opened.is_same(tokenizer).unwrap());
        opened
    }

    #[test]
    fn a_recorded_normalization_is_applied() {
        let marked = "<b>the</b> gar\u{ad}den (\u{ff11}\u{200b} \u{fb02}at) ";
        for kind in KINDS {
            let plain = trained(kind, &[TEXT; 3]);
            for (normalization, text) in
                [(CLEAN, "the\u{3000}gar\u{ad}den (1\u{200b} flat)\u{feff}"), (COMPATIBLE, marked)]
            {
                let tokenizer = opened(&plain.clone().with_normalization(normalization));
                assert_eq!(tokenizer.normalization(), Some(normalization));
                assert_eq!(
                    tokenizer.encode(text).unwrap(),
                    plain.encode(TEXT).unwrap(),
                    "{kind:?}"
                );
                let masked = tokenizer.encode_with_masks(&format!("<mask> {text}")).unwrap();
                assert_eq!(masked, plain.encode_with_masks(&format!("<mask> {TEXT}")).unwrap());
                let spans = tokenizer.encode_with_spans(text).unwrap();
                let expected = plain.encode_with_spans(TEXT).unwrap();
                assert!(spans.iter().map(|it| it.0).eq(expected.iter().map(|it| it.0)));
                assert!(spans.iter().all(|(_, span)| text.get(span.clone()).is_some()));
                let words = tokenizer.encode_with_words(text).unwrap();
                assert!(
                    words
                        .iter()
                        .flat_map(|it| &it.word)
                        .any(|word| &text[word.clone()] == "gar\u{ad}den")
                        || matches!(kind, TokenizerKind::Character | TokenizerKind::Byte)
                );
            }
            assert!(plain.is_blank("\u{200b}\u{ad} ") && !plain.is_blank("<br>"));
            assert!(plain.clone().with_normalization(COMPATIBLE).is_blank("<br>\u{200b}"));
        }
    }

    /// A tokenizer that was learned from text with a soft hyphen tells words with it apart.
    #[test]
    fn without_a_record_unknown_invisible_characters_are_dropped() {
        let marked = "the gar\u{ad}den (1 flat)";
        for kind in KINDS.into_iter().filter(|kind| *kind != TokenizerKind::Byte) {
            let plain = opened(&trained(kind, &[TEXT; 3]));
            assert_eq!(plain.normalization(), None);
            let ids = plain.encode(TEXT).unwrap();
            assert_eq!(plain.encode(marked).unwrap(), ids, "{kind:?}");
            let off = opened(&plain.with_normalization(Normalization::NONE));
            assert!(off.encode(marked).unwrap().contains(&UNK), "{kind:?}");
        }
        for (kind, texts) in
            [(TokenizerKind::Word, &[TEXT, "gar\u{ad}den"][..]), (TokenizerKind::Byte, &[TEXT])]
        {
            let hyphenated = opened(&trained(kind, texts));
            let [with, without] =
                ["gar\u{ad}den", "garden"].map(|text| hyphenated.encode(text).unwrap());
            assert_ne!(with, without, "{kind:?}");
        }
    }

    #[test]
    fn steps_are_added_to_those_of_a_tokenizer() {
        let plain = trained(TokenizerKind::Bpe, &[TEXT]);
        let clean = plain.clone().with_steps_of(CLEAN);
        assert_eq!(clean.normalization(), Some(CLEAN));
        // A learned tokenizer composes characters and collapses white space anyway.
        assert!(plain.is_same(&clean).unwrap());
        let both = clean.clone().with_steps_of(COMPATIBLE).with_steps_of(CLEAN);
        assert_eq!(both.normalization(), Some(COMPATIBLE));
        assert!(!both.is_same(&clean).unwrap() && both.has_ids_of(&clean).unwrap());
    }
}
