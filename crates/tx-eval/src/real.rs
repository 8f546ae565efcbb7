//! Numbers of the formulas: double precision for scores, and numpy's single-precision arithmetic
//! for resampled scores.
//!
//! sacreBLEU stores the statistics of resamples as 32-bit floats. An operation between a 32-bit
//! float and a Python number gives a 32-bit float (since numpy 2), one between two Python numbers
//! gives 64 bits. The same arithmetic here gives the same scores, and the same winner of close
//! comparisons.

use std::ops::{Add, Div, Mul};

/// Number of either precision.
pub(crate) trait Real:
    Copy + PartialOrd + Add<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    /// Converts a literal of the formula.
    fn literal(value: f64) -> Self;

    /// Returns the value in double precision.
    fn double(self) -> f64;

    fn is_zero(self) -> bool {
        self.double() == 0.0
    }
}

impl Real for f64 {
    fn literal(value: f64) -> Self {
        value
    }

    fn double(self) -> f64 {
        self
    }
}

/// Number in numpy's formulas over 32-bit floats.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Single {
    /// 32-bit float.
    Float(f32),
    /// Python number: 64 bits until an operation combines it with a 32-bit float.
    Literal(f64),
}

impl Single {
    fn float(self) -> f32 {
        match self {
            Self::Float(value) => value,
            Self::Literal(value) => value as f32,
        }
    }

    fn combine(self, other: Self, f32: fn(f32, f32) -> f32, f64: fn(f64, f64) -> f64) -> Self {
        match (self, other) {
            (Self::Literal(a), Self::Literal(b)) => Self::Literal(f64(a, b)),
            (a, b) => Self::Float(f32(a.float(), b.float())),
        }
    }
}

impl Add for Single {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.combine(other, f32::add, f64::add)
    }
}

impl Mul for Single {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        self.combine(other, f32::mul, f64::mul)
    }
}

impl Div for Single {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        self.combine(other, f32::div, f64::div)
    }
}

impl PartialEq for Single {
    fn eq(&self, other: &Self) -> bool {
        self.double() == other.double()
    }
}

impl PartialOrd for Single {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.double().partial_cmp(&other.double())
    }
}

impl Real for Single {
    fn literal(value: f64) -> Self {
        Self::Literal(value)
    }

    fn double(self) -> f64 {
        match self {
            Self::Float(value) => value.into(),
            Self::Literal(value) => value,
        }
    }
}

/// Sum as numpy computes it over a contiguous array: pairwise, in blocks of up to 128 with eight
/// partial sums each.
pub(crate) fn pairwise_sum<N: Copy + Add<Output = N>>(zero: N, values: &[N]) -> N {
    match values {
        [] => zero,
        short if short.len() < 8 => short.iter().fold(zero, |sum, &value| sum + value),
        block if block.len() <= 128 => {
            let mut eights = block.chunks_exact(8);
            let mut sums = [zero; 8];
            if let Some(first) = eights.next() {
                sums.copy_from_slice(first);
            }
            for eight in eights.by_ref() {
                for (sum, &value) in sums.iter_mut().zip(eight) {
                    *sum = *sum + value;
                }
            }
            let [a, b, c, d, e, f, g, h] = sums;
            let sum = ((a + b) + (c + d)) + ((e + f) + (g + h));
            eights.remainder().iter().fold(sum, |sum, &value| sum + value)
        }
        long => {
            let half = long.len() / 2;
            let (left, right) = long.split_at(half - half % 8);
            pairwise_sum(zero, left) + pairwise_sum(zero, right)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_float_makes_the_result_a_float() {
        let third = Single::Literal(1.0) / Single::Literal(3.0);
        assert_eq!(third.double(), 1.0 / 3.0);
        let third = Single::Float(1.0) / Single::Literal(3.0);
        assert_eq!(third.double(), f64::from(1.0_f32 / 3.0));
    }

    /// Integers are exact in any order of summation.
    #[test]
    fn a_sum_has_every_value_once() {
        for n in [0, 1, 7, 8, 9, 127, 128, 129, 136, 1_000, 10_001] {
            let values: Vec<f64> = (0..n).map(f64::from).collect();
            assert_eq!(pairwise_sum(0.0, &values), f64::from(n) * (f64::from(n) - 1.0) / 2.0);
        }
    }
}
