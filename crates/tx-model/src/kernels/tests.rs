//! Each kernel against its composed version in double precision: values, and gradients of all
//! inputs, once also against finite differences.
//!
//! Kernels run on `flex` only, so that the same function called with tensors of another backend is
//! the composed version: here `ndarray`, whose double precision shares no code with the kernels.

use burn::tensor::{DType, Device, FloatDType, TensorData};

use super::*;
use crate::random::mix;

mod distillation;
mod divergence;
mod embedding;
mod precision;

/// Largest difference between a kernel and its reference, relative to the largest element.
const LIMIT: f64 = 2e-6;

/// Implementation under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Implementation {
    /// The kernel, in single precision.
    Kernel,
    /// The composed version, in double precision.
    Reference,
    /// The composed version on `flex`, whose functions are accurate to the last bits of a double.
    /// (Its product of some small matrices of doubles crashes: gemm-f64 0.19.0, `hx2x1`.)
    Exact,
}

impl Implementation {
    #[allow(deprecated)]
    fn device(self) -> Device {
        match self {
            Self::Kernel | Self::Exact => Device::flex(),
            Self::Reference => Device::ndarray(),
        }
        .autodiff()
    }
}

/// Function of some flattened tensors with a flattened result.
trait Subject: Fn(&[Tensor<1>]) -> Tensor<1> {}
impl<F: Fn(&[Tensor<1>]) -> Tensor<1>> Subject for F {}

/// Compares `f` of inputs with `sizes` elements with itself in double precision.
fn check(name: &str, sizes: &[usize], f: impl Subject) {
    check_within(LIMIT, name, sizes, f);
}

/// Does the work of [`check`] with another limit. Returns the largest difference.
fn check_within(limit: f64, name: &str, sizes: &[usize], f: impl Subject) -> f64 {
    let (found, found_gradients) = run(sizes, Implementation::Kernel, &f);
    let (expected, expected_gradients) = run(sizes, Implementation::Reference, &f);
    let mut worst = assert_within(limit, &format!("{name}: value"), &found, &expected);
    for (i, (found, expected)) in found_gradients.iter().zip(&expected_gradients).enumerate() {
        let what = format!("{name}: gradient {i}");
        worst = worst.max(assert_within(limit, &what, found, expected));
    }
    worst
}

/// Result of `f`, and the gradients of `Σ result · noise`.
fn run(
    sizes: &[usize],
    implementation: Implementation,
    f: &impl Subject,
) -> (Vec<f64>, Vec<Vec<f64>>) {
    let inputs: Vec<Tensor<1>> = sizes
        .iter()
        .zip(1..)
        .map(|(&size, key)| numbers(key, size, implementation).require_grad())
        .collect();
    let y = f(&inputs);
    let [len] = y.dims();
    let gradients = (y.clone() * numbers(99, len, implementation)).sum().backward();
    let gradients = inputs.iter().map(|input| {
        let gradient = input.grad(&gradients);
        gradient.map_or_else(Vec::new, |gradient| gradient.into_data().iter::<f64>().collect())
    });
    (y.into_data().iter::<f64>().collect(), gradients.collect())
}

/// Numbers in -1..1 that depend only on `key` and are the same in both precisions.
fn numbers(key: u64, len: usize, implementation: Implementation) -> Tensor<1> {
    let numbers: Vec<f32> = (0..len as u64)
        .map(|i| (mix(key << 32 | i) as f64 / u64::MAX as f64 * 2.0 - 1.0) as f32)
        .collect();
    let numbers = Tensor::<1>::from_data(TensorData::new(numbers, [len]), &implementation.device());
    if implementation == Implementation::Kernel { numbers } else { numbers.cast(FloatDType::F64) }
}

fn assert_close(what: &str, found: &[f64], expected: &[f64]) {
    assert_within(LIMIT, what, found, expected);
}

/// Returns the largest difference, after checking that it is at most `limit`.
fn assert_within(limit: f64, what: &str, found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(1e-3_f64, |largest, x| largest.max(x.abs()));
    let mut worst = 0.0_f64;
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let gap = (found - expected).abs() / largest;
        // Not `>`, which NaN would pass.
        assert!(gap <= limit, "{what}, element {i}: {found} instead of {expected}");
        worst = worst.max(gap);
    }
    worst
}

/// Flattens a tensor.
fn flat<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    let len = x.shape().num_elements();
    x.reshape([len])
}

/// Reverses [`flat`].
fn shaped<const D: usize>(x: &Tensor<1>, shape: [usize; D]) -> Tensor<D> {
    x.clone().reshape(shape)
}

fn weights(w: Tensor<2>, b: Option<Tensor<1>>) -> LinearWeights {
    LinearWeights { w, b }
}

fn norm(gamma: Tensor<1>, beta: Option<Tensor<1>>, epsilon: f64) -> Norm {
    Norm { gamma, beta, epsilon }
}

/// The kernels accept tensors without elements, which not all of Burn's operations do.
#[test]
fn empty_inputs_give_empty_results() {
    let device = Device::flex().autodiff();
    let mask = DropoutMask::Hashed(HashedMask::new(KEY, 0.3));
    let vector = || Tensor::<1>::ones([3], &device).require_grad();
    let square = Tensor::<2>::ones([3, 3], &device).require_grad();
    for shape in [[2, 0, 3], [0, 2, 3]] {
        let x = Tensor::<3>::empty(shape, &device).require_grad();
        let y = linear(x.clone(), weights(square.clone(), Some(vector())), F32);
        let y = layer_norm(y, norm(vector(), Some(vector()), EPSILON));
        let y = layer_norm(y, norm(vector(), None, EPSILON));
        let y = recurrence(y.clone(), y);
        let y = residual(x.clone(), activation(y, Activation::Relu, mask), mask);
        let [batch, len, width] = shape;
        let heads = Tensor::<4>::empty([batch, 1, len, width], &device).require_grad();
        let mixed = mixed(heads.clone(), heads.clone(), heads, None, mask);
        assert_eq!((y.dims(), mixed.dims()), (shape, shape));
        let ids = Tensor::<2, Int>::empty([batch, len], &device);
        let embedded = embedding(EmbeddingInput { dropout: mask, ..plain(square.clone(), ids) });
        assert_eq!(embedded.dims(), shape);
        let gradients = (y + mixed + embedded).sum().backward();
        let gradient = square.grad(&gradients).unwrap();
        assert_eq!(gradient.into_data().iter::<f32>().collect::<Vec<_>>(), [0.0; 9]);
    }
    let logits = Tensor::<2>::empty([0, 5], &device).require_grad();
    let found = cross_entropy(logits, Tensor::empty([0], &device), None, smoothed(0.1));
    let [loss, nll] = [found.loss, found.nll].map(Tensor::into_scalar::<f32>);
    assert_eq!((loss, nll, found.correct.into_scalar::<i32>()), (0.0, 0.0, 0));
}

const KEY: u64 = 42;

const F32: ProductPrecision = ProductPrecision::F32;

/// Added to the variance in layer normalization.
const EPSILON: f64 = 1e-5;

/// Masks without and with dropout.
fn masks() -> [DropoutMask; 2] {
    [DropoutMask::KeepAll, DropoutMask::Hashed(HashedMask::new(KEY, 0.3))]
}

/// Cross-entropy that ignores the target 0.
fn smoothed(smoothing: f64) -> CrossEntropyConfig {
    CrossEntropyConfig { smoothing, ignore_index: 0 }
}

/// Attention by the kernel, without bias and weights.
fn mixed(
    queries: Tensor<4>,
    keys: Tensor<4>,
    values: Tensor<4>,
    blocked: Option<Tensor<4, Bool>>,
    dropout: DropoutMask,
) -> Tensor<3> {
    let bias = None;
    let input = AttentionInput { queries, keys, values, bias, blocked, dropout, precision: F32 };
    attention(input, false).0
}

/// Sizes of batch, length and width: one, odd, and more than one piece of work.
const SHAPES: [[usize; 3]; 4] = [[1, 1, 1], [3, 5, 7], [2, 17, 65], [7, 31, 257]];

#[test]
fn linear_with_bias_without_and_transposed() {
    for [batch, len, d_in] in SHAPES {
        for d_out in [1, 6, 33] {
            let sizes = [batch * len * d_in, d_in * d_out, d_out];
            check("linear", &sizes, |inputs| {
                let [x, w, b] = inputs else { unreachable!() };
                let x = shaped(x, [batch, len, d_in]);
                flat(linear(x, weights(shaped(w, [d_in, d_out]), Some(b.clone())), F32))
            });
            check("linear, transposed, no bias", &sizes[..2], |inputs| {
                let x = shaped(&inputs[0], [batch, len, d_in]);
                let w = shaped(&inputs[1], [d_out, d_in]).transpose();
                flat(linear(x, weights(w, None), F32))
            });
        }
    }
}

#[test]
fn layer_norm_of_any_width() {
    for [batch, len, width] in SHAPES {
        for epsilon in [EPSILON, 0.1] {
            check("layer norm", &[batch * len * width, width, width], |inputs| {
                let [x, gamma, beta] = inputs else { unreachable!() };
                // Away from zero, because the norm of a single feature would amplify rounding.
                let x = shaped(x, [batch, len, width]) + 0.5;
                flat(layer_norm(x, norm(gamma.clone(), Some(beta.clone()), epsilon)))
            });
            // A single feature becomes its sign, and its gradient is a difference of equal numbers.
            if width > 1 {
                check("root mean square", &[batch * len * width, width], |inputs| {
                    let [x, gamma] = inputs else { unreachable!() };
                    let x = shaped(x, [batch, len, width]) + 0.5;
                    flat(layer_norm(x, norm(gamma.clone(), None, epsilon)))
                });
            }
        }
    }
}

#[test]
fn recurrence_of_any_length() {
    for [batch, len, width] in SHAPES {
        let size = batch * len * width;
        check("recurrence", &[size, size], |inputs| {
            // Gates from 0.02 to 0.98.
            let [x, gates] = [0, 1].map(|i: usize| shaped(&inputs[i], [batch, len, width]));
            flat(recurrence(x, gates * 4.0))
        });
    }
}

#[test]
fn residual_and_dropout() {
    for [batch, len, width] in SHAPES {
        for mask in masks() {
            let size = batch * len * width;
            check("residual", &[size, size], |inputs| {
                let [x, y] = [0, 1].map(|i: usize| shaped(&inputs[i], [batch, len, width]));
                flat(residual(x, y, mask))
            });
            check("dropout", &[size], |inputs| {
                flat(dropout(shaped(&inputs[0], [batch, len, width]), mask))
            });
        }
    }
}

#[test]
fn each_activation() {
    for [batch, len, width] in SHAPES {
        for function in [Activation::Relu, Activation::Gelu, Activation::Swish, Activation::Gated] {
            for mask in masks() {
                check(&format!("{function:?}"), &[batch * len * width], |inputs| {
                    // A range that includes the flat ends.
                    let x = shaped(&inputs[0], [batch, len, width]) * 6.0;
                    flat(activation(x, function, mask))
                });
            }
        }
    }
}

/// Embedding without positions, scale and dropout.
fn plain(table: Tensor<2>, ids: Tensor<2, Int>) -> EmbeddingInput {
    let dropout = DropoutMask::KeepAll;
    EmbeddingInput { table, ids, positions: None, scale: 1.0, zero_first: false, dropout }
}

/// Dimensions in which a mask does not broadcast: sentence, head, query and key.
const MASKS: [[bool; 4]; 4] = [
    [true, false, false, true],
    [false, false, true, true],
    [true, true, true, true],
    [true, false, true, false],
];

#[test]
fn attention_with_any_mask() {
    for [batch, heads, queries, keys, d_head] in
        [[1, 1, 1, 1, 1], [2, 3, 4, 5, 2], [3, 2, 17, 9, 8], [2, 4, 20, 20, 32], [1, 2, 65, 130, 3]]
    {
        let sizes = [queries, keys, keys].map(|len| batch * heads * len * d_head);
        let blocking = MASKS.into_iter().map(Some).chain([None]);
        for (mask, dropout) in blocking.flat_map(|mask| masks().map(|dropout| (mask, dropout))) {
            let blocked = mask.map(|varies| {
                let full = [batch, heads, queries, keys];
                let shape: [usize; 4] =
                    std::array::from_fn(|i| if varies[i] { full[i] } else { full[i].min(1) });
                // Blocks about a third of the keys; the last mask blocks whole queries.
                let blocked: Vec<bool> = (0..shape.iter().product::<usize>())
                    .map(|i| mix(i as u64).is_multiple_of(3))
                    .collect();
                TensorData::new(blocked, shape)
            });
            // Heads are slices of the tokens' features, as in the model.
            let split =
                |x: &Tensor<1>, len| shaped(x, [batch, len, heads, d_head]).swap_dims(1, 2) * 2.0;
            check(&format!("attention {mask:?}"), &sizes, |inputs| {
                let [q, k, v] = inputs else { unreachable!() };
                let (q, k, v) = (split(q, queries), split(k, keys), split(v, keys));
                let blocked =
                    blocked.clone().map(|blocked| Tensor::from_data(blocked, &q.device()));
                flat(mixed(q, k, v, blocked, dropout))
            });
        }
    }
}

#[test]
fn cross_entropy_with_and_without_smoothing() {
    for [batch, len, vocabulary] in [[1, 1, 1], [3, 5, 7], [2, 17, 65], [9, 7, 2_049]] {
        let rows = batch * len;
        let targets: Vec<i32> =
            (0..rows).map(|i| (mix(i as u64) % vocabulary as u64) as i32).collect();
        let targets = TensorData::new(targets, [rows]);
        for smoothing in [0.0, 0.1] {
            let mut correct = Vec::new();
            let counts = std::cell::RefCell::new(&mut correct);
            check("cross-entropy", &[rows * vocabulary], |inputs| {
                let logits = shaped(&inputs[0], [rows, vocabulary]) * 8.0;
                let targets = Tensor::from_data(targets.clone(), &logits.device());
                // Without smoothing, the loss is the negative log-likelihood.
                let plain =
                    cross_entropy(logits.clone(), targets.clone(), None, smoothed(0.0)).loss;
                let found = cross_entropy(logits, targets, None, smoothed(smoothing));
                let [plain, nll] = [plain, found.nll].map(Tensor::into_scalar::<f32>);
                assert!((plain - nll).abs() <= 1e-5 * plain, "{nll}, {plain}");
                counts.borrow_mut().push(found.correct.into_scalar::<i64>());
                found.loss
            });
            assert_eq!(correct[0], correct[1]);
        }
    }
}

/// The loss has the weights, the negative log-likelihood has not.
#[test]
fn cross_entropy_of_weighted_rows() {
    for [rows, vocabulary] in [[1, 3], [70, 65], [30, 2_049]] {
        let targets: Vec<i32> = (0..rows).map(|i| (mix(i) % vocabulary) as i32).collect();
        let targets = TensorData::new(targets, [rows as usize]);
        let shape = [rows as usize, vocabulary as usize];
        for smoothing in [0.0, 0.1] {
            check("weighted cross-entropy", &[shape[0] * shape[1]], |inputs| {
                let logits = shaped(&inputs[0], shape) * 8.0;
                let device = logits.device();
                let target = || Tensor::from_data(targets.clone(), &device);
                let weights = Some(weights_of_rows(shape[0], &logits));
                let plain = cross_entropy(logits.clone(), target(), None, smoothed(smoothing));
                let found = cross_entropy(logits, target(), weights, smoothed(smoothing));
                assert_eq!(found.nll.into_data(), plain.nll.into_data());
                found.loss
            });
        }
    }
}

/// Weights 0, 1/4, 1/2 … 7/4 of rows, in the dtype of `logits`.
fn weights_of_rows(rows: usize, logits: &Tensor<2>) -> Tensor<1> {
    let weights: Vec<f32> = (0..rows).map(|row| (row % 8) as f32 / 4.0).collect();
    Tensor::from_data(TensorData::new(weights, [rows]), (&logits.device(), logits.dtype()))
}

#[test]
fn adam_and_the_sum_of_squares() {
    for size in [0, 1, 5, 1_000, 70_001] {
        let update = AdamUpdate {
            beta_1: 0.9,
            beta_2: 0.98,
            step: 0.01,
            epsilon: 1e-3,
            l2: 0.1,
            decay: 0.99,
        };
        let results = [Implementation::Kernel, Implementation::Reference].map(|implementation| {
            let [parameter, gradient, exp_avg, exp_avg_sq] =
                [1, 2, 3, 4].map(|key| numbers(key, size, implementation).inner());
            let state = ParameterState { parameter, exp_avg, exp_avg_sq: exp_avg_sq.abs() };
            let next = adam(state, gradient.clone(), update);
            let square = sum_of_squares(gradient).into_scalar::<f64>();
            let read = |x: Tensor<1>| x.into_data().iter::<f64>().collect::<Vec<_>>();
            (read(next.parameter), read(next.exp_avg), read(next.exp_avg_sq), square)
        });
        let [found, expected] = results;
        assert_close("parameter", &found.0, &expected.0);
        assert_close("first moment", &found.1, &expected.1);
        assert_close("second moment", &found.2, &expected.2);
        assert_close("sum of squares", &[found.3], &[expected.3]);
    }
}

/// Gradient of a whole sub-layer along one direction:
/// `(f(x + h d) - f(x - h d)) / 2h` in double precision.
#[test]
fn gradients_agree_with_finite_differences() {
    let (batch, len, width) = (2, 5, 8);
    let size = batch * len * width;
    let mask = DropoutMask::Hashed(HashedMask::new(KEY, 0.2));
    let f = |inputs: &[Tensor<1>]| {
        let x = shaped(&inputs[0], [batch, len, width]);
        let ones = inputs[1].clone();
        let y = layer_norm(x.clone(), norm(ones.clone() + 1.0, Some(ones), EPSILON));
        let heads = y.clone().reshape([batch, len, 2, width / 2]).swap_dims(1, 2);
        let y = mixed(heads.clone(), heads.clone(), heads, None, mask);
        let y = residual(x, y, mask);
        let w = shaped(&inputs[2], [width, width]);
        flat(activation(linear(y, weights(w, None), F32), Activation::Swish, mask))
    };
    let sizes = [size, width, width * width];
    let (_, gradients) = run(&sizes, Implementation::Kernel, &f);
    let step = 1e-5;
    let value = |sign: f64| {
        let inputs: Vec<Tensor<1>> = sizes
            .iter()
            .zip(1..)
            .map(|(&size, key)| {
                let along = numbers(key + 50, size, Implementation::Exact) * (sign * step);
                numbers(key, size, Implementation::Exact) + along
            })
            .collect();
        (f(&inputs) * numbers(99, size, Implementation::Exact)).sum().into_scalar::<f64>()
    };
    let expected = (value(1.0) - value(-1.0)) / (2.0 * step);
    let found: f64 = sizes
        .iter()
        .zip(1..)
        .zip(&gradients)
        .map(|((&size, key), gradient)| {
            let along = numbers(key + 50, size, Implementation::Exact).into_data();
            gradient.iter().zip(along.iter::<f64>()).map(|(g, d)| g * d).sum::<f64>()
        })
        .sum();
    assert!((found - expected).abs() < 1e-5 * expected.abs(), "{found} and {expected}");
}

/// `flip` is a view with negative strides on `flex`.
#[test]
fn flipped_inputs_are_copied() {
    let [batch, len, d_in, d_out] = [2, 3, 4, 8];
    for axes in [[true, false], [false, true], [true, true]] {
        let flipped = |w: Tensor<2>| match axes {
            [true, true] => w.flip([0, 1]),
            [true, false] => w.flip([0]),
            [false, _] => w.flip([1]),
        };
        check("linear, flipped", &[batch * len * d_in, d_in * d_out, d_out], |inputs| {
            let [x, w, b] = inputs else { unreachable!() };
            let x = shaped(x, [batch, len, d_in]).flip([2]);
            let layer = weights(flipped(shaped(w, [d_in, d_out])), Some(b.clone().flip([0])));
            flat(linear(x, layer, F32))
        });
    }
    let size = batch * len * d_in;
    check("layer norm, flipped", &[size, d_in, d_in], |inputs| {
        let [x, gamma, beta] = inputs else { unreachable!() };
        let x = shaped(x, [batch, len, d_in]).flip([1]) + 0.5;
        let norm = norm(gamma.clone().flip([0]), Some(beta.clone().flip([0])), EPSILON);
        flat(layer_norm(x, norm))
    });
    for mask in masks() {
        check("residual, activation and dropout, flipped", &[size, size], |inputs| {
            let [x, y] = [0, 1].map(|i: usize| shaped(&inputs[i], [batch, len, d_in]).flip([1]));
            let active = activation(y.clone(), Activation::Swish, mask);
            flat(residual(x, dropout(y, mask).flip([2]), mask) + active)
        });
    }
    let [heads, d_head] = [2, 4];
    let size = batch * heads * len * d_head;
    let blocked: Vec<bool> = (0..batch * len * len).map(|i| i.is_multiple_of(4)).collect();
    let blocked = TensorData::new(blocked, [batch, 1, len, len]);
    check("attention, flipped", &[size, size, size], |inputs| {
        let [q, k, v] = [0, 1, 2]
            .map(|i: usize| shaped(&inputs[i], [batch, heads, len, d_head]).flip([i as isize, 3]));
        let blocked = Tensor::<4, Bool>::from_data(blocked.clone(), &q.device()).flip([3]);
        flat(mixed(q, k, v, Some(blocked), DropoutMask::KeepAll))
    });
}

/// The default integer dtype of a device may differ from that of the kernels.
#[test]
fn ids_may_have_64_bits() {
    let device = Device::flex().autodiff();
    let ids = TensorData::from([[3_i64, 0, 1], [2, 2, 4]]);
    let targets = TensorData::from([1_i64, 2, 0]);
    let [narrow, wide] = [DType::I32, DType::I64].map(|dtype| {
        let table = numbers(1, 10, Implementation::Kernel).reshape([5, 2]).require_grad();
        let ids = Tensor::<2, Int>::from_data(ids.clone(), (&device, dtype));
        let embedded = embedding(EmbeddingInput { scale: 1.5, ..plain(table.clone(), ids) });
        let logits = embedded.clone().reshape([3, 4]) * 3.0;
        let targets = Tensor::<1, Int>::from_data(targets.clone(), (&device, dtype));
        let CrossEntropy { loss, correct, .. } =
            cross_entropy(logits, targets, None, smoothed(0.1));
        let gradients = loss.clone().backward();
        let read = |x: Tensor<1>| x.into_data().iter::<f32>().collect::<Vec<_>>();
        let gradient = read(flat(table.grad(&gradients).unwrap()));
        assert!(loss.clone().into_scalar::<f32>() > 0.0);
        (read(flat(embedded)), read(loss), correct.into_scalar::<i64>(), gradient)
    });
    assert_eq!(narrow, wide);
}

/// NaN propagates, as in Burn's operations and PyTorch. In the scores, row 1 is NaN, row 2 has one
/// NaN, and row 3 is blocked.
#[test]
fn nan_stays_nan() {
    let device = Device::flex();
    let x = Tensor::<3>::from_data([[[f32::NAN, -1.0, 0.0, 2.0]]], &device);
    let found: Vec<f32> =
        activation(x, Activation::Relu, DropoutMask::KeepAll).into_data().iter::<f32>().collect();
    assert!(found[0].is_nan() && found[1..] == [0.0, 0.0, 2.0], "{found:?}");

    let q = [[1.0_f32], [f32::NAN], [1.0], [1.0]];
    let q = Tensor::<4>::from_data([[q]], &device);
    let k = Tensor::<4>::from_data([[[[0.0_f32], [f32::NAN]]]], &device);
    let v = Tensor::<4>::from_data([[[[5.0_f32], [7.0]]]], &device);
    let blocked = [[false, true], [false, true], [false, false], [true, true]];
    let blocked = Tensor::<4, Bool>::from_data([[blocked]], &device);
    let found = mixed(q, k, v, Some(blocked), DropoutMask::KeepAll);
    let found: Vec<f32> = found.into_data().iter::<f32>().collect();
    assert_eq!((found[0], found[3]), (5.0, 0.0), "{found:?}");
    assert!(found[1].is_nan() && found[2].is_nan(), "{found:?}");
}

/// Each head is computed by one core. A NaN stays in its sentence, also in the backward pass.
#[test]
fn attention_is_the_same_on_any_number_of_threads() {
    let [batch, heads, len, d_head] = [3, 4, 37, 16];
    let run = || {
        let [q, k, v] = [1, 2, 3].map(|key| {
            let x = numbers(key, batch * heads * len * d_head, Implementation::Kernel);
            shaped(&x, [batch, len, heads, d_head]).swap_dims(1, 2).require_grad()
        });
        let nan = Tensor::from_data(
            TensorData::new(vec![f32::NAN, 1.0, 1.0], [batch, 1, 1, 1]),
            &Device::flex(),
        );
        let mask = DropoutMask::Hashed(HashedMask::new(KEY, 0.3));
        let y = mixed(q.clone() * nan, k.clone(), v.clone(), None, mask);
        let gradients = (y.clone() * 0.5).sum().backward();
        let bits = |x: Tensor<1>| x.into_data().iter::<f32>().map(f32::to_bits).collect::<Vec<_>>();
        let gradients = [q, k, v].map(|x| bits(flat(x.grad(&gradients).unwrap())));
        (bits(flat(y)), gradients)
    };
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let (y, gradients) = pool(1).install(run);
    assert_eq!(pool(4).install(run), (y.clone(), gradients.clone()));
    for values in [&y].into_iter().chain(&gradients) {
        let size = values.len() / batch;
        let is_nan: Vec<bool> =
            values.chunks(size).map(|x| x.iter().any(|x| f32::from_bits(*x).is_nan())).collect();
        assert_eq!(is_nan, [true, false, false]);
    }
}
