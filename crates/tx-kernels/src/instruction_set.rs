//! Instructions of the CPU that the kernels use.
//!
//! [`InstructionSet::usable`] is what kernels in reduced precision may use: the instructions of the CPU, up to
//! the limit in the environment variable [`LIMIT_VARIABLE`]. The limit emulates an older CPU, for tests and
//! comparisons, as `ONEDNN_MAX_CPU_ISA` does. It also limits [`vectors`](crate::vector::vectors), those of all
//! other loops of tx. The crate `gemm` and Burn, which training uses, select their vectors themselves.

use std::{env, fmt, str::FromStr, sync::OnceLock};

/// Environment variable with the most recent instructions that kernels may use: `none`, or the
/// [name](Instructions::name) of a variant of [`Instructions`].
pub const LIMIT_VARIABLE: &str = "TX_MAX_INSTRUCTIONS";

/// Extensions of an instruction set, from older to more recent ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Instructions {
    /// Vectors of 256 bits with fused multiply-add (x86-64).
    Avx2,
    /// Dot products of four bytes in vectors of 256 bits: `vpdpbusd` (x86-64).
    AvxVnni,
    /// Vectors of 512 bits, of bytes and words too: F, BW and VL (x86-64).
    Avx512,
    /// Dot products of four bytes in vectors of 512 bits: `vpdpbusd` (x86-64).
    Avx512Vnni,
    /// Dot products of two bf16 numbers in vectors of 512 bits: `vdpbf16ps` (x86-64).
    Avx512Bf16,
    /// Products of tiles of bytes: `tdpbusd` (x86-64).
    AmxInt8,
    /// Products of tiles of bf16 numbers: `tdpbf16ps` (x86-64).
    AmxBf16,
    /// Dot products of four bytes in vectors of 128 bits: `sdot` (ARM).
    NeonDot,
    /// Vectors of 128 bits (WebAssembly).
    WasmSimd128,
    /// Dot products of four bytes in vectors of 128 bits (relaxed SIMD of WebAssembly).
    WasmRelaxedDot,
}

impl Instructions {
    /// All extensions.
    pub const ALL: [Self; 10] = [
        Self::Avx2,
        Self::AvxVnni,
        Self::Avx512,
        Self::Avx512Vnni,
        Self::Avx512Bf16,
        Self::AmxInt8,
        Self::AmxBf16,
        Self::NeonDot,
        Self::WasmSimd128,
        Self::WasmRelaxedDot,
    ];

    /// Instructions that multiply bf16 numbers, the fastest first.
    pub const BF16_UNITS: [Self; 2] = [Self::AmxBf16, Self::Avx512Bf16];

    /// Returns the name, which is also a value of [`LIMIT_VARIABLE`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Avx2 => "avx2",
            Self::AvxVnni => "avx-vnni",
            Self::Avx512 => "avx512",
            Self::Avx512Vnni => "avx512-vnni",
            Self::Avx512Bf16 => "avx512-bf16",
            Self::AmxInt8 => "amx-int8",
            Self::AmxBf16 => "amx-bf16",
            Self::NeonDot => "neon-dot",
            Self::WasmSimd128 => "wasm-simd128",
            Self::WasmRelaxedDot => "wasm-relaxed-dot",
        }
    }

    fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl fmt::Display for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Set of [`Instructions`].
///
/// ```
/// use tx_kernels::instruction_set::{InstructionLimit, InstructionSet, Instructions};
///
/// let detected = InstructionSet::detected();
/// let none: InstructionLimit = "none".parse()?;
/// assert!(!detected.limited_to(none).contains(Instructions::Avx2));
/// # Ok::<(), tx_kernels::instruction_set::InstructionLimitError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstructionSet {
    bits: u16,
}

impl InstructionSet {
    /// Returns the extensions of the CPU that the operating system allows. AMX is among them if
    /// the permission to use it has been granted, which this function requests on Linux.
    pub fn detected() -> Self {
        static DETECTED: OnceLock<InstructionSet> = OnceLock::new();
        *DETECTED.get_or_init(|| detect(true))
    }

    /// Returns the extensions that kernels may use: those of the CPU, up to the limit in
    /// [`LIMIT_VARIABLE`].
    ///
    /// # Errors
    ///
    /// Same as [`InstructionLimit::of_environment`].
    pub fn usable() -> Result<Self, InstructionLimitError> {
        static USABLE: OnceLock<Result<InstructionSet, InstructionLimitError>> = OnceLock::new();
        let usable = USABLE.get_or_init(|| {
            let Some(limit) = InstructionLimit::of_environment()? else {
                return Ok(Self::detected());
            };
            // The permission for AMX is not requested if the limit excludes it.
            let amx = limit.includes(Instructions::AmxInt8);
            Ok(if amx { Self::detected() } else { detect(false) }.limited_to(limit))
        });
        usable.clone()
    }

    /// Returns `true` if the set contains these instructions.
    pub fn contains(self, instructions: Instructions) -> bool {
        self.bits & instructions.bit() != 0
    }

    /// Returns the instructions of the set, from older to more recent ones.
    pub fn iter(self) -> impl Iterator<Item = Instructions> {
        Instructions::ALL.into_iter().filter(move |&one| self.contains(one))
    }

    /// Returns the fastest of the [`BF16_UNITS`](Instructions::BF16_UNITS) in the set.
    pub fn bf16_unit(self) -> Option<Instructions> {
        Instructions::BF16_UNITS.into_iter().find(|&unit| self.contains(unit))
    }

    /// Returns the instructions of this set that are not more recent than `limit`.
    pub fn limited_to(self, limit: InstructionLimit) -> Self {
        self.iter().filter(|&one| limit.includes(one)).collect()
    }
}

impl FromIterator<Instructions> for InstructionSet {
    fn from_iter<T: IntoIterator<Item = Instructions>>(all: T) -> Self {
        Self { bits: all.into_iter().fold(0, |bits, one| bits | one.bit()) }
    }
}

impl fmt::Display for InstructionSet {
    /// Writes the names, separated by commas, or `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Instructions::name).collect();
        f.write_str(if names.is_empty() { "none".to_owned() } else { names.join(", ") }.as_str())
    }
}

#[cfg(target_arch = "x86_64")]
fn detect(amx: bool) -> InstructionSet {
    let (avx512, amx) = (
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl"),
        amx && crate::amx::Amx::new().is_some(),
    );
    let found = |one: Instructions| match one {
        Instructions::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
        Instructions::AvxVnni => {
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("avxvnni")
        }
        Instructions::Avx512 => avx512,
        Instructions::Avx512Vnni => avx512 && is_x86_feature_detected!("avx512vnni"),
        Instructions::Avx512Bf16 => avx512 && is_x86_feature_detected!("avx512bf16"),
        Instructions::AmxInt8 => amx,
        Instructions::AmxBf16 => amx,
        Instructions::NeonDot | Instructions::WasmSimd128 | Instructions::WasmRelaxedDot => false,
    };
    Instructions::ALL.into_iter().filter(|&one| found(one)).collect()
}

#[cfg(target_arch = "aarch64")]
fn detect(_amx: bool) -> InstructionSet {
    let dot = std::arch::is_aarch64_feature_detected!("dotprod");
    dot.then_some(Instructions::NeonDot).into_iter().collect()
}

/// WebAssembly has no detection: a module with instructions that the machine lacks is not loaded.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn detect(_amx: bool) -> InstructionSet {
    let is_wasm = cfg!(target_arch = "wasm32");
    let simd = (is_wasm && cfg!(target_feature = "simd128")).then_some(Instructions::WasmSimd128);
    let dot = is_wasm && cfg!(target_feature = "relaxed-simd");
    simd.into_iter().chain(dot.then_some(Instructions::WasmRelaxedDot)).collect()
}

/// Most recent instructions that kernels may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstructionLimit(Option<Instructions>);

impl InstructionLimit {
    /// Returns the limit in [`LIMIT_VARIABLE`], if there is one. The variable is read once.
    ///
    /// # Errors
    ///
    /// If the value of the variable is not that of a limit.
    pub fn of_environment() -> Result<Option<Self>, InstructionLimitError> {
        static LIMIT: OnceLock<Result<Option<InstructionLimit>, InstructionLimitError>> =
            OnceLock::new();
        let limit = LIMIT.get_or_init(|| match env::var_os(LIMIT_VARIABLE) {
            Some(value) if !value.is_empty() => value.to_string_lossy().parse().map(Some),
            _ => Ok(None),
        });
        limit.clone()
    }

    /// Returns `true` if `instructions` are not more recent than the limit. Those of the other
    /// architectures do not matter, so the limits of x86-64 apart from `none` include them.
    pub fn includes(self, instructions: Instructions) -> bool {
        match (self.0, instructions) {
            (None, _) => false,
            (
                Some(_),
                Instructions::NeonDot | Instructions::WasmSimd128 | Instructions::WasmRelaxedDot,
            ) => true,
            (Some(limit), _) => instructions <= limit,
        }
    }
}

impl FromStr for InstructionLimit {
    type Err = InstructionLimitError;

    fn from_str(value: &str) -> Result<Self, InstructionLimitError> {
        if value == "none" {
            return Ok(Self(None));
        }
        match Instructions::ALL.into_iter().find(|one| one.name() == value) {
            Some(limit) => Ok(Self(Some(limit))),
            None => Err(InstructionLimitError { value: value.to_owned() }),
        }
    }
}

/// Value of [`LIMIT_VARIABLE`] that is not the name of a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "environment variable `{LIMIT_VARIABLE}` has the unknown value `{value}`; accepted are none, {}",
    Instructions::ALL.map(Instructions::name).join(", ")
)]
pub struct InstructionLimitError {
    /// The value.
    pub value: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_or_rejected() {
        for one in Instructions::ALL {
            assert_eq!(one.name().parse(), Ok(InstructionLimit(Some(one))));
        }
        assert_eq!("none".parse(), Ok(InstructionLimit(None)));
        for value in ["", "AVX2", "avx10"] {
            let error = value.parse::<InstructionLimit>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{value}`")) && error.contains("amx-bf16"), "{error}");
        }
    }

    /// The set of a CPU with everything, limited to each of its members.
    #[test]
    fn a_limit_excludes_more_recent_instructions() {
        let all: InstructionSet = Instructions::ALL.into_iter().collect();
        let limited = |limit: &str| all.limited_to(limit.parse().unwrap()).to_string();
        assert_eq!(limited("none"), "none");
        assert_eq!(limited("avx2"), "avx2, neon-dot, wasm-simd128, wasm-relaxed-dot");
        assert_eq!(
            limited("avx512"),
            "avx2, avx-vnni, avx512, neon-dot, wasm-simd128, wasm-relaxed-dot"
        );
        assert_eq!(limited("amx-bf16"), all.to_string());
        assert!(!limited("avx512-bf16").contains("amx"));
        assert!(limited("avx512-bf16").contains("avx512-vnni, avx512-bf16"));
    }

    #[test]
    fn a_set_contains_its_members_only() {
        let set: InstructionSet = [Instructions::AmxInt8, Instructions::Avx2].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [Instructions::Avx2, Instructions::AmxInt8]);
        assert!(!set.contains(Instructions::Avx512Vnni));
    }
}
