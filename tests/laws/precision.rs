//! Half precision gives the scores of single precision, but for its rounding.

use burn::tensor::{DType, FloatDType};
use tx_model::NormPlacement;

use super::{Subject, difference, subjects};
use crate::support::values;

/// Numbers, and the largest difference: some twenty roundings by 2⁻¹¹ or 2⁻⁸ that add up, of some sixty
/// on the way to a score.
const HALVES: [(FloatDType, f64); 2] = [(FloatDType::F16, 1e-2), (FloatDType::BF16, 8e-2)];

#[test]
fn half_precision_rounds_and_no_more() {
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
            // A norm on a sub-layer's output divides it by its own deviation, however small that is
            // for eight features, and its rounding with it: no count of roundings bounds that.
            if subject.config.norm != NormPlacement::SublayerOutput {
                assert!(gap <= limit, "{name}, {numbers:?}: differs by {gap:.1e}");
                *worst = worst.max(gap);
            }
        }
    }
    println!("half precision: {worst:.1?}");
}
