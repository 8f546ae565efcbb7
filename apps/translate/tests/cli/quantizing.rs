use std::{fs, path::Path, process::Command};

use tempfile::TempDir;
use tx_model::{ModelConfig, Transformer};

use super::tasks::path;
use crate::{Run, bundle, command, file, model, run, translate};

const LINES: &str = "one two three\nseven\n\nsix five four three two one\n";

/// Writes the quantized test bundle into a folder.
fn quantized(folder: &TempDir) -> String {
    let output = folder.path().join("int8").to_str().unwrap().to_owned();
    assert_eq!(command("quantize", &["--output", &output]).printed(), "");
    output
}

/// Runs the program with a limit of its instructions.
fn limited(instructions: &str, arguments: &[&str]) -> Run {
    let mut program = Command::new(env!("CARGO_BIN_EXE_translate"));
    let output = program.args(arguments).env("TX_MAX_INSTRUCTIONS", instructions).output().unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    Run { code: output.status.code(), stdout, stderr }
}

/// The output, whether or not a note about instructions precedes it.
fn output(run: Run) -> String {
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.stdout
}

#[test]
fn a_quantized_bundle_translates_as_one_that_is_quantized_when_opened() {
    let folder = tempfile::tempdir().unwrap();
    let int8 = quantized(&folder);
    for arguments in [&["--beam", "1"][..], &["--beam", "3", "--n-best", "2", "--json"]] {
        let opened = output(translate(&[arguments, &["--precision", "int8"]].concat(), LINES));
        let quantized = output(run(&[&["--model", &int8], arguments].concat(), LINES));
        assert_eq!(quantized, opened);
        for threads in ["1", "2", "3"] {
            for batch in ["1", "1000"] {
                let shared = ["--model", &int8, "--threads", threads, "--batch-size", batch];
                assert_eq!(output(run(&[&shared, arguments].concat(), LINES)), quantized);
            }
        }
    }
    let inspected = run(&["inspect", "--model", &int8], "").printed();
    assert!(inspected.contains("int8"), "{inspected}");
    let single = run(&["--model", &int8, "--precision", "f32"], LINES).printed();
    assert_eq!(single.lines().count(), LINES.lines().count());
}

#[test]
fn bundles_of_every_task_compute_in_int8() {
    let folder = tempfile::tempdir().unwrap();
    for (task, text) in
        [("classify", "one two"), ("generate", "one two"), ("fill-mask", "one <mask> three")]
    {
        let int8 = folder.path().join(task).to_str().unwrap().to_owned();
        let from = path(task);
        assert_eq!(run(&["quantize", "--model", &from, "--output", &int8], "").printed(), "");
        let opened = ["--model", &from, "--precision", "int8", "--text", text];
        assert_eq!(
            output(run(&["--model", &int8, "--text", text], "")),
            output(run(&opened, "")),
            "{task}"
        );
    }
}

#[test]
fn instructions_are_limited_by_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let int8 = quantized(&folder);
    let arguments = ["--model", &*int8, "--text", "one two three"];
    let without = limited("none", &arguments);
    assert!(
        without.stderr.contains("note: this CPU has no instructions for int8"),
        "{}",
        without.stderr
    );
    let single = run(&[&arguments[..], &["--precision", "f32"]].concat(), "").printed();
    assert_eq!(output(without), single);
    // All kernels compute the same bits.
    let eight = output(run(&arguments, ""));
    for limit in ["avx2", "avx-vnni", "avx512-vnni"] {
        assert_eq!(output(limited(limit, &arguments)), eight, "{limit}");
    }
    let quiet = limited("none", &[&arguments[..], &["--quiet"]].concat());
    assert_eq!(quiet.stderr, "");
    // In single precision, older vectors round some sums differently, which changes no word here.
    let in_single = [&arguments[..], &["--precision", "f32"]].concat();
    for limit in ["none", "avx2", "avx512"] {
        assert_eq!(output(limited(limit, &in_single)), single, "{limit}");
    }
    for arguments in [&arguments[..], &in_single] {
        limited("sse9", arguments).failed(1, &["sse9", "avx512-vnni"]);
    }
}

#[test]
fn an_output_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let there = file(&folder, "file", "");
    command("quantize", &["--output", &there]).failed(1, &["cannot write", "file"]);
    let same = command("quantize", &["--output", model()]);
    same.failed(2, &["`--output` is the bundle of `--model`"]);
    command("quantize", &[]).failed(2, &["--output"]);
    run(&["quantize", "--model", "no/such", "--output", &there], "").failed(1, &["not a bundle"]);
}

/// A bundle in the folder of the output is replaced, other files there remain.
#[test]
fn an_existing_bundle_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("int8");
    fs::create_dir(&output).unwrap();
    fs::write(output.join("notes"), "mine").unwrap();
    bundle("eight nine").save(&output).unwrap();
    let path = quantized(&folder);
    let first = fs::read(output.join("model.safetensors")).unwrap();
    assert_eq!(fs::read_to_string(output.join("notes")).unwrap(), "mine");
    assert_eq!(quantized(&folder), path);
    assert_eq!(fs::read(output.join("model.safetensors")).unwrap(), first);
    assert_eq!(run(&["--model", &path], "one\n").code, Some(0));
}

#[test]
fn a_quantized_bundle_is_not_quantized_again() {
    let folder = tempfile::tempdir().unwrap();
    let int8 = quantized(&folder);
    let again = folder.path().join("again");
    let twice = run(&["quantize", "--model", &int8, "--output", again.to_str().unwrap()], "");
    twice.failed(1, &["are quantized", "hint: ", "use the bundle that they were made from"]);
    assert!(!again.exists());
}

/// Saves a bundle with a value in the middle of its weights replaced.
fn damaged(folder: &Path, value: f32) {
    bundle("one two three").save(folder).unwrap();
    let path = folder.join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() - 400;
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    fs::write(path, bytes).unwrap();
}

#[test]
fn weights_that_are_not_finite_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("int8").to_str().unwrap().to_owned();
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let from = folder.path().join("f32");
        damaged(&from, value);
        let from = from.to_str().unwrap();
        let refused = run(&["quantize", "--model", from, "--output", &output], "");
        refused.failed(1, &["is not finite at value"]);
        run(&["--model", from, "--precision", "int8"], "one\n").failed(1, &["is not finite"]);
        assert!(!Path::new(&output).exists());
    }
}

/// A matrix with more inputs than sums of 32 bits allow.
#[test]
fn a_model_with_too_many_inputs_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut wide = bundle("one");
    wide.config = ModelConfig { d_ff: 65_537, d_model: 2, n_heads: 1, ..wide.config };
    let device = burn::tensor::Device::flex();
    let vocab = tx_model::VocabSizes { source: 5, target: 5 };
    wide.model = Transformer::new(&wide.config, vocab, &device).unwrap();
    let from = folder.path().join("wide");
    wide.save(&from).unwrap();
    let output = folder.path().join("int8");
    let [from, to] = [&from, &output].map(|path| path.to_str().unwrap());
    let refused = run(&["quantize", "--model", from, "--output", to], "");
    refused.failed(1, &["65537 inputs", "at most 65536"]);
    assert!(!output.exists());
    let refused = run(&["--model", from, "--precision", "int8"], "one\n");
    assert!(refused.code == Some(1) || refused.stderr.contains("note: "), "{}", refused.stderr);
}

#[test]
fn precisions_that_a_bundle_does_not_have_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let int8 = quantized(&folder);
    run(&["--model", &int8, "--precision", "int4"], "one\n").failed(2, &["`int4`", "int8"]);
    let half = run(&["--model", &int8, "--precision", "bf16"], "one\n");
    assert_eq!(half.code, Some(1), "{}", half.stderr);
}
