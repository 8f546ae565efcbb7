//! Use of threads by a model.

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
}
