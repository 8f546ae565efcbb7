//! The tokenizer `intl`: what `mteval-v14.pl` does to text of any script, as sacreBLEU does it.
//!
//! Punctuation becomes words of its own, except between two numbers; symbols always do. "Number"
//! is Unicode's category N, which has more than digits. At the end of a line a number keeps its
//! period, as in the original.

use std::sync::LazyLock;

use regex::Regex;

use crate::tokenizer::words;

/// What is looked for and what is put in its place, one after the other.
#[expect(clippy::expect_used, reason = "the patterns are constant and tested")]
static RULES: LazyLock<[(Regex, &str); 3]> = LazyLock::new(|| {
    [(r"(\P{N})(\p{P})", "$1 $2 "), (r"(\p{P})(\P{N})", " $1 $2"), (r"(\p{S})", " $1 ")]
        .map(|(pattern, replacement)| (Regex::new(pattern).expect("a valid pattern"), replacement))
});

/// Calls `visit` with each word of `line`, which has no white space at its end.
pub(crate) fn for_each_word(line: &str, visit: impl FnMut(&str)) {
    let mut text = line.to_owned();
    for (pattern, replacement) in &*RULES {
        if pattern.is_match(&text) {
            text = pattern.replace_all(&text, *replacement).into_owned();
        }
    }
    words(&text).for_each(visit);
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
    fn punctuation_and_symbols_of_all_scripts_stand_alone() {
        assert_eq!(tokenize("«Oui», dit-il…"), "« Oui » , dit - il …");
        assert_eq!(tokenize("क्या? 你好。 5€+3"), "क्या ? 你好 。 5 € + 3");
        assert_eq!(tokenize("don't"), "don ' t");
    }

    /// Arabic-Indic digits and Roman numerals are numbers too.
    #[test]
    fn numbers_keep_what_is_between_them() {
        assert_eq!(tokenize("1,000.5 ٣٫٥ Ⅳ-Ⅴ"), "1,000.5 ٣٫٥ Ⅳ-Ⅴ");
        assert_eq!(tokenize("a,5 5,a"), "a , 5 5 , a");
        assert_eq!(tokenize("in 2016."), "in 2016.");
    }

    #[test]
    fn escaped_characters_stay_escaped() {
        assert_eq!(tokenize("&quot;a"), "& quot ; a");
    }
}
