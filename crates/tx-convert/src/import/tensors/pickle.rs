//! Classes and functions that a pickle names, which are checked before the pickle is read.
//!
//! The reader of the tensors executes nothing: it keeps an unknown call as an opaque object. A file
//! that names other functions than `torch.save` needs is nevertheless not a model, and PyTorch
//! itself would call them, so it is rejected.
//!
//! The check needs no stack: an opcode that names a class has the name in the pickle, or directly
//! after the two strings with the name.

use std::collections::HashMap;

/// Modules and names that `torch.save` writes for tensors in dictionaries.
const ALLOWED: [(&str, &[&str]); 4] = [
    ("collections", &["OrderedDict"]),
    ("torch._utils", &["_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_parameter"]),
    (
        "torch",
        &[
            "Size",
            "FloatStorage",
            "HalfStorage",
            "BFloat16Storage",
            "DoubleStorage",
            "LongStorage",
            "IntStorage",
            "ShortStorage",
            "CharStorage",
            "ByteStorage",
            "BoolStorage",
        ],
    ),
    ("torch.storage", &["UntypedStorage"]),
];

/// Longest string that can be part of a name.
const LONGEST_NAME: usize = 256;

/// Checks the pickle at the start of `bytes`, and returns its length.
///
/// # Errors
///
/// If it names a class or function that is not allowed, or is damaged.
pub(super) fn check(bytes: &[u8]) -> Result<usize, String> {
    Scan { bytes, at: 0, names: [None; 2], memo: HashMap::new(), memoized: 0 }.run()
}

/// Position in a pickle.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The two topmost values of the stack, if they are strings that were pushed last.
    names: [Option<&'a [u8]>; 2],
    /// Strings in the memo.
    memo: HashMap<u32, &'a [u8]>,
    /// Number of values in the memo that have been stored without an index.
    memoized: u32,
}

impl<'a> Scan<'a> {
    fn run(mut self) -> Result<usize, String> {
        loop {
            let opcode = self.number(1)? as u8;
            match opcode {
                b'.' => return Ok(self.at),
                // Memo: stores the topmost value.
                b'q' => self.put(1)?,
                b'r' => self.put(4)?,
                b'p' => {
                    let index = self.index()?;
                    self.store(index);
                }
                0x94 => {
                    self.store(self.memoized);
                    self.memoized = self.memoized.saturating_add(1);
                }
                b'h' => self.get(1)?,
                b'j' => self.get(4)?,
                b'g' => {
                    let index = self.index()?;
                    self.push(self.memo.get(&index).copied());
                }
                // Strings.
                b'X' | b'T' => self.string(4)?,
                0x8c | b'U' => self.string(1)?,
                0x8d => self.string(8)?,
                b'V' | b'S' => {
                    let line = self.line()?;
                    self.push(Some(line));
                }
                // Names.
                b'c' | b'i' => {
                    let (module, name) = (self.line()?, self.line()?);
                    check_name(module, name)?;
                    self.forget();
                }
                0x93 => {
                    let [Some(module), Some(name)] = self.names else {
                        return Err("a class has no name in the pickle".to_owned());
                    };
                    check_name(module, name)?;
                    self.forget();
                }
                0x82..=0x84 => return Err("a class has a number instead of a name".to_owned()),
                _ => {
                    self.skip(opcode)?;
                    self.forget();
                }
            }
        }
    }

    /// Skips the argument of any other opcode.
    fn skip(&mut self, opcode: u8) -> Result<(), String> {
        let length = match opcode {
            b'('
            | b'0'
            | b'1'
            | b'2'
            | b'N'
            | b'R'
            | b'b'
            | b'd'
            | b'l'
            | b't'
            | b's'
            | b'a'
            | b')'
            | b']'
            | b'}'
            | b'e'
            | b'u'
            | b'Q'
            | b'o'
            | 0x81
            | 0x85..=0x89
            | 0x8f..=0x92 => 0,
            b'K' | 0x80 => 1,
            b'M' => 2,
            b'J' => 4,
            b'G' | 0x95 => 8,
            b'C' | 0x8a => self.number(1)?,
            b'B' | 0x8b => self.number(4)?,
            0x8e | 0x96 => self.number(8)?,
            b'I' | b'L' | b'F' | b'P' => return self.line().map(|_| ()),
            _ => return Err(format!("unknown opcode {opcode:#04x}")),
        };
        self.take(length).map(|_| ())
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(length);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| "the pickle ends early".to_owned())?;
        self.at += length;
        Ok(taken)
    }

    /// Reads a little-endian number.
    fn number(&mut self, size: usize) -> Result<usize, String> {
        let bytes = self.take(size)?.iter().rev();
        let number = bytes.fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
        usize::try_from(number).map_err(|_| format!("the length {number} is too large"))
    }

    /// Reads up to the next line feed.
    fn line(&mut self) -> Result<&'a [u8], String> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|&byte| byte == b'\n');
        let length = length.ok_or_else(|| "the pickle ends early".to_owned())?;
        let line = self.take(length)?;
        self.take(1)?;
        Ok(line)
    }

    /// Reads an index of the memo as decimal digits.
    fn index(&mut self) -> Result<u32, String> {
        let line = str::from_utf8(self.line()?).map_err(|error| error.to_string())?;
        line.parse().map_err(|_| format!("`{line}` is not an index"))
    }

    fn string(&mut self, size: usize) -> Result<(), String> {
        let length = self.number(size)?;
        let text = self.take(length)?;
        self.push(Some(text));
        Ok(())
    }

    fn push(&mut self, text: Option<&'a [u8]>) {
        let [_, last] = self.names;
        self.names = [last, text.filter(|text| text.len() <= LONGEST_NAME)];
    }

    fn forget(&mut self) {
        self.names = [None; 2];
    }

    fn put(&mut self, size: usize) -> Result<(), String> {
        let index = self.number(size)? as u32;
        self.store(index);
        Ok(())
    }

    fn store(&mut self, index: u32) {
        match self.names[1] {
            Some(text) => drop(self.memo.insert(index, text)),
            None => drop(self.memo.remove(&index)),
        }
    }

    fn get(&mut self, size: usize) -> Result<(), String> {
        let index = self.number(size)? as u32;
        self.push(self.memo.get(&index).copied());
        Ok(())
    }
}

fn check_name(module: &[u8], name: &[u8]) -> Result<(), String> {
    let is_allowed = ALLOWED.iter().any(|(allowed, names)| {
        module == allowed.as_bytes() && names.iter().any(|allowed| name == allowed.as_bytes())
    });
    if is_allowed {
        return Ok(());
    }
    let [module, name] = [module, name].map(|text| {
        let start = text.get(..text.len().min(LONGEST_NAME)).unwrap_or_default();
        String::from_utf8_lossy(start).into_owned()
    });
    Err(format!("its pickle names `{module}.{name}`, which is not part of a model's weights"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_every_protocol() {
        let ordered: [&[u8]; 4] = [
            b"ccollections\nOrderedDict\n.",
            b"\x80\x02ccollections\nOrderedDict\nq\x00)R.",
            b"\x80\x04\x8c\x0bcollections\x94\x8c\x0bOrderedDict\x94\x93\x94)R.",
            // The module from the memo: a string, stored as 0, dropped, and read again.
            b"\x80\x04\x8c\x0bcollections\x940h\x00\x8c\x0bOrderedDict\x93.",
        ];
        for pickle in ordered {
            assert_eq!(check(pickle), Ok(pickle.len()), "{}", pickle.escape_ascii());
        }
        let system: [&[u8]; 5] = [
            b"cposix\nsystem\n.",
            b"(S'touch x'\niposix\nsystem\n.",
            b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
            // Allowed strings on top, which are dropped.
            b"\x80\x04\x8c\x05posix\x8c\x06system\x8c\x0bcollections\x8c\x0bOrderedDict00\x93.",
            // Overwritten in the memo by another value.
            b"\x80\x04\x8c\x0bcollectionsq\x00Nq\x00h\x00\x8c\x0bOrderedDict\x93.",
        ];
        for pickle in system {
            check(pickle).unwrap_err();
        }
        let error = check(system[0]).unwrap_err();
        assert!(error.contains("`posix.system`"), "{error}");
        assert!(check(b"\x80\x02\x82\x01.").is_err());
    }

    #[test]
    fn arguments_are_skipped() {
        // Numbers and bytes that contain the opcodes of names and of the end.
        let pickle =
            b"\x80\x05\x95........K.M..J....G........C\x02c.B\x02\0\0\0c.\x8a\x01.I1\n.rest";
        assert_eq!(check(pickle), Ok(pickle.len() - 4));
    }

    #[test]
    fn a_damaged_pickle_is_an_error() {
        for pickle in [
            &b""[..],
            b"\x80",
            b"X\xff\xff\xff\xffabc",
            b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",
            b"cos\nsystem",
            b"\x00.",
        ] {
            assert!(check(pickle).is_err(), "{}", pickle.escape_ascii());
        }
    }
}
