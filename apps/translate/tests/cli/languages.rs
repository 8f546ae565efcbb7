//! Multilingual models, and the search options of a bundle.

use serde_json::Value;
use tempfile::TempDir;
use tx_infer::{
    Aligner, AlignmentOptions, Bundle, Device, LanguagePlacement, SearchOptions, Translator,
};

use crate::{bundle, file, model, multilingual, run};

/// Saves a multilingual bundle; also returns its path.
fn saved(placement: LanguagePlacement) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    multilingual(placement).save(folder.path()).unwrap();
    let path = folder.path().to_str().unwrap().to_owned();
    (folder, path)
}

fn german(path: &str) -> Translator {
    let translator = Translator::open(path, &Device::Cpu).unwrap();
    let source = translator.texts().languages().unwrap().source.first().cloned();
    translator.with_languages(source.as_deref(), Some("de")).unwrap()
}

#[test]
fn languages_are_selected_by_arguments_or_typed() {
    let (_folder, path) = saved(LanguagePlacement::TargetInSource);
    let expected = german(&path).translate("one two").unwrap().text;
    let selected = run(&["--model", &path, "--target-lang", "de"], "one two\n").printed();
    assert_eq!(selected, format!("{expected}\n"));
    let typed = run(&["--model", &path], ">>de<< one two\n").printed();
    assert_eq!(typed, selected);
    let none = run(&["--model", &path], "one two\n");
    none.failed(2, &["no target language is selected; the model has de, en", "--target-lang CODE"]);

    let (_folder, path) = saved(LanguagePlacement::BothSides);
    let arguments = ["--model", &path, "--source-lang", "de", "--target-lang", "de", "--json"];
    let json: Value = serde_json::from_str(&run(&arguments, "one two\n").printed()).unwrap();
    let found = german(&path).translate("one two").unwrap();
    assert_eq!(json["text"], *found.text);
    assert_eq!(json["translations"][0]["tokens"][0], "__de__");
    assert!(!found.text.contains("__de__"));
}

#[test]
fn unknown_languages_are_refused() {
    let (_folder, path) = saved(LanguagePlacement::BothSides);
    let run = |arguments: &[&str]| run(&[&["--model", &path], arguments].concat(), "one\n");
    run(&["--target-lang", "den"]).failed(
        2,
        &["the model has no target language `den`; the nearest is `de`", "translate inspect"],
    );
    run(&["--source-lang", "xx", "--target-lang", "de"]).failed(2, &["source language `xx`"]);
    let plain = crate::run(&["--model", model(), "--target-lang", "de"], "one\n");
    plain.failed(2, &["the model has no languages to select"]);
}

#[test]
fn forced_decoding_alignments_and_attention_have_the_tokens() {
    let (folder, path) = saved(LanguagePlacement::BothSides);
    let languages = ["--source-lang", "de", "--target-lang", "en"];
    let source = file(&folder, "source", "one two\n");
    let target = file(&folder, "target", "three one two\n");
    let translator = german(&path).with_languages(None, Some("en")).unwrap();

    let pair = ["--model", &path, "--source", &source, "--target", &target];
    let json = run(&[&["force"], &pair[..], &languages, &["--json", "--quiet"]].concat(), "");
    let json: Value = serde_json::from_str(&json.printed()).unwrap();
    assert_eq!(
        (&json["tokens"][0], &json["log_probabilities"][0]),
        (&"__en__".into(), &0.0.into())
    );
    let expected = translator.score(&[("one two", "three one two")], 0).unwrap();
    assert_eq!(json["ids"], serde_json::json!(expected[0].ids));

    let aligned = run(&[&["align"], &pair[..], &languages].concat(), "").printed();
    let texts = translator.texts();
    let tokens = (texts.source("one two").unwrap(), texts.target("three one two").unwrap());
    let aligner = Aligner::new(translator.engine().clone(), AlignmentOptions::default());
    assert_eq!(aligned, format!("{}\n", aligner.align(&[tokens])[0].pharaoh()));

    let out = folder.path().join("attention.json");
    let out = out.to_str().unwrap();
    let attention = ["attention", "--model", &path, "--text", "one two", "--out", out, "--quiet"];
    run(&[&attention[..], &languages].concat(), "").printed();
    let json: Value = serde_json::from_str(&std::fs::read_to_string(out).unwrap()).unwrap();
    assert_eq!(json["source"]["tokens"], serde_json::json!(["__de__", "one", "two", "<eos>"]));
    assert_eq!(json["target"]["tokens"][0], "__en__");
    assert_eq!(json["source"]["words"], serde_json::json!(["one", "two"]));

    let short = ["--source-len", "4", "--target-len", "4", "--rounds", "1", "--sentences", "2"];
    let bench = run(&[&["bench", "--model", &path], &short[..], &languages].concat(), "");
    assert_eq!(bench.code, Some(0), "{}", bench.stderr);
}

#[test]
fn inspect_lists_languages_and_search_options() {
    let folder = tempfile::tempdir().unwrap();
    let mut bundle = multilingual(LanguagePlacement::BothSides);
    bundle.search = Some(SearchOptions { beam: 6, n_best: 2, ..SearchOptions::default() });
    bundle.save(folder.path()).unwrap();
    let inspect = |arguments: &[&str]| {
        let path = folder.path().to_str().unwrap();
        run(&[&["inspect", "--model", path], arguments].concat(), "").printed()
    };
    let text = inspect(&[]);
    for line in [
        "\nlanguages\n",
        "  placement                  both-sides\n",
        "  token                      __{}__\n",
        "  target                     2: de en\n",
        "\nsearch\n",
        "  beam                       6\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let json: Value = serde_json::from_str(&inspect(&["--json"])).unwrap();
    assert_eq!(json["languages"]["source"], serde_json::json!(["de", "en"]));
    assert_eq!((&json["search"]["beam"], &json["format"]), (&6.into(), &2.into()));
}

/// The search options of a bundle are the defaults, and an argument replaces its own option only.
#[test]
fn the_search_options_of_a_bundle_are_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let search = SearchOptions {
        beam: 3,
        n_best: 3,
        length_penalty: 0.0,
        max_len: Some(5),
        ..SearchOptions::default()
    };
    let mut saved = bundle("one two three four five six seven");
    saved.search = Some(search.clone());
    saved.save(folder.path()).unwrap();
    let path = folder.path().to_str().unwrap();
    let expected = |options: &SearchOptions| {
        let translator = Translator::new(Bundle::open(path).unwrap(), &Device::Cpu).unwrap();
        let found = translator.with_options(options.clone()).unwrap().translate("one").unwrap();
        let ids = found.hypotheses.into_iter().map(|found| found.hypothesis.ids);
        ids.collect::<Vec<_>>()
    };
    for (arguments, options) in [
        (&[][..], search.clone()),
        (&["--max-len", "3"], SearchOptions { max_len: Some(3), ..search.clone() }),
        (&["--beam", "2"], SearchOptions { beam: 2, n_best: 2, ..search.clone() }),
        (&["--beam", "1"], SearchOptions { beam: 1, n_best: 1, ..search.clone() }),
    ] {
        let json = run(&[&["--model", path, "--json"], arguments].concat(), "one\n").printed();
        let json: Value = serde_json::from_str(&json).unwrap();
        let found: Vec<Vec<u32>> = json["translations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|found| serde_json::from_value(found["ids"].clone()).unwrap())
            .collect();
        assert_eq!(found, expected(&options), "{arguments:?}");
    }
}
