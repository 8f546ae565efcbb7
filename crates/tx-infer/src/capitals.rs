//! Case of texts, such as headlines in capitals, which few corpora contain.

use std::{borrow::Cow, mem};

use tx_text::{TextError, Tokenizer, text_words::word_ranges};

use crate::{
    letter_case::{SHORTEST, is_in_capitals, is_plain, lower, map_words, title},
    lexicon::{MAX_WORD, SourceWords},
};

/// Returns a text with the case that the model reads: lower case instead of capitals if the words have fewer than
/// two thirds of its tokens in lower case, and that of the training text if it is known. Owned if it differs from
/// `text`. It has the same length in bytes, with the same words at the same positions.
///
/// # Errors
///
/// If a word cannot be tokenized.
pub(crate) fn in_known_case<'a>(
    text: &'a str,
    tokenizer: &Tokenizer,
    known: Option<&SourceWords>,
) -> Result<Cow<'a, str>, TextError> {
    if !is_in_capitals(text) {
        return Ok(known.map_or(text.into(), |known| capitalized(text, known)));
    }
    let count = |text: &str| Ok::<_, TextError>(tokenizer.encode(text)?.len());
    let (mut read, mut end) = (String::with_capacity(text.len()), 0);
    // Special tokens at the ends do not count.
    let (mut tokens_before, mut tokens_after, ends) = (0, 0, count("")?);
    for range in word_ranges(text, usize::MAX) {
        let word = &text[range.clone()];
        let written = known.and_then(|known| written(&lower(word), known));
        // A text in capitals is in none of its cases.
        let lower = written.as_ref().map_or_else(|| lower(word), Clone::clone);
        let title = title(&lower);
        let [upper_tokens, lower_tokens, title_tokens] =
            [count(word)?, count(&lower)?, count(&title)?].map(|all| all.saturating_sub(ends));
        // A noun of German and a name have a token of their own with a capital. A sentence begins with
        // one, unless the model knows none.
        let is_title = match (end, known.filter(|_| written.is_some())) {
            (0, Some(known)) => known.begins_with_capitals(),
            (0, None) => title_tokens <= lower_tokens,
            (_, Some(_)) => false,
            (_, None) => title_tokens < lower_tokens,
        };
        tokens_before += upper_tokens;
        tokens_after += if is_title { title_tokens } else { lower_tokens };
        read.push_str(&text[end..range.start]);
        read.push_str(if is_title { &title } else { &lower });
        end = range.end;
    }
    read.push_str(&text[end..]);
    let is_shorter = 3 * tokens_after < 2 * tokens_before;
    Ok(if is_shorter && read != text { read.into() } else { text.into() })
}

/// Returns a text without capitals with those of the training text; owned if it differs.
fn capitalized<'a>(text: &'a str, known: &SourceWords) -> Cow<'a, str> {
    let has_capitals = text.chars().any(char::is_uppercase);
    if has_capitals || text.chars().filter(|c| c.is_lowercase()).take(SHORTEST).count() < SHORTEST {
        return text.into();
    }
    let mut is_first = known.begins_with_capitals();
    let (mut read, mut end) = (String::with_capacity(text.len()), 0);
    for range in word_ranges(text, usize::MAX) {
        read.push_str(&text[end..range.start]);
        end = range.end;
        let mut begins = mem::take(&mut is_first);
        if !is_plain(&text[range.clone()]) {
            read.push_str(&text[range]);
            continue;
        }
        read.push_str(&map_words(&text[range], |word| {
            let word = known.written(word).unwrap_or(word);
            if mem::take(&mut begins) { title(word) } else { word.to_owned() }
        }));
    }
    read.push_str(&text[end..]);
    if read == text { text.into() } else { read.into() }
}

/// Returns words, in lower case, as the training text has them, also with the `ß` that `SS` is for; `None` if it does not
/// have all of them.
fn written(words: &str, known: &SourceWords) -> Option<String> {
    let mut are_known = true;
    let written = map_words(words, |word| {
        // No known word is longer.
        let short = if word.len() > MAX_WORD { "" } else { word };
        let places = short.match_indices("ss").map(|(at, _)| at);
        let mut others = places.map(|at| format!("{}ß{}", &word[..at], &word[at + "ss".len()..]));
        let found = known.written(word).map(str::to_owned);
        let found = found.or_else(|| others.find_map(|it| known.written(&it).map(str::to_owned)));
        are_known &= found.is_some();
        found.unwrap_or_default()
    });
    are_known.then_some(written)
}

#[cfg(test)]
mod tests {
    use tx_text::{SentencePair, TokenizerConfig, TokenizerKind, Tokenizers};

    use super::*;
    use crate::LexiconBuilder;

    /// A tokenizer with a token for each word of `text`.
    fn tokenizer(text: &str) -> Tokenizer {
        let pairs = vec![SentencePair::new(text, text); 9];
        let config = TokenizerConfig { kind: TokenizerKind::Bpe, ..TokenizerConfig::default() };
        Tokenizers::train(&config, &pairs).unwrap().source
    }

    #[test]
    fn a_text_in_capitals_is_read_in_the_case_with_the_fewest_tokens() {
        let tokenizer = tokenizer("Der große Hund läuft über die Straße.");
        let read = |text| in_known_case(text, &tokenizer, None).unwrap().into_owned();
        assert_eq!(read("DER GROSSE HUND LÄUFT."), "Der grosse Hund läuft.");
        assert_eq!(read("HUND  ÜBER HUND"), "Hund  über Hund");
        for unchanged in ["Der Hund", "DER Hund LÄUFT", "HUN", "123 456", "一二三四"] {
            assert!(matches!(
                in_known_case(unchanged, &tokenizer, None).unwrap(),
                Cow::Borrowed(text) if text == unchanged
            ));
        }
    }

    /// A model with tokens for the words in capitals reads them.
    #[test]
    fn known_capitals_are_kept() {
        let tokenizer = tokenizer("DER HUND LÄUFT. der Hund läuft.");
        let read = in_known_case("DER HUND LÄUFT.", &tokenizer, None).unwrap();
        assert_eq!(read, "DER HUND LÄUFT.");
    }

    /// Words have the case of the training text, in which `in` begins no sentence.
    #[test]
    fn a_lexicon_knows_the_case_of_words() {
        let mut builder = LexiconBuilder::default();
        for _ in 0..3 {
            builder.add("Der große Hund in Rom beißt, nicht!", "");
        }
        let tokenizer = tokenizer("Der große Hund in Rom beißt.");
        let lexicon = builder.finish(&tokenizer).unwrap().unwrap();
        let read = |text| in_known_case(text, &tokenizer, Some(lexicon.source())).unwrap();
        for (text, expected) in [
            ("DER GROSSE HUND BEISST IN ROM.", "Der große Hund beißt in Rom."),
            ("IN ROM BEISST HUND", "In Rom beißt Hund"),
            ("der große hund in rom.", "Der große Hund in Rom."),
            ("große katze, nicht?", "Große katze, nicht?"),
            ("„hund-hund“ in rom", "„Hund-Hund“ in Rom"),
            // Addresses, placeholders and tags.
            ("{rom} in rom", "{rom} in Rom"),
            ("www.rom.de <b>rom</b> in rom", "www.rom.de <b>rom</b> in Rom"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        for unchanged in ["der Hund", "hun", "Der hund in rom", "123"] {
            assert!(matches!(read(unchanged), Cow::Borrowed(_)), "{unchanged}");
        }
    }
}
