//! Conformance of other devices with `cpu`: operations, scores, attention, gradients, an update,
//! decoding, search, and fifty updates in a row.
//!
//! `ndarray` is always checked, with all combinations of the options, and the device of `TX_TEST_DEVICE`, if set,
//! with every pair of them:
//!
//! ```sh
//! TX_TEST_DEVICE=wgpu cargo test --workspace --features wgpu --test tx_tests conformance -- --nocapture
//! ```

use std::env;

use burn::{
    optim::{GradientsParams, ModuleOptimizer},
    tensor::{Device, TensorData},
    train::Learner,
};
use tx_data::{EncodedPair, Seq2SeqBatch};
use tx_infer::{
    device::{DeviceError, DeviceName},
    search::{Engine, SearchOptions},
};
use tx_model::{Activation, ModelConfig, NormPlacement, Positions, Tying};
use tx_text::special::BOS;
use tx_train::{
    config::{OptimizationConfig, Schedule},
    loss::{Labels, smoothed_cross_entropy},
    training::{
        adam::Adam,
        gradients::compute_gradients,
        schedule::{Curve, Decay, LearningRate},
    },
    translation::seq2seq::Seq2Seq,
};

use super::{
    Subject, answers,
    backward::{largest_of_all, loss_and_gradients},
    difference,
    forward::{column, scores_at, start},
    ids, pairwise_variants, sources, targets, variants,
};
use crate::support::{Named, devices, values, weights};

mod launches;

mod operations;

mod searching;

mod single_stack;

mod synchronization;

/// Maximum difference of scores, attention and log-probabilities. The CPU backends differ by less
/// than 1e-5; a GPU has a different `exp` and order of summation.
const SCORES: f64 = 1e-4;

/// Maximum difference of a gradient, relative to the largest of all gradients.
const GRADIENTS: f64 = 1e-4;

/// Maximum difference of the loss, at any of fifty updates.
const LOSSES: f64 = 1e-3;

/// Model on the checked device, and the same model on the CPU.
struct Pair {
    found: Subject,
    expected: Subject,
}

impl Pair {
    fn name(&self) -> &str {
        &self.found.name
    }

    /// Returns the difference of two tensors.
    ///
    /// # Panics
    ///
    /// If the difference exceeds `limit`.
    fn assert_close(
        &self,
        what: &str,
        found: &TensorData,
        expected: &TensorData,
        limit: f64,
    ) -> f64 {
        assert_eq!(found.shape(), expected.shape(), "{}: {what}", self.name());
        let difference = difference(&values(found), &values(expected));
        assert!(difference <= limit, "{}: {what} differs by {difference:.1e}", self.name());
        difference
    }
}

/// Devices to check.
fn checked() -> Vec<(String, Device)> {
    other_cpus().chain(test_device()).collect()
}

/// CPU devices other than `cpu`.
fn other_cpus() -> impl Iterator<Item = (String, Device)> {
    devices().into_iter().skip(1).map(|(name, device)| (name.to_owned(), device))
}

/// Device of `TX_TEST_DEVICE`.
fn test_device() -> Option<(String, Device)> {
    let Ok(name) = env::var("TX_TEST_DEVICE") else {
        println!("TX_TEST_DEVICE is not set: no GPU is checked");
        return None;
    };
    match name.parse().and_then(DeviceName::open) {
        Ok((_, device)) => Some((name, device.to_burn())),
        Err(error @ (DeviceError::Absent { .. } | DeviceError::Miscompiled { .. })) => {
            println!("SKIPPED, nothing is checked on `{name}`: {error}");
            None
        }
        Err(error) => panic!("TX_TEST_DEVICE: {error}"),
    }
}

/// Every variant on the CPU devices, and the pairwise variants on the device of `TX_TEST_DEVICE`.
fn pairs() -> impl Iterator<Item = Pair> {
    let cpus = other_cpus().flat_map(|device| pairs_on(device, variants()));
    cpus.chain(test_device().into_iter().flat_map(|device| pairs_on(device, pairwise_variants())))
}

fn pairs_on(
    (device_name, device): (String, Device),
    variants: Vec<(String, ModelConfig)>,
) -> impl Iterator<Item = Pair> {
    variants.into_iter().map(move |(variant, config)| {
        let subject = |device: Device| Subject {
            name: format!("{device_name}, {variant}"),
            config: config.clone(),
            device,
        };
        Pair { found: subject(device.clone()), expected: subject(Device::flex()) }
    })
}

/// One variant per norm placement, with different positional encodings and tying.
fn few_pairs() -> impl Iterator<Item = Pair> {
    let few = [
        (NormPlacement::Pre, Positions::Sinusoidal, Tying::All),
        (NormPlacement::Post, Positions::Rotary, Tying::None),
        (NormPlacement::SublayerOutput, Positions::Relative, Tying::Decoder),
    ];
    let all = checked().into_iter().flat_map(|device| pairs_on(device, variants()));
    all.filter(move |pair| {
        let config = &pair.found.config;
        config.activation == Activation::Gelu
            && few.contains(&(config.norm, config.positions, config.tying))
    })
}

#[test]
fn scores_and_attention() {
    let mut worst = 0.0_f64;
    for pair in pairs() {
        let scores = |subject: &Subject| {
            let (scores, maps) = subject.model().forward_with_attention(subject.input());
            let mut all = vec![scores.into_data()];
            all.push(subject.model().forward(subject.input()).into_data());
            let maps = maps
                .encoder
                .into_iter()
                .chain(maps.decoder.self_attention)
                .chain(maps.decoder.cross);
            all.extend(maps.map(|map| map.into_data()));
            all
        };
        for (found, expected) in scores(&pair.found).iter().zip(&scores(&pair.expected)) {
            worst = worst.max(pair.assert_close("a score or weight", found, expected, SCORES));
        }
    }
    println!("scores and attention: {worst:.1e}");
}

#[test]
fn gradients() {
    let mut worst = 0.0_f64;
    for pair in pairs() {
        let of = |subject: &Subject| {
            loss_and_gradients(&subject.trainable(), subject.input(), &answers())
        };
        let ((found_loss, found), (expected_loss, expected)) =
            (of(&pair.found), of(&pair.expected));
        let gap = (found_loss - expected_loss).abs() / expected_loss;
        assert!(gap <= SCORES, "{}: the loss differs by {gap:.1e}", pair.name());
        worst = worst.max(assert_same_weights(&pair, &found, &expected));
    }
    println!("gradients: {worst:.1e}");
}

/// Returns the maximum difference of two sets of weights or gradients.
///
/// # Panics
///
/// If two entries of a name differ by more than [`GRADIENTS`] of the largest of all.
fn assert_same_weights(pair: &Pair, found: &Named, expected: &Named) -> f64 {
    let scale = largest_of_all(expected);
    let mut worst = 0.0_f64;
    assert!(found.keys().eq(expected.keys()), "{}", pair.name());
    for (path, expected) in expected {
        let found = values(&found[path]);
        let gap = found.iter().zip(values(expected)).map(|(found, expected)| {
            let gap = f64::from(found - expected).abs();
            if gap.is_nan() { f64::INFINITY } else { gap }
        });
        let gap = gap.fold(0.0, f64::max) / scale;
        assert!(gap <= GRADIENTS, "{}: `{path}` differs by {gap:.1e}", pair.name());
        worst = worst.max(gap);
    }
    worst
}

/// One update. ε is as large as a small gradient, so that the sign of a gradient that is zero
/// except for rounding does not determine a whole step.
#[test]
fn an_update_of_adam() {
    let mut worst = 0.0_f64;
    let config = OptimizationConfig { epsilon: 1e-2, ..Default::default() };
    for pair in pairs() {
        let updated = |subject: &Subject| {
            let model = subject.trainable();
            let target = ids(&answers(), 0, &subject.device);
            let logits = model.forward(subject.input());
            let loss = smoothed_cross_entropy(logits, Labels::new(target, 0.1)).sum;
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            let mut adam: ModuleOptimizer = Adam::new(&config).into();
            weights(&adam.step(1e-2, model, gradients))
        };
        let (found, expected) = (updated(&pair.found), updated(&pair.expected));
        worst = worst.max(assert_same_weights(&pair, &found, &expected));
    }
    println!("an update: {worst:.1e}");
}

/// Step-by-step decoding on the device against full decoding on the CPU.
#[test]
fn decoding_with_the_cache() {
    let mut worst = 0.0_f64;
    for pair in pairs() {
        let (model, input) = (pair.found.model(), pair.found.input());
        let full = pair.expected.model().forward(pair.expected.input());
        let mut cache = start(&model, &input);
        for place in 0..full.dims()[1] {
            let scores = model.decode_step(column(&input.target, place), &mut cache).into_data();
            let expected = scores_at(&full, place);
            worst = worst.max(pair.assert_close("a step", &scores, &expected, SCORES));
        }
    }
    println!("decoding: {worst:.1e}");
}

#[test]
fn greedy_and_beam_search() {
    for pair in few_pairs() {
        for beam in [1, 4] {
            let options = SearchOptions { beam, n_best: beam, ..SearchOptions::default() };
            let sources = sources();
            let sources: Vec<&[u32]> = sources.iter().map(Vec::as_slice).collect();
            let search = |subject: &Subject| {
                Engine::from_transformer(subject.model(), 16, &subject.device.clone().into())
                    .search(&sources, &options)
                    .unwrap()
            };
            let (found, expected) = (search(&pair.found), search(&pair.expected));
            for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
                let what = format!("{}: {found:?} and {expected:?}", pair.name());
                assert_eq!(found.ids, expected.ids, "{what}");
                let gap = (found.log_probability - expected.log_probability).abs();
                assert!(f64::from(gap) <= SCORES * 10.0, "{what}");
            }
        }
    }
}

/// Updates of Burn's Learner, with gradient clipping, from the same weights.
#[test]
fn fifty_updates() {
    let mut worst = 0.0_f64;
    for pair in few_pairs() {
        let (found, expected) = (losses(&pair.found), losses(&pair.expected));
        assert!(expected[49] < 0.5 * expected[0], "it does not learn: {expected:?}");
        for (step, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let gap = (found - expected).abs() / expected;
            assert!(gap <= LOSSES, "{}: update {step}: {found}, {expected}", pair.name());
            worst = worst.max(gap);
        }
    }
    println!("losses: {worst:.1e}");
}

/// Loss before each of fifty updates.
fn losses(subject: &Subject) -> Vec<f64> {
    let device = subject.device.clone().autodiff();
    let model = Seq2Seq::new(subject.trainable(), 0.1);
    let config = OptimizationConfig { epsilon: 1e-6, ..Default::default() };
    let rate = LearningRate::new(Curve {
        schedule: Schedule::Constant,
        peak: 3e-3,
        warmup_steps: 10,
        total_steps: 50,
        d_model: subject.config.d_model,
        decay: Decay::default(),
    });
    let mut learner = Learner::new(model, Adam::new(&config).into(), rate);
    (0..50)
        .map(|_| {
            let model = learner.model();
            let update = compute_gradients(&model, vec![batch(&device)], &[], 1.0);
            drop(model);
            learner.lr_step();
            learner.optimizer_step(update.gradients);
            update.output.loss()
        })
        .collect()
}

/// Training batch of [`sources`] and [`answers`].
fn batch(device: &Device) -> Seq2SeqBatch {
    let pairs: Vec<EncodedPair> = sources()
        .into_iter()
        .zip(targets().into_iter().zip(answers()))
        .map(|(source, (target, answer))| {
            let target = [&target[..1], &answer].concat();
            EncodedPair::new(source, target)
        })
        .collect();
    Seq2SeqBatch::new(&pairs.iter().collect::<Vec<_>>(), BOS, device)
}
