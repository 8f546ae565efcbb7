//! Models of CTranslate2: translations, scores and log-probabilities as CTranslate2 gives them
//! (`fixtures/ctranslate2/generate.py`), packages of Argos Translate, and export back.

#![allow(
    clippy::unwrap_used,
    reason = "clippy recognizes test functions as tests, but not their helpers"
)]

use std::{
    fs,
    io::{Cursor, Read, Write},
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use tempfile::TempDir;
use tx_convert::{
    ExportFormat, ImportFormat,
    export::export,
    import::{ImportOptions, import, import_with},
};
use tx_infer::{
    Bundle, Cancellation, Device, LanguagePlacement, ModelTask, SearchOptions, Translator,
    search::Request,
};
use tx_model::{
    Activation, DecoderStart, NormPlacement, Normalization, Positions, SinusoidFormula, Tying,
};
use tx_text::special::{BOS, EOS, UNK};
use zip::{ZipWriter, write::SimpleFileOptions};

const MODELS: [&str; 4] = ["pre", "post", "gated", "final"];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/ctranslate2")
}

fn bundle(from: &Path) -> (TempDir, Bundle) {
    let output = tempfile::tempdir().unwrap();
    import(from, None).unwrap().save(output.path()).unwrap();
    let bundle = Bundle::open(output.path()).unwrap();
    (output, bundle)
}

fn cases(name: &str) -> Vec<Value> {
    let cases: Value =
        serde_json::from_slice(&fs::read(fixtures().join("cases.json")).unwrap()).unwrap();
    cases[name].as_array().unwrap().clone()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|token| token.as_str().unwrap()).collect()
}

#[test]
fn translations_and_scores_are_those_of_ctranslate2() {
    for name in MODELS {
        let (_output, bundle) = bundle(&fixtures().join(name));
        let engine = bundle.engine(&Device::Cpu).unwrap();
        let target = &bundle.tokenizers.target;
        for case in cases(name) {
            let text = case["source"].as_str().unwrap();
            let source = bundle.tokenizers.source.encode(text).unwrap();
            let tokens = texts(&case["tokens"]);
            let Some(beam) = case["beam"].as_u64() else {
                let ids = tokens.iter().map(|token| target.id(token).unwrap());
                let ids: Vec<u32> = ids.chain([EOS]).collect();
                let pair = [(source.as_slice(), ids.as_slice())];
                let scores = engine.log_probabilities(&pair, &Cancellation::new()).unwrap();
                for (score, expected) in scores[0].iter().zip(texts_of_numbers(&case)) {
                    let error = (f64::from(*score) - expected).abs();
                    assert!(error <= 1e-4, "{name}: {score} and {expected}: {text}");
                }
                assert_eq!(scores[0].len(), ids.len());
                continue;
            };
            let options = SearchOptions {
                beam: beam as usize,
                length_penalty: 0.0,
                max_len: Some(12),
                min_len: 0,
                ..bundle.search.clone().unwrap()
            };
            let found = engine.search(&[source.as_slice()], &options).unwrap().remove(0).remove(0);
            let ids = found.ids.iter().filter(|id| **id != EOS);
            let found_tokens: Vec<String> = ids.map(|&id| target.token(id).unwrap()).collect();
            assert_eq!(found_tokens, tokens, "{name}, beam {beam}: {text}");
            let score = case["score"].as_f64().unwrap();
            let error = (f64::from(found.score) - score).abs();
            assert!(error <= 1e-4, "{name}, beam {beam}: {} and {score}: {text}", found.score);
        }
    }
}

/// Greedy continuations and log-probabilities of all tokens after `<bos>`.
#[test]
fn language_models_continue_texts_as_in_ctranslate2() {
    for name in ["opt", "llama", "mpt"] {
        let (_output, bundle) = bundle(&fixtures().join(name));
        assert_eq!(bundle.task, ModelTask::Generate);
        let engine = bundle.engine(&Device::Cpu).unwrap();
        let tokenizer = &bundle.tokenizers.target;
        let id = |token: &str| tokenizer.id(token).unwrap();
        for case in cases(name) {
            let prompt: Vec<u32> =
                case["prompt"].as_str().unwrap().split_whitespace().map(id).collect();
            let scored = [&prompt[..], &[id("cat"), id(".")]].concat();
            let scores =
                engine.log_probabilities(&[(&[][..], &scored[..])], &Cancellation::new()).unwrap();
            let expected = texts_of_numbers(&case);
            assert_eq!(scores[0].len(), expected.len());
            for (score, expected) in scores[0].iter().zip(expected) {
                assert!(
                    (f64::from(*score) - expected).abs() <= 1e-4,
                    "{name}: {score}, {expected}"
                );
            }
            let tokens = texts(&case["tokens"]);
            let options = SearchOptions {
                beam: 1,
                max_len: Some((prompt.len() + tokens.len()).max(1)),
                min_len: 0,
                max_repeats: 0,
                ..SearchOptions::default()
            };
            let request = Request { prefix: &prompt, ..Request::new(&[], 0) };
            let found = engine.search_requests(&[request], &options, &Cancellation::new()).unwrap();
            let found: Vec<String> = found[0][0].ids[prompt.len()..]
                .iter()
                .filter(|id| **id != EOS)
                .map(|&id| tokenizer.token(id).unwrap())
                .collect();
            assert_eq!(found, tokens, "{name}: {}", case["prompt"]);
        }
    }
}

#[test]
fn the_configuration_of_a_language_model_is_that_of_the_model() {
    let find = |name: &str| import(&fixtures().join(name), None).unwrap().config;
    let (opt, llama) = (find("opt"), find("llama"));
    assert_eq!(
        (opt.norm, opt.positions, opt.max_len),
        (NormPlacement::Pre, Positions::Learned, 24)
    );
    assert_eq!((opt.activation, opt.decoder_layers), (Activation::Relu, 2));
    assert!(opt.tying.ties_projection() && opt.attention_bias && opt.feed_forward_bias);
    assert_eq!(find("mpt").positions, Positions::Alibi);
    assert_eq!((llama.positions, llama.activation), (Positions::Rotary, Activation::Gated));
    assert_eq!((llama.normalization, llama.norm_epsilon), (Normalization::Rms, 1e-6));
    assert!(!llama.tying.ties_projection() && !llama.attention_bias && !llama.feed_forward_bias);
}

fn texts_of_numbers(case: &Value) -> Vec<f64> {
    let numbers = case["log_probabilities"].as_array().unwrap();
    numbers.iter().map(|number| number.as_f64().unwrap()).collect()
}

#[test]
fn the_configuration_is_that_of_the_model() {
    let find = |name: &str| import(&fixtures().join(name), None).unwrap();
    let pre = find("pre");
    assert_eq!(pre.format, ImportFormat::CTranslate2);
    assert_eq!((pre.config.norm, pre.config.tying), (NormPlacement::Pre, Tying::All));
    assert_eq!(pre.config.decoder_start, DecoderStart::Bos);
    assert_eq!(pre.config.sinusoids.first, 1);
    let post = find("post");
    assert_eq!((post.config.norm, post.config.tying), (NormPlacement::Post, Tying::None));
    assert_eq!((post.config.activation, post.config.max_len), (Activation::Gelu, 40));
    assert_eq!(post.config.decoder_start, DecoderStart::Eos);
    // The table has the values of Marian's sinusoids.
    assert_eq!(post.config.positions, Positions::Sinusoidal);
    assert_eq!(post.config.sinusoids.formula, SinusoidFormula::Paper);
    let gated = find("gated");
    assert_eq!((gated.config.activation, gated.config.norm_epsilon), (Activation::Gated, 1e-6));
    assert_eq!(find("final").config.norm, NormPlacement::PostFinal);
    for (import, ends) in [(&pre, [false; 2]), (&post, [false, true]), (&gated, [true, false])] {
        let ids = import.tokenizers.source.encode("dog").unwrap();
        assert_eq!([ids.first() == Some(&BOS), ids.last() == Some(&EOS)], ends);
        assert_eq!(
            import.tokenizers.source.encode("").unwrap().len(),
            ends.map(usize::from).iter().sum::<usize>().max(1)
        );
    }
    assert_eq!(pre.tokenizers.source.encode("").unwrap(), [UNK]);
    let options = ImportOptions { source_eos: Some(true), ..ImportOptions::default() };
    let with = import_with(&fixtures().join("pre"), None, &options).unwrap();
    assert_eq!(with.tokenizers.source.encode("dog").unwrap().last(), Some(&EOS));
}

/// Sources without `<eos>` stay so in the bundle.
#[test]
fn an_exported_model_is_imported_again() {
    for name in MODELS {
        let (_output, first) = bundle(&fixtures().join(name));
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("model");
        export(&first, ExportFormat::CTranslate2, &folder).unwrap();
        let (_again, second) = bundle(&folder);
        let text = "the dog sees";
        let encode = |bundle: &Bundle| bundle.tokenizers.source.encode(text).unwrap();
        assert_eq!(encode(&first), encode(&second), "{name}");
        for name in first.weight_names() {
            assert_eq!(first.weight(name).unwrap().1, second.weight(name).unwrap().1, "{name}");
        }
        assert_eq!(first.config, second.config);
    }
}

/// A SentencePiece model and its pieces, except for the special ones.
fn pieces() -> (Vec<u8>, Vec<String>) {
    let path = fixtures().parent().unwrap().join("transformers/bpe.model.gz");
    let mut model = Vec::new();
    GzDecoder::new(fs::File::open(path).unwrap()).read_to_end(&mut model).unwrap();
    let mut pieces = tx_text::sentencepiece_pieces(&model).unwrap();
    pieces.retain(|piece| !["<s>", "</s>", "<unk>"].contains(&piece.as_str()));
    (model, pieces)
}

/// A package with its folder, as Argos Translate unpacks it, and as one file.
#[test]
fn packages_have_languages_and_search_options() {
    let (model, pieces) = pieces();
    // The vocabulary of the fixture has eleven words; the package has as many pieces instead.
    let special = ["<blank>", "<s>", "</s>", "<unk>"].map(str::to_owned);
    let vocabulary: Vec<String> = special.into_iter().chain(pieces).take(15).collect();
    let metadata = json!({ "from_code": "en", "to_code": "it", "target_prefix": "" });
    let read = |name: &str| fs::read(fixtures().join("pre").join(name)).unwrap();
    let files = [
        ("translate-en_it/metadata.json", metadata.to_string().into_bytes()),
        ("translate-en_it/sentencepiece.model", model),
        ("translate-en_it/model/model.bin", read("model.bin")),
        ("translate-en_it/model/config.json", read("config.json")),
        (
            "translate-en_it/model/shared_vocabulary.json",
            json!(vocabulary).to_string().into_bytes(),
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in &files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        archive.start_file(*name, SimpleFileOptions::default()).unwrap();
        archive.write_all(content).unwrap();
    }
    // Not needed, and deeper than systems permit.
    archive.start_file("d/".repeat(2_000) + "d", SimpleFileOptions::default()).unwrap();
    let file = folder.path().join("en_it.argosmodel");
    fs::write(&file, archive.finish().unwrap().into_inner()).unwrap();
    for from in [folder.path().join("translate-en_it"), file] {
        let (_output, bundle) = bundle(&from);
        let code = |name: &str| bundle.provenance[name].as_str().unwrap();
        assert_eq!((code("source_language"), code("target_language")), ("en", "it"));
        let search = bundle.search.clone().unwrap();
        assert_eq!((search.beam, search.length_penalty, search.replace_unknown), (4, 0.2, true));
        let ids = bundle.tokenizers.source.encode("hello").unwrap();
        assert_ne!(ids.last(), Some(&EOS));
    }
}

/// Words of the fixture are replaced by tokens of languages, of OPUS-MT and of NLLB, and by pieces.
#[test]
fn tokens_of_languages_are_found() {
    let (model, pieces) = pieces();
    for (codes, placement, token, ends) in [
        (&[">>de<<", ">>fr<<"][..], LanguagePlacement::TargetInSource, ">>fr<<", false),
        (
            &["deu_Latn", "eng_Latn", "fra_Latn", "zho_Hans"],
            LanguagePlacement::BothSides,
            "eng_Latn",
            true,
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        for name in ["model.bin", "config.json"] {
            fs::copy(fixtures().join("pre").join(name), folder.path().join(name)).unwrap();
        }
        let special = ["<pad>", "<s>", "</s>", "<unk>"].iter().chain(codes);
        let tokens = special.map(|it| (*it).to_owned()).chain(pieces.iter().cloned());
        let tokens = serde_json::to_string(&tokens.take(15).collect::<Vec<_>>()).unwrap();
        fs::write(folder.path().join("shared_vocabulary.json"), tokens).unwrap();
        fs::write(folder.path().join("sentencepiece.model"), &model).unwrap();
        let (_output, bundle) = bundle(folder.path());
        let languages = bundle.languages.as_ref().unwrap();
        assert_eq!(languages.placement, placement);
        let (source, target) = match placement {
            LanguagePlacement::TargetInSource => (None, "fr"),
            LanguagePlacement::BothSides => (Some("eng_Latn"), "fra_Latn"),
        };
        let translator = Translator::new(&bundle, &Device::Cpu).unwrap();
        let translator = translator.with_languages(source, Some(target)).unwrap();
        let read = translator.texts().source("hello").unwrap();
        assert_eq!(read.tokens[0], token);
        assert_eq!(read.tokens.last().unwrap() == "<eos>", ends);
        // A text within a sentence is not the token of a language.
        let typed = bundle.tokenizers.source.encode(&format!("x {token}")).unwrap();
        assert!(!typed.contains(&bundle.tokenizers.source.special_id(token).unwrap()));
    }
}

#[test]
fn unsupported_options_and_missing_files_are_named() {
    let changed = |name: &str, change: &dyn Fn(&Path)| {
        let folder = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(fixtures().join(name)).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
        }
        change(folder.path());
        import(folder.path(), None).unwrap_err().to_string()
    };
    let in_model = |from: &'static [u8], to: &'static [u8]| {
        move |folder: &Path| {
            let path = folder.join("model.bin");
            let mut bytes = fs::read(&path).unwrap();
            let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
            bytes[at..][..to.len()].copy_from_slice(to);
            fs::write(path, bytes).unwrap();
        }
    };
    let config = |key: &'static str, value: Value| {
        move |folder: &Path| {
            let path = folder.join("config.json");
            let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            config[key] = value.clone();
            fs::write(path, config.to_string()).unwrap();
        }
    };
    // A flag follows its name, the number of dimensions, the type and the length.
    let alibi =
        in_model(b"decoder/alibi\0\0\x01\x01\0\0\0\0", b"decoder/alibi\0\0\x01\x01\0\0\0\x01");
    for (name, change, message) in [
        ("pre", &alibi as &dyn Fn(&Path), "`decoder/alibi` = 1"),
        ("pre", &in_model(b"TransformerSpec", b"TransformerSpex"), "`TransformerSpex`"),
        ("pre", &config("decoder_start_token", Value::Null), "`decoder_start_token` = null"),
        ("pre", &config("multi_query_attention", true.into()), "`multi_query_attention` = true"),
        ("pre", &config("eos_token", "</t>".into()), "no token `</t>`"),
        (
            "pre",
            &|folder: &Path| fs::remove_file(folder.join("shared_vocabulary.json")).unwrap(),
            "no `source_vocabulary.json`",
        ),
        (
            "post",
            &|folder: &Path| fs::write(folder.join("target_vocabulary.json"), "[\"a\"]").unwrap(),
            "no token `</s>`",
        ),
    ] {
        let error = changed(name, change);
        assert!(error.contains(message), "{error}");
    }
}
