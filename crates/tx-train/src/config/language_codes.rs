//! Languages of a corpus, of those of a multilingual bundle.

use tx_infer::bundle::{LanguagePlacement, Languages};

use super::{corpus::CorpusConfig, similar::nearest_of};

/// Codes of the languages of a corpus, of those of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LanguageCodes {
    /// Source language; `None` if it has no token.
    pub source: Option<String>,
    /// Target language.
    pub target: String,
}

impl LanguageCodes {
    /// Chooses the languages that `entry` names, or else the default ones.
    ///
    /// # Errors
    ///
    /// A problem for each side whose language is missing or unknown.
    pub fn choose(languages: &Languages, entry: &CorpusConfig) -> Result<Self, Vec<String>> {
        let Languages { source, target, default_source, default_target, .. } = languages;
        let target =
            choose("target_language", &entry.target_language, target, default_target.as_ref());
        let source = match languages.placement {
            LanguagePlacement::TargetInSource => Ok(None),
            LanguagePlacement::BothSides => {
                choose("source_language", &entry.source_language, source, default_source.as_ref())
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
        let target_language = Some("fra".into());
        let mut data = CorpusConfig { target_language, ..CorpusConfig::default() };
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
}
