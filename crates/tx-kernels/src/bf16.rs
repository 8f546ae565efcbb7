//! Matrix products of bf16 numbers, summed in single precision.
//!
//! A factor in single precision is rounded when it is copied into `Panels`, the order in which a
//! [`Unit`] of the CPU reads it; one of bf16 numbers, given by their bits, is only copied. With [`Split::HighAndLow`], each number `x`
//! becomes `x₁ + x₂` with `x₁ = bf16(x)` and `x₂ = bf16(x - x₁)`, and the product is
//! `a₁ b₁ + a₁ b₂ + a₂ b₁`; the omitted `a₂ b₂` is below the rounding of `x₂`.
//!
//! Each element of a product is summed in an order that depends only on the shape of the product
//! and on the unit. So results do not depend on the number of threads, but units differ in the last
//! bits.

mod layout;
mod pack;
mod panels;
mod product;
mod tile;
mod unit;

pub use pack::{Number, round};
pub use product::{RightFactor, multiply_here, product};
pub use unit::Unit;

#[cfg(test)]
mod tests;

/// Bf16 numbers that represent a number in single precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// One, with 8 bits of significand.
    High,
    /// The sum of two, with 16 bits of significand together.
    HighAndLow,
}

impl Split {
    /// Number of bf16 numbers.
    fn parts(self) -> usize {
        match self {
            Self::High => 1,
            Self::HighAndLow => 2,
        }
    }

    /// Parts of the left and of the right factor that are multiplied, the smallest products first.
    fn terms(self) -> &'static [[usize; 2]] {
        match self {
            Self::High => &[[0, 0]],
            Self::HighAndLow => &[[1, 0], [0, 1], [0, 0]],
        }
    }
}
