//! Languages of a multilingual model, and the tokens that select them.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use tx_text::{Tokenizer, Tokenizers};

/// Languages of a multilingual model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Languages {
    /// Positions of the tokens of the languages.
    pub placement: LanguagePlacement,
    /// Token of a language, with one `{}` for its code: `>>{}<<`, `__{}__`, `{}`.
    pub token: String,
    /// Codes of the source languages. May be empty with [`LanguagePlacement::TargetInSource`], which
    /// has no tokens for them.
    #[serde(default)]
    pub source: Vec<String>,
    /// Codes of the target languages.
    pub target: Vec<String>,
    /// Code of the source language of texts without another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_source: Option<String>,
    /// Code of the target language of texts without another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_target: Option<String>,
}

/// Positions of the tokens of the languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LanguagePlacement {
    /// The source starts with the token of the target language, as in OPUS-MT:
    /// `token(target) text <eos>`.
    TargetInSource,
    /// The source starts with the token of the source language, and the target with that of the
    /// target language, as in M2M-100 and NLLB.
    BothSides,
}

impl Languages {
    /// Returns the token of the language with this code.
    pub fn token_of(&self, code: &str) -> String {
        self.token.replacen("{}", code, 1)
    }

    /// Returns the first problem with these languages, which are those of a model with these
    /// tokenizers.
    pub(super) fn problem(&self, tokenizers: &Tokenizers) -> Option<String> {
        let Self { placement, token, source, target, default_source, default_target } = self;
        if token.matches("{}").count() != 1 {
            return Some(format!("`languages.token` = {token:?} must contain `{{}}` once"));
        }
        let needs_source = match placement {
            LanguagePlacement::TargetInSource => false,
            LanguagePlacement::BothSides => true,
        };
        for (side, codes, default, is_needed) in [
            ("source", source, default_source, needs_source),
            ("target", target, default_target, true),
        ] {
            if is_needed && codes.is_empty() {
                return Some(format!("`languages.{side}` is empty"));
            }
            let mut seen = HashSet::new();
            for code in codes {
                if code.is_empty() || code.contains(|c: char| c.is_whitespace() || c.is_control()) {
                    return Some(format!("`languages.{side}` contains the code {code:?}"));
                }
                if !seen.insert(code.as_str()) {
                    return Some(format!("`languages.{side}` contains {code:?} twice"));
                }
            }
            if let Some(default) = default.as_ref().filter(|code| !seen.contains(code.as_str())) {
                return Some(format!(
                    "`languages.default_{side}` = {default:?} is not in `languages.{side}`"
                ));
            }
        }
        let Tokenizers { source: source_side, target: target_side } = tokenizers;
        match placement {
            LanguagePlacement::TargetInSource => self.missing(target, "source", source_side),
            LanguagePlacement::BothSides => self
                .missing(source, "source", source_side)
                .or_else(|| self.missing(target, "target", target_side)),
        }
    }

    /// Returns a problem if a language of `codes` has no special token in the tokenizer of `side`.
    fn missing(&self, codes: &[String], side: &str, tokenizer: &Tokenizer) -> Option<String> {
        let mut tokens = codes.iter().map(|code| self.token_of(code));
        let missing = tokens.find(|token| tokenizer.special_id(token).is_none())?;
        Some(format!("the {side} tokenizer has no special token {missing:?} of `languages`"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tx_text::{SentencePair, TokenizerConfig};

    use super::*;

    /// A tokenizer of two words with these added special tokens.
    fn tokenizer(special: &[&str]) -> Tokenizer {
        let config = TokenizerConfig { kind: tx_text::TokenizerKind::Word, ..Default::default() };
        let trained = Tokenizers::train(&config, &[SentencePair::new("a b", "a b")]).unwrap();
        let mut json: Value = serde_json::from_str(&trained.source.to_json().unwrap()).unwrap();
        let first = trained.source.vocab_size();
        let added = json["added_tokens"].as_array_mut().unwrap();
        added.extend(special.iter().zip(first..).map(|(token, id)| {
            json!({
                "id": id, "content": token, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true,
            })
        }));
        Tokenizer::from_json(json.to_string().as_bytes(), "a.json".as_ref()).unwrap()
    }

    fn codes(codes: &[&str]) -> Vec<String> {
        codes.iter().map(|&code| code.to_owned()).collect()
    }

    fn both_sides() -> Languages {
        Languages {
            placement: LanguagePlacement::BothSides,
            token: "__{}__".into(),
            source: codes(&["en", "de"]),
            target: codes(&["de"]),
            default_source: Some("en".into()),
            default_target: None,
        }
    }

    #[test]
    fn languages_are_valid_if_each_has_its_token() {
        let tokenizers = Tokenizers {
            source: tokenizer(&["__en__", "__de__", ">>de<<"]),
            target: tokenizer(&["__de__"]),
        };
        assert_eq!(both_sides().problem(&tokenizers), None);
        let target_in_source = Languages {
            placement: LanguagePlacement::TargetInSource,
            token: ">>{}<<".into(),
            source: Vec::new(),
            default_source: None,
            ..both_sides()
        };
        assert_eq!(target_in_source.problem(&tokenizers), None);
        assert_eq!(target_in_source.token_of("de"), ">>de<<");
        for (languages, problem) in [
            (Languages { token: "a".into(), ..both_sides() }, "must contain `{}` once"),
            (Languages { token: "{}{}".into(), ..both_sides() }, "must contain `{}` once"),
            (Languages { token: "{}".into(), ..both_sides() }, "no special token \"en\""),
            (Languages { source: codes(&[]), ..both_sides() }, "`languages.source` is empty"),
            (Languages { target: codes(&[]), ..both_sides() }, "`languages.target` is empty"),
            (Languages { target: codes(&["de", "de"]), ..both_sides() }, "contains \"de\" twice"),
            (Languages { target: codes(&[""]), ..both_sides() }, "contains the code \"\""),
            (Languages { target: codes(&["d e"]), ..both_sides() }, "contains the code \"d e\""),
            (
                Languages { target: codes(&["en"]), ..both_sides() },
                "the target tokenizer has no special token \"__en__\"",
            ),
            (
                Languages { default_source: Some("fr".into()), ..both_sides() },
                "`languages.default_source` = \"fr\" is not in `languages.source`",
            ),
            (
                Languages { target: codes(&["en"]), ..target_in_source },
                "the source tokenizer has no special token \">>en<<\"",
            ),
        ] {
            let found = languages.problem(&tokenizers).unwrap();
            assert!(found.contains(problem), "{problem}: {found}");
        }
    }

    /// A token of the vocabulary that text can contain does not select a language.
    #[test]
    fn a_token_that_is_not_special_is_rejected() {
        let words = tokenizer(&[]);
        assert!(words.id("a").is_some());
        let languages = Languages {
            placement: LanguagePlacement::TargetInSource,
            token: "{}".into(),
            source: Vec::new(),
            target: codes(&["a"]),
            default_source: None,
            default_target: None,
        };
        let tokenizers = Tokenizers { source: words.clone(), target: words };
        assert!(languages.problem(&tokenizers).unwrap().contains("no special token \"a\""));
    }
}
