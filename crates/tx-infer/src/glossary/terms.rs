//! Terms of a glossary in a source, as constraints on its translation.

use std::{ops::Range, sync::Arc};

use tx_text::{
    Tokenizer,
    spacing::is_unspaced,
    special::{BOS, EOS, UNK},
    terminology::with_terms,
};

use super::{Glossary, Term, term::occurrences};
use crate::{
    error::InferError,
    letter_case::title,
    search::{Constraint, Form, MAX_CONSTRAINTS},
};

/// Glossary of a model.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    glossary: Arc<Glossary>,
}

/// Terms in a text.
pub(crate) struct FoundTerms {
    terms: Vec<FoundTerm>,
    /// Constraints on the translation, without those for which the vocabulary has no tokens.
    pub(crate) constraints: Vec<Constraint>,
}

struct FoundTerm {
    /// Position in the text, in bytes.
    range: Range<usize>,
    /// The term as the text has it.
    source: String,
    /// At least one.
    targets: Vec<String>,
}

impl Terms {
    pub(crate) fn new(glossary: Arc<Glossary>) -> Self {
        Self { glossary }
    }

    /// Finds the first terms in a text, at most [`MAX_CONSTRAINTS`]. `tokenizer` is that of the target.
    ///
    /// # Errors
    ///
    /// If a translation cannot be tokenized.
    pub(crate) fn find(&self, text: &str, tokenizer: &Tokenizer) -> Result<FoundTerms, InferError> {
        let (mut terms, mut constraints) = (Vec::new(), Vec::new());
        for (range, entry) in self.glossary.find(text).into_iter().take(MAX_CONSTRAINTS) {
            let mut forms = Vec::new();
            for target in &entry.targets {
                forms.extend(forms_of(target, tokenizer)?);
            }
            if !forms.is_empty() {
                constraints.push(Constraint { forms });
            }
            let (source, targets) = (text[range.clone()].to_owned(), entry.targets.clone());
            terms.push(FoundTerm { range, source, targets });
        }
        Ok(FoundTerms { terms, constraints })
    }
}

impl FoundTerms {
    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether a term of the text has a word.
    pub(crate) fn contains(&self, word: &str) -> bool {
        self.terms.iter().any(|term| term.source.contains(word))
    }

    /// Writes the first translation of each term in its place. `text` is that in which the terms were found, in any
    /// case.
    pub(crate) fn written_into(&self, text: &str) -> String {
        let terms = self.terms.iter().filter_map(|FoundTerm { range, targets, .. }| {
            Some((range.clone(), targets.first()?.as_str()))
        });
        with_terms(text, terms)
    }

    /// Returns the terms with the translations that a target has.
    pub(crate) fn used_in(&self, target: &str) -> Vec<Term> {
        let term = |FoundTerm { source, targets, .. }: &FoundTerm| {
            let used = targets.iter().find(|text| !occurrences(text, target).is_empty());
            let text = used.or(targets.first()).cloned().unwrap_or_default();
            Term { source: source.clone(), target: text, is_used: used.is_some() }
        };
        self.terms.iter().map(term).collect()
    }
}

/// Returns the tokens of a translation within a target and at its beginning, where it may have a capital. Forms
/// with tokens that the vocabulary lacks are omitted.
pub(crate) fn forms_of(text: &str, tokenizer: &Tokenizer) -> Result<Vec<Form>, InferError> {
    // The text after another, which is removed.
    let context = if text.starts_with(is_unspaced) { "。" } else { "a " };
    let first = text_ids(text, tokenizer)?;
    let inner = after(context, text, tokenizer)?.unwrap_or_else(|| first.clone());
    let ends_word = text.ends_with(|c: char| c.is_alphanumeric() && !is_unspaced(c));
    let mut forms = vec![Form { ids: inner, at_start: false, ends_word }];
    for ids in [first, text_ids(&title(text), tokenizer)?] {
        if forms.iter().all(|form| form.ids != ids) {
            forms.push(Form { ids, at_start: true, ends_word });
        }
    }
    forms.retain(|form| !form.ids.is_empty() && !form.ids.contains(&UNK));
    Ok(forms)
}

/// Returns the tokens of a text after another one; `None` if a token is part of both, or the vocabulary lacks one.
pub(crate) fn after(
    context: &str,
    text: &str,
    tokenizer: &Tokenizer,
) -> Result<Option<Vec<u32>>, InferError> {
    let before = text_ids(context, tokenizer)?;
    let joined = text_ids(&format!("{context}{text}"), tokenizer)?;
    let rest = joined.strip_prefix(&*before).filter(|ids| !ids.is_empty());
    Ok(rest.filter(|ids| !ids.contains(&UNK)).map(<[u32]>::to_vec))
}

/// Ids of a text without `<bos>` and `<eos>`.
fn text_ids(text: &str, tokenizer: &Tokenizer) -> Result<Vec<u32>, InferError> {
    let mut ids = tokenizer.encode(text)?;
    ids.retain(|id| ![BOS, EOS].contains(id));
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use tx_text::{TokenizerConfig, TokenizerKind, special::SpecialTokens};

    use super::*;

    fn tokenizer(kind: TokenizerKind, text: &str) -> Tokenizer {
        let config = TokenizerConfig { kind, ..TokenizerConfig::default() };
        Tokenizer::train(&config, SpecialTokens::Standard, &[text; 9]).unwrap()
    }

    fn tokens(form: &Form, tokenizer: &Tokenizer) -> Vec<String> {
        form.ids.iter().filter_map(|id| tokenizer.token(*id)).collect()
    }

    /// Within a text a space comes first, which is a token of its own.
    #[test]
    fn characters_have_a_form_for_the_start_of_a_text() {
        let tokenizer = tokenizer(TokenizerKind::Character, "a dog Dog");
        let forms = forms_of("dog", &tokenizer).unwrap();
        let found: Vec<_> =
            forms.iter().map(|form| (form.at_start, tokens(form, &tokenizer))).collect();
        let split = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
        let expected = [(false, split(" dog")), (true, split("dog")), (true, split("Dog"))];
        assert_eq!(found, expected);
    }

    #[test]
    fn pieces_of_words_have_forms_without_and_with_a_capital() {
        let tokenizer = tokenizer(TokenizerKind::Bpe, "a hot dog Hot dogs");
        let forms = forms_of("hot dog", &tokenizer).unwrap();
        let found: Vec<_> =
            forms.iter().map(|form| (form.at_start, tokens(form, &tokenizer))).collect();
        let split = |text: &str| text.split(' ').map(|word| format!("▁{word}")).collect::<Vec<_>>();
        assert_eq!(found, [(false, split("hot dog")), (true, split("Hot dog"))]);
        assert!(forms.iter().all(|form| form.ends_word));
    }

    #[test]
    fn translations_without_tokens_have_no_form() {
        let tokenizer = tokenizer(TokenizerKind::Word, "a hot dog");
        assert_eq!(forms_of("cold dog", &tokenizer).unwrap(), []);
        let glossary = Glossary::new([("Hund", "cat"), ("Maus", "dog")]).unwrap();
        let terms = Terms::new(glossary.into());
        let found = terms.find("Hund", &tokenizer).unwrap();
        assert!(found.constraints.is_empty());
        let term =
            |target: &str, is_used| Term { source: "Hund".into(), target: target.into(), is_used };
        assert_eq!(found.used_in("hot dog"), [term("cat", false)]);
        assert_eq!(found.used_in("A Cat."), [term("cat", true)]);
        assert_eq!(terms.find("Maus", &tokenizer).unwrap().constraints.len(), 1);
    }
}
