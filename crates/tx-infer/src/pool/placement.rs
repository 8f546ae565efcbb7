//! Use of threads by a model.

use super::Pool;

/// Use of threads by a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Each thread computes a batch at a time: the packed engine.
    Threads,
    /// A single batch uses all threads: tensors in host memory.
    Host,
    /// A single thread computes on a device with its own memory.
    Gpu,
}

impl Placement {
    /// Returns `true` if threads compute batches at the same time.
    pub(crate) fn is_parallel(self) -> bool {
        match self {
            Self::Threads => true,
            Self::Host | Self::Gpu => false,
        }
    }

    /// Number of threads for a model, of `threads` threads.
    pub(crate) fn threads(self, threads: usize) -> usize {
        match self {
            Self::Threads | Self::Host => threads,
            Self::Gpu => 1,
        }
    }

    /// Default maximum number of tokens of a batch. A GPU is faster with large batches; a batch of the packed
    /// engine should fit into the caches of its thread.
    pub(crate) fn batch_tokens(self) -> usize {
        match self {
            Self::Threads => Pool::BATCH_TOKENS,
            Self::Host | Self::Gpu => 4 * Pool::BATCH_TOKENS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::Letters, *};

    #[test]
    fn the_default_size_of_a_batch_is_that_of_the_placement() {
        for (placement, default) in
            [(Placement::Threads, 1_024), (Placement::Host, 4_096), (Placement::Gpu, 4_096)]
        {
            let tokens = |tokens: Option<usize>| {
                let letters = Letters { placement, ..Letters::of_lengths(&[1]) };
                letters.call(tokens).load().limits.tokens
            };
            assert_eq!((tokens(None), tokens(Some(7))), (default, 7), "{placement:?}");
        }
    }
}
