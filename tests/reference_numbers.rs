//! Comparison with PyTorch's Transformer; `fixtures/reference/generate.py` recorded its numbers, and
//! `generate_single_stack.py` those of the models with one stack.
//!
//! The *error* of a tensor is the maximum of
//!
//! ```text
//! |found - expected| / (|expected| + scale / 10)
//! ```
//!
//! over its elements, where `scale` is the largest `|expected|` of the tensor. So errors are
//! relative to each element, except for elements so small that rounding of the larger ones exceeds
//! them. The expected numbers were computed in double precision.
//!
//! Values at padding positions are not compared: they are never used, and PyTorch masks them
//! differently.

use std::{fs, path::Path};

use burn::{
    module::Module,
    tensor::{Device, TensorData},
};
use safetensors::{Dtype, SafeTensors};
use tx_data::{EncodedPair, Seq2SeqBatch};
use tx_model::{
    Architecture, ModelConfig, ProductPrecision, Transformer, TransformerInput, VocabSizes,
};
use tx_text::special::{BOS, PAD};
use tx_train::loss::{Labels, smoothed_cross_entropy};

use crate::support::{self, Named, devices, largest, values};

// Classifier, masked language model and language model.
mod single_stack;

/// Maximum error of logits, losses and attention maps; 2e-6 was measured.
const FORWARD_LIMIT: f64 = 1e-5;

/// Maximum error of gradients; 1.3e-5 was measured, for cancellation in the queries and keys of
/// cross-attention.
const GRADIENT_LIMIT: f64 = 1e-4;

/// Maximum error of logits and of gradients with products of split factors; 8.6e-5 and 2.8e-4 were
/// measured. Factors have 16 bits of significand instead of 24, and gradients of queries and keys
/// multiply rounding errors by up to ten, as in single precision.
const SPLIT_LIMITS: [f64; 2] = [1e-4, 4e-4];

/// Post-norm without final norm, relu, 2 + 3 layers, no tying.
#[test]
fn post_norm_agrees() {
    agrees("post");
}

/// Pre-norm with a norm after each stack, gelu, no tying.
#[test]
fn pre_norm_agrees() {
    agrees("pre");
}

/// Both embeddings and the projection are one matrix, whose gradient is the sum of three.
#[test]
fn tied_weights_agree() {
    agrees("tied");
}

/// The target embedding and the projection are one matrix.
#[test]
fn tied_decoder_weights_agree() {
    agrees("tied_decoder");
}

/// Options of models of other programs: another epsilon, the sinusoids of fairseq, and the zero
/// vector as the decoder's first input.
#[test]
fn options_of_imported_models_agree() {
    agrees("imported");
}

#[test]
fn scores_that_fall_with_the_distance_agree() {
    agrees("alibi");
}

/// RMSNorm in all places, and recurrent units in the decoder.
#[test]
fn recurrent_decoders_agree() {
    agrees("recurrent");
}

/// Logits and gradients with products of factors that are split into two bf16 numbers.
#[test]
fn products_of_split_factors_agree() {
    let device = Device::flex().autodiff();
    for case in ["post", "pre", "tied", "tied_decoder", "imported", "alibi", "recurrent"] {
        let fixture = Fixture::open(case);
        let model = fixture.model(&device).with_product_precision(ProductPrecision::Bf16x3);
        let batch = fixture.batch(&device);
        let logits = model.forward(input(&batch));
        let mut error = Worst::within(SPLIT_LIMITS[0]);
        let real = fixture.real("target_in");
        let expected = real_rows(fixture.tensor("logits"), &real);
        error.add("logits", real_rows(&logits.to_data(), &real), &expected);
        let loss = smoothed_cross_entropy(logits, Labels::new(batch.target_out, 0.1)).sum;
        let gradients = support::gradients(&model, &loss.backward());
        let gradients = compare_gradients_within(SPLIT_LIMITS[1], 1e-4, &fixture, &gradients);
        println!("{case} in bf16x3: logits {error}, {gradients}");
    }
}

fn agrees(case: &str) {
    let fixture = Fixture::open(case);
    for (name, device) in devices() {
        let forward = check_forward(&fixture, &device);
        let backward = check_backward(&fixture, &device.autodiff());
        println!("{case} on {name}: {forward}, {backward}");
    }
}

/// Checks logits, losses and attention maps, without autodiff.
fn check_forward(fixture: &Fixture, device: &Device) -> String {
    let batch = fixture.batch(device);
    let model = fixture.model(device);
    let (logits, maps) = model.forward_with_attention(input(&batch));

    let mut logits_error = Worst::within(FORWARD_LIMIT);
    let real_target = fixture.real("target_in");
    let expected = real_rows(fixture.tensor("logits"), &real_target);
    logits_error.add("logits", real_rows(&logits.to_data(), &real_target), &expected);

    let mut loss_error = Worst::within(FORWARD_LIMIT);
    for smoothing in [0.0, 0.1] {
        let path = format!("loss.{smoothing:?}");
        let loss = smoothed_cross_entropy(
            logits.clone(),
            Labels::new(batch.target_out.clone(), smoothing),
        )
        .sum;
        let expected = values(fixture.tensor(&path));
        loss_error.add(&path, values(&loss.into_data()), &expected);
    }

    let mut map_error = Worst::within(FORWARD_LIMIT);
    let real_source = fixture.real("source");
    let kinds = [
        ("encoder", &maps.encoder, &real_source),
        ("decoder", &maps.decoder.self_attention, &real_target),
        ("cross", &maps.decoder.cross, &real_target),
    ];
    let mut compared = 0;
    for (kind, layers, real) in kinds {
        for (layer, map) in layers.iter().enumerate() {
            let path = format!("attention.{kind}.{layer}");
            let expected = fixture.tensor(&path);
            assert_eq!(map.dims(), expected.shape().dims::<4>(), "{path}");
            map_error.add(&path, real_rows(&map.to_data(), real), &real_rows(expected, real));
            compared += 1;
        }
    }
    let in_fixture = fixture.tensors.keys().filter(|path| path.starts_with("attention.")).count();
    assert_eq!(compared, in_fixture, "attention maps of {}", fixture.case);

    format!("logits {logits_error}, loss {loss_error}, maps {map_error}")
}

/// Checks the gradient of every weight, for the summed loss with label smoothing.
fn check_backward(fixture: &Fixture, device: &Device) -> String {
    let batch = fixture.batch(device);
    let model = fixture.model(device);
    let logits = model.forward(input(&batch));
    let loss = smoothed_cross_entropy(logits, Labels::new(batch.target_out, 0.1)).sum;
    compare_gradients(fixture, &support::gradients(&model, &loss.backward()))
}

/// Compares the gradient of every weight.
fn compare_gradients(fixture: &Fixture, found: &Named) -> String {
    compare_gradients_within(GRADIENT_LIMIT, 1e-6, fixture, found)
}

/// Does the work of [`compare_gradients`] with other limits: of the error, and of gradients that are
/// zero except for rounding, relative to the largest gradient of all.
fn compare_gradients_within(limit: f64, zero: f64, fixture: &Fixture, found: &Named) -> String {
    let expected: Named = fixture
        .tensors
        .iter()
        .filter_map(|(path, data)| Some((path.strip_prefix("grad.")?.to_owned(), data.clone())))
        .collect();
    assert!(found.keys().eq(expected.keys()), "gradients of {}", fixture.case);

    let mut error = Worst::within(limit);
    let largest_of_all = expected.values().map(|data| largest(&values(data))).fold(0.0, f64::max);
    for (path, expected) in &expected {
        let (found, expected) = (values(&found[path]), values(expected));
        if path.ends_with("key.bias") {
            // A bias of the keys adds a constant to all scores of a query, and softmax is invariant
            // to it. The gradient is zero except for rounding, so its relative error is undefined.
            assert!(largest(&expected) < 1e-12 * largest_of_all, "{path} in the fixture");
            assert!(largest(&found) < zero * largest_of_all, "{path}: {found:?}");
        } else {
            error.add(path, found, &expected);
        }
    }
    format!("gradients {error}")
}

fn input(batch: &Seq2SeqBatch) -> TransformerInput {
    TransformerInput {
        source: batch.source.clone(),
        source_blocked: batch.source_blocked.clone(),
        target: batch.target_in.clone(),
        target_blocked: batch.target_blocked.clone(),
    }
}

/// Maximum error so far, with its path.
struct Worst {
    limit: f64,
    error: f64,
    path: String,
}

impl Worst {
    fn within(limit: f64) -> Self {
        Self { limit, error: 0.0, path: String::new() }
    }

    /// Adds the error of one tensor.
    ///
    /// # Panics
    ///
    /// If the error exceeds the limit or is NaN.
    fn add(&mut self, path: &str, found: Vec<f32>, expected: &[f32]) {
        assert_eq!(found.len(), expected.len(), "{path}");
        let scale = largest(expected);
        assert!(scale > 0.0, "{path}: nothing to compare with");
        for (index, (&found, &expected)) in found.iter().zip(expected).enumerate() {
            let (found, expected) = (f64::from(found), f64::from(expected));
            let error = (found - expected).abs() / (expected.abs() + scale / 10.0);
            assert!(error <= self.limit, "{path}[{index}]: found {found}, expected {expected}");
            if error > self.error {
                self.error = error;
                self.path = path.into();
            }
        }
    }
}

impl std::fmt::Display for Worst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1e} ({})", self.error, self.path)
    }
}

/// Fixture file of `fixtures/reference`.
struct Fixture {
    case: String,
    architecture: Architecture,
    config: ModelConfig,
    vocab: VocabSizes,
    tensors: Named,
}

impl Fixture {
    fn open(case: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("fixtures/reference/{case}.safetensors"));
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));

        let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
        let described = &metadata.metadata().as_ref().unwrap()["case"];
        let described: serde_json::Value = serde_json::from_str(described).unwrap();

        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let tensors = tensors.iter().map(|(path, view)| {
            let shape = view.shape().to_vec();
            let words = view.data().chunks_exact(4).map(|word| word.try_into().unwrap());
            let data = match view.dtype() {
                Dtype::F32 => TensorData::new(words.map(f32::from_le_bytes).collect(), shape),
                Dtype::I32 => TensorData::new(words.map(i32::from_le_bytes).collect(), shape),
                other => panic!("`{path}` holds {other:?}"),
            };
            (path.to_owned(), data)
        });
        Self {
            case: case.into(),
            architecture: match described.get("architecture") {
                Some(architecture) => serde_json::from_value(architecture.clone()).unwrap(),
                None => Architecture::EncoderDecoder,
            },
            config: serde_json::from_value(described["config"].clone()).unwrap(),
            vocab: serde_json::from_value(described["vocab"].clone()).unwrap(),
            tensors: tensors.collect(),
        }
    }

    fn tensor(&self, path: &str) -> &TensorData {
        self.tensors.get(path).unwrap_or_else(|| panic!("no `{path}` in {}", self.case))
    }

    /// Ids as rows.
    fn rows(&self, path: &str) -> Vec<Vec<u32>> {
        let data = self.tensor(path);
        let ids: Vec<i32> = data.try_to_vec().unwrap();
        let ids: Vec<u32> = ids.into_iter().map(|id| id as u32).collect();
        ids.chunks_exact(data.shape()[1]).map(<[u32]>::to_vec).collect()
    }

    /// Non-padding positions, row by row.
    fn real(&self, path: &str) -> Vec<Vec<bool>> {
        let rows = self.rows(path).into_iter();
        rows.map(|row| row.into_iter().map(|id| id != PAD).collect()).collect()
    }

    /// Batch that tx builds from whole sentences; must equal PyTorch's batch.
    fn batch(&self, device: &Device) -> Seq2SeqBatch {
        let real = |row: Vec<u32>| row.into_iter().filter(|&id| id != PAD).collect::<Vec<_>>();
        let sources = self.rows("source").into_iter().map(real);
        let inputs = self.rows("target_in").into_iter().map(real);
        let outputs = self.rows("target_out").into_iter().map(real);
        let pairs: Vec<EncodedPair> = sources
            .zip(inputs.zip(outputs))
            .map(|(source, (input, output))| {
                let target = [&input[..1], &output[..]].concat();
                EncodedPair::new(source, target)
            })
            .collect();

        let batch = Seq2SeqBatch::new(&pairs.iter().collect::<Vec<_>>(), BOS, device);
        for (path, ids) in [
            ("source", &batch.source),
            ("target_in", &batch.target_in),
            ("target_out", &batch.target_out),
        ] {
            ids.to_data().assert_eq(self.tensor(path), false);
        }
        batch
    }

    /// Model with all weights of the fixture.
    fn model(&self, device: &Device) -> Transformer {
        self.load(Transformer::new(&self.config, self.vocab, device).unwrap())
    }

    /// `model` with all weights of the fixture.
    fn load<M: Module>(&self, model: M) -> M {
        let mut left: Vec<&str> =
            self.tensors.keys().filter_map(|path| path.strip_prefix("grad.")).collect();
        let model = support::with_weights(model, |path, shape| {
            let data = self.tensor(path).clone();
            assert_eq!(&data.shape()[..], shape, "{path}");
            left.retain(|&known| known != path);
            data
        });
        assert!(left.is_empty(), "weights that the model does not have: {left:?}");
        model
    }
}

/// Rows of the last axis at non-padding positions: of `[B, …, L, N]`, those `(b, …, l)` with
/// `real[b][l]`.
fn real_rows(data: &TensorData, real: &[Vec<bool>]) -> Vec<f32> {
    let all = values(data);
    let width = data.shape()[data.shape().len() - 1];
    let per_sentence = all.len() / real.len();
    all.chunks_exact(per_sentence)
        .zip(real)
        .flat_map(|(sentence, real)| {
            sentence
                .chunks_exact(width)
                .zip(real.iter().cycle())
                .filter(|&(_, &real)| real)
                .flat_map(|(row, _)| row.iter().copied())
                .collect::<Vec<_>>()
        })
        .collect()
}
