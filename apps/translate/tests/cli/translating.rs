use std::{
    io::{BufRead, BufReader, Read, Write},
    thread,
};

use serde_json::{Value, json};
use tx_infer::SearchOptions;

use crate::{MAX_LEN, file, gzip, model, start, translate, translator};

const LINES: [&str; 6] =
    ["one two three", "", "seven", "six five four three two one", " ", "unknown words"];

/// Translates each line on its own with the library.
fn expected(lines: &[&str], options: SearchOptions) -> String {
    let translator = translator(options);
    lines.iter().map(|line| translator.translate(line).unwrap().text + "\n").collect()
}

#[test]
fn every_line_gives_a_line_in_the_same_order_and_an_empty_one_an_empty_one() {
    // With loops, which random weights produce, the translations of two lines differ.
    let found = translate(&["--max-repeats", "0"], LINES.join("\n")).printed();
    let options = SearchOptions { max_repeats: 0, ..SearchOptions::default() };
    assert_eq!(found, expected(&LINES, options));
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!((lines.len(), lines[1], lines[4]), (6, "", ""));
    assert!([0, 2, 3, 5].iter().all(|&index| !lines[index].is_empty()), "{found}");
    assert_ne!(lines[0], lines[3], "equal translations do not test the order");
}

#[test]
fn line_ends_and_a_byte_order_mark_change_nothing() {
    let plain = translate(&[], LINES.join("\n")).printed();
    assert_eq!(translate(&[], LINES.join("\n") + "\n").printed(), plain);
    assert_eq!(translate(&[], LINES.join("\r\n") + "\r\n").printed(), plain);
    assert_eq!(translate(&[], format!("\u{feff}{}", LINES.join("\n"))).printed(), plain);
}

/// Rounding by 2⁻¹¹ or 2⁻⁸ changes a log-probability slightly.
#[test]
fn half_precision_rounds() {
    let best = |precision: &str| {
        let arguments = ["--precision", precision, "--device", "cpu", "--json"];
        let line = translate(&arguments, "one two three\n").printed();
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let found = &line["translations"][0];
        (found["log_probability"].as_f64().unwrap(), found["ids"].clone())
    };
    let exact = best("f32");
    for (precision, limit) in [("f16", 1e-2), ("bf16", 1e-1)] {
        let found = best(precision);
        assert_eq!(found.1, exact.1, "{precision}");
        let gap = (found.0 - exact.0).abs();
        assert!(gap > 0.0 && gap < limit, "{precision}: {found:?}, {exact:?}");
    }
}

#[test]
fn an_empty_input_gives_an_empty_output() {
    assert_eq!(translate(&[], "").printed(), "");
    assert_eq!(translate(&["--text", ""], "").printed(), "\n");
}

#[test]
fn more_lines_than_are_translated_together_keep_their_order() {
    let lines: Vec<&str> = LINES.iter().copied().cycle().take(2_100).collect();
    let once = expected(&LINES, SearchOptions::greedy());
    let expected: Vec<&str> = once.lines().cycle().take(2_100).collect();
    let found = translate(&["--beam", "1"], lines.join("\n")).printed();
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_text_and_plain_and_compressed_files_are_read_like_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let text = "one two three\nseven\n";
    let expected = translate(&[], text).printed();
    let plain = file(&folder, "plain.txt", text);
    let compressed = file(&folder, "compressed.txt.gz", gzip(text.as_bytes()));
    assert_eq!(translate(&["--input", &plain], "").printed(), expected);
    assert_eq!(translate(&["--input", &compressed], "").printed(), expected);
    let first = translate(&["--text", "one two three"], "not read").printed();
    assert_eq!(expected.lines().next(), first.lines().next());
    assert_eq!(first.lines().count(), 1);
}

#[test]
fn options_reach_the_search() {
    let search = |options| expected(&LINES, options);
    let base = SearchOptions::default();
    let found = translate(&["--beam", "1"], LINES.join("\n")).printed();
    assert_eq!(found, search(SearchOptions::greedy()));
    let found = translate(&["--beam", "3", "--length-penalty", "0"], LINES.join("\n")).printed();
    assert_eq!(found, search(SearchOptions { beam: 3, length_penalty: 0.0, ..base }));
    // --max-len-extra adds ten tokens, so the limit of the model is reached first.
    let found = translate(&["--max-len-ratio", "0", "--beam", "1"], LINES.join("\n")).printed();
    assert_eq!(found, search(SearchOptions { max_len_ratio: 0.0, ..SearchOptions::greedy() }));
}

#[test]
fn small_batches_and_the_older_backend_give_the_same_translations() {
    let expected = translate(&[], LINES.join("\n")).printed();
    assert_eq!(translate(&["--batch-tokens", "1"], LINES.join("\n")).printed(), expected);
    assert_eq!(translate(&["--batch-tokens", "0"], LINES.join("\n")).printed(), expected);
    assert_eq!(translate(&["--device", "ndarray"], LINES.join("\n")).printed(), expected);
}

#[test]
fn a_long_line_is_truncated_with_a_warning() {
    let long = format!("seven\n{}\n", "one two ".repeat(2_000));
    let run = translate(&[], &long);
    assert_eq!((run.code, run.stdout.lines().count()), (Some(0), 2));
    assert_eq!(
        run.stderr,
        format!("warning: line 2 was truncated to {MAX_LEN} tokens, the maximum of this model\n")
    );
    let quiet = translate(&["--quiet"], &long);
    assert_eq!(quiet.printed(), run.stdout);
}

#[test]
fn unknown_words_are_listed_once_and_counted() {
    let lines = "one hello two world\nworld\n\nthree hello moon\n";
    let run = translate(&[], lines);
    let expected = "\
warning: unknown words in line 1, which the model cannot translate: hello, world
warning: unknown words in line 4, which the model cannot translate: moon
warning: unknown words: 5 in 3 lines, of which 3 are distinct
";
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), expected));
    let quiet = translate(&["--quiet"], lines);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (Some(0), ""));
    assert_eq!(quiet.stdout, run.stdout);
    let known = translate(&[], "one two three\n");
    assert_eq!(known.stderr, "");

    let printed = translate(&["--json"], lines).printed();
    let found: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let unknown: Vec<&Value> = found.iter().map(|line| &line["unknown"]).collect();
    assert_eq!(
        unknown,
        [&json!(["hello", "world"]), &json!(["world"]), &json!([]), &json!(["hello", "moon"])]
    );
}

/// The truncated line is between shorter ones.
#[test]
fn truncated_lines_are_marked_in_json() {
    let long = "one ".repeat(MAX_LEN);
    let run = translate(&["--json"], format!("one\n{long}\n{}\n", &long[4..]));
    let line = |line: &str| serde_json::from_str::<Value>(line).unwrap()["truncated"].clone();
    let truncated: Vec<Value> = run.stdout.lines().map(line).collect();
    assert_eq!(truncated, [json!(false), json!(true), json!(false)]);
    assert!(run.stderr.contains("warning: line 2 was truncated"), "{}", run.stderr);
}

/// The reader exits first, as in `translate < file | head -1`.
#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = start(&["--model", model(), "--beam", "1"]);
    let mut stdin = child.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        // Fails when the program ends.
        drop(stdin.write_all(&b"one two three\n".repeat(5_000)));
    });
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    let status = child.wait().unwrap();
    writer.join().unwrap();
    assert!(first.ends_with('\n'));
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}
