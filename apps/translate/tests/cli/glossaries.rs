use std::fs;

use serde_json::{Value, json};

use crate::{file, run, translate};

/// With random weights, the model uses these words only because of the glossary.
#[test]
fn terms_are_translated_as_in_the_glossary() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let tsv = path("terms.tsv", "one two\tseven six\nfour\tfive\n");
    let csv = path("terms.csv", "one two,seven six\nfour,five\n");
    let lines = "three one two four\nthree\none\n";
    let found = translate(&["--glossary", &tsv, "--quiet"], lines).printed();
    assert_eq!(translate(&["--glossary", &csv, "--quiet"], lines).printed(), found);
    let found: Vec<&str> = found.lines().collect();
    assert!(found[0].contains("seven six") && found[0].contains("five"), "{found:?}");
    let plain = translate(&[], lines).printed();
    assert_eq!(found[1..], plain.lines().skip(1).collect::<Vec<_>>());

    let printed = translate(&["--glossary", &tsv, "--json"], "four\nthree\n").printed();
    let objects: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let term = json!([{ "source": "four", "target": "five", "used": true }]);
    assert_eq!((&objects[0]["terms"], &objects[1]["terms"]), (&term, &Value::Null));

    // The vocabulary has no such word.
    let other = path("other.tsv", "four\teight\n");
    let run = translate(&["--glossary", &other], "four\n");
    assert_eq!(run.code, Some(0));
    let warning = "warning: the translation of line 1 lacks `eight` for `four`";
    assert!(run.stderr.contains(warning), "{}", run.stderr);
}

#[test]
fn contradictions_and_damaged_glossaries_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let tsv = file(&folder, "terms.tsv", "one\ttwo\nthree\n");
    translate(&["--glossary", &tsv], "one\n").failed(1, &["terms.tsv", "line 2 has no tab"]);
    let tsv = file(&folder, "good.tsv", "one\ttwo\n");
    let beam = translate(&["--glossary", &tsv, "--beam", "1"], "one\n");
    beam.failed(2, &["`beam` of at least 2"]);
    // Translations in the source need no beam.
    let inline = ["--glossary", &tsv, "--beam", "1", "--glossary-use", "inline", "--quiet"];
    assert_eq!(translate(&inline, "one\n").code, Some(0));
    let alone = translate(&["--glossary-use", "both"], "one\n");
    alone.failed(2, &["`--glossary-use` has no effect without `--glossary`"]);
    let tbx = file(
        &folder,
        "terms.tbx",
        "<martif><termEntry><langSet xml:lang='en'><tig><term>one</term></tig></langSet>\
         <langSet xml:lang='it'><tig><term>seven</term></tig></langSet>\
         <langSet xml:lang='de'><tig><term>six</term></tig></langSet></termEntry></martif>",
    );
    translate(&["--glossary", &tbx], "one\n").failed(1, &["`en`, `it`, `de`"]);
    let chosen = ["--glossary", &tbx, "--glossary-languages", "en", "de", "--quiet"];
    assert!(translate(&chosen, "one\n").printed().contains("six"));
}

/// Of three terms, two are translated.
#[test]
fn the_accuracy_of_terms_is_scored() {
    let folder = tempfile::tempdir().unwrap();
    let glossary = file(&folder, "terms.tsv", "Hund\tdog\nKatze\tcat\n");
    let source = file(&folder, "test.de", "Hund und Katze\nMaus\nHund\n");
    let reference = file(&folder, "test.en", "dog and cat\nmouse\ndog\n");
    let hypothesis = file(&folder, "test.hyp", "dog and mouse\ndog\na dog\n");
    let files = ["--source", &source, "--reference", &reference, "--hypothesis", &hypothesis];
    let score = |more: &[&str]| run(&[&["score"], &files[..], more].concat(), "");
    let printed = score(&["--glossary", &glossary]).printed();
    let terms = printed.lines().find(|line| line.starts_with("terms")).unwrap();
    assert!(terms.ends_with("= 66.67 2/3"), "{terms}");
    score(&[]).failed(2, &["`--source` needs `--model` or `--glossary`"]);
    let no_source = ["score", "--reference", &reference, "--glossary", &glossary];
    run(&no_source, "").failed(2, &["`--glossary` needs `--source`"]);
}
