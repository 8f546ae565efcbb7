//! Devices and their names: `cpu`, `ndarray`, `wgpu`, `vulkan`, `cuda`, with `:N` for the Nth of a
//! kind.
//!
//! The features of this crate decide at compile time which kinds a program has. Without them there
//! is only `cpu`.

mod adapter;
#[cfg(feature = "burn")]
mod failure;

use std::str::FromStr;

pub use adapter::Adapter;
#[cfg(feature = "burn")]
pub use failure::failure;
#[cfg(feature = "burn")]
pub(crate) use failure::{not_finite, read};

/// Device that a model runs on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Device {
    /// The CPU, with the packed engine of `tx_engine`, in single precision.
    #[default]
    Cpu,
    /// A device of Burn, by the modules of `tx_model`.
    #[cfg(feature = "burn")]
    Burn(burn::tensor::Device),
}

#[cfg(feature = "burn")]
impl Device {
    /// Returns the device of Burn that holds tensors for this device: `flex` for
    /// [`Cpu`](Self::Cpu).
    pub fn to_burn(&self) -> burn::tensor::Device {
        match self {
            Self::Cpu => burn::tensor::Device::flex(),
            Self::Burn(device) => device.clone(),
        }
    }
}

/// Selects the fastest way to decode on a device of Burn: the packed engine for `flex`, tensors for
/// all others.
#[cfg(feature = "burn")]
impl From<burn::tensor::Device> for Device {
    fn from(device: burn::tensor::Device) -> Self {
        if device == burn::tensor::Device::flex() { Self::Cpu } else { Self::Burn(device) }
    }
}

#[cfg(feature = "burn")]
/// Returns `true` if tensors are in the memory of this process. Burn's CPU backends have no memory
/// pool.
pub(crate) fn in_host_memory(device: &burn::tensor::Device) -> bool {
    device.memory_pool_usage().is_none()
}

/// A kind of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An NVIDIA GPU through CUDA.
    Cuda,
    /// A GPU through Vulkan, with SPIR-V kernels.
    Vulkan,
    /// A GPU through WGPU: Vulkan, Metal or DirectX 12.
    Wgpu,
    /// The CPU.
    Cpu,
    /// The CPU, with Burn's older `ndarray` backend.
    Ndarray,
}

/// A device as named on a command line; `auto` by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceName {
    /// The kind; `None` for `auto`.
    kind: Option<Kind>,
    /// Index among the devices of its kind, from 0; `None` if the name has none.
    index: Option<usize>,
}

/// Error of resolving a device name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The name is not that of a kind of device.
    #[error(
        "unknown device `{name}`; accepted are auto, and cpu, ndarray, wgpu, vulkan and cuda with or without `:N` for the Nth"
    )]
    Unknown {
        /// The name given.
        name: String,
    },

    /// The program was built without this kind.
    #[error("this program was built without `{kind}`; available: {}", present.join(", "))]
    NotCompiled {
        /// The requested kind.
        kind: &'static str,
        /// The kinds compiled in.
        present: Vec<&'static str>,
    },

    /// No device of this kind has this index.
    #[error("there is no device `{kind}:{index}`: {count} found; available: {}", present.join(", "))]
    Absent {
        /// The requested kind.
        kind: &'static str,
        /// The requested index, from 0.
        index: usize,
        /// Devices of this kind that were found.
        count: usize,
        /// All devices of this system.
        present: Vec<String>,
    },

    /// The device computes wrong results: [`Adapter::is_miscompiled`].
    #[error(
        "`{device}` ({name}) computes wrong matrix products: its driver lacks VK_KHR_workgroup_memory_explicit_layout, and the kernels of the feature `vulkan` need it"
    )]
    Miscompiled {
        /// Kind and index.
        device: String,
        /// Name of the adapter.
        name: String,
    },
}

impl DeviceError {
    /// Returns the next step to try, if one is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotCompiled { kind, .. } => Some(format!("build it with `--features {kind}`")),
            Self::Miscompiled { .. } => {
                Some("build it with `--features wgpu` and without `vulkan`".into())
            }
            Self::Unknown { .. } | Self::Absent { .. } => None,
        }
    }
}

impl Kind {
    /// All kinds, in the order in which `auto` tries them.
    pub const ALL: [Self; 5] = [Self::Cuda, Self::Vulkan, Self::Wgpu, Self::Cpu, Self::Ndarray];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Vulkan => "vulkan",
            Self::Wgpu => "wgpu",
            Self::Cpu => "cpu",
            Self::Ndarray => "ndarray",
        }
    }

    /// Returns a short description.
    pub fn about(self) -> &'static str {
        match self {
            Self::Cuda => "NVIDIA GPU",
            Self::Vulkan => "GPU through Vulkan",
            Self::Wgpu => "GPU through WGPU (Vulkan, Metal or DirectX 12)",
            Self::Cpu => "CPU, all cores",
            Self::Ndarray => "CPU, Burn's older backend",
        }
    }

    /// Devices of this kind, each with its kind.
    fn each(self) -> impl Iterator<Item = (Self, Device)> {
        self.devices().into_iter().flatten().map(move |device| (self, device))
    }

    /// Returns the devices of this kind; `None` if the program was built without it.
    pub fn devices(self) -> Option<Vec<Device>> {
        match self {
            Self::Cpu => Some(vec![Device::Cpu]),
            #[cfg(feature = "cuda")]
            Self::Cuda => Some(enumerate(burn::tensor::DeviceType::Cuda)),
            #[cfg(not(feature = "cuda"))]
            Self::Cuda => None,
            #[cfg(feature = "vulkan")]
            Self::Vulkan => Some(enumerate(burn::tensor::DeviceType::Vulkan)),
            #[cfg(not(feature = "vulkan"))]
            Self::Vulkan => None,
            #[cfg(feature = "wgpu")]
            Self::Wgpu => Some(enumerate(burn::tensor::DeviceType::Wgpu)),
            #[cfg(not(feature = "wgpu"))]
            Self::Wgpu => None,
            #[cfg(feature = "ndarray")]
            Self::Ndarray => Some(vec![ndarray()]),
            #[cfg(not(feature = "ndarray"))]
            Self::Ndarray => None,
        }
    }
}

#[cfg(any(feature = "cuda", feature = "vulkan", feature = "wgpu"))]
fn enumerate(kind: burn::tensor::DeviceType) -> Vec<Device> {
    burn::tensor::Device::enumerate(kind).into_vec().into_iter().map(Device::Burn).collect()
}

/// Burn 0.22 deprecates this backend; tx supports it as long as Burn does.
#[cfg(feature = "ndarray")]
#[allow(deprecated)]
fn ndarray() -> Device {
    Device::Burn(burn::tensor::Device::ndarray())
}

impl DeviceName {
    /// Opens the device; `auto` is the first available one of CUDA, Vulkan, WGPU and the CPU.
    /// `auto` ignores software GPUs and those that are part of the processor.
    ///
    /// # Errors
    ///
    /// If the program was built without the kind, there are fewer devices of it, or the device is
    /// known to compute wrong results.
    pub fn open(self) -> Result<(Kind, Device), DeviceError> {
        self.open_for(0)
    }

    /// Opens the device as [`open`](Self::open) does, for one of several processes of this machine,
    /// counted from 0. A name without index stands for all devices of the kind, which the processes
    /// take in turn.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_for(self, process: usize) -> Result<(Kind, Device), DeviceError> {
        let Self { kind, index } = self;
        let Some(kind) = kind else { return automatic(process) };
        let Some(devices) = kind.devices() else {
            let present = Kind::ALL.into_iter().filter(|kind| kind.devices().is_some());
            let present = present.map(Kind::name).collect();
            return Err(DeviceError::NotCompiled { kind: kind.name(), present });
        };
        let count = devices.len();
        let index = index.unwrap_or(process % count.max(1));
        let Some(device) = devices.into_iter().nth(index) else {
            return Err(DeviceError::Absent { kind: kind.name(), index, count, present: names() });
        };
        match Adapter::of(&device) {
            Some(Adapter { is_miscompiled: true, name, .. }) => {
                Err(DeviceError::Miscompiled { device: format!("{}:{index}", kind.name()), name })
            }
            _ => Ok((kind, device)),
        }
    }
}

/// Opens the device that `auto` selects for a process.
fn automatic(process: usize) -> Result<(Kind, Device), DeviceError> {
    let find = |suits: fn(&Adapter) -> bool| {
        Kind::ALL.into_iter().find_map(|kind| {
            let suitable =
                |(_, device): &(Kind, Device)| Adapter::of(device).as_ref().is_none_or(suits);
            let mut all: Vec<_> = kind.each().filter(suitable).collect();
            let index = process % all.len().max(1);
            (!all.is_empty()).then(|| all.swap_remove(index))
        })
    };
    find(|adapter| adapter.is_gpu && !adapter.is_integrated && !adapter.is_miscompiled)
        .or_else(|| find(|adapter| !adapter.is_miscompiled))
        .ok_or_else(|| DeviceError::Absent { kind: "auto", index: 0, count: 0, present: names() })
}

/// Returns the names of all devices of this system.
fn names() -> Vec<String> {
    let of = |kind: Kind| {
        kind.each().enumerate().map(move |(index, _)| format!("{}:{index}", kind.name()))
    };
    Kind::ALL.into_iter().flat_map(of).collect()
}

impl FromStr for DeviceName {
    type Err = DeviceError;

    fn from_str(name: &str) -> Result<Self, DeviceError> {
        let unknown = || DeviceError::Unknown { name: name.into() };
        let (kind, index) = match name.split_once(':') {
            Some((kind, index)) => (kind, Some(index.parse().map_err(|_| unknown())?)),
            None => (name, None),
        };
        if name == "auto" {
            return Ok(Self { kind: None, index });
        }
        let kind = Kind::ALL.into_iter().find(|known| known.name() == kind);
        Ok(Self { kind: Some(kind.ok_or_else(unknown)?), index })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_or_rejected() {
        let name = |name: &str| name.parse::<DeviceName>();
        assert_eq!(name("auto"), Ok(DeviceName { kind: None, index: None }));
        assert_eq!(name("cuda:2"), Ok(DeviceName { kind: Some(Kind::Cuda), index: Some(2) }));
        for wrong in ["gpu", "auto:0", "auto:5", "cuda:", "cuda:x", "cuda:-1", ""] {
            assert_eq!(name(wrong), Err(DeviceError::Unknown { name: wrong.into() }));
        }
    }

    #[test]
    fn the_cpu_is_in_every_build() {
        let cpu: DeviceName = "cpu".parse().unwrap();
        assert_eq!(cpu.open(), Ok((Kind::Cpu, Device::Cpu)));
        assert!(DeviceName::default().open().is_ok());
        // It is the only one of its kind, so all processes share it; an index is kept.
        assert_eq!(cpu.open_for(3), Ok((Kind::Cpu, Device::Cpu)));
        let second: DeviceName = "cpu:1".parse().unwrap();
        assert!(matches!(second.open_for(0), Err(DeviceError::Absent { index: 1, count: 1, .. })));
    }
}
