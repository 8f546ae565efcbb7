use super::*;

fn pair(source: &str, target: &str) -> SentencePair {
    SentencePair::new(source, target)
}

fn run(config: CleanConfig, pairs: &[(&str, &str)]) -> (Vec<SentencePair>, CleaningReport) {
    Cleaner::clean_all(config, pairs.iter().map(|(a, b)| pair(a, b)).collect())
}

#[test]
fn unicode_forms_compose_and_fold() {
    let text = "e\u{301}ﬁ１";
    let (nfc, report) = run(
        CleanConfig { unicode: NormalForm::Nfc, ..CleanConfig::off() },
        &[(text, "a"), ("b", "c")],
    );
    assert_eq!(nfc[0].source, "éﬁ１");
    assert_eq!(report.count_of("unicode"), 1);
    let (nfkc, _) =
        run(CleanConfig { unicode: NormalForm::Nfkc, ..CleanConfig::off() }, &[(text, "a")]);
    assert_eq!(nfkc[0].source, "éfi1");
    let (none, _) = run(CleanConfig::off(), &[(text, "a")]);
    assert_eq!(none[0].source, text);
}

#[test]
fn white_space_of_every_kind_becomes_single_spaces() {
    let (clean, report) = run(
        CleanConfig { spaces: true, ..CleanConfig::off() },
        &[
            ("\u{feff}a\u{a0}\u{202f}b\t c\u{200b}d \n", "x\u{ad}y\u{0}z"),
            ("a b", "c d"),
            // The zero-width non-joiner is part of Persian spelling.
            ("می\u{200c}خواهم", "I want"),
        ],
    );
    assert_eq!(clean[0], pair("a b cd", "xyz"));
    assert_eq!(clean[2].source, "می\u{200c}خواهم");
    assert_eq!(report.count_of("spaces"), 1);
}

/// 9 · (10 + 1) = 99: a side of 99 letters with a side of 1 letter is kept, 100 letters are not.
#[test]
fn lengths_and_their_ratio_have_limits() {
    let (x99, x100) = ("x".repeat(99), "x".repeat(100));
    let config = CleanConfig { max_ratio: 9.0, ..CleanConfig::off() };
    let (kept, report) = run(config, &[(&x99, "a"), (&x100, "a"), ("b", &x100)]);
    assert_eq!((kept.len(), report.count_of("max_ratio")), (1, 2));
    let config = CleanConfig { max_chars: 99, ..CleanConfig::off() };
    let (kept, report) = run(config, &[(&x99, &x99), (&x100, &x99)]);
    assert_eq!((kept.len(), report.count_of("max_chars")), (1, 1));
}

#[test]
fn empty_sides_are_dropped_with_all_steps_off() {
    let (kept, report) = run(CleanConfig::off(), &[("", "a"), ("a", " \u{a0}"), ("a", "b")]);
    assert_eq!((kept.len(), report.count_of("empty")), (1, 2));
    assert_eq!(report.steps[3].first, Some(1));
}

#[test]
fn copies_are_counted_and_optionally_dropped() {
    let pairs = [("a", "b"), ("OK", "OK"), ("a", "b"), ("a", "c"), ("ab", "")];
    let (kept, report) = run(CleanConfig::off(), &pairs);
    assert_eq!(kept.len(), 4);
    assert_eq!((report.count_of("identical"), report.count_of("duplicates")), (1, 1));
    let drop = KeepOrDrop::Drop;
    let (kept, _) =
        run(CleanConfig { identical: drop, duplicates: drop, ..CleanConfig::off() }, &pairs);
    assert_eq!(kept, [pair("a", "b"), pair("a", "c")]);
}

/// `привет, мир abc` has 9 Cyrillic letters of 12, `hello` has none.
#[test]
fn the_wrong_script_is_detected_by_the_fraction_of_letters() {
    let config = |share| {
        CleanConfig { min_script_share: share, ..CleanConfig::off() }
            .with_languages(Some("ru"), Some("en-GB"))
    };
    let pairs = [("привет, мир abc", "hello"), ("hello", "hello"), ("12:30", "привет")];
    let (kept, _) = run(config(0.75), &pairs);
    assert_eq!(kept, [pair(pairs[0].0, pairs[0].1)]);
    let (kept, report) = run(config(0.76), &pairs);
    assert_eq!((kept.len(), report.count_of("min_script_share")), (0, 3));
    // Digits have no script; Japanese has three scripts and the shared mark `ー`.
    let config = CleanConfig { min_script_share: 1.0, ..CleanConfig::off() };
    let config = config.with_languages(Some("ja"), Some("en"));
    let (kept, _) = run(config, &[("カー、東京です", "car"), ("12", "12")]);
    assert_eq!(kept.len(), 2);
}

#[test]
fn markup_is_kept_stripped_or_dropped() {
    let pairs = [("<b>R&amp;D</b>", "x"), ("a < b", "y")];
    let config = |markup| CleanConfig { markup, spaces: true, ..CleanConfig::off() };
    assert_eq!(config(Markup::Strip).normalization().apply(pairs[0].0), "R&D");
    assert_eq!(config(Markup::Drop).normalization().apply(pairs[0].0), pairs[0].0);
    assert_eq!(run(config(Markup::Keep), &pairs).0[0].source, "<b>R&amp;D</b>");
    assert_eq!(run(config(Markup::Strip), &pairs).0[0].source, "R&D");
    let (kept, report) = run(config(Markup::Drop), &pairs);
    assert_eq!((kept.len(), report.count_of("markup")), (1, 1));
}

#[test]
fn the_table_lists_every_step_and_which_ones_are_off() {
    let config = CleanConfig { duplicates: KeepOrDrop::Drop, ..CleanConfig::default() };
    let (_, report) = run(config, &[("a", "b"), ("a", "b"), ("c", "")]);
    assert_eq!(
        report.to_string(),
        "cleaning: 3 pairs in, 1 out
  not in unicode NFC                        0 changed
  irregular white space                     0 changed
  empty side                                1 dropped (first: pair 3)
  side longer than 5000 characters          0 dropped
  length ratio above 9                      0 dropped
  identical sides                           0 kept
  duplicate of an earlier pair              1 dropped (first: pair 2)
  off: markup, min_script_share"
    );
}

#[test]
fn rules_name_key_and_value() {
    let config = CleanConfig {
        max_ratio: 0.5,
        min_script_share: 2.0,
        source_scripts: vec!["latin".into(), "Klingon".into()],
        ..CleanConfig::default()
    };
    let problems = config.problems();
    assert_eq!(problems[0], "`clean.max_ratio` = 0.5 must be 0 or at least 1");
    assert_eq!(problems[1], "`clean.min_script_share` = 2 must be in 0..1");
    assert!(problems[2].starts_with("`clean.source_scripts` has `Klingon`, expected"));
    assert_eq!(problems.len(), 3);
}

/// Label and text may be equal, and a label is always much shorter than a long text.
#[test]
fn labels_are_not_compared_with_their_texts() {
    let config = CleanConfig {
        identical: KeepOrDrop::Drop,
        duplicates: KeepOrDrop::Drop,
        min_script_share: 0.5,
        target_scripts: vec!["Han".into()],
        ..CleanConfig::default()
    };
    let mut cleaner = Cleaner::with_targets(config, TargetSide::Label);
    let long = "word ".repeat(200);
    for (text, label, is_kept) in [
        ("spam", "spam", true),
        (long.as_str(), "x", true),
        ("spam", "spam", false),
        (" ", "spam", false),
        ("spam", " ", false),
    ] {
        assert_eq!(cleaner.clean(SentencePair::new(text, label)).is_some(), is_kept, "{text}");
    }
    let report = cleaner.report();
    assert_eq!((report.kept(), report.count_of("duplicates"), report.count_of("empty")), (2, 1, 2));
    assert_eq!(report.count_of("identical"), 0);
    let text = report.to_string();
    for line in [
        "cleaning: 5 texts in, 2 out\n",
        "\n  empty text or label                       2 dropped (first: text 4)\n",
        "\n  duplicate of an earlier text              1 dropped (first: text 3)\n",
    ] {
        assert!(text.contains(line), "no `{line}` in:\n{text}");
    }
}
