//! Dropout: section 5.4 of the paper, Srivastava et al. 2014.

use std::cell::Cell;

use burn::{
    module::{Flag, Module, Param},
    tensor::{Device, Distribution, Int, Tensor},
};

use crate::{
    kernels::{self, DropoutMask, HashedMask},
    random::mix,
};

/// Sets a fraction of the activations to 0 in training, and scales the others by `1 / (1 - rate)`.
///
/// Burn's own `Dropout` samples each element from one locked generator, which on a CPU takes as
/// long as a matrix product. Here only a key is sampled, and a hash of it and the position decides
/// whether to drop each element. On the CPU backends the key comes from the device's generator. On other
/// devices it comes from a generator of the thread, because reading a number back would wait for all queued
/// work of the device. In both cases the result depends only on the seed of [`seed`].
#[derive(Module, Debug)]
pub struct Dropout {
    training: Param<Flag>,
    /// Probability of an element, in `0.0..1.0`.
    #[module(skip)]
    rate: f64,
}

impl Dropout {
    /// Creates dropout with probability `rate`, which a checked configuration keeps in `0.0..1.0`.
    pub(crate) fn new(rate: f64) -> Self {
        Self { training: Param::from_bool(true), rate }
    }

    /// Samples the mask for one tensor on `device`; it keeps all elements outside training.
    pub(crate) fn sample(&self, device: &Device) -> DropoutMask {
        if !self.training.is_enabled() || !device.is_autodiff() || self.rate == 0.0 {
            return DropoutMask::KeepAll;
        }
        let device = device.clone().inner();
        if !is_cpu(&device) {
            return DropoutMask::OnDevice { key: next_key(), rate: self.rate };
        }
        let halves = Tensor::<1, Int>::random([2], Distribution::Uniform(0.0, 2e9), &device);
        let key = halves.into_data().iter::<i64>().fold(0, |key, half| key << 32 ^ half as u64);
        DropoutMask::Hashed(HashedMask::new(key, self.rate))
    }

    /// Applies dropout in training; returns `x` otherwise.
    ///
    /// # Shapes
    ///
    /// - `x`: any; returns the same
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let mask = self.sample(&x.device());
        kernels::dropout(x, mask)
    }
}

/// Sets whole tokens to 0 in training without scaling the others: token cutoff (Shen et al. 2020,
/// section 3.1).
#[derive(Module, Debug)]
pub struct TokenCutoff {
    dropout: Dropout,
}

impl TokenCutoff {
    /// Creates cutoff with probability `rate`, which a checked configuration keeps in `0.0..1.0`.
    pub(crate) fn new(rate: f64) -> Self {
        Self { dropout: Dropout::new(rate) }
    }

    /// Applies cutoff in training; returns `x` otherwise.
    ///
    /// # Shapes
    ///
    /// - `x`: `[B, L, d_model]`; returns the same
    pub(crate) fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        match self.dropout.sample(&x.device()) {
            DropoutMask::KeepAll => x,
            mask => {
                let [batch, len, _] = x.dims();
                let ones = Tensor::<3>::ones([batch, len, 1], &x.device());
                // Dropout scales the elements that it keeps.
                let is_dropped = kernels::dropout(ones, mask).equal_elem(0.0);
                x.mask_fill(is_dropped, 0.0)
            }
        }
    }
}

/// Decides whether a layer is skipped in training: LayerDrop (Fan et al. 2020, section 3.2).
#[derive(Module, Debug)]
pub struct LayerDrop {
    training: Param<Flag>,
    /// Probability of a layer, in `0.0..1.0`.
    #[module(skip)]
    rate: f64,
}

impl LayerDrop {
    /// Creates LayerDrop with probability `rate`, which a checked configuration keeps in `0.0..1.0`.
    pub(crate) fn new(rate: f64) -> Self {
        Self { training: Param::from_bool(true), rate }
    }

    /// Returns `true` if the next layer is skipped; never outside training.
    pub(crate) fn skips(&self, device: &Device) -> bool {
        if !self.training.is_enabled() || !device.is_autodiff() || self.rate == 0.0 {
            return false;
        }
        let device = device.clone().inner();
        if !is_cpu(&device) {
            return (next_key() as f64) < self.rate * 2.0_f64.powi(64);
        }
        let uniform = Distribution::Uniform(0.0, 1.0);
        let number = Tensor::<1>::random([1], uniform, &device);
        number.into_data().iter::<f64>().next().is_some_and(|number| number < self.rate)
    }
}

/// Increment of the state of SplitMix64.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

thread_local! {
    /// State of SplitMix64.
    static KEYS: Cell<u64> = const { Cell::new(0) };
}

/// Seeds the random numbers of `device`, and the dropout masks of all devices that this thread trains on.
pub fn seed(device: &Device, seed: u64) {
    device.seed(seed);
    KEYS.set(mix(seed));
}

/// Returns the next random number of this thread.
fn next_key() -> u64 {
    let state = KEYS.get().wrapping_add(GAMMA);
    KEYS.set(state);
    mix(state)
}

/// Returns `true` if reading a number back from `device` costs nothing, because its backend
/// computes in the calling thread. Only the backend is examined, because querying the device would
/// wait for it.
fn is_cpu(device: &Device) -> bool {
    match device.as_dispatch() {
        #[cfg(feature = "flex")]
        burn::backend::DispatchDevice::Flex(_) => true,
        #[cfg(feature = "ndarray")]
        burn::backend::DispatchDevice::NdArray(_) => true,
        #[allow(unreachable_patterns, reason = "if the only backends of the build are above")]
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With rate ¼ about 1,000 of 4,000 tokens are 0; the standard deviation is √(4000 · ¼ · ¾) = 27.
    #[test]
    fn cutoff_sets_whole_tokens_to_zero() {
        let device = Device::flex().autodiff();
        device.seed(1);
        let x = Tensor::<3>::ones([8, 500, 3], &device);
        let cut = TokenCutoff::new(0.25).forward(x.clone());
        let values = cut.into_data().try_into_vec::<f32>().unwrap();
        let dropped = values.chunks(3).filter(|token| token == &[0.0; 3]).count();
        assert!(values.chunks(3).all(|token| token == [0.0; 3] || token == [1.0; 3]));
        assert!(dropped.abs_diff(1_000) < 150, "{dropped}");
        let plain = TokenCutoff::new(0.25).forward(x.clone().inner());
        plain.into_data().assert_eq(&x.into_data(), true);
    }

    /// The standard deviation of the number of skipped layers is √(1000 · ¼ · ¾) = 14.
    #[test]
    fn layers_are_skipped_in_training_only() {
        let device = Device::flex().autodiff();
        device.seed(1);
        let drop = LayerDrop::new(0.25);
        let skipped = (0..1_000).filter(|_| drop.skips(&device)).count();
        assert!(skipped.abs_diff(250) < 75, "{skipped}");
        assert!(!drop.skips(&device.clone().inner()) && !LayerDrop::new(0.0).skips(&device));
    }

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

    /// The kernels of `flex` expect a hashed mask.
    #[test]
    #[cfg(feature = "flex")]
    fn masks_are_hashed_on_a_cpu() {
        let mask = Dropout::new(0.5).sample(&Device::flex().autodiff());
        assert!(matches!(mask, DropoutMask::Hashed(_)), "{mask:?}");
    }
}
