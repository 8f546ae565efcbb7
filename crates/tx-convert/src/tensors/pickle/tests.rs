use super::{machine::MAX_OPCODES, *};
use crate::tensors::ElementType;

/// Opcodes of a storage of `count` numbers of single precision, whose key is `0`.
fn storage(count: u8) -> Vec<u8> {
    let mut pickle = b"(U\x07storagectorch\nFloatStorage\nU\x010U\x03cpuK".to_vec();
    pickle.extend([count, b't', b'Q']);
    pickle
}

/// Pickle of a dictionary with one tensor.
fn dictionary(name: &str, count: u8, offset: u8, shape: &[u8], stride: &[u8]) -> Vec<u8> {
    let mut pickle = b"\x80\x02}X".to_vec();
    pickle.extend((name.len() as u32).to_le_bytes());
    pickle.extend(name.as_bytes());
    pickle.extend(b"ctorch._utils\n_rebuild_tensor_v2\n(");
    pickle.extend(storage(count));
    pickle.extend([b'K', offset]);
    for sizes in [shape, stride] {
        pickle.push(b'(');
        sizes.iter().for_each(|&size| pickle.extend([b'K', size]));
        pickle.push(b't');
    }
    pickle.extend(b"\x89ccollections\nOrderedDict\n)RtRs.");
    pickle
}

fn problem(pickle: &[u8]) -> String {
    match Pickle::read(pickle) {
        Ok(pickle) => pickle.tensors(None).unwrap_err(),
        Err(problem) => problem,
    }
}

#[test]
fn a_tensor_in_a_dictionary() {
    let bytes = dictionary("weight", 7, 1, &[2, 3], &[3, 1]);
    let pickle = Pickle::read(&bytes).unwrap();
    assert_eq!(pickle.length, bytes.len());
    let storage = Storage { key: "0", element: ElementType::F32, width: 4, count: 7 };
    let tensor =
        TensorView { storage, offset: 1, shape: vec![2, 3], stride: vec![3, 1], extent: 6 };
    assert_eq!(pickle.tensors(None).unwrap(), [("weight", &tensor)]);
    assert_eq!(pickle.storages().collect::<Vec<_>>(), [&storage]);
    assert!(pickle.tensors(Some("model")).unwrap_err().contains("`model`"));
}

/// Memo, tuples of each length, a parameter, attributes, and a second key `a`, which replaces the
/// first one.
#[test]
fn a_checkpoint_in_a_dictionary() {
    let mut bytes =
        b"\x80\x04\x95\0\0\0\0\0\0\0\0}\x94(\x8c\x01aK\x01\x8c\x01a}\x94\x8c\x01w".to_vec();
    bytes.extend(b"\x8c\x0ctorch._utils\x8c\x12_rebuild_parameter\x93");
    bytes.extend(b"\x8c\x0ctorch._utils\x8c\x0f_rebuild_tensor\x93(");
    bytes.extend(storage(2));
    bytes.extend(b"K\x00K\x02\x85K\x01\x85tR\x88}\x87Rs}b\x8c\x01bh\x01u.");
    let pickle = Pickle::read(&bytes).unwrap();
    let tensors = pickle.tensors(Some("a")).unwrap();
    assert_eq!(
        tensors.iter().map(|(name, view)| (*name, view.extent)).collect::<Vec<_>>(),
        [("w", 2)]
    );
    assert_eq!(pickle.tensors(Some("b")).unwrap(), tensors);
    assert_eq!(pickle.tensors(None).unwrap_err(), "its `a` is not a tensor");
}

#[test]
fn numbers_and_texts() {
    // A long number of 10 bytes, as old files begin; 1001; texts; `False`.
    assert!(Pickle::read(b"\x80\x02\x8a\x0a0123456789.").unwrap().is_long(b"0123456789"));
    assert!(Pickle::read(b"\x80\x02M\xe9\x03.").unwrap().is_int(1001));
    assert!(Pickle::read(b"\x80\x02\x8a\x02\xe9\x03.").unwrap().is_int(1001));
    assert!(Pickle::read(b"\x8a\x01\xff.").unwrap().is_int(-1));
    assert!(Pickle::read(b"J\xfe\xff\xff\xff.").unwrap().is_int(-2));
    assert_eq!(Pickle::read(b"](U\x01aX\x01\0\0\0be.").unwrap().texts().unwrap(), ["a", "b"]);
    assert!(Pickle::read(b"}U\x01a\x89s.").unwrap().denies("a"));
    assert!(!Pickle::read(b"}U\x01a\x88s.").unwrap().denies("a"));
}

#[test]
fn only_classes_of_tensors_are_named() {
    for pickle in [
        &b"\x80\x02cposix\nsystem\n."[..],
        b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
        // The names from the memo, with allowed texts on top that are dropped.
        b"\x80\x04\x8c\x05posix\x8c\x06system\x8c\x0bcollections\x8c\x0bOrderedDict00\x93.",
        b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x9400h\x00h\x01\x93.",
    ] {
        assert!(problem(pickle).contains("`posix.system`"), "{}", pickle.escape_ascii());
    }
    let long = format!("c{}\nb\n.", "é".repeat(1_000_000));
    assert!(problem(long.as_bytes()).len() < 400);
}

#[test]
fn damaged_pickles() {
    for pickle in [
        &b""[..],
        b"\x80",
        b".",
        b"0.",
        b"N(0.",
        b"t.",
        b"K\x01\x86.",
        b"K\x01(\x85.",
        b"X\xff\xff\xff\xffabc",
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"U\x01\xff.",
        b"cos\nsystem",
        b"\x00.",
        b"h\x00.",
        b"(S'touch x'\niposix\nsystem\n.",
        b"\x80\x02\x82\x01.",
        b"NN\x93.",
        b"NNs.",
        b"NNa.",
        b"}(Nu.",
        b"NQ.",
        b"(NNNNNtQ.",
        b"N)R.",
        b"ctorch\nFloatStorage\n)R.",
        b"ccollections\nOrderedDict\nN\x85R.",
        b"ctorch._utils\n_rebuild_tensor\n(NNNNtR.",
    ] {
        assert!(Pickle::read(pickle).is_err(), "{}", pickle.escape_ascii());
    }
}

/// Elements 1, 2 and 3 of 4 are a window of 3; strides of 2 reach from 0 to 2 · 1 = 2.
#[test]
fn a_view_lies_in_its_storage() {
    let extent = |offset, shape: &[u8], stride: &[u8]| {
        let bytes = dictionary("w", 4, offset, shape, stride);
        Some(Pickle::read(&bytes).ok()?.tensors(None).ok()?.first()?.1.extent)
    };
    assert_eq!(extent(1, &[3], &[1]), Some(3));
    assert_eq!(extent(0, &[2, 1], &[2, 9]), Some(3));
    assert_eq!(extent(4, &[0, 5], &[1, 1]), Some(0));
    assert_eq!(extent(3, &[], &[]), Some(1));
    assert_eq!(extent(2, &[3], &[1]), None);
    assert_eq!(extent(0, &[2], &[4]), None);
    assert_eq!(extent(5, &[0], &[1]), None);
    // More elements than the storage has, all of them the first one.
    assert_eq!(extent(0, &[5], &[0]), None);
    assert_eq!(extent(0, &[2], &[1, 1]), None);
    assert_eq!(extent(0, &[1; 8], &[1; 8]), Some(1));
    assert_eq!(extent(0, &[1; 9], &[1; 9]), None);
    let large = Storage { key: "0", element: ElementType::F32, width: 4, count: usize::MAX };
    let view = |offset, shape: &[usize], stride: &[usize]| {
        TensorView::new(large, offset, shape.to_vec(), stride.to_vec()).is_ok()
    };
    assert!(!view(1, &[usize::MAX], &[1]));
    assert!(!view(0, &[1 << 40, 1 << 40], &[1, 1]));
    assert!(!view(0, &[3, 3], &[usize::MAX, 1]));
}

#[test]
fn limits() {
    let opcodes = |count: usize| [&vec![b'N'; count - 1][..], b"."].concat();
    assert!(Pickle::read(&opcodes(MAX_OPCODES)).is_ok());
    assert!(problem(&opcodes(MAX_OPCODES + 1)).contains("opcodes"));
    let key = "k".repeat(MAX_KEY);
    assert!(Pickle::read(&dictionary(&key, 1, 0, &[1], &[1])).unwrap().tensors(None).is_ok());
    assert!(problem(&dictionary(&(key + "k"), 1, 0, &[1], &[1])).contains("1025 bytes"));
}

/// A list that contains itself, and 100,000 tuples in each other.
#[test]
fn depth_costs_nothing() {
    Pickle::read(b"]q\x00h\x00a.").unwrap();
    let deep = [&b"N"[..], &vec![0x85; 100_000], b"."].concat();
    drop(Pickle::read(&deep).unwrap());
}

/// `{"cfg": {"model": Namespace(heads=2, scale=True, lang="de")}, "args": None}` as Python 3.11 writes it.
#[test]
fn options_are_attributes_of_namespaces() {
    let mut bytes = b"\x80\x02}q\0(X\x03\0\0\0cfgq\x01}q\x02X\x05\0\0\0modelq\x03".to_vec();
    bytes.extend(b"cargparse\nNamespace\nq\x04)\x81q\x05}q\x06(X\x05\0\0\0headsq\x07K\x02");
    bytes.extend(b"X\x05\0\0\0scaleq\x08\x88X\x04\0\0\0langq\tX\x02\0\0\0deq\nubs");
    bytes.extend(b"X\x04\0\0\0argsq\x0bNu.");
    let pickle = Pickle::read(&bytes).unwrap();
    assert_eq!(pickle.scalar(&["cfg", "model", "heads"]), Some(Scalar::Int(2)));
    assert_eq!(pickle.scalar(&["cfg", "model", "scale"]), Some(Scalar::Bool(true)));
    assert_eq!(pickle.scalar(&["cfg", "model", "lang"]), Some(Scalar::Text("de".to_owned())));
    for path in [&["args", "heads"][..], &["cfg"], &["cfg", "model", "none"], &["none"]] {
        assert_eq!(pickle.scalar(path), None, "{path:?}");
    }
    // A namespace whose attributes are itself.
    let cycle = b"\x80\x02cargparse\nNamespace\n)\x812b.";
    assert_eq!(Pickle::read(cycle).unwrap().scalar(&["a"]), None);
}
