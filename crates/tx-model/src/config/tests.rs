use super::*;

const VOCAB: VocabSizes = VocabSizes { source: 10, target: 10 };

#[test]
fn the_base_model_is_valid() {
    assert_eq!(ModelConfig::default().check(VOCAB), Ok(()));
    assert_eq!(ModelConfig::default().d_head(), 64);
}

#[test]
fn vocabularies_are_rounded_up() {
    let config = ModelConfig { vocab_multiple: 8, ..ModelConfig::default() };
    let padded = config.padded(VocabSizes { source: 17, target: 8 });
    assert_eq!(padded, VocabSizes { source: 24, target: 8 });
    assert_eq!(ModelConfig::default().padded(VOCAB), VOCAB);
}

#[test]
fn every_broken_rule_is_listed_at_once() {
    let config = ModelConfig {
        d_model: 511,
        d_ff: 0,
        max_len: 2,
        dropout: DropoutConfig { embedding: 1.0, ..DropoutConfig::none() },
        ..ModelConfig::default()
    };
    let error = config.check(VocabSizes { source: 7, target: 0 }).unwrap_err();
    assert_eq!(
        error.problems,
        [
            "`d_ff` must be at least 1",
            "`n_heads` = 8 must divide `d_model` = 511 (remainder 7)",
            "`max_len` = 2 leaves no room between `<bos>` and `<eos>`",
            "`d_model` = 511 must be even: sines and cosines are paired",
            "`dropout.embedding` = 1 must be at least 0 and below 1",
            "the target vocabulary is empty",
            "`tying` = \"all\" needs one vocabulary for both sides, found 7 source and 0 target ids",
        ]
    );
}

#[test]
fn sizes_beyond_the_limits_are_rejected() {
    let vocab = VocabSizes { source: usize::MAX, target: usize::MAX };
    let config = ModelConfig {
        d_model: 1 << 40,
        n_heads: 1 << 40,
        d_ff: usize::MAX,
        encoder_layers: usize::MAX,
        decoder_layers: 1_001,
        max_len: 1_000_000_000,
        vocab_multiple: usize::MAX,
        ..ModelConfig::default()
    };
    let problems = config.check(vocab).unwrap_err().problems;
    assert_eq!(problems.len(), 9, "{problems:?}");
    assert!(problems.contains(&"`max_len` = 1000000000 must be at most 65536".to_owned()));

    // 32,768 · 512 is the limit of the table.
    let long = ModelConfig { max_len: 32_768, ..ModelConfig::default() };
    assert_eq!(long.check(VOCAB), Ok(()));
    let wide = ModelConfig { d_model: 1_024, ..long };
    assert_eq!(
        wide.problems(),
        ["`max_len` = 32768 times `d_model` = 1024 must be at most 16777216 with \
          `positions` = \"sinusoidal\""]
    );
    let rotary = ModelConfig { positions: Positions::Rotary, ..wide };
    assert_eq!(rotary.problems(), [""; 0]);
}

#[test]
fn nan_is_not_a_probability() {
    let dropout = DropoutConfig { residual: f64::NAN, ..DropoutConfig::none() };
    let config = ModelConfig { dropout, ..ModelConfig::default() };
    assert_eq!(config.problems().len(), 1);
}

#[test]
fn an_epsilon_is_a_small_positive_number() {
    for (norm_epsilon, is_valid) in [
        (1e-12, true),
        (1e-6, true),
        (0.1, true),
        (0.0, false),
        (-1e-5, false),
        // Zero in single precision.
        (1e-50, false),
        (0.2, false),
        (f64::NAN, false),
        (f64::INFINITY, false),
    ] {
        let config = ModelConfig { norm_epsilon, ..ModelConfig::default() };
        assert_eq!(config.problems().is_empty(), is_valid, "{norm_epsilon}");
    }
    let config = ModelConfig { norm_epsilon: 0.0, ..ModelConfig::default() };
    assert_eq!(config.problems(), ["`norm_epsilon` = 0 must be in 1e-12..=0.1"]);
}

#[test]
fn sinusoids_start_at_two_at_most_and_tensor2tensor_needs_two_wavelengths() {
    let sinusoids =
        Sinusoids { formula: SinusoidFormula::Tensor2tensor, first: 3, ..Default::default() };
    let config = ModelConfig { d_model: 2, n_heads: 1, sinusoids, ..ModelConfig::default() };
    assert_eq!(
        config.problems(),
        [
            "`sinusoids.first` = 3 must be at most 2",
            "`d_model` = 2 must be at least 4 with `sinusoids.formula` = \"tensor2tensor\", which \
             divides by `d_model` / 2 - 1",
        ]
    );
    let sinusoids = Sinusoids { first: 2, ..sinusoids };
    let config = ModelConfig { d_model: 4, sinusoids, ..config };
    assert_eq!(config.problems(), [""; 0]);
}

/// Configurations that were written before these keys existed.
#[test]
fn keys_may_be_missing() {
    let config: ModelConfig = serde_json::from_str(r#"{"d_model": 512}"#).unwrap();
    assert_eq!(config, ModelConfig::default());
    let json = r#"{
        "norm_epsilon": 1e-6,
        "decoder_start": "zero",
        "sinusoids": {"layout": "halves", "formula": "tensor2tensor"}
    }"#;
    let config: ModelConfig = serde_json::from_str(json).unwrap();
    let (layout, formula) = (SinusoidLayout::Halves, SinusoidFormula::Tensor2tensor);
    assert_eq!(config.sinusoids, Sinusoids { layout, formula, first: 0 });
    assert_eq!((config.norm_epsilon, config.decoder_start), (1e-6, DecoderStart::Zero));
    let written = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<ModelConfig>(&written).unwrap(), config);
}

#[test]
fn an_unknown_key_is_rejected() {
    let error = serde_json::from_str::<ModelConfig>(r#"{"d_modell": 4}"#).unwrap_err();
    assert!(error.to_string().contains("d_modell"), "{error}");
}
