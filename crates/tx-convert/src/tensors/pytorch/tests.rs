use std::{
    fs,
    io::{Cursor, Write},
};

use zip::{ZipWriter, write::SimpleFileOptions};

use super::*;

/// Number in the pickles of this file.
fn int(number: usize) -> Vec<u8> {
    [&b"J"[..], &(number as u32).to_le_bytes()].concat()
}

fn unicode(text: &str) -> Vec<u8> {
    [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

fn sizes(sizes: &[usize]) -> Vec<u8> {
    [&b"("[..], &sizes.iter().flat_map(|&size| int(size)).collect::<Vec<u8>>(), b"t"].concat()
}

/// Tensor of a storage of numbers of single precision. `view` is the sixth item of old files.
fn tensor(key: &str, count: usize, shape: &[usize], stride: &[usize], view: &[u8]) -> Vec<u8> {
    [
        b"ctorch._utils\n_rebuild_tensor_v2\n((",
        &*unicode("storage"),
        b"ctorch\nFloatStorage\n",
        &unicode(key),
        &unicode("cpu"),
        &int(count),
        view,
        b"tQK\x00",
        &sizes(shape),
        &sizes(stride),
        b"\x89ccollections\nOrderedDict\n)RtR",
    ]
    .concat()
}

/// Pickle of a dictionary of these tensors.
fn dictionary(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let entries =
        entries.iter().flat_map(|(name, tensor)| [unicode(name), tensor.clone()].concat());
    [&b"\x80\x02ccollections\nOrderedDict\n)R("[..], &entries.collect::<Vec<u8>>(), b"u."].concat()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Entry of an archive: name, content, and whether it is compressed.
type Entry<'a> = (&'a str, &'a [u8], bool);

fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content, is_compressed) in entries {
        let method = match is_compressed {
            true => CompressionMethod::Deflated,
            false => CompressionMethod::Stored,
        };
        let options = SimpleFileOptions::default().compression_method(method);
        writer.start_file(*name, options).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn open(content: &[u8]) -> Result<Tensors, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.pt");
    fs::write(&path, content).unwrap();
    Tensors::open_pytorch(&path, None).map_err(|error| error.to_string())
}

/// The matrix 0 1 2 / 3 4 5, the same transposed, and its first column.
#[test]
fn views_of_one_storage() {
    let pickle = dictionary(&[
        ("matrix", tensor("7", 6, &[2, 3], &[3, 1], b"")),
        ("transposed", tensor("7", 6, &[3, 2], &[1, 3], b"")),
        ("column", tensor("7", 6, &[2, 1], &[3, 9], b"")),
    ]);
    let values = bytes(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let reversed: Vec<u8> =
        values.chunks(4).flat_map(|chunk| chunk.iter().rev().copied()).collect();
    for (order, values) in [(None, &values), (Some("little"), &values), (Some("big"), &reversed)] {
        let mut entries =
            vec![("model/data.pkl", &*pickle, false), ("model/data/7", values, false)];
        entries.extend(order.map(|order| ("model/byteorder", order.as_bytes(), false)));
        let tensors = open(&archive(&entries)).unwrap();
        let values = |name: &str| tensors.get(name).unwrap().values().unwrap();
        assert_eq!(values("matrix"), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(values("transposed"), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        assert_eq!(values("column"), [0.0, 3.0]);
    }
}

/// Pickles of an old file: magic number, version, machine, object, keys.
fn old_file(little_endian: u8, object: &[u8], keys: &[&str], storages: &[u8]) -> Vec<u8> {
    let keys: Vec<u8> = keys.iter().flat_map(|key| unicode(key)).collect();
    [
        b"\x80\x02\x8a\x0a",
        MAGIC,
        b".\x80\x02M\xe9\x03.\x80\x02}(",
        &*unicode("protocol_version"),
        b"M\xe9\x03",
        &unicode("little_endian"),
        &[little_endian],
        b"u.",
        object,
        b"\x80\x02](",
        &keys,
        b"e.",
        storages,
    ]
    .concat()
}

/// `a` is 1 2, and `b` is 3.
#[test]
fn a_file_of_old_versions() {
    let object = dictionary(&[
        ("b", tensor("20", 1, &[1], &[1], b"N")),
        ("a", tensor("10", 2, &[2], &[1], b"N")),
    ]);
    let storages =
        [&2_u64.to_le_bytes()[..], &bytes(&[1.0, 2.0]), &1_u64.to_le_bytes(), &bytes(&[3.0])];
    let storages = storages.concat();
    let file = old_file(0x88, &object, &["10", "20"], &storages);
    let tensors = open(&file).unwrap();
    assert_eq!(tensors.get("a").unwrap().values().unwrap(), [1.0, 2.0]);
    assert_eq!(tensors.get("b").unwrap().values().unwrap(), [3.0]);

    let problem = |file: Vec<u8>, expected: &str| {
        let problem = open(&file).unwrap_err();
        assert!(problem.contains(expected), "{problem}");
    };
    problem(old_file(0x89, &object, &["10", "20"], &storages), "big-endian");
    problem(old_file(0x88, &object, &["10"], &storages), "`20`");
    problem(old_file(0x88, &object, &["10", "30"], &storages), "`30`");
    problem(file[..file.len() - 1].to_vec(), "`20` is not in the file");
    let mut large = storages.clone();
    large[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    problem(old_file(0x88, &object, &["10", "20"], &large), "`10` is not in the file");
    let more = dictionary(&[
        ("b", tensor("20", 1, &[1], &[1], b"N")),
        ("a", tensor("10", 3, &[2], &[1], b"N")),
    ]);
    problem(old_file(0x88, &more, &["10", "20"], &storages), "storage `10` has 8 bytes");
    let view = dictionary(&[("a", tensor("10", 2, &[2], &[1], b"NNN\x87"))]);
    problem(old_file(0x88, &view, &["10"], &storages), "not a storage");
}

#[test]
fn files_that_torch_save_does_not_write() {
    let pickle = dictionary(&[("a", tensor("0", 2, &[2], &[1], b""))]);
    let values = bytes(&[1.0, 2.0]);
    let good = [("m/data.pkl", &*pickle, false), ("m/data/0", &*values, false)];
    open(&archive(&good)).unwrap();
    let problem = |file: &[u8], expected: &str| {
        let problem = open(file).unwrap_err();
        assert!(problem.contains(expected), "{expected}: {problem}");
    };
    let [object, storage] = good;
    let compressed = |(name, content, _)| (name, content, true);
    problem(&archive(&[compressed(object), storage]), "`m/data.pkl` is compressed");
    problem(&archive(&[object, compressed(storage)]), "`m/data/0` is compressed");
    problem(&archive(&[object, storage, ("n/data.pkl", b"N.", false)]), "several");
    problem(&archive(&[storage]), "no `data.pkl`");
    problem(&archive(&[object]), "no storage `m/data/0`");
    problem(&archive(&[object, storage, ("m/byteorder", b"middle", false)]), "`middle`");
    problem(&archive(&[object, ("m/data/0", &values[..4], false)]), "has 4 bytes");
    let mut damaged = archive(&good);
    let at = damaged.windows(8).position(|window| window == values).unwrap();
    damaged[at] ^= 1;
    problem(&damaged, "`m/data/0`");

    problem(b"\x80\x02}.", "not a checkpoint");
    problem(b"{\"a\": 1}", "neither");
    // A TAR archive whose first name is five pickles.
    let mut tar = vec![0; 1024];
    tar[..20].copy_from_slice(&b"\x80\x02N.".repeat(5));
    tar[257..263].copy_from_slice(b"ustar ");
    problem(&tar, "not a checkpoint");
}

/// A file of some 500 bytes cannot have 100 tensors of 400 bytes.
#[test]
fn repeated_tensors_are_limited() {
    let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    let view = [&b"h\x01"[..]].concat();
    let mut entries =
        vec![("first", [tensor("0", 100, &[100], &[1], b""), b"q\x01".to_vec()].concat())];
    entries.extend(names.iter().map(|name| (name.as_str(), view.clone())));
    let values = bytes(&[0.0; 100]);
    let file = |entries| {
        let pickle = dictionary(entries);
        archive(&[("m/data.pkl", &pickle, false), ("m/data/0", &values, false)])
    };
    open(&file(&entries[..4])).unwrap();
    assert!(open(&file(&entries)).unwrap_err().contains("8 times"));
}
