use std::{
    fs,
    io::{BufRead, BufReader, Write},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::{MAX_LEN, command, file, model, start, translate};

/// Any line gives one line and does not change the others.
#[test]
fn unusual_lines_give_a_line_each_in_their_order() {
    let unusual = [
        "one\0two\0",
        "\0",
        "🦀 🏳️‍🌈 👩‍👩‍👧‍👦",
        "שלום עולם",
        "مرحبا \u{202e}bad\u{202c}",
        "\u{feff}one",
        "a\u{300}\u{301}\u{302}\u{303}",
        "one\u{2028}two\u{85}three\u{b}four\rfive",
        "<eos> <pad> <bos> <unk>",
        "\u{200b}",
        "\t",
        "\u{10ffff}\u{e000}",
        "||| ||| \"quoted\" \\n",
        "unbekannt неизвестно 未知",
    ];
    for beam in ["1", "4"] {
        let known = translate(&["--beam", beam], "six five four\n").printed();
        let lines: Vec<&str> =
            unusual.iter().flat_map(|line| [*line, "six five four", ""]).collect();
        for end in ["\n", "\r\n"] {
            let printed = translate(&["--beam", beam, "--quiet"], lines.join(end) + end).printed();
            let found: Vec<&str> = printed.split_terminator('\n').collect();
            assert_eq!(found.len(), lines.len());
            for triple in found.chunks(3) {
                assert_eq!(format!("{}\n", triple[1]), known);
                assert_eq!(triple[2], "");
                assert!(!triple[0].contains(['\r', '\n', '\u{85}', '\u{2028}']), "{triple:?}");
            }
            // A tab alone is white space.
            assert_eq!(found[30], "");
        }
    }
}

/// A line of ten megabytes with one word, with many, and without any.
#[test]
fn a_line_of_ten_megabytes_is_truncated_with_a_warning() {
    let size = 10_000_000;
    for (unit, truncated) in [("one two ", true), ("x", true), ("🦀", true), (" ", false)] {
        let long = unit.repeat(size / unit.len());
        let arguments = ["--beam", "1", "--replace-unk"];
        let run = translate(&arguments, format!("seven\n{long}\nseven\n"));
        assert_eq!((run.code, run.stdout.lines().count()), (Some(0), 3));
        let lines: Vec<&str> = run.stdout.lines().collect();
        assert_eq!(lines[0], lines[2]);
        assert_eq!(run.stderr.contains("warning: line 2 was truncated to 12 tokens"), truncated);
        assert_eq!(lines[1].is_empty(), !truncated);
    }
}

/// Alignment matches tokens with words, of which such a line has millions.
#[test]
fn a_line_of_ten_megabytes_is_aligned() {
    let long = "one two ".repeat(1_250_000);
    let run = translate(
        &["--beam", "1", "--alignment", "json", "--quiet"],
        format!("seven\n{long}\nseven\n"),
    );
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let mut lines: Vec<Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    // In another position of a batch, the weights of the same sentence have other rounding errors.
    let [first, last] = [0, 2].map(|line| numbers(&lines[line]["weights"].take()));
    assert_eq!(first.len(), last.len());
    assert!(first.iter().zip(&last).all(|(a, b)| (a - b).abs() <= 2e-6), "{first:?} {last:?}");
    assert_eq!(lines[0], lines[2]);
    assert_eq!(lines[1]["source"].as_array().unwrap().len(), MAX_LEN);

    let folder = tempfile::tempdir().unwrap();
    let [source, target] =
        ["source", "target"].map(|name| file(&folder, name, format!("{long}\n")));
    let found = command("align", &["--source", &source, "--target", &target]);
    assert_eq!(found.printed().lines().count(), 1);
    let picture = folder.path().join("attention.json");
    // An argument has at most 128 KiB on Linux.
    let arguments = ["--text", &long[..100_000], "--out", picture.to_str().unwrap()];
    let found = command("attention", &arguments);
    assert_eq!(found.code, Some(0), "{}", found.stderr);
}

#[test]
fn lines_before_an_invalid_one_are_translated_and_it_is_named() {
    let expected = translate(&[], "one\ntwo\n").printed();
    let wrong = translate(&[], b"one\ntwo\nthr\xe9e\nfour\n");
    assert_eq!((wrong.code, &wrong.stdout), (Some(1), &expected));
    assert!(wrong.stderr.contains("`standard input` line 3 is not valid UTF-8"));
}

#[test]
fn invalid_bytes_are_replaced_with_the_option() {
    let bad = b"one\nthr\xe9e \xff\xfe\nfour\n";
    let replaced = "one\nthr\u{fffd}e \u{fffd}\u{fffd}\nfour\n";
    assert_eq!(
        translate(&["--invalid", "replace"], bad).printed(),
        translate(&[], replaced).printed()
    );
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "bad.txt", bad);
    let printed = translate(&["--invalid", "replace", "--input", &path], "").printed();
    assert_eq!(printed.lines().count(), 3);
}

/// A writer that waits after a line receives its translation, with and without `--batch-size 1`.
#[test]
fn a_line_is_answered_before_the_next_is_written() {
    for more in [&["--batch-size", "1"][..], &[]] {
        let mut child = start(&[&["--model", model(), "--beam", "1"], more].concat());
        let mut stdin = child.stdin.take().unwrap();
        let (sender, receiver) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let reader = thread::spawn(move || {
            for line in stdout.lines() {
                sender.send(line.unwrap()).unwrap();
            }
        });
        let mut answers = Vec::new();
        for line in ["one two", "", "seven"] {
            writeln!(stdin, "{line}").unwrap();
            stdin.flush().unwrap();
            let answer = receiver.recv_timeout(Duration::from_secs(60));
            answers.push(answer.expect("an answer before the next line"));
        }
        drop(stdin);
        reader.join().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        let expected = translate(&["--beam", "1"], "one two\n\nseven\n").printed();
        assert_eq!(answers, expected.lines().collect::<Vec<_>>(), "{more:?}");
    }
}

/// Returns the peak memory of a run on `lines` lines of 400 bytes, in kibibytes.
fn peak(lines: usize) -> usize {
    let mut child = start(&["--model", model(), "--beam", "1", "--max-len", "1"]);
    let status = format!("/proc/{}/status", child.id());
    let mut stdin = child.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        let line = format!("seven {}\n", "x".repeat(393));
        for _ in 0..lines {
            stdin.write_all(line.as_bytes()).unwrap();
        }
    });
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let (mut count, mut peak, mut line) = (0, 0, String::new());
    while stdout.read_line(&mut line).unwrap() > 0 {
        line.clear();
        count += 1;
        if count % 1_000 == 0 {
            let status = fs::read_to_string(&status).unwrap_or_default();
            let found = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let found = found.map(|rest| rest.trim().trim_end_matches(" kB").parse());
            peak = found.transpose().unwrap().unwrap_or(0).max(peak);
        }
    }
    writer.join().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(count, lines);
    peak
}

/// The lines, 40 MB of text, are freed after they are translated.
#[test]
fn memory_does_not_grow_with_the_number_of_lines() {
    let (few, many) = (peak(5_000), peak(100_000));
    if many == 0 {
        // This system has no `/proc`.
        return;
    }
    assert!(many < few + 20_000, "{few} KiB for 5,000 lines, {many} KiB for 100,000");
}

/// Returns all numbers of an array of arrays.
fn numbers(rows: &Value) -> Vec<f64> {
    let rows = rows.as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
    rows.map(|number| number.as_f64().unwrap()).collect()
}
