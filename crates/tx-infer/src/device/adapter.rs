//! What a GPU says of itself.

use std::fmt;

use burn::tensor::Device;

/// What a GPU says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// Its name.
    pub name: String,
    /// Graphics interface and driver, where it is reached through one.
    pub driver: Option<String>,
    /// What its kernels are compiled to: `cuda`, `wgpu<spirv>`, `wgpu<wgsl>`, `wgpu<msl>`.
    pub kernels: String,
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
        let name = properties.identity.name.clone();
        let kernels = client.name();
        Some(Self {
            // CUDA has none; a graphics adapter of the same name is the same card by another way.
            driver: if kernels.starts_with("wgpu") { driver(&name) } else { None },
            name,
            kernels: kernels.into(),
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

/// Interface and driver of the first graphics adapter of that name: Burn keeps them to itself.
#[cfg(feature = "wgpu")]
fn driver(name: &str) -> Option<String> {
    use burn::backend::wgpu::wgpu::{Backends, Instance, InstanceDescriptor};

    let instance = Instance::new(InstanceDescriptor::new_without_display_handle());
    let adapters = futures_lite::future::block_on(instance.enumerate_adapters(Backends::all()));
    let info = adapters.iter().map(|adapter| adapter.get_info()).find(|info| info.name == name)?;
    let about = [info.backend.to_string(), info.driver, info.driver_info];
    let about: Vec<String> = about.into_iter().filter(|part| !part.is_empty()).collect();
    Some(about.join(" "))
}

#[cfg(all(feature = "cuda", not(feature = "wgpu")))]
fn driver(_name: &str) -> Option<String> {
    None
}

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if let Some(driver) = &self.driver {
            write!(f, ", {driver}")?;
        }
        if !self.is_card {
            write!(f, ", on the processor")?;
        }
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        if let Some(memory) = self.memory {
            write!(f, ", {:.1} GiB", gib(memory))?;
        }
        write!(f, ", allocations of up to {:.1} GiB", gib(self.largest_allocation))?;
        let kib = self.shared_memory / 1024;
        write!(f, ", groups of {} threads and {kib} KiB; {}", self.group_threads, self.kernels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_is_a_line() {
        let adapter = Adapter {
            name: "Card".into(),
            driver: Some("vulkan Mesa 1.0".into()),
            kernels: "wgpu<spirv>".into(),
            is_card: false,
            memory: Some(3 << 29),
            largest_allocation: 1 << 30,
            shared_memory: 48 << 10,
            group_threads: 1_024,
        };
        let line = "Card, vulkan Mesa 1.0, on the processor, 1.5 GiB, allocations of up to 1.0 GiB, \
                    groups of 1024 threads and 48 KiB; wgpu<spirv>";
        assert_eq!(adapter.to_string(), line);
        assert_eq!(Adapter::of(&Device::flex()), None);
    }
}
