//! Precision of matrix products in training.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use tx_kernels::instruction_set::{
    InstructionLimit, InstructionLimitError, InstructionSet, Instructions,
};

/// Precision in which the factors of a matrix product are multiplied in training. Products are
/// always summed in single precision, and weights, gradients, normalization, softmax and loss are
/// always computed in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProductPrecision {
    /// Single precision.
    #[default]
    F32,
    /// Factors are rounded to bf16, with 8 bits of significand.
    Bf16,
    /// Each factor is the sum of two bf16 numbers, with 16 bits of significand together; a product
    /// is the sum of three.
    Bf16x3,
    /// Factors are rounded to f16, with 11 bits of significand, by the matrix units of a GPU.
    F16,
}

impl ProductPrecision {
    /// All precisions.
    pub const ALL: [Self; 4] = [Self::F32, Self::Bf16, Self::Bf16x3, Self::F16];

    /// Returns the name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Bf16x3 => "bf16x3",
            Self::F16 => "f16",
        }
    }

    /// Returns the instructions of this CPU that compute the products; `None` in single precision,
    /// for which every CPU has some, and in f16, which is for GPUs.
    ///
    /// # Errors
    ///
    /// If the CPU has none, or they are excluded by
    /// [`LIMIT_VARIABLE`](tx_kernels::instruction_set::LIMIT_VARIABLE), or its value is unknown.
    pub fn instructions(self) -> Result<Option<Instructions>, MissingInstructions> {
        match self {
            Self::F32 | Self::F16 => Ok(InstructionLimit::of_environment().map(|_| None)?),
            Self::Bf16 | Self::Bf16x3 => self.fastest(InstructionSet::usable()?).map(Some),
        }
    }

    fn fastest(self, usable: InstructionSet) -> Result<Instructions, MissingInstructions> {
        usable.bf16_unit().ok_or(MissingInstructions::Unavailable { precision: self, usable })
    }
}

impl fmt::Display for ProductPrecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ProductPrecision {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|precision| precision.name() == name);
        found.ok_or_else(|| {
            format!("unknown precision `{name}`; accepted are f32, bf16, bf16x3 and f16")
        })
    }
}

/// Reason for which a CPU does not compute products in a precision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissingInstructions {
    /// The CPU has none of the instructions, or may not use them.
    #[error(
        "`{precision}` needs a CPU with {} or {}; usable here: {usable}",
        Instructions::BF16_UNITS[0],
        Instructions::BF16_UNITS[1]
    )]
    Unavailable {
        /// Precision.
        precision: ProductPrecision,
        /// Instructions that kernels may use.
        usable: InstructionSet,
    },
    /// The value of [`LIMIT_VARIABLE`](tx_kernels::instruction_set::LIMIT_VARIABLE) is unknown.
    #[error(transparent)]
    Limit(#[from] InstructionLimitError),
}

#[cfg(test)]
mod tests {
    use Instructions::{AmxBf16, Avx512Bf16, Avx512Vnni};

    use super::*;

    #[test]
    fn names_are_parsed_or_rejected() {
        for precision in ProductPrecision::ALL {
            assert_eq!(precision.name().parse(), Ok(precision));
            let json = serde_json::to_string(&precision).unwrap();
            assert_eq!(json, format!("{:?}", precision.name()));
        }
        let problem = "f64".parse::<ProductPrecision>().unwrap_err();
        assert!(problem.contains("`f64`") && problem.contains("bf16x3"), "{problem}");
    }

    #[test]
    fn a_cpu_without_the_instructions_is_refused_with_the_reason() {
        let set = |all: &[Instructions]| all.iter().copied().collect::<InstructionSet>();
        for precision in [ProductPrecision::Bf16, ProductPrecision::Bf16x3] {
            let reason = precision.fastest(set(&[Avx512Vnni])).unwrap_err().to_string();
            let expected = "needs a CPU with amx-bf16 or avx512-bf16; usable here: avx512-vnni";
            assert_eq!(reason, format!("`{precision}` {expected}"));
            assert_eq!(precision.fastest(set(&[Avx512Vnni, Avx512Bf16])), Ok(Avx512Bf16));
            assert_eq!(precision.fastest(set(&[Avx512Bf16, AmxBf16])), Ok(AmxBf16));
        }
        assert_eq!(ProductPrecision::F32.instructions(), Ok(None));
    }
}
