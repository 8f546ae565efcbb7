//! Model of Marian: it is rejected, or imported. An input that begins with `yaml` is the options of a
//! model whose arrays are good, and one that begins with `npy` is the first array of a model that is
//! good otherwise, so that checksums of the archive hold; any other input is the whole archive.

#![no_main]

use std::{
    fs,
    io::{Cursor, Read, Write},
    sync::LazyLock,
};

use libfuzzer_sys::fuzz_target;
use tx_convert::{ImportFormat, import::import};
use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

const MODEL: &[u8] =
    include_bytes!("../../crates/tx-convert/tests/fixtures/marian/words/model.npz");
const OTHERS: [(&str, &[u8]); 3] = [
    (
        "decoder.yml",
        include_bytes!("../../crates/tx-convert/tests/fixtures/marian/words/decoder.yml"),
    ),
    (
        "vocab.de.yml",
        include_bytes!("../../crates/tx-convert/tests/fixtures/marian/words/vocab.de.yml"),
    ),
    (
        "vocab.en.yml",
        include_bytes!("../../crates/tx-convert/tests/fixtures/marian/words/vocab.en.yml"),
    ),
];
/// Array of the options.
const OPTIONS: &str = "special:model.yml.npy";

/// Arrays of the model, the options first.
static ARRAYS: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
    let mut archive = ZipArchive::new(Cursor::new(MODEL)).unwrap();
    let mut arrays = Vec::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).unwrap();
        let name = entry.name().unwrap().into_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        let at = if name == OPTIONS { 0 } else { arrays.len() };
        arrays.insert(at, (name, bytes));
    }
    arrays
});

/// Array of bytes, as NumPy writes it.
fn array(content: &[u8]) -> Vec<u8> {
    let count = content.len();
    let header = format!("{{'descr': '|i1', 'fortran_order': False, 'shape': ({count},), }}\n");
    let mut array = b"\x93NUMPY\x01\x00".to_vec();
    array.extend((header.len() as u16).to_le_bytes());
    array.extend(header.as_bytes());
    array.extend(content);
    array
}

/// Archive of the model, with another content of the array at an index.
fn archive(index: usize, content: &[u8]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (at, (name, bytes)) in ARRAYS.iter().enumerate() {
        writer.start_file(name.as_str(), stored).unwrap();
        writer.write_all(if at == index { content } else { bytes }).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fuzz_target!(|data: &[u8]| {
    let model = if let Some(options) = data.strip_prefix(b"yaml") {
        archive(0, &array(options))
    } else if let Some(array) = data.strip_prefix(b"npy") {
        archive(1, array)
    } else {
        data.to_vec()
    };
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in OTHERS {
        fs::write(folder.path().join(name), content).unwrap();
    }
    fs::write(folder.path().join("model.npz"), model).unwrap();
    if let Ok(import) = import(folder.path(), Some(ImportFormat::Marian)) {
        drop(import.save(&folder.path().join("bundle")));
    }
});
