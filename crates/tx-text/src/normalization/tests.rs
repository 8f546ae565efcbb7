use proptest::prelude::*;

use super::*;

const SPACES: Normalization = Normalization { form: NormalForm::None, spaces: true, markup: false };
const CLEAN: Normalization = Normalization { form: NormalForm::Nfc, ..SPACES };
const ALL: Normalization = Normalization { form: NormalForm::Nfkc, spaces: true, markup: true };

#[test]
fn invisible_characters_are_removed() {
    for invisible in [
        '\0', '\u{1}', '\u{7f}', '\u{9f}', '\u{ad}', '\u{61c}', '\u{200b}', '\u{200e}', '\u{200f}',
        '\u{202a}', '\u{202e}', '\u{2060}', '\u{2063}', '\u{2066}', '\u{2069}', '\u{feff}',
        // Without effect after a Latin letter.
        '\u{200c}', '\u{200d}', '\u{fe0f}',
    ] {
        for text in [
            format!("{invisible}the cat"),
            format!("the ca{invisible}t"),
            format!("the cat{invisible}"),
        ] {
            assert_eq!(SPACES.apply(&text), "the cat", "{text:?}");
            assert_eq!(Normalization::NONE.apply(&text), text);
        }
        assert_eq!(SPACES.apply(&format!(" {invisible} ")), "");
    }
}

#[test]
fn spelling_keeps_its_joiners_and_selectors() {
    for text in [
        "می\u{200c}خواهم",
        "क्\u{200d}ष",
        "👩\u{200d}👩\u{200d}👧",
        "❤\u{fe0f}\u{200d}🔥",
        "1\u{fe0f}\u{20e3} ©\u{fe0f}",
        "葛\u{e0100}",
    ] {
        for normalization in [SPACES, CLEAN] {
            assert_eq!(normalization.apply(text), text);
        }
    }
}

/// Removal of the soft hyphen makes a letter and an accent neighbors; U+00A8 is a space and an accent in
/// the form NFKC; `&amp;shy;` is an escaped entity.
#[test]
fn steps_act_on_the_results_of_others() {
    for (text, expected) in [
        ("e\u{ad}\u{301}", "é"),
        ("<b>R&amp;amp;D</b>&shy; e&#x301;", "R&D é"),
        ("x  &uml; \u{a8}y", "x &uml; \u{308}y"),
        ("a&lt;br&gt;b", "a b"),
        ("\u{ff1c}b\u{ff1e}x", "x"),
        ("a < b", "a < b"),
        ("a <\u{ad}ﬁ> b &lt;&shy;i&gt; c", "a b c"),
    ] {
        assert_eq!(ALL.apply(text), expected, "{text:?}");
    }
    let (text, changed) = CLEAN.apply_counted("e\u{301}\u{a0}");
    assert_eq!(
        (text.as_ref(), changed.form, changed.markup, changed.spaces),
        ("é", true, false, true)
    );
    assert_eq!(CLEAN.and(ALL), ALL);
}

/// Bytes of `e`, accent, soft hyphen, space, tag: 0, 1..3, 3..5, 5, 6..9.
#[test]
fn positions_are_those_of_the_original() {
    let text = "e\u{301}\u{ad} <b>\u{2003}x";
    let aligned = ALL.align(text).unwrap();
    assert_eq!(aligned.text(), "é x");
    assert_eq!(aligned.origin(0..2), 0..3);
    assert_eq!(aligned.origin(2..3), 5..12);
    assert_eq!(aligned.origin(3..4), 12..13);
    assert_eq!(aligned.origin(0..4), 0..13);
    assert_eq!((aligned.origin(3..3), aligned.origin(4..4)), (12..12, 13..13));
    assert_eq!(ALL.align("é x"), None);
    assert_eq!(SPACES.align("\u{ad}").unwrap().origin(0..0), 0..0);
}

#[test]
fn steps_are_read_again() {
    for normalization in [Normalization::NONE, SPACES, CLEAN, ALL] {
        let normalizer = serde_json::json!({
            "type": "Sequence",
            "normalizers": [normalization.steps(), { "type": "NFD" }],
        });
        let (found, rest) = Normalization::split_steps(&normalizer).unwrap();
        assert_eq!((found, rest.len()), (normalization, 1));
        assert_eq!(Normalization::split_steps(&serde_json::json!({ "type": "NFC" })), None);
        assert_eq!(Normalization::split_steps(&normalization.steps()), None);
    }
}

/// Text of letters, accents, white space, invisible characters and markup.
fn texts() -> impl Strategy<Value = String> {
    let parts = [
        "a", "e", "\u{301}", "é", "ﬁ", "１", "가", "\u{1100}", "\u{1161}", " ", "\u{a0}",
        "\u{3000}", "\u{ad}", "\u{200b}", "\u{200c}", "\u{200d}", "\u{fe0f}", "\u{feff}", "م", "क्",
        "😀", "<b>", "&amp;", "&lt;", "&shy;", "<", "&", ";", ">", "\u{a8}", "\u{327}",
    ];
    let part = prop_oneof![prop::sample::select(parts.map(str::to_owned).to_vec()), "\\PC"];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn twice_is_once(text in texts()) {
        for normalization in [SPACES, CLEAN, ALL, Normalization { form: NormalForm::Nfkc, ..SPACES }] {
            let once = normalization.apply(&text).into_owned();
            prop_assert_eq!(normalization.apply(&once), once.as_str(), "{:?}", normalization);
        }
    }

    /// The aligned text is the text, and its parts are in the order of the original. Parts may share
    /// characters: `ﬁ` and an accent become `f` and `í`, which are both of `ﬁ`.
    #[test]
    fn alignment_is_of_the_same_text(text in texts()) {
        for normalization in [SPACES, CLEAN, ALL] {
            let aligned = normalization.align(&text);
            let found = aligned.as_ref().map_or(text.as_str(), Aligned::text);
            prop_assert_eq!(found, normalization.apply(&text));
            let Some(aligned) = aligned else { continue };
            let mut last = 0..0;
            for (at, c) in aligned.text().char_indices() {
                let origin = aligned.origin(at..at + c.len_utf8());
                prop_assert!(text.get(origin.clone()).is_some_and(|part| !part.is_empty()));
                prop_assert!(last.start <= origin.start && last.end <= origin.end);
                last = origin;
            }
        }
    }
}
