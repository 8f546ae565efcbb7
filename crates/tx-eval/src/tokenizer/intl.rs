//! Tokenizer `intl`: the rules of `mteval-v14.pl` for text of any script, as in sacreBLEU.
//!
//! Punctuation marks become separate words, except between two numbers; symbols always do. A number
//! is a character of Unicode's category N, which contains more than digits. At the end of a line, a
//! number keeps its period, as in the original.

use std::{borrow::Cow, sync::LazyLock};

use super::words;
use crate::replace::{self, Rule, rules};

/// Rules in the order of the original.
static RULES: LazyLock<[Rule; 3]> = LazyLock::new(|| {
    rules([(r"(\P{N})(\p{P})", "$1 $2 "), (r"(\p{P})(\P{N})", " $1 $2"), (r"(\p{S})", " $1 ")])
});

/// Calls `visit` with each word of `line`, which has no trailing white space.
pub(crate) fn for_each_word(line: &str, visit: impl FnMut(&str)) {
    let mut text = Cow::Borrowed(line);
    replace::apply(&mut text, &*RULES);
    words(&text).for_each(visit);
}

#[cfg(test)]
mod tests {
    use crate::Tokenizer;

    fn tokenize(line: &str) -> String {
        Tokenizer::Intl.tokenize(line).join(" ")
    }

    #[test]
    fn punctuation_and_symbols_of_all_scripts_are_words() {
        assert_eq!(tokenize("«Oui», dit-il…"), "« Oui » , dit - il …");
        assert_eq!(tokenize("क्या? 你好。 5€+3"), "क्या ? 你好 。 5 € + 3");
        assert_eq!(tokenize("don't"), "don ' t");
    }

    /// Arabic-Indic digits and Roman numerals are numbers too.
    #[test]
    fn punctuation_between_numbers_is_not_split_off() {
        assert_eq!(tokenize("1,000.5 ٣٫٥ Ⅳ-Ⅴ"), "1,000.5 ٣٫٥ Ⅳ-Ⅴ");
        assert_eq!(tokenize("a,5 5,a"), "a , 5 5 , a");
        assert_eq!(tokenize("in 2016."), "in 2016.");
    }

    #[test]
    fn escaped_characters_stay_escaped() {
        assert_eq!(tokenize("&quot;a"), "& quot ; a");
    }
}
