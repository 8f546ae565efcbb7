//! The numbers that a model computes in.

use std::{fmt, str::FromStr};

use burn::tensor::{DType, Device, FloatDType};

use crate::{Bundle, InferError};

/// The numbers that a model computes in when it translates. Scores are added up in single precision
/// in any case, and files hold single precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Precision {
    /// Single precision, 32 bits: what models are trained in.
    #[default]
    F32,
    /// Half precision, 16 bits: 11 for the digits, and nothing above 65,504.
    F16,
    /// Brain floating point, 16 bits: the range of single precision, 8 bits for the digits.
    Bf16,
}

impl Precision {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Bf16];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }

    fn numbers(self) -> FloatDType {
        match self {
            Self::F32 => FloatDType::F32,
            Self::F16 => FloatDType::F16,
            Self::Bf16 => FloatDType::BF16,
        }
    }

    /// Those that `device` computes in.
    pub fn of(device: &Device) -> impl Iterator<Item = Self> {
        Self::ALL
            .into_iter()
            .filter(|precision| device.supports_dtype(DType::from(precision.numbers())))
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|precision| precision.name() == name);
        found.ok_or_else(|| format!("there is no precision `{name}`; there are f32, f16 and bf16"))
    }
}

impl Bundle {
    /// The same model on the same `device`, computing in `precision`.
    ///
    /// # Errors
    ///
    /// When the device has no such numbers.
    pub fn in_precision(self, precision: Precision, device: &Device) -> Result<Self, InferError> {
        if !Precision::of(device).any(|known| known == precision) {
            let known = Precision::of(device).map(Precision::name).collect();
            return Err(InferError::Precision { precision: precision.name(), known });
        }
        Ok(Self { model: self.model.cast(precision.numbers()), ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_or_refused() {
        for precision in Precision::ALL {
            assert_eq!(precision.name().parse(), Ok(precision));
        }
        let problem = "f8".parse::<Precision>().unwrap_err();
        assert!(problem.contains("`f8`") && problem.contains("bf16"), "{problem}");
    }

    #[test]
    fn the_processor_has_all() {
        assert!(Precision::of(&Device::flex()).eq(Precision::ALL));
    }
}
