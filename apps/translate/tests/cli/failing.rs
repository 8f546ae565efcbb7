use std::fs;

use crate::{bundle, file, gzip, model, run, translate};

#[test]
fn invalid_utf8_is_named_by_line() {
    let wrong = translate(&[], b"thr\xe9e\n");
    wrong.failed(1, &["`standard input` line 1 is not valid UTF-8", "hint: ", "iconv"]);
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "latin1.txt", b"caf\xe9\n");
    translate(&["--input", &path], "").failed(1, &["latin1.txt` line 1 is not valid UTF-8"]);
}

#[test]
fn a_missing_and_a_broken_input_file_are_named() {
    let missing = translate(&["--input", "no/such.txt"], "");
    missing.failed(1, &["cannot read `no/such.txt`: No such file"]);
    let folder = tempfile::tempdir().unwrap();
    let whole = gzip(&b"one two three\n".repeat(100));
    let path = file(&folder, "half.gz", &whole[..whole.len() / 2]);
    // The lines before the damage are translated.
    let broken = translate(&["--input", &path], "");
    assert_eq!(broken.code, Some(1));
    assert!(broken.stderr.contains("cannot read `") && broken.stderr.contains("half.gz`"));
}

#[test]
fn a_folder_without_a_bundle_is_named_with_what_to_pass() {
    let missing = run(&["--model", "no/such"], "");
    missing.failed(1, &["`no/such` is not a bundle: it has no `model.safetensors`", "hint: pass"]);
}

#[test]
fn a_bundle_with_the_tokenizer_of_another_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    bundle("one two three").save(folder.path()).unwrap();
    let other = bundle("four five six").tokenizers.target.to_json().unwrap();
    fs::write(folder.path().join("target.tokenizer.json"), other).unwrap();
    let wrong = run(&["--model", folder.path().to_str().unwrap()], "one\n");
    wrong.failed(1, &["target.tokenizer.json` is not the tokenizer", "hint: copy bundle folders"]);
}

#[test]
fn every_damaged_file_of_a_bundle_is_named() {
    let folder = tempfile::tempdir().unwrap();
    bundle("one two three").save(folder.path()).unwrap();
    let model = folder.path().to_str().unwrap();
    let mut files: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 5, "{files:?}");
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let whole = fs::read(&path).unwrap();
        let half = &whole[..whole.len() / 2];
        let ruined: Vec<u8> = whole.iter().map(|byte| byte ^ 0x55).collect();
        // The provenance file is empty here, so truncating it changes nothing.
        let damages = [half, &ruined, b"" as &[u8]].into_iter().filter(|damage| *damage != whole);
        for damage in damages {
            fs::write(&path, damage).unwrap();
            run(&["--model", model], "one\n").failed(1, &[name]);
        }
        fs::remove_file(&path).unwrap();
        run(&["--model", model], "one\n").failed(1, &[name]);
        fs::write(&path, whole).unwrap();
    }
    run(&["--model", model], "one\n").printed();
}

#[test]
fn a_bundle_of_a_later_format_asks_for_a_newer_program() {
    let folder = tempfile::tempdir().unwrap();
    bundle("one two three").save(folder.path()).unwrap();
    let path = folder.path().join("config.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("format = 2", "format = 99")).unwrap();
    let wrong = run(&["--model", folder.path().to_str().unwrap()], "one\n");
    wrong.failed(
        1,
        &["is bundle format 99", "reads formats 1 to 3", "hint: ", "update this program"],
    );
}

#[test]
fn wrong_usage_exits_with_code_two() {
    run(&[], "").failed(2, &["--model"]);
    run(&["score"], "").failed(2, &["--reference"]);
    for arguments in [
        &["--beam", "0"][..],
        &["--beam", "65"],
        &["--text", "one", "--input", "file"],
        &["--no-such-option"],
    ] {
        translate(arguments, "").failed(2, &["error: "]);
    }
    translate(&["--length-penalty", "nan"], "one\n").failed(2, &["`length_penalty` = NaN"]);
    translate(&["--max-len-ratio=-1"], "one\n").failed(2, &["`max_len_ratio` = -1"]);
    translate(&["--precision", "f8"], "one\n").failed(2, &["unknown precision `f8`", "bf16"]);
    translate(&["--device", "gpu"], "one\n").failed(2, &["unknown device `gpu`"]);
    if !cfg!(feature = "cuda") {
        let cuda = translate(&["--device", "cuda"], "one\n");
        cuda.failed(2, &["built without `cuda`", "hint: ", "--features cuda"]);
    }
}

/// Lines of a dialog, and negative numbers.
#[test]
fn a_text_may_begin_with_a_dash() {
    for text in ["- one two", "-5 three", "--", "-- one", "--two"] {
        let expected = translate(&[], format!("{text}\n").as_bytes()).printed();
        assert_eq!(translate(&["--text", text], "").printed(), expected, "{text}");
        assert_eq!(translate(&[&format!("--text={text}")], "").printed(), expected, "{text}");
        translate(&["--prefix", text], "one\n").printed();
        let out = tempfile::tempdir().unwrap();
        let page = out.path().join("page.json");
        let page = page.to_str().unwrap();
        let attention = ["attention", "--model", model(), "--text", text, "--target", text];
        let drawn = run(&[&attention[..], &["--out", page]].concat(), "");
        assert_eq!(drawn.code, Some(0), "{}", drawn.stderr);
    }
}

#[test]
fn an_option_in_place_of_a_text_is_named() {
    for option in ["--json", "--beam=4", "-q", "--help"] {
        let forgotten = translate(&["--text", option], "");
        let problem = format!("the value of `--text` is the option `{option}`");
        forgotten.failed(2, &[&problem, &format!("write `--text={option}`")]);
        translate(&[&format!("--text={option}")], "").printed();
    }
}

#[cfg(unix)]
#[test]
fn a_closed_standard_output_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let reference = file(&folder, "reference", b"one\n");
    for arguments in [
        &["--model", model(), "--text", "one"][..],
        &["--model", model(), "--text", "one", "--json"],
        &["inspect", "--model", model()],
        &["check", "--model", model()],
        &["score", "--reference", &reference, "--hypothesis", &reference],
        &["completions", "bash"],
        &["--help"],
        &["--version"],
    ] {
        let closed = std::process::Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" >&-", env!("CARGO_BIN_EXE_translate")])
            .args(arguments)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&closed.stderr);
        assert_eq!(closed.status.code(), Some(1), "{arguments:?}: {stderr}");
        let is_help = arguments[0] == "--help" || arguments[0] == "--version";
        assert!(is_help || stderr.contains("standard output is closed"), "{stderr}");
    }
}

/// A repository that was cloned without Git LFS.
#[test]
fn pointers_of_git_lfs_in_a_bundle_are_named() {
    for name in ["model.safetensors", "config.toml", "source.tokenizer.json", "provenance.toml"] {
        let folder = tempfile::tempdir().unwrap();
        bundle("one two three").save(folder.path()).unwrap();
        fs::write(folder.path().join(name), crate::LFS_POINTER).unwrap();
        let wrong = run(&["--model", folder.path().to_str().unwrap()], "one\n");
        wrong.failed(1, &[name, "is a Git LFS pointer", "hint: run `git lfs pull`"]);
    }
}
