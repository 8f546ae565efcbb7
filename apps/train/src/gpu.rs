//! Detection of a GPU that this program cannot use, because it was built without a GPU feature.
//!
//! The detection searches for names of device nodes and driver files, and loads no driver.

use std::{fs, path::Path};

/// Device nodes of Linux and the BSDs, and driver files of Windows: folder, start of the name, GPU. The
/// first match is reported.
const SIGNS: &[(&str, &str, &str)] = &[
    ("dev", "nvidia0", "an NVIDIA GPU"),
    ("dev", "kfd", "an AMD GPU"),
    ("dev", "dxg", "a GPU"),
    ("dev/dri", "renderD", "a GPU"),
    ("Windows/System32", "nvcuda.dll", "an NVIDIA GPU"),
    ("Windows/System32", "vulkan-1.dll", "a GPU"),
];

/// Returns a note with the GPU of this system and the command that builds for it; none without a GPU,
/// or if this program was built with a GPU feature.
pub fn unused() -> Option<String> {
    if cfg!(any(feature = "cuda", feature = "vulkan", feature = "wgpu")) {
        return None;
    }
    if cfg!(target_os = "macos") {
        // Every Mac has a GPU that supports Metal.
        return Some(advice("a GPU"));
    }
    found(Path::new(if cfg!(windows) { r"C:\" } else { "/" })).map(advice)
}

fn found(root: &Path) -> Option<&'static str> {
    let is_there = |folder: &str, start: &str| {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.file_name())
            .any(|name| name.to_str().is_some_and(|name| name.starts_with(start)))
    };
    let sign = SIGNS.iter().find(|(folder, start, _)| is_there(folder, start));
    sign.map(|(_, _, what)| *what)
}

fn advice(what: &str) -> String {
    format!(
        "note: this system has {what}, but this program was built for CPUs only; to use the GPU, build it \
         with `cargo build --release --features wgpu`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_detected_by_its_device_node() {
        for (file, expected) in [
            ("dev/nvidia0", Some("an NVIDIA GPU")),
            ("dev/kfd", Some("an AMD GPU")),
            ("dev/dri/renderD128", Some("a GPU")),
            ("Windows/System32/nvcuda.dll", Some("an NVIDIA GPU")),
            ("dev/dri/card0", None),
            ("dev/nvram", None),
            ("dev/null", None),
        ] {
            let root = tempfile::tempdir().unwrap();
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
            assert_eq!(found(root.path()), expected, "{file}");
        }
        assert_eq!(found(Path::new("/no/such/folder")), None);
    }

    #[test]
    fn the_advice_is_a_command() {
        assert!(advice("a GPU").contains("has a GPU, but"));
        assert!(advice("a GPU").ends_with("`cargo build --release --features wgpu`"));
    }
}
