//! Random numbers of numpy's `default_rng(seed)`, which sacreBLEU resamples with: PCG-64 (O'Neill
//! 2014, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random
//! Number Generation") seeded through numpy's `SeedSequence`.

/// PCG-64 of type XSL-RR: 128 bits of state, 64 bits of output per step.
#[derive(Clone)]
pub(crate) struct Pcg64 {
    state: u128,
    increment: u128,
    /// Unused upper half of the last output, if only its lower half was used.
    half: Option<u32>,
}

const MULTIPLIER: u128 = 0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645;

impl Pcg64 {
    pub(crate) fn new(seed: u64) -> Self {
        let [state_high, state_low, increment_high, increment_low] = seed_words(seed);
        let join = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
        let increment = join(increment_high, increment_low) << 1 | 1;
        let mut random = Self { state: 0, increment, half: None };
        random.step();
        random.state = random.state.wrapping_add(join(state_high, state_low));
        random.step();
        random
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    fn next_u64(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    fn next_u32(&mut self) -> u32 {
        if let Some(half) = self.half.take() {
            return half;
        }
        let next = self.next_u64();
        self.half = Some((next >> 32) as u32);
        next as u32
    }

    /// Samples uniformly from `0..n`, as `Generator.integers(n)`, by the method of Lemire (2019),
    /// "Fast Random Integer Generation in an Interval".
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        if n <= 1 {
            return 0;
        }
        let mut product = u64::from(self.next_u32()) * u64::from(n);
        if (product as u32) < n {
            let threshold = n.wrapping_neg() % n;
            while (product as u32) < threshold {
                product = u64::from(self.next_u32()) * u64::from(n);
            }
        }
        (product >> 32) as u32
    }

    /// Samples the next values of `Generator.integers(2, dtype=bool)`: the bits of 32-bit numbers,
    /// lowest first. Dropping the iterator discards the remaining bits of the last number.
    pub(crate) fn booleans(&mut self) -> impl FnMut() -> bool {
        let mut bits = 0;
        let mut left = 0_u32;
        move || {
            if left == 0 {
                bits = self.next_u32();
                left = 32;
            } else {
                bits >>= 1;
            }
            left -= 1;
            bits & 1 == 1
        }
    }
}

/// State of `SeedSequence(seed).generate_state(4, uint64)`.
fn seed_words(seed: u64) -> [u64; 4] {
    let (low, high) = (seed as u32, (seed >> 32) as u32);

    let mut constant = 0x43b0_d7e5_u32;
    let mut hash = |value: u32| {
        let value = value ^ constant;
        constant = constant.wrapping_mul(0x931e_8875);
        let value = value.wrapping_mul(constant);
        value ^ value >> 16
    };
    let mut pool = [low, high, 0, 0].map(&mut hash);
    for from in 0..pool.len() {
        for to in 0..pool.len() {
            if from != to {
                let hashed = hash(pool[from]);
                let mixed = 0xca01_f9dd_u32
                    .wrapping_mul(pool[to])
                    .wrapping_sub(0x4973_f715_u32.wrapping_mul(hashed));
                pool[to] = mixed ^ mixed >> 16;
            }
        }
    }

    let mut constant = 0x8b51_f9dd_u32;
    let mut words = pool.iter().cycle().map(|&value| {
        let value = value ^ constant;
        constant = constant.wrapping_mul(0x58f3_8ded);
        let value = value.wrapping_mul(constant);
        u64::from(value ^ value >> 16)
    });
    let mut word = || {
        let low = words.next().unwrap_or_default();
        low | words.next().unwrap_or_default() << 32
    };
    [word(), word(), word(), word()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values: `numpy.random.default_rng(seed).bit_generator.random_raw(3)` of numpy
    /// 2.4.6.
    #[test]
    fn outputs_are_those_of_numpy() {
        for (seed, expected) in [
            (0, [0xa30f_ebcf_d9c2_825f, 0x4510_bdf8_82d9_d721, 0x0a7d_3da9_4ecd_e8b8]),
            (12345, [0x3a32_b18d_b2ff_c19d, 0x5117_1315_c9e4_c4de, 0xcc20_2482_3444_efd9]),
            (1 << 40 | 7, [0xd46e_9e20_34de_21aa, 0x415b_adc9_9c08_7675, 0x275e_d40f_045a_cb84]),
            (u64::MAX, [0xae16_3a7a_8c47_568f, 0xd866_59f5_f338_2359, 0x01e5_2b19_5bc2_d24a]),
        ] {
            let mut random = Pcg64::new(seed);
            assert_eq!([random.next_u64(), random.next_u64(), random.next_u64()], expected);
        }
    }

    /// Expected values: `rng.choice(n, size=…)`, then `rng.integers(2, size=…, dtype=bool)`, of
    /// numpy 2.4.6.
    #[test]
    fn choices_are_those_of_numpy() {
        let mut random = Pcg64::new(12345);
        let choices = [6, 2, 7, 3, 2, 7, 6, 6, 9, 3, 8, 3];
        assert_eq!(choices.map(|_| random.below(10)), choices);

        let forty = "1011100110100111111000101000100110001100";
        let forty: Vec<bool> = forty.bytes().map(|bit| bit == b'1').collect();
        let mut next = random.booleans();
        assert_eq!((0..40).map(|_| next()).collect::<Vec<_>>(), forty);
        drop(next);
        let mut next = random.booleans();
        assert_eq!((0..5).map(|_| next()).collect::<Vec<_>>(), [true; 5]);
        drop(next);

        // A range so large that some numbers are rejected and sampled again.
        let choices = [560202556, 687406213, 2018268131, 1840423821, 2825408595, 744737143];
        assert_eq!(choices.map(|_| random.below(3_000_000_000)), choices);
        assert_eq!([random.below(1), random.below(1)], [0, 0]);
        assert_eq!([random.below(7), random.below(7), random.below(7)], [6, 6, 5]);
    }
}
