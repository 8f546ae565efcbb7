//! Replacement of unknown words by source words, by cross-attention (Jean et al. 2015).

use tx_text::{
    special::{SPECIAL_TOKENS, UNK},
    tokenizer::WordToken,
};

use crate::search::Hypothesis;

/// Replaces each `<unk>` in the `text` of `hypothesis` by the word of `source` with the largest
/// attention weight. `tokens` are those of `source`, of which the model read `before` more at its
/// beginning.
pub(super) fn replaced(
    text: String,
    hypothesis: &Hypothesis,
    source: &str,
    tokens: &[WordToken],
    before: usize,
) -> String {
    let unknown = SPECIAL_TOKENS[UNK as usize];
    let found = hypothesis.ids.iter().zip(&hypothesis.sources);
    let positions: Vec<Option<usize>> = found
        .filter(|(id, _)| **id == UNK)
        .map(|(_, position)| position.checked_sub(before))
        .collect();
    let parts: Vec<&str> = text.split(unknown).collect();
    // Other tokens may spell `<unk>`, which makes the occurrences ambiguous.
    if parts.len() != positions.len() + 1 {
        return text;
    }
    let mut replaced = String::with_capacity(text.len());
    for (part, position) in parts.iter().zip(&positions) {
        let token = position.and_then(|position| tokens.get(position));
        let word = token.and_then(|token| source.get(token.word.clone()?));
        replaced.push_str(part);
        replaced.push_str(word.unwrap_or(unknown));
    }
    replaced.push_str(parts.last().copied().unwrap_or_default());
    replaced
}

#[cfg(test)]
mod tests {
    use tx_text::{SentencePair, TokenizerConfig, TokenizerKind, Tokenizers};

    use super::*;

    fn tokenizers(kind: TokenizerKind) -> Tokenizers {
        let pairs = [SentencePair::new("der Hund heißt .", "the dog is called .")];
        Tokenizers::train(&TokenizerConfig { kind, ..TokenizerConfig::default() }, &pairs).unwrap()
    }

    /// `Rex` and `Żółw` are unknown; the target is `the <unk> is <unk> .`, aligned with them.
    #[test]
    fn unknown_words_are_copied_from_the_aligned_source_words() {
        for kind in [TokenizerKind::Word, TokenizerKind::Bpe] {
            let Tokenizers { source, target } = tokenizers(kind);
            let text = "der Rex, heißt Żółw.";
            let words = source.encode_with_words(text).unwrap();
            let position = |word: &str| {
                let at = words
                    .iter()
                    .position(|token| token.word.clone().is_some_and(|range| &text[range] == word));
                at.unwrap_or_else(|| panic!("no {word} in {words:?}"))
            };
            let mut ids = target.encode("the is").unwrap();
            ids = [&ids[1..2], &[UNK], &ids[2..3], &[UNK, UNK]].concat();
            let sources = vec![0, position("Rex"), 0, position("Żółw"), words.len() - 1];
            let hypothesis = Hypothesis { sources, log_probability: 0.0, score: 0.0, ids };
            let decoded = target.decode(&hypothesis.ids).unwrap();
            let found = replaced(decoded.clone(), &hypothesis, text, &words, 0);
            // The last one is aligned with `<eos>`, which is not a word.
            let expected = decoded.replacen("<unk>", "Rex", 1).replacen("<unk>", "Żółw", 1);
            assert_eq!(found, expected);
            assert!(found.contains("Rex") && found.ends_with("<unk>"), "{found}");
        }
    }

    #[test]
    fn a_text_that_contains_the_token_is_unchanged() {
        let Tokenizers { source, .. } = tokenizers(TokenizerKind::Word);
        let hypothesis =
            Hypothesis { ids: vec![UNK], sources: vec![0], log_probability: 0.0, score: 0.0 };
        let text = "<unk> says <unk>".to_owned();
        let words = source.encode_with_words("Rex").unwrap();
        assert_eq!(replaced(text.clone(), &hypothesis, "Rex", &words, 0), text);
    }
}
