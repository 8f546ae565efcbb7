//! The fixture bundle on the packed engine, in builds with and without Burn.

use std::{fs, path::Path};

use serde_json::Value;
use tx_text::{NormalForm, Normalization, Tokenizer};

use super::*;
use crate::{
    Bundle, Device,
    alignment::{Aligner, AlignmentOptions},
    attention::{Attention, AttentionKind},
    check::{LIMIT, check},
    precision::Precision,
    tokens::Tokens,
};

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

/// The record has two hypotheses for each of several texts, as `tests/bundle_formats.rs` wrote
/// them.
#[test]
fn translations_equal_the_record() {
    let record = fs::read_to_string(fixture("bundle-v1.json")).unwrap();
    let record: Vec<Value> = serde_json::from_str(&record).unwrap();
    let options = SearchOptions { beam: 3, n_best: 2, max_repeats: 0, ..SearchOptions::default() };
    let translator = Translator::open(fixture("bundle-v1"), &Device::Cpu).unwrap();
    let translator = translator.with_options(options).unwrap();
    for expected in record {
        let source = expected["source"].as_str().unwrap();
        let found = translator.translate(source).unwrap();
        let hypotheses = expected["hypotheses"].as_array().unwrap();
        assert_eq!(found.hypotheses.len(), hypotheses.len(), "{source}");
        for (found, expected) in found.hypotheses.iter().zip(hypotheses) {
            assert_eq!(expected["text"], *found.text, "{source}");
            let gap = expected["score"].as_f64().unwrap() - f64::from(found.hypothesis.score);
            assert!(gap.abs() < 1e-4, "{source}: {gap}");
            let pair = [(source, &found.text)];
            assert!(translator.score(&pair, 0).unwrap()[0].log_probability() < 0.0);
        }
    }
}

/// The tokenizers of the bundle record no normalization. Recorded ones read such text in the same way.
#[test]
fn invisible_characters_change_no_result() {
    let clean = Normalization { form: NormalForm::Nfc, spaces: true, markup: false };
    let bundle = Bundle::open(fixture("bundle-v1")).unwrap();
    assert_eq!(bundle.tokenizers.source.normalization(), None);
    let mut recorded = bundle.clone();
    recorded.tokenizers = recorded.tokenizers.with_steps_of(clean);
    let marked = "\u{feff}the c\u{ad}at\u{a0}sleeps\u{200b} .";
    for bundle in [bundle, recorded] {
        let tokens = Tokens::of_source(&bundle.tokenizers.source, marked, 24).unwrap();
        assert_eq!(tokens.words, ["\u{feff}the", "c\u{ad}at", "sleeps\u{200b}", "."]);
        let mut words: Vec<usize> = tokens.word_of.iter().flatten().copied().collect();
        words.dedup();
        assert_eq!(words, [0, 1, 2, 3]);
        let translator = Translator::new(bundle, &Device::Cpu).unwrap();
        let found = translator.translate(marked).unwrap();
        assert_eq!(found, translator.translate("the cat sleeps .").unwrap());
        assert!(found.unknown.is_empty() && !found.text.is_empty());
        let target =
            [(marked, "il gat\u{2060}to dorme ."), ("the cat sleeps .", "il gatto dorme .")];
        let scores = translator.score(&target, 0).unwrap();
        assert_eq!(scores[0].log_probability(), scores[1].log_probability());
        for blank in ["\u{200b}", "\u{feff} \u{ad}", "\0", "\u{202e}\u{2069}"] {
            let found = translator.translate(blank).unwrap();
            assert_eq!(found.text, "", "{blank:?}");
        }
    }
}

/// The vocabulary has no capitals. The tokenizer lowers them itself, so its step is removed.
#[test]
fn a_text_in_capitals_has_the_translation_of_its_lower_case_in_capitals() {
    let mut bundle = Bundle::open(fixture("bundle-v1")).unwrap();
    let text = "THE CAT SLEEPS .";
    let lowering = Translator::new(bundle.clone(), &Device::Cpu).unwrap();
    assert_eq!(lowering.texts().read(text).unwrap(), text);
    let mut json: Value =
        serde_json::from_str(&bundle.tokenizers.source.to_json().unwrap()).unwrap();
    let steps = json["normalizer"]["normalizers"].as_array_mut().unwrap();
    steps.retain(|step| step["type"] != "Lowercase");
    let json = json.to_string();
    bundle.tokenizers.source = Tokenizer::from_json(json.as_bytes(), Path::new("test")).unwrap();
    let translator = Translator::new(bundle, &Device::Cpu).unwrap();
    let read = translator.texts().read(text).unwrap();
    assert_eq!(read, "the cat sleeps .");
    let [found, expected] = [text, &read].map(|text| translator.translate(text).unwrap());
    assert_eq!(found.text, expected.text.to_uppercase());
    assert_eq!(found.hypotheses[0].hypothesis, expected.hypotheses[0].hypothesis);
    assert!(found.text.contains(char::is_uppercase) && found.unknown.is_empty());
    let tokens = [text, &read].map(|text| translator.texts().source(text).unwrap());
    assert_eq!(tokens[0], tokens[1]);
    let scores = [text, &read].map(|text| translator.score(&[(text, "il gatto")], 0).unwrap());
    assert_eq!(scores[0][0].log_probability(), scores[1][0].log_probability());

    let (greedy, never) = (SearchOptions::greedy(), Cancellation::new());
    let (line, mut parts) = (Line::new(text, 0), String::new());
    let show = |part: &str| parts.push_str(part);
    let streamed = translator.translate_streaming(&line, &greedy, &never, show).unwrap();
    assert_eq!(parts, streamed.text);

    let kept = translator.with_reading(Reading::AsWritten);
    assert_ne!(kept.texts().source(text).unwrap().ids, tokens[0].ids);
}

#[test]
fn attention_alignments_and_checks_need_no_module() {
    let bundle = Bundle::open(fixture("bundle-v1")).unwrap();
    let tokenizers = &bundle.tokenizers;
    let source = Tokens::of_source(&tokenizers.source, "the cat sleeps .", 24).unwrap();
    let target = Tokens::of_target(&tokenizers.target, "il gatto dorme .", 24).unwrap();
    let engine = bundle.engine(&Device::Cpu).unwrap();
    let attention = Attention::of(&engine, source.clone(), target.clone());
    for kind in AttentionKind::ALL {
        for map in attention.layers(kind).concat() {
            assert!(map.rows().all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-5), "{kind:?}");
        }
    }
    let (layer, cross) = (engine.alignment_layer(), AttentionKind::Cross);
    let whole = attention.map(cross, layer, None).unwrap();
    for layer in [None, Some(layer + 1)] {
        let map = engine.cross_attention(&source.ids, &target.ids, layer);
        assert_eq!(map.columns, whole.columns);
        assert!(map.weights.iter().zip(&whole.weights).all(|(a, b)| (a - b).abs() < 1e-6));
        assert_eq!(map.weights.len(), whole.weights.len());
    }
    let pairs = [(source, target), (Tokens::default(), Tokens::default())];
    let aligned = Aligner::new(engine, AlignmentOptions::default()).align(&pairs);
    assert_eq!((aligned[0].links().len(), aligned[1].links().len()), (4, 0));

    let results = check(&bundle, &Device::Cpu, LIMIT).unwrap();
    assert_eq!(results.len(), if cfg!(feature = "burn") { 10 } else { 9 });
    assert!(results.iter().all(|result| result.passed()), "{results:?}");

    assert!(bundle.engine_in(Precision::F32, &Device::Cpu).is_ok());
    let half = bundle.engine_in(Precision::Bf16, &Device::Cpu);
    assert_eq!(half.is_ok(), cfg!(feature = "burn"));
    if let Err(error) = half {
        assert!(error.to_string().contains("the feature `burn`"), "{error}");
    }
}

#[test]
fn a_canceled_text_has_no_translation_and_the_others_have_theirs() {
    let translator = Translator::open(fixture("bundle-v1"), &Device::Cpu).unwrap();
    let texts = ["the cat sleeps .", "the dog eats", "", "the house"];
    let alone = translator.translate_batch(&texts).unwrap();
    let (gone, stays, never) = (Cancellation::new(), Cancellation::new(), Cancellation::new());
    gone.cancel();
    let flags = [&stays, &gone, &gone, &stays].map(Some);
    let lines = texts.iter().zip(flags).zip(0..);
    let lines = lines
        .map(|((text, cancellation), number)| Line { cancellation, ..Line::new(text, number) });
    let lines: Vec<Line<'_>> = lines.collect();
    let mut found = Vec::new();
    let sink = |ready| {
        found.extend::<Vec<Translation>>(ready);
        Ok::<_, InferError>(())
    };
    translator.translate_lines(&lines, translator.options(), &never, sink).unwrap();
    let none = Translation::default();
    assert_eq!(found, [alone[0].clone(), none.clone(), none, alone[3].clone()]);
}

/// The bundle reads 24 tokens. Sentences are translated as alone, and a long one is divided.
#[test]
fn sentences_of_a_text_are_translated_as_alone() {
    let translator = Translator::open(fixture("bundle-v1"), &Device::Cpu).unwrap();
    let text = " the cat sleeps .\n\nThe cat eats.  ";
    let found = translator.translate_text(text).unwrap();
    let alone = translator.translate_batch(&["the cat sleeps .", "The cat eats."]).unwrap();
    assert_eq!(found.text, format!(" {}\n\n{}  ", alone[0].text, alone[1].text));
    assert_eq!(found.sentences.len(), 2);
    assert_eq!(found.sentences[1].span, 19..32);

    let clause = "the cat sleeps and the dog eats";
    let long = [clause; 20].join(", ") + ".";
    let found = translator.translate_text(&long).unwrap();
    assert!(found.sentences.len() > 5 && !found.truncated());
    for part in &found.sentences {
        assert!(!translator.translate(&long[part.span.clone()]).unwrap().truncated);
    }
    let word = translator.translate_text(&"猫".repeat(1000)).unwrap();
    assert_eq!(word.sentences.len(), 1);
    assert_eq!(translator.translate_text("").unwrap(), TextTranslation::default());
}

/// The weights are random, so the model never uses these words by itself.
#[test]
fn terms_of_a_glossary_are_in_the_translation() {
    let translator = Translator::open(fixture("bundle-v1"), &Device::Cpu).unwrap();
    let texts = ["the cat sleeps .", "The dog and the cat .", "we sleep ."];
    let plain = translator.translate_batch(&texts).unwrap();
    let pairs = [("cat", "gatto"), ("dog", "dorme"), ("the dog", "il gatto")];
    let glossary = Arc::new(Glossary::new(pairs).unwrap());
    let with = translator.clone().with_glossary(glossary.clone());
    let found = with.translate_batch(&texts).unwrap();
    let terms = |index: usize| -> Vec<(&str, &str, bool)> {
        let terms = found[index].terms.iter();
        terms.map(|term| (&*term.source, &*term.target, term.is_used)).collect()
    };
    assert_eq!(terms(0), [("cat", "gatto", true)]);
    assert_eq!(terms(1), [("The dog", "il gatto", true), ("cat", "gatto", true)]);
    for (text, found) in texts.iter().zip(&found) {
        let count = glossary.count(text, &found.text);
        assert_eq!(count.terms, count.translated, "{text}: {}", found.text);
    }
    // A text without terms has the same translation, alone and beside others.
    assert_eq!(terms(2), []);
    assert_eq!(found[2].text, plain[2].text);
    assert_eq!(with.translate(texts[2]).unwrap(), translator.translate(texts[2]).unwrap());
    assert!(plain.iter().all(|found| found.terms.is_empty()));
    for options in
        [SearchOptions::greedy(), SearchOptions { groups: 2, ..SearchOptions::default() }]
    {
        let error = with.translate_batch_with(&texts, &options, &Cancellation::new()).unwrap_err();
        assert!(matches!(error, InferError::Search { .. }), "{error}");
    }
}
