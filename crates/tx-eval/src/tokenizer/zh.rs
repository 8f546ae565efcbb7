//! Tokenizer `zh`: Chinese characters are separate words, the rest is split as in `13a`, as in
//! sacreBLEU.

use std::ops::RangeInclusive;

use super::v13a::split;

/// Code points treated as Chinese characters.
///
/// The third range and the last are meant to be two blocks outside the Basic Multilingual Plane
/// (U+20000 to U+2A6D6 and U+2F800 to U+2FA1D). sacreBLEU 2.6.0 writes them with four-digit escapes
/// followed by a literal digit, so it splits U+2001 to U+2A6D and U+2F81 to U+2FA1 instead: dashes,
/// quotation marks, arrows and signs. The same is done here, because scores must be comparable.
const RANGES: [RangeInclusive<char>; 21] = [
    '\u{3400}'..='\u{4db5}',
    '\u{4e00}'..='\u{9fbb}',
    '\u{2001}'..='\u{2a6d}',
    '\u{f900}'..='\u{fa2d}',
    '\u{fa30}'..='\u{fa6a}',
    '\u{fa70}'..='\u{fad9}',
    '\u{ff00}'..='\u{ffef}',
    '\u{2e80}'..='\u{2eff}',
    '\u{3000}'..='\u{303f}',
    '\u{31c0}'..='\u{31ef}',
    '\u{2f00}'..='\u{2fdf}',
    '\u{2ff0}'..='\u{2fff}',
    '\u{3100}'..='\u{312f}',
    '\u{31a0}'..='\u{31bf}',
    '\u{fe10}'..='\u{fe1f}',
    '\u{fe30}'..='\u{fe4f}',
    '\u{3200}'..='\u{32ff}',
    '\u{3300}'..='\u{33ff}',
    '\u{2600}'..='\u{26ff}',
    '\u{2700}'..='\u{27bf}',
    '\u{2f81}'..='\u{2fa1}',
];

/// Calls `visit` with each word of `line`, which has no surrounding white space.
pub(crate) fn for_each_word(line: &str, visit: impl FnMut(&str)) {
    let chinese = |c: char| c >= '\u{2001}' && RANGES.iter().any(|range| range.contains(&c));
    // Unlike `13a`, `zh` adds no space before and after the line and keeps markup.
    split(line, None, chinese, visit);
}

#[cfg(test)]
mod tests {
    use crate::Tokenizer;

    fn tokenize(line: &str) -> String {
        Tokenizer::Zh.tokenize(line).join(" ")
    }

    #[test]
    fn chinese_characters_are_split_and_the_rest_is_western_text() {
        assert_eq!(tokenize("我有3.5美元，OK?"), "我 有 3.5 美 元 ， OK ?");
        assert_eq!(tokenize("他说：“不。”"), "他 说 ： “ 不 。 ”");
        assert_eq!(tokenize("第5.课"), "第 5 . 课");
    }

    /// Full-width kana are outside the ranges, half-width kana inside.
    #[test]
    fn kana_stay_words() {
        assert_eq!(tokenize("犬がいる"), "犬 がいる");
        assert_eq!(tokenize("ｱｲ"), "ｱ ｲ");
    }

    /// See [`RANGES`]: a character of extension B does not count as a Chinese character, a dash
    /// does.
    #[test]
    fn characters_outside_the_basic_plane_are_not_split() {
        assert_eq!(tokenize("a𠀀𠀁b"), "a𠀀𠀁b");
        assert_eq!(tokenize("a—b…"), "a — b …");
    }

    #[test]
    fn marks_at_the_edges_touch_nothing() {
        assert_eq!(tokenize(".5 and 5."), ".5 and 5.");
        assert_eq!(tokenize("&quot;"), "& quot ;");
    }
}
