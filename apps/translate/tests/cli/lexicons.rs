use std::fs;

use tempfile::TempDir;
use tx_infer::{BundleInfo, LexiconUse};

use crate::{bundle, file, run, translate};

/// A bundle without lexicon.
fn model(folder: &TempDir) -> String {
    let model = folder.path().join("model");
    bundle("one two three four").save(&model).unwrap();
    model.to_str().unwrap().to_owned()
}

#[test]
fn a_lexicon_is_added_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(&folder);
    let source = file(&folder, "source", "one two\nthree\n");
    let target = file(&folder, "target", "one\ntwo three\n");
    let text = ["--model", &model, "--text", "one two three four"];
    let without = run(&text, "");
    run(&[&text[..], &["--lexicon", "words"]].concat(), "")
        .failed(2, &["`--lexicon` needs a bundle with a lexicon"]);

    let arguments = ["lexicon", "--model", &model, "--source", &source, "--target", &target];
    let added = run(&arguments, "");
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    assert!(added.stderr.contains("added a lexicon to"), "{}", added.stderr);
    let search = BundleInfo::read(model.as_ref()).unwrap().search.unwrap();
    assert_eq!(search.lexicon, LexiconUse::Both);
    let off = run(&[&text[..], &["--lexicon", "off"]].concat(), "");
    assert_eq!((off.code, &off.stdout), (Some(0), &without.stdout));
    // `four` is a word of the source that the text does not have.
    for (text, usage) in [("one two three", "words"), ("one two three", "both")] {
        let found = run(&["--model", &model, "--text", text, "--lexicon", usage], "");
        assert!(found.code == Some(0) && !found.stdout.contains("four"), "{}", found.stdout);
    }

    // A damaged one is replaced.
    fs::write(folder.path().join("model/lexicon.json"), "{}").unwrap();
    run(&text, "").failed(1, &["is not a lexicon of this model", "translate lexicon"]);
    assert_eq!(run(&arguments, "").code, Some(0));
    assert_eq!(run(&text, "").code, Some(0));
}

#[test]
fn texts_that_do_not_fit_add_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(&folder);
    let source = file(&folder, "source", "one two\nthree\n");
    let target = file(&folder, "target", "one\n");
    for (target, problem) in [(&*target, "2 lines"), ("missing", "missing")] {
        let arguments = ["lexicon", "--model", &model, "--source", &source, "--target", target];
        run(&arguments, "").failed(1, &[problem]);
        assert!(!folder.path().join("model/lexicon.json").exists());
    }
    // The bundle of the tests has none.
    translate(&["--lexicon", "both"], "one\n").failed(2, &["needs a bundle with a lexicon"]);
}
