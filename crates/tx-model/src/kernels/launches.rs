//! Kernel launches, uploads and readbacks of a training update or a search, which take most of the time of a small
//! model on a GPU.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU8, AtomicUsize, Ordering},
};

use serde::Serialize;

/// Part of a training update or a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Phase {
    /// From token ids to the loss; in a search, from the ids of sources to their keys and values.
    Forward,
    /// Gradients of the weights.
    Backward,
    /// Gradient norm and clipping.
    Norm,
    /// Change of the weights.
    Optimizer,
    /// Steps of the decoder in a search.
    Step,
}

impl Phase {
    /// Parts of an update in their order.
    pub const UPDATE: [Self; 4] = [Self::Forward, Self::Backward, Self::Norm, Self::Optimizer];

    /// Begins this part: launches count as its own until the next part begins. Updates of several
    /// threads are not told apart, because CubeCL has one observer for the whole process.
    pub fn begin(self) {
        PHASE.store(self as u8, Ordering::Relaxed);
    }

    #[cfg(feature = "cubecl")]
    fn current() -> Self {
        let [forward, backward, norm, optimizer] = Self::UPDATE;
        let all = [forward, backward, norm, optimizer, Self::Step];
        all[usize::from(PHASE.load(Ordering::Relaxed)) % all.len()]
    }
}

static PHASE: AtomicU8 = AtomicU8::new(Phase::Forward as u8);

static UPLOADS: AtomicUsize = AtomicUsize::new(0);
static READBACKS: AtomicUsize = AtomicUsize::new(0);

/// Counts a tensor that is copied to the device. Those of the batches are not counted, which another thread copies.
pub fn count_upload() {
    UPLOADS.fetch_add(1, Ordering::Relaxed);
}

/// Counts a wait for results of the device.
pub fn count_readback() {
    READBACKS.fetch_add(1, Ordering::Relaxed);
}

/// Numbers of launches, by part and name of the kernel, of uploads and of readbacks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Launches {
    kernels: BTreeMap<Phase, BTreeMap<String, usize>>,
    #[serde(skip)]
    uploads: usize,
    #[serde(skip)]
    readbacks: usize,
}

impl Launches {
    /// Returns the number of launches of a part.
    pub fn of(&self, phase: Phase) -> usize {
        self.kernels(phase).map(|(_, count)| count).sum()
    }

    /// Returns name and launches of each kernel of a part.
    pub fn kernels(&self, phase: Phase) -> impl Iterator<Item = (&str, usize)> {
        let kernels = self.kernels.get(&phase).into_iter().flatten();
        kernels.map(|(name, &count)| (name.as_str(), count))
    }

    /// Returns the number of all launches.
    pub fn total(&self) -> usize {
        self.kernels.values().flat_map(BTreeMap::values).sum()
    }

    /// Returns the number of tensors that were copied to the device.
    pub fn uploads(&self) -> usize {
        self.uploads
    }

    /// Returns how often the caller waited for results of the device.
    pub fn readbacks(&self) -> usize {
        self.readbacks
    }
}

/// Counter of all launches of the process while it exists.
#[derive(Debug)]
pub struct LaunchCounter {
    #[cfg(feature = "cubecl")]
    observed: observation::Observed,
}

#[cfg(not(feature = "cubecl"))]
impl LaunchCounter {
    /// Starts to count. Returns `None`, because this build has no CubeCL device.
    pub fn start() -> Option<Self> {
        None
    }

    /// Returns the launches since the start or the last call.
    pub fn take(&self) -> Launches {
        Launches::default()
    }
}

#[cfg(feature = "cubecl")]
impl LaunchCounter {
    /// Starts to count. Returns `None` if this build has no CubeCL device.
    pub fn start() -> Option<Self> {
        Some(Self { observed: observation::Observed::start() })
    }

    /// Returns the launches since the start or the last call.
    pub fn take(&self) -> Launches {
        self.observed.take()
    }
}

#[cfg(feature = "cubecl")]
mod observation {
    use std::{
        collections::BTreeMap,
        mem::take,
        sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    };

    use burn_cubecl::cubecl::{
        config::{TypeNameFormatLevel, type_name_format},
        logging::{LaunchObservation, LaunchObserver},
    };

    use super::{Launches, Phase, READBACKS, UPLOADS};

    type Counts = BTreeMap<(Phase, &'static str), usize>;

    #[derive(Debug, Default)]
    struct Observer(Mutex<Counts>);

    impl LaunchObserver for Observer {
        fn launched(&self, kernel: &'static str) {
            let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *counts.entry((Phase::current(), kernel)).or_default() += 1;
        }
    }

    #[derive(Debug)]
    pub struct Observed {
        observer: Arc<Observer>,
        _observation: LaunchObservation,
    }

    impl Observed {
        pub fn start() -> Self {
            let observer = Arc::new(Observer::default());
            Self { _observation: LaunchObservation::new(observer.clone()), observer }
        }

        pub fn take(&self) -> Launches {
            let counts = take(&mut *self.observer.0.lock().unwrap_or_else(PoisonError::into_inner));
            let [uploads, readbacks] =
                [&UPLOADS, &READBACKS].map(|count| count.swap(0, Ordering::Relaxed));
            let mut launches = Launches { uploads, readbacks, ..Launches::default() };
            for ((phase, kernel), count) in counts {
                let kernel = type_name_format(kernel, TypeNameFormatLevel::Short);
                *launches.kernels.entry(phase).or_default().entry(kernel).or_default() += count;
            }
            launches
        }
    }
}
