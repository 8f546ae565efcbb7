//! Hostile bundles: for any content of its files, a bundle opens and translates, or opening returns
//! an error. Nothing panics, hangs, or allocates more memory than the files justify.
//!
//! `mutated.rs` mutates bundles at random; this file and `one_text.rs` have hand-written cases.

mod mutated;
mod one_text;

use std::{
    fs,
    path::Path,
    process::abort,
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use burn::tensor::Device;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tx_infer::{
    Aligner, AlignmentOptions, Bundle, BundleInfo, Classifier, EarlyStopping, FillMask, Generator,
    InferError, LanguagePlacement, Languages, ModelTask, ModuleBundle, SearchOptions, TaskKind,
    Translator,
};
use tx_model::{
    Activation, DropoutConfig, ModelConfig, NormPlacement, Positions, Transformer, Tying,
    VocabSizes,
};
use tx_text::{SentencePair, Tokenizer, TokenizerConfig, TokenizerKind, Tokenizers};

const CONFIG: &str = "config.toml";
const WEIGHTS: &str = "model.safetensors";
const TOKENIZERS: [&str; 2] = ["source.tokenizer.json", "target.tokenizer.json"];
/// Tokenizer of a task with one text.
const TOKENIZER: &str = "tokenizer.json";
const PROVENANCE: &str = "provenance.toml";

const CPU: tx_infer::Device = tx_infer::Device::Cpu;

/// Texts to translate: known words, unknown words, several scripts, empty text, and many kinds of
/// punctuation.
const TEXTS: [&str; 4] =
    ["the cat sleeps .", "", "ﬁ １ 日本 😀 \u{feff} e\u{301}", "<eos>▁▁ #\0\n"];

const PAIRS: [(&str, &str); 2] = [
    ("the cat sleeps . the dog reads", "il gatto dorme . il cane legge"),
    ("a house, a car and a tree", "una casa, una macchina e un albero"),
];

/// Minimal model with these options.
fn bundle(
    kind: TokenizerKind,
    positions: Positions,
    norm: NormPlacement,
    tying: Tying,
) -> ModuleBundle {
    let device = Device::flex();
    let pairs = PAIRS.map(|(source, target)| SentencePair::new(source, target));
    let tokenizers = Tokenizers::train(
        &TokenizerConfig { kind, vocab_size: 70, ..TokenizerConfig::default() },
        &pairs,
    );
    let tokenizers = tokenizers.unwrap();
    let config = ModelConfig {
        d_model: 4,
        n_heads: 2,
        d_ff: 4,
        encoder_layers: 1,
        decoder_layers: 1,
        max_len: 12,
        norm,
        positions,
        activation: Activation::Gated,
        tying,
        dropout: DropoutConfig::none(),
        ..ModelConfig::default()
    };
    let vocab = VocabSizes {
        source: tokenizers.source.vocab_size(),
        target: tokenizers.target.vocab_size(),
    };
    device.seed(7);
    let model = Transformer::new(&config, vocab, &device).unwrap();
    let provenance = toml::Table::from_iter([("seed".to_owned(), toml::Value::Integer(1))]);
    ModuleBundle {
        model,
        task: ModelTask::Translate,
        config,
        tokenizers,
        languages: None,
        context: 0,
        search: None,
        lexicon: None,
        provenance,
    }
}

/// Adds the languages `a` and `b` and search options to a bundle.
fn multilingual(bundle: ModuleBundle, placement: LanguagePlacement) -> ModuleBundle {
    let codes = ["a", "b"].map(str::to_owned).to_vec();
    let with_tokens = |tokenizer: &Tokenizer| {
        let mut json: Value = serde_json::from_str(&tokenizer.to_json().unwrap()).unwrap();
        for (code, id) in codes.iter().zip(tokenizer.vocab_size()..) {
            json["added_tokens"].as_array_mut().unwrap().push(json!({
                "id": id, "content": format!(">>{code}<<"), "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true,
            }));
        }
        let json = serde_json::to_vec_pretty(&json).unwrap();
        Tokenizer::from_json(&json, "languages".as_ref()).unwrap()
    };
    let Tokenizers { source, target } = &bundle.tokenizers;
    let tokenizers = Tokenizers { source: with_tokens(source), target: with_tokens(target) };
    let vocab = VocabSizes {
        source: tokenizers.source.vocab_size(),
        target: tokenizers.target.vocab_size(),
    };
    let model = Transformer::new(&bundle.config, vocab, &Device::flex()).unwrap();
    let languages = Languages {
        placement,
        token: ">>{}<<".into(),
        source: codes.clone(),
        target: codes,
        default_source: Some("a".into()),
        default_target: Some("b".into()),
    };
    let search = SearchOptions {
        beam: 3,
        max_len: Some(7),
        suppress: vec![3, 5],
        early_stopping: EarlyStopping::Improvement,
        ..SearchOptions::default()
    };
    ModuleBundle { model, tokenizers, languages: Some(languages), search: Some(search), ..bundle }
}

fn saved() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    bundle(TokenizerKind::Word, Positions::Sinusoidal, NormPlacement::Post, Tying::None)
        .save(folder.path())
        .unwrap();
    folder
}

/// Opens a bundle through every entry point and uses it on a few texts.
fn open(folder: &Path) -> Result<(), InferError> {
    let info = BundleInfo::read(folder);
    if let Ok(info) = &info {
        drop(info.to_json(4_096));
    }
    let bundle = Bundle::open(folder)?;
    info?;
    let device = Device::flex();
    match bundle.task.kind() {
        TaskKind::Translate => {}
        TaskKind::Classify => {
            bundle.module::<tx_model::Classifier>(&device)?;
            let classifier = Classifier::new(&bundle, &CPU)?.with_threads(1);
            classifier.attention(TEXTS[0])?;
            return classifier.classify_batch(&TEXTS).map(drop);
        }
        TaskKind::Generate => {
            bundle.module::<tx_model::LanguageModel>(&device)?;
            let generator = Generator::new(&bundle, &CPU)?.with_threads(1);
            generator.attention(TEXTS[0])?;
            for text in TEXTS {
                allow_long(generator.score(&[text], 0))?;
                for beam in [1, 2] {
                    // Without a limit, a model with a large `max_len` generates as many tokens.
                    let max_len = Some(3);
                    let options = SearchOptions { beam, max_len, ..SearchOptions::default() };
                    let generator = generator.clone().with_options(options)?;
                    allow_long(generator.continue_text(text))?;
                }
            }
            return Ok(());
        }
        TaskKind::FillMask => {
            bundle.module::<tx_model::MaskedLanguageModel>(&device)?;
            let model = FillMask::new(&bundle, &CPU)?.with_threads(1);
            model.attention(TEXTS[0])?;
            for text in TEXTS {
                allow_long(model.fill(&format!("{text} <mask>")))?;
            }
            return Ok(());
        }
    }
    bundle.module::<Transformer>(&device)?;
    let search = SearchOptions { beam: 2, max_len: Some(3), ..SearchOptions::default() };
    let translator = Translator::new(bundle, &CPU)?;
    // Without a limit, options of the bundle may generate as many tokens as `max_len` allows.
    let own = SearchOptions { max_len: Some(3), min_len: 0, ..translator.options().clone() };
    translator.clone().with_options(own)?.translate(">>a<< the cat")?;
    translator
        .score(&[(TEXTS[0], TEXTS[0])], 0)
        .map(drop)
        .or_else(|error| allow_long::<()>(Err(error)))?;
    let translator = translator.with_threads(1).with_options(search)?;
    let translations = translator.translate_batch(&TEXTS)?;
    let ids = translations.iter().filter_map(|found| found.hypotheses.first());
    let pairs = TEXTS.iter().zip(ids).map(|(text, found)| {
        let texts = translator.texts();
        Ok((texts.source(text)?, texts.hypothesis(&found.hypothesis.ids)?))
    });
    let pairs = pairs.collect::<Result<Vec<_>, InferError>>()?;
    Aligner::new(translator.engine().clone(), AlignmentOptions::default()).align(&pairs);
    Ok(())
}

/// Accepts the error of a text that is too long for the model.
fn allow_long<T>(result: Result<T, InferError>) -> Result<(), InferError> {
    match result {
        Err(
            InferError::LongText { .. }
            | InferError::LongPrefix { .. }
            | InferError::LongTarget { .. },
        ) => Ok(()),
        result => result.map(drop),
    }
}

/// Runs `work` and aborts the process if it takes longer than any bundle of this size can, because
/// a hang cannot be caught otherwise.
fn without_a_hang<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (done, wait) = channel::<()>();
    let what = what.to_owned();
    let guard = thread::spawn(move || {
        if wait.recv_timeout(Duration::from_secs(120)) == Err(RecvTimeoutError::Timeout) {
            println!("hangs: {what}");
            abort();
        }
    });
    let result = work();
    drop(done);
    guard.join().unwrap();
    result
}

/// Expects an error of opening.
///
/// # Panics
///
/// If the bundle opens, or its error does not contain `words`.
fn refused(folder: &TempDir, words: &[&str]) {
    let error = without_a_hang(&format!("{words:?}"), || open(folder.path())).unwrap_err();
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        message += &format!(": {error}");
        cause = error.source();
    }
    for word in words {
        assert!(message.contains(word), "no `{word}` in: {message}");
    }
}

fn change(folder: &TempDir, name: &str, from: &str, to: &str) {
    let path = folder.path().join(name);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "no `{from}` in {text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

/// Changes the source tokenizer and updates its checksum.
fn change_tokenizer(folder: &TempDir, change: impl FnOnce(&mut Value)) {
    let path = folder.path().join(TOKENIZERS[0]);
    let old = fs::read(&path).unwrap();
    let mut json = serde_json::from_slice(&old).unwrap();
    change(&mut json);
    let new = json.to_string();
    fs::write(path, &new).unwrap();
    let config = folder.path().join(CONFIG);
    let text = fs::read_to_string(&config).unwrap();
    fs::write(config, text.replace(&sha256(&old), &sha256(new.as_bytes()))).unwrap();
}

fn sha256(bytes: &[u8]) -> String {
    tx_text::hash::hexadecimal(&Sha256::digest(bytes))
}

#[test]
fn a_valid_bundle_translates() {
    open(saved().path()).unwrap();
}

#[test]
fn a_vocabulary_with_a_missing_id_is_rejected() {
    for id in [4_000_000_000_u32, 5_000] {
        let folder = saved();
        change_tokenizer(&folder, |json| json["model"]["vocab"]["cat"] = id.into());
        refused(&folder, &[TOKENIZERS[0], "must have the ids 0 to"]);
    }
}

#[test]
fn an_id_shared_by_two_tokens_is_rejected() {
    let folder = saved();
    change_tokenizer(&folder, |json| {
        json["model"]["vocab"]["cat"] = json["model"]["vocab"]["dog"].clone();
    });
    refused(&folder, &[TOKENIZERS[0], "must have the ids 0 to"]);
}

/// Added ids are checked against the vocabulary for any file content.
#[test]
fn an_id_that_is_added_to_every_text_is_one_of_the_vocabulary() {
    let folder = saved();
    change_tokenizer(&folder, |json| {
        json["post_processor"]["special_tokens"]["<eos>"]["ids"] = json!([4_000_000_000_u32]);
    });
    open(folder.path()).unwrap();
    change_tokenizer(&folder, |json| {
        let end = json!({ "SpecialToken": { "id": "cat", "type_id": 0 } });
        json["post_processor"]["single"].as_array_mut().unwrap().push(end);
    });
    refused(&folder, &[TOKENIZERS[0], "it must add at most `<eos>` after a text"]);
}

/// The table has one unit, whose root points to 244 others.
#[test]
fn a_damaged_normalization_table_is_refused() {
    // Four bytes with the length, followed by that many zero bytes of a trie.
    for (table, problem) in [
        ("BAAAAAAAAAA=", "its trie leads out of bounds"),
        ("/P//fwAAAAA=", "its trie is truncated"),
        ("#", "is not base64"),
    ] {
        let folder = saved();
        change_tokenizer(&folder, |json| {
            let table = json!({ "type": "Precompiled", "precompiled_charsmap": table });
            json["normalizer"] = json!({ "type": "Sequence", "normalizers": [table] });
        });
        refused(&folder, &[TOKENIZERS[0], problem]);
    }
}

#[test]
fn padding_to_any_length_is_refused() {
    let folder = saved();
    change_tokenizer(&folder, |json| {
        json["padding"] = json!({
            "strategy": { "Fixed": 1_000_000_000_000_u64 }, "direction": "Right",
            "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>",
        });
    });
    refused(&folder, &[TOKENIZERS[0], "truncates or pads"]);
}

#[test]
fn sizes_beyond_those_of_the_files_are_rejected_before_allocation() {
    for (from, to, words) in [
        ("max_len = 12", "max_len = 1000000000", &["`max_len` = 1000000000 must be at most"][..]),
        ("max_len = 12", "max_len = 9223372036854775807", &["`max_len` = 9223372036854775807"]),
        ("encoder_layers = 1", "encoder_layers = 1000000000000", &["`encoder_layers`", "at most"]),
        ("decoder_layers = 1", "decoder_layers = 999", &[WEIGHTS, "decoder.layers.1", "missing"]),
        ("d_ff = 4", "d_ff = 1000000", &[WEIGHTS, "feed_forward.inner.weight", "[4, 1000000]"]),
        ("d_model = 4", "d_model = 65536", &[WEIGHTS, "source_embedding", "65536]"]),
        (
            "vocab_multiple = 1",
            "vocab_multiple = 65536",
            &[WEIGHTS, "source_embedding.weight", "[65536, 4]"],
        ),
        ("vocab_multiple = 1", "vocab_multiple = 9223372036854775807", &["`vocab_multiple`"]),
    ] {
        let folder = saved();
        change(&folder, CONFIG, from, to);
        refused(&folder, words);
    }
    let folder = saved();
    let size = format!("source = {}", BundleInfo::read(folder.path()).unwrap().vocabulary.source);
    change(&folder, CONFIG, &size, "source = 18446744073709551615");
    refused(&folder, &["the source vocabulary has 18446744073709551615 ids"]);
}

#[test]
fn search_options_of_a_bundle_are_checked() {
    for (options, problem) in [
        ("beam = 0", "`search`: `beam` = 0"),
        ("beam = 257", "257 hypotheses or samples; a bundle has at most 256"),
        ("beam = 9223372036854775807", "at most 10000"),
        ("beam = -1", "invalid value"),
        ("beam = 1\nsampling.samples = 300", "300 hypotheses or samples"),
        ("beams = 2", "unknown field `beams`"),
        ("n_best = 9", "`n_best` = 9"),
        ("length_penalty = nan", "`length_penalty` = NaN"),
        ("max_len_ratio = -1.0", "`max_len_ratio` = -1"),
        ("patience = 0.0", "`patience` = 0"),
        ("early_stopping = \"soon\"", "unknown variant `soon`"),
        ("early_stopping = \"never\"\npatience = 2.0", "`patience` = 2"),
        ("max_len = 0", "`max_len`"),
        ("suppress = [2]", "`suppress` has `<eos>`"),
        ("suppress = [4000000000]", "`suppress` has 4000000000, but the vocabulary has"),
        ("attention_layer = 2", "`attention_layer` = 2, but the decoder has 1 layers"),
    ] {
        let folder = saved();
        change(&folder, CONFIG, "[model]\n", &format!("[search]\n{options}\n\n[model]\n"));
        refused(&folder, &[CONFIG, problem]);
    }
    let folder = saved();
    change(&folder, CONFIG, "[model]\n", "[search]\nbeam = 3\n\n[model]\n");
    open(folder.path()).unwrap();
    change(&folder, CONFIG, "format = 2", "format = 1");
    refused(&folder, &[CONFIG, "`search` is not part of format 1"]);
}

#[test]
fn languages_of_a_bundle_are_checked() {
    for placement in [LanguagePlacement::TargetInSource, LanguagePlacement::BothSides] {
        let saved = || {
            let folder = tempfile::tempdir().unwrap();
            let plain = bundle(
                TokenizerKind::Word,
                Positions::Sinusoidal,
                NormPlacement::Post,
                Tying::None,
            );
            multilingual(plain, placement).save(folder.path()).unwrap();
            folder
        };
        open(saved().path()).unwrap();
        for (from, to, problem) in [
            ("token = \">>{}<<\"", "token = \"{}\"", "no special token \"a\""),
            ("token = \">>{}<<\"", "token = \"\"", "must contain `{}` once"),
            ("token = \">>{}<<\"", "token = \"{}{}\"", "must contain `{}` once"),
            ("target = [\"a\", \"b\"]", "target = []", "`languages.target` is empty"),
            ("target = [\"a\", \"b\"]", "target = [\"b\", \"b\"]", "contains \"b\" twice"),
            ("target = [\"a\", \"b\"]", "target = [\"a\", \"b\", \"c\"]", ">>c<<"),
            ("target = [\"a\", \"b\"]", "target = [\"b\", \"the\"]", ">>the<<"),
            ("default_target = \"b\"", "default_target = \"c\"", "`languages.default_target`"),
            ("default_source = \"a\"", "default_source = \"\"", "`languages.default_source`"),
            ("placement = \"", "placement = \"un", "unknown variant"),
            ("[languages]", "[languages]\ncode = 1", "unknown field `code`"),
            ("format = 2", "format = 1", "`languages` is not part of format 1"),
        ] {
            let folder = saved();
            change(&folder, CONFIG, from, to);
            refused(&folder, &[CONFIG, problem]);
        }
    }
}

#[test]
fn weights_that_are_not_finite_are_refused_by_name() {
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let folder = saved();
        let path = folder.path().join(WEIGHTS);
        let mut bytes = fs::read(&path).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let name = "encoder.layers.0.feed_forward.inner.weight";
        let data = file.tensor(name).unwrap().data();
        let start = data.as_ptr() as usize - bytes.as_ptr() as usize;
        bytes[start + 8..start + 12].copy_from_slice(&value.to_le_bytes());
        fs::write(&path, bytes).unwrap();
        refused(&folder, &[WEIGHTS, name, "not finite at value 2"]);
    }
}

/// Values so large that every sum overflows.
#[test]
fn finite_weights_of_any_size_end_in_a_translation_or_an_error() {
    for value in [f32::MAX, f32::MIN, 1e20, -1e20, f32::MIN_POSITIVE, 0.0] {
        let folder = saved();
        let path = folder.path().join(WEIGHTS);
        let mut bytes = fs::read(&path).unwrap();
        let start = 8 + u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
        bytes[start..]
            .chunks_exact_mut(4)
            .for_each(|old| old.copy_from_slice(&value.to_le_bytes()));
        fs::write(&path, bytes).unwrap();
        // Either result is accepted.
        let _ = without_a_hang(&format!("all weights are {value}"), || open(folder.path()));
    }
}

#[test]
fn weights_of_another_dtype_are_refused_by_name() {
    let folder = saved();
    let path = folder.path().join(WEIGHTS);
    let mut text = fs::read(&path).unwrap();
    // `I32` has the same number of bytes per value, so only the dtype is wrong.
    let place = text.windows(5).position(|five| five == b"\"F32\"").unwrap();
    text[place..place + 5].copy_from_slice(b"\"I32\"");
    fs::write(&path, text).unwrap();
    refused(&folder, &[WEIGHTS, "has the dtype I32"]);
}

#[test]
fn files_larger_than_any_bundle_needs_are_not_read() {
    for (name, size) in [(CONFIG, 2 << 20), (PROVENANCE, 2 << 20), (TOKENIZERS[1], 257 << 20)] {
        let folder = saved();
        let file = fs::OpenOptions::new().write(true).open(folder.path().join(name)).unwrap();
        file.set_len(size).unwrap();
        refused(&folder, &[name, &format!("has {size} bytes; such a file has at most")]);
    }
}

/// No process writes to the pipe, so reading it would block forever.
#[cfg(unix)]
#[test]
fn a_file_that_is_not_regular_is_rejected() {
    for name in [CONFIG, PROVENANCE, TOKENIZERS[0], WEIGHTS] {
        let folder = saved();
        let path = folder.path().join(name);
        fs::remove_file(&path).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        refused(&folder, &[name]);
    }
}
