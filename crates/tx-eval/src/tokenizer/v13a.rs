//! Tokenizer `13a`: the rules of `mteval-v13a.pl` for Western text, as in sacreBLEU.
//!
//! The original is a chain of text replacements, each applied to the result of the previous one.
//! They only insert spaces, so a single pass over the line can decide for each character whether it
//! is a separate word:
//!
//! - ASCII punctuation and symbols other than `'` `,` `-` `.` always are;
//! - `.` and `,` are, unless they are adjacent to digits as in `1,000.5` (see [`Marks`]);
//! - `-` is directly after a digit.

use std::borrow::Cow;

use super::is_space;
use crate::replace;

/// Calls `visit` with each word of `line`, which has no trailing white space.
pub(crate) fn for_each_word(line: &str, visit: impl FnMut(&str)) {
    // The original adds a space before and after the line.
    split(&unescape(line), Some(' '), |_| false, visit);
}

/// Splits at white space and around characters that are separate words by rule or by `apart`.
/// `edge` is the character before and after the text.
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

/// Removes the markup of WMT's files, in the order of the original: `&amp;lt;` becomes `<`, but
/// `&amp;quot;` becomes `&quot;`.
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
    replace::literals(&mut text, &REPLACEMENTS);
    text
}

/// State for periods and commas, from left to right.
///
/// The original first matches pairs of a non-digit and a mark, left to right and without overlap,
/// and splits off the mark. Then it splits off each mark that is still followed by a non-digit.
/// Because pairs do not overlap, a mark that ends one pair cannot begin the next. In `a..5` the
/// first period ends a pair, so the second one ends none and stays with the 5. In `1..5` the two
/// periods form a pair and both are split off.
#[derive(Default)]
struct Marks {
    /// Whether the previous character was a mark that ended a pair.
    closed_a_pair: bool,
}

impl Marks {
    /// Returns `true` if the mark between `previous` and `next` is a separate word. `None` is not a
    /// non-digit.
    fn stands_alone(&mut self, previous: Option<char>, next: Option<char>) -> bool {
        let taken = matches!(previous, Some('.' | ',')) && self.closed_a_pair;
        self.closed_a_pair = previous.is_some_and(|c| !c.is_ascii_digit()) && !taken;
        self.closed_a_pair || next.is_some_and(|c| !c.is_ascii_digit())
    }
}

#[cfg(test)]
mod tests {
    use crate::Tokenizer;

    fn tokenize(line: &str) -> String {
        Tokenizer::V13a.tokenize(line).join(" ")
    }

    #[test]
    fn punctuation_is_split_off_except_apostrophes_and_hyphens() {
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
        // Only ASCII digits count as digits.
        assert_eq!(tokenize("٣.٥ ３-４"), "٣ . ٥ ３-４");
    }

    /// Pairs of a non-digit and a mark are in brackets; see [`Marks`].
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
