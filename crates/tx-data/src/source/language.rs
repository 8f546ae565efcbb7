//! Language codes and their comparison: `en` matches `en-US`, `eng` and `English`.

/// ISO 639-1 code, ISO 639-3 code and English name of languages with corpora. ManyThings uses ISO
/// 639-3 codes in file names. `None` means that a language has no two-letter code.
const LANGUAGES: &[(&str, &str, &str)] = &[
    ("af", "afr", "afrikaans"),
    ("am", "amh", "amharic"),
    ("ar", "ara", "arabic"),
    ("as", "asm", "assamese"),
    ("az", "aze", "azerbaijani"),
    ("be", "bel", "belarusian"),
    ("bg", "bul", "bulgarian"),
    ("bn", "ben", "bengali"),
    ("bs", "bos", "bosnian"),
    ("ca", "cat", "catalan"),
    ("cs", "ces", "czech"),
    ("cy", "cym", "welsh"),
    ("da", "dan", "danish"),
    ("de", "deu", "german"),
    ("el", "ell", "greek"),
    ("en", "eng", "english"),
    ("eo", "epo", "esperanto"),
    ("es", "spa", "spanish"),
    ("et", "est", "estonian"),
    ("eu", "eus", "basque"),
    ("fa", "pes", "persian"),
    ("fi", "fin", "finnish"),
    ("fr", "fra", "french"),
    ("ga", "gle", "irish"),
    ("gl", "glg", "galician"),
    ("gu", "guj", "gujarati"),
    ("ha", "hau", "hausa"),
    ("he", "heb", "hebrew"),
    ("hi", "hin", "hindi"),
    ("hr", "hrv", "croatian"),
    ("hu", "hun", "hungarian"),
    ("hy", "hye", "armenian"),
    ("id", "ind", "indonesian"),
    ("is", "isl", "icelandic"),
    ("it", "ita", "italian"),
    ("ja", "jpn", "japanese"),
    ("ka", "kat", "georgian"),
    ("kk", "kaz", "kazakh"),
    ("km", "khm", "khmer"),
    ("ko", "kor", "korean"),
    ("la", "lat", "latin"),
    ("lt", "lit", "lithuanian"),
    ("lv", "lvs", "latvian"),
    ("mk", "mkd", "macedonian"),
    ("ml", "mal", "malayalam"),
    ("mr", "mar", "marathi"),
    ("ms", "zsm", "malay"),
    ("my", "mya", "burmese"),
    ("nb", "nob", "norwegian bokmål"),
    ("ne", "npi", "nepali"),
    ("nl", "nld", "dutch"),
    ("nn", "nno", "norwegian nynorsk"),
    ("no", "nor", "norwegian"),
    ("pl", "pol", "polish"),
    ("pt", "por", "portuguese"),
    ("ro", "ron", "romanian"),
    ("ru", "rus", "russian"),
    ("sk", "slk", "slovak"),
    ("sl", "slv", "slovenian"),
    ("sq", "sqi", "albanian"),
    ("sr", "srp", "serbian"),
    ("sv", "swe", "swedish"),
    ("sw", "swh", "swahili"),
    ("ta", "tam", "tamil"),
    ("te", "tel", "telugu"),
    ("th", "tha", "thai"),
    ("tl", "tgl", "tagalog"),
    ("tr", "tur", "turkish"),
    ("uk", "ukr", "ukrainian"),
    ("ur", "urd", "urdu"),
    ("uz", "uzb", "uzbek"),
    ("vi", "vie", "vietnamese"),
    ("xh", "xho", "xhosa"),
    ("yo", "yor", "yoruba"),
    ("zh", "cmn", "chinese"),
    ("zu", "zul", "zulu"),
];

/// Alternative codes of languages: bibliographic ISO 639-2 codes, macrolanguages and outdated
/// codes.
const ALIASES: &[(&str, &str)] = &[
    ("alb", "sq"),
    ("arm", "hy"),
    ("baq", "eu"),
    ("bur", "my"),
    ("chi", "zh"),
    ("cze", "cs"),
    ("dut", "nl"),
    ("fas", "fa"),
    ("fre", "fr"),
    ("geo", "ka"),
    ("ger", "de"),
    ("gre", "el"),
    ("ice", "is"),
    ("iw", "he"),
    ("in", "id"),
    ("lav", "lv"),
    ("mac", "mk"),
    ("may", "ms"),
    ("msa", "ms"),
    ("nep", "ne"),
    ("per", "fa"),
    ("rum", "ro"),
    ("slo", "sk"),
    ("swa", "sw"),
    ("wel", "cy"),
    ("zho", "zh"),
];

/// Returns the degree to which a tag of a file matches a requested language; `None` without a
/// match.
///
/// 2 means the same tag. 1 means the same language: with or without a region, with two or three
/// letters, or by its English name. Two different regions do not match.
///
/// ```
/// use tx_data::source::language::fit;
///
/// assert_eq!(fit("EN", "en"), Some(2));
/// assert_eq!(fit("en_US", "en"), Some(1));
/// assert_eq!(fit("English", "eng"), Some(1));
/// assert_eq!(fit("en-GB", "en-US"), None);
/// ```
pub fn fit(tag: &str, wanted: &str) -> Option<u8> {
    let (tag, wanted) = (normal(tag), normal(wanted));
    if tag.is_empty() || wanted.is_empty() {
        return None;
    }
    if tag == wanted {
        return Some(2);
    }
    let split = |tag: &str| {
        let (language, region) = tag.split_once('-').unwrap_or((tag, ""));
        (short(language), region.to_owned())
    };
    let ((language, region), (other, other_region)) = (split(&tag), split(&wanted));
    let same_region = region.is_empty() || other_region.is_empty() || region == other_region;
    (language == other && same_region).then_some(1)
}

/// Returns the three-letter code of a language; an unknown code of three letters is returned
/// unchanged.
pub fn three_letters(code: &str) -> Option<String> {
    let code = short(normal(code).split('-').next().unwrap_or_default());
    match LANGUAGES.iter().find(|(two, _, _)| *two == code) {
        Some((_, three, _)) => Some((*three).into()),
        None => (code.len() == 3).then_some(code),
    }
}

/// Returns the two-letter code of a language given by its code, without a region, or English name.
pub(super) fn code(language: &str) -> Option<&'static str> {
    let known = |language: &str| {
        let mut all = LANGUAGES.iter();
        all.find(|(two, three, name)| [*two, *three, *name].contains(&language))
            .map(|found| found.0)
    };
    let alias = ALIASES.iter().find(|(alias, _)| *alias == language);
    known(language).or_else(|| alias.and_then(|(_, two)| known(two)))
}

fn normal(tag: &str) -> String {
    tag.trim().to_lowercase().replace('_', "-")
}

/// Two-letter code of a language, if one exists.
fn short(language: &str) -> String {
    let found = LANGUAGES.iter().find(|(_, three, name)| *three == language || *name == language);
    let alias = ALIASES.iter().find(|(alias, _)| *alias == language);
    match (found, alias) {
        (Some((two, _, _)), _) | (None, Some((_, two))) => (*two).into(),
        (None, None) => language.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_loosely_but_not_wildly() {
        for (tag, wanted) in [("eng", "en"), ("de-CH", "deu"), ("ger", "de"), ("zh-Hans", "cmn")] {
            assert_eq!(fit(tag, wanted), Some(1), "{tag} {wanted}");
        }
        for (tag, wanted) in [("en", "de"), ("e", "en"), ("english2", "en"), ("", ""), ("x", "")] {
            assert_eq!(fit(tag, wanted), None, "{tag} {wanted}");
        }
    }

    #[test]
    fn codes_of_manythings_have_three_letters() {
        assert_eq!(three_letters("fr").as_deref(), Some("fra"));
        assert_eq!(three_letters("zh-CN").as_deref(), Some("cmn"));
        assert_eq!(three_letters("ber").as_deref(), Some("ber"));
        assert_eq!(three_letters("xx"), None);
    }
}
