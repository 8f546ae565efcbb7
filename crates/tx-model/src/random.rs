//! Mixing of seeds.

/// Returns a hash of `x` in which each input bit affects every output bit: the finalizer of
/// SplitMix64 (Steele et al. 2014).
///
/// Combine several seeds by mixing one before adding the next.
#[inline]
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A changed bit changes about half of the 64 result bits.
    #[test]
    fn each_bit_affects_about_half_of_the_others() {
        for bit in 0..64 {
            let changed: u32 = (1..=100).map(|x| (mix(x) ^ mix(x ^ (1 << bit))).count_ones()).sum();
            assert!((3_000..3_400).contains(&changed), "bit {bit}: {changed} of 6,400");
        }
    }
}
