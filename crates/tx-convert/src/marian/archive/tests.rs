use std::{fs, io::Cursor};

use super::*;

/// Archive with two arrays and options.
fn bytes() -> Vec<u8> {
    let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()));
    writer.array("Wemb", &[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, -5.5]).unwrap();
    writer.array("a->b", &[2], &[7.0, 8.0]).unwrap();
    writer.finish("type: transformer\n").unwrap().into_inner()
}

fn open(bytes: &[u8]) -> Result<Archive, ConvertError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.npz");
    fs::write(&path, bytes).unwrap();
    // The open file outlives its folder.
    Archive::open(&path)
}

/// Archive with one member of these bytes.
fn with_member(name: &str, content: &[u8], method: CompressionMethod) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(method);
    archive.start_file(name, options).unwrap();
    archive.write_all(content).unwrap();
    archive.finish().unwrap().into_inner()
}

#[test]
fn written_arrays_are_read_back() {
    let archive = open(&bytes()).unwrap();
    assert_eq!(archive.options, "type: transformer\n");
    assert_eq!(archive.tensors.names().collect::<Vec<_>>(), ["Wemb", "a->b"]);
    let tensor = archive.tensors.get("Wemb").unwrap();
    assert_eq!(tensor.shape, [2, 3]);
    assert_eq!(tensor.values().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, -5.5]);
    assert_eq!(archive.tensors.get("a->b").unwrap().values().unwrap(), [7.0, 8.0]);
}

/// The header that numpy 2 writes for a matrix, without its padding.
#[test]
fn headers_of_numpy() {
    let header = Header::parse("{'descr': '<f4', 'fortran_order': False, 'shape': (6000, 32), }");
    let expected = Header { shape: vec![6000, 32], element: ElementType::F32, width: 4 };
    assert_eq!(header, Ok(expected));
    let scalar = Header::parse("{'descr': '|i1', 'fortran_order': False, 'shape': (), }").unwrap();
    assert_eq!((scalar.shape, scalar.width), (vec![], 1));
    for (text, problem) in [
        ("{'fortran_order': False, 'shape': (1,), }", "`descr`"),
        ("{'descr': '<f4', 'shape': (1,), }", "`fortran_order`"),
        ("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", "column-major"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", "\"<f8\""),
        ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "float32"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "shape (-1,)"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': 5, }", "no shape"),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }",
            "9 dimensions",
        ),
    ] {
        let found = Header::parse(text).unwrap_err();
        assert!(found.contains(problem), "{text}: {found}");
    }
    let deep = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {}", "(".repeat(4_000));
    assert!(Header::parse(&deep).is_err());
}

#[test]
fn truncated_archives_are_rejected() {
    let whole = bytes();
    for length in 0..whole.len() {
        let found = open(&whole[..length]);
        assert!(found.is_err(), "{length}");
    }
}

/// A changed byte is found by a check of the structure, or by the checksum when values are read.
#[test]
fn changed_bytes_do_not_panic() {
    let whole = bytes();
    for place in 0..whole.len() {
        let mut changed = whole.clone();
        changed[place] ^= 0x55;
        let Ok(archive) = open(&changed) else { continue };
        for name in archive.tensors.names() {
            let _ = archive.tensors.get(name).map(Tensor::values);
        }
    }
}

#[test]
fn other_members_are_named() {
    let stored = CompressionMethod::Stored;
    let npy = |header: &str, values: usize| {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(vec![0; values]);
        bytes
    };
    let huge = "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }";
    let large = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000,), }";
    let long = " ".repeat(60_000);
    for (bytes, problem) in [
        (with_member("a.npy", &npy(huge, 8), stored), "not those of its shape"),
        (with_member("a.npy", &npy(large, 8), stored), "not those of its shape"),
        (with_member("a.npy", &npy(&long, 0), stored), "too long"),
        (with_member("a.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff", stored), "version 1.0"),
        (with_member("a.npy", b"text", stored), "ends before its header"),
        (with_member("a.npy", &npy(large, 8), CompressionMethod::Deflated), "compressed"),
        (
            with_member(
                "a.npy",
                &npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 4),
                stored,
            ),
            "no array `special:model.yml`",
        ),
        (
            with_member(
                "special:model.yml.npy",
                &npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 4),
                stored,
            ),
            "is not text",
        ),
    ] {
        let found = open(&bytes).err().unwrap().to_string();
        assert!(found.contains(problem), "{problem}: {found}");
    }
}
