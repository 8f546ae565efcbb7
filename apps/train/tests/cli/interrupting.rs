use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStderr, Command, Stdio},
    thread,
    time::Duration,
};

use super::resuming::saved;
use crate::{FILES, Run, Workshop, tiny};

/// Settings of a run that is longer than any test.
const ENDLESS: [&str; 2] = ["--set", "train.epochs=1000000"];

/// A running process.
struct Started {
    child: Child,
    stderr: BufReader<ChildStderr>,
    log: String,
}

impl Started {
    fn new(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stderr, log: String::new() }
    }

    /// Reads standard error up to a line with `word`.
    fn until(&mut self, word: &str) {
        while !self.log.contains(word) {
            let read = self.stderr.read_line(&mut self.log).unwrap();
            assert!(read > 0, "no `{word}` in:\n{}", self.log);
        }
    }

    /// Waits until no thread of the process runs: until it waits for input.
    fn until_it_waits(&self) {
        let tasks = format!("/proc/{}/task", self.child.id());
        let sleeps = |task: fs::DirEntry| {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            // The state follows the name, which is in parentheses.
            stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('S'))
        };
        let mut asleep = 0;
        while asleep < 5 {
            thread::sleep(Duration::from_millis(20));
            // Systems without this folder have a fixed time.
            let tasks = fs::read_dir(&tasks).into_iter().flatten().map_while(Result::ok);
            asleep = if tasks.into_iter().all(sleeps) { asleep + 1 } else { 0 };
        }
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
    }

    fn end(mut self) -> Run {
        self.stderr.read_to_string(&mut self.log).unwrap();
        let code = self.child.wait().unwrap().code();
        Run { code, stdout: String::new(), stderr: self.log }
    }
}

/// A closed terminal sends SIGHUP and does not accept output any more.
#[cfg(target_os = "linux")]
#[test]
fn a_hangup_interrupts_a_run() {
    let workshop = Workshop::new();
    let train = workshop.command(&tiny(&FILES, "run", &ENDLESS));
    // The tests themselves may run under `nohup`, and an ignored signal is inherited.
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP").current_dir(workshop.path(""));
    command.arg(train.get_program()).args(train.get_args());
    let mut run = Started::new(command);
    run.until("epoch 1  step ");
    run.signal("HUP");
    drop(run.stderr);
    assert_eq!(run.child.wait().unwrap().code(), Some(129));
    let (step, _) = saved(&workshop.path("run")).unwrap();
    let resumed = workshop.train(&["--resume", "run", "--set", "train.epochs=1"]).trained();
    resumed.logged(&[&format!("(update {step})")]);
}

/// `nohup` starts a program with SIGHUP ignored.
#[test]
fn a_hangup_that_is_ignored_at_the_start_stays_ignored() {
    let workshop = Workshop::new();
    let train = workshop.command(&tiny(&FILES, "run", &["--set", "train.epochs=60"]));
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).current_dir(workshop.path(""));
    command.arg(train.get_program()).args(train.get_args());
    let mut run = Started::new(command);
    run.until("epoch 1  step ");
    run.signal("HUP");
    let run = run.end();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(!run.stderr.contains("interrupted"), "{}", run.stderr);
    run.logged(&["epoch 60  step 240  ", "bundle: run"]);
}

/// Starts a run that reads its corpus from standard input, and interrupts it there.
fn interrupted_while_reading(workshop: &Workshop) -> Started {
    let tsv = ["--file", "-", "--set", "data.format=tsv"];
    let mut run = Started::new(workshop.command(&tiny(&tsv, "run", &[])));
    run.until("device: ");
    // A run that does not read yet ends at once.
    run.until_it_waits();
    run.signal("INT");
    run.until("interrupted: ");
    run
}

/// The corpus is standard input and does not end: only the second signal does not wait for it.
#[test]
fn a_second_signal_ends_the_program_at_once() {
    let workshop = Workshop::new();
    let run = interrupted_while_reading(&workshop);
    run.signal("TERM");
    assert_eq!(run.end().code, Some(143));
}

/// After an interruption while the corpus is read, the same command starts over.
#[test]
fn a_run_interrupted_while_data_is_prepared_is_started_over() {
    let workshop = Workshop::new();
    let mut run = interrupted_while_reading(&workshop);
    let mut stdin = run.child.stdin.take().unwrap();
    stdin.write_all(b"one\tuno\n").unwrap();
    drop(stdin);
    let run = run.end();
    assert_eq!(run.code, Some(130), "{}", run.stderr);
    run.logged(&["interrupted before the first update; the same command starts the run over\n"]);
    assert!(!run.stderr.contains("training: "), "{}", run.stderr);
    workshop.train_tiny("run", &[]).trained();
}

#[test]
fn an_interrupted_preparation_leaves_nothing() {
    let workshop = Workshop::new();
    let arguments = ["data", "prepare", "--output", "corpus", "--file", "-", "--set"];
    let mut run = Started::new(workshop.command(&[&arguments[..], &["data.format=tsv"]].concat()));
    // Nothing is printed before the corpus is read, so the signal is sent once its handler is set.
    let status = format!("/proc/{}/status", run.child.id());
    if !fs::exists(&status).unwrap() {
        return;
    }
    let catches = |status: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() & 1 << 14 != 0
    };
    while !catches(&fs::read_to_string(&status).unwrap()) {
        thread::sleep(Duration::from_millis(5));
    }
    run.signal("TERM");
    thread::sleep(Duration::from_millis(100));
    let mut stdin = run.child.stdin.take().unwrap();
    stdin.write_all(b"one\tuno\ntwo\tdue\n").unwrap();
    drop(stdin);
    let run = run.end();
    assert_eq!(run.code, Some(143), "{}", run.stderr);
    run.logged(&["interrupted: nothing was written\n"]);
    let names = fs::read_dir(workshop.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().starts_with("corpus")));
}

/// The run is killed before its first checkpoint and its first validation.
#[test]
fn a_run_killed_before_its_first_checkpoint_is_started_over() {
    let workshop = Workshop::new();
    let rarely = [&ENDLESS[..], &["--set", "validation.every_epochs=1000000"]].concat();
    let mut run = Started::new(workshop.command(&tiny(&FILES, "run", &rarely)));
    run.until("memory: ");
    while !workshop.path("run/metrics.jsonl").is_file() {
        thread::sleep(Duration::from_millis(5));
    }
    run.child.kill().unwrap();
    run.end();
    assert!(saved(&workshop.path("run")).is_none());
    assert!(!workshop.path("run/model.safetensors").exists());
    let resumed = workshop.train(&["--resume", "run"]);
    resumed.failed(1, &["it has no checkpoint yet", "hint: start a new run without `--resume`"]);
    workshop.train_tiny("run", &[]).trained();
}

/// The run is killed after its first checkpoint and before its first validation: its folder contains
/// tokenizers, which are kept if the text changes, but no bundle.
#[test]
fn a_run_without_a_bundle_resumes_with_its_tokenizers() {
    let workshop = Workshop::new();
    let rarely = ["--set", "validation.every_epochs=1000000", "--set", "checkpoint.every=1 epoch"];
    let mut run =
        Started::new(workshop.command(&tiny(&FILES, "run", &[&ENDLESS[..], &rarely].concat())));
    run.until("memory: ");
    while saved(&workshop.path("run")).is_none() {
        thread::sleep(Duration::from_millis(5));
    }
    run.child.kill().unwrap();
    run.end();
    assert!(!workshop.path("run/model.safetensors").exists());
    let tokenizer = || fs::read(workshop.path("run/source.tokenizer.json")).unwrap();
    let before = tokenizer();
    let text = fs::read_to_string(workshop.path("source.txt")).unwrap();
    workshop.write("source.txt", text.replace("one", "eins"));
    let resume = ["--resume", "run", "--take", "new", "--set", "train.max_steps=1"];
    workshop.train(&resume).trained().logged(&["bundle: run"]);
    assert!(tokenizer() == before, "the tokenizers were trained anew");
}

/// The first process locks the folder until it ends, even by SIGKILL.
#[test]
fn a_run_folder_has_one_writer() {
    let workshop = Workshop::new();
    let often = [&ENDLESS[..], &["--set", "checkpoint.every=1 epoch"]].concat();
    let mut first = Started::new(workshop.command(&tiny(&FILES, "run", &often)));
    first.until("epoch 1  step ");
    while saved(&workshop.path("run")).is_none() {
        thread::sleep(Duration::from_millis(5));
    }
    let used = format!("`run` is in use by process {}", first.child.id());
    for arguments in [
        &["--resume", "run"][..],
        &["--resume", "run", "--take", "old"],
        &["--recipe", "toy", "--run", "run"],
        &["average", "run", "--last", "1"],
        &["report", "run"],
    ] {
        workshop.train(arguments).failed(1, &[&used, "hint: wait until it ends"]);
    }
    first.child.kill().unwrap();
    first.end();
    workshop.train(&["average", "run", "--last", "1"]).trained();
    workshop.train(&["--resume", "run", "--set", "train.epochs=1"]).trained();
}
