//! Chains of text replacements, each applied to the result of the one before, as in `mteval` and
//! Tercom.

use std::borrow::Cow;

use regex::Regex;

/// Pattern and its replacement.
pub(crate) struct Rule(Regex, &'static str);

/// Compiles constant patterns with their replacements.
#[expect(clippy::expect_used, reason = "the patterns are constant and tested")]
pub(crate) fn rules<const N: usize>(rules: [(&str, &'static str); N]) -> [Rule; N] {
    rules.map(|(pattern, replacement)| {
        Rule(Regex::new(pattern).expect("a valid pattern"), replacement)
    })
}

/// Applies rules in order, without allocating if none matches.
pub(crate) fn apply(text: &mut Cow<'_, str>, rules: &[Rule]) {
    for Rule(pattern, replacement) in rules {
        if let Cow::Owned(replaced) = pattern.replace_all(text, *replacement) {
            *text = Cow::Owned(replaced);
        }
    }
}

/// Replaces literal strings in order, without allocating if none occurs.
pub(crate) fn literals(text: &mut Cow<'_, str>, replacements: &[(&str, &str)]) {
    for (from, to) in replacements {
        if text.contains(from) {
            *text = Cow::Owned(text.replace(from, to));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_apply_in_order() {
        let mut text = Cow::Borrowed("a-b");
        apply(&mut text, &rules([("-", "+"), (r"(\+)", "[$1]")]));
        assert_eq!(text, "a[+]b");
        literals(&mut text, &[("[", "("), ("(", "<")]);
        assert_eq!(text, "a<+]b");
    }

    #[test]
    fn text_without_a_match_is_borrowed() {
        let mut text = Cow::Borrowed("a");
        apply(&mut text, &rules([("b", "c")]));
        literals(&mut text, &[("b", "c")]);
        assert!(matches!(text, Cow::Borrowed("a")));
    }
}
