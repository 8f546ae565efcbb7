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
