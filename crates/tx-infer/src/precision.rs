//! Dtypes that a model computes in.

use std::{fmt, str::FromStr};

#[cfg(feature = "burn")]
use burn::tensor::{DType, FloatDType};
use tx_kernels::{
    Int8Kernel,
    instruction_set::{InstructionLimit, InstructionSet},
};

use crate::{device::Device, error::InferError};

/// Dtype of weights and activations in inference. Scores are always summed in single precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Precision {
    /// Single precision, 32 bits: the dtype of training.
    #[default]
    F32,
    /// Half precision, 16 bits: 11 bits of significand, largest value 65,504.
    F16,
    /// Brain floating point, 16 bits: the range of single precision, 8 bits of significand.
    Bf16,
    /// Signed bytes with a scale for each row of activations and each column of weights, in linear
    /// layers, the projection and the embeddings; everything else is in single precision. Only on
    /// [`Device::Cpu`]. A CPU without instructions for it computes in single precision.
    Int8,
}

impl Precision {
    /// All precisions.
    pub const ALL: [Self; 4] = [Self::F32, Self::F16, Self::Bf16, Self::Int8];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        }
    }

    /// Returns the dtype in Burn.
    ///
    /// # Errors
    ///
    /// If modules do not have the precision.
    #[cfg(feature = "burn")]
    pub(crate) fn float_dtype(self) -> Result<FloatDType, InferError> {
        match self {
            Self::F32 => Ok(FloatDType::F32),
            Self::F16 => Ok(FloatDType::F16),
            Self::Bf16 => Ok(FloatDType::BF16),
            Self::Int8 => Err(InferError::Precision {
                precision: self.name(),
                supported: vec![Self::F32.name(), Self::F16.name(), Self::Bf16.name()],
            }),
        }
    }

    /// Returns the kernel for products of bytes; `None` in single precision, and if the CPU has no
    /// instructions for them.
    ///
    /// # Errors
    ///
    /// [`InferError::Instructions`]; [`InferError::Precision`] if the packed engine does not have the
    /// precision.
    pub(crate) fn kernel(self) -> Result<Option<Int8Kernel>, InferError> {
        match self {
            Self::F32 => Ok(InstructionLimit::of_environment().map(|_| None)?),
            Self::Int8 => Ok(Int8Kernel::for_instructions(InstructionSet::usable()?)),
            Self::F16 | Self::Bf16 => Err(InferError::Precision {
                precision: self.name(),
                supported: vec![Self::F32.name(), Self::Int8.name()],
            }),
        }
    }

    /// Returns the name, for [`Int8`](Self::Int8) with the instructions that compute it: `int8
    /// (avx512-vnni)`, or `f32` on a CPU that has none.
    ///
    /// # Errors
    ///
    /// [`InferError::Instructions`] if the environment variable that limits the instructions has an
    /// unknown value.
    pub fn description(self) -> Result<String, InferError> {
        Ok(match self {
            Self::F32 | Self::F16 | Self::Bf16 => self.name().into(),
            Self::Int8 => match self.kernel()? {
                Some(kernel) => format!("{} ({})", self.name(), kernel.name()),
                None => Self::F32.name().into(),
            },
        })
    }

    /// Returns `true` if `device` supports the precision. The packed engine has single precision and
    /// `int8`; in half precision, the CPU computes with tensors, which needs the feature `burn`.
    #[cfg(feature = "burn")]
    pub fn is_supported(self, device: &Device) -> bool {
        match self.float_dtype() {
            Ok(dtype) => device.to_burn().supports_dtype(DType::from(dtype)),
            Err(_) => *device == Device::Cpu,
        }
    }

    /// Returns `true` if `device` supports the precision: without the feature `burn`, single
    /// precision and `int8`.
    #[cfg(not(feature = "burn"))]
    pub fn is_supported(self, device: &Device) -> bool {
        match device {
            Device::Cpu => matches!(self, Self::F32 | Self::Int8),
        }
    }

    /// # Errors
    ///
    /// If `device` does not support the precision.
    pub(crate) fn check(self, device: &Device) -> Result<(), InferError> {
        if self.is_supported(device) {
            return Ok(());
        }
        if cfg!(not(feature = "burn")) {
            return Err(InferError::PrecisionFeature { precision: self.name() });
        }
        let supported = Self::ALL.into_iter().filter(|precision| precision.is_supported(device));
        let supported = supported.map(Self::name).collect();
        Err(InferError::Precision { precision: self.name(), supported })
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
        found.ok_or_else(|| {
            format!("unknown precision `{name}`; accepted are f32, f16, bf16 and int8")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_or_rejected() {
        for precision in Precision::ALL {
            assert_eq!(precision.name().parse(), Ok(precision));
        }
        let problem = "f8".parse::<Precision>().unwrap_err();
        assert!(problem.contains("`f8`") && problem.contains("bf16"), "{problem}");
    }

    #[test]
    fn half_precision_on_the_cpu_needs_burn() {
        for precision in Precision::ALL {
            let result = precision.check(&Device::Cpu);
            if matches!(precision, Precision::F32 | Precision::Int8) || cfg!(feature = "burn") {
                result.unwrap();
            } else {
                let error = result.unwrap_err();
                assert!(error.to_string().contains("the feature `burn`"), "{error}");
            }
        }
    }
}
