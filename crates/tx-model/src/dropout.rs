//! Dropout: section 5.4 of the paper, Srivastava et al. 2014.

use burn::{
    module::{Flag, Module, Param},
    tensor::{Device, Distribution, Int, Tensor},
};

use crate::kernels::{self, Draw, Dropped};

/// Drops a share of the activations in training, and scales up the others to make up for it.
///
/// Burn's own `Dropout` draws number by number from one locked generator, which on a processor costs
/// as much as a matrix product. On the processor backends two numbers are drawn here, and a hash of
/// them and the position decides each element. Every other device draws its own random numbers,
/// because reading a number back waits for all work the device has queued. In both cases the result
/// is a function of the device's seed.
#[derive(Module, Debug)]
pub struct Dropout {
    training: Param<Flag>,
    /// In `0.0..1.0`.
    #[module(skip)]
    share: f64,
}

impl Dropout {
    /// Drops `share` of the activations, which a checked configuration keeps in `0.0..1.0`.
    pub(crate) fn new(share: f64) -> Self {
        Self { training: Param::from_bool(true), share }
    }

    /// What to drop this time from a tensor on `device`; nothing outside training.
    pub(crate) fn draw(&self, device: &Device) -> Draw {
        if !self.training.is_enabled() || !device.is_autodiff() || self.share == 0.0 {
            return Draw::KeepAll;
        }
        let device = device.clone().inner();
        if !is_processor(&device) {
            return Draw::OnDevice(self.share);
        }
        let halves = Tensor::<1, Int>::random([2], Distribution::Uniform(0.0, 2e9), &device);
        let key = halves.into_data().iter::<i64>().fold(0, |key, half| key << 32 ^ half as u64);
        Draw::Hashed(Dropped::new(key, self.share))
    }

    /// # Shapes
    ///
    /// - `x`: any, and so is the result; `x` itself outside training
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let draw = self.draw(&x.device());
        kernels::dropout(x, draw)
    }
}

/// Whether reading a number back from `device` costs nothing, because its backend computes in the
/// calling thread. This is decided by the backend alone: asking the device would wait for it.
fn is_processor(device: &Device) -> bool {
    match device.as_dispatch() {
        #[cfg(feature = "flex")]
        burn::backend::DispatchDevice::Flex(_) => true,
        #[cfg(feature = "ndarray")]
        burn::backend::DispatchDevice::NdArray(_) => true,
        #[allow(unreachable_patterns, reason = "in a build whose only backend is above")]
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_dropped_outside_training() {
        let dropout = Dropout::new(0.5);
        let plain = Tensor::<1>::ones([64], &Device::flex());
        dropout.forward(plain.clone()).into_data().assert_eq(&plain.into_data(), true);
        let training = Tensor::<1>::ones([64], &Device::flex().autodiff());
        let dropped = dropout.forward(training.clone()).into_data();
        assert!(dropped.iter::<f32>().any(|x| x == 0.0) && dropped.iter::<f32>().any(|x| x == 2.0));
        let frozen = dropout.valid().forward(training.clone()).into_data();
        frozen.assert_eq(&training.into_data(), true);
    }

    /// Only a processor backend is read from; the kernels expect the hash there.
    #[test]
    #[cfg(feature = "flex")]
    fn a_processor_drops_by_a_hash() {
        let draw = Dropout::new(0.5).draw(&Device::flex().autodiff());
        assert!(matches!(draw, Draw::Hashed(_)), "{draw:?}");
    }
}
