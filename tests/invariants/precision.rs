//! Half precision: the scores of single precision, except for rounding.

use burn::tensor::{DType, FloatDType};
use tx_model::NormPlacement;

use super::{Subject, difference, subjects};
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
