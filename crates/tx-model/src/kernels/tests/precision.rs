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
                    flat(linear(x, shaped(w, [d_in, d_out]), Some(b.clone()), precision))
                }));
                worst = worst.max(check_within(limit, &name, &sizes[..2], |inputs| {
                    let x = shaped(&inputs[0], [batch, len, d_in]);
                    let w = shaped(&inputs[1], [d_out, d_in]).transpose();
                    flat(linear(x, w, None, precision))
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

/// Validation and inference compute in single precision.
#[test]
fn the_precision_applies_with_autodiff_only() {
    let [x, w] =
        [(1, 600), (2, 1_200)].map(|(key, len)| numbers(key, len, Implementation::Kernel).inner());
    let run = |x: Tensor<1>, w: Tensor<1>, precision| {
        let y = linear(shaped(&x, [1, 20, 30]), shaped(&w, [30, 40]), None, precision);
        y.into_data().iter::<f32>().collect::<Vec<_>>()
    };
    let expected = run(x.clone(), w.clone(), F32);
    assert_eq!(run(x.clone(), w.clone(), Bf16), expected);
    let tracked = [x, w].map(|x| Tensor::from_inner(x).require_grad());
    let [x, w] = tracked;
    assert_eq!(run(x.clone(), w.clone(), F32), expected);
    assert_ne!(run(x, w, Bf16), expected);
}
