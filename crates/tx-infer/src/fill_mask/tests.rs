use tx_model::{Pooling, Tying};
use tx_text::TokenizerKind;

use super::*;
use crate::{Device, fixture};

const INPUTS: [&str; 4] =
    ["The <mask> sleeps.", "", "<mask> the zebra <mask>?", "it's <mask>, in the house"];

fn devices() -> [Device; 2] {
    [Device::Cpu, Device::Burn(burn::tensor::Device::flex())]
}

fn assert_close(found: &[Filled], expected: &[Filled]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!((&found.text, &found.unknown), (&expected.text, &expected.unknown));
        for (found, expected) in found.masks.concat().iter().zip(expected.masks.concat()) {
            assert_eq!((found.id, &found.token), (expected.id, &expected.token));
            assert!((found.probability - expected.probability).abs() < 1e-5);
        }
    }
}

#[test]
fn a_batch_on_any_device_equals_each_text_alone() {
    for kind in [TokenizerKind::Word, TokenizerKind::Bpe] {
        for tying in [Tying::None, Tying::All] {
            let bundle = fixture::masked(kind, tying);
            let [packed, tensors] = devices().map(|device| FillMask::from_module(&bundle, &device));
            let expected: Vec<_> = INPUTS.iter().map(|text| packed.fill(text).unwrap()).collect();
            let small = packed.clone().with_batch_tokens(1).with_threads(2);
            for other in [&packed, &tensors, &small] {
                assert_close(&other.fill_batch(&INPUTS).unwrap(), &expected);
            }
            let masks: Vec<usize> = expected.iter().map(|found| found.masks.len()).collect();
            assert_eq!(masks, [1, 0, 2, 1]);
            assert_eq!(expected[1], Filled::default());
        }
    }
}

#[test]
fn the_likeliest_tokens_come_first_and_the_text_has_the_best() {
    let model =
        FillMask::from_module(&fixture::masked(TokenizerKind::Word, Tying::All), &Device::Cpu);
    let all = model.clone().with_top_k(1_000).fill("The <mask> sleeps.").unwrap();
    let candidates = &all.masks[0];
    // All tokens that can be part of a text.
    assert_eq!(candidates.len(), model.tokenizer().vocab_size() - 4);
    assert!(candidates.is_sorted_by(|a, b| a.probability >= b.probability));
    let total: f32 = candidates.iter().map(|token| token.probability).sum();
    assert!(total > 0.5 && total <= 1.0 + 1e-5, "{total}");
    let five = model.fill("The <mask> sleeps.").unwrap();
    assert_eq!(five.masks[0], candidates[..5]);
    let best = &candidates[0];
    assert!(five.text.contains(&best.text), "{five:?}");
    let direct = model.tokenizer().encode_with_masks("The <mask> sleeps.").unwrap();
    let ids: Vec<u32> =
        direct.into_iter().map(|id| if id == MASK { best.id } else { id }).collect();
    assert_eq!(five.text, model.tokenizer().decode(&ids).unwrap());
}

#[test]
fn a_text_without_a_mask_or_too_long_names_its_line() {
    let model =
        FillMask::from_module(&fixture::masked(TokenizerKind::Word, Tying::All), &Device::Cpu);
    let found = model.fill_batch(&["<mask>", "", "the cat"]);
    let Err(error @ InferError::NoMask { line: 3 }) = found else { panic!("{found:?}") };
    assert_eq!(error.to_string(), "line 3 has no `<mask>`");
    let long = format!("<mask> {}", "the cat ".repeat(40));
    let found = model.fill_batch(&["<mask>", &long]);
    assert!(
        matches!(found, Err(InferError::LongText { line: 2, found: Some(83), max: 32 })),
        "{found:?}"
    );
    let endless = format!("<mask>{}", "a".repeat(1 << 20));
    let found = model.fill(&endless);
    assert!(matches!(found, Err(InferError::LongText { line: 1, found: None, .. })), "{found:?}");
}

#[test]
fn a_saved_bundle_fills_as_its_module() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = fixture::masked(TokenizerKind::Bpe, Tying::Decoder);
    bundle.save(folder.path()).unwrap();
    for device in devices() {
        let opened = FillMask::open(folder.path(), &device).unwrap();
        let expected = FillMask::from_module(&bundle, &device);
        assert_eq!(opened.fill_batch(&INPUTS).unwrap(), expected.fill_batch(&INPUTS).unwrap());
    }
    fixture::classifier(Pooling::Mean).save(folder.path()).unwrap();
    let error = FillMask::open(folder.path(), &Device::Cpu).unwrap_err();
    assert!(error.hint().unwrap().contains("`Classifier`"), "{error}");
}

#[test]
fn scores_that_are_not_finite_name_the_line() {
    let mut bundle = fixture::masked(TokenizerKind::Word, Tying::None);
    bundle.model = fixture::filled(bundle.model, f32::INFINITY);
    for device in devices() {
        let found = FillMask::from_module(&bundle, &device).fill_batch(&["", "<mask>"]);
        assert!(matches!(found, Err(InferError::NotFinite { line: 2 })), "{found:?}");
    }
}

#[test]
fn attention_includes_the_mask() {
    for device in devices() {
        let model =
            FillMask::from_module(&fixture::masked(TokenizerKind::Word, Tying::All), &device);
        let found = model.attention("The <mask> sleeps.").unwrap();
        assert!(found.source.tokens.contains(&"<mask>".to_owned()), "{:?}", found.source);
        for map in found.encoder.concat() {
            assert!(map.rows().all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-5));
        }
    }
}
