//! N-best lists in the format of Moses: `NUMBER ||| TEXT ||| NAME= VALUE … ||| SCORE`.
//!
//! Columns with word alignments are skipped: Marian writes one after the text with `--alignment`, and
//! Moses writes them, or the phrases of the hypothesis, after the score.

use std::{fmt, ops::Range};

use crate::error::InferError;

/// Feature of the last column of a list.
pub const SCORE: &str = "score";
/// Feature of the length: words of the hypothesis, separated by white space.
pub const WORDS: &str = "words";

/// Hypotheses of consecutive sentences, with their features.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NBestList {
    /// Names of the features of each hypothesis.
    names: Vec<String>,
    entries: Vec<Entry>,
    /// Hypotheses of each sentence in `entries`; at least one.
    sentences: Vec<Range<usize>>,
    /// Whether an alignment follows each text.
    is_aligned: bool,
}

/// A hypothesis.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// Its text.
    pub text: String,
    /// The features of the third column.
    pub values: Vec<f64>,
    /// The last column.
    pub score: f64,
}

impl NBestList {
    /// Parses a list, sentence by sentence from number 0. A feature with several values, as those of
    /// Moses, is several features: `name`, `name2`, and so on.
    ///
    /// # Errors
    ///
    /// [`InferError::NBestLine`] if a line has another format, a number is not that of the line before
    /// or the next one, a value is not finite, or the features differ from those of the first line. An
    /// error of `lines`.
    pub fn parse<E: From<InferError>>(
        lines: impl IntoIterator<Item = Result<String, E>>,
    ) -> Result<Self, E> {
        let mut list = Self::default();
        for (line, number) in lines.into_iter().zip(1..) {
            list.push(&line?).map_err(|problem| InferError::NBestLine { line: number, problem })?;
        }
        if std::mem::take(&mut list.is_aligned) {
            list.entries.iter_mut().for_each(Entry::remove_empty_alignment);
        }
        Ok(list)
    }

    fn push(&mut self, line: &str) -> Result<(), String> {
        let format = || "expected `NUMBER ||| TEXT ||| NAME= VALUE ||| SCORE`".to_owned();
        // A text can contain the separator.
        let (number, rest) = line.split_once("|||").ok_or_else(format)?;
        let (rest, score) = without_trailing_alignments(rest).ok_or_else(format)?;
        let (mut text, features) = rest.rsplit_once("|||").ok_or_else(format)?;
        if let Some((before, alignment)) = text.rsplit_once("|||")
            && is_alignment(alignment)
        {
            text = before;
            self.is_aligned = true;
        }
        let number: usize =
            number.trim().parse().map_err(|_| format!("`{}` is not a number", number.trim()))?;
        let last = self.sentences.len();
        let is_new = number == last;
        if !is_new && number.checked_add(1) != Some(last) {
            let expected = match last {
                0 => "0".to_owned(),
                _ => format!("{} or {last}", last - 1),
            };
            return Err(format!("number {number}, expected {expected}"));
        }
        let (names, values) = features_of(features)?;
        if self.entries.is_empty() {
            self.names = names;
        } else if self.names != names {
            return Err(format!(
                "features `{}`, but those of the first line are `{}`",
                names.join(" "),
                self.names.join(" ")
            ));
        }
        let score = finite(score.trim())?;
        self.entries.push(Entry { text: text.trim().to_owned(), values, score });
        let end = self.entries.len();
        match self.sentences.last_mut().filter(|_| !is_new) {
            Some(sentence) => sentence.end = end,
            None => self.sentences.push(end - 1..end),
        }
        Ok(())
    }

    /// Number of sentences.
    pub fn len(&self) -> usize {
        self.sentences.len()
    }

    /// Whether there is no sentence.
    pub fn is_empty(&self) -> bool {
        self.sentences.is_empty()
    }

    /// Returns all hypotheses, sentence by sentence.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the positions of the hypotheses of each sentence in [`entries`](Self::entries), at least
    /// one of each.
    pub fn sentences(&self) -> &[Range<usize>] {
        &self.sentences
    }

    /// Returns the number of the sentence of each hypothesis, from 0.
    pub fn sentence_of(&self) -> impl Iterator<Item = usize> + '_ {
        let sentences = self.sentences.iter().enumerate();
        sentences.flat_map(|(index, range)| range.clone().map(move |_| index))
    }

    /// Names of all features: those of the third column, [`SCORE`] and [`WORDS`].
    pub fn feature_names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).chain([SCORE, WORDS]).collect()
    }

    /// Returns the value of a feature of each hypothesis; `None` if there is no such feature.
    pub fn feature(&self, name: &str) -> Option<Vec<f64>> {
        let values = |value: &dyn Fn(&Entry) -> f64| self.entries.iter().map(value).collect();
        match name {
            SCORE => Some(values(&|entry| entry.score)),
            WORDS => Some(values(&|entry| entry.text.split_whitespace().count() as f64)),
            _ => {
                let index = self.names.iter().position(|it| it == name)?;
                Some(values(&|entry| entry.values[index]))
            }
        }
    }

    /// Appends a feature to each hypothesis, or replaces it.
    ///
    /// # Panics
    ///
    /// If the number of values is not that of [`entries`](Self::entries).
    pub fn set_feature(&mut self, name: &str, values: &[f64]) {
        assert_eq!(values.len(), self.entries.len(), "one value of `{name}` per hypothesis");
        match self.names.iter().position(|it| it == name) {
            Some(index) => {
                self.entries
                    .iter_mut()
                    .zip(values)
                    .for_each(|(it, value)| it.values[index] = *value);
            }
            None => {
                self.names.push(name.to_owned());
                self.entries.iter_mut().zip(values).for_each(|(it, value)| it.values.push(*value));
            }
        }
    }

    /// Sets the last column, and sorts the hypotheses of each sentence by it, best first; those of equal
    /// score stay in order.
    ///
    /// # Panics
    ///
    /// Same as [`set_feature`](Self::set_feature).
    pub fn rank(&mut self, scores: &[f64]) {
        assert_eq!(scores.len(), self.entries.len(), "one score per hypothesis");
        self.entries.iter_mut().zip(scores).for_each(|(entry, score)| entry.score = *score);
        for sentence in &self.sentences {
            self.entries[sentence.clone()].sort_by(|a, b| b.score.total_cmp(&a.score));
        }
    }

    /// Keeps the first `n` hypotheses of each sentence, at least one.
    pub fn truncate(&mut self, n: usize) {
        let mut kept = Self { names: self.names.clone(), ..Self::default() };
        for sentence in &self.sentences {
            let first = kept.entries.len();
            kept.entries.extend(self.entries[sentence.clone()].iter().take(n.max(1)).cloned());
            kept.sentences.push(first..kept.entries.len());
        }
        *self = kept;
    }
}

impl Entry {
    /// Removes the separator before the alignment of a text without words.
    fn remove_empty_alignment(&mut self) {
        if let Some(text) = self.text.strip_suffix("|||") {
            self.text = text.trim_end().to_owned();
        }
    }
}

/// The list in the format that [`NBestList::parse`] reads, with six digits.
impl fmt::Display for NBestList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, entry) in self.sentence_of().zip(&self.entries) {
            write!(f, "{number} ||| {} |||", entry.text)?;
            for (name, value) in self.names.iter().zip(&entry.values) {
                write!(f, " {name}= {value:.6}")?;
            }
            writeln!(f, " ||| {:.6}", entry.score)?;
        }
        Ok(())
    }
}

/// Divides `TEXT ||| FEATURES ||| SCORE ||| ALIGNMENT …` before the score, and drops the alignments.
/// Those of a text without words are empty.
fn without_trailing_alignments(rest: &str) -> Option<(&str, &str)> {
    let (mut rest, mut last) = rest.rsplit_once("|||")?;
    while last.trim().is_empty() || is_alignment(last) {
        (rest, last) = rest.rsplit_once("|||")?;
    }
    Some((rest, last))
}

/// Returns `true` for a column of word alignments, `0-0 1-2`, of phrases, `0-1=0 2=1-2`, or of the
/// weights of each source word for each target word, `0.9,0.1 0.2,0.8`.
fn is_alignment(column: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_range = |text: &str| match text.split_once('-') {
        Some((first, last)) => is_number(first) && is_number(last),
        None => is_number(text),
    };
    let is_point = |part: &str| match part.split_once('=') {
        Some((source, target)) => is_range(source) && is_range(target),
        None => part.contains('-') && is_range(part),
    };
    let is_weights = |part: &str| {
        part.contains(',') && part.split(',').all(|weight| weight.parse::<f64>().is_ok())
    };
    let mut parts = column.split_whitespace().peekable();
    parts.peek().is_some() && (parts.clone().all(is_point) || parts.all(is_weights))
}

/// Names and values of `NAME= VALUE …`. The scores of words that Marian writes with `--word-scores`,
/// as many as words, are skipped.
fn features_of(text: &str) -> Result<(Vec<String>, Vec<f64>), String> {
    let (mut names, mut values): (Vec<String>, Vec<f64>) = Default::default();
    let mut current: Option<(&str, usize)> = None;
    for part in text.split_whitespace() {
        if let Some(name) = part.strip_suffix('=').filter(|name| !name.is_empty()) {
            current = Some((name, 0));
            continue;
        }
        let Some((name, count)) = &mut current else {
            return Err(format!("feature value `{part}` has no name"));
        };
        *count += 1;
        if *name == "WordScores" {
            continue;
        }
        let name = if *count == 1 { (*name).to_owned() } else { format!("{name}{count}") };
        if [SCORE, WORDS].contains(&&*name) || names.contains(&name) {
            return Err(format!("feature `{name}` is there twice"));
        }
        names.push(name);
        values.push(finite(part)?);
    }
    Ok((names, values))
}

fn finite(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite());
    value.ok_or_else(|| format!("`{text}` is not a finite number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<NBestList, InferError> {
        NBestList::parse(text.lines().map(|line| Ok::<_, InferError>(line.to_owned())))
    }

    const TEXT: &str = "\
0 ||| a ||| b c ||| logprob= -1.500000 lm= -2.000000 ||| -0.500000
0 ||| d ||| logprob= -2.500000 lm= -1.000000 ||| -0.750000
1 |||  ||| logprob= 0.000000 lm= 0.000000 ||| 0.000000
";

    #[test]
    fn a_list_is_printed_as_it_was_read() {
        let mut list = parse(TEXT).unwrap();
        assert_eq!(list.to_string(), TEXT);
        assert_eq!((list.len(), list.sentences()), (2, &[0..2, 2..3][..]));
        assert_eq!(list.entries()[0].text, "a ||| b c");
        assert_eq!(list.feature_names(), ["logprob", "lm", "score", "words"]);
        assert_eq!(list.feature("words").unwrap(), [4.0, 1.0, 0.0]);
        assert_eq!(list.feature("lm").unwrap(), [-2.0, -1.0, 0.0]);
        assert_eq!(list.feature("other"), None);

        list.set_feature("lm", &[1.0, 2.0, 3.0]);
        list.set_feature("new", &[4.0, 5.0, 6.0]);
        assert_eq!(list.feature("lm").unwrap(), [1.0, 2.0, 3.0]);
        list.rank(&[1.0, 2.0, 3.0]);
        list.truncate(1);
        assert_eq!(list.sentences(), [0..1, 1..2]);
        assert_eq!(list.entries()[0].text, "d");
        assert_eq!(list.entries()[0].values, [-2.5, 2.0, 5.0]);
    }

    #[test]
    fn features_of_moses_can_have_several_values() {
        let list = parse("0 ||| a ||| LM0= -3 TM= -1 -2 1e-1 ||| -4").unwrap();
        assert_eq!(list.feature_names(), ["LM0", "TM", "TM2", "TM3", "score", "words"]);
        assert_eq!(list.entries()[0].values, [-3.0, -1.0, -2.0, 0.1]);
        assert_eq!(parse("0 ||| a ||| ||| 1").unwrap().feature_names(), ["score", "words"]);
        assert!(parse("").unwrap().is_empty());
    }

    /// Lines of Marian, with `--alignment` and `--word-scores`, and of Moses, with word alignments,
    /// phrases, or both.
    #[test]
    fn alignments_of_marian_and_moses_are_skipped() {
        let texts = |text: &str| {
            let list = parse(text).unwrap();
            assert_eq!(list.feature_names(), ["F0", "score", "words"], "{text}");
            list.entries().iter().map(|entry| entry.text.clone()).collect::<Vec<_>>()
        };
        for line in [
            "0 ||| a b ||| 0-0 1-1 ||| F0= -1.5 ||| -1.7",
            "0 ||| a b ||| 0.9,0.1 0.2,0.8 ||| F0= -1.5 ||| -1.7",
            "0 ||| a b ||| WordScores= -0.5 -1.0 F0= -1.5 ||| -1.7",
            "0 ||| a b ||| F0= -1.5 ||| -1.7 ||| 0-0 1-1 ",
            "0 ||| a b ||| F0= -1.5 ||| -1.7 ||| 0-1=0-1",
            "0 ||| a b ||| F0= -1.5 ||| -1.7 ||| 0=0 1=1 ||| 0-0 1-1",
        ] {
            assert_eq!(texts(line), ["a b"], "{line}");
        }
        // A text without words has an empty alignment.
        let empty = "0 |||  |||  ||| F0= -1 ||| -1\n0 ||| a ||| 0-0 ||| F0= -2 ||| -2\n";
        assert_eq!(texts(empty), ["", "a"]);
        assert_eq!(texts("0 |||  ||| F0= -1 ||| -1 ||| "), [""]);
        // Not alignments: numbers and words in a text, and a separator in it.
        for text in ["a ||| b", "1-0 ||| won", "a ||| 1,000 b", "1-0", "12", "a ||| 12"] {
            assert_eq!(texts(&format!("0 ||| {text} ||| F0= 1 ||| -1")), [text]);
        }
    }

    #[test]
    fn each_problem_names_the_line() {
        let first = "0 ||| a ||| x= 1 ||| 1\n";
        for (line, problem) in [
            ("", "expected `NUMBER"),
            ("1 ||| a", "expected `NUMBER"),
            ("x ||| a ||| x= 1 ||| 1", "`x` is not a number"),
            ("2 ||| a ||| x= 1 ||| 1", "number 2, expected 0 or 1"),
            ("18446744073709551615 ||| a ||| x= 1 ||| 1", "expected 0 or 1"),
            ("1 ||| a ||| y= 1 ||| 1", "features `y`, but those of the first line are `x`"),
            ("1 ||| a ||| 1 ||| 1", "`1` has no name"),
            ("1 ||| a ||| x= nan ||| 1", "`nan` is not a finite number"),
            ("1 ||| a ||| x= 1 ||| inf", "`inf` is not a finite number"),
            ("1 ||| a ||| x= 1 x= 1 ||| 1", "`x` is there twice"),
            ("1 ||| a ||| score= 1 ||| 1", "`score` is there twice"),
        ] {
            let error = parse(&format!("{first}{line}\n")).unwrap_err().to_string();
            assert!(error.contains("line 2") && error.contains(problem), "{line}: {error}");
        }
        let error = parse("1 ||| a ||| x= 1 ||| 1").unwrap_err().to_string();
        assert!(error.contains("number 1, expected 0"), "{error}");
    }
}
