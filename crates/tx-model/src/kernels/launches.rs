//! Kernel launches of a training update, which take most of the time of a small model on a GPU.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU8, Ordering},
};

use serde::Serialize;

/// Part of a training update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Phase {
    /// From token ids to the loss.
    Forward,
    /// Gradients of the weights.
    Backward,
    /// Gradient norm and clipping.
    Norm,
    /// Change of the weights.
    Optimizer,
}

impl Phase {
    /// All parts in their order.
    pub const ALL: [Self; 4] = [Self::Forward, Self::Backward, Self::Norm, Self::Optimizer];

    /// Begins this part: launches count as its own until the next part begins. Updates of several
    /// threads are not told apart, because CubeCL has one observer for the whole process.
    pub fn begin(self) {
        PHASE.store(self as u8, Ordering::Relaxed);
    }

    #[cfg(feature = "cubecl")]
    fn current() -> Self {
        Self::ALL[usize::from(PHASE.load(Ordering::Relaxed)) % Self::ALL.len()]
    }
}

static PHASE: AtomicU8 = AtomicU8::new(Phase::Forward as u8);

/// Numbers of launches, by part of the update and name of the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Launches(BTreeMap<Phase, BTreeMap<String, usize>>);

impl Launches {
    /// Returns the number of launches of a part.
    pub fn of(&self, phase: Phase) -> usize {
        self.kernels(phase).map(|(_, count)| count).sum()
    }

    /// Returns name and launches of each kernel of a part.
    pub fn kernels(&self, phase: Phase) -> impl Iterator<Item = (&str, usize)> {
        let kernels = self.0.get(&phase).into_iter().flatten();
        kernels.map(|(name, &count)| (name.as_str(), count))
    }

    /// Returns the number of all launches.
    pub fn total(&self) -> usize {
        Phase::ALL.map(|phase| self.of(phase)).iter().sum()
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
        sync::{Arc, Mutex, PoisonError},
    };

    use burn_cubecl::cubecl::{
        config::{TypeNameFormatLevel, type_name_format},
        logging::{LaunchObservation, LaunchObserver},
    };

    use super::{Launches, Phase};

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
            let mut launches = Launches::default();
            for ((phase, kernel), count) in counts {
                let kernel = type_name_format(kernel, TypeNameFormatLevel::Short);
                *launches.0.entry(phase).or_default().entry(kernel).or_default() += count;
            }
            launches
        }
    }
}
