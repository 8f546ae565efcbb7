//! Dropout mask as a function of a key and the position, so that no mask is saved for backward.

use crate::random::mix;

/// Dropout mask in which a hash of a key and the position decides whether to drop each element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HashedMask {
    key: u64,
    /// Elements whose hash is below this are dropped.
    threshold: u32,
    /// Factor of the other elements, 1 / (1 - rate).
    scale: f32,
}

impl HashedMask {
    /// Creates a mask that drops each element with probability `rate`, in `0.0..1.0`.
    pub fn new(key: u64, rate: f64) -> Self {
        // The threshold is compared with the upper 31 bits of a hash, because a signed comparison
        // is a single instruction.
        let threshold = (rate * f64::from(1_u32 << 31)) as u32;
        Self { key, threshold, scale: (1.0 / (1.0 - rate)) as f32 }
    }

    /// Returns the factor of the elements that are kept: 1 / (1 - rate).
    pub fn scale(self) -> f32 {
        self.scale
    }

    /// Returns the mask of one row.
    #[inline(always)]
    pub fn row(self, row: usize) -> MaskRow {
        let bits = mix(self.key.wrapping_add((row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let Self { threshold, scale, .. } = self;
        MaskRow { low: bits as u32, high: (bits >> 32) as u32, threshold, scale }
    }
}

/// One row of [`HashedMask`].
#[derive(Debug, Clone, Copy)]
pub struct MaskRow {
    low: u32,
    high: u32,
    threshold: u32,
    scale: f32,
}

impl MaskRow {
    /// Returns the factor of the element in this column: 0 or 1 / (1 - rate).
    #[inline(always)]
    pub fn factor(self, column: usize) -> f32 {
        // A 32-bit mixer with the multipliers of Wellons' `lowbias32` (2018), keyed twice.
        let mut x = (column as u32).wrapping_add(self.low);
        x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d) ^ self.high;
        x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
        x ^= x >> 16;
        if (x >> 1) < self.threshold { 0.0 } else { self.scale }
    }

    /// Multiplies a row by its factors.
    #[inline(always)]
    pub fn apply(self, row: &mut [f32]) {
        for (column, x) in row.iter_mut().enumerate() {
            *x *= self.factor(column);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factors(key: u64, rows: usize, columns: usize) -> Vec<f32> {
        let mask = HashedMask::new(key, 0.3);
        (0..rows * columns).map(|i| mask.row(i / columns).factor(i % columns)).collect()
    }

    /// 100,000 elements at rate 0.3: the standard deviation of the count is √(n p q) = 145.
    #[test]
    fn the_rate_is_kept_and_the_mean_preserved() {
        for (rows, columns) in [(1, 100_000), (100_000, 1), (1_000, 100)] {
            let factors = factors(7, rows, columns);
            let dropped = factors.iter().filter(|factor| **factor == 0.0).count();
            assert!((29_300..30_700).contains(&dropped), "{dropped}");
            assert!(factors.iter().all(|f| *f == 0.0 || (*f - 1.0 / 0.7).abs() < 1e-6));
        }
        assert_ne!(factors(7, 10, 10), factors(8, 10, 10));
        assert!((0..10_000).all(|i| HashedMask::new(7, 0.0).row(i / 100).factor(i % 100) == 1.0));
    }

    /// Independent neighbors are dropped together in 0.3² of the pairs.
    #[test]
    fn neighbors_are_dropped_independently() {
        let factors = factors(7, 1_000, 100);
        for distance in [1, 2, 4, 100, 200, 101] {
            let both = factors.iter().zip(&factors[distance..]).filter(|(a, b)| **a + **b == 0.0);
            // √(n p² (1 - p²)) = 91, and a little more, as pairs overlap.
            assert!((8_500..9_500).contains(&both.count()), "distance {distance}");
        }
    }
}
