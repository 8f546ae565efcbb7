//! Symmetric divergence of the halves of a batch.

use super::*;

#[test]
fn divergence_of_two_halves() {
    for [batch, len, vocabulary] in [[1, 1, 1], [3, 5, 7], [2, 17, 65], [9, 7, 2_049]] {
        let rows = batch * len;
        // The target 0 does not count.
        let targets: Vec<i32> = (0..rows).map(|i| (mix(i as u64) % 3) as i32).collect();
        let targets = TensorData::new(targets, [rows]);
        for is_weighted in [false, true] {
            check("divergence", &[2 * rows * vocabulary], |inputs| {
                let logits = shaped(&inputs[0], [2 * rows, vocabulary]) * 8.0;
                let targets = Tensor::from_data(targets.clone(), &logits.device());
                let weights = is_weighted.then(|| weights_of_rows(rows, &logits));
                divergence(logits, targets, weights, 0)
            });
        }
    }
}

/// Softmax (1/4, 3/4) and (1/2, 1/2): `Σ (p - q)(ln p - ln q)` = 1/4 (ln 2 + ln 3/2) = 1/4 ln 3. The
/// second token is padding.
#[test]
fn divergence_of_two_probabilities() {
    let device = Device::flex();
    let ln3 = 3.0_f32.ln();
    let logits = [[0.0, ln3], [5.0, 1.0], [2.0, 2.0], [0.0, 9.0]];
    let targets = Tensor::<1, Int>::from_data([1, 0], &device);
    let logits = Tensor::<2>::from_data(logits, &device);
    for (weight, expected) in [(None, ln3 / 4.0), (Some(3.0), 0.75 * ln3)] {
        let weights = weight.map(|weight| Tensor::<1>::from_data([weight, 9.0_f32], &device));
        let found = divergence(logits.clone(), targets.clone(), weights.clone(), 0);
        let composed = composed::divergence(logits.clone(), targets.clone(), weights, 0);
        for found in [found, composed] {
            assert!((found.into_scalar::<f32>() - expected).abs() < 1e-6);
        }
    }
}

/// Equal halves diverge by exactly 0, and have no gradient.
#[test]
fn equal_halves_do_not_diverge() {
    let device = Device::flex().autodiff();
    let half = shaped(&numbers(1, 30, Implementation::Kernel), [3, 10]) * 8.0;
    let half = Tensor::<2>::from_data(half.into_data(), &device);
    let logits = Tensor::cat(vec![half.clone(), half], 0).require_grad();
    let sum = divergence(logits.clone(), Tensor::from_data([1, 1, 1], &device), None, 0);
    let gradients = sum.backward();
    assert_eq!(sum.into_scalar::<f32>(), 0.0);
    let gradient = logits.grad(&gradients).unwrap();
    assert_eq!(gradient.into_data().iter::<f32>().collect::<Vec<_>>(), [0.0; 60]);
}
