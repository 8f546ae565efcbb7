//! Checkpoint of PyTorch: it is rejected, or imported. An input that begins with `pickle` is the
//! pickle of an archive with one storage, and one that begins with `old` follows the start of a file
//! before version 1.6; any other input is the whole file.

#![no_main]

use std::{
    fs,
    io::{Cursor, Write},
};

use libfuzzer_sys::fuzz_target;
use tx_convert::{
    ImportFormat,
    import::{ImportOptions, import_with},
};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

/// Tokenizers beside the checkpoint.
const OTHERS: [(&str, &[u8]); 2] = [
    (
        "tokenizer_en.json",
        include_bytes!("../../crates/tx-convert/tests/fixtures/tutorial/tokenizer_en.json"),
    ),
    (
        "tokenizer_it.json",
        include_bytes!("../../crates/tx-convert/tests/fixtures/tutorial/tokenizer_it.json"),
    ),
];
/// Magic number, version and machine of an old file.
const OLD: &[u8] =
    b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\x80\x02}.";

fn archive(pickle: &[u8]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, content) in [("m/data.pkl", pickle), ("m/data/0", &[0; 256])] {
        writer.start_file(name, stored).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fuzz_target!(|data: &[u8]| {
    let file = if let Some(pickle) = data.strip_prefix(b"pickle") {
        archive(pickle)
    } else if let Some(rest) = data.strip_prefix(b"old") {
        [OLD, rest].concat()
    } else {
        data.to_vec()
    };
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in OTHERS {
        fs::write(folder.path().join(name), content).unwrap();
    }
    let path = folder.path().join("model.pt");
    fs::write(&path, file).unwrap();
    // That of the seeds; the default does not divide their size.
    let options = ImportOptions { heads: Some(3), ..ImportOptions::default() };
    if let Ok(import) = import_with(&path, Some(ImportFormat::TutorialCheckpoint), &options) {
        drop(import.save(&folder.path().join("bundle")));
    }
});
