use serde_json::Value;
use tx_infer::SearchOptions;

use crate::{MAX_LEN, translate, translator};

const TEXT: &str = "one two. Three four!  five six";

/// Translations of the sentences of [`TEXT`], each alone.
fn alone() -> Vec<String> {
    let sentences = ["one two.", "Three four!", "five six"];
    let found = translator(SearchOptions::default()).translate_batch(&sentences).unwrap();
    found.into_iter().map(|translation| translation.text).collect()
}

#[test]
fn sentences_are_the_default_for_a_text_and_lines_for_other_input() {
    let [first, second, third] = &alone()[..] else { panic!() };
    let sentences = format!("{first} {second}  {third}\n");
    assert_eq!(translate(&["--text", TEXT], "").printed(), sentences);
    assert_eq!(translate(&["--text", TEXT, "--split", "sentences"], "").printed(), sentences);
    assert_eq!(translate(&["--split", "sentences"], TEXT).printed(), sentences);

    let whole = translator(SearchOptions::default()).translate(TEXT).unwrap().text + "\n";
    assert_eq!(translate(&["--text", TEXT, "--split", "lines"], "").printed(), whole);
    assert_eq!(translate(&["--quiet"], TEXT).printed(), whole);
}

/// The note names the first line, once for two batches, and only if no option says what a line is.
#[test]
fn a_line_of_several_sentences_is_noted_once() {
    let input = format!("five six\n{TEXT}\n{TEXT}\n{TEXT}\n");
    let note = "note: line 2 has 3 sentences, which are translated as one; `--split sentences` \
                translates each by itself, `--split lines` hides this note\n";
    let run = translate(&["--batch-size", "2"], &input);
    assert_eq!(run.stderr.matches("note:").count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains(note), "{}", run.stderr);
    for option in
        [&["--split", "lines"][..], &["--split", "sentences"], &["--n-best", "2"], &["--quiet"]]
    {
        let run = translate(option, &input);
        assert!(!run.stderr.contains("note:"), "{option:?}: {}", run.stderr);
    }
    assert!(!translate(&[], "five six\n\none two.").stderr.contains("note:"));
}

#[test]
fn a_line_with_a_placeholder_is_noted_once() {
    let input = "five six\none {name} two\nwww.a.org\n";
    let run = translate(&["--batch-size", "2"], input);
    let note = "note: line 2 has `{name}`, which the model can change; `--format text` keeps \
                placeholders, addresses, tags and symbols, `--format lines` hides this note\n";
    assert_eq!(run.stderr.matches("note:").count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains(note), "{}", run.stderr);
    for option in [&["--format", "lines"][..], &["--format", "text"], &["--json"], &["--quiet"]] {
        let run = translate(option, input);
        assert!(!run.stderr.contains("note:"), "{option:?}: {}", run.stderr);
    }
}

#[test]
fn lines_and_their_order_are_kept() {
    let [first, second, third] = &alone()[..] else { panic!() };
    let input = format!("\n{TEXT}\n \nfive six\n\n");
    let expected = format!("\n{first} {second}  {third}\n \n{third}\n\n");
    for batch in ["1", "2", "1000"] {
        let arguments = ["--split", "sentences", "--batch-size", batch];
        assert_eq!(translate(&arguments, &input).printed(), expected, "{batch}");
    }
    let text = "one two.\n\nThree four!";
    let expected = format!("{first}\n\n{second}\n");
    assert_eq!(translate(&["--text", text], "").printed(), expected);
}

#[test]
fn json_contains_an_object_per_sentence() {
    let found = translate(&["--split", "sentences", "--json"], format!("{TEXT}\n\nfive")).printed();
    let lines: Vec<Value> = found.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [text, empty, single] = &lines[..] else { panic!("{found}") };
    assert_eq!((&text["line"], &text["source"]), (&1.into(), &TEXT.into()));
    let sentences = text["sentences"].as_array().unwrap();
    let sources: Vec<_> = sentences.iter().map(|it| it["source"].as_str().unwrap()).collect();
    assert_eq!(sources, ["one two.", "Three four!", "five six"]);
    for (sentence, alone) in sentences.iter().zip(alone()) {
        assert_eq!(sentence["text"], alone);
        assert_eq!(sentence["translations"][0]["text"], alone);
        assert!(sentence["translations"][0]["tokens"].is_array());
    }
    assert!(text.get("translations").is_none());
    assert_eq!((&empty["text"], &empty["sentences"]), (&"".into(), &Value::Array(Vec::new())));
    assert_eq!(single["translations"], single["sentences"][0]["translations"]);
}

/// 12 tokens fit, `<eos>` included.
#[test]
fn a_long_sentence_is_divided_and_only_an_indivisible_one_truncated() {
    let long = ["one two three four five six seven"; 5].join(", ");
    let whole = translate(&[], &long);
    assert!(whole.stderr.contains("line 1 was truncated"), "{}", whole.stderr);
    let divided = translate(&["--text", &long], "");
    assert_eq!(divided.code, Some(0));
    assert!(!divided.stderr.contains("truncated"), "{}", divided.stderr);
    let json = translate(&["--json", "--text", &long], "").printed();
    let json: Value = serde_json::from_str(&json).unwrap();
    let parts = json["sentences"].as_array().unwrap();
    assert!(parts.len() > 35 / MAX_LEN);
    assert!(parts.iter().all(|part| part["truncated"] == false), "{json}");
    let words: Vec<&str> =
        parts.iter().flat_map(|part| part["source"].as_str().unwrap().split(' ')).collect();
    assert_eq!(words.join(" "), long);

    let indivisible = translate(&["--text", &"one-".repeat(100)], "");
    assert!(indivisible.stderr.contains("line 1 was truncated"), "{}", indivisible.stderr);
}

#[test]
fn a_language_selects_the_abbreviations() {
    let text = "one usw. Two bzw. Three";
    let sentences = |arguments: &[&str]| {
        let arguments = [&["--json", "--text", text], arguments].concat();
        let found: Value = serde_json::from_str(&translate(&arguments, "").printed()).unwrap();
        found["sentences"].as_array().unwrap().len()
    };
    assert_eq!(sentences(&["--split-language", "fr"]), 1 + 1);
    assert_eq!(sentences(&["--split-language", "deu"]), 1);
}

#[test]
fn options_that_need_lines_select_lines_or_are_refused() {
    let n_best = translate(&["--text", TEXT, "--n-best", "2"], "").printed();
    assert_eq!(n_best, translate(&["--n-best", "2"], TEXT).printed());
    for option in [["--n-best", "2"], ["--alignment", "pharaoh"], ["--prefix", "one"]] {
        let refused = translate(&["--split", "sentences", option[0], option[1]], TEXT);
        refused.failed(2, &["`--split sentences` conflicts with", option[0]]);
    }
    let language = translate(&["--split-language", "de"], TEXT);
    language.failed(2, &["`--split-language` has no effect without `--split sentences`"]);
}
