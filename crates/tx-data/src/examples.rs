//! Examples that batches are planned and constructed from.

use std::fmt::Debug;

use crate::{mixture::Mixture, store::PairStore};

/// Examples by index. Clones share the data.
pub trait Examples: Debug + Clone + Send + Sync + 'static {
    /// Name of several examples, for progress reports.
    const NAME: &'static str;

    /// Number of examples.
    fn count(&self) -> usize;

    /// Numbers of source and target tokens of an example; without targets, the second number is 0.
    ///
    /// # Panics
    ///
    /// When `index` is out of bounds.
    fn lengths(&self, index: usize) -> [usize; 2];

    /// Examples from `start` to `end`, exclusive.
    ///
    /// # Panics
    ///
    /// When the range is out of bounds.
    fn slice(&self, start: usize, end: usize) -> Self;

    /// Examples of a training epoch, from 1. By default, all examples.
    fn of_epoch(&self, _seed: u64, _epoch: usize) -> Self {
        self.clone()
    }
}

impl Examples for PairStore {
    const NAME: &'static str = "pairs";

    fn count(&self) -> usize {
        self.len()
    }

    fn lengths(&self, index: usize) -> [usize; 2] {
        self.lengths(index)
    }

    fn slice(&self, start: usize, end: usize) -> Self {
        self.slice(start, end)
    }
}

impl Examples for Mixture {
    const NAME: &'static str = "pairs";

    fn count(&self) -> usize {
        self.len()
    }

    fn lengths(&self, index: usize) -> [usize; 2] {
        self.lengths(index)
    }

    fn slice(&self, start: usize, end: usize) -> Self {
        self.slice(start, end)
    }

    fn of_epoch(&self, seed: u64, epoch: usize) -> Self {
        self.of_epoch(seed, epoch)
    }
}
