use std::{fs, io::Read, path::Path};

use flate2::read::GzDecoder;
use tempfile::TempDir;

use crate::{model, run};

/// Folder of `transformers` with the layout of NLLB.
fn nllb() -> TempDir {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../crates/tx-convert/tests/fixtures/transformers");
    let folder = tempfile::tempdir().unwrap();
    for file in
        ["config.json", "generation_config.json", "tokenizer_config.json", "model.safetensors"]
    {
        fs::copy(fixtures.join("nllb").join(file), folder.path().join(file)).unwrap();
    }
    let mut model = Vec::new();
    let packed = fs::read(fixtures.join("bpe.model.gz")).unwrap();
    GzDecoder::new(&packed[..]).read_to_end(&mut model).unwrap();
    fs::write(folder.path().join("sentencepiece.bpe.model"), model).unwrap();
    folder
}

#[test]
fn an_imported_model_translates() {
    let (folder, output) = (nllb(), tempfile::tempdir().unwrap());
    let bundle = output.path().join("bundle");
    let [from, bundle] = [folder.path(), &bundle].map(|path| path.to_str().unwrap());
    assert_eq!(run(&["import", "--from", from, "--output", bundle], "").printed(), "");
    let inspected = run(&["inspect", "--model", bundle], "").printed();
    for part in ["transformers-m2m100", "deu_Latn", "tensor2tensor", "decoder_start"] {
        assert!(inspected.contains(part), "no `{part}` in:\n{inspected}");
    }
    let translated = run(&["--model", bundle, "--quiet"], "the dog sees the garden\n").printed();
    assert_eq!(translated.lines().count(), 1);
}

#[test]
fn a_dry_run_describes_the_model() {
    let folder = nllb();
    let from = folder.path().to_str().unwrap();
    let described = run(&["import", "--from", from, "--dry-run"], "").printed();
    for part in ["format", "transformers-m2m100", "parameters", "sentencepiece.bpe.model"] {
        assert!(described.contains(part), "no `{part}` in:\n{described}");
    }
    let missing = run(&["import", "--from", from], "");
    missing.failed(2, &["--output"]);
}

#[test]
fn a_folder_of_unknown_format_is_named() {
    let output = tempfile::tempdir().unwrap();
    let output = output.path().join("bundle");
    let output = output.to_str().unwrap();
    let wrong = run(&["import", "--from", model(), "--output", output], "");
    wrong.failed(1, &["has no known model format", "config.json", "hint: pass the folder"]);
    let format = ["--format", "transformers-marian"];
    let arguments = [&["import", "--from", model(), "--output", output], &format[..]].concat();
    run(&arguments, "").failed(1, &["cannot read", "config.json"]);
    let unknown = run(&["import", "--from", model(), "--output", output, "--format", "x"], "");
    unknown.failed(2, &["transformers-m2m100"]);
}

/// A repository that was cloned without Git LFS: each file names itself.
#[test]
fn pointers_of_git_lfs_are_named() {
    let output = tempfile::tempdir().unwrap();
    let output = output.path().join("bundle");
    for file in ["model.safetensors", "sentencepiece.bpe.model"] {
        let folder = nllb();
        fs::write(folder.path().join(file), crate::LFS_POINTER).unwrap();
        let arguments = ["--from", folder.path().to_str().unwrap()];
        let arguments =
            [&["import"], &arguments[..], &["--output", output.to_str().unwrap()]].concat();
        let wrong = run(&arguments, "");
        wrong.failed(1, &[file, "is a Git LFS pointer", "hint: run `git lfs pull`"]);
        assert!(!output.exists());
    }
}

/// The message names file and tensor, and no file remains.
#[test]
fn a_weight_that_is_not_a_number_is_named() {
    let folder = nllb();
    let path = folder.path().join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let parent = tempfile::tempdir().unwrap();
    let output = parent.path().join("new").join("bundle");
    let arguments = ["import", "--from", folder.path().to_str().unwrap(), "--output"];
    let wrong = run(&[&arguments[..], &[output.to_str().unwrap()]].concat(), "");
    wrong.failed(1, &["model.safetensors`: its tensor `", "is NaN at value", "hint: download"]);
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}

/// Notes say how texts are divided and end, until an option says it.
#[test]
fn a_model_of_ctranslate2_is_imported_with_notes() {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../crates/tx-convert/tests/fixtures/ctranslate2/pre");
    let output = tempfile::tempdir().unwrap();
    let bundle = output.path().join("bundle");
    let [from, bundle] = [from.as_path(), &bundle].map(|path| path.to_str().unwrap());
    let import = |more: &[&str]| {
        let arguments = [&["import", "--from", from, "--output", bundle], more].concat();
        run(&arguments, "").stderr
    };
    let notes = import(&[]);
    for part in ["texts are divided at spaces", "sources have no `<eos>`", "`--source-eos true`"] {
        assert!(notes.contains(part), "no `{part}` in:\n{notes}");
    }
    assert!(!import(&["--source-eos", "true"]).contains("<eos>"));
    let translated = run(&["--model", bundle, "--quiet"], "the dog sees the house .\n").printed();
    assert_eq!(translated.lines().count(), 1);
}
