//! Text normalization of Tercom's `Normalizer`, as in sacreBLEU.

use std::{borrow::Cow, sync::LazyLock};

use super::Ter;
use crate::replace::{self, Rule, rules};

/// Rules that split off Western punctuation.
static WESTERN: LazyLock<[Rule; 4]> = LazyLock::new(|| {
    rules([
        (r"([{-~\[-` -&(-+:-@/])", " $1 "),
        (r"([^0-9])([.,])", "$1 $2 "),
        (r"([.,])([^0-9])", " $1 $2"),
        (r"([0-9])(-)", "$1 $2 "),
    ])
});

/// East Asian punctuation, including full-width forms.
const ASIAN_MARKS: [&str; 2] = [
    r"([\u{3001}\u{3002}\u{3008}-\u{3011}\u{3014}-\u{301f}\u{ff61}-\u{ff65}\u{30fb}])",
    r"([\u{ff0e}\u{ff0c}\u{ff1f}\u{ff1a}\u{ff1b}\u{ff01}\u{ff02}\u{ff08}\u{ff09}])",
];

/// Rules that split Chinese characters and East Asian punctuation. The fourth range ends at
/// U+3F22 by a typo in sacreBLEU (U+32FF was meant), which adds rare Chinese characters only.
///
/// sacreBLEU's rules for runs of kana are omitted. They match only a line that consists of kana,
/// and they never match, because a space is added before and after the line first.
static ASIAN: LazyLock<[Rule; 6]> = LazyLock::new(|| {
    rules([
        (r"([\u{4e00}-\u{9fff}\u{3400}-\u{4dbf}])", " $1 "),
        (r"([\u{31c0}-\u{31ef}\u{2e80}-\u{2eff}])", " $1 "),
        (r"([\u{3300}-\u{33ff}\u{f900}-\u{faff}\u{fe30}-\u{fe4f}])", " $1 "),
        (r"([\u{3200}-\u{3f22}])", " $1 "),
        (ASIAN_MARKS[0], " $1 "),
        (ASIAN_MARKS[1], " $1 "),
    ])
});

/// Rules that remove punctuation.
static NO_PUNCT: LazyLock<[Rule; 1]> = LazyLock::new(|| rules([(r#"[.,?:;!"()]"#, "")]));
static NO_ASIAN_PUNCT: LazyLock<[Rule; 2]> =
    LazyLock::new(|| rules([(ASIAN_MARKS[0], ""), (ASIAN_MARKS[1], "")]));

/// Normalized line, with white space between its words.
pub(super) fn tokenize<'a>(ter: &Ter, line: &'a str) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(line);
    if line.is_empty() {
        return text;
    }
    if !ter.case_sensitive {
        text = Cow::Owned(text.to_lowercase());
    }
    if ter.normalized {
        text = Cow::Owned(western(&text));
        if ter.asian_support {
            replace::apply(&mut text, &*ASIAN);
        }
    }
    if ter.no_punct {
        replace::apply(&mut text, &*NO_PUNCT);
        if ter.asian_support {
            replace::apply(&mut text, &*NO_ASIAN_PUNCT);
        }
    }
    text
}

/// Line breaks and XML entities with their replacements, in the original's order.
const ESCAPES: [(&str, &str); 6] =
    [("\n-", ""), ("\n", " "), ("&quot;", "\""), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")];

fn western(line: &str) -> String {
    let mut text = Cow::Borrowed(line);
    replace::literals(&mut text, &ESCAPES);
    let mut text = Cow::Owned(format!(" {text} "));
    let [punctuation, marks @ ..] = &*WESTERN;
    replace::apply(&mut text, std::slice::from_ref(punctuation));
    // Genitive, unless a mark follows.
    if text.contains("'s ") {
        text = Cow::Owned(text.replace("'s ", " 's "));
    }
    replace::apply(&mut text, marks);
    text.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(ter: Ter, line: &str) -> String {
        tokenize(&ter, line).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    const NORMALIZED: Ter =
        Ter { normalized: true, no_punct: false, asian_support: false, case_sensitive: false };

    #[test]
    fn nothing_but_case_changes_by_default() {
        assert_eq!(words(Ter::default(), "A dog's (bone)."), "a dog's (bone).");
        let cased = Ter { case_sensitive: true, ..Ter::default() };
        assert_eq!(words(cased, "A Dog"), "A Dog");
    }

    #[test]
    fn punctuation_and_genitives_are_split_off() {
        let line = "The dog's bone: $1,000.50, 3-4 &amp; the cat's.";
        assert_eq!(words(NORMALIZED, line), "the dog 's bone : $ 1,000.50 , 3 - 4 & the cat's .");
    }

    #[test]
    fn chinese_is_split_and_kana_are_not() {
        let asian = Ter { asian_support: true, ..NORMALIZED };
        assert_eq!(words(asian, "犬がいる。３つ！"), "犬 がいる 。 ３つ ！");
        assert_eq!(words(NORMALIZED, "犬がいる。"), "犬がいる。");
        // A line of kana only.
        assert_eq!(words(asian, "ひらがな"), "ひらがな");
    }

    #[test]
    fn punctuation_is_removed() {
        let bare = Ter { no_punct: true, ..Ter::default() };
        assert_eq!(words(bare, "Well, (a) \"dog\"! 。"), "well a dog 。");
        let asian = Ter { asian_support: true, ..bare };
        assert_eq!(words(asian, "犬、猫。"), "犬猫");
    }
}
