use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use burn::tensor::Device;
use tx_infer::{SearchOptions, Translator};

use crate::{BUNDLE, run};

#[test]
fn without_a_terminal_it_is_refused() {
    let model = BUNDLE.path().to_str().unwrap();
    let piped = run(&["--model", model, "--interactive"], "one\n");
    piped.failed(2, &["needs a terminal", "hint: without `--interactive`"]);
    run(&["--model", model, "--interactive", "--text", "one"], "").failed(2, &["--interactive"]);
}

/// At a terminal that `script` of util-linux makes.
#[test]
fn at_a_terminal_sentences_and_commands_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("history");
    let page = folder.path().join("page.svg");
    let command = format!(
        "{} --model {} --interactive",
        env!("CARGO_BIN_EXE_translate"),
        BUNDLE.path().display()
    );
    let child = Command::new("script")
        .args(["--quiet", "--return", "--flush", "--command", &command, "/dev/null"])
        .env("TX_HISTORY", &history)
        .env("TERM", "dumb")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("SKIPPED: no `script` of util-linux to make a terminal with");
        return;
    };
    let mut stdin = child.stdin.take().unwrap();
    let lines = ["one two three", ":nbest 2", "one two three", ":bst", ":align", "one two three"];
    for line in lines {
        writeln!(stdin, "{line}").unwrap();
        // As a person does, after the answer.
        thread::sleep(Duration::from_millis(300));
    }
    writeln!(stdin, ":attention {}\n:quit", page.display()).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");

    let translator = Translator::open(BUNDLE.path(), &Device::flex()).unwrap();
    let options = SearchOptions { n_best: 2, ..SearchOptions::default() };
    let translator = translator.with_options(options).unwrap();
    let found = translator.translate_batch(&["one two three"]).unwrap().remove(0);
    assert!(said.matches(&found.text).count() >= 3, "{said}");
    for scored in &found.hypotheses {
        assert!(
            said.contains(&format!("{:>8.3}  {}", scored.hypothesis.score, scored.text)),
            "{said}"
        );
    }
    for word in ["there is no command `:bst`", "alignment shown", "← ", "written: "] {
        assert!(said.contains(word), "no `{word}` in:\n{said}");
    }
    assert!(fs::read_to_string(&page).unwrap().starts_with("<svg"));
    assert!(fs::read_to_string(&history).unwrap().contains(":nbest 2"));
}
