use std::{
    fs,
    io::Write,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use tx_infer::SearchOptions;

use crate::{file, model, translate, translator};

#[test]
fn an_interactive_session_without_a_terminal_is_refused() {
    let piped = translate(&["--interactive"], "one\n");
    piped.failed(2, &["needs a terminal", "hint: omit `--interactive`"]);
    translate(&["--interactive", "--text", "one"], "").failed(2, &["--interactive"]);
}

/// Starts the program with the bundle `model` at a terminal of `script` (util-linux); none without it.
pub fn at_a_terminal(
    model: &str,
    arguments: &[String],
    terminal: &str,
    history: &Path,
) -> Option<Child> {
    let program = env!("CARGO_BIN_EXE_translate");
    let command = format!("{program} --model {model} {}", arguments.join(" "));
    let child = Command::new("script")
        .args(["--quiet", "--return", "--flush", "--command", &command, "/dev/null"])
        .env("TX_HISTORY", history)
        .env("TERM", terminal)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    // Other systems have another program of that name.
    let child = child.ok().filter(|_| cfg!(target_os = "linux"));
    if child.is_none() {
        eprintln!("SKIPPED: no `script` of util-linux to create a terminal");
    }
    child
}

/// Standard output is a file, so the terminal shows the progress.
#[test]
fn progress_of_a_long_file_is_shown_at_a_terminal_only() {
    let folder = tempfile::tempdir().unwrap();
    let input = file(&folder, "input.txt", "one two three\n".repeat(2_100));
    let output = folder.path().join("output.txt");
    for quiet in [false, true] {
        let mut arguments = vec!["--beam 1 --input".to_owned(), input.clone()];
        arguments.extend(quiet.then(|| "--quiet".to_owned()));
        arguments.extend([">".to_owned(), output.display().to_string()]);
        let Some(child) = at_a_terminal(model(), &arguments, "xterm", Path::new("")) else {
            return;
        };
        let ended = child.wait_with_output().unwrap();
        let shown = String::from_utf8_lossy(&ended.stdout);
        assert_eq!(ended.status.code(), Some(0), "{shown}");
        assert_eq!(shown.contains(" lines, "), !quiet, "{shown}");
        assert_eq!(shown.contains('%'), !quiet, "{shown}");
        assert_eq!(fs::read_to_string(&output).unwrap().lines().count(), 2_100);
    }
    let plain = translate(&["--input", &input], "");
    assert_eq!(plain.stderr, "");
}

/// A pipe can be read only once, so its lines must not be counted first.
#[test]
fn progress_of_a_pipe_is_shown_and_no_line_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let Ok(made) = Command::new("mkfifo").arg(&pipe).status() else { return };
    assert!(made.success());
    let output = folder.path().join("output.txt");
    let arguments = ["--beam 1 --input", pipe.to_str().unwrap(), ">", output.to_str().unwrap()];
    let Some(mut child) =
        at_a_terminal(model(), &arguments.map(str::to_owned), "xterm", Path::new(""))
    else {
        return;
    };
    let lines = "one two three\nfour\n";
    // Blocks until the program opens the pipe.
    thread::spawn(move || fs::write(pipe, lines).unwrap());
    let mut waited = 0;
    let ended = loop {
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        waited += 1;
        if waited > 1_200 {
            child.kill().unwrap();
            panic!("the program waits for a pipe that has no writer");
        }
        thread::sleep(Duration::from_millis(100));
    };
    assert!(ended.success());
    let expected = translate(&["--beam", "1"], lines).printed();
    assert_eq!(fs::read_to_string(&output).unwrap(), expected);
}

#[test]
fn sentences_and_commands_typed_at_a_terminal_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("history");
    let page = folder.path().join("page.svg");
    let interactive = ["--interactive"].map(str::to_owned);
    // Other terminals would have to answer a query for the position of the cursor.
    let Some(mut child) = at_a_terminal(model(), &interactive, "dumb", &history) else { return };
    let mut stdin = child.stdin.take().unwrap();
    let lines = ["one two three", ":nbest 2", "one two three", ":bst", ":align", "one two three"];
    for line in lines {
        writeln!(stdin, "{line}").unwrap();
        // Gives the program time to answer before the next line.
        thread::sleep(Duration::from_millis(300));
    }
    writeln!(stdin, ":attention {}\n:quit", page.display()).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}");

    let translator = translator(SearchOptions { n_best: 2, ..SearchOptions::default() });
    let found = translator.translate_batch(&["one two three"]).unwrap().remove(0);
    assert!(shown.matches(&found.text).count() >= 3, "{shown}");
    for scored in &found.hypotheses {
        assert!(
            shown.contains(&format!("{:>8.3}  {}", scored.hypothesis.score, scored.text)),
            "{shown}"
        );
    }
    for word in ["unknown command `:bst`", "alignment shown", "← ", "written: "] {
        assert!(shown.contains(word), "no `{word}` in:\n{shown}");
    }
    assert!(fs::read_to_string(&page).unwrap().starts_with("<svg"));
    assert!(fs::read_to_string(&history).unwrap().contains(":nbest 2"));
}
