//! `train devices`: what this program can train on.

use std::{num::NonZero, thread};

use tx_infer::device::{Adapter, DeviceName, Kind};

use crate::gpu;

/// A line for each device, and for each kind that there is none of.
pub fn devices() -> String {
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
                        None => format!("{}, {} cores", kind.about(), cores()),
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

fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}
