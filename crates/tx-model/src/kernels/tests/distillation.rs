//! Distillation from the mean prediction of teachers.

use super::*;

/// Labels, of which those with id 0 do not count.
fn targets(rows: usize, vocabulary: usize, weights: Option<Tensor<1>>, device: &Device) -> Targets {
    let ids = (0..rows).map(|i| (mix(i as u64) % vocabulary as u64) as i32).collect();
    Targets { ids: Tensor::from_data(TensorData::new(ids, [rows]), device), weights }
}

#[test]
fn distillation_from_one_and_from_several_teachers() {
    for ([rows, vocabulary], count) in
        [([1, 2], 1), ([15, 7], 3), ([34, 65], 2), ([63, 2_049], 1), ([9, 2_049], 3)]
    {
        let options = smoothed(0.1);
        for (temperature, weight) in [(1.0, 0.7), (1.0, 1.0), (2.5, 0.3)] {
            for is_weighted in [false, true] {
                let settings = Distillation { weight, temperature };
                check("distillation", &[rows * vocabulary], |inputs| {
                    let logits = shaped(&inputs[0], [rows, vocabulary]) * 8.0;
                    let implementation = match logits.dtype() {
                        DType::F32 => Implementation::Kernel,
                        _ => Implementation::Reference,
                    };
                    let teachers = numbers(7, count * rows * vocabulary, implementation) * 8.0;
                    let teachers = shaped(&teachers, [count, rows, vocabulary]);
                    let weights = is_weighted.then(|| weights_of_rows(rows, &logits));
                    let targets = targets(rows, vocabulary, weights, &logits.device());
                    distillation(logits, teachers, targets, options, settings).loss
                });
            }
        }
    }
}

/// Negative log-likelihood and correct tokens are those of cross-entropy, also without autodiff.
#[test]
fn distillation_counts_tokens_like_cross_entropy() {
    let [rows, vocabulary] = [21, 33];
    let options = smoothed(0.1);
    let logits = shaped(&numbers(1, rows * vocabulary, Implementation::Kernel), [rows, vocabulary]);
    let teachers = shaped(&flat(logits.clone().flip([0])), [1, rows, vocabulary]);
    let plain = (logits.clone().inner(), teachers.clone().inner());
    for (logits, teachers) in [(logits, teachers), plain] {
        let targets = targets(rows, vocabulary, None, &logits.device());
        let expected = cross_entropy(logits.clone(), targets.ids.clone(), None, options);
        for temperature in [1.0, 2.0] {
            let settings = Distillation { weight: 0.5, temperature };
            let (logits, teachers) = (logits.clone(), teachers.clone());
            let found = distillation(logits, teachers, targets.clone(), options, settings);
            assert_eq!(found.nll.into_data(), expected.nll.clone().into_data());
            assert_eq!(found.correct.into_data(), expected.correct.clone().into_data());
        }
    }
}

/// A teacher with the logits of the student and weight 1 leaves the entropy of the prediction, whose
/// gradient is 0. Of the softmax (1/4, 3/4), it is ln 4 - 3/4 ln 3.
#[test]
fn a_teacher_equal_to_the_student_has_no_gradient() {
    let device = Device::flex().autodiff();
    let logits = Tensor::<2>::from_data([[0.0, 3.0_f32.ln()]], &device).require_grad();
    let teachers = logits.clone().detach().unsqueeze_dim(0);
    let targets = Targets { ids: Tensor::from_data([1], &device), weights: None };
    let settings = Distillation { weight: 1.0, temperature: 1.0 };
    let loss = distillation(logits.clone(), teachers, targets, smoothed(0.0), settings).loss;
    let gradients = loss.backward();
    let expected = 4.0_f32.ln() - 0.75 * 3.0_f32.ln();
    assert!((loss.into_scalar::<f32>() - expected).abs() < 1e-6);
    for gradient in logits.grad(&gradients).unwrap().into_data().iter::<f32>() {
        assert!(gradient.abs() < 1e-6, "{gradient}");
    }
}
