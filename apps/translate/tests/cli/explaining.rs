use std::fs;

use tempfile::tempdir;

use crate::{model, run};

#[test]
fn figures_are_written_in_the_format_of_the_extension() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (arguments, words) in [
        (&["positions", "--d-model", "16"][..], &["60 positions, d_model = 16", "feature 7"][..]),
        (&["positions", "--model", model(), "--features", "1"], &["d_model = ", "feature 1"]),
        (
            &["masks", "--text", "a <b>", "--text", "c"],
            &["&lt;b&gt;", "&lt;pad&gt;", "Causal mask"],
        ),
        (&["smoothing", "--smoothing", "0,0.3"], &["ε = 0.3, smallest at p = 0.7000"]),
    ] {
        let (svg, html) = (path("figure.svg"), path("figure.html"));
        for out in [&svg, &html] {
            let ended = run(&[&["explain"], arguments, &["--out", out]].concat(), "");
            assert_eq!((ended.code, &*ended.stdout), (Some(0), ""), "{}", ended.stderr);
            assert_eq!(ended.stderr, format!("written: {out}\n"));
            let text = fs::read_to_string(out).unwrap();
            for word in words {
                assert!(text.contains(word), "no `{word}` in {text}");
            }
        }
        assert!(fs::read_to_string(&svg).unwrap().starts_with("<svg "));
        let html = fs::read_to_string(&html).unwrap();
        assert!(html.starts_with("<!doctype html>") && html.contains("default-src 'none'"));
        assert!(html.contains("Attention Is All You Need"));
    }
}

#[test]
fn figures_of_impossible_sizes_are_refused() {
    for (arguments, words) in [
        (&["positions", "--out", "a.gif"][..], &["`a.gif`", ".svg", "hint: "][..]),
        (&["positions", "--out", "a.svg", "--d-model", "7"], &["`--d-model` = 7"]),
        (&["positions", "--out", "a.svg", "--d-model", "0"], &["`--d-model` = 0"]),
        (&["positions", "--out", "a.svg", "--positions", "9999999999"], &["`--positions`"]),
        (&["positions", "--out", "a.svg", "--d-model", "18446744073709551614"], &["`--positions`"]),
        (&["positions", "--out", "a.svg", "--features", "128"], &["`--features` = 128"]),
        (&["masks", "--out", "a.svg", "--text", &"a ".repeat(60)], &["61 tokens"]),
        (&["smoothing", "--out", "a.svg", "--smoothing", "1"], &["`--smoothing` = 1"]),
        (&["smoothing", "--out", "a.svg", "--smoothing", "nan"], &["`--smoothing` = NaN"]),
        (&["smoothing", "--out", "a.svg", "--vocabulary", "1"], &["`--vocabulary` = 1"]),
    ] {
        run(&[&["explain"], arguments].concat(), "").failed(2, words);
    }
}

#[test]
fn the_values_inside_a_model_are_written_as_a_page_or_json() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (page, json) = (path("inside.html"), path("inside.json"));
    let text = "The <b>cat</b>";
    for out in [&page, &json] {
        let arguments =
            ["explain", "inside", "--model", model(), "--text", text, "--beam", "3", "--out", out];
        let ended = run(&arguments, "");
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(ended.stderr, format!("written: {out}\n"));
    }
    let page = fs::read_to_string(&page).unwrap();
    assert!(
        page.contains("default-src 'none'") && !page.contains("<b>") && !page.contains("import ")
    );
    let value: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let translated = run(&["--model", model(), "--beam", "3", "--text", text], "");
    assert_eq!(value["hypotheses"][0]["text"], translated.stdout.trim_end());
    assert!(value["beam"].as_array().unwrap().iter().all(|step| {
        step.as_array().unwrap().iter().filter(|it| it["outcome"] == "kept").count() <= 3
    }));

    let inside = |arguments: &[&str]| {
        run(&[&["explain", "inside", "--model", model(), "--text", "a"], arguments].concat(), "")
    };
    inside(&["--out", &json, "--ablate", "encoder.9"]).failed(2, &["the model has no encoder.9"]);
    inside(&["--out", &json, "--ablate", "cross.1"]).failed(2, &["`cross.1`", "`cross.2.4`"]);
    inside(&["--out", "a.svg"]).failed(2, &["`a.svg`", ".html or .json"]);
    inside(&["--out", &json, "--sample"]).failed(2, &["`sampling` has no beam"]);
    inside(&["--out", &json, "--mbr", "chrf"]).failed(2, &["`--mbr` conflicts"]);
    inside(&["--out", &json, "--target", "b", "--beam", "2"]).failed(2, &["`--target` conflicts"]);
}
