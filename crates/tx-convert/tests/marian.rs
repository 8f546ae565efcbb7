//! Models of Marian: translations, scores and log-probabilities as Marian gives them
//! (`fixtures/marian/generate.py`), and export back. Models of Firefox: translations as those of
//! `fxtranslate` (`fixtures/firefox/generate.py`).

#![allow(
    clippy::unwrap_used,
    reason = "clippy recognizes test functions as tests, but not their helpers"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use tempfile::TempDir;
use tx_convert::{
    ConvertError, ExportFormat, ImportFormat,
    export::export,
    import::{SHORTLIST, import},
};
use tx_infer::{
    Bundle, Cancellation, Device, EarlyStopping, Engine, LengthNorm, SearchOptions, Shortlist,
    Translator,
};
use tx_model::{Autoregression, NormPlacement, Normalization, Tying};
use tx_text::special::EOS;

const MODELS: [&str; 5] = ["post", "pre", "words", "ssru", "rms"];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/marian")
}

/// Model in the format of Firefox.
fn firefox() -> PathBuf {
    fixtures().with_file_name("firefox")
}

fn copy(name: &str) -> TempDir {
    copy_of(&fixtures().join(name))
}

fn copy_of(model: &Path) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(model).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

fn bundle(folder: &Path) -> (TempDir, Bundle) {
    let output = tempfile::tempdir().unwrap();
    import(folder, None).unwrap().save(output.path()).unwrap();
    let bundle = Bundle::open(output.path()).unwrap();
    (output, bundle)
}

fn read(name: &str) -> Value {
    serde_json::from_slice(&fs::read(fixtures().join(name)).unwrap()).unwrap()
}

fn tokens(bundle: &Bundle, ids: &[u32]) -> Vec<String> {
    let ids = ids.iter().filter(|id| **id != EOS);
    ids.map(|&id| bundle.tokenizers.target.token(id).unwrap()).collect()
}

/// The same translations, scores and log-probabilities of tokens. Marian prints five decimals.
#[test]
fn translations_are_those_of_marian() {
    let cases = read("cases.json");
    for name in MODELS {
        let (_output, mut bundle) = bundle(&fixtures().join(name));
        if name == "pre" {
            // The expected values are of `transformer-new`, whose epsilon is larger.
            bundle.config.norm_epsilon = 1e-5;
        }
        let recommended = bundle.search.clone().unwrap();
        let engine = bundle.engine(&Device::Cpu).unwrap();
        for beam in [1, 4] {
            let options = match beam {
                1 => recommended.clone().with_one_hypothesis(),
                _ => SearchOptions { beam, ..recommended.clone() },
            };
            let cases = &cases[name][beam.to_string()];
            assert_same(&format!("{name}, beam {beam}"), &bundle, &engine, &options, cases);
        }
    }
}

/// Without a complete normalization, which would make the penalty the same for all hypotheses of a sentence.
#[test]
fn word_penalties_are_those_of_marian() {
    let cases = read("word_penalties.json");
    let (_output, bundle) = bundle(&fixtures().join("post"));
    let engine = bundle.engine(&Device::Cpu).unwrap();
    for (penalty, cases) in cases.as_object().unwrap() {
        let options = SearchOptions {
            beam: 4,
            length_penalty: 0.5,
            word_penalty: penalty.parse().unwrap(),
            ..bundle.search.clone().unwrap()
        };
        assert_same(&format!("penalty {penalty}"), &bundle, &engine, &options, cases);
    }
}

/// Compares tokens, scores and log-probabilities of tokens with those of `cases`.
fn assert_same(
    what: &str,
    bundle: &Bundle,
    engine: &Engine,
    options: &SearchOptions,
    cases: &Value,
) {
    let is_close = |found: f32, expected: &Value| {
        (f64::from(found) - expected.as_f64().unwrap()).abs() <= 1e-4
    };
    for case in cases.as_array().unwrap() {
        let text = case["source"].as_str().unwrap();
        let source = bundle.tokenizers.source.encode(text).unwrap();
        let found = engine.search(&[source.as_slice()], options).unwrap().remove(0).remove(0);
        let expected: Vec<&str> =
            case["tokens"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        assert_eq!(tokens(bundle, &found.ids), expected, "{what}: {text}");
        let score = &case["score"];
        assert!(is_close(found.score, score), "{what}: {} and {score}: {text}", found.score);
        let pair = (source.as_slice(), found.ids.as_slice());
        let scores = engine.log_probabilities(&[pair], &Cancellation::new()).unwrap().remove(0);
        let expected = case["log_probabilities"].as_array().unwrap();
        assert_eq!(scores.len(), expected.len(), "{what}: {text}");
        for (score, expected) in scores.into_iter().zip(expected) {
            assert!(is_close(score, expected), "{what}: {score} and {expected}: {text}");
        }
    }
}

/// The same translations with 8-bit weights, without and with the shortlist. `fxtranslate` also
/// quantizes the activations.
#[test]
fn translations_of_firefox_are_those_of_fxtranslate() {
    let cases: Value =
        serde_json::from_slice(&fs::read(firefox().join("cases.json")).unwrap()).unwrap();
    let (output, bundle) = bundle(&firefox());
    let search = bundle.search.clone().unwrap();
    assert_eq!((search.beam, search.max_len_ratio, search.max_len_extra), (1, 2.0, 0));
    assert_eq!(bundle.config.autoregression, Autoregression::Ssru);
    let shortlist = Shortlist::open(output.path().join(SHORTLIST)).unwrap();
    let plain = Translator::open(output.path(), &Device::Cpu).unwrap();
    let limited = plain.clone().with_shortlist(shortlist).unwrap();
    for case in cases.as_array().unwrap() {
        for (translator, key) in [(&plain, "translation"), (&limited, "with_shortlist")] {
            let source = case["source"].as_str().unwrap();
            let found = translator.translate(source).unwrap();
            // Both programs remove spaces around a translation.
            assert_eq!(found.text.trim(), case[key].as_str().unwrap().trim(), "{key}: {source}");
        }
    }
}

#[test]
fn files_of_firefox_are_found_by_content() {
    let refused = |change: &dyn Fn(&Path)| {
        let folder = copy_of(&firefox());
        change(folder.path());
        import(folder.path(), None).unwrap_err().to_string()
    };
    let (model, lex) = ("model.ende.intgemm.alphas.bin", "lex.12.6.ende.s2t.bin");
    let changed = |name: &'static str, byte: usize| {
        move |folder: &Path| {
            let mut bytes = fs::read(folder.join(name)).unwrap();
            let at = byte.min(bytes.len() - 1);
            bytes[at] ^= 1;
            fs::write(folder.join(name), bytes).unwrap();
        }
    };
    let rename = |from: &'static str, to: &'static str| {
        move |folder: &Path| fs::rename(folder.join(from), folder.join(to)).unwrap()
    };
    for (change, problem) in [
        (&changed(lex, 30) as &dyn Fn(&Path), "checksum"),
        (&changed(lex, 40), "not those of its lists"),
        (
            &|folder| {
                fs::remove_file(folder.join(model)).unwrap();
                fs::write(folder.join("model.ende.bin.gz"), b"\x1f\x8b").unwrap();
            },
            "`model.ende.bin.gz` is compressed",
        ),
        (&rename("vocab.ende.spm", "pieces"), "no vocabulary"),
        (
            &|folder| fs::copy(folder.join(lex), folder.join("b.bin")).map(|_| ()).unwrap(),
            "several shortlists",
        ),
        (
            &|folder| fs::copy(folder.join(model), folder.join("b.bin")).map(|_| ()).unwrap(),
            "several models",
        ),
    ] {
        let found = refused(change);
        assert!(found.contains(problem), "{problem}: {found}");
    }
    let error = import(&firefox().join(lex), None).unwrap_err().to_string();
    assert!(error.contains("shortlist"), "{error}");
    // The file alone, under any name, and vocabularies of both sides.
    let folder = copy_of(&firefox());
    let at = |name: &str| folder.path().join(name);
    fs::rename(at(model), at("model.bin")).unwrap();
    fs::copy(at("vocab.ende.spm"), at("srcvocab.ende.spm")).unwrap();
    fs::rename(at("vocab.ende.spm"), at("trgvocab.ende.spm")).unwrap();
    for from in [folder.path(), &at("model.bin")] {
        assert_eq!(import(from, None).unwrap().format, ImportFormat::Marian);
    }
}

#[test]
fn the_configuration_is_that_of_the_model() {
    for (name, norm, tying) in [
        ("post", NormPlacement::Post, Tying::All),
        ("pre", NormPlacement::Pre, Tying::All),
        ("words", NormPlacement::Post, Tying::None),
        ("ssru", NormPlacement::Post, Tying::All),
        ("rms", NormPlacement::Pre, Tying::All),
    ] {
        let found = import(&fixtures().join(name), None).unwrap();
        assert_eq!(found.format, ImportFormat::Marian);
        assert_eq!((found.config.norm, found.config.tying), (norm, tying));
        assert_eq!((found.config.encoder_layers, found.config.decoder_layers), (1, 2));
        assert_eq!(found.config.norm_epsilon, 1e-6);
        let (autoregression, normalization) = match name {
            "ssru" => (Autoregression::Ssru, Normalization::Layer),
            "rms" => (Autoregression::Ssru, Normalization::Rms),
            _ => (Autoregression::SelfAttention, Normalization::Layer),
        };
        assert_eq!(found.config.autoregression, autoregression);
        assert_eq!(found.config.normalization, normalization);
        let search = found.search.unwrap();
        assert_eq!((search.beam, search.early_stopping), (4, EarlyStopping::Narrowing));
        assert_eq!((search.length_norm, search.length_penalty), (LengthNorm::Power, 1.0));
        assert_eq!((search.max_len_ratio, search.max_len_extra, search.max_repeats), (3.0, 0, 0));
        assert_eq!(search.suppress, [3]);
    }
    let folder = copy("post");
    let path = folder.path().join("decoder.yml");
    let decoder = fs::read_to_string(&path).unwrap();
    fs::write(&path, decoder.replace("word-penalty: 0", "word-penalty: -0.25")).unwrap();
    let found = import(folder.path(), None).unwrap();
    assert_eq!(found.search.unwrap().word_penalty, -0.25);
    // The file alone; without options of the decoder, those of Marian.
    let folder = copy("post");
    fs::remove_file(folder.path().join("decoder.yml")).unwrap();
    let search = import(&folder.path().join("model.npz"), None).unwrap().search.unwrap();
    assert_eq!((search.beam, search.length_norm), (12, LengthNorm::None));
}

/// All weights of a bundle.
fn weights(bundle: &Bundle) -> Vec<(String, Vec<f32>)> {
    let names: Vec<String> = bundle.weight_names().map(str::to_owned).collect();
    let values = |name: String| {
        let values = bundle.weight(&name).unwrap().1.into_owned();
        (name, values)
    };
    names.into_iter().map(values).collect()
}

/// Export gives the files of the import again, except for the options of `pre`, which Marian computes
/// with its newer layers.
#[test]
fn an_exported_model_is_imported_again() {
    // The newer layers, which the export uses for pre-norm, have no recurrent decoder.
    for name in MODELS.into_iter().filter(|name| *name != "rms") {
        let (_output, first) = bundle(&fixtures().join(name));
        let parent = tempfile::tempdir().unwrap();
        let exported = parent.path().join("marian");
        export(&first, ExportFormat::Marian, &exported).unwrap();
        for (ours, theirs) in [
            ("vocab.spm", "vocab.spm"),
            ("source.vocab.yml", "vocab.en.yml"),
            ("target.vocab.yml", "vocab.de.yml"),
        ] {
            let Ok(theirs) = fs::read(fixtures().join(name).join(theirs)) else { continue };
            let ours = fs::read(exported.join(ours)).unwrap();
            if name == "words" {
                // Marian writes no line end after the last entry, and other quotes.
                let entries = |text: &[u8]| str::from_utf8(text).unwrap().lines().count();
                assert_eq!(entries(&ours), entries(&theirs));
            } else {
                assert_eq!(ours, theirs);
            }
        }
        let (_output, second) = bundle(&exported);
        assert_eq!(weights(&first), weights(&second), "{name}");
        assert_eq!(first.search, second.search);
        let epsilon = if name == "pre" { 1e-5 } else { 1e-6 };
        assert_eq!(second.config.norm_epsilon, epsilon);
        for side in [
            |bundle: &Bundle| bundle.tokenizers.source.clone(),
            |bundle: &Bundle| bundle.tokenizers.target.clone(),
        ] {
            assert_eq!(side(&first).to_json().unwrap(), side(&second).to_json().unwrap());
        }
    }
}

#[test]
fn properties_that_marian_has_not_are_named() {
    use tx_model::{
        Activation, DecoderStart, EmbeddingScale, Positions, SinusoidFormula, SinusoidLayout,
    };

    let (_output, bundle) = bundle(&fixtures().join("post"));
    let parent = tempfile::tempdir().unwrap();
    let refused = |change: &dyn Fn(&mut Bundle)| {
        let mut changed = bundle.clone();
        change(&mut changed);
        let error = export(&changed, ExportFormat::Marian, &parent.path().join("out")).unwrap_err();
        let ConvertError::NotExpressible { problems, .. } = error else { panic!("{error}") };
        problems
    };
    type Change = &'static dyn Fn(&mut Bundle);
    let changes: [(Change, &str); 14] = [
        (
            &|bundle| {
                bundle.config.norm = NormPlacement::Pre;
                bundle.config.normalization = Normalization::Rms;
            },
            "`normalization` = \"rms\"",
        ),
        (
            &|bundle| {
                bundle.config.norm = NormPlacement::Pre;
                bundle.config.autoregression = Autoregression::Ssru;
            },
            "`autoregression` = \"ssru\"",
        ),
        (&|bundle| bundle.config.norm = NormPlacement::SublayerOutput, "`norm`"),
        (&|bundle| bundle.config.activation = Activation::Gated, "`activation`"),
        (&|bundle| bundle.config.embedding_scale = EmbeddingScale::None, "`embedding_scale`"),
        (&|bundle| bundle.config.decoder_start = DecoderStart::Bos, "`decoder_start` = \"bos\""),
        (&|bundle| bundle.config.decoder_start = DecoderStart::Eos, "`decoder_start` = \"eos\""),
        (&|bundle| bundle.config.positions = Positions::Rotary, "`positions`"),
        (
            &|bundle| bundle.config.sinusoids.layout = SinusoidLayout::Interleaved,
            "`sinusoids.layout`",
        ),
        (&|bundle| bundle.config.sinusoids.formula = SinusoidFormula::Paper, "`sinusoids.formula`"),
        (&|bundle| bundle.config.sinusoids.first = 2, "`sinusoids.first` = 2"),
        (&|bundle| bundle.config.norm_epsilon = 1e-12, "`norm_epsilon`"),
        (
            &|bundle| {
                bundle.search =
                    Some(SearchOptions { length_norm: LengthNorm::Wu, ..SearchOptions::default() });
            },
            "`search.length_norm`",
        ),
        (&|bundle| bundle.config.positions = Positions::Learned, "\"learned\""),
    ];
    for (change, name) in changes {
        let problems = refused(change);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains(name), "{name}: {problems:?}");
    }
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}

/// Damaged folders, and the problem that is named.
#[test]
fn other_folders_are_refused_by_name() {
    let refused = |name: &str, change: &dyn Fn(&Path)| {
        let folder = copy(name);
        change(folder.path());
        import(folder.path(), None).unwrap_err().to_string()
    };
    let decoder = |from: &'static str, to: &'static str| {
        move |folder: &Path| {
            let path = folder.join("decoder.yml");
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains(from));
            fs::write(path, text.replacen(from, to, 1)).unwrap();
        }
    };
    for (name, change, problem) in [
        ("post", &decoder("beam-size: 4", "beam-size: none") as &dyn Fn(&Path), "`beam-size`"),
        ("post", &decoder("beam-size: 4", "beam-size: 0"), "`beam` = 0"),
        ("post", &decoder("beam-size: 4", "beam-size: 1e30"), "`beam`"),
        ("post", &decoder("normalize: 1", "normalize: .nan"), "`normalize`"),
        ("post", &decoder("normalize: 1", "normalize: NaN"), "`length_penalty`"),
        ("post", &decoder("models:", "models:\n  - other.npz"), "`models`"),
        ("post", &decoder("model.npz", "../../model.bin"), "`model.bin`"),
        ("post", &decoder("vocab.spm", "/etc/passwd"), "`passwd`"),
        ("post", &decoder("vocabs:", "vocabs:\n  - vocab.spm"), "`vocabs`"),
        ("post", &decoder("beam-size: 4", "beam-size: {a: {b: c}}"), "line 7"),
        ("words", &|folder| fs::write(folder.join("vocab.de.yml"), "</s>: 0\n").unwrap(), "<unk>"),
        ("words", &|folder| fs::write(folder.join("vocab.de.yml"), [0xff, 0xfe]).unwrap(), "UTF-8"),
        ("words", &|folder| fs::write(folder.join("source.spm"), "").unwrap(), "target.spm"),
        ("post", &|folder| fs::write(folder.join("vocab.spm"), "no model").unwrap(), "vocab.spm"),
        (
            "post",
            &|folder| {
                fs::remove_file(folder.join("decoder.yml")).unwrap();
                fs::copy(folder.join("model.npz"), folder.join("other.npz")).unwrap();
            },
            "several models",
        ),
        (
            "words",
            &|folder| fs::remove_file(folder.join("decoder.yml")).unwrap(),
            "several vocabularies",
        ),
    ] {
        let found = refused(name, change);
        assert!(found.contains(problem), "{problem}: {found}");
    }
}

/// Bytes of a file are replaced, removed or repeated: an error or another model, but no panic.
#[test]
fn mutated_files_do_not_panic() {
    let mut state = 7_u64;
    let mut random = |most: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % most.max(1)
    };
    let files = [
        ("post", "model.npz"),
        ("post", "vocab.spm"),
        ("post", "decoder.yml"),
        ("words", "model.npz"),
        ("words", "vocab.en.yml"),
        ("ssru", "model.npz"),
        ("../firefox", "model.ende.intgemm.alphas.bin"),
        ("../firefox", "lex.12.6.ende.s2t.bin"),
    ];
    for (name, file) in files {
        let folder = copy(name);
        let path = folder.path().join(file);
        let whole = fs::read(&path).unwrap();
        for _ in 0..200 {
            let mut bytes = whole.clone();
            for _ in 0..=random(3) {
                let place = random(bytes.len());
                match random(4) {
                    0 => bytes.truncate(place),
                    1 => bytes.extend_from_within(place..),
                    _ if bytes.is_empty() => {}
                    _ => bytes[place] = random(256) as u8,
                }
            }
            fs::write(&path, bytes).unwrap();
            if let Ok(import) = import(folder.path(), None) {
                let output = tempfile::tempdir().unwrap();
                let _ = import.save(output.path());
            }
        }
    }
}

/// OPUS-MT packages of 2019 have words that subword-nmt divides, and its codes.
#[test]
fn words_are_divided_by_codes_beside_the_model() {
    let folder = copy("words");
    let notes = |folder: &TempDir| import(folder.path(), None).unwrap().notes.join("\n");
    assert!(!notes(&folder).contains("@@"));
    let path = folder.path().join("vocab.en.yml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("hears:", "hea@@:")).unwrap();
    assert!(notes(&folder).contains("`@@`"));
    for side in ["source", "target"] {
        let codes = "#version: 0.2\nh e\nhe a\nr s</w>\n";
        fs::write(folder.path().join(format!("{side}.bpe")), codes).unwrap();
    }
    assert!(notes(&folder).contains("divided by the codes"));
    let (_output, bundle) = bundle(folder.path());
    let tokens = |text: &str| -> Vec<String> {
        let ids = bundle.tokenizers.source.encode(text).unwrap();
        ids.iter().map(|&id| bundle.tokenizers.source.token(id).unwrap()).collect()
    };
    // `rs` is a result of the codes, and not in the vocabulary.
    assert_eq!(tokens("hears"), ["hea", "rs</w>", "<eos>"]);
    let embedding = bundle.weight("source_embedding.weight").unwrap().1.into_owned();
    let row = |token: &str| {
        let id = bundle.tokenizers.source.id(token).unwrap() as usize;
        embedding[id * 16..(id + 1) * 16].to_vec()
    };
    assert_eq!(row("rs</w>"), row("<unk>"));
    assert_ne!(row("hea"), row("<unk>"));
    let engine = bundle.engine(&Device::Cpu).unwrap();
    let source = bundle.tokenizers.source.encode("nobody hears it .").unwrap();
    let found = engine.search(&[source.as_slice()], &bundle.search.clone().unwrap()).unwrap();
    let text = bundle.tokenizers.target.decode(&found[0][0].ids).unwrap();
    assert!(text.starts_with("niemand ") && !text.contains("</w>"), "{text}");
    fs::write(folder.path().join("source.bpe"), "h e\n").unwrap();
    let error = import(folder.path(), None).unwrap_err().to_string();
    assert!(error.contains("source.bpe") && error.contains("#version"), "{error}");
}
