//! Units of a CPU that multiply bf16 numbers.

use std::sync::OnceLock;

use super::layout::{Layout, Order};
use crate::{
    amx::Amx,
    instruction_set::{InstructionSet, Instructions},
};

/// Implementation of products of bf16 numbers.
#[derive(Debug, Clone, Copy)]
pub enum Unit {
    /// Plain loops on any CPU: the reference of the others.
    Reference,
    /// `vdpbf16ps` on vectors of 512 bits.
    Avx512(Avx512Bf16),
    /// `tdpbf16ps` on tiles, and vectors for packing.
    Amx(Amx, Avx512Bf16),
}

/// Proof that the CPU has the instructions of AVX-512 F, BW, VL and BF16.
#[derive(Debug, Clone, Copy)]
pub struct Avx512Bf16(());

impl Avx512Bf16 {
    /// Returns the proof, unless the instructions are missing.
    fn new() -> Option<Self> {
        InstructionSet::detected().contains(Instructions::Avx512Bf16).then_some(Self(()))
    }
}

/// Factor of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Its rows are packed.
    Left,
    /// Its columns are packed.
    Right,
}

impl Side {
    /// Returns the other factor.
    pub fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

impl Unit {
    /// Returns the fastest unit among the usable instructions; the reference if there is none.
    pub fn fastest() -> Self {
        static FASTEST: OnceLock<Unit> = OnceLock::new();
        *FASTEST.get_or_init(|| {
            let usable = InstructionSet::usable().ok();
            let unit = match usable.and_then(InstructionSet::bf16_unit) {
                Some(Instructions::AmxBf16) => Self::amx(),
                Some(Instructions::Avx512Bf16) => Self::avx512(),
                Some(_) | None => None,
            };
            unit.unwrap_or(Self::Reference)
        })
    }

    /// Returns the unit with tiles, if the CPU has it.
    pub fn amx() -> Option<Self> {
        Amx::new().zip(Avx512Bf16::new()).map(|(tiles, vectors)| Self::Amx(tiles, vectors))
    }

    /// Returns the unit with vectors, if the CPU has it.
    pub fn avx512() -> Option<Self> {
        Avx512Bf16::new().map(Self::Avx512)
    }

    /// Returns the proof of vector instructions, which pack faster.
    pub(super) fn vectors(self) -> Option<Avx512Bf16> {
        match self {
            Self::Reference => None,
            Self::Avx512(proof) | Self::Amx(_, proof) => Some(proof),
        }
    }

    /// Returns the number of lines that are multiplied together.
    pub(super) fn step(self, side: Side) -> usize {
        match (self, side) {
            (Self::Avx512(_), Side::Right) => 48,
            _ => self.layout(side).lines,
        }
    }

    /// Returns the number of inner positions whose products are added up before they are added to the
    /// output. With tiles, two panels of the left factor and one of the right then fit into the
    /// nearest cache; with vectors, whose tiles are smaller, the part of a tile fits into the next.
    pub(super) fn depth(self) -> usize {
        match self {
            Self::Amx(..) => 256,
            Self::Reference | Self::Avx512(_) => 1_024,
        }
    }

    /// Returns the order of numbers in panels.
    pub(super) fn layout(self, side: Side) -> Layout {
        match (self, side) {
            (Self::Avx512(_), _) => Layout { lines: 16, order: Order::Pairs },
            (Self::Reference | Self::Amx(..), Side::Left) => {
                Layout { lines: 32, order: Order::Lines }
            }
            (Self::Reference | Self::Amx(..), Side::Right) => {
                Layout { lines: 32, order: Order::Pairs }
            }
        }
    }
}
