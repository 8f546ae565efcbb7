//! What dropout drops: a function of a key and the place, so that no mask is kept for the way back.

/// Which elements are dropped: row by row, column by column, by a hash of the key and the place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropped {
    key: u64,
    /// Elements whose hash is below are dropped.
    threshold: u32,
    /// What the others are multiplied by.
    kept: f32,
}

impl Dropped {
    /// Drops `share` of the elements, in `0.0..1.0`.
    pub fn new(key: u64, share: f64) -> Self {
        // Compared with the upper 31 bits of a hash, as signed numbers: that is one instruction.
        let threshold = (share * f64::from(1_u32 << 31)) as u32;
        Self { key, threshold, kept: (1.0 / (1.0 - share)) as f32 }
    }

    /// What decides a row.
    #[inline(always)]
    pub fn row(self, row: usize) -> DroppedRow {
        let bits = mix(self.key.wrapping_add((row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let Self { threshold, kept, .. } = self;
        DroppedRow { low: bits as u32, high: (bits >> 32) as u32, threshold, kept }
    }
}

/// One row of [`Dropped`].
#[derive(Debug, Clone, Copy)]
pub struct DroppedRow {
    low: u32,
    high: u32,
    threshold: u32,
    kept: f32,
}

impl DroppedRow {
    /// What the element in this column is multiplied by: 0, or 1 / (1 - share).
    #[inline(always)]
    pub fn factor(self, column: usize) -> f32 {
        // A 32-bit mixer with the multipliers of Wellons' `lowbias32` (2018), keyed twice.
        let mut x = (column as u32).wrapping_add(self.low);
        x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d) ^ self.high;
        x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
        x ^= x >> 16;
        if (x >> 1) < self.threshold { 0.0 } else { self.kept }
    }

    /// Multiplies a row by its factors.
    #[inline(always)]
    pub fn apply(self, row: &mut [f32]) {
        for (column, x) in row.iter_mut().enumerate() {
            *x *= self.factor(column);
        }
    }
}

/// Spreads a change of any bit over all: the finaliser of SplitMix64 (Steele et al. 2014).
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factors(key: u64, rows: usize, columns: usize) -> Vec<f32> {
        let dropped = Dropped::new(key, 0.3);
        (0..rows * columns).map(|i| dropped.row(i / columns).factor(i % columns)).collect()
    }

    /// 100,000 draws of share 0.3: the standard deviation of the count is √(n p q) = 145.
    #[test]
    fn the_share_is_dropped_and_the_mean_kept() {
        for (rows, columns) in [(1, 100_000), (100_000, 1), (1_000, 100)] {
            let factors = factors(7, rows, columns);
            let dropped = factors.iter().filter(|factor| **factor == 0.0).count();
            assert!((29_300..30_700).contains(&dropped), "{dropped}");
            assert!(factors.iter().all(|f| *f == 0.0 || (*f - 1.0 / 0.7).abs() < 1e-6));
        }
        assert_ne!(factors(7, 10, 10), factors(8, 10, 10));
        assert!((0..10_000).all(|i| Dropped::new(7, 0.0).row(i / 100).factor(i % 100) == 1.0));
    }

    /// Neighbours must not be dropped together more often than chance has it: 0.3² of the pairs.
    #[test]
    fn neighbours_are_dropped_independently() {
        let factors = factors(7, 1_000, 100);
        for distance in [1, 2, 4, 100, 200, 101] {
            let both = factors.iter().zip(&factors[distance..]).filter(|(a, b)| **a + **b == 0.0);
            // √(n p² (1 - p²)) = 91, and a little more, as pairs overlap.
            assert!((8_500..9_500).contains(&both.count()), "distance {distance}");
        }
    }
}
