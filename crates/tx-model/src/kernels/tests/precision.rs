//! Products of bf16 numbers in linear layers and attention.

use super::*;
use ProductPrecision::{Bf16, Bf16x3};

/// Precisions with the largest difference of a linear layer and of attention. Rounding a factor
/// changes it by up to 2⁻⁸, and by 2⁻¹⁶ if a second number has what is left; a product has two factors,
/// and with second numbers omits 2⁻¹⁶ of itself. Attention has up to four products in a row.
const PRECISIONS: [(ProductPrecision, [f64; 2]); 2] =
    [(Bf16, [7.9e-3, 3.2e-2]), (Bf16x3, [4.8e-5, 1.9e-4])];

#[test]
fn linear_layers_differ_by_rounding_only() {
    for (precision, [limit, _]) in PRECISIONS {
        let mut worst = 0.0_f64;
        // Many results, because a single one may be near zero, where no factor is.
        for &[batch, len, d_in] in &SHAPES[1..] {
            for d_out in [1, 6, 33, 300] {
                let sizes = [batch * len * d_in, d_in * d_out, d_out];
                let name = format!("linear in {precision}");
                worst = worst.max(check_within(limit, &name, &sizes, |inputs| {
                    let [x, w, b] = inputs else { unreachable!() };
                    let x = shaped(x, [batch, len, d_in]);
                    flat(linear(x, weights(shaped(w, [d_in, d_out]), Some(b.clone())), precision))
                }));
                worst = worst.max(check_within(limit, &name, &sizes[..2], |inputs| {
                    let x = shaped(&inputs[0], [batch, len, d_in]);
                    let w = shaped(&inputs[1], [d_out, d_in]).transpose();
                    flat(linear(x, weights(w, None), precision))
                }));
            }
        }
        println!("linear in {precision}: {worst:.1e}");
    }
}

#[test]
fn attention_differs_by_rounding_only() {
    for (precision, [_, limit]) in PRECISIONS {
        let mut worst = 0.0_f64;
        for [batch, heads, queries, keys, d_head] in [
            [1, 1, 1, 1, 1],
            [2, 3, 4, 5, 2],
            [3, 2, 17, 9, 8],
            [2, 4, 20, 20, 32],
            [1, 2, 65, 130, 3],
            [1, 2, 70, 90, 64],
            [1, 1, 130, 257, 40],
        ] {
            let sizes = [queries, keys, keys].map(|len| batch * heads * len * d_head);
            for (dropout, is_causal) in
                masks().into_iter().flat_map(|mask| [(mask, false), (mask, true)])
            {
                let blocked: Vec<bool> =
                    (0..queries * keys).map(|i| is_causal && i % keys > i / keys).collect();
                let blocked = TensorData::new(blocked, [1, 1, queries, keys]);
                let name = format!("attention in {precision}");
                worst = worst.max(check_within(limit, &name, &sizes, |inputs| {
                    let split = |i: usize, len| {
                        shaped(&inputs[i], [batch, len, heads, d_head]).swap_dims(1, 2)
                    };
                    let input = AttentionInput {
                        queries: split(0, queries),
                        keys: split(1, keys),
                        values: split(2, keys),
                        bias: None,
                        blocked: Some(Tensor::from_data(blocked.clone(), &inputs[0].device())),
                        dropout,
                        precision,
                    };
                    flat(attention(input, false).0)
                }));
            }
        }
        println!("attention in {precision}: {worst:.1e}");
    }
}

/// Integers from -4 to 4 with the gradient of `4 x`. Their products are exact in bf16, so that no rounding
/// changes the sign of the argument of relu.
fn integers<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let x = x * 4.0;
    x.clone().detach().round() + (x.clone() - x.detach())
}

/// Numbers of rows and features: one, parts of blocks, several chunks, several depths.
const LAYERS: [[usize; 3]; 4] = [[1, 1, 1], [33, 40, 65], [300, 17, 130], [5, 600, 70]];

/// Rounding changes inner activations, gradients and each factor by up to 2⁻⁸: four times in the two
/// products of a gradient.
#[test]
fn feed_forward_differs_by_rounding_only() {
    let mut worst = 0.0_f64;
    for [rows, d_model, d_ff] in LAYERS {
        let sizes = [rows * d_model, d_model * d_ff, d_ff * d_model, d_ff, d_model];
        for (mask, has_biases) in masks().into_iter().flat_map(|m| [(m, false), (m, true)]) {
            let sizes = if has_biases { &sizes[..] } else { &sizes[..3] };
            worst = worst.max(check_within(1.6e-2, "feed-forward", sizes, |inputs| {
                let layers = [[d_model, d_ff], [d_ff, d_model]].into_iter().enumerate();
                let layers = layers.map(|(i, shape)| {
                    let bias = has_biases.then(|| integers(inputs[3 + i].clone()));
                    weights(integers(shaped(&inputs[1 + i], shape)), bias)
                });
                let layers: [LinearWeights; 2] = layers.collect::<Vec<_>>().try_into().unwrap();
                let x = integers(shaped(&inputs[0], [1, rows, d_model]));
                flat(feed_forward(x, layers, Activation::Relu, mask, Bf16).sum())
            }));
        }
    }
    println!("feed-forward in bf16: {worst:.1e}");
}

fn assert_same_values(found: &CrossEntropy, expected: &CrossEntropy) {
    let numbers =
        |all: &CrossEntropy| [all.loss.clone(), all.nll.clone()].map(Tensor::into_scalar::<f64>);
    for (found, expected) in numbers(found).into_iter().zip(numbers(expected)) {
        assert!((found - expected).abs() <= 1e-6 * expected, "{found}, {expected}");
    }
    let [found, expected] = [found, expected].map(|all| all.correct.clone().into_scalar::<i64>());
    assert_eq!(found, expected);
}

/// Logits of integers are exact, and so are loss and counts; gradients of logits are rounded, and then
/// multiplied with rounded factors.
#[test]
fn linear_layers_with_cross_entropy_differ_by_rounding_only() {
    let mut worst = 0.0_f64;
    for [rows, d_in, vocabulary] in LAYERS {
        let targets: Vec<i32> =
            (0..rows).map(|i| (mix(i as u64) % vocabulary as u64) as i32).collect();
        let targets = TensorData::new(targets, [rows]);
        let weights = TensorData::new((0..rows).map(|i| (i % 3) as f32).collect(), [rows]);
        let sizes = [rows * d_in, d_in * vocabulary, vocabulary];
        for (is_tied, is_weighted) in [(false, false), (true, false), (false, true), (true, true)] {
            let sizes = if is_tied { &sizes[..2] } else { &sizes[..] };
            worst = worst.max(check_within(7.9e-3, "loss", sizes, |inputs| {
                let x = integers(shaped(&inputs[0], [1, rows, d_in])) / 4.0;
                let w = integers(match is_tied {
                    true => shaped(&inputs[1], [vocabulary, d_in]).transpose(),
                    false => shaped(&inputs[1], [d_in, vocabulary]),
                });
                let device = x.device();
                let targets = Targets {
                    ids: Tensor::from_data(targets.clone(), &device),
                    weights: is_weighted.then(|| {
                        Tensor::<1>::from_data(weights.clone(), (&device, inputs[0].dtype()))
                    }),
                };
                let layer = |precision| LinearInput {
                    x: x.clone(),
                    weights: LinearWeights {
                        w: w.clone(),
                        b: inputs.get(2).map(|b| integers(b.clone())),
                    },
                    precision,
                };
                let single = linear_cross_entropy(layer(F32), targets.clone(), smoothed(0.1));
                let found = linear_cross_entropy(layer(Bf16), targets, smoothed(0.1));
                assert_same_values(&found, &single);
                found.loss
            }));
        }
    }
    println!("linear layer with cross-entropy in bf16: {worst:.1e}");
}

/// As above; the second half of the rows has other inputs than the first, so that predictions diverge.
#[test]
fn linear_layers_with_r_drop_differ_by_rounding_only() {
    let mut worst = 0.0_f64;
    for [tokens, d_in, vocabulary] in LAYERS {
        let targets: Vec<i32> =
            (0..tokens).map(|i| (mix(i as u64) % vocabulary as u64) as i32).collect();
        let targets = TensorData::new(targets, [tokens]);
        let weights = TensorData::new((0..tokens).map(|i| (i % 3) as f32).collect(), [tokens]);
        let sizes = [2 * tokens * d_in, d_in * vocabulary, vocabulary];
        for (has_bias, is_weighted) in [(false, false), (true, false), (false, true), (true, true)]
        {
            let sizes = if has_bias { &sizes[..] } else { &sizes[..2] };
            worst = worst.max(check_within(7.9e-3, "loss", sizes, |inputs| {
                let device = inputs[0].device();
                let targets = Targets {
                    ids: Tensor::from_data(targets.clone(), &device),
                    weights: is_weighted.then(|| {
                        Tensor::<1>::from_data(weights.clone(), (&device, inputs[0].dtype()))
                    }),
                };
                let layer = |precision| LinearInput {
                    x: integers(shaped(&inputs[0], [2, tokens, d_in])) / 4.0,
                    weights: LinearWeights {
                        w: integers(shaped(&inputs[1], [d_in, vocabulary])),
                        b: inputs.get(2).map(|b| integers(b.clone())),
                    },
                    precision,
                };
                let single = linear_r_drop(layer(F32), targets.clone(), smoothed(0.1), 3.0);
                let found = linear_r_drop(layer(Bf16), targets, smoothed(0.1), 3.0);
                assert_same_values(&found, &single);
                found.loss
            }));
        }
    }
    println!("linear layer with R-Drop in bf16: {worst:.1e}");
}

#[test]
fn results_in_one_pass_do_not_depend_on_the_number_of_threads() {
    let [rows, width, wide] = [300, 24, 130];
    let dropout = masks()[1];
    let all = [1, 2, 5].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let input = |key, len| numbers(key, len, Implementation::Kernel).require_grad();
            let [x, inner, outer] = [(1, rows * width), (2, width * wide), (3, wide * width)]
                .map(|(key, len)| input(key, len));
            let biases = [input(4, wide), input(5, width)];
            let layers = [(&inner, [width, wide], 0), (&outer, [wide, width], 1)]
                .map(|(w, shape, bias)| weights(shaped(w, shape), Some(biases[bias].clone())));
            let y = shaped(&x, [1, rows, width]);
            let y = feed_forward(y, layers, Activation::Relu, dropout, Bf16).sum();
            let ids = TensorData::new((0..rows as i32).map(|i| i % 130).collect(), [rows]);
            let targets = Targets { ids: Tensor::from_data(ids, &y.device()), weights: None };
            let weights = weights(shaped(&inner, [width, wide]), Some(biases[0].clone()));
            let layer = LinearInput { x: y, weights, precision: Bf16 };
            let loss = linear_cross_entropy(layer.clone(), targets.clone(), smoothed(0.1)).loss;
            let half = targets.ids.narrow(0, 0, rows / 2);
            let targets = Targets { ids: half, weights: None };
            let loss = loss + linear_r_drop(layer, targets, smoothed(0.1), 2.0).loss;
            let gradients = loss.backward();
            let inputs = [x, inner, outer].into_iter().chain(biases);
            let gradients = inputs.map(|input| input.grad(&gradients).unwrap().into_data());
            std::iter::once(loss.into_data()).chain(gradients).collect::<Vec<_>>()
        })
    });
    assert!(all.iter().all(|results| results == &all[0]));
}

/// Without autodiff, the loss of R-Drop is that of single precision, with weights and without.
#[test]
fn r_drop_without_autodiff_is_in_single_precision() {
    let [x, w] = [(1, 2 * 5 * 30), (2, 30 * 40)]
        .map(|(key, len)| numbers(key, len, Implementation::Kernel).inner());
    let device = x.device();
    let targets = Targets {
        ids: Tensor::from_data([1, 0, 39, 7, 1], &device),
        weights: Some(Tensor::from_data([1.0, 0.5, 2.0, 0.0, 3.0], &device)),
    };
    for weights in [None, targets.weights.clone()] {
        let targets = Targets { weights, ..targets.clone() };
        let [single, found] = [F32, Bf16].map(|precision| {
            let (x, w) = (shaped(&x, [2, 5, 30]), shaped(&w, [30, 40]));
            let layer = LinearInput { x, weights: LinearWeights { w, b: None }, precision };
            linear_r_drop(layer, targets.clone(), smoothed(0.1), 3.0)
        });
        assert_same_values(&found, &single);
    }
}

/// Validation and inference compute in single precision.
#[test]
fn the_precision_applies_with_autodiff_only() {
    let [x, w] =
        [(1, 600), (2, 1_200)].map(|(key, len)| numbers(key, len, Implementation::Kernel).inner());
    let run = |x: Tensor<1>, w: Tensor<1>, precision| {
        let y = linear(shaped(&x, [1, 20, 30]), weights(shaped(&w, [30, 40]), None), precision);
        y.into_data().iter::<f32>().collect::<Vec<_>>()
    };
    let expected = run(x.clone(), w.clone(), F32);
    assert_eq!(run(x.clone(), w.clone(), Bf16), expected);
    let tracked = [x, w].map(|x| Tensor::from_inner(x).require_grad());
    let [x, w] = tracked;
    assert_eq!(run(x.clone(), w.clone(), F32), expected);
    assert_ne!(run(x, w, Bf16), expected);
}
