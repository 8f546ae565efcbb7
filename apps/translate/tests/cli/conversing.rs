use std::{
    fs,
    io::Write,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use tx_infer::{Device, SearchOptions, Translator};

use crate::{BUNDLE, file, run};

#[test]
fn without_a_terminal_it_is_refused() {
    let model = BUNDLE.path().to_str().unwrap();
    let piped = run(&["--model", model, "--interactive"], "one\n");
    piped.failed(2, &["needs a terminal", "hint: without `--interactive`"]);
    run(&["--model", model, "--interactive", "--text", "one"], "").failed(2, &["--interactive"]);
}

/// The program with the test bundle, at a terminal that `script` of util-linux makes; none without.
fn at_a_terminal(arguments: &[String], terminal: &str, history: &Path) -> Option<Child> {
    let command = format!(
        "{} --model {} {}",
        env!("CARGO_BIN_EXE_translate"),
        BUNDLE.path().display(),
        arguments.join(" ")
    );
    let child = Command::new("script")
        .args(["--quiet", "--return", "--flush", "--command", &command, "/dev/null"])
        .env("TX_HISTORY", history)
        .env("TERM", terminal)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    // Elsewhere there is another program of that name.
    let child = child.ok().filter(|_| cfg!(target_os = "linux"));
    if child.is_none() {
        eprintln!("SKIPPED: no `script` of util-linux to make a terminal with");
    }
    child
}

/// Standard output goes to a file; what is said at the terminal is the progress.
#[test]
fn a_long_file_shows_how_far_it_is_at_a_terminal_only() {
    let folder = tempfile::tempdir().unwrap();
    let input = file(&folder, "input.txt", "one two three\n".repeat(2_100));
    let output = folder.path().join("output.txt");
    for quiet in [false, true] {
        let mut arguments = vec!["--beam 1 --input".to_owned(), input.clone()];
        arguments.extend(quiet.then(|| "--quiet".to_owned()));
        arguments.extend([">".to_owned(), output.display().to_string()]);
        let Some(child) = at_a_terminal(&arguments, "xterm", Path::new("")) else { return };
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert_eq!(ended.status.code(), Some(0), "{said}");
        assert_eq!(said.contains(" lines, "), !quiet, "{said}");
        assert_eq!(said.contains('%'), !quiet, "{said}");
        assert_eq!(fs::read_to_string(&output).unwrap().lines().count(), 2_100);
    }
    let plain = run(&["--model", BUNDLE.path().to_str().unwrap(), "--input", &input], "");
    assert_eq!(plain.stderr, "");
}

/// Its lines can be read once only: nobody may count them before.
#[test]
fn a_pipe_as_input_shows_progress_and_loses_no_line() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let Ok(made) = Command::new("mkfifo").arg(&pipe).status() else { return };
    assert!(made.success());
    let output = folder.path().join("output.txt");
    let arguments = ["--beam 1 --input", pipe.to_str().unwrap(), ">", output.to_str().unwrap()];
    let Some(mut child) = at_a_terminal(&arguments.map(str::to_owned), "xterm", Path::new(""))
    else {
        return;
    };
    let lines = "one two three\nfour\n";
    // Waits until somebody reads.
    thread::spawn(move || fs::write(pipe, lines).unwrap());
    let mut waited = 0;
    let ended = loop {
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        waited += 1;
        if waited > 1_200 {
            child.kill().unwrap();
            panic!("it waits for a pipe that nobody writes to");
        }
        thread::sleep(Duration::from_millis(100));
    };
    assert!(ended.success());
    let model = BUNDLE.path().to_str().unwrap();
    let expected = run(&["--model", model, "--beam", "1"], lines).said();
    assert_eq!(fs::read_to_string(&output).unwrap(), expected);
}

#[test]
fn at_a_terminal_sentences_and_commands_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("history");
    let page = folder.path().join("page.svg");
    let interactive = ["--interactive"].map(str::to_owned);
    // One that is asked where its cursor is would have to answer.
    let Some(mut child) = at_a_terminal(&interactive, "dumb", &history) else { return };
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

    let translator = Translator::open(BUNDLE.path(), &Device::Cpu).unwrap();
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
