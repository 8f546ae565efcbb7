//! Compatibility test: every released bundle format still opens and gives its recorded output.
//!
//! `fixtures/bundle-v<format>/` is a bundle and `fixtures/bundle-v<format>.json` its recorded
//! output: a list of `{ "source", "hypotheses": [{ "text", "ids", "score" }, …] }`. The fixtures of
//! a format are written once, when the format is introduced, by
//!
//! ```text
//! TX_WRITE_FIXTURES=1 cargo test --workspace bundle_formats
//! ```
//!
//! This command writes the fixture of the newest format only.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tx_infer::{
    Bundle, Device, EarlyStopping, LanguagePlacement, Languages, ModelTask, ModuleBundle,
    SearchOptions, Translation, Translator, bundle::FORMAT,
};
use tx_model::{
    Activation, DecoderStart, DropoutConfig, EmbeddingScale, ModelConfig, NormPlacement, Positions,
    SinusoidFormula, SinusoidLayout, Sinusoids, Transformer, Tying, VocabSizes,
};
use tx_text::{Lowercase, SentencePair, Tokenizer, TokenizerConfig, Tokenizers};

use crate::{
    invariants::pattern,
    support::{devices, with_weights},
};

/// Maximum difference of a score from the recorded one; CPUs round differently.
const LIMIT: f64 = 1e-4;

/// Text similar to the training text, other text, and empty text.
const SOURCES: [&str; 5] =
    ["the cat sleeps .", "The dog eats the bread, and sleeps!", "xyz 42", "", "a b c d e f g h"];

#[test]
fn bundles_of_every_format_give_their_recorded_output() {
    if std::env::var_os("TX_WRITE_FIXTURES").is_some() {
        write_fixture();
    }
    for format in 1..=FORMAT {
        for (device_name, device) in devices() {
            let what = format!("format {format} on {device_name}");
            let translator = Translator::open(fixture(format), &device.into()).unwrap();
            let found = search_outputs(translator);
            let expected = fs::read_to_string(record(format)).unwrap();
            let expected: Vec<Value> = serde_json::from_str(&expected).unwrap();
            assert_eq!(found.len(), expected.len(), "{what}");
            for ((source, found), expected) in SOURCES.iter().zip(found).zip(&expected) {
                assert_eq!(expected["source"], *source, "{what}");
                let hypotheses = expected["hypotheses"].as_array().unwrap();
                assert_eq!(found.hypotheses.len(), hypotheses.len(), "{what}: {source}");
                for (found, expected) in found.hypotheses.iter().zip(hypotheses) {
                    assert_eq!(expected["text"], *found.text, "{what}: {source}");
                    assert_eq!(expected["ids"], json!(found.hypothesis.ids), "{what}: {source}");
                    let score = f64::from(found.hypothesis.score);
                    let gap = (expected["score"].as_f64().unwrap() - score).abs();
                    assert!(gap <= LIMIT, "{what}: {source}: {score} and {expected}");
                }
            }
        }
    }
}

#[test]
fn a_bundle_keeps_its_provenance() {
    let bundle = Bundle::open(fixture(1)).unwrap();
    assert_eq!(bundle.provenance["recipe"].as_str(), Some("none"));
    assert_eq!(bundle.provenance["seed"].as_integer(), Some(1));
    assert_eq!(bundle.config, config());
    assert_eq!((bundle.languages, bundle.search), (None, None));
}

#[test]
fn a_bundle_of_format_2_keeps_its_languages_and_search_options() {
    let bundle = Bundle::open(fixture(2)).unwrap();
    assert_eq!(bundle.config, newest_config());
    assert_eq!((bundle.languages, bundle.search), (Some(languages()), Some(search())));
}

fn fixture(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/bundle-v{format}"))
}

fn record(format: u32) -> PathBuf {
    fixture(format).with_extension("json")
}

/// Translations of [`SOURCES`] with two hypotheses each.
fn search_outputs(translator: Translator) -> Vec<Translation> {
    // Options of the first record.
    let options = SearchOptions { beam: 3, n_best: 2, max_repeats: 0, ..SearchOptions::default() };
    translator.with_options(options).unwrap().translate_batch(&SOURCES).unwrap()
}

/// Configuration with explicit values for everything that has a default, so that changed defaults
/// do not matter.
fn config() -> ModelConfig {
    ModelConfig {
        d_model: 8,
        n_heads: 2,
        d_ff: 12,
        encoder_layers: 1,
        decoder_layers: 2,
        max_len: 24,
        norm: NormPlacement::Pre,
        positions: Positions::Learned,
        activation: Activation::Gated,
        tying: Tying::Decoder,
        embedding_scale: EmbeddingScale::Source,
        attention_bias: false,
        dropout: DropoutConfig { embedding: 0.25, ..DropoutConfig::none() },
        ..ModelConfig::default()
    }
}

/// [`config`] with other values for all keys that format 1 does not have.
fn newest_config() -> ModelConfig {
    ModelConfig {
        positions: Positions::Sinusoidal,
        sinusoids: Sinusoids {
            layout: SinusoidLayout::Halves,
            formula: SinusoidFormula::Tensor2tensor,
            first: 2,
        },
        norm_epsilon: 1e-6,
        decoder_start: DecoderStart::Eos,
        ..config()
    }
}

fn languages() -> Languages {
    Languages {
        placement: LanguagePlacement::TargetInSource,
        token: ">>{}<<".into(),
        source: vec!["en".into()],
        target: vec!["it".into(), "fr".into()],
        default_source: None,
        default_target: Some("it".into()),
    }
}

fn search() -> SearchOptions {
    SearchOptions {
        beam: 6,
        length_penalty: 0.75,
        early_stopping: EarlyStopping::Improvement,
        suppress: vec![3],
        ..SearchOptions::default()
    }
}

/// Adds the tokens of [`languages`] to a tokenizer.
fn with_languages(tokenizer: &Tokenizer) -> Tokenizer {
    let mut json: Value = serde_json::from_str(&tokenizer.to_json().unwrap()).unwrap();
    for (code, id) in languages().target.iter().zip(tokenizer.vocab_size()..) {
        json["added_tokens"].as_array_mut().unwrap().push(json!({
            "id": id, "content": languages().token_of(code), "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false, "special": true,
        }));
    }
    Tokenizer::from_json(json.to_string().as_bytes(), "languages".as_ref()).unwrap()
}

/// Writes the fixture of the newest format.
fn write_fixture() {
    let talkative = |bundle: &ModuleBundle| {
        let found = search_outputs(Translator::from_module(bundle, &Device::Cpu));
        let lengths =
            found.iter().filter_map(|found| Some(found.hypotheses.first()?.hypothesis.ids.len()));
        lengths.clone().all(|length| (4..20).contains(&length)) && lengths.count() == 4
    };
    // Untrained weights mostly repeat one word; this is the first bundle that does not.
    let bundle = (0..10_000).map(random_bundle).find(talkative).unwrap();
    bundle.save(fixture(FORMAT)).unwrap();
    let said: Vec<Value> = search_outputs(Translator::from_module(&bundle, &Device::Cpu))
        .iter()
        .zip(SOURCES)
        .map(|(found, source)| {
            let hypotheses: Vec<Value> = found
                .hypotheses
                .iter()
                .map(|found| {
                    let tx_infer::Hypothesis { ids, score, .. } = &found.hypothesis;
                    json!({ "text": found.text, "ids": ids, "score": score })
                })
                .collect();
            json!({ "source": source, "hypotheses": hypotheses })
        })
        .collect();
    fs::write(record(FORMAT), format!("{:#}\n", Value::Array(said))).unwrap();
}

/// Bundle with weights computed from their path and `seed`, and byte-pair tokenizers trained on
/// four sentences.
fn random_bundle(seed: u32) -> ModuleBundle {
    let pairs = [
        ("the cat sleeps .", "il gatto dorme ."),
        ("the dog eats the bread .", "il cane mangia il pane ."),
        ("the cat eats, and sleeps !", "il gatto mangia, e dorme !"),
        ("does the dog sleep ?", "il cane dorme ?"),
    ]
    .map(|(source, target)| SentencePair::new(source, target));
    let tokenizer = TokenizerConfig {
        vocab_size: 48,
        joint: false,
        source_bos: true,
        lowercase: Lowercase::Both,
        ..TokenizerConfig::default()
    };
    let Tokenizers { source, target } = Tokenizers::train(&tokenizer, &pairs).unwrap();
    let tokenizers = Tokenizers { source: with_languages(&source), target };
    let vocab = VocabSizes {
        source: tokenizers.source.vocab_size(),
        target: tokenizers.target.vocab_size(),
    };
    let (_, device) = &devices()[0];
    let config = newest_config();
    let model = Transformer::new(&config, vocab, device).unwrap();
    ModuleBundle {
        model: with_weights(model, |path, shape| pattern(&format!("{seed} {path}"), shape)),
        task: ModelTask::Translate,
        config,
        tokenizers,
        languages: Some(languages()),
        context: 0,
        search: Some(search()),
        lexicon: None,
        provenance: "recipe = \"none\"\nseed = 1\n\n[validation]\nbleu = 0.0\n".parse().unwrap(),
    }
}
