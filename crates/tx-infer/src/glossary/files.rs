//! Files of glossaries: tab-separated, comma-separated, and TBX (ISO 30042).

use std::path::Path;

use roxmltree::{Document, Node};

use super::Glossary;
use crate::error::InferError;

/// Format of a glossary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GlossaryFormat {
    /// A term and its translation in each line, separated by a tab.
    Tsv,
    /// A term and its translation in each line, separated by a comma, and in quotation marks if they have one
    /// (RFC 4180).
    Csv,
    /// XML with entries that have terms in several languages (ISO 30042).
    Tbx,
}

/// Languages of a TBX file that a glossary translates between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlossaryLanguages {
    /// Code of the source language.
    pub source: String,
    /// Code of the target language.
    pub target: String,
}

impl GlossaryFormat {
    /// Format of a file by the extension of its name: `.csv`, `.tbx` or `.xml`; otherwise tab-separated.
    pub fn of(path: &Path) -> Self {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        match extension.to_str() {
            Some("csv") => Self::Csv,
            Some("tbx" | "xml") => Self::Tbx,
            _ => Self::Tsv,
        }
    }
}

impl Glossary {
    /// Reads a file in the format of its name. `languages` selects those of a TBX file with more than two; the
    /// first of two is the source.
    ///
    /// # Errors
    ///
    /// [`InferError::GlossaryFile`] if the file cannot be read or is not such a file.
    pub fn open(path: &Path, languages: Option<&GlossaryLanguages>) -> Result<Self, InferError> {
        let format = GlossaryFormat::of(path);
        let read = || -> Result<Self, InferError> {
            match format {
                GlossaryFormat::Tsv | GlossaryFormat::Csv => {
                    let lines = tx_text::lines::read_lines(path)?;
                    Self::parse(&lines.join("\n"), format, languages)
                }
                GlossaryFormat::Tbx => {
                    let failed = |source| InferError::Read { path: path.to_owned(), source };
                    let bytes = std::fs::read(path).map_err(failed)?;
                    let text = tx_text::encoding::decode(&bytes).map_err(failed)?;
                    Self::parse(&text, format, languages)
                }
            }
        };
        read().map_err(|error| InferError::GlossaryFile {
            path: path.to_owned(),
            source: error.into(),
        })
    }

    /// Reads a glossary in a format. `languages` are as for [`open`](Self::open).
    ///
    /// # Errors
    ///
    /// [`InferError::Glossary`] with the number of the line or the entry, from 1.
    pub fn parse(
        text: &str,
        format: GlossaryFormat,
        languages: Option<&GlossaryLanguages>,
    ) -> Result<Self, InferError> {
        match format {
            GlossaryFormat::Tsv => Self::from_tsv(text),
            GlossaryFormat::Csv => Self::from_csv(text),
            GlossaryFormat::Tbx => Self::from_tbx(text, languages),
        }
    }

    /// Reads lines with a term, a tab and its translation. Further columns and blank lines are ignored.
    ///
    /// # Errors
    ///
    /// [`InferError::Glossary`] with the number of the line, from 1.
    pub fn from_tsv(text: &str) -> Result<Self, InferError> {
        let mut pairs = Vec::new();
        for (number, line) in text.lines().enumerate() {
            // The first line of a file may have a byte order mark.
            let line = line.trim_start_matches('\u{feff}');
            if line.trim().is_empty() {
                continue;
            }
            let mut columns = line.split('\t');
            let (Some(source), Some(target)) = (columns.next(), columns.next()) else {
                let problem = format!("line {} has no tab", number + 1);
                return Err(InferError::Glossary { entry: pairs.len() + 1, problem });
            };
            pairs.push((source, target));
        }
        Self::new(pairs)
    }

    /// Reads lines with a term, a comma and its translation. Further columns and blank lines are ignored.
    fn from_csv(text: &str) -> Result<Self, InferError> {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(text.trim_start_matches('\u{feff}').as_bytes());
        let mut pairs = Vec::new();
        for record in reader.records() {
            let entry = pairs.len() + 1;
            let problem = |problem| InferError::Glossary { entry, problem };
            let record = record.map_err(|error| problem(error.to_string()))?;
            match (record.get(0), record.get(1)) {
                (Some(source), Some(target)) => pairs.push((source.to_owned(), target.to_owned())),
                (Some(source), None) if source.trim().is_empty() => {}
                _ => return Err(problem("the line has no comma".into())),
            }
        }
        Self::new(pairs)
    }

    /// Reads the entries of a TBX file: all terms of the source language, with all of the target language.
    fn from_tbx(text: &str, languages: Option<&GlossaryLanguages>) -> Result<Self, InferError> {
        let error = |problem| InferError::Glossary { entry: 1, problem };
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let document = Document::parse_with_options(text, options)
            .map_err(|problem| error(format!("the file is not XML: {problem}")))?;
        let sections = document.descendants().filter(is_language);
        let mut codes: Vec<&str> = Vec::new();
        for code in sections.filter_map(|section| language(&section)) {
            if codes.iter().all(|other| !is_same_language(other, code)) {
                codes.push(code);
            }
        }
        let found = |wanted: &String| codes.iter().any(|code| is_same_language(code, wanted));
        let (source, target) = match (languages, &codes[..]) {
            (Some(GlossaryLanguages { source, target }), _) if found(source) && found(target) => {
                (&**source, &**target)
            }
            (None, [source, target]) => (*source, *target),
            _ => {
                let wanted =
                    languages.map_or_else(String::new, |GlossaryLanguages { source, target }| {
                        format!(", not `{source}` and `{target}`")
                    });
                let codes = codes.join("`, `");
                return Err(error(format!(
                    "the languages of the file are `{codes}`{wanted}: name the source and the target \
                     language of the glossary"
                )));
            }
        };
        let mut pairs = Vec::new();
        let entries = document
            .descendants()
            .filter(|node| ["termEntry", "conceptEntry"].contains(&node.tag_name().name()));
        for entry in entries {
            let terms = |code: &str| {
                let sections = entry.children().filter(is_language);
                let sections =
                    sections.filter(|it| language(it).is_some_and(|it| is_same_language(it, code)));
                let nodes = sections.flat_map(|section| section.descendants());
                let terms = nodes.filter(|node| node.tag_name().name() == "term");
                terms.filter_map(|term| term.text()).collect::<Vec<_>>()
            };
            let targets = terms(target);
            pairs.extend(terms(source).into_iter().flat_map(|source| {
                targets.iter().map(move |target| (source.to_owned(), (*target).to_owned()))
            }));
        }
        Self::new(pairs)
    }
}

/// Section of an entry with the terms of a language.
fn is_language(node: &Node<'_, '_>) -> bool {
    ["langSet", "langSec"].contains(&node.tag_name().name())
}

/// Code of the language of a section.
fn language<'a>(section: &Node<'a, '_>) -> Option<&'a str> {
    section
        .attribute(("http://www.w3.org/XML/1998/namespace", "lang"))
        .or_else(|| section.attribute("lang"))
}

/// Compares the languages of codes, without their regions.
fn is_same_language(a: &str, b: &str) -> bool {
    let [a, b] = [a, b].map(|code| code.split(['-', '_']).next().unwrap_or_default());
    a.eq_ignore_ascii_case(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(glossary: Result<Glossary, InferError>) -> Vec<(String, Vec<String>)> {
        let entries = glossary.unwrap().entries().to_vec();
        entries.into_iter().map(|entry| (entry.source, entry.targets)).collect()
    }

    fn entry(source: &str, targets: &[&str]) -> (String, Vec<String>) {
        (source.into(), targets.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn lines_have_two_columns() {
        let text = "\u{feff}Hund\tdog\r\n\n Katze \t cat \tanimal\nHund\thound\n";
        let expected = [entry("Hund", &["dog", "hound"]), entry("Katze", &["cat"])];
        assert_eq!(entries(Glossary::from_tsv(text)), expected);
        let error = Glossary::from_tsv("a\tb\nc d\n").unwrap_err();
        assert_eq!(error.to_string(), "entry 2 of the glossary: line 2 has no tab");
        let text = "Hund,dog\n\"Fall, freier\",\"free \"\"fall\"\"\",x\n";
        let expected = [entry("Hund", &["dog"]), entry("Fall, freier", &["free \"fall\""])];
        assert_eq!(entries(Glossary::from_csv(text)), expected);
        assert!(Glossary::from_csv("a,b\nc\n").unwrap_err().to_string().contains("no comma"));
    }

    /// Both versions of the standard, by their example entries.
    #[test]
    fn entries_of_tbx_are_terms_in_languages() {
        let old = r#"<?xml version="1.0"?><!DOCTYPE martif SYSTEM "TBXcoreStructV02.dtd"><martif><text><body>
            <termEntry id="1"><langSet xml:lang="de-DE"><tig><term>Hund</term></tig></langSet>
            <langSet xml:lang="en"><ntig><termGrp><term>dog</term></termGrp></ntig><tig><term>hound</term></tig>
            </langSet></termEntry></body></text></martif>"#;
        let new = r#"<tbx xmlns="urn:iso:std:iso:30042:ed-2"><text><body><conceptEntry>
            <langSec xml:lang="en"><termSec><term>dog</term></termSec></langSec>
            <langSec xml:lang="de"><termSec><term>Hund</term></termSec></langSec>
            <langSec xml:lang="fr"><termSec><term>chien</term></termSec></langSec>
            </conceptEntry></body></text></tbx>"#;
        let read = |text, languages: Option<(&str, &str)>| {
            let languages = languages.map(|(source, target)| GlossaryLanguages {
                source: source.into(),
                target: target.into(),
            });
            Glossary::parse(text, GlossaryFormat::Tbx, languages.as_ref())
        };
        assert_eq!(entries(read(old, None)), [entry("Hund", &["dog", "hound"])]);
        assert_eq!(
            entries(read(old, Some(("en", "de")))),
            [entry("dog", &["Hund"]), entry("hound", &["Hund"])]
        );
        assert_eq!(entries(read(new, Some(("DE", "fr-CA")))), [entry("Hund", &["chien"])]);
        let error = read(new, None).unwrap_err().to_string();
        assert!(error.contains("`en`, `de`, `fr`: name the source"), "{error}");
        let error = read(old, Some(("de", "it"))).unwrap_err().to_string();
        assert!(error.contains("`de-DE`, `en`, not `de` and `it`"), "{error}");
        let error = read("<tbx", None).unwrap_err().to_string();
        assert!(error.contains("not XML"), "{error}");
    }

    #[test]
    fn formats_have_extensions() {
        for (name, format) in [
            ("a.tsv", GlossaryFormat::Tsv),
            ("a.TBX", GlossaryFormat::Tbx),
            ("b.xml", GlossaryFormat::Tbx),
            ("b.csv", GlossaryFormat::Csv),
            ("b", GlossaryFormat::Tsv),
        ] {
            assert_eq!(GlossaryFormat::of(Path::new(name)), format, "{name}");
        }
    }
}
