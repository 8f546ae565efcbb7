//! Decision whether a mark ends a sentence.

use super::{
    brackets::Brackets,
    language::{Abbreviation, Language, Ordinals},
    line::Line,
    list::ListMark,
    marks::{
        Mark, closes, closing_bracket_of_cjk, continues, is_bullet, is_dash, is_hiragana, opens,
        opens_or_closes,
    },
};

/// Maximum number of characters read of the word before or after a mark.
const WORD: usize = 32;

/// Maximum number of quotation marks, brackets and dashes read before a word.
const OPENING: usize = 6;

/// Minimum number of letters of a word that is not an abbreviation.
const LONG_WORD: usize = 4;

/// Maximum length of brackets, in bytes, inside which no sentence ends.
const BRACKETS: usize = 400;

/// Maximum length of a reference to the source of a quotation, in bytes.
const REFERENCE: usize = 60;

/// Returns the end of the sentence that begins at `start`: after its mark and the quotation marks and
/// brackets that close it, before the next item of a list, or the end of the line.
///
/// `list` is the mark of the latest item of a list in the line; it is replaced by that of this sentence.
pub(super) fn sentence_end(
    line: &Line<'_>,
    start: usize,
    language: &Language,
    brackets: &Brackets,
    list: &mut Option<ListMark>,
) -> usize {
    let mut at = start;
    if let Some(item) = ListMark::read(line, start) {
        at = item.end;
        *list = Some(item);
    }
    // A number with a full stop in running text is no item of a list if it can be an ordinal.
    let list =
        list.filter(|list| !(list.is_ordinal() && language.ordinals == Ordinals::Capitalized));
    let mut is_word_start = false;
    while let Some(c) = line.after(at) {
        if is_word_start
            && list.is_some_and(|list| {
                ListMark::read(line, at).is_some_and(|item| list.precedes(item))
            })
            && brackets.around(at).is_none()
            && !is_continued(line, start, at)
        {
            return at;
        }
        is_word_start = c.is_whitespace();
        if line.mark(at).is_none() {
            at += c.len_utf8();
            continue;
        }
        let run = Run::read(line, at);
        let place = Place { line, start, mark: at, run: &run, language, brackets };
        if place.ends_sentence() {
            return run.end;
        }
        at = run.end;
    }
    line.end()
}

/// Whether the text before the white space at `at` continues after it: `1) one; 2) two`.
fn is_continued(line: &Line<'_>, start: usize, at: usize) -> bool {
    let end = line.skip_back(start, at, WORD, char::is_whitespace);
    line.before(end).is_some_and(continues)
}

/// Marks without other characters between them, and what closes after them: `?!`, `...`, `.")`, `.[3]`.
struct Run {
    /// The strongest mark.
    kind: Mark,
    /// Whether a quotation mark or bracket closes after the mark.
    closed: bool,
    /// Whether the last of these is a bracket of Chinese or Japanese.
    closed_cjk: bool,
    end: usize,
}

impl Run {
    fn read(line: &Line<'_>, start: usize) -> Self {
        let mut run = Self { kind: Mark::Stop, closed: false, closed_cjk: false, end: start };
        let mut marks = 0;
        while let Some(c) = line.after(run.end) {
            if let Some(kind) = line.mark(run.end) {
                marks += 1;
                let kind = if kind == Mark::Stop && marks > 1 && !run.closed {
                    Mark::Ellipsis
                } else {
                    kind
                };
                run.kind = run.kind.max(kind);
                (run.closed, run.closed_cjk) = (false, false);
            } else if closes(c) || (opens_or_closes(c) && run.is_before_gap(line, c)) {
                run.closed = true;
                run.closed_cjk = closing_bracket_of_cjk(c);
            } else if c == '['
                && let Some(end) = citation(line, run.end)
            {
                run.end = end;
                continue;
            } else if let Some(end) = run.after_space(line, c) {
                run.end = end;
                continue;
            } else {
                break;
            }
            run.end += c.len_utf8();
        }
        run
    }

    /// Whether the character `c` at the end of the run is not at the start of a word.
    fn is_before_gap(&self, line: &Line<'_>, c: char) -> bool {
        line.after(self.end + c.len_utf8()).is_none_or(|next| !next.is_alphanumeric())
    }

    /// Returns the position of a mark or quotation mark after the space `c`: `. . .`, `! »`.
    fn after_space(&self, line: &Line<'_>, c: char) -> Option<usize> {
        if !c.is_whitespace() {
            return None;
        }
        let at = self.end + c.len_utf8();
        let next = line.after(at)?;
        let end = at + next.len_utf8();
        let gap = line.after(end).is_none_or(|after| after.is_whitespace() || continues(after));
        let joined = match next {
            '»' | '”' | '"' => gap || line.mark(end).is_some(),
            '.' => self.kind <= Mark::Ellipsis && (gap || line.after(end).is_some_and(closes)),
            '!' | '?' => !line.is_greek(),
            _ => false,
        };
        joined.then_some(at)
    }
}

/// Returns the end of a number in brackets at `at`, as after a sentence of an encyclopedia.
fn citation(line: &Line<'_>, at: usize) -> Option<usize> {
    let digits = line.skip(at + 1, 3, |c| c.is_ascii_digit());
    let closed = digits > at + 1 && line.after(digits) == Some(']');
    closed.then_some(digits + 1)
}

/// A run of marks in its line.
struct Place<'a> {
    line: &'a Line<'a>,
    /// Start of the sentence.
    start: usize,
    /// Start of the run.
    mark: usize,
    run: &'a Run,
    language: &'a Language,
    brackets: &'a Brackets,
}

/// Beginning of the text after a run of marks and white space.
struct Next<'a> {
    /// First character after quotation marks, brackets and dashes.
    first: char,
    /// Letters and digits from there.
    word: &'a str,
    /// Whether this is a letter with a full stop.
    initial: bool,
    /// Whether a dash precedes it.
    dash: bool,
    /// Whether a quotation mark or bracket precedes it.
    opened: bool,
}

impl Place<'_> {
    fn ends_sentence(&self) -> bool {
        let Self { line, run, .. } = *self;
        let Some(after) = line.after(run.end) else { return true };
        if self.is_in_brackets() {
            return false;
        }
        if !after.is_whitespace() {
            return self.ends_without_space(after);
        }
        let Some(next) = self.next() else { return true };
        if next.first.is_lowercase() && run.kind != Mark::Full {
            return !run.closed
                && !next.dash
                && match run.kind {
                    Mark::Strong => !self.is_in_sentence(),
                    Mark::Stop => self.is_after_word(),
                    Mark::Ellipsis | Mark::Full => false,
                };
        }
        if continues(next.first) && !next.opened {
            return run.kind == Mark::Full;
        }
        if run.closed && self.is_before_reference() {
            return false;
        }
        match run.kind {
            Mark::Stop if !run.closed => self.stop_ends_sentence(&next),
            Mark::Stop | Mark::Ellipsis | Mark::Strong | Mark::Full => true,
        }
    }

    /// Whether the run is inside brackets that do not begin the sentence.
    fn is_in_brackets(&self) -> bool {
        self.brackets.around(self.mark).is_some_and(|span| {
            let begins_sentence = span.start == self.start
                && self.line.after(span.start).is_some_and(|c| matches!(c, '(' | '['));
            let opened = span.start >= self.start && !begins_sentence;
            opened && span.end >= self.run.end && span.len() <= BRACKETS
        })
    }

    /// Whether brackets follow that belong to the quotation before, because the full stop is after them:
    /// `"…" (Smith 55).`
    fn is_before_reference(&self) -> bool {
        let Self { line, run, .. } = *self;
        let start = line.skip(run.end, usize::MAX, char::is_whitespace);
        let Some(end) = self.brackets.end(start) else { return false };
        let is_full = |at| line.before(at).is_some_and(|c| matches!(c, '.' | '!' | '?'));
        // Brackets of other scripts have other marks.
        let is_ascii = line.after(end).is_some_and(|c| c.is_ascii());
        is_ascii && end - start <= REFERENCE && line.after(end + 1) == Some('.') && !is_full(end)
    }

    /// Whether a single exclamation mark, before a word in lower case, belongs to a name or to speech:
    /// `Yahoo! in the news`, `¡Hola! dijo Juan`. Also whether a colon before such a word is no full stop.
    fn is_in_sentence(&self) -> bool {
        let Self { line, run, .. } = *self;
        let is_single = run.end - self.mark == 1;
        let from = line.skip_back(self.start, self.mark, WORD, is_in_word);
        match line.after(self.mark) {
            Some('!') if is_single => {
                let is_name = line.after(from).is_some_and(char::is_uppercase);
                is_name && from > self.start || line.after(self.start) == Some('¡')
            }
            Some(':') => true,
            _ => false,
        }
    }

    /// Whether a sentence ends although `after` follows its mark directly.
    fn ends_without_space(&self, after: char) -> bool {
        let Self { line, run, .. } = *self;
        if continues(after) || is_dash(after) {
            return false;
        }
        let before = line.before(self.mark);
        match run.kind {
            Mark::Full => {
                let number = before.is_some_and(char::is_numeric) && after.is_numeric();
                let parenthesis = matches!(line.before(run.end), Some('）' | ')'))
                    && self.brackets.around(self.mark).is_some_and(|span| span.start > self.start);
                let continued = parenthesis || run.closed_cjk && is_hiragana(after);
                !number && !continued && !closes(after)
            }
            Mark::Strong => is_without_case(before) && is_without_case(Some(after)),
            Mark::Stop => is_without_case(before) && is_without_case(Some(after)),
            Mark::Ellipsis => false,
        }
    }

    /// Returns the beginning of the text after the white space; `None` at the end of the line.
    fn next(&self) -> Option<Next<'_>> {
        let line = self.line;
        let mut at = line.skip(self.run.end, usize::MAX, char::is_whitespace);
        let (mut dash, mut opened) = (false, false);
        for _ in 0..OPENING {
            let c = line.after(at)?;
            if is_dash(c) {
                dash = true;
            } else if opens(c) || c == ',' && line.after(at + 1) == Some(',') {
                // Two commas stand for `„`.
                at += usize::from(c == ',');
                opened = true;
            } else if !(c.is_whitespace() && (dash || opened)) {
                break;
            }
            at += c.len_utf8();
        }
        let first = line.after(at)?;
        let end = line.skip(at, WORD, char::is_alphanumeric);
        let word = line.slice(at, end);
        let initial = is_letter(word) && line.after(end) == Some('.');
        Some(Next { first, word, initial, dash, opened })
    }

    /// Whether the full stop follows a word that is too long for an abbreviation and not a known one, so
    /// that the sentence ends although the next word is in lower case.
    fn is_after_word(&self) -> bool {
        let Self { line, language, .. } = *self;
        let from = line.skip_back(self.start, self.mark, WORD, is_in_word);
        let word = line.slice(from, self.mark);
        let last = word.rsplit(['\'', '’', '-', '‑']).next().unwrap_or(word);
        // In Armenian, a full stop separates clauses.
        let armenian = last.ends_with(|c| matches!(c, '\u{531}'..='\u{587}'));
        last.chars().filter(|c| c.is_alphabetic()).count() >= LONG_WORD
            && !armenian
            && !last.contains('.')
            && language.abbreviation(word).is_none()
            && language.abbreviation(last).is_none()
    }

    /// Whether the sentence ends at a full stop before `next`, which does not begin in lower case.
    fn stop_ends_sentence(&self, next: &Next<'_>) -> bool {
        let Self { line, language, .. } = *self;
        let from = line.skip_back(self.start, self.mark, WORD, is_in_word);
        let word = line.slice(from, self.mark);
        let word = word.trim_start_matches(['\'', '’', '-', '.', '‑']);
        let from = self.mark - word.len();
        let starter = language.is_starter(next.word) && !next.initial;
        if word.is_empty() {
            return true;
        }
        if word.contains('°') {
            // `N°. 5`, but a unit such as `°C` ends a sentence.
            return !(next.first.is_numeric() && word.starts_with(char::is_alphabetic));
        }
        if word.chars().all(|c| c.is_numeric() || c == '.') {
            return self.number_ends_sentence(word, from, next, starter);
        }
        let last = word.rsplit(['\'', '’', '-', '‑']).next().unwrap_or(word);
        let numeric = next.first.is_numeric();
        match language.abbreviation(word).or_else(|| language.abbreviation(last)) {
            Some(Abbreviation::Never) => return false,
            Some(Abbreviation::Number) => {
                return !(numeric || is_roman(next.word) || is_letter(next.word));
            }
            Some(Abbreviation::Final) => return starter,
            Some(Abbreviation::Closing) => return true,
            None => {}
        }
        if last.contains('.') {
            let acronym = last
                .split('.')
                .all(|part| part.chars().count() <= 2 && part.chars().all(char::is_alphabetic));
            return !acronym || starter;
        }
        if is_letter(last) {
            let first = last.chars().next();
            if first.is_some_and(char::is_uppercase) {
                return starter && !self.is_after_initial(from);
            }
            return !(first.is_some_and(char::is_lowercase) && self.is_after_initial(from))
                || starter;
        }
        if language.ordinals != Ordinals::None && is_roman(last) {
            return starter || next.first.is_numeric();
        }
        if language.vowels && is_without_vowel(last) {
            return starter;
        }
        true
    }

    /// Whether the sentence ends after a number with a full stop.
    fn number_ends_sentence(
        &self,
        word: &str,
        from: usize,
        next: &Next<'_>,
        starter: bool,
    ) -> bool {
        let digits = word.len();
        let numeric = next.first.is_numeric();
        // `1. First item`
        let before = self.line.slice(self.start, from);
        let is_label = |c: char| opens(c) || is_bullet(c) || c == '#';
        if digits <= 3 && before.chars().all(is_label) && !numeric {
            return false;
        }
        match self.language.ordinals {
            Ordinals::None => true,
            Ordinals::Lowercase | Ordinals::Capitalized if self.language.is_counted(next.word) => {
                false
            }
            Ordinals::Lowercase => !(numeric && digits <= 2),
            Ordinals::Capitalized => digits > 2 || starter,
        }
    }

    /// Whether a letter with a full stop precedes the position `at`: `z. B`, `J. R`.
    fn is_after_initial(&self, at: usize) -> bool {
        let line = self.line;
        let stop = line.skip_back(self.start, at, 2, char::is_whitespace);
        if stop == at || line.before(stop) != Some('.') {
            return false;
        }
        let from = line.skip_back(self.start, stop - 1, 3, is_in_word);
        is_letter(line.slice(from, stop - 1))
    }
}

/// Whether a character belongs to a word before a full stop.
fn is_in_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '\'' | '’' | '-' | '‑' | '°') || is_mark_of_letter(c)
}

/// Whether a combining mark.
fn is_mark_of_letter(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36F}')
}

/// Whether a letter of a script without capital letters.
fn is_without_case(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_alphabetic() && !c.is_lowercase() && !c.is_uppercase())
}

/// Whether a word is one letter.
fn is_letter(word: &str) -> bool {
    let mut chars = word.chars().filter(|c| !is_mark_of_letter(*c));
    chars.next().is_some_and(char::is_alphabetic) && chars.next().is_none()
}

/// Whether a word is a Roman numeral of two or more letters.
fn is_roman(word: &str) -> bool {
    word.len() >= 2 && word.chars().all(|c| matches!(c, 'I' | 'V' | 'X' | 'L' | 'C'))
}

/// Whether a word of Latin letters has two to five letters, none of them a vowel, and is not in
/// capitals.
fn is_without_vowel(word: &str) -> bool {
    let letters = word.chars().count();
    (2..=5).contains(&letters)
        && word.chars().all(|c| c.is_ascii_alphabetic() && !"aeiouyAEIOUY".contains(c))
        && word.chars().skip(1).any(char::is_lowercase)
}
