//! Devices by name: `cpu`, `ndarray`, `wgpu`, `vulkan`, `cuda`, with `:N` for the Nth of a kind.
//!
//! Which kinds a program has is decided when it is built, by the features of this crate.

mod adapter;

use std::str::FromStr;

use burn::tensor::Device;

pub use adapter::Adapter;

/// A kind of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An NVIDIA GPU through CUDA.
    Cuda,
    /// A GPU through Vulkan, with SPIR-V kernels.
    Vulkan,
    /// A GPU through WGPU: Vulkan, Metal or DirectX 12.
    Wgpu,
    /// The processor, with Burn's `flex` backend.
    Cpu,
    /// The processor, with Burn's older `ndarray` backend.
    Ndarray,
}

/// A device as the user names it; `auto` by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceName {
    /// The kind; none for `auto`.
    kind: Option<Kind>,
    /// Which of its kind, from 0.
    index: usize,
}

/// Why a name gives no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The name is none.
    #[error(
        "there is no device `{name}`; there are auto, and cpu, ndarray, wgpu, vulkan and cuda with or without `:N` for the Nth"
    )]
    Unknown {
        /// What was given.
        name: String,
    },

    /// The program was built without this kind.
    #[error("this program was built without `{kind}`; it has {}", present.join(", "))]
    NotCompiled {
        /// The kind asked for.
        kind: &'static str,
        /// The kinds it has.
        present: Vec<&'static str>,
    },

    /// There are fewer devices of this kind.
    #[error("there is no device `{kind}:{index}`: {count} found; there are {}", present.join(", "))]
    Absent {
        /// The kind asked for.
        kind: &'static str,
        /// The number asked for, from 0.
        index: usize,
        /// Devices of this kind that were found.
        count: usize,
        /// All devices there are.
        present: Vec<String>,
    },

    /// Its results would be wrong: [`Adapter::is_miscompiled`].
    #[error(
        "`{device}` ({name}) gives wrong products of matrices: its driver has no VK_KHR_workgroup_memory_explicit_layout, and the kernels of the feature `vulkan` are wrong without it"
    )]
    Miscompiled {
        /// Kind and number.
        device: String,
        /// The adapter's name.
        name: String,
    },
}

impl DeviceError {
    /// The next thing to try, if one is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotCompiled { kind, .. } => Some(format!("build it with `--features {kind}`")),
            Self::Miscompiled { .. } => {
                Some("build it with `--features wgpu` and without `vulkan`".into())
            }
            _ => None,
        }
    }
}

impl Kind {
    /// All kinds, the one that `auto` likes best first.
    pub const ALL: [Self; 5] = [Self::Cuda, Self::Vulkan, Self::Wgpu, Self::Cpu, Self::Ndarray];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Vulkan => "vulkan",
            Self::Wgpu => "wgpu",
            Self::Cpu => "cpu",
            Self::Ndarray => "ndarray",
        }
    }

    /// What it is, in a line.
    pub fn about(self) -> &'static str {
        match self {
            Self::Cuda => "NVIDIA GPU",
            Self::Vulkan => "GPU through Vulkan",
            Self::Wgpu => "GPU through WGPU (Vulkan, Metal or DirectX 12)",
            Self::Cpu => "processor, all cores",
            Self::Ndarray => "processor, Burn's older backend",
        }
    }

    /// The devices of this kind, each with its kind.
    fn each(self) -> impl Iterator<Item = (Self, Device)> {
        self.devices().into_iter().flatten().map(move |device| (self, device))
    }

    /// The devices of this kind; none if the program was built without it.
    pub fn devices(self) -> Option<Vec<Device>> {
        match self {
            #[cfg(feature = "cuda")]
            Self::Cuda => Some(enumerate(burn::tensor::DeviceType::Cuda)),
            #[cfg(feature = "vulkan")]
            Self::Vulkan => Some(enumerate(burn::tensor::DeviceType::Vulkan)),
            #[cfg(feature = "wgpu")]
            Self::Wgpu => Some(enumerate(burn::tensor::DeviceType::Wgpu)),
            #[cfg(feature = "cpu")]
            Self::Cpu => Some(vec![Device::flex()]),
            #[cfg(feature = "ndarray")]
            Self::Ndarray => Some(vec![ndarray()]),
            #[allow(unreachable_patterns)]
            _ => None,
        }
    }
}

#[cfg(any(feature = "cuda", feature = "vulkan", feature = "wgpu"))]
fn enumerate(kind: burn::tensor::DeviceType) -> Vec<Device> {
    Device::enumerate(kind).into_vec()
}

/// The owner of tx asked for it, and it works; Burn 0.22 announces its end.
#[cfg(feature = "ndarray")]
#[allow(deprecated)]
fn ndarray() -> Device {
    Device::ndarray()
}

impl DeviceName {
    /// Finds the device; `auto` is the first present of CUDA, Vulkan, WGPU and the processor, where
    /// a graphics driver that only computes on the processor itself is none.
    ///
    /// # Errors
    ///
    /// When the program was built without it, there are fewer of its kind, or it is known to give
    /// wrong results.
    pub fn open(self) -> Result<(Kind, Device), DeviceError> {
        let Self { kind, index } = self;
        let Some(kind) = kind else {
            let find = |suits: fn(&Adapter) -> bool| {
                let mut all = Kind::ALL.into_iter().flat_map(Kind::each);
                all.find(|(_, device)| Adapter::of(device).as_ref().is_none_or(suits))
            };
            return find(|adapter| adapter.is_card && !adapter.is_miscompiled)
                .or_else(|| find(|adapter| !adapter.is_miscompiled))
                .ok_or_else(|| DeviceError::Absent {
                    kind: "auto",
                    index,
                    count: 0,
                    present: names(),
                });
        };
        let Some(devices) = kind.devices() else {
            let present = Kind::ALL.into_iter().filter(|kind| kind.devices().is_some());
            let present = present.map(Kind::name).collect();
            return Err(DeviceError::NotCompiled { kind: kind.name(), present });
        };
        let count = devices.len();
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

/// The names of all devices there are.
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
            Some((kind, index)) => (kind, index.parse().map_err(|_| unknown())?),
            None => (name, 0),
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
    fn names_are_read_or_refused() {
        let name = |name: &str| name.parse::<DeviceName>();
        assert_eq!(name("auto"), Ok(DeviceName { kind: None, index: 0 }));
        assert_eq!(name("cuda:2"), Ok(DeviceName { kind: Some(Kind::Cuda), index: 2 }));
        for wrong in ["gpu", "auto:0", "auto:5", "cuda:", "cuda:x", "cuda:-1", ""] {
            assert_eq!(name(wrong), Err(DeviceError::Unknown { name: wrong.into() }));
        }
    }
}
