//! Invariants of the gradients.

use burn::{
    optim::{AdamConfig, GradientsParams},
    tensor::TensorData,
};
use tx_model::{
    Activation, ModelConfig, NormPlacement, Positions, ProductPrecision, Sinusoids, Transformer,
    TransformerInput, Tying,
};
use tx_train::loss::{Labels, smoothed_cross_entropy};

use super::{
    Subject, answers, ids, input, noise, pattern, sources, subjects, subjects_with_attention,
    targets,
};
use crate::support::{self, Named, largest, values, with_weights};

/// Summed loss of `answers`, with the paper's label smoothing, and all gradients.
pub(super) fn loss_and_gradients(
    model: &Transformer,
    input: TransformerInput,
    answers: &[Vec<u32>],
) -> (f64, Named) {
    let target = ids(answers, 0, &input.target.device());
    let loss = smoothed_cross_entropy(model.forward(input), Labels::new(target, 0.1)).sum;
    let gradients = support::gradients(model, &loss.backward());
    (f64::from(loss.into_scalar::<f32>()), gradients)
}

/// Summed loss without gradients.
fn loss(model: &Transformer, input: TransformerInput) -> f64 {
    let target = ids(&answers(), 0, &input.target.device());
    let loss = smoothed_cross_entropy(model.forward(input), Labels::new(target, 0.1)).sum;
    f64::from(loss.into_scalar::<f32>())
}

/// Maximum absolute value of all gradients of a model.
pub(super) fn largest_of_all(gradients: &Named) -> f64 {
    gradients.values().map(|gradient| largest(&values(gradient))).fold(0.0, f64::max)
}

/// Returns `true` if the gradient of the weight at `path` is zero by definition.
///
/// A bias of the keys adds the same number, `q · b`, to every score of a query, and softmax is
/// invariant to a constant. Rotary positions rotate the keys of self-attention and their bias by
/// different angles, so there the bias has an effect.
pub(super) fn cannot_matter(path: &str, positions: Positions) -> bool {
    let rotated = positions == Positions::Rotary && path.contains("self_attention");
    path.ends_with("key.bias") && !rotated
}

#[test]
fn every_weight_has_a_gradient() {
    for subject in subjects() {
        let Subject { name, config, .. } = &subject;
        let (_, gradients) = loss_and_gradients(&subject.trainable(), subject.input(), &answers());
        let scale = largest_of_all(&gradients);
        for (path, gradient) in &gradients {
            let share = largest(&values(gradient)) / scale;
            if cannot_matter(path, config.positions) {
                assert!(share < 1e-6, "{name}: `{path}` has a gradient, {share:.1e}");
            } else {
                assert!(share > 1e-5, "{name}: `{path}` has none, {share:.1e}");
            }
        }
    }
}

/// Covers the forward and the backward pass. The gradients equal those of the other sentences
/// alone.
#[test]
fn a_source_of_padding_alone_has_finite_gradients_and_leaks_into_none() {
    let mut worst = 0.0_f64;
    for subject in subjects() {
        let Subject { name, device, .. } = &subject;
        let model = subject.trainable();
        let mut empty = sources();
        empty[1].clear();
        let empty = || input(&empty, &targets(), 0, device);

        let (loss, gradients) = loss_and_gradients(&model, empty(), &answers());
        assert!(loss.is_finite(), "{name}");
        for (path, gradient) in &gradients {
            assert!(values(gradient).iter().all(|x| x.is_finite()), "{name}: {path}");
        }

        // The target of the empty sentence is padding, which has no loss.
        let mut others = answers();
        others[1] = vec![0; others[1].len()];
        let (_, found) = loss_and_gradients(&model, empty(), &others);
        let (_, expected) = loss_and_gradients(&model, subject.input(), &others);
        let scale = largest_of_all(&expected);
        for (path, expected) in &expected {
            let gaps: Vec<f32> = values(&found[path])
                .iter()
                .zip(values(expected))
                .map(|(found, expected)| found - expected)
                .collect();
            let gap = largest(&gaps) / scale;
            assert!(gap <= 1e-6, "{name}: {path} differs by {gap:.1e}");
            worst = worst.max(gap);
        }
    }
    println!("gradients beside an empty source: {worst:.1e}");
}

/// Batches are created on a device without autodiff, possibly in another thread.
#[test]
fn a_plain_batch_trains_a_model_with_autodiff() {
    for subject in subjects() {
        let Subject { name, device, .. } = &subject;
        let model = subject.trainable();
        let with_autodiff = input(&sources(), &targets(), 0, &device.clone().autodiff());
        let (plain_loss, plain) = loss_and_gradients(&model, subject.input(), &answers());
        let (loss, gradients) = loss_and_gradients(&model, with_autodiff, &answers());
        assert_eq!(plain_loss, loss, "{name}");
        assert_eq!(plain, gradients, "{name}");
    }
}

/// The slope of the loss along a direction `d` of length 1 equals `Σ gradient · d`.
///
/// The direction is the gradient with each element scaled at random by 0 to 2. A plain random
/// direction would be nearly orthogonal to the gradient, and rounding would dominate the remaining
/// slope. Relu is left out, also that of recurrent units, because a finite difference steps over its
/// kinks.
///
/// In single precision the loss of about 40 is accurate to about 4e-6, so the slope is accurate to
/// 4e-6 / h. The slopes are 19 to 500, and where one is steep the loss has a high curvature. With h
/// = 0.001 all of them agree to 7e-4.
#[test]
fn gradients_equal_finite_differences() {
    let mut worst = 0.0_f64;
    for subject in
        subjects_with_attention().filter(|subject| subject.config.activation != Activation::Relu)
    {
        let (_, gradients) = loss_and_gradients(&subject.trainable(), subject.input(), &answers());
        let direction = |path: &str| -> Vec<f64> {
            let gradient = values(&gradients[path]);
            let noise = noise(&format!("direction of {path}"), gradient.len());
            gradient.iter().zip(noise).map(|(&x, noise)| f64::from(x) * (1.0 + noise)).collect()
        };
        worst = worst.max(check_slope(&subject, &gradients, direction, 1e-3, 5e-3));
    }
    println!("slopes: {worst:.1e}");
}

/// Slope of each weight separately, in variants for which PyTorch has no layers.
///
/// The slopes are 0.08 to 90, and the curvature is lower: with h = 0.005 they agree to 4e-3.
#[test]
fn the_gradient_of_each_weight_equals_a_finite_difference() {
    let variants = [
        (NormPlacement::SublayerOutput, Positions::Rotary, Activation::Gated),
        (NormPlacement::Pre, Positions::Relative, Activation::Swish),
        (NormPlacement::Post, Positions::Learned, Activation::Gelu),
        (NormPlacement::PostFinal, Positions::Alibi, Activation::Swish),
    ];
    let mut worst = 0.0_f64;
    for subject in subjects().filter(|subject| {
        let config = &subject.config;
        config.tying == Tying::None
            && variants.contains(&(config.norm, config.positions, config.activation))
    }) {
        let (_, gradients) = loss_and_gradients(&subject.trainable(), subject.input(), &answers());
        for one in gradients.keys() {
            if cannot_matter(one, subject.config.positions) {
                continue;
            }
            let direction = |path: &str| -> Vec<f64> {
                let weight = if path == one { 1.0 } else { 0.0 };
                values(&gradients[path]).iter().map(|&x| weight * f64::from(x)).collect()
            };
            worst = worst.max(check_slope(&subject, &gradients, direction, 5e-3, 2e-2));
        }
    }
    println!("slopes of single weights: {worst:.1e}");
}

/// Returns the relative difference between the slope along `direction` and the gradients.
///
/// With `D(h) = (L(w + h d) - L(w - h d)) / 2h`, the slope is `(4 D(h) - D(2h)) / 3`: the errors in
/// h² cancel out (Richardson's extrapolation).
fn check_slope(
    subject: &Subject,
    gradients: &Named,
    direction: impl Fn(&str) -> Vec<f64>,
    h: f64,
    limit: f64,
) -> f64 {
    let length =
        gradients.keys().flat_map(|path| direction(path)).map(|d| d * d).sum::<f64>().sqrt();
    let expected: f64 = gradients
        .iter()
        .flat_map(|(path, gradient)| values(gradient).into_iter().zip(direction(path)))
        .map(|(gradient, d)| f64::from(gradient) * d / length)
        .sum();

    let model = subject.model();
    let loss_at = |h: f64| {
        let moved = with_weights(model.clone(), |path, shape| {
            let moved = values(&pattern(path, shape))
                .into_iter()
                .zip(direction(path))
                .map(|(weight, d)| (f64::from(weight) + h * d / length) as f32);
            TensorData::new(moved.collect::<Vec<_>>(), shape.to_vec())
        });
        loss(&moved, subject.input())
    };
    let central = |h: f64| (loss_at(h) - loss_at(-h)) / (2.0 * h);
    let found = (4.0 * central(h) - central(2.0 * h)) / 3.0;

    let difference = (found - expected).abs() / expected.abs().max(0.1);
    let Subject { name, .. } = subject;
    assert!(difference <= limit, "{name}: slope {found}, by the gradients {expected}");
    difference
}

/// A model with the trained weights alone is the trained model, to the bit.
#[test]
fn sinusoids_are_no_weights_and_stay_fixed_in_training() {
    for subject in subjects().filter(|subject| {
        let ModelConfig { positions, sinusoids, .. } = subject.config;
        positions == Positions::Sinusoidal && sinusoids != Sinusoids::default()
    }) {
        let device = subject.device.clone().autodiff();
        let scores = |model: &Transformer| values(&model.forward(subject.input()).into_data());
        let mut model = subject.trainable();
        let before = scores(&model);
        let mut adam = AdamConfig::new().init();
        for _ in 0..3 {
            let target = ids(&answers(), 0, &subject.device);
            let logits = model.forward(subject.input());
            let gradients = smoothed_cross_entropy(logits, Labels::new(target, 0.1)).sum.backward();
            let gradients = GradientsParams::from_grads(gradients, &model);
            model = adam.step(1e-2, model, gradients);
        }
        let trained = support::weights(&model);
        assert!(trained.keys().all(|path| !path.contains("positions")), "{}", subject.name);
        let fresh = with_weights(subject.untrained(&device), |path, _| trained[path].clone());
        let after = scores(&model);
        assert!(after == scores(&fresh) && after != before, "{}", subject.name);
    }
}

/// From its own initialization, 30 steps of Adam on one batch reduce the loss by a third.
///
/// The initialization differs in every run, hence a limit far from the usual result: of 1,000
/// models, the worst kept 0.47 of its loss.
#[test]
fn every_variant_learns() {
    every_variant_learns_in(ProductPrecision::F32);
}

#[test]
fn every_variant_learns_in_bf16() {
    every_variant_learns_in(ProductPrecision::Bf16);
}

fn every_variant_learns_in(precision: ProductPrecision) {
    let mut worst = 0.0_f64;
    for mut subject in subjects().filter(|subject| subject.name.starts_with("flex")) {
        subject.config.encoder_layers = 1;
        subject.config.decoder_layers = 1;
        let model = subject.untrained(&subject.device.clone().autodiff());
        let mut model = model.with_product_precision(precision);
        let mut adam = AdamConfig::new().init();
        let before = loss(&model, subject.input());
        for _ in 0..30 {
            let logits = model.forward(subject.input());
            let target = ids(&answers(), 0, &subject.device);
            let gradients = smoothed_cross_entropy(logits, Labels::new(target, 0.1)).sum.backward();
            let gradients = GradientsParams::from_grads(gradients, &model);
            model = adam.step(1e-2, model, gradients);
        }
        let left = loss(&model, subject.input()) / before;
        assert!(left < 0.67, "{}, {precision}: {left:.2} of the loss is left", subject.name);
        worst = worst.max(left);
    }
    println!("{precision}: loss left: {worst:.2}");
}
