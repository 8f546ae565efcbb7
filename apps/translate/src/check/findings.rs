//! Problems of the translations of a text that can be seen without a reference.

use serde_json::{Value, json};
use tx_infer::Translation;
use tx_markup::placeholders_of;
use tx_text::is_blank;

/// Lengths of a unit that repeats, in words and in characters.
const UNITS: std::ops::RangeInclusive<usize> = 1..=4;
/// Repetitions in a row that make a loop.
const LOOP: usize = 5;
/// A translation that is this many times longer or shorter than usual has an unusual length.
const UNUSUAL: f64 = 2.0;

/// Problem of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// Words, but no translation.
    Empty,
    /// The translation repeats something five times in a row, and the line does not.
    Loop,
    /// The translation equals the line, which has at least two words.
    Copied,
    /// The translation has more than twice or less than half the usual length.
    Length,
    /// The digits of a number in the line are not in the translation, or the reverse.
    Number,
    /// A placeholder, e-mail address or URL is not in the translation.
    Placeholder,
    /// Words that are not in the vocabulary.
    Unknown,
    /// The line is longer than the model can read.
    Truncated,
}

impl Problem {
    const ALL: [Self; 8] = [
        Self::Empty,
        Self::Loop,
        Self::Copied,
        Self::Length,
        Self::Number,
        Self::Placeholder,
        Self::Unknown,
        Self::Truncated,
    ];

    /// Returns its name in a table.
    fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty translation",
            Self::Loop => "repetition loop",
            Self::Copied => "translation equals the line",
            Self::Length => "unusual length",
            Self::Number => "changed number",
            Self::Placeholder => "lost placeholder or address",
            Self::Unknown => "unknown word",
            Self::Truncated => "truncated",
        }
    }

    /// Returns its key in JSON.
    fn key(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Loop => "loop",
            Self::Copied => "copied",
            Self::Length => "length",
            Self::Number => "number",
            Self::Placeholder => "placeholder",
            Self::Unknown => "unknown",
            Self::Truncated => "truncated",
        }
    }
}

/// Problems of the lines so far.
#[derive(Debug, Default)]
pub struct Findings {
    /// Number of lines.
    lines: usize,
    /// Number of lines without words.
    blank: usize,
    /// Lines with numbers, and with placeholders or addresses, in the line or its translation.
    with_numbers: usize,
    with_placeholders: usize,
    /// Problems with the number of their line, from 1.
    found: Vec<(usize, Problem)>,
    /// Ratio of the lengths of translation and line in characters, with the number of the line.
    ratios: Vec<(usize, f64)>,
}

impl Findings {
    /// Adds a line and its translation.
    pub fn add(&mut self, line: &str, translation: &Translation) {
        self.lines += 1;
        let number = self.lines;
        let text = translation.text.trim();
        if is_blank(line) {
            self.blank += 1;
            return;
        }
        let mut found = |problem, is_found: bool| {
            if is_found {
                self.found.push((number, problem));
            }
        };
        found(Problem::Empty, text.is_empty());
        found(Problem::Loop, has_loop(text) && !has_loop(line));
        let words = line.split_whitespace().count();
        found(Problem::Copied, words > 1 && line.trim() == text);
        let [numbers, translated] = [line, text].map(numbers);
        found(Problem::Number, numbers != translated);
        let mut placeholders = placeholders_of(line);
        let mut kept = placeholders_of(text);
        placeholders.sort_unstable();
        kept.sort_unstable();
        found(Problem::Placeholder, placeholders != kept);
        found(Problem::Unknown, !translation.unknown.is_empty());
        found(Problem::Truncated, translation.truncated);
        self.with_numbers += usize::from(!numbers.is_empty() || !translated.is_empty());
        self.with_placeholders += usize::from(!placeholders.is_empty() || !kept.is_empty());
        let [length, translated] = [line.trim(), text].map(|text| text.chars().count());
        if translated > 0 {
            self.ratios.push((number, translated as f64 / length.max(1) as f64));
        }
    }

    /// Returns the median ratio of the lengths of translations and lines; `None` without translations.
    fn usual_ratio(&self) -> Option<f64> {
        let mut ratios: Vec<f64> = self.ratios.iter().map(|(_, ratio)| *ratio).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied()
    }

    /// Returns the numbers of the lines with a problem, from 1.
    fn lines_with(&self, problem: Problem) -> Vec<usize> {
        if problem == Problem::Length {
            let usual = self.usual_ratio().unwrap_or(1.0);
            let is_unusual = |ratio: f64| !(1.0 / UNUSUAL..=UNUSUAL).contains(&(ratio / usual));
            let found = self.ratios.iter().filter(|(_, ratio)| is_unusual(*ratio));
            return found.map(|(line, _)| *line).collect();
        }
        let found = self.found.iter().filter(|(_, found)| *found == problem);
        found.map(|(line, _)| *line).collect()
    }

    /// Returns a table with the number of lines of each problem, their share and the first one.
    pub fn table(&self) -> String {
        let mut table = format!("{:<30}{:>8}{:>9}  first line\n", "", "lines", "share");
        let translated = self.lines - self.blank;
        for problem in Problem::ALL {
            let lines = self.lines_with(problem);
            let all = match problem {
                Problem::Number => self.with_numbers,
                Problem::Placeholder => self.with_placeholders,
                _ => translated,
            };
            let share = match all {
                0 => "-".into(),
                all => format!("{:.2} %", 100.0 * lines.len() as f64 / all as f64),
            };
            let first = lines.first().map_or("-".into(), ToString::to_string);
            let (name, count) = (problem.name(), lines.len());
            table.push_str(&format!("{name:<30}{count:>8}{share:>9}  {first}\n"));
        }
        let Self { lines, blank, with_numbers, with_placeholders, .. } = self;
        table.push_str(&format!(
            "{lines} lines, {blank} without words, {with_numbers} with numbers, {with_placeholders} with \
             placeholders or addresses; usual length {:.2} of the line's\n",
            self.usual_ratio().unwrap_or(1.0)
        ));
        table
    }

    /// Converts the findings to JSON, with the numbers of all lines of a problem.
    pub fn to_json(&self) -> Value {
        let lines =
            Problem::ALL.map(|problem| (problem.key().to_owned(), json!(self.lines_with(problem))));
        json!({
            "lines": self.lines,
            "without_words": self.blank,
            "with_numbers": self.with_numbers,
            "with_placeholders": self.with_placeholders,
            "usual_length": self.usual_ratio(),
            "problems": Value::Object(lines.into_iter().collect()),
        })
    }
}

/// Whether one to four words, or one to four letters, are repeated five times in a row.
fn has_loop(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    // Rows of marks, such as `.....`, are no loops.
    let letters: Vec<char> = text.chars().collect();
    repeats(&words, |_| true) || repeats(&letters, |letter| letter.is_alphabetic())
}

/// Whether a unit of items, all of which are `counted`, is repeated.
fn repeats<T: PartialEq>(items: &[T], counted: impl Fn(&T) -> bool) -> bool {
    UNITS.into_iter().any(|unit| {
        let mut row = 0;
        (unit..items.len()).any(|at| {
            let is_same = items[at] == items[at - unit] && counted(&items[at]);
            row = if is_same { row + 1 } else { 0 };
            row >= unit * (LOOP - 1)
        })
    })
}

/// Returns the digits of the numbers of a text, sorted. Marks between digits, which languages write
/// differently, are left out.
fn numbers(text: &str) -> Vec<String> {
    let mut numbers = Vec::new();
    let mut number = String::new();
    let mut is_mark = false;
    for c in text.chars() {
        match c {
            '0'..='9' => {
                number.push(c);
                is_mark = false;
            }
            '.' | ',' | ':' | '\'' | '\u{a0}' | '\u{202f}' if !number.is_empty() && !is_mark => {
                is_mark = true
            }
            _ => {
                numbers.extend((!number.is_empty()).then(|| std::mem::take(&mut number)));
                is_mark = false;
            }
        }
    }
    numbers.extend((!number.is_empty()).then_some(number));
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_without_their_marks() {
        assert_eq!(numbers("3,5 km, 1.000 and 12:30."), ["1000", "1230", "35"]);
        assert_eq!(numbers("3.5 km, 1,000 et 12:30"), numbers("3,5 km, 1.000 and 12:30."));
        assert_ne!(numbers("27"), numbers("22"));
        assert_eq!(numbers("none"), Vec::<String>::new());
    }

    #[test]
    fn loops_are_five_repetitions_in_a_row() {
        for looping in
            ["ha ha ha ha ha", "a drammmmm", "nananananana", "a b c a b c a b c a b c a b c"]
        {
            assert!(has_loop(looping), "{looping}");
        }
        for other in ["ha ha ha ha", "drammmm", "wait.......", "a b a b a b a c", ""] {
            assert!(!has_loop(other), "{other}");
        }
    }

    /// Four lines have translations of their own length, so half and double of it are the limits.
    #[test]
    fn each_problem_is_counted_with_its_first_line() {
        let mut findings = Findings::default();
        let mut add = |line: &str, text: &str| findings.add(line, &Translation::of_text(text));
        add("", "");
        add("Zimmer 27 ist frei", "Room 22 is freeeee");
        add("Hallo {name}, gut", "Hello friend, good");
        add("das ist gut", "das ist gut");
        add("der Hund rennt", "a");
        add("ein Hund", "");
        let lines = |problem| findings.lines_with(problem);
        assert_eq!(lines(Problem::Number), [2]);
        assert_eq!(lines(Problem::Loop), [2]);
        assert_eq!(lines(Problem::Placeholder), [3]);
        assert_eq!(lines(Problem::Copied), [4]);
        assert_eq!(lines(Problem::Length), [5]);
        assert_eq!(lines(Problem::Empty), [6]);
        assert_eq!(lines(Problem::Unknown), Vec::<usize>::new());
        let table = findings.table();
        assert!(table.contains("changed number                       1 100.00 %  2\n"), "{table}");
        assert!(table.contains("empty translation                    1  20.00 %  6\n"), "{table}");
        let json = findings.to_json();
        assert_eq!((&json["lines"], &json["problems"]["copied"]), (&json!(6), &json!([4])));
        // An invented number counts as well, so that no share exceeds 100 %.
        findings.add("der Hund", &Translation::of_text("dog 5"));
        let table = findings.table();
        assert!(table.contains("changed number                       2 100.00 %  2\n"), "{table}");
    }
}
