//! Properties of a GPU, as its driver reports them.

use std::fmt;

use super::Device;

/// Properties of a GPU, as its driver reports them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adapter {
    /// Name of the GPU.
    pub name: String,
    /// Graphics interface and driver, where it is reached through one.
    pub driver: Option<String>,
    /// Target of its kernels: `cuda`, `wgpu<spirv>`, `wgpu<wgsl>`, `wgpu<msl>`.
    pub kernels: String,
    /// Whether it is hardware; otherwise it is a software GPU, which computes on the CPU.
    pub is_gpu: bool,
    /// Whether it is part of the processor, where the driver reports it; `false` on Apple's systems.
    pub is_integrated: bool,
    /// Bytes that can be allocated on it, where the driver reports them.
    pub memory: Option<u64>,
    /// Bytes of the largest single allocation.
    pub largest_allocation: u64,
    /// Bytes of memory shared by the threads of a workgroup.
    pub shared_memory: u64,
    /// Maximum number of threads of a workgroup.
    pub group_threads: u32,
    /// Whether its matrix products are wrong: its kernels are compiled to SPIR-V, and its driver
    /// lacks `VK_KHR_workgroup_memory_explicit_layout`. CubeCL then declares the shared memory of a
    /// workgroup as a pointer to a pointer (cubecl-spirv 0.11.3, `lower_shared_implicit`).
    pub is_miscompiled: bool,
}

impl Adapter {
    /// Opens `device` and returns its adapter; `None` for a CPU.
    #[cfg(any(feature = "cuda", feature = "vulkan", feature = "wgpu"))]
    pub fn of(device: &Device) -> Option<Self> {
        use burn::backend::DispatchDevice;

        let Device::Burn(device) = device else { return None };
        let device = device.clone().without_autodiff();
        let DispatchDevice::Cube(device) = device.as_dispatch() else { return None };
        let client = device.client();
        let properties = client.properties();
        let (memory, hardware) = (&properties.memory, &properties.hardware);
        let name = properties.identity.name.clone();
        let kernels = client.name();
        // CUDA has no driver name; a graphics adapter of the same name is the same GPU.
        let graphics = if kernels.starts_with("wgpu") { Graphics::of(&name) } else { None };
        let lays_out = graphics.as_ref().is_none_or(|graphics| graphics.lays_out_shared_memory);
        Some(Self {
            is_miscompiled: kernels == "wgpu<spirv>" && !lays_out,
            is_integrated: graphics.as_ref().is_some_and(|graphics| graphics.is_integrated),
            driver: graphics.map(|graphics| graphics.driver),
            name,
            kernels: kernels.into(),
            is_gpu: properties.identity.physical.is_some(),
            memory: memory.max_memory(),
            largest_allocation: memory.max_page_size,
            shared_memory: hardware.max_shared_memory_size as u64,
            group_threads: hardware.max_units_per_cube,
        })
    }

    /// Returns `None`, because this build supports CPUs only.
    #[cfg(not(any(feature = "cuda", feature = "vulkan", feature = "wgpu")))]
    pub fn of(_device: &Device) -> Option<Self> {
        None
    }
}

/// Properties of a graphics adapter that Burn does not expose.
#[cfg(any(feature = "cuda", feature = "wgpu"))]
struct Graphics {
    /// Interface and driver.
    driver: String,
    /// Whether the adapter is part of the processor.
    is_integrated: bool,
    /// Whether a kernel may lay out its variables in the shared memory of a workgroup.
    lays_out_shared_memory: bool,
}

#[cfg(any(feature = "cuda", feature = "wgpu"))]
impl Graphics {
    /// Properties of the first adapter named `name`.
    #[cfg(feature = "wgpu")]
    fn of(name: &str) -> Option<Self> {
        use burn::backend::wgpu::wgpu::{
            Backend, Backends, DeviceType, Instance, InstanceDescriptor,
        };

        let instance = Instance::new(InstanceDescriptor::new_without_display_handle());
        let adapters = futures_lite::future::block_on(instance.enumerate_adapters(Backends::all()));
        let adapter = adapters.iter().find(|adapter| adapter.get_info().name == name)?;
        let info = adapter.get_info();
        let about = [info.backend.to_string(), info.driver, info.driver_info];
        let about: Vec<String> = about.into_iter().filter(|part| !part.is_empty()).collect();
        Some(Self {
            driver: about.join(" "),
            // Metal counts Apple's GPUs, which are fast, among them.
            is_integrated: info.device_type == DeviceType::IntegratedGpu
                && info.backend != Backend::Metal,
            lays_out_shared_memory: lays_out_shared_memory(adapter),
        })
    }

    #[cfg(not(feature = "wgpu"))]
    fn of(_name: &str) -> Option<Self> {
        None
    }
}

#[cfg(feature = "vulkan")]
fn lays_out_shared_memory(adapter: &burn::backend::wgpu::wgpu::Adapter) -> bool {
    use burn::backend::wgpu::wgpu::hal::api::Vulkan;

    const EXTENSION: &std::ffi::CStr = c"VK_KHR_workgroup_memory_explicit_layout";
    // SAFETY: the adapter is only queried; its handle is neither stored nor destroyed.
    #[allow(unsafe_code)]
    let vulkan = unsafe { adapter.as_hal::<Vulkan>() };
    vulkan
        .is_some_and(|adapter| adapter.physical_device_capabilities().supports_extension(EXTENSION))
}

/// Only SPIR-V kernels depend on it.
#[cfg(all(feature = "wgpu", not(feature = "vulkan")))]
fn lays_out_shared_memory(_adapter: &burn::backend::wgpu::wgpu::Adapter) -> bool {
    false
}

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if let Some(driver) = &self.driver {
            write!(f, ", {driver}")?;
        }
        if !self.is_gpu {
            write!(f, ", on the CPU")?;
        }
        if self.is_integrated {
            write!(f, ", integrated")?;
        }
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        if let Some(memory) = self.memory {
            write!(f, ", {:.1} GiB", gib(memory))?;
        }
        write!(f, ", allocations of up to {:.1} GiB", gib(self.largest_allocation))?;
        let kib = self.shared_memory / 1024;
        write!(f, ", groups of {} threads and {kib} KiB; {}", self.group_threads, self.kernels)?;
        if self.is_miscompiled { write!(f, ", which are wrong on this driver") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_is_a_line() {
        let adapter = Adapter {
            name: "GPU".into(),
            driver: Some("vulkan Mesa 1.0".into()),
            kernels: "wgpu<spirv>".into(),
            is_gpu: false,
            is_integrated: false,
            memory: Some(3 << 29),
            largest_allocation: 1 << 30,
            shared_memory: 48 << 10,
            group_threads: 1_024,
            is_miscompiled: true,
        };
        let line = "GPU, vulkan Mesa 1.0, on the CPU, 1.5 GiB, allocations of up to 1.0 GiB, \
                    groups of 1024 threads and 48 KiB; wgpu<spirv>, which are wrong on this driver";
        assert_eq!(adapter.to_string(), line);
        let integrated = Adapter { is_gpu: true, is_integrated: true, memory: None, ..adapter };
        let line = "GPU, vulkan Mesa 1.0, integrated, allocations of up to 1.0 GiB, ";
        assert!(integrated.to_string().starts_with(line), "{integrated}");
        assert_eq!(Adapter::of(&Device::Cpu), None);
    }
}
