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
fn an_unknown_key_is_rejected() {
    let error = serde_json::from_str::<ModelConfig>(r#"{"d_modell": 4}"#).unwrap_err();
    assert!(error.to_string().contains("d_modell"), "{error}");
}
