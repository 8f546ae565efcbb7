//! What a GPU says of itself.

use std::fmt;

use burn::tensor::Device;

/// What a GPU says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// Its name.
    pub name: String,
    /// What its kernels are compiled for: language, architecture, driver.
    pub target: String,
    /// Whether it is a card; else it is the processor, behind a graphics driver.
    pub is_card: bool,
    /// Bytes that it may be asked to hold, where it tells.
    pub memory: Option<u64>,
    /// Bytes of the largest single allocation.
    pub largest_allocation: u64,
    /// Bytes that the threads of a group share.
    pub shared_memory: u64,
    /// Threads of a group.
    pub group_threads: u32,
}

impl Adapter {
    /// Of `device`, which is opened for that; none of a processor.
    #[cfg(any(feature = "cuda", feature = "vulkan", feature = "wgpu"))]
    pub fn of(device: &Device) -> Option<Self> {
        use burn::backend::DispatchDevice;

        let device = device.clone().without_autodiff();
        let DispatchDevice::Cube(device) = device.as_dispatch() else { return None };
        let client = device.client();
        let properties = client.properties();
        let (memory, hardware) = (&properties.memory, &properties.hardware);
        Some(Self {
            name: properties.identity.name.clone(),
            target: properties.identity.fingerprint.clone(),
            is_card: properties.identity.physical.is_some(),
            memory: memory.max_memory(),
            largest_allocation: memory.max_page_size,
            shared_memory: hardware.max_shared_memory_size as u64,
            group_threads: hardware.max_units_per_cube,
        })
    }

    /// Of `device`; none, as this program was built for processors alone.
    #[cfg(not(any(feature = "cuda", feature = "vulkan", feature = "wgpu")))]
    pub fn of(_device: &Device) -> Option<Self> {
        None
    }
}

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, target, .. } = self;
        write!(f, "{name}")?;
        if !self.is_card {
            write!(f, " (no card)")?;
        }
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        if let Some(memory) = self.memory {
            write!(f, ", {:.1} GiB", gib(memory))?;
        }
        write!(f, ", allocations of up to {:.1} GiB", gib(self.largest_allocation))?;
        let kib = self.shared_memory / 1024;
        write!(f, ", groups of {} threads and {kib} KiB; {target}", self.group_threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_is_a_line() {
        let adapter = Adapter {
            name: "Card".into(),
            target: "spirv".into(),
            is_card: false,
            memory: Some(3 << 29),
            largest_allocation: 1 << 30,
            shared_memory: 48 << 10,
            group_threads: 1_024,
        };
        let line = "Card (no card), 1.5 GiB, allocations of up to 1.0 GiB, groups of 1024 threads \
                    and 48 KiB; spirv";
        assert_eq!(adapter.to_string(), line);
        assert_eq!(Adapter::of(&Device::flex()), None);
    }
}
