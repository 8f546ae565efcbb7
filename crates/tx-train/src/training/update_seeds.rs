//! Seeds of the random numbers of an update, such as dropout masks.

use tx_model::random::mix;

/// Seeds of the batches of an update.
///
/// The seed of a batch is a function of the seed of the run, the update, and the index of the batch
/// in the update. Therefore random numbers depend neither on the device nor on the rank that
/// computes the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateSeeds {
    /// Seed of the run.
    pub seed: u64,
    /// Number of the update, from 1.
    pub step: usize,
}

impl UpdateSeeds {
    /// Returns the seed of the batch with this index in the update. The bits are mixed, because
    /// adjacent seeds must not give similar random numbers.
    pub fn of_batch(self, index: usize) -> u64 {
        let Self { seed, step } = self;
        let step = (step as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let index = (index as u64).wrapping_mul(0xd1b5_4a32_d192_ed03);
        mix(seed.wrapping_add(step).wrapping_add(index))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn seeds_of_runs_updates_and_batches_differ() {
        let mut seeds = BTreeSet::new();
        for seed in 0..10 {
            for step in 1..100 {
                let update = UpdateSeeds { seed, step };
                seeds.extend((0..20).map(|index| update.of_batch(index)));
            }
        }
        assert_eq!(seeds.len(), 10 * 99 * 20);
    }
}
