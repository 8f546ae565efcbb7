//! Dropout: section 5.4 of the paper, Srivastava et al. 2014.

use burn::{
    module::{Flag, Module, Param},
    tensor::{Distribution, Int, Tensor, TensorData},
};

/// Drops a share of the activations in training, and scales up the others to make up for it.
///
/// Burn's own draws number by number from one locked generator, which on a processor costs as much
/// as a matrix product. Here one number is drawn, and a hash of it and the place decides each
/// element. So what is dropped is a function of the device's seed alone, as with Burn's own.
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

    /// # Shapes
    ///
    /// - `x`: any, and so is the result; `x` itself outside training
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let device = x.device();
        if !self.training.is_enabled() || !device.is_autodiff() || self.share == 0.0 {
            return x;
        }
        let device = device.inner();
        // Burn's processor backends keep no memory pool; elsewhere masks are drawn on the device.
        let mask = if device.memory_pool_usage().is_none() {
            let low = Tensor::<1, Int>::random([2], Distribution::Uniform(0.0, 2e9), &device);
            let key = low.into_data().iter::<i64>().fold(0, |key, half| key << 32 ^ half as u64);
            Tensor::from_data(
                TensorData::new(mask(key, self.share, x.shape().num_elements()), x.shape()),
                &device,
            )
        } else {
            let keep = 1.0 - self.share;
            Tensor::random(x.shape(), Distribution::Bernoulli(keep), &device) / keep
        };
        x * mask
    }
}

/// `len` factors: 0 for a `share` of them, `1 / (1 - share)` for the others.
fn mask(key: u64, share: f64, len: usize) -> Vec<f32> {
    // One hash decides four elements by 16 bits each, so the share is exact to 2^-16.
    let threshold = (share * 65_536.0).round() as u64;
    let kept = (1.0 / (1.0 - share)) as f32;
    let mut factors = Vec::with_capacity(len.next_multiple_of(4));
    for counter in 0..len.div_ceil(4) as u64 {
        let bits = hash(key.wrapping_add(counter.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        for part in 0..4 {
            let dropped = (bits >> (16 * part)) & 0xffff < threshold;
            factors.push(if dropped { 0.0 } else { kept });
        }
    }
    factors.truncate(len);
    factors
}

/// The finaliser of SplitMix64 (Steele et al. 2014).
fn hash(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    /// 100,000 draws of share 0.3: the standard deviation of the count is √(n p q) = 145.
    #[test]
    fn the_share_is_dropped_and_the_mean_kept() {
        let factors = mask(7, 0.3, 100_001);
        assert_eq!(factors.len(), 100_001);
        let dropped = factors.iter().filter(|factor| **factor == 0.0).count();
        assert!((29_300..30_700).contains(&dropped), "{dropped}");
        assert!(factors.iter().all(|factor| *factor == 0.0 || (*factor - 1.0 / 0.7).abs() < 1e-6));
        assert_ne!(factors, mask(8, 0.3, 100_001));
    }

    /// Neighbours must not be dropped together more often than chance has it: 0.3² of the pairs.
    #[test]
    fn neighbours_are_dropped_independently() {
        let factors = mask(7, 0.3, 100_000);
        for distance in [1, 2, 4, 128] {
            let both = factors.iter().zip(&factors[distance..]).filter(|(a, b)| **a + **b == 0.0);
            // √(n p² (1 - p²)) = 91, and a little more, as pairs overlap.
            assert!((8_500..9_500).contains(&both.count()), "distance {distance}");
        }
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
}
