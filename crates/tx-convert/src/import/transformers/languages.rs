//! Languages of a model and their tokens.

use serde_json::Value;
use tx_infer::{LanguagePlacement, Languages};

use super::folder::Folder;
use crate::error::ConvertError;

/// Languages of M2M-100 in the order of their ids, which follow the vocabulary.
const M2M100: &str = "\
    af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha \
    he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my \
    ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi \
    wo xh yi yo zh zu";
/// Languages of the models of WMT 2021, which are M2M-100 models with other languages.
const WMT21: &str = "en ha is ja cs ru zh de";

/// Minimum number of tokens that are languages and not words which look like them.
const FEW_LANGUAGES: usize = 4;

/// Token of a language of Marian models.
const MARIAN: [&str; 2] = [">>", "<<"];

/// Languages of a Marian model: its tokens `>>…<<`, which precede a source text. `None` without
/// such tokens.
pub(super) fn of_marian<'a>(tokens: impl Iterator<Item = &'a str>) -> Option<Languages> {
    let [start, end] = MARIAN;
    let code = |token: &'a str| token.strip_prefix(start)?.strip_suffix(end);
    let is_code = |code: &&str| !code.is_empty() && !code.contains(char::is_whitespace);
    let target: Vec<String> = tokens.filter_map(code).filter(is_code).map(str::to_owned).collect();
    (!target.is_empty()).then(|| Languages {
        placement: LanguagePlacement::TargetInSource,
        token: format!("{start}{{}}{end}"),
        source: Vec::new(),
        target,
        default_source: None,
        default_target: None,
    })
}

/// Languages of a model whose family is not known, by the tokens of its source vocabulary: those of
/// Marian, M2M-100 or NLLB.
pub(in crate::import) fn of_tokens(tokens: &[String]) -> Option<Languages> {
    of_marian(tokens.iter().map(String::as_str)).or_else(|| {
        [Family::M2m100, Family::Nllb].into_iter().find_map(|family| {
            let codes = tokens.iter().filter_map(|token| family.code(token));
            let codes: Vec<String> = codes.map(str::to_owned).collect();
            (codes.len() >= FEW_LANGUAGES).then(|| Languages {
                placement: LanguagePlacement::BothSides,
                token: family.template().to_owned(),
                source: codes.clone(),
                target: codes,
                default_source: None,
                default_target: None,
            })
        })
    })
}

/// Returns `true` for the token of a language of Marian models.
pub(in crate::import) fn is_marian(token: &str) -> bool {
    let [start, end] = MARIAN;
    token.strip_prefix(start).is_some_and(|rest| rest.ends_with(end))
}

/// Family of models with language tokens on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// Tokens `__de__`, whose ids follow a `vocab.json`.
    M2m100,
    /// Tokens `deu_Latn`, whose ids follow the pieces of a SentencePiece model.
    Nllb,
}

impl Family {
    /// Token of a language with `{}` for its code.
    fn template(self) -> &'static str {
        match self {
            Self::M2m100 => "__{}__",
            Self::Nllb => "{}",
        }
    }

    /// Code of the language of a token.
    fn code(self, token: &str) -> Option<&str> {
        match self {
            Self::M2m100 => token.strip_prefix("__")?.strip_suffix("__"),
            // Three letters of the language, four of the script.
            Self::Nllb => {
                let (language, script) = token.split_once('_')?;
                let is_name = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphabetic());
                let is_code = language.len() == 3 && script.len() == 4;
                (is_code && is_name(language) && is_name(script)).then_some(token)
            }
        }
    }
}

/// Tokens that follow the vocabulary, with their ids: those of languages, and others such as
/// `<mask>`. `first` is the first id after the vocabulary.
///
/// # Errors
///
/// If the folder does not name them, or a file is damaged.
pub(super) fn added_tokens(
    folder: &mut Folder,
    family: Family,
    first: u32,
) -> Result<Vec<(String, u32)>, ConvertError> {
    if family == Family::M2m100 {
        // The tokenizer of transformers numbers these languages itself.
        let codes = match folder.tokenizer.text("language_codes").as_deref() {
            None | Some("m2m100") => M2M100,
            Some("wmt21") => WMT21,
            Some(other) => {
                let problem = format!("`language_codes` = `{other}`, supported are m2m100, wmt21");
                return Err(folder.problem("tokenizer_config.json", problem));
            }
        };
        let tokens = codes.split(' ').map(|code| format!("__{code}__"));
        return Ok(tokens.zip(first..=u32::MAX).collect());
    }
    let mut found = listed_tokens(folder)?;
    found.retain(|(_, id)| *id >= first);
    if found.is_empty() {
        // A list in the order of the ids, which `<mask>` follows.
        let names = folder.tokenizer.get("additional_special_tokens").and_then(Value::as_array);
        let names = names.into_iter().flatten().filter_map(Value::as_str);
        found = names.map(str::to_owned).zip(first..=u32::MAX).collect();
    }
    if found.is_empty() {
        let problem = "no file of the folder lists the languages".to_owned();
        return Err(ConvertError::File { path: folder.path.clone(), problem });
    }
    Ok(found)
}

/// Tokens that a list of added tokens gives an id, in the order of the ids: those of
/// `tokenizer.json`, `tokenizer_config.json` and `added_tokens.json`.
///
/// # Errors
///
/// If a file is damaged.
pub(super) fn listed_tokens(folder: &mut Folder) -> Result<Vec<(String, u32)>, ConvertError> {
    let mut listed = Vec::new();
    if let Some(json) = folder.json("tokenizer.json")? {
        for token in json["added_tokens"].as_array().into_iter().flatten() {
            listed.push((token["content"].as_str().map(str::to_owned), token["id"].as_u64()));
        }
    }
    if let Some(tokens) = folder.tokenizer.get("added_tokens_decoder").and_then(Value::as_object) {
        for (id, token) in tokens {
            listed.push((token["content"].as_str().map(str::to_owned), id.parse().ok()));
        }
    }
    if let Some(Value::Object(tokens)) = folder.json("added_tokens.json")? {
        for (token, id) in tokens {
            listed.push((Some(token), id.as_u64()));
        }
    }
    let mut found: Vec<(String, u32)> = listed
        .into_iter()
        .filter_map(|(token, id)| Some((token?, u32::try_from(id?).ok()?)))
        .collect();
    found.sort_by(|(a, first), (b, second)| first.cmp(second).then_with(|| a.cmp(b)));
    found.dedup();
    Ok(found)
}

/// Languages of a model with these added tokens. `forced` is the id of the first target token that
/// the model forces.
pub(super) fn of_both_sides(
    folder: &Folder,
    family: Family,
    added: &[(String, u32)],
    forced: Option<u32>,
) -> Languages {
    let codes: Vec<String> =
        added.iter().filter_map(|(token, _)| family.code(token)).map(str::to_owned).collect();
    let known = |code: String| codes.contains(&code).then_some(code);
    let forced = added.iter().find(|(_, id)| Some(*id) == forced);
    let forced = forced.and_then(|(token, _)| family.code(token)).map(str::to_owned);
    let default_source = folder.tokenizer.text("src_lang").and_then(known);
    let default_target = folder.tokenizer.text("tgt_lang").and_then(known).or(forced);
    Languages {
        placement: LanguagePlacement::BothSides,
        token: family.template().to_owned(),
        source: codes.clone(),
        target: codes,
        default_source,
        default_target,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_tokens() {
        assert_eq!(Family::M2m100.code("__de__"), Some("de"));
        assert_eq!(Family::M2m100.code("<mask>"), None);
        assert_eq!(Family::Nllb.code("deu_Latn"), Some("deu_Latn"));
        assert_eq!(Family::Nllb.code("<mask>"), None);
        assert_eq!(Family::Nllb.code("deu_Lat1"), None);
        assert_eq!(M2M100.split(' ').count(), 100);
    }

    #[test]
    fn marian_languages_are_tokens_of_the_vocabulary() {
        let tokens = ["a", ">>deu<<", ">>", ">><<", ">>cmn_Hans<<"];
        let languages = of_marian(tokens.into_iter()).unwrap();
        assert_eq!(languages.target, ["deu", "cmn_Hans"]);
        assert_eq!(languages.token_of("deu"), ">>deu<<");
        assert_eq!(of_marian(["a"].into_iter()), None);
    }
}
