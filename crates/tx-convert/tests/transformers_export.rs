//! Export to `transformers` and back.

#![allow(
    clippy::unwrap_used,
    reason = "clippy recognizes test functions as tests, but not their helpers"
)]

use tempfile::TempDir;
use tx_convert::{ExportFormat, export::export, import::import};
use tx_engine::PackedTransformer;
use tx_infer::{Bundle, ModelTask, NewBundle, NewWeight, Precision};
use tx_model::{
    Activation, DecoderStart, EmbeddingScale, ModelConfig, NormPlacement, Positions,
    SinusoidFormula, SinusoidLayout, Sinusoids, Tying,
};
use tx_text::{SentencePair, TokenizerConfig, TokenizerKind, Tokenizers};

fn small() -> ModelConfig {
    ModelConfig {
        d_model: 8,
        n_heads: 2,
        d_ff: 12,
        encoder_layers: 2,
        decoder_layers: 1,
        max_len: 20,
        ..ModelConfig::default()
    }
}

/// Bundle with arbitrary weights.
fn bundle(config: ModelConfig) -> (TempDir, Bundle) {
    let pairs = [SentencePair::new("a cat sleeps .", "un gatto dorme .")];
    let kind = TokenizerKind::Word;
    let tokenizers =
        Tokenizers::train(&TokenizerConfig { kind, ..TokenizerConfig::default() }, &pairs).unwrap();
    let ids = tokenizers.source.vocab_size();
    let vocab = config.padded(tx_model::VocabSizes { source: ids, target: ids });
    let weights = config.weight_shapes(vocab).into_iter().zip(1..).map(|(weight, number)| {
        let size: usize = weight.shape.iter().product();
        let is_scale = weight.name.ends_with("gamma");
        let value = move |i: usize| (i as f32 * 12.9898 + number as f32 * 78.233).sin();
        let values =
            move || (0..size).map(|i| value(i) * 0.5 + f32::from(u8::from(is_scale))).collect();
        NewWeight { name: weight.name, shape: weight.shape, values: Box::new(values) }
    });
    let folder = tempfile::tempdir().unwrap();
    let new = NewBundle {
        task: ModelTask::Translate,
        weights: weights.collect(),
        config,
        tokenizers,
        languages: None,
        context: 0,
        search: None,
        provenance: Default::default(),
    };
    new.save(folder.path()).unwrap();
    let bundle = Bundle::open(folder.path()).unwrap();
    (folder, bundle)
}

/// Logits of a forced target.
fn logits(bundle: &Bundle) -> Vec<f32> {
    let start = match bundle.config.decoder_start {
        DecoderStart::Pad => 0,
        DecoderStart::Bos | DecoderStart::Zero => 1,
        DecoderStart::Eos => 2,
    };
    let source = bundle.tokenizers.source.encode("a cat sleeps .").unwrap();
    let model = bundle.pack::<PackedTransformer>(Precision::F32).unwrap();
    let mut decoding = model.start(&[&source]);
    [start, 5, 4, 6].iter().flat_map(|&token| decoding.step_logits(&[token])).collect()
}

#[test]
fn an_export_imported_again_is_the_same_model() {
    let halves = Sinusoids { layout: SinusoidLayout::Halves, ..Sinusoids::default() };
    for config in [
        small(),
        ModelConfig { norm: NormPlacement::Pre, ..small() },
        ModelConfig { norm: NormPlacement::Pre, sinusoids: halves, ..small() },
        ModelConfig { sinusoids: halves, decoder_start: DecoderStart::Pad, ..small() },
        ModelConfig {
            attention_bias: false,
            feed_forward_bias: false,
            output_bias: false,
            decoder_start: DecoderStart::Eos,
            activation: Activation::Swish,
            vocab_multiple: 8,
            ..small()
        },
        ModelConfig {
            tying: Tying::None,
            activation: Activation::Gelu,
            embedding_scale: EmbeddingScale::None,
            ..small()
        },
        ModelConfig { tying: Tying::Decoder, ..small() },
    ] {
        let (_folder, original) = bundle(config.clone());
        let output = tempfile::tempdir().unwrap();
        export(&original, ExportFormat::Transformers, output.path()).unwrap();
        let again = tempfile::tempdir().unwrap();
        import(output.path(), None).unwrap().save(again.path()).unwrap();
        let again = Bundle::open(again.path()).unwrap();
        assert_eq!(again.config.norm, config.norm);
        assert_eq!(again.config.tying, config.tying);
        let json = |bundle: &Bundle| {
            let Tokenizers { source, target } = &bundle.tokenizers;
            [source.to_json().unwrap(), target.to_json().unwrap()]
        };
        assert_eq!(json(&again), json(&original));
        let (found, expected) = (logits(&again), logits(&original));
        assert_eq!(found.len(), expected.len(), "{config:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= 1e-4, "{found}, {expected}: {config:?}");
        }
    }
}

#[test]
fn properties_that_the_architectures_do_not_have_are_named() {
    let first = Sinusoids { first: 2, ..Sinusoids::default() };
    let formula = Sinusoids { formula: SinusoidFormula::Tensor2tensor, ..Sinusoids::default() };
    for (config, message) in [
        (ModelConfig { norm: NormPlacement::SublayerOutput, ..small() }, "`norm`"),
        (
            ModelConfig { norm: NormPlacement::Pre, tying: Tying::None, ..small() },
            "needs `tying` = \"all\"",
        ),
        (ModelConfig { norm_epsilon: 1e-6, ..small() }, "`norm_epsilon` = 0.000001"),
        (ModelConfig { positions: Positions::Learned, ..small() }, "`positions`"),
        (ModelConfig { sinusoids: first, ..small() }, "`sinusoids.first` = 2"),
        (ModelConfig { sinusoids: formula, ..small() }, "`sinusoids.formula`"),
        (ModelConfig { activation: Activation::Gated, ..small() }, "`activation`"),
        (
            ModelConfig { embedding_scale: EmbeddingScale::Source, ..small() },
            "`embedding_scale` = \"source\"",
        ),
        (ModelConfig { decoder_start: DecoderStart::Zero, ..small() }, "`decoder_start`"),
    ] {
        let (_folder, bundle) = bundle(config);
        let output = tempfile::tempdir().unwrap();
        let error = export(&bundle, ExportFormat::Transformers, output.path()).unwrap_err();
        assert!(error.to_string().contains(message), "{message}: {error}");
        assert_eq!(std::fs::read_dir(output.path()).unwrap().count(), 0);
    }
}
