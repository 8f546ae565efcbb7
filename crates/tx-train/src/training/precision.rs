//! Devices that train in a precision.

use burn::tensor::Device;
use tx_infer::device::Kind;
use tx_model::{ProductPrecision, kernels::has_f16_units};

/// Returns the reasons for which `devices` cannot train with products of `precision`.
pub fn precision_problems(precision: ProductPrecision, devices: &[Device]) -> Vec<String> {
    let mut problems = Vec::new();
    for device in devices.iter().map(|device| device.clone().inner()) {
        let problem = match precision {
            ProductPrecision::F32 => None,
            ProductPrecision::F16 if has_f16_units(&device) => None,
            ProductPrecision::F16 => {
                let name = kind(device).map_or("another device", Kind::name);
                Some(format!("`f16` needs a GPU with matrix units for f16, which `{name}` is not"))
            }
            ProductPrecision::Bf16 | ProductPrecision::Bf16x3 if device != Device::flex() => {
                let name = kind(device).map_or("another device", Kind::name);
                Some(format!("`{precision}` is for the device `cpu`, not for `{name}`"))
            }
            ProductPrecision::Bf16 | ProductPrecision::Bf16x3 => {
                precision.instructions().err().map(|reason| reason.to_string())
            }
        };
        let problem = problem.map(|problem| format!("[train] `precision`: {problem}"));
        problems.extend(problem.filter(|problem| !problems.contains(problem)));
    }
    problems
}

fn kind(device: Device) -> Option<Kind> {
    let device = device.into();
    let has = |kind: &Kind| kind.devices().is_some_and(|devices| devices.contains(&device));
    Kind::ALL.into_iter().find(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(deprecated)]
    fn other_devices_than_the_cpu_are_refused_by_name() {
        let devices = [Device::ndarray(), Device::ndarray().autodiff()];
        let problems = precision_problems(ProductPrecision::Bf16, &devices);
        let expected = "[train] `precision`: `bf16` is for the device `cpu`, not for `ndarray`";
        assert_eq!(problems, [expected]);
        assert!(precision_problems(ProductPrecision::F32, &devices).is_empty());
        let problems = precision_problems(ProductPrecision::F16, &[Device::flex()]);
        let expected = "`f16` needs a GPU with matrix units for f16, which `cpu` is not";
        assert_eq!(problems, [format!("[train] `precision`: {expected}")]);
    }
}
