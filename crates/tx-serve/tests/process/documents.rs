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
    let (open, close) = ("<text:p><draw:frame><draw:text-box>", "</draw:text-box></draw:frame></text:p>");
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
    let empty = "<w:p><w:pPr><w:spacing w:before=\"0\" w:after=\"0\"/></w:pPr></w:p>";
    docx(&format!("{}<w:p><w:r><w:t>the cat</w:t></w:r></w:p>", empty.repeat(440_000)))
}

/// An archive with `count` entries that are the same member of `size` bytes, which is not compressible.
pub fn overlapping(count: u16, size: usize) -> Vec<u8> {
    let main = docx_xml("<w:p><w:r><w:t>the cat</w:t></w:r></w:p>");
    let mut state = 1_u64;
    let noise: Vec<u8> = (0..size)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let mut out = Vec::new();
    let mut directory = Vec::new();
    let mut member = |out: &mut Vec<u8>, directory: &mut Vec<u8>, name: &str, content: &[u8], at: Option<usize>| {
        let offset = at.unwrap_or(out.len());
        let mut crc = flate2_crc(content);
        let fields = |signature: u32, central: bool| {
            let mut bytes = signature.to_le_bytes().to_vec();
            if central {
                bytes.extend(20_u16.to_le_bytes());
            }
            bytes.extend(20_u16.to_le_bytes());
            // Flags, method, time.
            bytes.extend([0; 6]);
            bytes.extend(0x21_u16.to_le_bytes());
            bytes.extend(crc.to_le_bytes());
            bytes.extend((content.len() as u32).to_le_bytes());
            bytes.extend((content.len() as u32).to_le_bytes());
            bytes.extend((name.len() as u16).to_le_bytes());
            bytes.extend(0_u16.to_le_bytes());
            if central {
                // Comment, disk, attributes.
                bytes.extend([0; 10]);
                bytes.extend((offset as u32).to_le_bytes());
            }
            bytes.extend(name.as_bytes());
            bytes
        };
        if at.is_none() {
            out.extend(fields(0x0403_4b50, false));
            out.extend(content);
        }
        directory.extend(fields(0x0201_4b50, true));
        crc = 0;
        let _ = crc;
    };
    member(&mut out, &mut directory, DOCX, main.as_bytes(), None);
    let shared = out.len();
    member(&mut out, &mut directory, "b", &noise, None);
    for number in 1..count {
        member(&mut out, &mut directory, &format!("{number:x}"), &noise, Some(shared));
    }
    let start = out.len() as u32;
    out.extend(&directory);
    out.extend(0x0605_4b50_u32.to_le_bytes());
    out.extend([0; 4]);
    out.extend((count + 1).to_le_bytes());
    out.extend((count + 1).to_le_bytes());
    out.extend((directory.len() as u32).to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0; 2]);
    out
}
