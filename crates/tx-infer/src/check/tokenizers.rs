//! Round trip of texts through a tokenizer.

use std::borrow::Cow;

use tx_text::{
    TextError, Tokenizer,
    special::{EOS, UNK},
};

use super::CheckResult;

/// Maximum number of tokens of the vocabulary that are checked.
const MAX_CHECKED: usize = 2_000;

/// Decodes each token of the vocabulary between two plain words, encodes and decodes the text, and
/// compares both texts, ignoring white space.
pub(super) fn round_trip(invariant: &'static str, tokenizer: &Tokenizer) -> CheckResult {
    let (deviation, detail) = match differences(tokenizer) {
        Ok(found) => found,
        Err(error) => (Some(f64::INFINITY), Some(error.to_string())),
    };
    CheckResult { invariant, deviation, limit: 0.0, detail }
}

/// Returns the fraction of texts that change, and the first of them; no fraction if the vocabulary
/// has no word.
fn differences(tokenizer: &Tokenizer) -> Result<(Option<f64>, Option<String>), TextError> {
    if encodes_special_text(tokenizer)? {
        return Ok((
            Some(1.0),
            Some("the text `<eos>` is encoded as the end of a sentence".into()),
        ));
    }
    let first = tokenizer.mask_id().unwrap_or(UNK) + 1;
    let ids: Vec<u32> =
        (first..).take(tokenizer.vocab_size().saturating_sub(first as usize)).collect();
    let is = |id: u32, what: fn(char) -> bool| {
        tokenizer.token(id).is_some_and(|token| is_word(&token, what))
    };
    let plain = |letter: char| letter.is_alphanumeric() && !may_join(letter);
    let first = |what| ids.iter().copied().find(|&id| is(id, what));
    let Some(word) = first(plain).or_else(|| first(char::is_alphanumeric)) else {
        return Ok((None, Some("the vocabulary has no word".into())));
    };
    let step = ids.len().div_ceil(MAX_CHECKED).max(1);
    let (mut checked, mut different, mut unknown) = (0, 0, 0);
    let mut detail = None;
    for id in ids.into_iter().step_by(step) {
        if let Some(special) = special_text(tokenizer, id) {
            // The text of a special token, such as that of a language, is not the token.
            checked += 1;
            if tokenizer.encode(&special)?.contains(&id) {
                different += 1;
                detail.get_or_insert_with(|| {
                    format!("the text {special:?} is encoded as a special token")
                });
            }
            continue;
        }
        let decoded = tokenizer.decode(&[word, id, word])?;
        // A token of another program may have characters that are not in the text of the training.
        let text = match tokenizer.normalization() {
            Some(normalization) => normalization.apply(&decoded),
            None => Cow::Borrowed(decoded.as_str()),
        };
        let found = tokenizer.encode(&text)?;
        if found.contains(&UNK) && (tokenizer.is_greedy() || text.chars().any(may_join)) {
            // The composition of a letter and an accent may be a letter outside the vocabulary. A word of
            // pieces that WordPiece has is unknown if their longest matches leave a piece that it has not:
            // it may have `9` at the start of a word, but not inside one.
            unknown += 1;
            continue;
        }
        checked += 1;
        let back = tokenizer.decode(&found)?;
        if collapse_spaces(&text) != collapse_spaces(&back) {
            different += 1;
            detail.get_or_insert_with(|| format!("{text:?} is decoded as {back:?}"));
        }
    }
    if checked == 0 && unknown > 0 {
        return Ok((Some(1.0), Some("every text of known tokens is unknown".into())));
    }
    Ok((Some(f64::from(different) / f64::from(checked.max(1))), detail))
}

/// Returns the text of a special token; `None` for other tokens.
fn special_text(tokenizer: &Tokenizer, id: u32) -> Option<String> {
    tokenizer.token(id).filter(|token| tokenizer.special_id(token) == Some(id))
}

/// Returns `true` if a token is a word or a piece of one and `is_allowed` holds for all its
/// letters.
fn is_word(token: &str, is_allowed: fn(char) -> bool) -> bool {
    let token = token.strip_prefix('▁').unwrap_or(token);
    !token.is_empty() && token.chars().all(is_allowed)
}

/// Returns `true` if Unicode normalization may compose the letter with its neighbors. Overestimates
/// by including whole Unicode blocks.
fn may_join(letter: char) -> bool {
    matches!(
        letter,
        '\u{300}'..='\u{36f}'
            | '\u{483}'..='\u{489}'
            | '\u{591}'..='\u{1dff}'
            | '\u{20d0}'..='\u{20ff}'
            | '\u{302a}'..='\u{302f}'
            | '\u{3099}'..='\u{309a}'
            | '\u{fe20}'..='\u{fe2f}'
            | '\u{10000}'..
    )
}

fn encodes_special_text(tokenizer: &Tokenizer) -> Result<bool, TextError> {
    let ids = tokenizer.encode("a <eos> a")?;
    Ok(ids.iter().filter(|&&id| id == EOS).count() > 1)
}

fn collapse_spaces(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
