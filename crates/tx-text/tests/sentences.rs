//! Invariants of the division into sentences, for arbitrary text.

use proptest::prelude::*;
use tx_text::sentences::{languages, sentences};

/// Text of characters that decide about sentences, and of others.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            ".",
            "!",
            "?",
            "…",
            "。",
            "！",
            "।",
            "։",
            ";",
            "؟",
            " ",
            "  ",
            "\n",
            "\r\n",
            "\u{a0}",
            "\u{3000}",
            "\"",
            "”",
            "“",
            "«",
            "»",
            "(",
            ")",
            "「",
            "」",
            "'",
            "[1]",
            "-",
            "—",
            ",,",
            "¿",
            "Dr",
            "z. B",
            "A",
            "I",
            "etc",
            "3",
            "1990",
            "Der",
            "und",
            "猫",
            "と",
            "é",
            "e\u{301}",
            "\u{200b}",
            "👨‍👩‍👧",
            "\u{feff}",
        ])
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
        "[a-zA-Z]{1,8}",
    ];
    prop::collection::vec(piece, 0..80).prop_map(|pieces| pieces.concat())
}

fn language() -> impl Strategy<Value = Option<&'static str>> {
    let mut codes: Vec<_> = languages().map(Some).collect();
    codes.extend([None, Some("zh"), Some("ja"), Some("-_"), Some("")]);
    prop::sample::select(codes)
}

fn check(text: &str, language: Option<&str>) -> Result<(), TestCaseError> {
    let mut end = 0;
    for span in sentences(text, language) {
        prop_assert!(span.start >= end && span.end > span.start && span.end <= text.len());
        prop_assert!(text[end..span.start].chars().all(char::is_whitespace));
        let sentence = &text[span.clone()];
        prop_assert_eq!(sentence, sentence.trim());
        prop_assert!(!sentence.contains('\n'));
        end = span.end;
    }
    prop_assert!(text[end..].chars().all(char::is_whitespace));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn spans_and_white_space_are_the_text(text in text(), language in language()) {
        check(&text, language)?;
    }

    #[test]
    fn any_text_is_divided(text in any::<String>(), language in language()) {
        check(&text, language)?;
    }
}

/// The golden rules of pySBD: `fixtures/golden_rules/make.py`.
#[test]
fn golden_rules() {
    let cases = include_str!("fixtures/golden_rules/cases.txt").lines();
    let (mut all, mut right, mut english, mut right_english, mut wrong) =
        (0, 0, 0, 0, String::new());
    for case in cases {
        let (language, case) = case.split_once('\t').unwrap();
        let text = case.replace('│', "").replace('⏎', "\n");
        let found: Vec<&str> = sentences(&text, Some(language)).map(|span| &text[span]).collect();
        let expected: Vec<String> = case
            .replace('⏎', "\n")
            .split(['│', '\n'])
            .map(|sentence| sentence.trim().to_owned())
            .filter(|sentence| !sentence.is_empty())
            .collect();
        let is_right = found == expected;
        all += 1;
        right += usize::from(is_right);
        if language == "en" {
            english += 1;
            right_english += usize::from(is_right);
        }
        if !is_right {
            wrong += &format!("{language}: {found:?}\n");
        }
    }
    assert_eq!((all, english), (313, 48));
    assert!(right >= 286 && right_english >= 45, "{right} {right_english}\n{wrong}");
}
