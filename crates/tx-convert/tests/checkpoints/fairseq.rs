//! Models of fairseq (`fixtures/fairseq/generate.py`).

use std::{fs, path::Path};

use tx_convert::{
    ImportFormat,
    import::{ImportOptions, import_with},
};
use tx_model::{
    Activation, DecoderStart, EmbeddingScale, NormPlacement, Positions, SinusoidFormula,
    SinusoidLayout, Tying,
};
use tx_text::special::{EOS, UNK};

use super::{Cases, bundle, error_of_changed};

fn fixtures() -> std::path::PathBuf {
    super::fixtures("fairseq")
}

/// Error of the import of a changed copy.
fn error(name: &str, change: impl FnOnce(&Path)) -> String {
    error_of_changed(&fixtures().join(name), &ImportOptions::default(), change)
}

#[test]
fn log_probabilities_and_greedy_search_are_those_of_fairseq() {
    let cases = Cases::read("fairseq");
    for name in ["post", "pre"] {
        let (_output, bundle) = bundle(&fixtures().join(name), &ImportOptions::default());
        cases.check(name, &bundle);
    }
}

#[test]
fn the_configuration_is_that_of_the_options_and_weights() {
    let import = import_with(&fixtures().join("post"), None, &ImportOptions::default()).unwrap();
    assert_eq!(import.format, ImportFormat::Fairseq);
    assert_eq!(import.pair, Some(["de", "en"].map(str::to_owned)));
    let config = &import.config;
    assert_eq!((config.d_model, config.d_ff, config.n_heads, config.max_len), (8, 12, 2, 30));
    assert_eq!((config.encoder_layers, config.decoder_layers), (1, 2));
    assert_eq!((config.norm, config.norm_epsilon), (NormPlacement::Post, 1e-5));
    assert_eq!((config.positions, config.activation), (Positions::Sinusoidal, Activation::Relu));
    let sinusoids = config.sinusoids;
    assert_eq!((sinusoids.layout, sinusoids.first), (SinusoidLayout::Halves, 2));
    assert_eq!(sinusoids.formula, SinusoidFormula::Tensor2tensor);
    assert_eq!((config.tying, config.decoder_start), (Tying::All, DecoderStart::Eos));
    assert_eq!(config.embedding_scale, EmbeddingScale::Both);
    assert_eq!(import.search.unwrap().beam, 5);

    let import = import_with(&fixtures().join("pre"), None, &ImportOptions::default()).unwrap();
    assert_eq!(import.pair, Some(["en", "it"].map(str::to_owned)));
    let config = &import.config;
    assert_eq!((config.norm, config.activation), (NormPlacement::Pre, Activation::Gelu));
    assert_eq!((config.positions, config.max_len), (Positions::Learned, 30));
    assert_eq!((config.tying, config.embedding_scale), (Tying::None, EmbeddingScale::None));
    assert!(
        import.notes.iter().any(|note| note.contains("divided at spaces")),
        "{:?}",
        import.notes
    );
}

#[test]
fn texts_are_divided_at_spaces() {
    let (_output, pre) = bundle(&fixtures().join("pre"), &ImportOptions::default());
    let source = &pre.tokenizers.source;
    let [dog, sees] = ["dog", "sees"].map(|token| source.id(token).unwrap());
    assert_eq!(source.encode("dog  sees Dog").unwrap(), [dog, sees, UNK, EOS]);
}

#[test]
fn missing_facts_are_named() {
    let found = error("post", |folder| fs::remove_file(folder.join("dict.en.txt")).unwrap());
    assert!(found.contains("dict.en.txt"), "{found}");
    let found = error("post", |folder| fs::write(folder.join("dict.en.txt"), "a 3\nb\n").unwrap());
    assert!(found.contains("line 2: it has no token and count"), "{found}");
    let options = ImportOptions {
        source_language: Some("x/../de".to_owned()),
        target_language: Some("en".to_owned()),
        ..ImportOptions::default()
    };
    let found = import_with(&fixtures().join("post"), None, &options).unwrap_err().to_string();
    assert!(found.contains("`x/../de` is not the code of a language"), "{found}");
    // The sizes of its dictionaries decide on the languages of `pre`.
    let found = error("pre", |folder| fs::write(folder.join("dict.it.txt"), "il 3\n").unwrap());
    assert!(found.contains("`--source-language LANG`"), "{found}");
    let found = error("post", |folder| {
        let path = folder.join("dict.en.txt");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("a 100\nb 99", "b 99\na 100")).unwrap();
    });
    assert!(found.contains("`share_all_embeddings` needs equal dictionaries"), "{found}");
}
