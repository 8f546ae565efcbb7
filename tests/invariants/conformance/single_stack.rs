//! Models with one stack.

#[cfg(all(any(feature = "wgpu", feature = "cuda"), not(feature = "fusion")))]
use burn::tensor::IntDType;
use burn::tensor::{Int, Tensor};
use tx_data::mask;
use tx_model::{Activation, Tying};

use super::{Pair, SCORES, assert_same_weights, pairs};
use crate::{
    invariants::{
        Subject,
        encoder_only::{classifier, masked_model, poolings},
        forward::{column, scores_at},
        ids,
        language_model::{language_model, one_row, rows},
        sources, targets,
    },
    support,
};

/// Every norm placement with every positional encoding.
fn some_pairs() -> impl Iterator<Item = Pair> {
    pairs().filter(|pair| {
        let config = &pair.found.config;
        config.activation == Activation::Gelu && config.tying == Tying::None
    })
}

#[test]
fn classes_and_scores_at_masks() {
    let mut worst = 0.0_f64;
    for pair in some_pairs() {
        let scores = |subject: &Subject| {
            let device = &subject.device;
            let batch = ids(&sources(), 1, device);
            let blocked = mask::padding(&batch);
            let masked = masked_model(subject, device).forward(batch.clone(), blocked.clone());
            let classes = poolings().map(|pooling| {
                let model = classifier(subject, pooling, device);
                model.forward(batch.clone(), blocked.clone()).into_data()
            });
            [vec![masked.into_data()], classes.to_vec()].concat()
        };
        for (found, expected) in scores(&pair.found).iter().zip(&scores(&pair.expected)) {
            worst = worst.max(pair.assert_close("a score", found, expected, SCORES));
        }
    }
    println!("classes and masks: {worst:.1e}");
}

/// Scores and gradients of several documents in one row, and decoding with the cache.
#[test]
fn language_models() {
    let mut worst = 0.0_f64;
    for pair in some_pairs() {
        let of = |subject: &Subject| {
            let device = &subject.device;
            let documents = &targets()[..2];
            let model = language_model(subject, &device.clone().autodiff());
            let scores = model.forward(one_row(documents, device));
            let gradients =
                support::gradients(&model, &(scores.clone() * scores.clone()).sum().backward());
            (scores.into_data(), gradients)
        };
        let ((found, found_gradients), (expected, expected_gradients)) =
            (of(&pair.found), of(&pair.expected));
        worst = worst.max(pair.assert_close("documents", &found, &expected, SCORES));
        worst = worst.max(assert_same_weights(&pair, &found_gradients, &expected_gradients));
        worst = worst.max(decode(&pair));
    }
    println!("language models: {worst:.1e}");
}

/// Step-by-step decoding on the device against full decoding on the CPU.
fn decode(pair: &Pair) -> f64 {
    let mut worst = 0.0_f64;
    let expected = language_model(&pair.expected, &pair.expected.device);
    let full = expected.forward(rows(&targets(), 0, &pair.expected.device));
    let model = language_model(&pair.found, &pair.found.device);
    let input = rows(&targets(), 0, &pair.found.device);
    let [batch, len] = input.ids.dims();
    let mut cache = model.start_decoding(batch);
    for place in 0..len {
        let scores = model.decode_step(column(&input.ids, place), &mut cache).into_data();
        let expected = scores_at(&full, place);
        worst = worst.max(pair.assert_close("a step", &scores, &expected, SCORES));
    }
    worst.max(decode_on_gpu(pair, &full, &input.ids))
}

/// Step-by-step decoding with the kernels for GPUs, against full decoding on the CPU.
#[cfg(all(any(feature = "wgpu", feature = "cuda"), not(feature = "fusion")))]
fn decode_on_gpu(pair: &Pair, full: &Tensor<3>, ids: &Tensor<2, Int>) -> f64 {
    use tx_model::{kernels::flattened, step_decoder::StepDecoder};

    let model = flattened(language_model(&pair.found, &pair.found.device));
    let [batch, len] = ids.dims();
    let started = StepDecoder::of_language_model(&model, batch);
    let is_gpu = StepDecoder::supports(model.config(), model.dtype(), &pair.found.device);
    assert_eq!(started.is_some(), is_gpu, "{}", pair.name());
    let Some((mut decoder, rows)) = started else { return 0.0 };
    let mut worst = 0.0_f64;
    for place in 0..len {
        let tokens = column(ids, place).cast(IntDType::I32);
        let logits = decoder.step(&tokens, &rows).expect("the device has the kernels");
        let scores = decoder.with_bias(logits).into_data();
        let expected = scores_at(full, place);
        worst = worst.max(pair.assert_close("a step on the GPU", &scores, &expected, SCORES));
    }
    worst
}

#[cfg(not(all(any(feature = "wgpu", feature = "cuda"), not(feature = "fusion"))))]
fn decode_on_gpu(_: &Pair, _: &Tensor<3>, _: &Tensor<2, Int>) -> f64 {
    0.0
}
