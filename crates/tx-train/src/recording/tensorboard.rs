//! Event files for TensorBoard: scalars, and samples as text.
//!
//! A file is a sequence of records, each with its length and CRC-32C checksums. A record is a
//! protocol buffer `tensorflow.Event`. Only a few of its fields
//! (`tensorboard/compat/proto/event.proto` and `summary.proto`) are needed, so this module encodes
//! them itself.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
    process,
    time::{SystemTime, UNIX_EPOCH},
};

use crc::{CRC_32_ISCSI, Crc};

const CRC_32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// Event file that is being written.
#[derive(Debug)]
pub struct EventFile {
    file: File,
}

impl EventFile {
    /// Creates a file in `folder` for the updates after `step`. It supersedes other files of the
    /// folder for these updates.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn create(folder: &Path, step: usize) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // TensorBoard reads the files of a folder in the order of their names.
        let name = format!("events.out.tfevents.{:010}.{}.tx", now.as_secs(), process::id());
        let mut events = Self { file: File::create(folder.join(name))? };
        let mut version = Message::event(0);
        version.bytes(3, b"brain.Event:2");
        events.write(&version)?;
        let mut session = Message::default();
        session.number(1, 1);
        let mut start = Message::event(step + 1);
        start.bytes(7, &session.0);
        events.write(&start)?;
        Ok(events)
    }

    /// Adds a value to each of the curves `group/name`.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn scalars(&mut self, step: usize, group: &str, values: &[(&str, f64)]) -> io::Result<()> {
        let mut summary = Message::default();
        for (name, value) in values {
            let mut entry = Message::default();
            entry.bytes(1, format!("{group}/{name}").as_bytes());
            entry.float(2, *value as f32);
            summary.bytes(1, &entry.0);
        }
        self.summary(step, &summary)
    }

    /// Adds a text in Markdown.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn text(&mut self, step: usize, tag: &str, text: &str) -> io::Result<()> {
        let mut plugin = Message::default();
        plugin.bytes(1, b"text");
        let mut metadata = Message::default();
        metadata.bytes(1, &plugin.0);
        // Tensor of one string.
        let (mut dimension, mut shape, mut tensor) =
            (Message::default(), Message::default(), Message::default());
        dimension.number(1, 1);
        shape.bytes(2, &dimension.0);
        tensor.number(1, 7);
        tensor.bytes(2, &shape.0);
        tensor.bytes(8, text.as_bytes());
        let mut entry = Message::default();
        entry.bytes(1, tag.as_bytes());
        entry.bytes(8, &tensor.0);
        entry.bytes(9, &metadata.0);
        let mut summary = Message::default();
        summary.bytes(1, &entry.0);
        self.summary(step, &summary)
    }

    fn summary(&mut self, step: usize, summary: &Message) -> io::Result<()> {
        let mut event = Message::event(step);
        event.bytes(5, &summary.0);
        self.write(&event)
    }

    /// Writes a record at once, so that a reader never sees an incomplete one.
    fn write(&mut self, event: &Message) -> io::Result<()> {
        let length = (event.0.len() as u64).to_le_bytes();
        let mut record = length.to_vec();
        record.extend(masked(&length).to_le_bytes());
        record.extend(&event.0);
        record.extend(masked(&event.0).to_le_bytes());
        self.file.write_all(&record)
    }
}

/// Returns the masked checksum that the format stores, because CRCs of data with embedded CRCs are
/// weak.
fn masked(bytes: &[u8]) -> u32 {
    CRC_32C.checksum(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Protocol buffer that is being encoded.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    /// Event with the current time.
    fn event(step: usize) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut event = Self::default();
        event.key(1, 1);
        event.0.extend(now.as_secs_f64().to_le_bytes());
        event.number(2, step as u64);
        event
    }

    /// Writes number and wire type of a field.
    fn key(&mut self, field: u64, wire_type: u64) {
        self.varint((field << 3) | wire_type);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.key(field, 0);
        self.varint(value);
    }

    /// Writes a string, or an embedded message.
    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn float(&mut self, field: u64, value: f32) {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CRC-32C of 32 zeros is 0x8a9136aa (RFC 3720, B.4).
    #[test]
    fn checksums_are_crc_32c() {
        assert_eq!(CRC_32C.checksum(&[0; 32]), 0x8a91_36aa);
    }

    /// The documentation of protocol buffers encodes field 1 with the number 150 as `08 96 01`, and
    /// field 2 with "testing" as `12 07 …`.
    #[test]
    fn fields_are_encoded_as_protocol_buffers() {
        let mut message = Message::default();
        message.number(1, 150);
        message.bytes(2, b"testing");
        message.float(3, 1.0);
        assert_eq!(message.0[..3], [0x08, 0x96, 0x01]);
        assert_eq!(message.0[3..12], *b"\x12\x07testing");
        assert_eq!(message.0[12..], [0x1d, 0, 0, 0x80, 0x3f]);
    }

    #[test]
    fn a_file_is_a_sequence_of_complete_records() {
        let folder = tempfile::tempdir().unwrap();
        let mut events = EventFile::create(folder.path(), 7).unwrap();
        events.scalars(8, "training", &[("loss", 1.5), ("accuracy", 0.5)]).unwrap();
        events.text(8, "validation/samples", "one → eins").unwrap();
        let path = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let bytes = fs::read(path).unwrap();
        let (mut rest, mut records) = (&bytes[..], Vec::new());
        while !rest.is_empty() {
            let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
            let sum = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
            assert_eq!(sum(8), masked(&rest[..8]));
            assert_eq!(sum(12 + length), masked(&rest[12..12 + length]));
            records.push(&rest[12..12 + length]);
            rest = &rest[16 + length..];
        }
        assert_eq!(records.len(), 4);
        let has = |record: &[u8], text: &str| {
            record.windows(text.len()).any(|window| window == text.as_bytes())
        };
        assert!(has(records[0], "brain.Event:2") && has(records[2], "training/accuracy"));
        assert!(has(records[3], "one → eins"));
    }
}
