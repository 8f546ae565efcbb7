//! Texts that come back from their tokens.

use tx_data::{
    DataError, Tokenizer,
    special::{EOS, UNK},
};

use super::Verdict;

/// Tokens of the vocabulary that are tried, at most.
const TRIED: usize = 2_000;
/// Tokens that make a longer text.
const TOGETHER: usize = 5;

/// Makes texts of the vocabulary's own tokens, one by one and several at once, and asks for each
/// whether it is the same after another round. White space does not count, and nothing is promised
/// for `<unk>`; but where most texts have one, something is wrong.
pub(super) fn round_trip(law: &'static str, tokenizer: &Tokenizer) -> Verdict {
    match differences(tokenizer) {
        Ok((share, detail)) => Verdict { law, deviation: Some(share), limit: 0.0, detail },
        Err(error) => {
            let detail = Some(error.to_string());
            Verdict { law, deviation: Some(f64::INFINITY), limit: 0.0, detail }
        }
    }
}

/// The share of texts that do not come back, and the first of them.
fn differences(tokenizer: &Tokenizer) -> Result<(f64, Option<String>), DataError> {
    let ids: Vec<u32> = (UNK + 1..).take(tokenizer.vocab_size().saturating_sub(4)).collect();
    let step = ids.len().div_ceil(TRIED).max(1);
    let singles: Vec<u32> = ids.into_iter().step_by(step).collect();
    let texts = singles.iter().map(std::slice::from_ref).chain(singles.chunks(TOGETHER));
    let (mut tried, mut unknown, mut different) = (0, 0, 0);
    let mut detail = None;
    for ids in texts {
        // Pieces that never met may change when they do: a letter and its accent become one. What
        // has made one round no longer does.
        let first = tokenizer.decode(ids)?;
        let first = if ids.len() == 1 { first } else { again(tokenizer, &first)?.0 };
        if first.trim().is_empty() {
            continue;
        }
        tried += 1;
        let (second, has_unknown) = again(tokenizer, &first)?;
        if has_unknown {
            unknown += 1;
        } else if squeezed(&first) != squeezed(&second) {
            different += 1;
            detail.get_or_insert_with(|| format!("{first:?} comes back as {second:?}"));
        }
    }
    if forges(tokenizer)? {
        return Ok((1.0, Some("a text that says `<eos>` is taken for the end".into())));
    }
    if 2 * unknown > tried {
        let detail = format!("{unknown} of {tried} texts of known tokens come back with `<unk>`");
        return Ok((f64::from(unknown) / f64::from(tried), Some(detail)));
    }
    Ok((f64::from(different) / f64::from(tried.max(1)), detail))
}

/// The text after a round, and whether it has unknown tokens.
fn again(tokenizer: &Tokenizer, text: &str) -> Result<(String, bool), DataError> {
    let ids = tokenizer.encode(text)?;
    Ok((tokenizer.decode(&ids)?, ids.contains(&UNK)))
}

fn forges(tokenizer: &Tokenizer) -> Result<bool, DataError> {
    let ids = tokenizer.encode("a <eos> a")?;
    Ok(ids.iter().filter(|&&id| id == EOS).count() > 1)
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
