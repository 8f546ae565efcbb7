//! Invariants of the classifier and the masked language model, on tensors and in the packed engine.

use burn::tensor::{Device, Int, Tensor};
use tx_data::mask;
use tx_engine::{PackedClassifier, PackedMaskedLanguageModel};
use tx_model::{
    Classifier, MaskedLanguageModel, Pooling,
    kernels::{self, CrossEntropyConfig},
};
use tx_train::loss::{Labels, smoothed_cross_entropy};

use super::{
    Subject, VOCABULARY,
    backward::{cannot_matter, largest_of_all},
    ids, pattern, sentence, sources, subjects,
};
use crate::support::{self, Named, largest, values, with_weights};

/// Classes of the classifier.
const CLASSES: usize = 3;

/// All poolings. Does not compile if one is missing.
pub(super) fn poolings() -> [Pooling; 2] {
    let _ = |pooling: Pooling| match pooling {
        Pooling::First | Pooling::Mean => {}
    };
    [Pooling::First, Pooling::Mean]
}

/// Classifier with the weights of [`pattern`].
pub(super) fn classifier(subject: &Subject, pooling: Pooling, device: &Device) -> Classifier {
    let model = Classifier::new(&subject.config, VOCABULARY, CLASSES, pooling, device).unwrap();
    with_weights(model, pattern)
}

/// Masked language model with the weights of [`pattern`].
pub(super) fn masked_model(subject: &Subject, device: &Device) -> MaskedLanguageModel {
    with_weights(MaskedLanguageModel::new(&subject.config, VOCABULARY, device).unwrap(), pattern)
}

fn slices(texts: &[Vec<u32>]) -> Vec<&[u32]> {
    texts.iter().map(Vec::as_slice).collect()
}

#[test]
fn padding_changes_no_class_and_no_score_of_a_real_token() {
    let mut worst = 0.0_f64;
    for subject in subjects() {
        let device = &subject.device;
        let plain = ids(&sources(), 0, device);
        let padded = ids(&sources(), 5, device);
        for pooling in poolings() {
            let model = classifier(&subject, pooling, device);
            let [expected, found] =
                [&plain, &padded].map(|ids| model.forward(ids.clone(), mask::padding(ids)));
            let (found, expected) = (found.into_data(), expected.into_data());
            worst = worst.max(subject.assert_close("the classes", &found, &expected));
        }
        let model = masked_model(&subject, device);
        let [expected, found] =
            [&plain, &padded].map(|ids| model.forward(ids.clone(), mask::padding(ids)));
        for (index, text) in sources().iter().enumerate() {
            let found = sentence(&found, index, text.len());
            let expected = sentence(&expected, index, text.len());
            worst = worst.max(subject.assert_close("a padded text", &found, &expected));
        }
    }
    println!("padding: {worst:.1e}");
}

#[test]
fn packed_classes_are_those_of_the_classifier_on_tensors() {
    let mut worst = 0.0_f64;
    for subject in subjects() {
        let device = &subject.device;
        // An empty text among others.
        let texts = [sources(), vec![Vec::new()]].concat();
        let batch = ids(&texts, 0, device);
        for pooling in poolings() {
            let model = classifier(&subject, pooling, device);
            let packed = PackedClassifier::from(&model);
            assert_eq!(packed.classes(), CLASSES);
            let expected = model.forward(batch.clone(), mask::padding(&batch));
            let found = packed.logits(&slices(&texts));
            let expected = values(&expected.into_data());
            assert_eq!(found.len(), expected.len(), "{}", subject.name);
            let gap = super::difference(&found, &expected);
            assert!(gap <= super::LIMIT, "{}, {pooling:?}: {gap:.1e}", subject.name);
            worst = worst.max(gap);

            // Each text alone, to the bit.
            for (text, row) in texts.iter().zip(found.chunks_exact(CLASSES)) {
                assert_eq!(packed.logits(&[text]), row, "{}, {pooling:?}", subject.name);
            }
            assert!(packed.logits(&[]).is_empty());
        }
    }
    println!("packed classes: {worst:.1e}");
}

#[test]
fn packed_scores_at_masks_are_those_of_the_model_on_tensors() {
    let mut worst = 0.0_f64;
    for subject in subjects() {
        let device = &subject.device;
        let model = masked_model(&subject, device);
        let packed = PackedMaskedLanguageModel::from(&model);
        assert_eq!(packed.vocabulary(), VOCABULARY);
        let batch = ids(&sources(), 0, device);
        let full = model.forward(batch.clone(), mask::padding(&batch));
        for (index, text) in sources().iter().enumerate() {
            // In any order, and repeated.
            let positions: Vec<usize> = (0..text.len()).rev().chain([0]).collect();
            let expected = values(&sentence(&full, index, text.len()));
            let expected: Vec<f32> = positions
                .iter()
                .flat_map(|position| &expected[position * VOCABULARY..][..VOCABULARY])
                .copied()
                .collect();
            let gap = super::difference(&packed.logits(text, &positions), &expected);
            assert!(gap <= super::LIMIT, "{}: {gap:.1e}", subject.name);
            worst = worst.max(gap);
            assert!(packed.logits(text, &[]).is_empty());
        }
    }
    println!("packed scores at masks: {worst:.1e}");
}

#[test]
fn packed_attention_of_an_encoder_alone_is_that_on_tensors() {
    let mut worst = 0.0_f64;
    for subject in subjects() {
        let device = &subject.device;
        let masked = masked_model(&subject, device);
        let classifier = classifier(&subject, Pooling::Mean, device);
        let packed_masked = PackedMaskedLanguageModel::from(&masked);
        let packed_classifier = PackedClassifier::from(&classifier);
        for text in &sources() {
            let batch = ids(std::slice::from_ref(text), 0, device);
            let blocked = mask::padding(&batch);
            let (scores, maps) = masked.forward_with_attention(batch.clone(), blocked.clone());
            let expected = masked.forward(batch.clone(), blocked.clone());
            subject.assert_close("with attention", &scores.into_data(), &expected.into_data());
            let found = packed_masked.attention_maps(text);
            worst = worst.max(super::packed::assert_maps(&subject, "masked", &found, maps));

            let (classes, maps) = classifier.forward_with_attention(batch.clone(), blocked.clone());
            let expected = classifier.forward(batch, blocked);
            subject.assert_close("with attention", &classes.into_data(), &expected.into_data());
            let found = packed_classifier.attention_maps(text);
            worst = worst.max(super::packed::assert_maps(&subject, "classifier", &found, maps));
        }
    }
    println!("packed, attention: {worst:.1e}");
}

/// The scores of an empty text are the bias, or zero without one.
#[test]
fn an_empty_text_has_the_bias_and_changes_no_other_text() {
    for subject in subjects() {
        let Subject { name, config, device } = &subject;
        let full = ids(&sources(), 0, device);
        let mut texts = sources();
        texts[1].clear();
        let batch = ids(&texts, 0, device);
        for pooling in poolings() {
            let model = classifier(&subject, pooling, device);
            let expected = model.forward(full.clone(), mask::padding(&full));
            let found = model.forward(batch.clone(), mask::padding(&batch));
            for row in [0, 2] {
                let expected = expected.clone().narrow(0, row, 1).into_data();
                found.clone().narrow(0, row, 1).into_data().assert_eq(&expected, true);
            }
            let bias = match config.output_bias {
                true => values(&pattern("output.bias", &[CLASSES])),
                false => vec![0.0; CLASSES],
            };
            assert_eq!(values(&found.narrow(0, 1, 1).into_data()), bias, "{name}");
            let packed = PackedClassifier::from(&model);
            assert_eq!(packed.logits(&[&[]]), bias, "{name}");
        }
        let scores = masked_model(&subject, device).forward(batch.clone(), mask::padding(&batch));
        assert!(values(&scores.into_data()).iter().all(|score| score.is_finite()), "{name}");
    }
}

/// Gradients are finite beside an empty text, and every weight has a part in the loss.
#[test]
fn every_weight_of_an_encoder_alone_has_a_part_in_the_loss() {
    for subject in subjects() {
        let Subject { device, .. } = &subject;
        let autodiff = device.clone().autodiff();
        let texts = [sources(), vec![Vec::new()]].concat();
        let batch = ids(&texts, 0, device);
        for pooling in poolings() {
            let model = classifier(&subject, pooling, &autodiff);
            let logits = model.forward(batch.clone(), mask::padding(&batch));
            let classes = Tensor::<1, Int>::from_data([0, 2, 1, 1], device);
            let config = CrossEntropyConfig { smoothing: 0.1, ignore_index: CLASSES as u32 };
            let loss = kernels::cross_entropy(logits, classes, None, config).loss;
            assert_parts(&subject, &support::gradients(&model, &loss.backward()));
        }
        let model = masked_model(&subject, &autodiff);
        let logits = model.forward(batch.clone(), mask::padding(&batch));
        let loss = smoothed_cross_entropy(logits, Labels::new(batch, 0.1)).sum;
        assert_parts(&subject, &support::gradients(&model, &loss.backward()));
    }
}

fn assert_parts(subject: &Subject, gradients: &Named) {
    let Subject { name, config, .. } = subject;
    let scale = largest_of_all(gradients);
    for (path, gradient) in gradients {
        let gradient = values(gradient);
        assert!(gradient.iter().all(|x| x.is_finite()), "{name}: {path}");
        let share = largest(&gradient) / scale;
        if cannot_matter(path, config.positions) {
            assert!(share < 1e-6, "{name}: `{path}` has a gradient, {share:.1e}");
        } else {
            assert!(share > 1e-5, "{name}: `{path}` has none, {share:.1e}");
        }
    }
}
