//! Kernels at many shapes, against the same functions in double precision on the CPU, which are composed
//! of Burn's operations there.

use std::env;

use burn::tensor::{Device, DeviceKind, FloatDType, Int, Tensor, TensorData};
use tx_model::{
    Activation, ProductPrecision,
    kernels::{self, AttentionInput, CrossEntropyConfig, DropoutMask},
    random::mix,
};

mod updates;

/// Maximum difference of a value or gradient, relative to the largest of its tensor.
const LIMIT: f64 = 1e-4;

/// Sizes at and beside those of cubes and of groups of rows.
const SIZES: [usize; 14] = [1, 2, 7, 31, 32, 33, 63, 64, 65, 100, 255, 257, 511, 520];

/// Sizes of a shape in its own pseudorandom order.
fn shapes(count: usize) -> impl Iterator<Item = [usize; 2]> {
    let place = |i: usize, step: usize| SIZES[(i * step + i / SIZES.len()) % SIZES.len()];
    (0..count).map(move |i| [place(i, 3), place(i, 5)])
}

/// Compares value and gradients of `f` of vectors with these lengths on `device` and in double precision.
fn check(name: &str, device: &Device, lens: &[usize], f: impl Fn(&[Tensor<1>]) -> Tensor<1>) {
    let run = |device: Device, dtype: FloatDType| {
        let device = device.autodiff();
        let vector = |(index, &len): (usize, &usize)| {
            vector(&format!("input {index}"), len, &device).cast(dtype)
        };
        let inputs: Vec<_> = lens.iter().enumerate().map(vector).collect();
        let inputs: Vec<_> = inputs.into_iter().map(Tensor::require_grad).collect();
        let y = f(&inputs);
        let weights = vector((99, &y.dims()[0]));
        let gradients = (y.clone() * weights).sum().backward();
        let gradients = inputs.iter().map(|input| input.grad(&gradients).unwrap());
        [y.without_autodiff()].into_iter().chain(gradients).map(doubles).collect::<Vec<_>>()
    };
    let found = run(device.clone(), FloatDType::F32);
    let expected = run(Device::flex(), FloatDType::F64);
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_close(&format!("{name}, {lens:?}, result {index}"), found, expected);
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
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(1e-3_f64, |largest, x| largest.max(x.abs()));
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        // Not `>`, which NaN would pass.
        let is_close = (found - expected).abs() / largest <= LIMIT;
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
            kernels::layer_norm(x.reshape([1, rows, width]), gamma, Some(beta), epsilon)
                .reshape([rows * width])
        });
        // A single feature becomes its sign, and its gradient is a difference of equal numbers.
        if width == 1 {
            continue;
        }
        check("root mean square", &device, &[rows * width, width], |inputs| {
            let [x, gamma] = [0, 1].map(|index| inputs[index].clone());
            kernels::layer_norm(x.reshape([1, rows, width]), gamma, None, epsilon)
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
            kernels::linear(x.reshape([1, rows, d_in]), w, Some(b), ProductPrecision::F32)
                .reshape([rows * d_out])
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
        check("attention", &device, &[of_queries, of_keys, of_keys], |inputs| {
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
                bias: None,
                blocked,
                dropout: DropoutMask::KeepAll,
                precision: ProductPrecision::F32,
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

/// 100,000 elements at rate 0.3: the standard deviation of the count is √(n p q) = 145.
#[test]
fn dropout_keeps_rate_and_mean_and_its_gradient_has_the_same_mask() {
    let Some(device) = test_device() else { return };
    let device = device.autodiff();
    let mask = DropoutMask::OnDevice { rate: 0.3 };
    let ones = || Tensor::<3>::ones([10, 100, 100], &device).require_grad();
    let bits = |seed| {
        device.seed(seed);
        doubles(kernels::dropout(ones(), mask))
    };
    assert_eq!(bits(1), bits(1));
    assert_ne!(bits(1), bits(2));
    device.seed(3);
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
