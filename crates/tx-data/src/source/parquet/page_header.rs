//! Check of Parquet page headers before memory is allocated.
//!
//! The Parquet library trusts a header: for a dictionary of two billion texts it allocates memory
//! before it reads the first one. A header is a Thrift structure in compact form. Only its sizes
//! and the number of dictionary entries are parsed here.

use std::io::{self, ErrorKind};

use super::super::input::Limits;

/// Type of a field that is a 32-bit integer, with the next field number.
const NEXT_INTEGER: u8 = 0x15;

/// Type of a field that is a structure.
const STRUCTURE: u8 = 0x0c;

/// Field number of the checksum, the last field before those of the page type.
const CHECKSUM: u8 = 4;

/// Field number of the dictionary page header.
const DICTIONARY: u8 = 7;

/// Dictionary size below which the expansion ratio is not checked.
const SMALL_DICTIONARY: u64 = 1 << 20;

/// Sizes declared by a page header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PageHeader {
    /// Compressed size in bytes, without the header.
    packed: u64,
    /// Decompressed size in bytes.
    expanded: u64,
    /// Number of texts of a dictionary page; `None` for a data page.
    entries: Option<u64>,
}

impl PageHeader {
    /// Parses the first fields; `None` if they are not the ones of every page header.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields { bytes };
        let _kind = fields.next_integer()?;
        let expanded = u64::try_from(fields.next_integer()?).ok()?;
        let packed = u64::try_from(fields.next_integer()?).ok()?;
        let mut number = 3;
        let mut field = fields.byte()?;
        if (field >> 4) + number == CHECKSUM {
            fields.integer()?;
            number = CHECKSUM;
            field = fields.byte()?;
        }
        let is_dictionary = (field >> 4) + number == DICTIONARY && field & 0x0f == STRUCTURE;
        let entries =
            if is_dictionary { Some(u64::try_from(fields.next_integer()?).ok()?) } else { None };
        Some(Self { packed, expanded, entries })
    }

    /// Rejects implausible sizes; `left` bytes of the file follow the header.
    pub(super) fn check(&self, left: u64, limits: &Limits) -> io::Result<()> {
        let packed = self.packed.min(left);
        let invalid = |text: String| Err(io::Error::new(ErrorKind::InvalidData, text));
        if self.expanded > limits.expansion.of(packed) {
            return invalid(format!(
                "a page of {packed} bytes declares an expanded size of {}",
                self.expanded
            ));
        }
        // Each text is preceded by its length in 4 bytes.
        let most =
            packed.saturating_mul(limits.expansion.ratio).max(SMALL_DICTIONARY).min(self.expanded)
                / 4;
        match self.entries {
            Some(entries) if entries > most => {
                invalid(format!("a dictionary of {packed} bytes declares {entries} texts"))
            }
            _ => Ok(()),
        }
    }
}

/// Remaining bytes of a structure in Thrift's compact form.
struct Fields<'a> {
    bytes: &'a [u8],
}

impl Fields<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    /// Next field, if it is an integer.
    fn next_integer(&mut self) -> Option<i32> {
        if self.byte()? == NEXT_INTEGER { self.integer() } else { None }
    }

    /// Zigzag varint: seven bits per byte, lowest first; the lowest bit of the value is the sign.
    fn integer(&mut self) -> Option<i32> {
        let mut value = 0_u64;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                let value = u32::try_from(value).ok()?;
                return Some((value >> 1) as i32 ^ -((value & 1) as i32));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encoded by hand after Thrift's compact protocol: type 2, decompressed size 300, compressed
    /// size 100.
    const SIZES: [u8; 7] = [0x15, 0x04, 0x15, 0xd8, 0x04, 0x15, 0xc8];

    #[test]
    fn the_first_fields_are_read() {
        let page = |rest: &[u8]| PageHeader::read(&[&SIZES[..], &[0x01], rest].concat());
        let dictionary = PageHeader { packed: 100, expanded: 300, entries: Some(5) };
        assert_eq!(page(&[0x4c, 0x15, 0x0a]), Some(dictionary));
        let dictionary = PageHeader { packed: 100, expanded: 300, entries: Some(5) };
        assert_eq!(page(&[0x15, 0x00, 0x3c, 0x15, 0x0a]), Some(dictionary), "with a checksum");
        let data = PageHeader { packed: 100, expanded: 300, entries: None };
        assert_eq!(page(&[0x2c, 0x15, 0x0a]), Some(data));
        assert_eq!(page(&[]), None);
        assert_eq!(page(&[0x4c, 0x15, 0x0b]), None, "a negative number of texts");
        assert_eq!(PageHeader::read(&[0x16, 0x04]), None);
        assert_eq!(PageHeader::read(&[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), None);
    }

    #[test]
    fn declared_sizes_are_bounded() {
        let limits = Limits::default();
        let check = |packed, expanded, entries, left| {
            PageHeader { packed, expanded, entries }.check(left, &limits).is_ok()
        };
        assert!(check(1 << 20, 200 << 20, None, 1 << 30));
        assert!(!check(1 << 20, 300 << 20, None, 1 << 30), "more than 250 times");
        assert!(!check(1 << 30, 300 << 20, None, 1 << 20), "most of it is past the end");
        assert!(check(100, 400, Some(100), 100));
        assert!(!check(100, 400, Some(101), 100), "no room for the lengths");
        assert!(!check(100, 60 << 20, Some(1 << 20), 100), "a dictionary larger than its page");
    }
}
