use tx_model::Pooling;

use super::*;
use crate::{Device, fixture, task::TaskKind};

const INPUTS: [&str; 5] = [
    "The cat sleeps.",
    "",
    "Is the zebra here?",
    " \t ",
    "the dog reads the red book in the house, it's there",
];

fn devices() -> [Device; 2] {
    [Device::Cpu, Device::Burn(burn::tensor::Device::flex())]
}

/// Largest difference of the probabilities of each class.
fn difference(a: &Classification, b: &Classification) -> f32 {
    assert_eq!(a.scores.len(), b.scores.len());
    let of = |found: &Classification, class| {
        found.scores.iter().find(|score| score.class == class).map_or(0.0, |it| it.probability)
    };
    (0..a.scores.len()).map(|class| (of(a, class) - of(b, class)).abs()).fold(0.0, f32::max)
}

#[test]
fn a_batch_on_any_device_equals_each_text_alone() {
    for pooling in [Pooling::First, Pooling::Mean] {
        let bundle = fixture::classifier(pooling);
        let [packed, tensors] = devices().map(|device| Classifier::from_module(&bundle, &device));
        let small = packed.clone().with_batch_tokens(1).with_threads(2);
        let expected: Vec<_> = INPUTS.iter().map(|text| packed.classify(text).unwrap()).collect();
        for other in [&packed, &tensors, &small] {
            for (found, expected) in other.classify_batch(&INPUTS).unwrap().iter().zip(&expected) {
                assert!(difference(found, expected) < 1e-5, "{found:?}\n{expected:?}");
                assert_eq!(found.unknown, expected.unknown);
            }
        }
        for (text, found) in INPUTS.iter().zip(&expected) {
            let sum: f32 = found.scores.iter().map(|score| score.probability).sum();
            let labels: Vec<&str> = found.scores.iter().map(|score| &*score.label).collect();
            if text.trim().is_empty() {
                assert_eq!(*found, Classification::default());
                continue;
            }
            assert!((sum - 1.0).abs() < 1e-5 && labels.len() == 3, "{found:?}");
            assert!(found.scores.is_sorted_by(|a, b| a.probability >= b.probability));
            assert_eq!(found.label(), Some(labels[0]));
            let label = |score: &LabelScore| packed.labels()[score.class] == score.label;
            assert!(found.scores.iter().all(label));
        }
        assert_eq!(expected[2].unknown, ["zebra"]);
    }
}

#[test]
fn a_saved_bundle_classifies_as_its_module() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = fixture::classifier(Pooling::Mean);
    bundle.save(folder.path()).unwrap();
    for device in devices() {
        let opened = Classifier::open(folder.path(), &device).unwrap();
        let expected = Classifier::from_module(&bundle, &device);
        assert_eq!(
            opened.classify_batch(&INPUTS).unwrap(),
            expected.classify_batch(&INPUTS).unwrap()
        );
    }
}

#[test]
fn a_long_text_is_truncated_and_reported() {
    let classifier = Classifier::from_module(&fixture::classifier(Pooling::Mean), &Device::Cpu);
    let long = "the cat ".repeat(40);
    let found = classifier.classify(&long).unwrap();
    assert!(found.truncated && found.scores.len() == 3);
    assert!(!classifier.classify("the cat").unwrap().truncated);
    // 256 bytes for each of 32 tokens are tokenized at most.
    assert!(classifier.classify(&"a".repeat(1 << 20)).unwrap().truncated);
}

#[test]
fn scores_that_are_not_finite_name_the_line() {
    let mut bundle = fixture::classifier(Pooling::First);
    bundle.model = fixture::filled(bundle.model, f32::NAN);
    for device in devices() {
        let classifier = Classifier::from_module(&bundle, &device);
        let found = classifier.classify_batch(&["", "the cat"]);
        assert!(matches!(found, Err(InferError::NotFinite { line: 2 })), "{found:?}");
    }
}

#[test]
fn bundles_of_other_tasks_are_rejected_with_the_right_type() {
    let folder = tempfile::tempdir().unwrap();
    fixture::masked(tx_text::TokenizerKind::Word, tx_model::Tying::All)
        .save(folder.path())
        .unwrap();
    let error = Classifier::open(folder.path(), &Device::Cpu).unwrap_err();
    let InferError::WrongTask { found, expected, .. } = &error else { panic!("{error}") };
    assert_eq!((*found, *expected), (TaskKind::FillMask, TaskKind::Classify));
    assert!(error.hint().unwrap().contains("`FillMask`"));
}

#[test]
fn attention_of_a_text_sums_to_1() {
    for device in devices() {
        let classifier = Classifier::from_module(&fixture::classifier(Pooling::First), &device);
        let found = classifier.attention("The cat sleeps.").unwrap();
        assert_eq!((found.encoder.len(), found.encoder[0].len()), (2, 2));
        assert!(found.decoder.is_empty() && found.cross.is_empty());
        for map in found.encoder.concat() {
            assert_eq!(map.columns, found.source.ids.len());
            assert!(map.rows().all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-5));
        }
    }
}
