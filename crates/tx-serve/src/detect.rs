//! Detection of the language of a text, among the source languages of the loaded models.

use serde::Serialize;
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

/// Maximum number of bytes of a text that are used.
const MAX_BYTES: usize = 4_096;

/// Returns the most probable language of `text` among `codes`; `None` without codes, or if none of
/// several is known to the detector.
///
/// A text without letters is assigned to the first language with confidence 0.
pub fn detect(text: &str, codes: &[String]) -> Option<Detected> {
    let text = &text[..text.floor_char_boundary(MAX_BYTES)];
    let known: Vec<(Lang, &String)> = codes
        .iter()
        .filter_map(|code| Some((Lang::from_code(language::three_letters(code)?)?, code)))
        .collect();
    let first = codes.first()?;
    let detector = Detector::with_allowlist(known.iter().map(|(lang, _)| *lang).collect());
    let found = if known.is_empty() { None } else { detector.detect(text) };
    let found = found.and_then(|info| {
        let (_, code) = known.iter().find(|(lang, _)| *lang == info.lang())?;
        Some(Detected {
            confidence: (info.confidence() * 1_000.0).round() / 10.0,
            language: (*code).clone(),
        })
    });
    found.or_else(|| Some(Detected { confidence: 0.0, language: first.clone() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_detected_among_those_of_the_models() {
        let codes = ["en", "de", "fr", "ru"].map(str::to_owned);
        for (text, expected) in [
            ("The weather is nice today, and we are going to the beach.", "en"),
            ("Das Wetter ist heute schön, und wir gehen an den Strand.", "de"),
            ("Il fait beau aujourd'hui et nous allons à la plage.", "fr"),
            ("Сегодня хорошая погода.", "ru"),
        ] {
            assert_eq!(detect(text, &codes).unwrap().language, expected);
        }
        assert_eq!(
            detect("123", &codes[1..]).unwrap(),
            Detected { confidence: 0.0, language: "de".into() }
        );
        assert_eq!(detect("text", &[]), None);
        assert_eq!(detect("Das ist gut.", &["xx".into()]).unwrap().language, "xx");
    }
}
