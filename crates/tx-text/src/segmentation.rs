//! Random segmentation of words in training: BPE dropout, or samples of a unigram model.

use rand::Rng;

use crate::{bpe_dropout::BpeDropout, unigram_sampling::UnigramSampling};

/// Random segmentation of the words of training text.
#[derive(Debug, Clone)]
pub enum Segmentation {
    /// Random omission of merges.
    BpeDropout(BpeDropout),
    /// Samples of a unigram model.
    Unigram(UnigramSampling),
}

impl Segmentation {
    /// Replaces the segmentation of both sides of a pair.
    pub fn apply(&self, source: &mut Vec<u32>, target: &mut Vec<u32>, random: &mut impl Rng) {
        match self {
            Self::BpeDropout(dropout) => dropout.apply(source, target, random),
            Self::Unigram(sampling) => sampling.apply(source, target, random),
        }
    }

    /// Replaces the segmentation of a source without target, such as a text to classify.
    pub fn apply_to_source(&self, source: &mut Vec<u32>, random: &mut impl Rng) {
        match self {
            Self::BpeDropout(dropout) => dropout.apply_to_source(source, random),
            Self::Unigram(sampling) => sampling.apply_to_source(source, random),
        }
    }
}
