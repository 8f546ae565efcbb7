//! Folders of `transformers`: token ids, logits and hypotheses as `transformers` gives them
//! (`fixtures/transformers/generate.py`).

#![allow(
    clippy::unwrap_used,
    reason = "clippy recognizes test functions as tests, but not their helpers"
)]

use std::{
    collections::HashMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use tempfile::TempDir;
use tx_convert::{ConvertError, ImportFormat, import::import};
use tx_engine::PackedTransformer;
use tx_infer::{
    Bundle, Cancellation, Device, EarlyStopping, LanguagePlacement, Precision, Request,
    SearchOptions,
};

/// Folders with the number of tokens that tx adds.
const FOLDERS: [(&str, u32); 5] =
    [("marian", 1), ("tc-big", 1), ("separate", 1), ("m2m100", 0), ("nllb", 0)];
const MARIAN: [&str; 3] = ["marian", "tc-big", "separate"];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/transformers")
}

fn unpacked(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = fs::read(fixtures().join(name)).unwrap();
    GzDecoder::new(&file[..]).read_to_end(&mut bytes).unwrap();
    bytes
}

/// A folder as `transformers` saves it, with its weights in `model.safetensors`.
fn folder(name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixtures().join(name)).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap();
        let is_other = file.contains("model") && file != "model.safetensors";
        if !is_other && file != "expected.json" {
            fs::copy(&path, folder.path().join(file)).unwrap();
        }
    }
    if MARIAN.contains(&name) {
        for side in ["source.spm", "target.spm"] {
            fs::write(folder.path().join(side), unpacked(&format!("{side}.gz"))).unwrap();
        }
    } else {
        let model = folder.path().join("sentencepiece.bpe.model");
        fs::write(model, unpacked("bpe.model.gz")).unwrap();
    }
    folder
}

fn expected(name: &str) -> Value {
    serde_json::from_slice(&fs::read(fixtures().join(name).join("expected.json")).unwrap()).unwrap()
}

fn bundle(folder: &Path) -> (TempDir, Bundle) {
    let output = tempfile::tempdir().unwrap();
    import(folder, None).unwrap().save(output.path()).unwrap();
    let bundle = Bundle::open(output.path()).unwrap();
    (output, bundle)
}

/// Changes a JSON file of a folder.
fn change(folder: &Path, file: &str, change: impl Fn(&mut Value)) {
    let path = folder.join(file);
    let mut json: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut json);
    fs::write(path, json.to_string()).unwrap();
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// Ids of the bundle for the ids of the model: special tokens first, then the others in order.
struct NewIds(HashMap<u32, u32>);

impl NewIds {
    fn of(name: &str, folder: &Path, size: usize) -> Self {
        let special = match MARIAN.contains(&name) {
            true => {
                let config: Value =
                    serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap();
                let vocab: Value =
                    serde_json::from_slice(&fs::read(folder.join("vocab.json")).unwrap()).unwrap();
                [&config["pad_token_id"], &Value::Null, &config["eos_token_id"], &vocab["<unk>"]]
                    .map(|id| id.as_u64().map(|id| id as u32))
            }
            false => [Some(1), Some(0), Some(2), Some(3)],
        };
        let others = (0..size as u32).filter(|id| !special.contains(&Some(*id)));
        let order = special.into_iter().chain(others.map(Some));
        Self(order.zip(0..).filter_map(|(old, new)| Some((old?, new))).collect())
    }

    fn get(&self, ids: &[u32]) -> Vec<u32> {
        ids.iter().map(|id| self.0[id]).collect()
    }
}

#[test]
fn texts_have_the_ids_of_transformers() {
    for (name, _) in FOLDERS {
        let (folder, expected) = (folder(name), expected(name));
        let (_output, bundle) = bundle(folder.path());
        let decoded = expected["decoded"].as_array().unwrap();
        let new_ids = NewIds::of(name, folder.path(), decoded.len());
        let source = &bundle.tokenizers.source;
        for case in expected["texts"].as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            let mut found = source.encode(text).unwrap();
            if let Some(languages) = &bundle.languages
                && languages.placement == LanguagePlacement::BothSides
            {
                let language = languages.default_source.as_ref().unwrap();
                found.insert(0, source.id(&languages.token_of(language)).unwrap());
            }
            assert_eq!(found, new_ids.get(&ids(&case["ids"])), "{name}: {text:?}");
        }
        let special = [0, 1, 2, 3].map(|id| bundle.tokenizers.target.token(id).unwrap());
        assert_eq!(special, ["<pad>", "<bos>", "<eos>", "<unk>"]);
        for (old, text) in (0..).zip(decoded) {
            let new = new_ids.0[&old];
            let target = &bundle.tokenizers.target;
            let text = match new {
                3 => "<unk>",
                // Language tokens of Marian are not special in transformers.
                _ if target.is_special(new) => "",
                _ => text.as_str().unwrap(),
            };
            let hole = target.token(new).unwrap().starts_with("<unused ");
            let found = target.decode(&[new]).unwrap();
            assert!(hole || found == text, "{name}: {old}: {found:?}, expected {text:?}");
        }
    }
}

#[test]
fn logits_are_those_of_transformers() {
    for (name, added) in FOLDERS {
        let (folder, expected) = (folder(name), expected(name));
        let (_output, bundle) = bundle(folder.path());
        let size = expected["decoded"].as_array().unwrap().len();
        assert_eq!(bundle.vocabulary().target, size + added as usize);
        let new_ids = NewIds::of(name, folder.path(), size);
        let model = bundle.pack::<PackedTransformer>(Precision::F32).unwrap();
        let start = if added == 1 { 0 } else { 2 };
        for case in expected["logits"].as_array().unwrap() {
            let source = new_ids.get(&ids(&case["source"]));
            let target = new_ids.get(&ids(&case["target"]));
            let mut decoding = model.start(&[&source]);
            let inputs = [start].into_iter().chain(target);
            for (input, row) in inputs.zip(case["logits"].as_array().unwrap()) {
                let found = decoding.step_logits(&[input]);
                for (old, expected) in (0..).zip(row.as_array().unwrap()) {
                    let expected = expected.as_f64().unwrap() as f32;
                    let found = found[new_ids.0[&old] as usize];
                    assert!((found - expected).abs() <= 1e-4, "{name}: {found}, {expected}");
                }
            }
        }
    }
}

#[test]
fn hypotheses_are_those_of_generate() {
    for (name, _) in FOLDERS {
        let (folder, expected) = (folder(name), expected(name));
        let (_output, bundle) = bundle(folder.path());
        let size = expected["decoded"].as_array().unwrap().len();
        let new_ids = NewIds::of(name, folder.path(), size);
        let forced = expected["forced"].as_u64().map(|id| new_ids.0[&(id as u32)]);
        let recommended = bundle.search.clone().unwrap();
        let engine = bundle.engine(&Device::Cpu).unwrap();
        for case in expected["search"].as_array().unwrap() {
            let beam = case["beam"].as_u64().unwrap() as usize;
            let options = with_beam(&recommended, beam);
            let source = new_ids.get(&ids(&case["source"]));
            let request = Request { forced_first: forced, ..Request::new(&source, 0) };
            let found = engine.search_requests(&[request], &options, &Cancellation::new());
            let found = found.unwrap().remove(0);
            let hypotheses = case["hypotheses"].as_array().unwrap();
            assert_eq!(found.len(), hypotheses.len());
            for (found, hypothesis) in found.iter().zip(hypotheses) {
                let expected = new_ids.get(&ids(&hypothesis["ids"]));
                assert_eq!(found.ids, expected, "{name}, beam {beam}: {}", case["text"]);
                if let Some(score) = hypothesis["score"].as_f64() {
                    let error = (f64::from(found.score) - score).abs();
                    assert!(error <= 1e-4, "{name}, beam {beam}: {} and {score}", found.score);
                }
            }
        }
    }
}

#[test]
fn the_configuration_is_that_of_the_folder() {
    let marian = folder("marian");
    let imported = import(marian.path(), None).unwrap();
    assert_eq!(imported.format, ImportFormat::TransformersMarian);
    assert_eq!(imported.search.as_ref().unwrap().beam, 4);
    assert_eq!(imported.languages, None);
    assert!(imported.report().iter().any(|(key, _)| key == "beam"));
    let (_output, bundle) = bundle(marian.path());
    let provenance = &bundle.provenance["import"];
    assert_eq!(provenance["format"].as_str(), Some("transformers-marian"));
    let hashes = provenance["sha256"].as_table().unwrap();
    assert_eq!(hashes["source.spm"].as_str().unwrap().len(), 64);

    let big = import(folder("tc-big").path(), None).unwrap();
    let languages = big.languages.unwrap();
    assert_eq!(languages.placement, LanguagePlacement::TargetInSource);
    assert_eq!(languages.target, ["deu", "fra"]);
    assert!(big.search.unwrap().renormalize);

    let m2m100 = import(folder("m2m100").path(), None).unwrap();
    let languages = m2m100.languages.unwrap();
    assert_eq!((languages.source.len(), languages.token.as_str()), (100, "__{}__"));
    assert_eq!(languages.default_source.as_deref(), Some("en"));
    let nllb = import(folder("nllb").path(), None).unwrap();
    let languages = nllb.languages.unwrap();
    assert_eq!(languages.target, ["deu_Latn", "eng_Latn", "fra_Latn"]);
    assert_eq!(languages.default_target.as_deref(), Some("deu_Latn"));
}

/// All weights of a bundle.
fn weights(bundle: &Bundle) -> Vec<(String, Vec<f32>)> {
    let names: Vec<String> = bundle.weight_names().map(str::to_owned).collect();
    names
        .into_iter()
        .map(|name| {
            let values = bundle.weight(&name).unwrap().1.into_owned();
            (name, values)
        })
        .collect()
}

#[test]
fn all_files_of_weights_give_the_same_bundle() {
    let reference = folder("marian");
    let (_output, reference) = bundle(reference.path());
    let reference = weights(&reference);
    for (files, tolerance) in [
        (vec!["pytorch_model.bin"], 0.0),
        (
            vec![
                "model.safetensors.index.json",
                "model-00001-of-00002.safetensors",
                "model-00002-of-00002.safetensors",
            ],
            0.0,
        ),
        // Half of the distance of neighbors: 11 and 8 bits.
        (vec!["model.f16.safetensors"], 1.0 / 2048.0),
        (vec!["model.bf16.safetensors"], 1.0 / 256.0),
    ] {
        let other = folder("marian");
        let weights_file = other.path().join("model.safetensors");
        fs::remove_file(&weights_file).unwrap();
        for file in &files {
            let is_typed = file.contains("f16");
            let name = if is_typed { "model.safetensors" } else { file };
            fs::copy(fixtures().join("marian").join(file), other.path().join(name)).unwrap();
        }
        let (_output, other) = bundle(other.path());
        for ((name, values), (other_name, others)) in reference.iter().zip(weights(&other)) {
            assert_eq!(*name, other_name);
            for (value, other) in values.iter().zip(others) {
                // Subnormal numbers of half precision have a distance of 2⁻²⁴.
                let error = (value - other).abs();
                let most = value.abs() * tolerance + if tolerance > 0.0 { 1e-7 } else { 0.0 };
                assert!(error <= most, "{files:?}: {name}: {value} and {other}");
            }
        }
    }
}

/// Each option that is not supported is named.
#[test]
fn unsupported_options_are_refused_by_name() {
    for (name, file, key, value, message) in [
        ("marian", "config.json", "normalize_before", json!(true), "`normalize_before` = true"),
        ("marian", "config.json", "add_final_layer_norm", json!(true), "`add_final_layer_norm`"),
        ("marian", "config.json", "normalize_embedding", json!(true), "`normalize_embedding`"),
        (
            "marian",
            "config.json",
            "static_position_embeddings",
            json!(false),
            "`static_position_embeddings` = false",
        ),
        ("marian", "config.json", "is_encoder_decoder", json!(false), "`is_encoder_decoder`"),
        ("marian", "config.json", "encoder_ffn_dim", json!(32), "`encoder_ffn_dim` = 32 and"),
        ("marian", "config.json", "decoder_attention_heads", json!(4), "must be equal"),
        ("marian", "config.json", "activation_function", json!("gelu_new"), "\"gelu_new\""),
        ("marian", "config.json", "activation_function", json!(null), "is missing"),
        ("marian", "config.json", "d_model", json!(-3), "`d_model` = -3 is not a size"),
        ("marian", "config.json", "d_model", json!(1u64 << 40), "is not a size"),
        ("marian", "config.json", "decoder_start_token_id", json!(7), "`decoder_start_token_id`"),
        ("marian", "config.json", "eos_token_id", json!(3), "`</s>` has id 0"),
        ("m2m100", "config.json", "vocab_size", json!(1_000_000), "tokens for 1000000 ids"),
        ("marian", "config.json", "decoder_vocab_size", json!(3), "`decoder_vocab_size` = 3"),
        ("marian", "config.json", "model_type", json!("bart"), "`bart`"),
        ("marian", "tokenizer_config.json", "separate_vocabs", json!(true), "`separate_vocabs`"),
        ("marian", "vocab.json", "</s>", json!(1), "`</s>`"),
        ("marian", "vocab.json", "a new token", json!(5), "the same id"),
        ("m2m100", "config.json", "pad_token_id", json!(5), "`pad_token_id` = 5"),
        ("m2m100", "config.json", "tie_word_embeddings", json!(false), "`tie_word_embeddings`"),
        ("m2m100", "tokenizer_config.json", "language_codes", json!("x"), "`language_codes`"),
    ] {
        let folder = folder(name);
        change(folder.path(), file, |json| json[key] = value.clone());
        let error = import(folder.path(), None).unwrap_err().to_string();
        assert!(error.contains(message), "{key}: {error}");
    }
}

#[test]
fn a_forced_last_token_is_the_end_token_or_is_noted() {
    let end = folder("marian");
    let found = import(end.path(), None).unwrap();
    assert!(found.search.unwrap().force_eos);
    change(end.path(), "generation_config.json", |json| json["forced_eos_token_id"] = 5.into());
    let found = import(end.path(), None).unwrap();
    assert!(!found.search.unwrap().force_eos);
    let notes = found.notes.join("\n");
    assert!(notes.contains("`forced_eos_token_id` = 5 is not the end token"), "{notes}");
}

#[test]
fn missing_and_unused_weights_are_named() {
    let few = folder("marian");
    change(few.path(), "config.json", |json| json["decoder_layers"] = 2.into());
    let error = import(few.path(), None).unwrap_err();
    let ConvertError::Weights { problems, .. } = &error else { panic!("{error}") };
    assert_eq!(problems.len(), 26);
    assert!(error.to_string().contains("`model.decoder.layers.1.fc1.weight` is missing"));

    let many = folder("marian");
    change(many.path(), "config.json", |json| json["encoder_layers"] = 1.into());
    let error = import(many.path(), None).unwrap_err().to_string();
    assert!(error.contains("`model.encoder.layers.1.fc1.weight` is not part of the model"));

    let other = folder("marian");
    change(other.path(), "config.json", |json| {
        json["encoder_ffn_dim"] = 32.into();
        json["decoder_ffn_dim"] = 32.into();
    });
    let error = import(other.path(), None).unwrap_err().to_string();
    assert!(error.contains("fc1.weight` has shape [24, 16], expected [32, 16]"), "{error}");
}

#[test]
fn missing_files_are_named() {
    for (name, file) in [
        ("marian", "source.spm"),
        ("marian", "vocab.json"),
        ("marian", "model.safetensors"),
        ("nllb", "sentencepiece.bpe.model"),
    ] {
        let folder = folder(name);
        fs::remove_file(folder.path().join(file)).unwrap();
        let error = import(folder.path(), None).unwrap_err().to_string();
        assert!(error.contains(file), "{file}: {error}");
    }
}

#[test]
fn the_license_is_kept() {
    let folder = folder("marian");
    fs::write(folder.path().join("README.md"), "---\nlicense: apache-2.0\n---\n").unwrap();
    fs::write(folder.path().join("LICENSE"), "A license.").unwrap();
    let (_output, bundle) = bundle(folder.path());
    assert_eq!(bundle.provenance["import"]["license"].as_str(), Some("apache-2.0"));
    assert_eq!(bundle.provenance["import"]["license_text"].as_str(), Some("A license."));
}

/// A pickle that calls `os.system`, as protocol 2 writes it, is refused and not executed.
#[test]
fn a_pickle_that_calls_a_function_is_refused() {
    let folder = folder("marian");
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    let marker = folder.path().join("executed");
    let mut pickle = b"\x80\x02cposix\nsystem\nX".to_vec();
    let command = format!("touch {}", marker.display());
    pickle.extend((command.len() as u32).to_le_bytes());
    pickle.extend(command.as_bytes());
    pickle.extend(b"\x85R.");
    fs::write(folder.path().join("pytorch_model.bin"), pickle).unwrap();
    let error = import(folder.path(), None).unwrap_err().to_string();
    assert!(error.contains("pytorch_model.bin"), "{error}");
    assert!(!marker.exists());
}

/// Recommended options with another beam, and the stopping rule of `generate()`.
fn with_beam(recommended: &SearchOptions, beam: usize) -> SearchOptions {
    let options = recommended.clone();
    match beam {
        1 => options.with_one_hypothesis(),
        _ => {
            let early_stopping = EarlyStopping::Improvement;
            SearchOptions { beam, n_best: beam, early_stopping, ..options }
        }
    }
}

/// Tokens that were added to a tokenizer, in either file: they have the ids that the files give.
#[test]
fn added_tokens_have_their_ids() {
    for file in ["added_tokens.json", "tokenizer_config.json"] {
        let folder = folder("marian");
        let path = |name: &str| folder.path().join(name);
        let edit = |name: &str, change: &dyn Fn(&mut Value)| {
            let mut value = fs::read(path(name))
                .map_or(json!({}), |bytes| serde_json::from_slice(&bytes).unwrap());
            change(&mut value);
            fs::write(path(name), value.to_string()).unwrap();
        };
        // The last token of the vocabulary, 77, becomes an added one.
        edit("vocab.json", &|vocab| {
            vocab.as_object_mut().unwrap().retain(|_, id| id.as_u64() != Some(77));
        });
        let import_folder = || import(folder.path(), None).unwrap();
        assert!(import_folder().notes.iter().any(|note| note.contains("no token")));
        edit(file, &|value| match file {
            "added_tokens.json" => value["<name>"] = 77.into(),
            _ => value["added_tokens_decoder"]["77"] = json!({"content": "<name>"}),
        });
        let import = import_folder();
        // Four special tokens come first; <pad> is 78, </s> 0 and <unk> 1.
        assert_eq!(import.tokenizers.source.token(79).as_deref(), Some("<name>"));
        assert!(!import.notes.iter().any(|note| note.contains("no token")));
        assert!(import.notes.iter().any(|note| note.contains("such as `<name>`")));
    }
}
