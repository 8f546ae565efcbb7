use std::io::{Cursor, Write};

use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

/// Name of the file with the text of each format.
pub const DOCX: &str = "word/document.xml";
pub const ODT: &str = "content.xml";

/// An archive with these files.
pub fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (name, content) in files {
        archive.start_file(*name, options).unwrap();
        archive.write_all(content).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// XML of a document of Office Open XML with this body.
pub fn docx_xml(body: &str) -> String {
    format!("<w:document><w:body>{body}</w:body></w:document>")
}

pub fn docx(body: &str) -> Vec<u8> {
    archive(&[(DOCX, docx_xml(body).as_bytes())])
}

/// XML of a text of OpenDocument with this body.
pub fn odt_xml(body: &str) -> String {
    format!(
        "<office:document-content><office:body><office:text>{body}</office:text></office:body></office:document-content>"
    )
}

pub fn odt(body: &str) -> Vec<u8> {
    archive(&[(ODT, odt_xml(body).as_bytes())])
}

/// Paragraphs in text boxes in paragraphs.
pub fn nested_boxes(depth: usize) -> Vec<u8> {
    let (open, close) = ("<w:p><w:r><w:pict>", "</w:pict></w:r></w:p>");
    let inner = "<w:p><w:r><w:t>cat</w:t></w:r></w:p>";
    docx(&[&open.repeat(depth), inner, &close.repeat(depth)].concat())
}

pub fn nested_frames(depth: usize) -> Vec<u8> {
    let (open, close) =
        ("<text:p><draw:frame><draw:text-box>", "</draw:text-box></draw:frame></text:p>");
    odt(&[&open.repeat(depth), "<text:p>cat</text:p>", &close.repeat(depth)].concat())
}

/// A run with large properties and many parts.
pub fn tabs(properties: usize, tabs: usize) -> Vec<u8> {
    let (properties, tabs) = ("<a b=\"c\"/>".repeat(properties), "<w:tab/>".repeat(tabs));
    docx(&format!("<w:p><w:r><w:rPr>{properties}</w:rPr><w:t>cat</w:t>{tabs}</w:r></w:p>"))
}

/// A paragraph of runs with different properties.
pub fn runs(count: usize) -> Vec<u8> {
    let run = |n: usize| format!("<w:r><w:rPr><w:sz w:val=\"{n}\"/></w:rPr><w:t>cat </w:t></w:r>");
    docx(&format!("<w:p>{}</w:p>", (0..count).map(run).collect::<String>()))
}

/// A legal document whose XML takes 1,000 times the memory of the archive.
pub fn large() -> Vec<u8> {
    let empty = "<w:p><w:pPr><w:spacing w:before=\"0\" w:after=\"0\" w:beforeAutospacing=\"false\" w:afterAutospacing=\"false\" w:line=\"240\"/></w:pPr></w:p>";
    docx(&format!("{}<w:p><w:r><w:t>the cat</w:t></w:r></w:p>", empty.repeat(120_000)))
}

/// An archive with `count` entries that are the same member of `size` bytes, which is not compressible.
pub fn overlapping(count: u16, size: usize) -> Vec<u8> {
    let xml = docx_xml("<w:p><w:r><w:t>the cat</w:t></w:r></w:p>");
    let mut state = 1_u64;
    let noise: Vec<u8> = (0..size)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let main = Member { name: DOCX.into(), crc: crc32(xml.as_bytes()), size: xml.len(), at: 0 };
    let mut out = main.header(false);
    out.extend(xml.as_bytes());
    let shared = Member { name: "b".into(), crc: crc32(&noise), size, at: out.len() };
    out.extend(shared.header(false));
    out.extend(&noise);
    let start = out.len();
    out.extend(main.header(true));
    for number in 0..count {
        out.extend(Member { name: format!("{number:x}"), ..shared }.header(true));
    }
    let length = out.len() - start;
    out.extend(0x0605_4b50_u32.to_le_bytes());
    out.extend([0; 4]);
    out.extend((count + 1).to_le_bytes());
    out.extend((count + 1).to_le_bytes());
    out.extend((length as u32).to_le_bytes());
    out.extend((start as u32).to_le_bytes());
    out.extend([0; 2]);
    out
}

/// A stored member of an archive.
struct Member {
    name: String,
    crc: u32,
    size: usize,
    at: usize,
}

impl Member {
    /// The header before its content, or the one in the central directory.
    fn header(&self, is_central: bool) -> Vec<u8> {
        let signature: u32 = if is_central { 0x0201_4b50 } else { 0x0403_4b50 };
        let mut bytes = signature.to_le_bytes().to_vec();
        if is_central {
            bytes.extend(20_u16.to_le_bytes());
        }
        bytes.extend(20_u16.to_le_bytes());
        // Flags, method, time, and the first day of 1980.
        bytes.extend([0; 6]);
        bytes.extend(0x21_u16.to_le_bytes());
        bytes.extend(self.crc.to_le_bytes());
        bytes.extend((self.size as u32).to_le_bytes());
        bytes.extend((self.size as u32).to_le_bytes());
        bytes.extend((self.name.len() as u16).to_le_bytes());
        bytes.extend(0_u16.to_le_bytes());
        if is_central {
            // Comment, disk, attributes.
            bytes.extend([0; 10]);
            bytes.extend((self.at as u32).to_le_bytes());
        }
        bytes.extend(self.name.as_bytes());
        bytes
    }
}

/// CRC-32 of ZIP.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[test]
fn the_check_sum_is_that_of_zip() {
    // The check value of CRC-32/ISO-HDLC.
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
}
