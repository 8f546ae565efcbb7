//! Kernels at many shapes, against the same functions in double precision on the CPU, which are composed
//! of Burn's operations there.

use std::env;

use burn::tensor::{Device, DeviceKind, FloatDType, Int, Tensor, TensorData, activation::sigmoid};
use tx_model::{
    Activation,
    ProductPrecision::{self, F32},
    kernels::{
        self, AttentionInput, CrossEntropyConfig, Distillation, DropoutMask, EmbeddingInput,
        FlatTensors, LinearOutput, LinearWeights, Norm, Targets,
    },
    random::mix,
};

mod updates;

/// Maximum difference of a value or gradient, relative to the largest of its tensor.
const LIMIT: f64 = 1e-4;

/// Sizes at and beside those of cubes and of groups of rows.
const SIZES: [usize; 14] = [1, 2, 7, 31, 32, 33, 63, 64, 65, 100, 255, 257, 511, 520];

/// Shapes of [`SIZES`], in a pseudorandom order, and then others. `TX_CASES` changes their number.
fn shapes(count: usize) -> impl Iterator<Item = [usize; 2]> {
    let count = env::var("TX_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(count);
    let place = |i: usize, step: usize| SIZES[(i * step + i / SIZES.len()) % SIZES.len()];
    let other = |i: usize| 1 + (mix(i as u64) % 520) as usize;
    (0..count).map(move |i| match i < SIZES.len().pow(2) {
        true => [place(i, 3), place(i, 5)],
        false => [other(2 * i), other(2 * i + 1)],
    })
}

/// Compares value and gradients of `f` of vectors with these lengths on `device` and in double precision.
fn check(name: &str, device: &Device, lens: &[usize], f: impl Fn(&[Tensor<1>]) -> Tensor<1>) {
    check_inputs(name, device, lens, LIMIT, |inputs| inputs, f);
}

/// Does the work of [`check`] with another limit, and with inputs that `prepare` has moved to another place.
fn check_inputs(
    name: &str,
    device: &Device,
    lens: &[usize],
    limit: f64,
    prepare: impl Fn(Vec<Tensor<1>>) -> Vec<Tensor<1>>,
    f: impl Fn(&[Tensor<1>]) -> Tensor<1>,
) {
    let run = |device: Device, dtype: FloatDType| {
        let device = device.autodiff();
        let vector = |(index, &len): (usize, &usize)| {
            vector(&format!("input {index}"), len, &device).cast(dtype)
        };
        let inputs = prepare(lens.iter().enumerate().map(vector).map(Tensor::inner).collect());
        let inputs: Vec<_> =
            inputs.into_iter().map(Tensor::from_inner).map(Tensor::require_grad).collect();
        let y = f(&inputs);
        let weights = vector((99, &y.dims()[0]));
        let gradients = (y.clone() * weights).sum().backward();
        let gradients = inputs.iter().map(|input| input.grad(&gradients).unwrap());
        [y.without_autodiff()].into_iter().chain(gradients).map(doubles).collect::<Vec<_>>()
    };
    let found = run(device.clone(), FloatDType::F32);
    let expected = run(Device::flex(), FloatDType::F64);
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_within(limit, &format!("{name}, {lens:?}, result {index}"), found, expected);
    }
}

/// Device of `TX_TEST_DEVICE`.
fn test_device() -> Option<Device> {
    let kind = DeviceKind::DefaultDevice;
    match env::var("TX_TEST_DEVICE").as_deref() {
        #[cfg(feature = "cuda")]
        Ok("cuda") => Some(Device::cuda(0)),
        #[cfg(feature = "wgpu")]
        Ok("wgpu" | "vulkan") => Some(Device::wgpu(kind)),
        _ => {
            println!("TX_TEST_DEVICE names no GPU of this build: nothing is checked");
            None
        }
    }
}

/// Numbers in -1..1 that depend only on `name`.
fn noise(name: &str, len: usize) -> impl Iterator<Item = f32> {
    let key = name.bytes().fold(0, |key, byte| mix(key ^ u64::from(byte)));
    (0..len as u64).map(move |i| (mix(key ^ i) as f64 / (u64::MAX / 2) as f64 - 1.0) as f32)
}

fn vector(name: &str, len: usize, device: &Device) -> Tensor<1> {
    let values: Vec<f32> = noise(name, len).collect();
    Tensor::from_data(TensorData::new(values, [len]), device)
}

fn doubles<const D: usize>(x: Tensor<D>) -> Vec<f64> {
    x.into_data().iter::<f64>().collect()
}

fn assert_close(what: &str, found: &[f64], expected: &[f64]) {
    assert_within(LIMIT, what, found, expected);
}

fn assert_within(limit: f64, what: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(1e-3_f64, |largest, x| largest.max(x.abs()));
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        // Not `>`, which NaN would pass.
        let is_close = (found - expected).abs() / largest <= limit;
        assert!(is_close, "{what}, element {i}: {found} instead of {expected}");
    }
}

#[test]
fn layer_norm_at_many_shapes() {
    let Some(device) = test_device() else { return };
    for [rows, width] in shapes(200).chain([[1_500, 8], [3, 1_030]]) {
        // The variance of one or two numbers may be so small that a rounding error matters.
        let epsilon = if width < 3 { 0.1 } else { 1e-5 };
        check("layer norm", &device, &[rows * width, width, width], |inputs| {
            let [x, gamma, beta] = [0, 1, 2].map(|index| inputs[index].clone());
            kernels::layer_norm(
                x.reshape([1, rows, width]),
                Norm { gamma, beta: Some(beta), epsilon },
            )
            .reshape([rows * width])
        });
        // A single feature becomes its sign, and its gradient is a difference of equal numbers.
        if width == 1 {
            continue;
        }
        check("root mean square", &device, &[rows * width, width], |inputs| {
            let [x, gamma] = [0, 1].map(|index| inputs[index].clone());
            kernels::layer_norm(x.reshape([1, rows, width]), Norm { gamma, beta: None, epsilon })
                .reshape([rows * width])
        });
    }
}

/// A weight that two layers share is transposed in one of them. The gradient of the bias of so many rows
/// is added up in two steps.
#[test]
fn linear_layers() {
    let Some(device) = test_device() else { return };
    let [rows, d_in, d_out] = [1_500, 7, 33];
    for is_transposed in [false, true] {
        check("linear layer", &device, &[rows * d_in, d_in * d_out, d_out], |inputs| {
            let [x, w, b] = [0, 1, 2].map(|index| inputs[index].clone());
            let w = match is_transposed {
                false => w.reshape([d_in, d_out]),
                true => w.reshape([d_out, d_in]).transpose(),
            };
            let weights = LinearWeights { w, b: Some(b) };
            kernels::linear(x.reshape([1, rows, d_in]), weights, F32).reshape([rows * d_out])
        });
    }
}

/// Factors in f16 on devices that have matrix units for it, with 11 bits of significand, and single precision on
/// others. The factors of gradients are larger than those of a mean loss.
#[test]
fn linear_layers_in_f16() {
    let Some(device) = test_device() else { return };
    let limit = if kernels::has_f16_units(&device) { 2e-3 } else { LIMIT };
    for [rows, d_in, d_out] in [[64, 128, 256], [333, 48, 520], [7, 65, 33]] {
        let lens = [rows * d_in, d_in * d_out, d_out];
        check_inputs("layer in f16", &device, &lens, limit, flat, |inputs| {
            let [x, w, b] = [0, 1, 2].map(|index| inputs[index].clone());
            let weights = LinearWeights { w: w.reshape([d_in, d_out]), b: Some(b) };
            let y = kernels::linear(x.reshape([1, rows, d_in]), weights, ProductPrecision::F16);
            y.reshape([rows * d_out])
        });
    }
}

/// Every mask of keys, of queries and keys, and none; one query with every key blocked.
#[test]
fn attention_at_many_shapes() {
    let Some(device) = test_device() else { return };
    for (index, [queries, keys]) in shapes(60).enumerate() {
        if queries * keys > 40_000 {
            continue;
        }
        let [batch, heads, width] = [1 + index % 3, 1 + index % 2, 1 + index % 5];
        let [of_queries, of_keys] = [queries, keys].map(|len| batch * heads * len * width);
        // Learned biases, which have a gradient, and none.
        let of_bias = (index % 3 > 0).then_some(heads * queries * keys);
        let sizes: Vec<_> = [of_queries, of_keys, of_keys].into_iter().chain(of_bias).collect();
        check("attention", &device, &sizes, |inputs| {
            let device = inputs[0].device().inner();
            // As after the projection: heads beside each other.
            let heads_of = |x: &Tensor<1>, len: usize| {
                x.clone().reshape([batch, len, heads, width]).swap_dims(1, 2)
            };
            let mask = |shape: [usize; 4]| {
                let all = vector("mask", shape.iter().product(), &device);
                all.reshape(shape).greater_elem(0.3)
            };
            let blocked = match index % 4 {
                0 => None,
                1 => Some(mask([batch, 1, 1, keys])),
                2 => Some(mask([1, 1, queries, keys])),
                _ => Some(mask([batch, 1, queries, keys])),
            };
            let input = AttentionInput {
                queries: heads_of(&inputs[0], queries),
                keys: heads_of(&inputs[1], keys),
                values: heads_of(&inputs[2], keys),
                // As looked up in a table of relative positions: heads last.
                bias: inputs.get(3).map(|bias| {
                    let bias = bias.clone().reshape([queries, keys, heads]);
                    bias.permute([2, 0, 1]).unsqueeze()
                }),
                blocked,
                dropout: DropoutMask::KeepAll,
                precision: F32,
            };
            kernels::attention(input, false).0.reshape([batch * queries * heads * width])
        });
    }
}

#[test]
fn activations_at_many_sizes() {
    let Some(device) = test_device() else { return };
    for function in [Activation::Relu, Activation::Gelu, Activation::Swish] {
        for len in SIZES {
            check("activation", &device, &[len], |inputs| {
                let x = (inputs[0].clone() * 3.0).reshape([1, 1, len]);
                kernels::activation(x, function, DropoutMask::KeepAll).reshape([len])
            });
        }
    }
}

/// With and without smoothing and weights. Some targets do not count.
#[test]
fn cross_entropy_at_many_shapes() {
    let Some(device) = test_device() else { return };
    for (index, [rows, vocabulary]) in shapes(60).chain([[2, 10_007], [700, 3]]).enumerate() {
        let smoothing = if index % 2 == 0 { 0.1 } else { 0.0 };
        let config = CrossEntropyConfig { smoothing, ignore_index: 0 };
        let run = |logits: Tensor<2>| {
            let device = logits.device().inner();
            let ids: Vec<i32> = (0..rows).map(|row| (row * 7 % vocabulary) as i32).collect();
            let ids = Tensor::<1, Int>::from_data(TensorData::new(ids, [rows]), &device);
            let weights = (vector("weights", rows, &device) + 1.5).cast(logits.dtype());
            let weights = (index % 3 == 0).then_some(weights);
            kernels::cross_entropy(logits, ids, weights, config)
        };
        check("cross-entropy", &device, &[rows * vocabulary], |inputs| {
            run((inputs[0].clone() * 5.0).reshape([rows, vocabulary])).loss
        });
        let counts = |device: &Device| {
            let logits = vector("logits", rows * vocabulary, device) * 5.0;
            let found = run(logits.reshape([rows, vocabulary]));
            (doubles(found.nll), found.correct.into_data().iter::<i64>().next())
        };
        let (found, expected) = (counts(&device), counts(&Device::flex()));
        assert_close("negative log-likelihood", &found.0, &expected.0);
        assert_eq!(found.1, expected.1, "correct tokens of {rows} by {vocabulary}");
    }
}

/// Divergence of two halves, and distillation from one to three teachers; with and without weights. Some
/// targets do not count.
#[test]
fn losses_of_r_drop_and_distillation_at_many_shapes() {
    let Some(device) = test_device() else { return };
    for (index, [rows, vocabulary]) in shapes(60).chain([[2, 10_007], [700, 3]]).enumerate() {
        let targets = |logits: &Tensor<2>| {
            let device = logits.device().inner();
            let ids: Vec<i32> = (0..rows).map(|row| (row * 7 % vocabulary) as i32).collect();
            let ids = Tensor::<1, Int>::from_data(TensorData::new(ids, [rows]), &device);
            let weights = (vector("weights", rows, &device) + 1.5).cast(logits.dtype());
            Targets { ids, weights: (index % 3 == 0).then_some(weights) }
        };
        check("divergence", &device, &[2 * rows * vocabulary], |inputs| {
            let logits = (inputs[0].clone() * 5.0).reshape([2 * rows, vocabulary]);
            let Targets { ids, weights } = targets(&logits);
            // Zero for a vocabulary of one, and so is its gradient.
            kernels::divergence(logits.clone(), ids, weights, 0) + logits.sum() * 1e-3
        });
        let count = 1 + index % 3;
        let settings =
            Distillation { weight: 0.7, temperature: if index % 2 == 0 { 1.0 } else { 2.5 } };
        check("distillation", &device, &[rows * vocabulary], |inputs| {
            let logits = (inputs[0].clone() * 5.0).reshape([rows, vocabulary]);
            let device = logits.device().inner();
            let teachers = vector("teachers", count * rows * vocabulary, &device) * 5.0;
            let teachers = teachers.reshape([count, rows, vocabulary]).cast(logits.dtype());
            let config = CrossEntropyConfig { smoothing: 0.1, ignore_index: 0 };
            kernels::distillation(logits.clone(), teachers, targets(&logits), config, settings).loss
                + logits.sum() * 1e-3
        });
    }
}

/// Layers whose weights are views of a vector, and others; some have sizes that one product does not take.
#[test]
fn linear_layers_of_one_input() {
    let Some(device) = test_device() else { return };
    for (index, [rows, d_in]) in shapes(40).chain([[1_500, 64]]).enumerate() {
        let d_out = [d_in, 64, 33][index % 3];
        for (number, has_biases) in [(2, true), (2, false), (3, true), (3, false)] {
            let of_biases = if has_biases { number } else { 0 };
            let lens =
                [vec![rows * d_in], vec![d_in * d_out; number], vec![d_out; of_biases]].concat();
            let prepare = |inputs| if index % 4 == 3 { inputs } else { flat(inputs) };
            check_inputs("layers of one input", &device, &lens, LIMIT, prepare, |inputs| {
                let x = inputs[0].clone().reshape([1, rows, d_in]);
                let layer = |index: usize| LinearWeights {
                    w: inputs[1 + index].clone().reshape([d_in, d_out]),
                    b: inputs.get(1 + number + index).cloned(),
                };
                let all = match number {
                    2 => kernels::two_linear(x, [0, 1].map(layer), F32).to_vec(),
                    _ => kernels::three_linear(x, [0, 1, 2].map(layer), F32).to_vec(),
                };
                // The gradients of the outputs differ, and are in tensors of their own.
                let all = all.into_iter().zip(1..).map(|(y, factor)| y * factor);
                Tensor::cat(all.collect(), 0).reshape([number * rows * d_out])
            });
        }
    }
}

/// Replaces tensors by views of one vector, on devices that have them.
fn flat(tensors: Vec<Tensor<1>>) -> Vec<Tensor<1>> {
    let mut views: Vec<_> = tensors.into_iter().map(Tensor::into_dispatch).collect();
    let _ = FlatTensors::replacing(&mut views);
    views.into_iter().map(Tensor::from_dispatch).collect()
}

/// Residual sums, also normalized, and activations, with a bias that the kernel adds and without, and with
/// one mask of dropout.
#[test]
fn residuals_and_activations_with_bias_at_many_shapes() {
    let Some(device) = test_device() else { return };
    for (index, [rows, width]) in shapes(40).chain([[1_500, 8], [3, 1_030]]).enumerate() {
        let has_shift = index % 3 > 0;
        let epsilon = if width < 3 { 0.1 } else { 1e-5 };
        let (d_in, size) = (3, rows * width);
        let sizes = [size, rows * d_in, d_in * width, width, width, width];
        let check = |name: &str, f: &dyn Fn(Tensor<3>, LinearOutput, Norm) -> Tensor<3>| {
            for count in [5, 6] {
                check(name, &device, &sizes[..count], |inputs| {
                    let shaped =
                        |index: usize, width| inputs[index].clone().reshape([1, rows, width]);
                    let weights = LinearWeights {
                        w: inputs[2].clone().reshape([d_in, width]),
                        b: inputs.get(5).cloned(),
                    };
                    let y = kernels::linear_before_bias(shaped(1, d_in), weights, F32);
                    let [gamma, beta] = [3, 4].map(|index: usize| inputs[index].clone());
                    // Every input affects the result, so that it has a gradient.
                    let all = (gamma.clone() * beta.clone()).sum() * 1e-3;
                    let beta = has_shift.then_some(beta);
                    let y = f(shaped(0, width), y, Norm { gamma, beta, epsilon });
                    // Beside the others: the gradient of a sum with all of them is a loop that is too
                    // long for llvmpipe, which ends loops after 65,535 steps.
                    Tensor::cat(vec![y.reshape([size]), all], 0)
                });
            }
        };
        let none = DropoutMask::KeepAll;
        check("residual", &|x, y, _| kernels::residual(x, y, none));
        if width > 1 {
            check("residual norm", &|x, y, norm| kernels::residual_norm(x + 0.5, y, none, norm));
        }
        for function in [Activation::Relu, Activation::Gelu, Activation::Swish] {
            check("activation", &|x, y, _| kernels::activation(y, function, none) + x * 1e-3);
        }
    }
}

/// The mask of a kernel is that of [`kernels::dropout`], and its gradient has the same mask.
#[test]
fn fused_kernels_have_the_masks_of_dropout() {
    let Some(device) = test_device() else { return };
    for (index, [rows, width]) in shapes(40).enumerate() {
        let mask = DropoutMask::OnDevice { key: mix(index as u64), rate: 0.3 };
        let run = |is_fused: bool| {
            let device = device.clone().autodiff();
            let vector = |name, len| vector(name, len, &device).require_grad();
            let [x, y] = ["x", "y"].map(|name| vector(name, rows * width));
            let inputs = [x, y, vector("b", width), vector("gamma", width), vector("beta", width)];
            let [x, y, b, gamma, beta] = inputs.clone();
            let [x, y] = [x, y].map(|x| x.reshape([1, rows, width]));
            let identity = Tensor::eye(width, &device);
            let epsilon = 0.1;
            let norm = Norm { gamma, beta: Some(beta), epsilon };
            let output = || {
                let weights = LinearWeights { w: identity.clone(), b: Some(b.clone()) };
                kernels::linear_before_bias(y.clone(), weights, F32)
            };
            let masked = |x: Tensor<3>| kernels::dropout(x, mask);
            let swish = |x: Tensor<3>| x.clone() * sigmoid(x);
            let all = if is_fused {
                kernels::residual(x.clone(), output(), mask)
                    + kernels::residual_norm(x, output(), mask, norm)
                    + kernels::activation(output(), Activation::Swish, mask)
            } else {
                let sum = x + masked(output().sum());
                sum.clone() + kernels::layer_norm(sum, norm) + masked(swish(output().sum()))
            };
            let weights = vector("weights", rows * width);
            let gradients = (all.clone().reshape([rows * width]) * weights).sum().backward();
            let gradients = inputs.map(|input| doubles(input.grad(&gradients).unwrap()));
            [doubles(all)].into_iter().chain(gradients).collect::<Vec<_>>()
        };
        for (found, expected) in run(true).iter().zip(&run(false)) {
            assert_close("with a mask", found, expected);
        }
    }
}

/// Heads beside each other, as after the projection, and in other orders.
#[test]
fn rotary_positions_at_many_shapes() {
    let Some(device) = test_device() else { return };
    for (index, [len, half]) in shapes(60).enumerate() {
        if len * half > 40_000 {
            continue;
        }
        let [batch, heads, width] = [1 + index % 3, 1 + index % 4, 2 * half];
        check("rotation", &device, &[batch * heads * len * width], |inputs| {
            let x = inputs[0].clone();
            let x = match index % 2 {
                0 => x.reshape([batch, len, heads, width]).swap_dims(1, 2),
                _ => x.reshape([batch, heads, width, len]).swap_dims(2, 3),
            };
            // Any numbers do in place of cosines and sines.
            let table = vector("table", 2 * len * half, &x.device().inner()).cast(x.dtype());
            kernels::rotate(x, table.reshape([2, 1, len, half]))
                .reshape([batch * heads * len * width])
        });
    }
}

/// With positions that are learned and others, zero first tokens, and a mask.
#[test]
fn embeddings_at_many_shapes() {
    let Some(device) = test_device() else { return };
    for (index, [len, width]) in shapes(60).enumerate() {
        let [batch, vocabulary] = [1 + index % 3, [1, 5, 1_000][index % 3]];
        let ids: Vec<i32> =
            (0..batch * len).map(|token| (mix(token as u64) % vocabulary as u64) as i32).collect();
        for has_positions in [false, true] {
            let lens = [vocabulary * width, len * width];
            let lens = if has_positions { &lens[..] } else { &lens[..1] };
            check("embedding", &device, lens, |inputs| {
                let table = inputs[0].clone();
                let ids = TensorData::new(ids.clone(), [batch, len]);
                kernels::embedding(EmbeddingInput {
                    ids: Tensor::from_data(ids, &table.device().inner()),
                    table: table.reshape([vocabulary, width]),
                    positions: inputs.get(1).map(|x| x.clone().reshape([len, width])),
                    scale: 1.5,
                    zero_first: index % 2 == 0,
                    dropout: DropoutMask::KeepAll,
                })
                .reshape([batch * len * width])
            });
        }
    }
}

/// 100,000 elements at rate 0.3: the standard deviation of the count is √(n p q) = 145.
#[test]
fn dropout_keeps_rate_and_mean_and_its_gradient_has_the_same_mask() {
    let Some(device) = test_device() else { return };
    let device = device.autodiff();
    let mask = DropoutMask::OnDevice { key: mix(3), rate: 0.3 };
    let ones = || Tensor::<3>::ones([10, 100, 100], &device).require_grad();
    let bits = |key| doubles(kernels::dropout(ones(), DropoutMask::OnDevice { key, rate: 0.3 }));
    assert_eq!(bits(mix(1)), bits(mix(1)));
    assert_ne!(bits(mix(1)), bits(mix(2)));
    let [x, y] = [ones(), ones()];
    let relu = |x: Tensor<3>| kernels::activation(x, Activation::Relu, mask);
    let sum = |x: Tensor<3>| kernels::residual(x.clone() - x, y.clone(), mask);
    let all: [(&Tensor<3>, Tensor<3>); 3] =
        [(&x, kernels::dropout(x.clone(), mask)), (&x, relu(x.clone())), (&y, sum(x.clone()))];
    for (input, output) in all {
        let factors = doubles(output.clone());
        let dropped = factors.iter().filter(|factor| **factor == 0.0).count();
        assert!((29_300..30_700).contains(&dropped), "{dropped}");
        assert!(factors.iter().all(|f| *f == 0.0 || (*f - 1.0 / 0.7).abs() < 1e-6));
        // Independent neighbors are dropped together in 0.3² of the pairs: 9,000 ± 91.
        for distance in [1, 2, 4, 100, 10_000] {
            let both = factors.iter().zip(&factors[distance..]).filter(|(a, b)| **a + **b == 0.0);
            let expected = 0.09 * (factors.len() - distance) as f64;
            assert!((both.count() as f64 - expected).abs() < 500.0, "distance {distance}");
        }
        let gradient = input.grad(&output.sum().backward()).unwrap();
        assert_eq!(doubles(gradient), factors);
    }
}
