use std::fs;

use crate::command;

#[test]
fn a_bundle_is_exported_to_a_new_folder() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("new/ct2");
    let export =
        || command("export", &["--format", "ctranslate2", "--output", output.to_str().unwrap()]);
    assert_eq!(export().printed(), "");
    let entries = fs::read_dir(&output).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(
        names,
        [
            "config.json",
            "model.bin",
            "shared_vocabulary.json",
            "source.tokenizer.json",
            "target.tokenizer.json"
        ]
    );
    assert_eq!(fs::read_dir(folder.path().join("new")).unwrap().count(), 1);
    let before = fs::read(output.join("model.bin")).unwrap();
    export().failed(1, &["already exists", "hint: pass another folder as `--output`"]);
    assert_eq!(fs::read(output.join("model.bin")).unwrap(), before);
}

#[test]
fn an_unknown_format_is_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().to_str().unwrap();
    let run = command("export", &["--format", "tflite", "--output", output]);
    run.failed(2, &["tflite", "ctranslate2, transformers, marian, onnx"]);
}
