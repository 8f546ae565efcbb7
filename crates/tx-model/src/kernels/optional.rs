//! Optional tensors of kernels; Burn's macro takes no `Option`.

use burn::{
    backend::{
        Backend, Dispatch, ExtensionType,
        tensor::{BoolTensor, FloatTensor},
    },
    tensor::{Bool, Tensor},
};

/// Optional tensor.
#[derive(ExtensionType)]
pub enum OptionalTensor<B: Backend> {
    /// A tensor.
    Present(FloatTensor<B>),
    /// No tensor.
    Absent,
}

/// Optional mask.
#[derive(ExtensionType)]
pub enum OptionalMask<B: Backend> {
    /// A mask.
    Present(BoolTensor<B>),
    /// No mask.
    Absent,
}

impl OptionalTensor<Dispatch> {
    pub(super) fn from_tensor<const D: usize>(tensor: Option<Tensor<D>>) -> Self {
        tensor.map_or(Self::Absent, |tensor| Self::Present(tensor.into_dispatch()))
    }
}

impl OptionalMask<Dispatch> {
    pub(super) fn from_tensor<const D: usize>(mask: Option<Tensor<D, Bool>>) -> Self {
        mask.map_or(Self::Absent, |mask| Self::Present(mask.into_dispatch()))
    }
}

impl<B: Backend> OptionalTensor<B> {
    pub(super) fn into_option(self) -> Option<FloatTensor<B>> {
        match self {
            Self::Present(tensor) => Some(tensor),
            Self::Absent => None,
        }
    }
}

impl<B: Backend> OptionalMask<B> {
    pub(super) fn into_option(self) -> Option<BoolTensor<B>> {
        match self {
            Self::Present(mask) => Some(mask),
            Self::Absent => None,
        }
    }
}
