//! Tokens that select the languages of a multilingual model.

use tx_data::{AddedIds, EncodedPair};
use tx_infer::bundle::{LanguagePlacement, Languages};
use tx_text::{Tokenizers, special::BOS};

use crate::config::{DataConfig, nearest_of};

/// Codes of the languages of a run, of those of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LanguageCodes {
    /// Source language; `None` if it has no token.
    pub source: Option<String>,
    /// Target language.
    pub target: String,
}

impl LanguageCodes {
    /// Chooses the languages that `data` names, or else the default ones.
    ///
    /// # Errors
    ///
    /// A problem for each side whose language is missing or unknown.
    pub fn choose(languages: &Languages, data: &DataConfig) -> Result<Self, Vec<String>> {
        let Languages { source, target, default_source, default_target, .. } = languages;
        let target =
            choose("target_language", &data.target_language, target, default_target.as_ref());
        let source = match languages.placement {
            LanguagePlacement::TargetInSource => Ok(None),
            LanguagePlacement::BothSides => {
                choose("source_language", &data.source_language, source, default_source.as_ref())
                    .map(Some)
            }
        };
        match (source, target) {
            (Ok(source), Ok(target)) => Ok(Self { source, target }),
            (source, target) => Err(source.err().into_iter().chain(target.err()).collect()),
        }
    }
}

fn choose(
    key: &str,
    given: &Option<String>,
    codes: &[String],
    default: Option<&String>,
) -> Result<String, String> {
    const SHOWN: usize = 30;
    let list = || {
        let more = if codes.len() > SHOWN { ", …" } else { "" };
        format!("{}{more}", codes[..codes.len().min(SHOWN)].join(", "))
    };
    match (given, default, codes) {
        (Some(code), _, _) if codes.contains(code) => Ok(code.clone()),
        (Some(code), _, _) => {
            let nearest = nearest_of(code, codes.iter().map(String::as_str));
            Err(format!(
                "[data] `{key}` = \"{code}\" is no language of the bundle{nearest}; it has {}",
                list()
            ))
        }
        (None, Some(code), _) => Ok(code.clone()),
        (None, None, [code]) => Ok(code.clone()),
        (None, None, _) => {
            Err(format!("[data] `{key}` is needed, because the bundle has {}", list()))
        }
    }
}

/// Ids that start the sides of a pair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LanguageTokens {
    /// First id of the source, after `<bos>` if there is one.
    source: Option<u32>,
    /// Id after `<bos>` of the target.
    target: Option<u32>,
}

impl LanguageTokens {
    /// Tokens of `codes`, which are languages of a bundle with these tokenizers.
    pub fn new(languages: &Languages, codes: &LanguageCodes, tokenizers: &Tokenizers) -> Self {
        let token = |code: &str| languages.token_of(code);
        let Tokenizers { source, target } = tokenizers;
        match languages.placement {
            LanguagePlacement::TargetInSource => {
                Self { source: source.special_id(&token(&codes.target)), target: None }
            }
            LanguagePlacement::BothSides => Self {
                source: codes.source.as_ref().and_then(|code| source.special_id(&token(code))),
                target: target.special_id(&token(&codes.target)),
            },
        }
    }

    /// Token before the source alone.
    pub fn of_source(token: Option<u32>) -> Self {
        Self { source: token, target: None }
    }

    /// Returns the tokens of both sides, with `tag` before the text of the source.
    pub fn with_tag(self, tag: Option<u32>) -> AddedIds {
        AddedIds {
            source: self.source.into_iter().chain(tag).collect(),
            target: self.target.into_iter().collect(),
        }
    }

    /// Returns the largest number of tokens that a side gets.
    pub fn room(self) -> usize {
        usize::from(self.source.is_some() || self.target.is_some())
    }

    /// Adds the tokens to a pair.
    pub fn add_to(self, pair: &mut EncodedPair) {
        if let Some(id) = self.source {
            // A source starts with `<bos>` only if its tokenizer adds it.
            let start = usize::from(pair.source.first() == Some(&BOS));
            pair.insert_source(start, &[id]);
        }
        if let Some(id) = self.target {
            pair.insert_target(pair.target.len().min(1), &[id]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn languages(placement: LanguagePlacement) -> Languages {
        let codes = |codes: &[&str]| codes.iter().map(|&code| code.to_owned()).collect();
        Languages {
            placement,
            token: "__{}__".into(),
            source: codes(&["eng", "deu"]),
            target: codes(&["deu", "fra"]),
            default_source: Some("eng".into()),
            default_target: None,
        }
    }

    #[test]
    fn languages_are_those_of_the_configuration_or_the_default() {
        let both = languages(LanguagePlacement::BothSides);
        let mut data = DataConfig { target_language: Some("fra".into()), ..DataConfig::default() };
        let codes = LanguageCodes::choose(&both, &data).unwrap();
        assert_eq!((codes.source.as_deref(), &*codes.target), (Some("eng"), "fra"));
        data.source_language = Some("en".into());
        data.target_language = None;
        assert_eq!(
            LanguageCodes::choose(&both, &data).unwrap_err(),
            [
                "[data] `source_language` = \"en\" is no language of the bundle (did you mean \
                 \"eng\"?); it has eng, deu",
                "[data] `target_language` is needed, because the bundle has deu, fra",
            ]
        );
        // Only the target has a token, and one language is no choice.
        let mut one = languages(LanguagePlacement::TargetInSource);
        one.target.truncate(1);
        let codes = LanguageCodes::choose(&one, &data).unwrap();
        assert_eq!((codes.source, &*codes.target), (None, "deu"));
    }

    #[test]
    fn tokens_precede_the_text() {
        let pair = || EncodedPair::new(vec![7, 8, 2], vec![1, 9, 2]);
        for (source, target, expected) in [
            (None, None, [vec![7, 8, 2], vec![1, 9, 2]]),
            (Some(5), None, [vec![5, 7, 8, 2], vec![1, 9, 2]]),
            (Some(5), Some(6), [vec![5, 7, 8, 2], vec![1, 6, 9, 2]]),
        ] {
            let tokens = LanguageTokens { source, target };
            let mut pair = pair();
            tokens.add_to(&mut pair);
            assert_eq!([pair.source, pair.target], expected);
            assert_eq!(tokens.room(), usize::from(source.is_some()));
        }
    }
}
