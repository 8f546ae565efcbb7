//! Scripts of languages, and the fraction of a text written in them.

use unicode_script::{Script, UnicodeScript};

/// Finds a script by its Unicode name or four-letter code, in any case: `Latin`, `cyrillic`,
/// `Hani`.
pub fn script_named(name: &str) -> Option<Script> {
    Script::from_full_name(name).or_else(|| Script::from_short_name(name)).or_else(|| {
        let mut letters = name.chars();
        let first = letters.next()?.to_uppercase();
        let name: String = first.chain(letters.flat_map(char::to_lowercase)).collect();
        Script::from_full_name(&name).or_else(|| Script::from_short_name(&name))
    })
}

/// Scripts of a language, by its ISO 639-1 code (the part after a `-` or `_` is ignored). Empty for
/// a language that is not in the table.
pub fn scripts_of_language(code: &str) -> &'static [Script] {
    use Script::{
        Arabic, Armenian, Bengali, Cyrillic, Devanagari, Ethiopic, Georgian, Greek, Gujarati,
        Gurmukhi, Han, Hangul, Hebrew, Hiragana, Kannada, Katakana, Khmer, Lao, Latin, Malayalam,
        Myanmar, Sinhala, Tamil, Telugu, Thai, Tibetan,
    };
    let code = code.split(['-', '_']).next().unwrap_or(code);
    match code.to_ascii_lowercase().as_str() {
        "af" | "ca" | "cs" | "cy" | "da" | "de" | "en" | "eo" | "es" | "et" | "eu" | "fi"
        | "fo" | "fr" | "ga" | "gd" | "gl" | "hr" | "hu" | "id" | "is" | "it" | "la" | "lb"
        | "lt" | "lv" | "ms" | "mt" | "nb" | "nl" | "nn" | "no" | "oc" | "pl" | "pt" | "rm"
        | "ro" | "sk" | "sl" | "sq" | "sv" | "sw" | "tl" | "tr" | "vi" | "xh" | "zu" => &[Latin],
        "be" | "bg" | "kk" | "ky" | "mk" | "mn" | "ru" | "tg" | "uk" => &[Cyrillic],
        "sr" | "bs" | "uz" => &[Cyrillic, Latin],
        "ar" | "fa" | "ps" | "ug" | "ur" => &[Arabic],
        "am" | "ti" => &[Ethiopic],
        "bn" | "as" => &[Bengali],
        "bo" => &[Tibetan],
        "el" => &[Greek],
        "gu" => &[Gujarati],
        "he" | "yi" => &[Hebrew],
        "hi" | "mr" | "ne" | "sa" => &[Devanagari],
        "hy" => &[Armenian],
        "ja" => &[Han, Hiragana, Katakana],
        "ka" => &[Georgian],
        "km" => &[Khmer],
        "kn" => &[Kannada],
        "ko" => &[Hangul, Han],
        "lo" => &[Lao],
        "ml" => &[Malayalam],
        "my" => &[Myanmar],
        "pa" => &[Gurmukhi],
        "si" => &[Sinhala],
        "ta" => &[Tamil],
        "te" => &[Telugu],
        "th" => &[Thai],
        "zh" => &[Han],
        _ => &[],
    }
}

/// Fraction of the letters of `text` that are in one of `scripts`; `None` without letters or
/// without scripts.
pub(super) fn share(text: &str, scripts: &[Script]) -> Option<f64> {
    if scripts.is_empty() {
        return None;
    }
    let (mut letters, mut inside) = (0_usize, 0_usize);
    for c in text.chars().filter(|c| c.is_alphabetic()) {
        letters += 1;
        // Marks shared by several scripts, such as the Japanese ー, count for each of them.
        let extension = c.script_extension();
        inside += usize::from(scripts.iter().any(|&script| extension.contains_script(script)));
    }
    (letters > 0).then(|| inside as f64 / letters as f64)
}
