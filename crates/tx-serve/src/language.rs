//! Codes and names of languages.
//!
//! Clients use two letters (`de`), bundles also three (`deu`), with a script (`deu_Latn`) or a country
//! (`pt_BR`). A request may use either; answers contain [`public_code`].

use std::{collections::HashMap, sync::LazyLock};

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

/// Rows by their codes, so that a code costs the same in any number of languages.
static ROWS: LazyLock<HashMap<&'static str, Row>> = LazyLock::new(|| {
    let mut index = HashMap::new();
    for row in rows() {
        index.entry(row.two).or_insert(row);
        index.entry(row.three).or_insert(row);
    }
    index
});

fn row(language: &str) -> Option<Row> {
    ROWS.get(language).copied()
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

/// Language of a code without its country and script: ISO 639-1 if there is one.
pub fn base(code: &str) -> String {
    let (language, _) = parts(code.trim());
    row(&language).map_or(language, |row| row.two.to_owned())
}

/// Whether both codes are of the same language, whatever their countries and scripts are.
pub fn same_language(one: &str, other: &str) -> bool {
    base(one) == base(other)
}

/// Codes of the languages of a side of a model. Finding one does not depend on their number.
#[derive(Debug, Clone, Default)]
pub struct Codes {
    list: Vec<String>,
    /// Indices of codes in lower case, as in the bundle and as clients see them.
    exact: HashMap<String, usize>,
    /// Index of the first code of each [`base`].
    similar: HashMap<String, usize>,
}

impl Codes {
    /// Creates an index of the codes of a bundle.
    pub fn new(list: Vec<String>) -> Self {
        let (mut exact, mut similar) = (HashMap::new(), HashMap::new());
        for (index, code) in list.iter().enumerate() {
            for key in [code.to_ascii_lowercase(), public_code(code).to_ascii_lowercase()] {
                exact.entry(key).or_insert(index);
            }
            similar.entry(base(code)).or_insert(index);
        }
        Self { list, exact, similar }
    }

    /// The codes of the bundle.
    pub fn list(&self) -> &[String] {
        &self.list
    }

    /// Returns the code of the bundle that a client means by `wanted`: the first one with the same
    /// language, country and script, otherwise the first one with the same language.
    pub fn find(&self, wanted: &str) -> Option<&str> {
        let wanted = wanted.trim();
        let keys = [wanted.to_ascii_lowercase(), public_code(wanted).to_ascii_lowercase()];
        let exact = keys.iter().filter_map(|key| self.exact.get(key)).min();
        let index = exact.or_else(|| self.similar.get(&base(wanted)))?;
        self.list.get(*index).map(String::as_str)
    }
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
            let codes = Codes::new(vec!["xx".into(), code.into()]);
            assert_eq!(codes.find(wanted), Some(code), "{wanted}");
        }
        // A country is found exactly before another one of the language is.
        let codes = Codes::new(["pt_BR", "pt_PT", "zho_Hans", "zho_Hant"].map(String::from).into());
        for (wanted, code) in [("pt", "pt_BR"), ("PT-pt", "pt_PT"), ("zh-Hant", "zho_Hant")] {
            assert_eq!(codes.find(wanted), Some(code), "{wanted}");
        }
        assert_eq!(codes.find("de"), None);
        assert!(same_language("pt", "pt_BR"));
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
