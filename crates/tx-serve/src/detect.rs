//! Detection of the language of a text, among the source languages of the loaded models.

use std::{borrow::Cow, collections::HashSet};

use serde::Serialize;
use tx_markup::Format;
use whatlang::{Detector, Lang};

use crate::language;

/// A detected language.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Detected {
    /// Confidence, 0 to 100.
    pub confidence: f64,
    /// Code of the language.
    pub language: String,
}

/// Language of a text to translate.
#[derive(Debug, Clone, PartialEq)]
pub enum Guess {
    /// A source language.
    Source(Detected),
    /// Certainly the target language, so that there is nothing to translate.
    Target(Detected),
}

/// Maximum number of bytes of a text that are used.
pub const MAX_BYTES: usize = 4_096;

/// Minimum number of letters of a text that certainly is of one of several languages with the same
/// script. Words of user interfaces are shorter, and are detected wrongly as often as not.
const CERTAIN_LETTERS: usize = 40;

/// Languages that a text may have.
#[derive(Debug, Clone, Default)]
pub struct Candidates {
    /// Codes, each of them once.
    codes: Vec<String>,
    /// Those that the detector knows, with the indices of their codes.
    known: Vec<(Lang, usize)>,
    among: Detector,
    /// Language that the texts are translated to, if the detector knows it, with its code.
    target: Option<(Lang, String)>,
    among_with_target: Detector,
}

impl Candidates {
    /// Source languages with these codes, of texts that are translated to `target`.
    pub fn new(codes: impl IntoIterator<Item = String>, target: Option<&str>) -> Self {
        let mut seen = HashSet::new();
        let codes: Vec<String> =
            codes.into_iter().filter(|code| seen.insert(code.clone())).collect();
        let mut langs = HashSet::new();
        let known = codes.iter().enumerate();
        let known = known.filter_map(|(index, code)| Some((lang(code)?, index)));
        // Of several countries, the first one is detected.
        let known: Vec<(Lang, usize)> = known.filter(|(lang, _)| langs.insert(*lang)).collect();
        let mut allowed: Vec<Lang> = known.iter().map(|(lang, _)| *lang).collect();
        let among = Detector::with_allowlist(allowed.clone());
        let target = target.and_then(|code| Some((lang(code)?, language::public_code(code))));
        allowed.extend(target.iter().map(|(lang, _)| *lang));
        let among_with_target = Detector::with_allowlist(allowed);
        Self { codes, known, among, target, among_with_target }
    }

    /// The codes.
    pub fn codes(&self) -> &[String] {
        &self.codes
    }

    /// Returns the most probable language of a text; `None` without candidates.
    ///
    /// One candidate is not compared with others: its confidence is 100. A text without letters, or in
    /// a script of none of them, is assigned to the first one with confidence 0.
    pub fn detect(&self, text: &str) -> Option<Detected> {
        let first = self.codes.first()?;
        if self.codes.len() == 1 {
            return Some(Detected { confidence: 100.0, language: first.clone() });
        }
        let text = &text[..text.floor_char_boundary(MAX_BYTES)];
        // An empty list permits all languages.
        let found = if self.known.is_empty() { None } else { self.among.detect(text) };
        let found = found.and_then(|info| {
            let (_, index) = self.known.iter().find(|(lang, _)| *lang == info.lang())?;
            Some(Detected {
                confidence: percent(info.confidence()),
                language: self.codes.get(*index)?.clone(),
            })
        });
        found.or_else(|| Some(Detected { confidence: 0.0, language: first.clone() }))
    }

    /// Returns the language of a text to translate; `None` without candidates.
    ///
    /// A wrong target language would leave the text as it is, which looks like success. So the text is
    /// in the target language only if this is certain, and never if there is one candidate.
    pub fn guess(&self, text: &str, format: Format) -> Option<Guess> {
        let text = match format {
            Format::Text => Cow::from(text),
            _ => visible(text).into(),
        };
        if self.codes.len() > 1
            && let Some((lang, code)) = &self.target
            && let Some(confidence) = self.certainty(&text, *lang)
        {
            return Some(Guess::Target(Detected { confidence, language: code.clone() }));
        }
        self.detect(&text).map(Guess::Source)
    }

    /// Returns the confidence that the text is in the target language, if it is certain.
    fn certainty(&self, text: &str, target: Lang) -> Option<f64> {
        let text = &text[..text.floor_char_boundary(MAX_BYTES)];
        if self.among_with_target.detect_lang(text) != Some(target) {
            return None;
        }
        // Among all languages, so that a text in none of the candidates is not taken for the target.
        let info = Detector::new().detect(text)?;
        let is_long = || text.chars().filter(|c| c.is_alphabetic()).count() >= CERTAIN_LETTERS;
        let is_certain = info.lang() == target
            && info.is_reliable()
            && (info.script().langs().len() == 1 || is_long());
        is_certain.then(|| percent(info.confidence()))
    }
}

fn lang(code: &str) -> Option<Lang> {
    Lang::from_code(language::three_letters(code)?)
}

fn percent(confidence: f64) -> f64 {
    (confidence * 1_000.0).round() / 10.0
}

/// Beginning of the text of an HTML document without its tags, scripts and styles.
fn visible(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while text.len() < MAX_BYTES {
        let Some((before, after)) = rest.split_once('<') else {
            text.push_str(&rest[..rest.floor_char_boundary(MAX_BYTES)]);
            break;
        };
        text.push_str(&before[..before.floor_char_boundary(MAX_BYTES)]);
        text.push(' ');
        let name: String = after.chars().take_while(char::is_ascii_alphabetic).take(8).collect();
        let end = match &*name.to_ascii_lowercase() {
            name @ ("script" | "style") => {
                let end = format!("</{name}");
                let mut windows = after.as_bytes().windows(end.len());
                windows.position(|window| window.eq_ignore_ascii_case(end.as_bytes()))
            }
            _ => Some(0),
        };
        let Some((_, after)) = end.and_then(|end| after[end..].split_once('>')) else { break };
        rest = after;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(codes: &[&str], target: &str) -> Candidates {
        Candidates::new(codes.iter().map(|code| (*code).to_owned()), Some(target))
    }

    #[test]
    fn languages_are_detected_among_those_of_the_models() {
        let all = candidates(&["en", "de", "fr", "ru"], "it");
        for (text, expected) in [
            ("The weather is nice today, and we are going to the beach.", "en"),
            ("Das Wetter ist heute schön, und wir gehen an den Strand.", "de"),
            ("Il fait beau aujourd'hui et nous allons à la plage.", "fr"),
            ("Сегодня хорошая погода.", "ru"),
        ] {
            assert_eq!(all.detect(text).unwrap().language, expected);
        }
        assert_eq!(
            candidates(&["de", "fr"], "it").detect("123").unwrap(),
            Detected { confidence: 0.0, language: "de".into() }
        );
        assert_eq!(candidates(&[], "it").detect("text"), None);
        let only = Detected { confidence: 100.0, language: "xx".into() };
        assert_eq!(candidates(&["xx"], "it").detect("Das ist gut.").unwrap(), only);
    }

    const ITALIAN: &str = "Il tempo è bello oggi e il gatto dorme sul divano in salotto.";

    /// Words of user interfaces: `Delete` and `Data` look Italian among English and Italian.
    #[test]
    fn only_a_text_that_is_certainly_in_the_target_language_is_copied() {
        let is_target = |candidates: &Candidates, text: &str, format| {
            matches!(candidates.guess(text, format), Some(Guess::Target(_)))
        };
        let several = candidates(&["en", "de", "fr", "es"], "it");
        for text in ["Delete", "Data", "Settings", "Ciao", "Ciao ragazzi", "Email", "A car", "12"] {
            assert!(!is_target(&several, text, Format::Text), "{text}");
        }
        assert!(is_target(&several, ITALIAN, Format::Text));
        let one = candidates(&["en"], "it");
        assert!(!is_target(&one, ITALIAN, Format::Text));
        // A sentence in none of the languages.
        let portuguese = "Não sei por que o cachorro come tanto pão de manhã na cozinha.";
        assert!(!is_target(&several, portuguese, Format::Text));
        // A script that has one language is certain in a short text.
        let greek = candidates(&["en", "de"], "el");
        assert!(is_target(&greek, "Ο καιρός", Format::Text));
    }

    #[test]
    fn markup_does_not_decide_the_language() {
        let markup = "<div class=\"the weather is nice today and we are going to the beach\">";
        let script = "<SCRIPT>if (the < house) { write('the cat sleeps in the house'); }</script>";
        let document = format!("{script}{markup}{ITALIAN}</div>").repeat(3);
        assert_eq!(visible(&document).split_whitespace().count(), 39);
        let several = candidates(&["en", "de"], "it");
        assert!(matches!(several.guess(&document, Format::Html), Some(Guess::Target(_))));
        for broken in ["<", "a<b", "<script>", "<style>a</style", "é<script>é"] {
            assert!(visible(broken).len() <= broken.len() + 1, "{broken}");
        }
    }
}
