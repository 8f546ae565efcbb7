//! Devices to train on: their argument, and `train devices`, which lists them.

use std::{num::NonZero, thread};

use burn::tensor::Device;
use clap::Args;
use tx_infer::device::{Adapter, DeviceError, DeviceName, Kind};
use tx_train::InstructionSet;

use crate::gpu;

/// Devices to train on.
#[derive(Debug, Args)]
pub struct DeviceArgs {
    /// Device to run on: auto, cpu, ndarray, wgpu, vulkan or cuda, with :N for the Nth of its kind;
    /// several devices, separated by commas, share the batches of an update (train.accumulate)
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_delimiter = ',')]
    device: Vec<DeviceName>,
}

impl DeviceArgs {
    /// Opens the devices of one of several processes of this machine, counted from 0: at least one.
    /// Returns them with a description.
    pub fn open(&self, process: usize) -> Result<(String, Vec<Device>), DeviceError> {
        let (mut about, mut devices) = (Vec::new(), Vec::new());
        for name in &self.device {
            let (kind, device) = name.open_for(process)?;
            about.push(match Adapter::of(&device) {
                Some(adapter) => format!("{} ({})", kind.name(), adapter.name),
                None => kind.name().to_owned(),
            });
            devices.push(device.to_burn());
        }
        Ok((about.join(", "), devices))
    }
}

/// Lists one device per line, and the kinds that have no device.
pub fn list() -> String {
    let auto = DeviceName::default().open().ok();
    let mut lines = String::new();
    for kind in Kind::ALL {
        let name = kind.name();
        let mut line = |name: &str, about: &str| {
            lines += &format!("{name:<10}{about}\n");
        };
        match kind.devices().as_deref() {
            None => line(name, &format!("{}: not built in (--features {name})", kind.about())),
            Some([]) => line(name, &format!("{}: none found", kind.about())),
            Some(devices) => {
                for (index, device) in devices.iter().enumerate() {
                    let about = match Adapter::of(device) {
                        Some(adapter) => adapter.to_string(),
                        None => format!("{}, {} cores{}", kind.about(), cores(), units(kind)),
                    };
                    let taken = auto
                        .as_ref()
                        .is_some_and(|(taken, found)| (*taken, found) == (kind, device));
                    let taken = if taken { " (auto)" } else { "" };
                    line(&format!("{name}:{index}"), &format!("{about}{taken}"));
                }
            }
        }
    }
    if let Some(note) = gpu::unused() {
        lines += &format!("{note}\n");
    }
    lines
}

/// Instructions that kernels in reduced precision may use.
fn units(kind: Kind) -> String {
    match kind {
        Kind::Cpu => match InstructionSet::usable() {
            Ok(usable) => format!(", {usable}"),
            Err(error) => format!(", {error}"),
        },
        Kind::Cuda | Kind::Vulkan | Kind::Wgpu | Kind::Ndarray => String::new(),
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}
