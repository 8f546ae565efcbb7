//! Models around PyTorch's `nn.Transformer` (`fixtures/pytorch/generate.py`), and what their files must
//! have.

use std::{fs, path::Path};

use tx_convert::{
    ImportFormat,
    import::{ImportOptions, import_with},
};
use tx_model::{Activation, EmbeddingScale, NormPlacement, Positions};
use tx_text::special::{BOS, EOS, UNK};

use super::{Cases, bundle, error_of_changed};

fn fixtures() -> std::path::PathBuf {
    super::fixtures("pytorch")
}

fn two_heads() -> ImportOptions {
    ImportOptions { heads: Some(2), ..ImportOptions::default() }
}

/// Error of the import of a changed copy.
fn error(name: &str, change: impl FnOnce(&Path)) -> String {
    error_of_changed(&fixtures().join(name), &two_heads(), change)
}

#[test]
fn log_probabilities_and_greedy_search_are_those_of_pytorch() {
    let cases = Cases::read("pytorch");
    for name in ["tutorial", "tied"] {
        let (_output, bundle) = bundle(&fixtures().join(name), &two_heads());
        cases.check(name, &bundle);
    }
}

#[test]
fn the_configuration_is_that_of_the_modules() {
    let (_output, tutorial) = bundle(&fixtures().join("tutorial"), &two_heads());
    let config = &tutorial.config;
    assert_eq!((config.d_model, config.d_ff, config.n_heads), (12, 16, 2));
    assert_eq!((config.encoder_layers, config.decoder_layers, config.max_len), (2, 1, 40));
    assert_eq!((config.norm, config.norm_epsilon), (NormPlacement::PostFinal, 1e-5));
    assert_eq!((config.positions, config.activation), (Positions::Sinusoidal, Activation::Relu));
    assert_eq!(config.embedding_scale, EmbeddingScale::Both);
    let (_output, tied) = bundle(&fixtures().join("tied"), &two_heads());
    let config = &tied.config;
    assert_eq!((config.encoder_layers, config.decoder_layers), (1, 2));
    assert_eq!((config.norm, config.norm_epsilon), (NormPlacement::Pre, 1e-3));
    assert_eq!((config.positions, config.activation), (Positions::Learned, Activation::Gelu));
    assert_eq!(config.embedding_scale, EmbeddingScale::None);
    let import = import_with(&fixtures().join("tied"), None, &two_heads()).unwrap();
    assert_eq!(import.format, ImportFormat::PyTorchTransformer);
}

/// `é` is one token, `z` is none, and a text can contain the name of a special token.
#[test]
fn texts_are_divided_into_words_or_characters() {
    let (_output, tied) = bundle(&fixtures().join("tied"), &two_heads());
    let source = &tied.tokenizers.source;
    let ids = source.encode("é z").unwrap();
    let [e, space] = ["é", " "].map(|token| source.id(token).unwrap());
    assert_eq!(ids, [BOS, e, space, UNK, EOS]);
    assert_eq!(source.decode(&ids[1..3]).unwrap(), "é ");
    let ids = source.encode("<eos>").unwrap();
    assert_eq!(ids[1..], [UNK, source.id("e").unwrap(), UNK, UNK, UNK, EOS]);

    let (_output, tutorial) = bundle(&fixtures().join("tutorial"), &two_heads());
    let source = &tutorial.tokenizers.source;
    let [dog, sees] = ["dog", "sees"].map(|token| source.id(token).unwrap());
    assert_eq!(source.encode("dog  sees zebras").unwrap(), [BOS, dog, sees, UNK, EOS]);
    let import = import_with(
        &fixtures().join("tutorial"),
        None,
        &ImportOptions { source_eos: Some(false), ..two_heads() },
    );
    assert_eq!(import.unwrap().tokenizers.source.encode("dog").unwrap(), [BOS, dog]);
}

#[test]
fn missing_facts_are_named() {
    let remove =
        |file: &'static str| move |folder: &Path| fs::remove_file(folder.join(file)).unwrap();
    let found = error("tutorial", remove("source_vocabulary.txt"));
    assert!(found.contains("`source_vocabulary.json`"), "{found}");
    // Without the mapping, the tables of positions, whose names have no `pos`, are taken for embeddings.
    let found = error("tied", remove("mapping.toml"));
    assert!(found.contains("`unused` is not part of the model"), "{found}");

    let mapping = |text: &'static str| {
        move |folder: &Path| fs::write(folder.join("mapping.toml"), text).unwrap()
    };
    let found = error("tied", mapping("norm_frist = true"));
    assert!(found.contains("norm_frist"), "{found}");
    let found = error("tied", mapping("[tensors]\nprojection = \"head.weight\""));
    assert!(found.contains("names `head.weight` as `projection`"), "{found}");
    let found = error("tutorial", mapping("[tensors]\nsource_embedding = \"generator.bias\""));
    assert!(found.contains("`generator.bias` has shape [11]"), "{found}");

    let no_end =
        |folder: &Path| fs::write(folder.join("target_vocabulary.txt"), "<bos>\na\n").unwrap();
    let found = error("tutorial", no_end);
    assert!(found.contains("none of the tokens `<eos>`"), "{found}");
    let long =
        |folder: &Path| fs::write(folder.join("source_vocabulary.txt"), "a\n".repeat(11)).unwrap();
    let found = error("tutorial", long);
    assert!(found.contains("it has 11 tokens, and the embedding has 10 rows"), "{found}");

    // The default is that of `nn.Transformer`, 8.
    let folder = fixtures().join("tutorial");
    let found = import_with(&folder, None, &ImportOptions::default()).unwrap_err().to_string();
    assert!(found.contains("`n_heads` = 8 must divide `d_model` = 12"), "{found}");
    assert!(found.contains("`--heads N`"), "{found}");
}
