//! Properties of devices on which kernels depend.

use burn::tensor::Device;

#[cfg(all(feature = "cubecl", not(feature = "fusion")))]
use super::cube;

/// Returns `true` if `device` is a GPU with the kernels of this crate.
#[cfg(all(feature = "cubecl", not(feature = "fusion")))]
pub fn has_gpu_kernels(device: &Device) -> bool {
    cube::is_cube(device)
}

/// Returns `false`, because this build has no kernels for GPUs.
#[cfg(not(all(feature = "cubecl", not(feature = "fusion"))))]
pub fn has_gpu_kernels(_: &Device) -> bool {
    false
}

/// Returns `true` if `device` has matrix units that multiply factors in f16 and add up in single precision,
/// as for [`ProductPrecision::F16`](crate::ProductPrecision::F16).
#[cfg(all(feature = "cubecl", not(feature = "fusion")))]
pub fn has_f16_units(device: &Device) -> bool {
    cube::linear::has_f16_units(device)
}

/// Returns `false`, because this build has no kernels for GPUs.
#[cfg(not(all(feature = "cubecl", not(feature = "fusion"))))]
pub fn has_f16_units(_: &Device) -> bool {
    false
}
