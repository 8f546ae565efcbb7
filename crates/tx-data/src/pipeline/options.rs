//! Options of the pipeline.

use tx_text::{Normalization, SentencePair};

use crate::{
    clean::CleanConfig, context::Context, encode::TargetSide, noise::Noise, split::SplitBy,
};

/// Options of cleaning and splitting.
#[derive(Debug, Clone)]
pub struct CorpusOptions {
    /// Cleaning of the training pairs. Given validation pairs are not cleaned.
    pub clean: CleanConfig,
    /// Source of the validation pairs.
    pub validation: ValidationPairs,
    /// Handling of training pairs that are near duplicates of given validation pairs.
    pub overlaps: Overlaps,
    /// Content of the target side. Labels are cleaned, compared and encoded as such.
    pub target: TargetSide,
    /// Noisy copies of the training pairs, if any.
    pub noise: Option<Noise>,
    /// Context of the pairs, if they have any.
    pub context: Option<Context>,
}

impl CorpusOptions {
    /// Returns the normalization of the training pairs.
    pub(super) fn normalization(&self) -> Normalization {
        match self.target {
            TargetSide::Sentence => self.clean.normalization(),
            TargetSide::Label => self.clean.clone().for_labels().normalization(),
        }
    }
}

/// Source of the validation pairs.
#[derive(Debug, Clone)]
pub enum ValidationPairs {
    /// Given pairs, used unchanged.
    Given(Vec<SentencePair>),
    /// A fraction of the training pairs.
    SetAside {
        /// Fraction of the training pairs, in `0.0..1.0`.
        fraction: f64,
        /// Criterion of the split.
        by: SplitBy,
        /// Seed of the split for [`SplitBy::Seed`].
        seed: u64,
    },
    /// Training pairs in equal distances, at most this many. They stay in the training part.
    Training(usize),
}

impl ValidationPairs {
    /// Returns `true` if these are training pairs, and that at `index` of `all` is one of them.
    pub(super) fn is_training(&self, index: usize, all: usize) -> bool {
        match self {
            Self::Training(most) => {
                let (index, most, all) = (index as u128, *most as u128, all.max(1) as u128);
                index * most % all < most
            }
            Self::Given(_) | Self::SetAside { .. } => false,
        }
    }
}

/// Handling of training pairs that are near duplicates of given validation pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlaps {
    /// They are not searched for.
    Ignore,
    /// They are counted and kept.
    Count,
    /// They are counted and dropped.
    Drop,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn training_pairs_in_equal_distances_validate() {
        let selected = |most: usize, all: usize| {
            let pairs = ValidationPairs::Training(most);
            (0..all).filter(|index| pairs.is_training(*index, all)).collect::<Vec<_>>()
        };
        assert_eq!(selected(1, 9), [0]);
        assert_eq!(selected(3, 9), [0, 3, 6]);
        assert_eq!(selected(2, 5), [0, 3]);
        assert!(selected(0, 3).is_empty());
        assert_eq!(selected(3, 3), [0, 1, 2]);
        assert_eq!(selected(usize::MAX, 3), [0, 1, 2]);
        assert!(!ValidationPairs::Given(Vec::new()).is_training(0, 1));
    }
}
