//! The tokenizer `13a`: what `mteval-v13a.pl` does to Western text, as sacreBLEU does it.
//!
//! The original is a chain of text replacements, each run on the outcome of the one before. They
//! only ever insert spaces, so here one walk over the line decides for each character whether it
//! stands alone:
//!
//! - ASCII punctuation and symbols other than `'` `,` `-` `.` always do;
//! - `.` and `,` do, except when they touch a digit in the way of `1,000.5` (see [`Marks`]);
//! - `-` does right after a digit.

use std::borrow::Cow;

use crate::tokenizer::is_space;

/// Calls `visit` with each word of `line`, which has no white space at its end.
pub(crate) fn for_each_word(line: &str, visit: impl FnMut(&str)) {
    // The original puts a space before and after the line.
    split(&unescape(line), Some(' '), |_| false, visit);
}

/// Splits at white space and around what stands alone, or is `apart`. Before and after the text
/// stands `edge`.
pub(crate) fn split(
    text: &str,
    edge: Option<char>,
    apart: impl Fn(char) -> bool,
    mut visit: impl FnMut(&str),
) {
    let mut marks = Marks::default();
    let mut previous = edge;
    let mut word_start = 0;
    let mut characters = text.char_indices().peekable();
    while let Some((start, c)) = characters.next() {
        let next = characters.peek().map(|&(_, c)| c).or(edge);
        let end = start + c.len_utf8();
        let alone = match c {
            '.' | ',' => marks.stands_alone(previous, next),
            '-' => previous.is_some_and(|c| c.is_ascii_digit()),
            '\'' => false,
            _ => c.is_ascii_punctuation() || apart(c),
        };
        if alone || is_space(c) {
            if word_start < start {
                visit(&text[word_start..start]);
            }
            if alone && !is_space(c) {
                visit(&text[start..end]);
            }
            word_start = end;
        }
        previous = Some(c);
    }
    if word_start < text.len() {
        visit(&text[word_start..]);
    }
}

/// Removes what marks up a segment in WMT's files, in the original's order: `&amp;lt;` becomes `<`,
/// but `&amp;quot;` becomes `&quot;`.
fn unescape(line: &str) -> Cow<'_, str> {
    const REPLACEMENTS: [(&str, &str); 7] = [
        ("<skipped>", ""),
        ("-\n", ""),
        ("\n", " "),
        ("&quot;", "\""),
        ("&amp;", "&"),
        ("&lt;", "<"),
        ("&gt;", ">"),
    ];
    let mut text = Cow::Borrowed(line);
    for (from, to) in REPLACEMENTS {
        if text.contains(from) {
            text = Cow::Owned(text.replace(from, to));
        }
    }
    text
}

/// Decides about periods and commas, one after the other from the left.
///
/// The original first looks for pairs of a non-digit and a mark, left to right and without overlap,
/// and frees the mark; then it frees each mark that is still followed by a non-digit. Because pairs
/// do not overlap, a mark that closed one cannot open the next: in `a..5` the first period closes a
/// pair, so the second closes none and stays with the 5, whereas in `1..5` the two make a pair and
/// both are free.
#[derive(Default)]
struct Marks {
    /// The character before was a mark and closed a pair.
    closed_a_pair: bool,
}

impl Marks {
    /// Whether the mark between `previous` and `next` is a word of its own. Where nothing stands,
    /// there is no non-digit either.
    fn stands_alone(&mut self, previous: Option<char>, next: Option<char>) -> bool {
        let taken = matches!(previous, Some('.' | ',')) && self.closed_a_pair;
        self.closed_a_pair = previous.is_some_and(|c| !c.is_ascii_digit()) && !taken;
        self.closed_a_pair || next.is_some_and(|c| !c.is_ascii_digit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokenize(line: &str) -> String {
        let mut words = Vec::new();
        for_each_word(line, |word| words.push(word.to_owned()));
        words.join(" ")
    }

    #[test]
    fn punctuation_stands_alone_but_apostrophes_and_hyphens_do_not() {
        assert_eq!(tokenize("Don't (really)!"), "Don't ( really ) !");
        assert_eq!(tokenize("well-known, e.g. U.S."), "well-known , e . g . U . S .");
        assert_eq!(tokenize("«Oui», dit-il…"), "«Oui» , dit-il…");
        assert_eq!(tokenize("$5@a#b"), "$ 5 @ a # b");
    }

    #[test]
    fn numbers_keep_their_marks_and_lose_their_hyphens() {
        assert_eq!(tokenize("1,000.5"), "1,000.5");
        assert_eq!(tokenize("in 2016."), "in 2016 .");
        assert_eq!(tokenize(".5 and a.5"), ". 5 and a . 5");
        assert_eq!(tokenize("1990-1995, 5--a"), "1990 - 1995 , 5 - -a");
        // Only ASCII digits are digits.
        assert_eq!(tokenize("٣.٥ ３-４"), "٣ . ٥ ３-４");
    }

    /// The pairs of non-digit and mark are in brackets; see [`Marks`].
    #[test]
    fn runs_of_marks_pair_up_from_the_left() {
        assert_eq!(tokenize("a...5"), "a . . . 5"); // [a.][..]5
        assert_eq!(tokenize("a..5"), "a . .5"); //     [a.].5
        assert_eq!(tokenize("1..5"), "1 . . 5"); //    1[..]5
        assert_eq!(tokenize("1...5"), "1 . . .5"); //  1[..].5
        assert_eq!(tokenize("wait..."), "wait . . ."); // [t.][..]
    }

    #[test]
    fn markup_of_wmt_files_is_undone_in_order() {
        assert_eq!(tokenize("&quot;A&amp;B&quot;"), "\" A & B \"");
        assert_eq!(tokenize("&amp;lt; &amp;quot;"), "< & quot ;");
        assert_eq!(tokenize("a<skipped>b"), "ab");
        assert_eq!(tokenize("hyphen-\nated\nline"), "hyphenated line");
    }

    #[test]
    fn empty_and_blank_lines_have_no_words() {
        assert_eq!(tokenize(""), "");
        assert_eq!(tokenize(" \t\u{a0}"), "");
    }
}
