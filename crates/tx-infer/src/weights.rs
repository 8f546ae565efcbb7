//! Weights of a model that is ready to compute, on the packed engine or on a device of Burn.

use std::sync::Arc;

#[cfg(feature = "burn")]
use burn::tensor::DType;
#[cfg(feature = "burn")]
use tx_model::kernels::flattened;

#[cfg(feature = "burn")]
use crate::{
    device::{Device, in_host_memory},
    model::BundleModel,
};
use crate::{error::InferError, model::PackedModel, pool::Placement};

/// Weights of a model. Clones share them.
#[derive(Debug, Clone)]
pub(crate) enum Weights<M: PackedModel> {
    /// Weights of the packed engine.
    Packed(Arc<M>),
    /// A module and its device.
    #[cfg(feature = "burn")]
    Module(Arc<M::Module>, burn::tensor::Device),
}

impl<M: PackedModel> Weights<M> {
    /// Uses the weights of a module, which is on `device`. [`Device::Cpu`] packs weights in single
    /// precision. Other devices, and other dtypes on the CPU, compute with tensors.
    #[cfg(feature = "burn")]
    pub(crate) fn of_module(module: &M::Module, device: &Device) -> Self {
        if *device == Device::Cpu && module.dtype() == DType::F32 {
            return Self::Packed(M::from_module(module).into());
        }
        Self::on_device(module.clone(), device.to_burn())
    }

    /// Uses a module, which is on `device`, to compute with tensors.
    #[cfg(feature = "burn")]
    pub(crate) fn on_device(module: M::Module, device: burn::tensor::Device) -> Self {
        Self::Module(flattened(module).into(), device)
    }

    /// Use of threads by the model.
    pub(crate) fn placement(&self) -> Placement {
        match self {
            Self::Packed(_) => Placement::Threads,
            #[cfg(feature = "burn")]
            Self::Module(_, device) if in_host_memory(device) => Placement::Host,
            #[cfg(feature = "burn")]
            Self::Module(..) => Placement::Gpu,
        }
    }

    /// Returns the error of a text, with this line number, whose scores are not finite.
    pub(crate) fn not_finite(&self, line: u64) -> InferError {
        match self {
            Self::Packed(_) => InferError::NotFinite { line },
            #[cfg(feature = "burn")]
            Self::Module(_, device) => crate::device::not_finite(device, line),
        }
    }
}
