//! Checkpoints of PyTorch that declare more than they contain, and an array of options.

use std::io::{Cursor, Write};

use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

/// Name, content and part of the error of each file.
pub fn all() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    vec![
        ("sparse member of 1 TiB in a TAR archive", sparse_tar(), "not a checkpoint"),
        ("long key of many tensors", long_key(1 << 20), "1048576 bytes"),
        ("key of many tensors", long_key(1 << 10), "twice"),
        ("compressed storage of zeros", compressed_zeros(), "is compressed"),
        ("stride across a storage", long_stride(), "is not in its storage"),
        ("15 million opcodes", opcodes(), "opcodes"),
        ("storage of many tensors", repeated_storage(), "8 times"),
    ]
}

/// Array of bytes, as `numpy` writes it.
pub fn array(bytes: &[u8]) -> Vec<u8> {
    let count = bytes.len();
    let header = format!("{{'descr': '|i1', 'fortran_order': False, 'shape': ({count},), }}\n");
    let length = (header.len() as u16).to_le_bytes();
    [&b"\x93NUMPY\x01\x00"[..], &length, header.as_bytes(), bytes].concat()
}

/// TAR header of GNU with a checksum.
fn header(name: &[u8], kind: u8, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut header = vec![0; 512];
    let zero: &[u8] = b"00000000000\0";
    let start: [(usize, &[u8]); 6] = [
        (0, name),
        (100, b"0000644\0"),
        (124, zero),
        (136, zero),
        (156, &[kind]),
        (257, b"ustar  \0"),
    ];
    for (at, bytes) in start.iter().chain(fields) {
        header[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// The first name is five pickles; the second file has holes of 1 TiB.
fn sparse_tar() -> Vec<u8> {
    // Large sizes are numbers of 11 bytes, behind a byte 0x80.
    let mut size = [0; 12];
    size[0] = 0x80;
    size[4..].copy_from_slice(&(1_u64 << 40).to_be_bytes());
    let zero: &[u8] = b"00000000000\0";
    let first = header(&b"\x80\x02N.".repeat(5), b'0', &[]);
    let holes = header(b"storages", b'S', &[(386, &size), (398, zero), (483, &size)]);
    [first, holes, vec![0; 1024]].concat()
}

fn archive(entries: &[(&str, &[u8], CompressionMethod)]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content, method) in entries {
        let options = SimpleFileOptions::default().compression_method(*method);
        writer.start_file(*name, options).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// Checkpoint with this pickle and a storage of `values` bytes.
fn checkpoint(pickle: &[u8], values: usize, method: CompressionMethod) -> Vec<u8> {
    let stored = CompressionMethod::Stored;
    archive(&[("m/data.pkl", pickle, stored), ("m/data/0", &vec![0; values], method)])
}

fn unicode(text: &str) -> Vec<u8> {
    [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

fn int(number: u32) -> Vec<u8> {
    [&b"J"[..], &number.to_le_bytes()].concat()
}

/// Tensor of a storage of `count` numbers.
fn tensor(count: u32, shape: u32, stride: u32) -> Vec<u8> {
    [
        b"ctorch._utils\n_rebuild_tensor_v2\n((",
        &*unicode("storage"),
        b"ctorch\nFloatStorage\n",
        &unicode("0"),
        &unicode("cpu"),
        &int(count),
        b"tQK\x00",
        &int(shape),
        b"\x85",
        &int(stride),
        b"\x85\x89ccollections\nOrderedDict\n)RtR",
    ]
    .concat()
}

/// Pickle of a checkpoint whose weights are these items.
fn weights(items: &[u8]) -> Vec<u8> {
    [b"\x80\x02}", &*unicode("model_state_dict"), b"}(", items, b"us."].concat()
}

/// One key of this length, and 100,000 tensors below it from the memo.
fn long_key(length: usize) -> Vec<u8> {
    let key = [unicode(&"k".repeat(length)), b"q\x00".to_vec()].concat();
    let first = [key, tensor(1, 1, 1), b"q\x01".to_vec()].concat();
    let others = b"h\x00h\x01".repeat(100_000);
    checkpoint(&weights(&[first, others].concat()), 4, CompressionMethod::Stored)
}

fn compressed_zeros() -> Vec<u8> {
    let items = [unicode("a"), tensor(1 << 26, 24, 1_000_000)].concat();
    checkpoint(&weights(&items), 1 << 28, CompressionMethod::Deflated)
}

/// 24 numbers of a storage of 64, with distances of 35 million.
fn long_stride() -> Vec<u8> {
    let items = [unicode("a"), tensor(64, 24, 35_000_000)].concat();
    checkpoint(&weights(&items), 256, CompressionMethod::Stored)
}

fn opcodes() -> Vec<u8> {
    let list = [&b"\x80\x02]("[..], &vec![b'N'; 15_000_000], b"e."].concat();
    checkpoint(&list, 0, CompressionMethod::Stored)
}

/// 10,000 tensors with all of 1 MiB.
fn repeated_storage() -> Vec<u8> {
    let first = [unicode("a"), tensor(1 << 18, 1 << 18, 1), b"q\x00".to_vec()].concat();
    let name = |index: u32| [unicode(&index.to_string()), b"h\x00".to_vec()].concat();
    let others: Vec<u8> = (0..10_000).flat_map(name).collect();
    checkpoint(&weights(&[first, others].concat()), 1 << 20, CompressionMethod::Stored)
}
