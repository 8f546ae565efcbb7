//! Models of JoeyNMT (`fixtures/joeynmt/generate.py`).

use std::{fs, path::Path};

use tx_convert::{
    ImportFormat,
    import::{ImportOptions, import_with},
};
use tx_infer::LengthNorm;
use tx_model::{Activation, EmbeddingScale, NormPlacement, Positions, Tying};
use tx_text::special::{EOS, UNK};

use super::{Cases, bundle, error_of_changed};

fn fixtures() -> std::path::PathBuf {
    super::fixtures("joeynmt")
}

/// Error of the import of a changed copy.
fn error(name: &str, change: impl FnOnce(&Path)) -> String {
    error_of_changed(&fixtures().join(name), &ImportOptions::default(), change)
}

/// Error of the import with a changed `config.yaml`.
fn error_of_config(name: &str, from: &str, to: &str) -> String {
    error(name, |folder| {
        let path = folder.join("config.yaml");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from}");
        fs::write(&path, text.replace(from, to)).unwrap();
    })
}

#[test]
fn log_probabilities_and_greedy_search_are_those_of_joeynmt() {
    let cases = Cases::read("joeynmt");
    for name in ["pre", "post"] {
        let (_output, bundle) = bundle(&fixtures().join(name), &ImportOptions::default());
        cases.check(name, &bundle);
    }
}

#[test]
fn the_configuration_is_that_of_the_file() {
    let import = import_with(&fixtures().join("pre"), None, &ImportOptions::default()).unwrap();
    assert_eq!(import.format, ImportFormat::JoeyNmt);
    assert_eq!(import.pair, Some(["en", "it"].map(str::to_owned)));
    let config = &import.config;
    assert_eq!((config.d_model, config.d_ff, config.n_heads, config.max_len), (8, 12, 2, 40));
    assert_eq!((config.encoder_layers, config.decoder_layers), (2, 1));
    assert_eq!((config.norm, config.norm_epsilon), (NormPlacement::Pre, 1e-6));
    assert_eq!((config.positions, config.activation), (Positions::Sinusoidal, Activation::Relu));
    assert_eq!((config.tying, config.output_bias), (Tying::None, false));
    assert_eq!(config.embedding_scale, EmbeddingScale::Both);
    let search = import.search.unwrap();
    assert_eq!((search.beam, search.length_norm, search.length_penalty), (5, LengthNorm::Wu, 1.0));
    assert_eq!((search.max_len_ratio, search.max_len_extra, search.min_len), (0.0, 12, 1));
    assert_eq!((search.suppress, import.notes.len()), (vec![UNK], 0));

    // A checkpoint can be named.
    let post = fixtures().join("post/best.ckpt");
    let import = import_with(&post, None, &ImportOptions::default()).unwrap();
    let config = &import.config;
    assert_eq!((config.norm, config.activation), (NormPlacement::Post, Activation::Gelu));
    assert_eq!((config.tying, config.embedding_scale), (Tying::All, EmbeddingScale::None));
    assert_eq!(import.search.unwrap().beam, 5);
}

#[test]
fn texts_are_divided_into_words_or_characters_in_lower_case() {
    let (_output, pre) = bundle(&fixtures().join("pre"), &ImportOptions::default());
    let source = &pre.tokenizers.source;
    let [dog, sees] = ["dog", "sees"].map(|token| source.id(token).unwrap());
    assert_eq!(source.encode("dog  sees Dog").unwrap(), [dog, sees, UNK, EOS]);
    let (_output, post) = bundle(&fixtures().join("post"), &ImportOptions::default());
    let source = &post.tokenizers.source;
    let [e, space] = ["é", " "].map(|token| source.id(token).unwrap());
    assert_eq!(source.encode("É Z").unwrap(), [e, space, UNK, EOS]);
    assert_eq!(source.decode(&[e, space]).unwrap(), "é ");
}

#[test]
fn options_that_are_not_supported_are_named() {
    let found = error_of_config("pre", "type: transformer", "type: recurrent");
    assert!(found.contains("`type` of the encoder is `recurrent`"), "{found}");
    let found = error_of_config("pre", "activation: relu", "activation: tanh");
    assert!(found.contains("`activation` is `tanh`"), "{found}");
    let found = error_of_config("pre", "layer_norm: pre", "layer_norm: pre\n    alpha: 0.5");
    assert!(found.contains("`alpha` of the decoder is 0.5"), "{found}");
    let found = error_of_config("post", "layer_norm: post", "layer_norm: pre");
    assert!(found.contains("without a norm after its layers"), "{found}");
    let found = error_of_config("pre", "layer_norm: pre", "layer_norm: middle");
    assert!(found.contains("config.yaml") && found.contains("middle"), "{found}");
    let found = error_of_config("pre", "level: word", "level: bpe");
    assert!(found.contains("`data.src` has no `model_file`"), "{found}");
    let found = error_of_config("pre", "num_heads: 2", "num_heads: 3");
    assert!(found.contains("`n_heads` = 3 must divide `d_model` = 8"), "{found}");
    let swapped = |folder: &Path| {
        let path = folder.join("trg_vocab.txt");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("a\nb", "b\na")).unwrap();
    };
    let found = error("post", swapped);
    assert!(found.contains("`tied_embeddings` needs equal vocabularies"), "{found}");
}

#[test]
fn missing_files_are_named() {
    let found = error("pre", |folder| fs::remove_file(folder.join("trg_vocab.txt")).unwrap());
    assert!(found.contains("trg_vocab.txt"), "{found}");
    let long = |folder: &Path| {
        let tokens: String = (0..9).map(|number| format!("w{number}\n")).collect();
        fs::write(folder.join("src_vocab.txt"), tokens).unwrap();
    };
    let found = error("pre", long);
    assert!(found.contains("it has 13 tokens, and the embedding has 10 rows"), "{found}");
    let found = error("pre", |folder| fs::remove_file(folder.join("best.ckpt")).unwrap());
    assert!(found.contains("no known model format"), "{found}");
}
