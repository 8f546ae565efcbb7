use std::path::Path;

use tx_model::{ModelConfig, Positions, Transformer, Tying};
use tx_text::{SentencePair, Tokenizer, TokenizerConfig, TokenizerKind, Tokenizers, WordSplit};

use super::*;
use crate::{bundle::ModuleBundle, fixture, search::Member, task::ModelTask};
use burn::tensor::Tensor;
use tempfile::TempDir;

const TEXTS: [&str; 3] =
    ["The cat's toy is 3.5 cm long.", "\"Dov'è l'amico?\" disse (due volte).", "日本語 ok"];

fn bundle(config: &TokenizerConfig, positions: Positions, max_len: usize) -> ModuleBundle {
    let pairs = TEXTS.map(|text| SentencePair::new(text, text));
    let tokenizers = Tokenizers::train(config, &pairs).unwrap();
    let config = ModelConfig {
        d_model: 8,
        n_heads: 2,
        d_ff: 8,
        encoder_layers: 1,
        decoder_layers: 2,
        max_len,
        positions,
        tying: Tying::None,
        ..ModelConfig::default()
    };
    let vocab = tx_model::VocabSizes {
        source: tokenizers.source.vocab_size(),
        target: tokenizers.target.vocab_size(),
    };
    let model = Transformer::new(&config, vocab, &flex()).unwrap();
    ModuleBundle {
        model,
        task: ModelTask::Translate,
        config,
        tokenizers,
        languages: None,
        context: 0,
        search: None,
        lexicon: None,
        provenance: Default::default(),
    }
}

fn flex() -> burn::tensor::Device {
    burn::tensor::Device::flex()
}

/// Saves a bundle and opens it.
fn opened(bundle: &ModuleBundle) -> (TempDir, Bundle) {
    let folder = tempfile::tempdir().unwrap();
    bundle.save(folder.path()).unwrap();
    let bundle = Bundle::open(folder.path()).unwrap();
    (folder, bundle)
}

/// Failures on the packed engine and on tensors, which are the same.
fn failures(bundle: &ModuleBundle) -> Vec<&'static str> {
    let (_folder, bundle) = opened(bundle);
    let failures = |device, count| {
        let results = check(&bundle, &device, LIMIT).unwrap();
        assert_eq!(results.len(), count);
        let failed = results.iter().filter(|result| !result.passed());
        failed.map(|result| result.invariant).collect::<Vec<_>>()
    };
    let (packed, tensors) = (failures(Device::Cpu, 10), failures(Device::Burn(flex()), 11));
    assert_eq!(packed, tensors);
    packed
}

#[test]
fn valid_bundles_of_every_kind_pass() {
    for kind in [
        TokenizerKind::Word,
        TokenizerKind::Character,
        TokenizerKind::Bpe,
        TokenizerKind::Unigram,
        TokenizerKind::Wordpiece,
    ] {
        for split in [WordSplit::Whitespace, WordSplit::Punctuation] {
            for (positions, max_len) in [(Positions::Learned, 3), (Positions::Rotary, 40)] {
                let config = TokenizerConfig { kind, split, ..TokenizerConfig::default() };
                let bundle = bundle(&config, positions, max_len);
                assert_eq!(failures(&bundle), [""; 0], "{config:?}, {max_len}");
            }
        }
    }
}

/// Without its decoder the tokenizer writes `▁the ▁cat` for `the cat`.
#[test]
fn a_tokenizer_that_does_not_round_trip_fails() {
    let mut bundle = bundle(&TokenizerConfig::default(), Positions::Sinusoidal, 40);
    let json = bundle.tokenizers.target.to_json().unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&json).unwrap();
    json["decoder"] = serde_json::Value::Null;
    let json = json.to_string();
    bundle.tokenizers.target = Tokenizer::from_json(json.as_bytes(), Path::new("test")).unwrap();
    assert_eq!(failures(&bundle), ["target texts round-trip through their tokens"]);
    let (_folder, bundle) = opened(&bundle);
    let result = check(&bundle, &Device::Cpu, LIMIT).unwrap().pop().unwrap();
    assert!(result.detail.unwrap().contains("is decoded as"));
}

/// Every text becomes `<unk>`.
#[test]
fn a_tokenizer_without_known_tokens_fails() {
    let mut bundle = bundle(&TokenizerConfig::default(), Positions::Sinusoidal, 40);
    let json = bundle.tokenizers.source.to_json().unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&json).unwrap();
    json["normalizer"] = serde_json::json!({
        "type": "Replace", "pattern": { "Regex": "\\S" }, "content": "☃",
    });
    let json = json.to_string();
    bundle.tokenizers.source = Tokenizer::from_json(json.as_bytes(), Path::new("test")).unwrap();
    assert_eq!(failures(&bundle), ["source texts round-trip through their tokens"]);
}

#[test]
fn a_vocabulary_without_words_skips_the_check_of_texts() {
    let pairs = [SentencePair::new("! ?", "! ?")];
    let config = TokenizerConfig { kind: TokenizerKind::Word, ..TokenizerConfig::default() };
    let tokenizers = Tokenizers::train(&config, &pairs).unwrap();
    let result = tokenizers::round_trip("invariant", &tokenizers.source);
    assert_eq!((result.deviation, result.passed()), (None, true));
    assert!(result.detail.unwrap().contains("no word"));
}

#[test]
fn weights_that_are_not_finite_fail() {
    use burn::module::{Module, ModuleMapper, Param};
    struct SetNan;
    impl ModuleMapper for SetNan {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|weight| weight * f32::NAN)
        }
    }
    let mut bundle = bundle(&TokenizerConfig::default(), Positions::Sinusoidal, 40);
    bundle.model = bundle.model.map(&mut SetNan);
    let inputs = Inputs::new(bundle.vocabulary(), 40, tx_text::special::BOS);
    let check = |engine: Engine| match engine.first() {
        Member::Translation { weights: Weights::Packed(model), .. } => {
            packed::check(&engine, model, &inputs, LIMIT)
        }
        Member::Translation { weights: Weights::Module(model, device), .. } => {
            tensors::check(&engine, model, device, &inputs, LIMIT)
        }
        Member::LanguageModel(_) => unreachable!(),
    };
    for device in [Device::Cpu, Device::Burn(flex())] {
        let results = check(bundle.engine(&device));
        let failed = results.iter().find(|result| result.invariant == "scores are finite");
        assert!(!failed.unwrap().passed());
    }
}

#[test]
fn the_deviation_is_relative_to_the_largest_and_infinite_if_a_value_is_not_finite() {
    assert_eq!(deviation(&[1.0, 3.0], &[2.0, 4.0]), 0.25);
    assert_eq!(deviation(&[0.0], &[0.0]), 0.0);
    for wrong in [&[f32::NAN, 4.0][..], &[f32::INFINITY, 4.0], &[4.0]] {
        assert_eq!(deviation(wrong, &[2.0, 4.0]), f64::INFINITY);
    }
    let skipped = CheckResult { invariant: "", deviation: None, limit: 0.0, detail: None };
    assert!(skipped.passed());
    assert!(!CheckResult::new("", f64::NAN, 1.0).passed());
}

#[test]
fn models_with_one_text_pass_on_every_device() {
    use tx_model::Pooling;

    let folders = [(); 4].map(|()| tempfile::tempdir().unwrap());
    fixture::classifier(Pooling::First).save(folders[0].path()).unwrap();
    fixture::classifier(Pooling::Mean).save(folders[1].path()).unwrap();
    fixture::language_model(TokenizerKind::Bpe, Tying::None).save(folders[2].path()).unwrap();
    fixture::masked(TokenizerKind::Bpe, Tying::All).save(folders[3].path()).unwrap();
    for (folder, count) in folders.iter().zip([5, 5, 8, 5]) {
        let bundle = Bundle::open(folder.path()).unwrap();
        for device in [Device::Cpu, Device::Burn(flex())] {
            let results = check(&bundle, &device, LIMIT).unwrap();
            assert!(results.iter().all(CheckResult::passed), "{results:?}");
            assert!(results.iter().all(|result| result.deviation.is_some()), "{results:?}");
            assert_eq!(results.len(), count);
        }
    }
}
