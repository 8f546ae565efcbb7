//! Half precision gives the scores of single precision, but for its rounding.

use burn::tensor::{DType, FloatDType};

use tx_model::NormPlacement;

use super::{Subject, difference, subjects};
use crate::support::values;

/// Numbers, and the largest difference. On its way to a score a number is rounded some sixty times:
/// twice in the embedding, and in each of four layers by projections, scores, softmax and mixing, by
/// two or three residuals and norms, and by the feed-forward layer. Each errs by at most 2⁻¹¹ or 2⁻⁸
/// of the number; were half of all to add up, they would make thirty times that.
///
/// A norm on a sub-layer's output divides it by its own deviation, however small that is for eight
/// features, and what was rounded before with it: there it may be a hundred times.
const HALVES: [(FloatDType, f64); 2] =
    [(FloatDType::F16, 1.0 / 2048.0), (FloatDType::BF16, 1.0 / 256.0)];

#[test]
fn half_precision_rounds_and_no_more() {
    let mut worst = [0.0_f64; 2];
    for subject in subjects().filter(|subject| subject.name.starts_with("flex")) {
        let Subject { name, .. } = &subject;
        let expected = values(&subject.model().forward(subject.input()).into_data());
        let on_output = subject.config.norm == NormPlacement::SublayerOutput;
        for ((numbers, rounding), worst) in HALVES.into_iter().zip(&mut worst) {
            let limit = rounding * if on_output { 100.0 } else { 30.0 };
            let scores = subject.model().cast(numbers).forward(subject.input());
            assert_eq!(scores.dtype(), DType::from(numbers), "{name}");
            let found = values(&scores.cast(DType::F32).into_data());
            let gap = difference(&found, &expected);
            assert!(gap > 0.0 && gap <= limit, "{name}, {numbers:?}: differs by {gap:.1e}");
            *worst = worst.max(gap);
        }
    }
    println!("half precision: {worst:.1?}");
}
