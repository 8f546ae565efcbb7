//! Tokenizers of BLEU, which split lines into words.

mod intl;
mod v13a;
mod zh;

/// Tokenizer of sacreBLEU, under its name in signatures.
///
/// Trained subword tokenizers are not included, because a score must not depend on a model's
/// vocabulary. Hypotheses are detokenized text, and the metric splits it by fixed rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Tokenizer {
    /// `13a`: the rules of WMT's `mteval-v13a.pl`, and sacreBLEU's default. Punctuation marks
    /// become separate words, except apostrophes, most hyphens, and the marks inside `1,000.5`.
    #[default]
    V13a,
    /// `intl`: the rules of `mteval-v14.pl`. Like `13a`, but punctuation and symbols of every
    /// script become separate words.
    Intl,
    /// `zh`: Chinese characters (and other characters in their Unicode blocks) are separate words;
    /// the rest is split as in `13a`.
    Zh,
    /// `char`: every character except white space is a word; for text without spaces between words,
    /// such as Japanese or Thai.
    Char,
    /// `none`: splits at white space only, for text that is already tokenized. Scores are not
    /// comparable to published ones.
    None,
}

impl Tokenizer {
    /// Returns the name in sacreBLEU's options and signatures.
    pub fn name(self) -> &'static str {
        match self {
            Self::V13a => "13a",
            Self::Intl => "intl",
            Self::Zh => "zh",
            Self::Char => "char",
            Self::None => "none",
        }
    }

    /// Splits one line into words, ignoring trailing white space.
    ///
    /// ```
    /// use tx_eval::Tokenizer;
    ///
    /// let line = "He paid 1,000.5 &euro; (twice).";
    /// assert_eq!(
    ///     Tokenizer::V13a.tokenize(line),
    ///     ["He", "paid", "1,000.5", "&", "euro", ";", "(", "twice", ")", "."],
    /// );
    /// assert_eq!(Tokenizer::None.tokenize(line), ["He", "paid", "1,000.5", "&euro;", "(twice)."]);
    /// assert_eq!(Tokenizer::Zh.tokenize("他有3.5美元。"), ["他", "有", "3.5", "美", "元", "。"]);
    /// assert_eq!(Tokenizer::Intl.tokenize("«Oui»,"), ["«", "Oui", "»", ","]);
    /// assert_eq!(Tokenizer::Char.tokenize("a 猫"), ["a", "猫"]);
    /// ```
    pub fn tokenize(self, line: &str) -> Vec<String> {
        let mut words = Vec::new();
        self.for_each_word(line, |word| words.push(word.to_owned()));
        words
    }

    /// Calls `visit` with each word of the line, without allocating a string per word.
    pub(crate) fn for_each_word(self, line: &str, mut visit: impl FnMut(&str)) {
        let line = line.trim_end_matches(is_space);
        match self {
            Self::V13a => v13a::for_each_word(line, visit),
            Self::Intl => intl::for_each_word(line, visit),
            Self::Zh => zh::for_each_word(line.trim_start_matches(is_space), visit),
            Self::Char => {
                for c in line.chars().filter(|&c| !is_space(c)) {
                    visit(c.encode_utf8(&mut [0; 4]));
                }
            }
            Self::None => words(line).for_each(visit),
        }
    }
}

/// Parts of a line between runs of white space, as in Python's `str.split()`.
pub(crate) fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(is_space).filter(|word| !word.is_empty())
}

/// White space as in Python's `str.isspace`: Unicode's `White_Space` and the four ASCII separators
/// U+001C to U+001F, which `White_Space` does not include. A byte order mark is not white space.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_where_python_splits_them() {
        let line = " a\u{a0}b\u{1f}c\u{3000}d\u{200b}e\u{85}\u{feff}f\r\n";
        assert_eq!(words(line).collect::<Vec<_>>(), ["a", "b", "c", "d\u{200b}e", "\u{feff}f"]);
        assert_eq!(words(" \t").count(), 0);
    }

    /// A trailing hyphen joins a line to the next one only if there is one.
    #[test]
    fn the_end_of_the_line_is_trimmed_before_hyphens_are_joined() {
        assert_eq!(Tokenizer::V13a.tokenize("one-\n"), ["one-"]);
        assert_eq!(Tokenizer::V13a.tokenize("one-\ntwo"), ["onetwo"]);
    }
}
