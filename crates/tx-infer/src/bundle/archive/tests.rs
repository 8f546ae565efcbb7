use std::fs;

use super::*;
use crate::{
    Bundle, BundleInfo, Device, Translator,
    bundle::{CONFIG, archive},
};

fn fixture() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/bundle-v2")
}

fn translated(translator: &Translator) -> Vec<String> {
    let found = translator.translate_batch(&["the red cat", "a", "we eat the house"]).unwrap();
    found.into_iter().map(|it| it.text).collect()
}

#[test]
fn an_archive_is_the_bundle_of_its_folder() {
    let work = tempfile::tempdir().unwrap();
    let small = work.path().join("small");
    Bundle::open(fixture()).unwrap().quantize(&small).unwrap();
    for folder in [fixture(), small] {
        let (one, again) = (work.path().join("one.tar"), work.path().join("again.tar"));
        archive(&folder, &one).unwrap();
        archive(&one, &again).unwrap();
        let bytes = fs::read(&one).unwrap();
        assert!(bytes == fs::read(&again).unwrap());
        let expected = translated(&Translator::open(&folder, &Device::Cpu).unwrap());
        let opened = [
            Bundle::open(&one).unwrap(),
            Bundle::open_copied(&one).unwrap(),
            Bundle::from_archive(bytes).unwrap(),
        ];
        for bundle in opened {
            assert_eq!(translated(&Translator::new(bundle, &Device::Cpu).unwrap()), expected);
        }
        let (found, expected) =
            (BundleInfo::read(&one).unwrap(), BundleInfo::read(&folder).unwrap());
        assert_eq!(found.to_json(1_000), expected.to_json(1_000));
    }
}

/// Archives of a whole folder have names with the folder, and entries for folders.
#[test]
fn archives_of_other_programs_are_opened() {
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_dir_all("models/de-en", fixture()).unwrap();
    let bytes = builder.into_inner().unwrap();
    assert_eq!(
        Bundle::from_archive(bytes).unwrap().config,
        Bundle::open(fixture()).unwrap().config
    );
}

#[test]
fn damaged_archives_are_errors() {
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("one.tar");
    archive(&fixture(), &path).unwrap();
    let whole = fs::read(&path).unwrap();
    // The last file is padded to 512 bytes, and two empty blocks end the archive.
    for length in (0..whole.len() - 3 * 512).step_by(131).chain([511, 512, 513]) {
        assert!(Bundle::from_archive(whole[..length].to_vec()).is_err(), "{length}");
    }
    for at in (0..2_048).chain((0..whole.len()).step_by(97)) {
        let mut changed = whole.clone();
        changed[at] ^= 0x55;
        // A change of the provenance, or of padding, is not noticed.
        drop(Bundle::from_archive(changed));
    }
    for (content, expected) in
        [(&b"\x1f\x8b\x08 compressed"[..], "tar archive"), (b"", "has no `model.safetensors`")]
    {
        fs::write(&path, content).unwrap();
        for error in [Bundle::open(&path).unwrap_err(), BundleInfo::read(&path).unwrap_err()] {
            let error = error.to_string();
            assert!(error.contains("one.tar") && error.contains(expected), "{error}");
        }
    }
    let mut builder = tar::Builder::new(Vec::new());
    for folder in ["a", "b"] {
        builder
            .append_path_with_name(fixture().join(CONFIG), format!("{folder}/{CONFIG}"))
            .unwrap();
    }
    let error = Bundle::from_archive(builder.into_inner().unwrap()).unwrap_err().to_string();
    assert!(error.contains("has `config.toml` twice"), "{error}");
}
