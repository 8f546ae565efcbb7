//! Codes and names of languages.
//!
//! Clients use two letters (`de`), bundles also three (`deu`), with a script (`deu_Latn`) or a country
//! (`pt_BR`). A request may use either; answers contain [`public_code`].

/// Rows `ISO 639-1,ISO 639-3,name`.
const TABLE: &str = include_str!("languages.csv");

/// A language of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    two: &'static str,
    three: &'static str,
    name: &'static str,
}

fn rows() -> impl Iterator<Item = Row> {
    TABLE.lines().filter_map(|line| {
        let mut columns = line.split(',');
        Some(Row { two: columns.next()?, three: columns.next()?, name: columns.next()? })
    })
}

/// Splits a code into language and the rest, such as script or country.
fn parts(code: &str) -> (String, Option<&str>) {
    let mut parts = code.splitn(2, ['_', '-']);
    let language = parts.next().unwrap_or_default().to_ascii_lowercase();
    (language, parts.next())
}

fn row(language: &str) -> Option<Row> {
    rows().find(|row| row.two == language || row.three == language)
}

/// Code of the language of a bundle as clients see it: ISO 639-1 if there is one, with the country or
/// the script of Chinese.
pub fn public_code(code: &str) -> String {
    let (language, rest) = parts(code);
    let Some(row) = row(&language) else { return code.to_owned() };
    match rest {
        // Latin, Cyrillic and so on are the usual script of a language; Chinese and Serbian have two.
        Some(rest) if rest.len() == 4 && !matches!(row.two, "zh" | "sr") => row.two.to_owned(),
        Some(rest) => format!("{}-{rest}", row.two),
        None => row.two.to_owned(),
    }
}

/// Whether a client that asks for `wanted` means the language `code` of a bundle.
pub fn matches(wanted: &str, code: &str) -> bool {
    let wanted = wanted.trim();
    if wanted.eq_ignore_ascii_case(code) {
        return true;
    }
    let (public_wanted, public) = (public_code(wanted), public_code(code));
    public_wanted.eq_ignore_ascii_case(&public)
}

/// Whether both codes are of the same language, whatever their countries and scripts are.
pub fn same_language(one: &str, other: &str) -> bool {
    let language = |code: &str| {
        let (language, _) = parts(code);
        row(&language).map_or(language.clone(), |row| row.two.to_owned())
    };
    language(one) == language(other)
}

/// English name of a language; the code if the language is not in the table.
pub fn name(code: &str) -> String {
    let (language, rest) = parts(code);
    let Some(row) = row(&language) else { return code.to_owned() };
    let public = public_code(code);
    match rest {
        Some(rest) if public.contains('-') => format!("{} ({rest})", row.name),
        _ => row.name.to_owned(),
    }
}

/// Whether a code is one of the table, or starts with one that is.
pub fn is_known(code: &str) -> bool {
    row(&parts(code).0).is_some()
}

/// Whether texts of a language are written from right to left.
pub fn is_right_to_left(code: &str) -> bool {
    matches!(&*public_code(code), "ar" | "dv" | "fa" | "he" | "ps" | "ur" | "yi" | "ug" | "sd")
}

/// Code of a language as `whatlang` names it, ISO 639-3.
pub fn three_letters(code: &str) -> Option<&'static str> {
    let (language, _) = parts(code);
    Some(match row(&language)?.three {
        // Persian and Chinese are macrolanguages in the table and languages in `whatlang`.
        "fas" => "pes",
        "zho" => "cmn",
        "est" => "est",
        "nor" => "nob",
        three => three,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_bundles_have_public_codes() {
        for (code, expected) in [
            ("de", "de"),
            ("deu", "de"),
            ("deu_Latn", "de"),
            ("pt_BR", "pt-BR"),
            ("zho_Hans", "zh-Hans"),
            ("srp_Cyrl", "sr-Cyrl"),
            ("xx", "xx"),
            ("ROMANCE", "ROMANCE"),
        ] {
            assert_eq!(public_code(code), expected);
        }
        assert!(rows().count() == 184 && rows().all(|row| row.two.len() == 2));
    }

    #[test]
    fn requests_may_use_any_form_of_a_code() {
        for (wanted, code) in [("DE", "de"), ("deu", "de"), ("de", "deu_Latn"), ("pt-br", "pt_BR")]
        {
            assert!(matches(wanted, code), "{wanted} {code}");
        }
        assert!(!matches("pt", "pt_BR") && same_language("pt", "pt_BR"));
        assert_eq!((name("deu_Latn"), name("pt_BR")), ("German".into(), "Portuguese (BR)".into()));
    }

    #[test]
    fn codes_of_the_detector_exist() {
        for code in ["en", "de", "fr", "fa", "zh", "no", "et", "lv"] {
            let three = three_letters(code).unwrap();
            assert!(whatlang::Lang::from_code(three).is_some(), "{three}");
        }
    }
}
