//! Layout of a table: its header and the columns of its sides, found in its first rows.

use std::fmt;

use super::{columns::Columns, language::code};
use crate::encode::TargetSide;

/// Words of column names beside a language, such as `sentence_en` and `Text (English)`.
const BESIDE_LANGUAGE: [&str; 24] = [
    "sentence",
    "sentences",
    "text",
    "texts",
    "txt",
    "string",
    "segment",
    "seg",
    "phrase",
    "phrases",
    "source",
    "src",
    "target",
    "tgt",
    "trg",
    "translation",
    "translations",
    "translated",
    "original",
    "lang",
    "language",
    "column",
    "value",
    "line",
];

/// Words of column names that determine a side.
const SOURCE_WORDS: [&str; 4] = ["source", "src", "original", "input"];
const TARGET_WORDS: [&str; 6] = ["target", "tgt", "trg", "translation", "translated", "output"];

/// Names of columns that count or identify the rows.
const ID_NAMES: [&str; 13] =
    ["", "id", "ids", "idx", "index", "no", "nr", "num", "number", "row", "line", "key", "unnamed"];

/// Maximum length of a column name in characters.
const LONGEST_NAME: usize = 40;

/// Columns of a table with sentence pairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableLayout {
    /// Index of the source column.
    pub source: usize,
    /// Index of the target column.
    pub target: usize,
    /// Number of columns in the first row.
    pub columns: usize,
    /// Names in the first row; `None` if the first row is a pair.
    pub header: Option<Vec<String>>,
}

impl TableLayout {
    /// Finds header and sides in the first rows of a table.
    ///
    /// A given column or header takes precedence. Without them, the first row is a header if it names
    /// two languages or both sides, or a text above a column of numbers. Columns of numbers are no
    /// sides, unless they are labels.
    ///
    /// # Errors
    ///
    /// If a given column is missing, or a header does not have the given languages.
    pub(super) fn of(rows: &[Vec<String>], given: &Columns) -> Result<Self, String> {
        let Some((first, others)) = rows.split_first() else {
            return Ok(Self { source: 0, target: 1, columns: 0, header: None });
        };
        let is_free = given.source.is_none()
            && given.target.is_none()
            && given.target_side == TargetSide::Sentence;
        let table = Table { first, others };
        let is_header =
            given.is_header(first) || is_free && given.header.is_none() && table.has_header();
        let (source, target) = match (is_header, is_free) {
            (true, true) => {
                let given_sides = given.among(first);
                let is_given = given.is_header(first)
                    && given_sides.as_ref().is_ok_and(|&sides| table.are_texts(sides));
                let found = (!is_given)
                    .then(|| table.sides_by_name(given).or_else(|| table.sides_by_content(1)));
                match found.flatten() {
                    Some(sides) => sides,
                    None => given_sides?,
                }
            }
            (true, false) => given.among(first)?,
            (false, true) => match table.sides_by_content(0) {
                Some(sides) if !others.is_empty() => sides,
                _ => given.by_number()?,
            },
            (false, false) => given.by_number()?,
        };
        let header = is_header.then(|| first.clone());
        Ok(Self { source, target, columns: first.len(), header })
    }

    /// Name of a column, or its number from 1.
    fn name(&self, column: usize) -> String {
        let name = self.header.as_ref().and_then(|names| names.get(column));
        name.map_or_else(|| format!("{}", column + 1), |name| format!("'{}'", name.trim()))
    }
}

/// Columns in use and those that are ignored, as in `'id' -> 'en'; ignored: 'de'`.
impl fmt::Display for TableLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, target, .. } = *self;
        write!(f, "{} -> {}", self.name(source), self.name(target))?;
        let ignored = (0..self.columns).filter(|&column| column != source && column != target);
        let ignored: Vec<String> = ignored.map(|column| self.name(column)).collect();
        match ignored.len() {
            0 => Ok(()),
            1..=5 => write!(f, "; ignored: {}", ignored.join(", ")),
            more => write!(f, "; ignored: {} and {} more", ignored[..4].join(", "), more - 4),
        }
    }
}

/// First row of a table, which may be a header, and further rows.
struct Table<'a> {
    first: &'a [String],
    others: &'a [Vec<String>],
}

impl Table<'_> {
    /// Returns `true` if the first row names the columns.
    fn has_header(&self) -> bool {
        if !self.first.iter().all(|cell| cell.chars().count() <= LONGEST_NAME) {
            return false;
        }
        let languages = self.languages();
        let codes: Vec<&str> = languages.iter().map(|&(_, code)| code).collect();
        let is_two = codes.iter().any(|&code| code != codes[0]);
        // `is` and `es` are words, too: a list of words needs more than codes of two letters.
        let is_bare = languages.iter().all(|&(column, _)| self.first[column].trim().len() == 2);
        if is_two && (!is_bare || self.others.is_empty() || self.has_sentences()) {
            return true;
        }
        let has = |side: &[&str]| self.first.iter().any(|cell| names_side(cell, side));
        if has(&SOURCE_WORDS) && has(&TARGET_WORDS) {
            return true;
        }
        let is_named = |column: usize| {
            let name = self.first[column].trim();
            column == 0 && name.is_empty()
                || name.starts_with(char::is_alphabetic) && !is_missing(name)
        };
        self.others.len() >= 2
            && (0..self.first.len()).any(|column| is_named(column) && self.has_numbers(column, 1))
    }

    /// Columns named by a language, with its code. A column of numbers named `id` is not Indonesian.
    fn languages(&self) -> Vec<(usize, &'static str)> {
        let named = self.first.iter().enumerate();
        let named = named.filter_map(|(column, name)| Some((column, language_of(name)?)));
        named.filter(|&(column, _)| !self.has_numbers(column, 1)).collect()
    }

    /// Returns `true` if a row has a cell of several words or many characters.
    fn has_sentences(&self) -> bool {
        let cells = self.others.iter().flatten();
        cells
            .into_iter()
            .any(|cell| cell.trim().contains(char::is_whitespace) || cell.chars().count() > 12)
    }

    /// Returns `true` if the column contains only numbers, beginning at a row.
    fn has_numbers(&self, column: usize, from: usize) -> bool {
        let first = (from == 0).then_some(self.first);
        let rows = first.into_iter().chain(self.others.iter().map(Vec::as_slice));
        let cells = rows.filter_map(|row| row.get(column)).filter(|cell| !cell.trim().is_empty());
        let mut cells = cells.peekable();
        cells.peek().is_some() && cells.all(|cell| is_number(cell))
    }

    fn are_texts(&self, (source, target): (usize, usize)) -> bool {
        !self.has_numbers(source, 1) && !self.has_numbers(target, 1)
    }

    /// Sides named by their roles or by two languages; none if other languages are given.
    fn sides_by_name(&self, given: &Columns) -> Option<(usize, usize)> {
        let named = |side: &[&str]| {
            let mut columns = (0..self.first.len()).filter(|&column| !self.has_numbers(column, 1));
            columns.find(|&column| names_side(&self.first[column], side))
        };
        let roles = named(&SOURCE_WORDS).zip(named(&TARGET_WORDS));
        if let Some((source, target)) = roles
            && source != target
        {
            return Some((source, target));
        }
        if given.source_language.is_some() || given.target_language.is_some() {
            return None;
        }
        let languages = self.languages();
        let (source, code) = *languages.first()?;
        let (target, _) = languages.iter().find(|&&(_, other)| other != code)?;
        Some((source, *target))
    }

    /// The first two columns that are neither numbers nor named as identifiers, if the first two
    /// columns of the table are others. A header that names languages is not overruled.
    fn sides_by_content(&self, from: usize) -> Option<(usize, usize)> {
        if from == 1 && self.languages().len() > 1 {
            return None;
        }
        let is_id = |column: usize| from == 1 && names_id(&self.first[column]);
        let mut texts = (0..self.first.len())
            .filter(|&column| !self.has_numbers(column, from) && !is_id(column));
        let sides = (texts.next()?, texts.next()?);
        (from == 1 || sides != (0, 1)).then_some(sides)
    }
}

/// Lower-case words of a column name.
fn words(name: &str) -> Vec<String> {
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Code of the language that a column name consists of, beside a region or a general word.
fn language_of(name: &str) -> Option<&'static str> {
    let words = words(name);
    let mut found = None;
    for word in &words {
        match (found, code(word)) {
            _ if BESIDE_LANGUAGE.contains(&word.as_str()) => {}
            (None, Some(code)) => found = Some(code),
            // The region or script of `en_US` and `zh-Hans`.
            (Some(_), _) if (2..=4).contains(&word.len()) => {}
            _ => return None,
        }
    }
    found
}

/// Returns `true` if a column name determines a side, alone or beside a language.
fn names_side(name: &str, side: &[&str]) -> bool {
    let words = words(name);
    let (sides, others): (Vec<_>, Vec<_>) =
        words.iter().partition(|word| side.contains(&word.as_str()));
    let is_beside =
        |word: &&String| BESIDE_LANGUAGE.contains(&word.as_str()) || code(word.as_str()).is_some();
    let opposite = |word: &&String| {
        [&SOURCE_WORDS[..], &TARGET_WORDS[..]]
            .iter()
            .any(|words| *words != side && words.contains(&word.as_str()))
    };
    sides.len() == 1 && others.iter().all(is_beside) && !others.iter().any(opposite)
}

fn names_id(name: &str) -> bool {
    let words = words(name);
    let is_id = |word: &str| ID_NAMES.contains(&word);
    match (words.first(), words.last()) {
        (Some(first), Some(last)) => {
            is_id(first) && words.len() == 1 || last == "id" || first == "unnamed"
        }
        _ => true,
    }
}

fn is_number(cell: &str) -> bool {
    let cell = cell.trim().replace(',', ".");
    cell.contains(|c: char| c.is_ascii_digit()) && cell.parse::<f64>().is_ok()
}

/// Returns `true` for the usual texts of a missing value, which is no name.
fn is_missing(cell: &str) -> bool {
    ["n/a", "na", "nan", "null", "none", "nil"].contains(&&*cell.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<Vec<String>> {
        let row = |line: &str| line.split(',').map(str::to_owned).collect();
        text.lines().map(row).collect()
    }

    fn layout(text: &str) -> (usize, usize, bool) {
        let TableLayout { source, target, header, .. } =
            TableLayout::of(&rows(text), &Columns::default()).unwrap();
        (source, target, header.is_some())
    }

    #[test]
    fn a_header_is_recognized() {
        let sentences = "The river is wide.,Der Fluss ist breit.\nThe dog eats.,Der Hund frisst.";
        for header in [
            "en,de",
            "EN,DE",
            "eng,deu",
            "English,German",
            "sentence_en,sentence_de",
            "en_US,de_DE",
            "source,target",
            "src,tgt",
            "Source text,Target text",
            "Text (English),Text (German)",
            "source_en,target_de",
            "original,translation",
            "en-text,de-text",
        ] {
            assert_eq!(layout(&format!("{header}\n{sentences}")), (0, 1, true), "{header}");
        }
        assert_eq!(layout(&format!("translation,original\n{sentences}")), (1, 0, true));
    }

    #[test]
    fn a_first_pair_is_not_a_header() {
        let sentences = "The river is wide.,Der Fluss ist breit.\nThe dog eats.,Der Hund frisst.";
        for pair in [
            "Hello,Ciao",
            "English,Inglese",
            "German,Deutsch",
            "no,no",
            "No,Nein",
            "Source,Quelle",
            "The source,Die Quelle",
            "text,Text",
            "I speak English,Ich spreche Deutsch",
            "Hi,Hallo",
            "Translation,Übersetzung",
            "English language,englische Sprache",
            "Input,Eingabe",
        ] {
            assert_eq!(layout(&format!("{pair}\n{sentences}")), (0, 1, false), "{pair}");
        }
        // A list of words.
        assert_eq!(layout("is,es\nhouse,casa\ncat,gato"), (0, 1, false));
        assert_eq!(layout("it,es\nhe,er\nthis,dies"), (0, 1, false));
        // Numbers in one row, or on both sides.
        assert_eq!(layout("1984,1984\nThe cat,Die Katze"), (0, 1, false));
        assert_eq!(layout("1,1\n2,2\n3,3"), (0, 1, false));
        assert_eq!(layout("Hello,Ciao,n/a\nCat,Gatto,0.9\nDog,Cane,0.8"), (0, 1, false));
    }

    #[test]
    fn columns_of_numbers_are_no_sides() {
        assert_eq!(layout("id,en,de\n1,The cat.,Die Katze.\n2,The dog.,Der Hund."), (1, 2, true));
        assert_eq!(layout(",en,de\n0,The cat.,Die Katze.\n1,The dog.,Der Hund."), (1, 2, true));
        assert_eq!(layout("1,The cat.,Die Katze.\n2,The dog.,Der Hund."), (1, 2, false));
        assert_eq!(layout("0.93\t".trim()), (0, 1, false));
        assert_eq!(layout("The cat.,0.9,Die Katze.\nThe dog.,0.8,Der Hund."), (0, 2, false));
        assert_eq!(layout("id,question,answer\n1,Why?,So.\n2,Who?,Me."), (1, 2, true));
        assert_eq!(layout("row_id,de,en,fr\na1,ja,yes,oui\na2,nein nein,no no,non"), (1, 2, true));
        // Indonesian.
        assert_eq!(layout("id,en\nKucing itu tidur.,The cat sleeps."), (0, 1, true));
    }

    #[test]
    fn given_columns_and_languages_take_precedence() {
        let of = |text: &str, given: &Columns| TableLayout::of(&rows(text), given);
        let text = "id,en,de\n1,The cat.,Die Katze.\n2,The dog.,Der Hund.";
        let some = |text: &str| Some(text.to_owned());
        let languages = Columns {
            source_language: some("de"),
            target_language: some("en"),
            ..Columns::default()
        };
        let found = of(text, &languages).unwrap();
        assert_eq!((found.source, found.target), (2, 1));
        let others = Columns {
            source_language: some("fr"),
            target_language: some("it"),
            ..Columns::default()
        };
        assert!(of(text, &others).unwrap_err().starts_with("no column for the source"));
        let numbers = Columns { source: some("1"), target: some("3"), ..Columns::default() };
        let found = of(text, &numbers).unwrap();
        assert_eq!((found.source, found.target, found.header), (0, 2, None));
        let plain = Columns { header: Some(false), ..Columns::default() };
        assert_eq!(of(text, &plain).unwrap().header, None);
    }

    #[test]
    fn columns_in_use_and_ignored_ones_are_listed() {
        let shown =
            |text: &str| TableLayout::of(&rows(text), &Columns::default()).unwrap().to_string();
        assert_eq!(
            shown("id,en,de\n1,The cat.,Die Katze.\n2,The dog.,Der Hund."),
            "'en' -> 'de'; ignored: 'id'"
        );
        assert_eq!(shown("The cat.,Die Katze."), "1 -> 2");
        assert_eq!(shown("Hi.,Hallo.,CC-BY"), "1 -> 2; ignored: 3");
    }
}
