//! Models of bundles, ready to compute.

use tx_engine::{PackedLanguageModel, PackedTransformer};

#[cfg(feature = "burn")]
use crate::bundle::ModuleBundle;
#[cfg(feature = "burn")]
use crate::model::BundleModel;
use crate::{
    bundle::{Bundle, Parts},
    device::Device,
    error::InferError,
    model::PackedModel,
    precision::Precision,
    search::{Engine, Member},
    task::TaskKind,
    weights::Weights,
};

impl Bundle {
    /// Builds the model, for translation or a language model, on `device` in single precision, ready
    /// for searching.
    ///
    /// # Errors
    ///
    /// Same as [`pack`](Self::pack), or on other devices `module`.
    pub fn engine(&self, device: &Device) -> Result<Engine, InferError> {
        self.engine_in(Precision::F32, device)
    }

    /// Builds the model on `device` in `precision`, ready for searching.
    ///
    /// # Errors
    ///
    /// Same as [`engine`](Self::engine); if the device does not support the precision, or the
    /// program was built without the feature that the precision needs.
    pub fn engine_in(&self, precision: Precision, device: &Device) -> Result<Engine, InferError> {
        Ok(match self.task.kind() {
            TaskKind::Generate => {
                self.parts().engine(self.weights::<PackedLanguageModel>(precision, device)?)
            }
            TaskKind::Translate | TaskKind::Classify | TaskKind::FillMask => {
                self.parts().engine(self.weights::<PackedTransformer>(precision, device)?)
            }
        })
    }

    /// Builds the model on `device` in `precision`.
    ///
    /// # Errors
    ///
    /// [`InferError::WrongTask`]; otherwise the same as [`engine_in`](Self::engine_in).
    pub(crate) fn weights<M: PackedModel>(
        &self,
        precision: Precision,
        device: &Device,
    ) -> Result<Weights<M>, InferError> {
        self.expect(M::TASK)?;
        precision.check(device)?;
        match (device, precision) {
            (Device::Cpu, Precision::F32 | Precision::Int8) => {
                Ok(Weights::Packed(self.pack::<M>(precision)?.into()))
            }
            #[cfg(feature = "burn")]
            (Device::Cpu | Device::Burn(_), _) => {
                let (dtype, burn) = (precision.float_dtype()?, device.to_burn());
                let model = self.module::<M::Module>(&burn)?.cast(dtype);
                Ok(Weights::on_device(model, burn))
            }
            #[cfg(not(feature = "burn"))]
            (Device::Cpu, Precision::F16 | Precision::Bf16) => {
                Err(InferError::PrecisionFeature { precision: precision.name() })
            }
        }
    }
}

#[cfg(feature = "burn")]
impl ModuleBundle {
    /// Prepares the model, which is on `device`, for searching.
    pub fn engine(&self, device: &Device) -> Engine {
        self.parts().engine(Weights::<PackedTransformer>::of_module(&self.model, device))
    }
}

impl Parts<'_> {
    /// Prepares a model with these parts for searching.
    pub(crate) fn engine(self, weights: impl Into<Member>) -> Engine {
        Engine::of(weights, self.config.max_len)
            .with_padding(self.padding())
            .with_start(self.config.decoder_start)
            .with_alignment_layer(self.alignment_layer())
    }
}
