//! Half precision: the scores of single precision, except for rounding.

use burn::tensor::{DType, FloatDType, TensorData};
use tx_data::mask;
use tx_model::{NormPlacement, Pooling};

use super::{
    Subject, difference,
    encoder_only::{classifier, masked_model},
    ids,
    language_model::{language_model, one_row},
    sources, subjects, subjects_with_attention, targets,
};
use crate::support::values;

/// Dtypes with their maximum difference: about twenty accumulated roundings by 2⁻¹¹ or 2⁻⁸, of
/// about sixty in the computation of a score.
const HALVES: [(FloatDType, f64); 2] = [(FloatDType::F16, 1e-2), (FloatDType::BF16, 8e-2)];

#[test]
fn half_precision_differs_by_rounding_only() {
    let mut worst = [0.0_f64; 2];
    for subject in subjects().filter(|subject| subject.name.starts_with("flex")) {
        let Subject { name, .. } = &subject;
        let expected = values(&subject.model().forward(subject.input()).into_data());
        for ((numbers, limit), worst) in HALVES.into_iter().zip(&mut worst) {
            let scores = subject.model().cast(numbers).forward(subject.input());
            assert_eq!(scores.dtype(), DType::from(numbers), "{name}");
            let found = values(&scores.cast(DType::F32).into_data());
            let gap = difference(&found, &expected);
            assert!(gap > 0.0 && gap.is_finite(), "{name}, {numbers:?}");
            // A norm on a sub-layer's output divides it, and its rounding error, by its standard
            // deviation, which may be arbitrarily small for eight features. No number of roundings
            // bounds that.
            if subject.config.norm != NormPlacement::SublayerOutput {
                assert!(gap <= limit, "{name}, {numbers:?}: differs by {gap:.1e}");
                *worst = worst.max(gap);
            }
        }
    }
    println!("half precision: {worst:.1?}");
}

/// The same for the models with one stack.
#[test]
fn half_precision_of_one_stack_rounds_and_no_more() {
    let mut worst = [0.0_f64; 2];
    for subject in subjects_with_attention().filter(|subject| subject.name.starts_with("flex")) {
        let Subject { name, config, device } = &subject;
        let batch = ids(&sources(), 0, device);
        let blocked = mask::padding(&batch);
        let documents = one_row(&targets()[..2], device);
        let scores = |dtype: FloatDType| {
            let model = classifier(&subject, Pooling::Mean, device).cast(dtype);
            let classes = model.forward(batch.clone(), blocked.clone()).into_data();
            let masked = masked_model(&subject, device).cast(dtype);
            assert_eq!(masked.dtype(), DType::from(dtype), "{name}");
            let masked = masked.forward(batch.clone(), blocked.clone()).into_data();
            let model = language_model(&subject, device).cast(dtype);
            [classes, masked, model.forward(documents.clone()).into_data()]
        };
        let all = |data: &TensorData| data.iter::<f32>().collect::<Vec<_>>();
        let expected = scores(FloatDType::F32);
        for ((dtype, limit), worst) in HALVES.into_iter().zip(&mut worst) {
            for (found, expected) in scores(dtype).iter().zip(&expected) {
                assert_eq!(found.dtype(), DType::from(dtype), "{name}");
                let gap = difference(&all(found), &all(expected));
                assert!(gap > 0.0 && gap.is_finite(), "{name}, {dtype:?}");
                if config.norm != NormPlacement::SublayerOutput {
                    assert!(gap <= limit, "{name}, {dtype:?}: differs by {gap:.1e}");
                    *worst = worst.max(gap);
                }
            }
        }
    }
    println!("half precision of one stack: {worst:.1?}");
}
