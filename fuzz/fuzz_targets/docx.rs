//! Office document: it is rejected, or its texts are found and replaced. An input that begins with
//! `xml` is the text of a document in an archive that is good; any other input is the whole file.

#![no_main]

use std::{
    io::{Cursor, Write},
    time::Duration,
};

use libfuzzer_sys::fuzz_target;
use tx_infer::Deadline;
use tx_markup::{Document, OfficeFormat};
use zip::{ZipWriter, write::SimpleFileOptions};

/// Largest body of a request.
const MAX_BYTES: usize = 1 << 20;

fn archive(name: &str, xml: &[u8]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    writer.start_file(name, SimpleFileOptions::default()).unwrap();
    writer.write_all(xml).unwrap();
    writer.finish().unwrap().into_inner()
}

fuzz_target!(|data: &[u8]| {
    // Longer than the time limit of an input.
    let deadline = Deadline::after(Duration::from_secs(60));
    for (format, name) in
        [(OfficeFormat::Docx, "word/document.xml"), (OfficeFormat::Odt, "content.xml")]
    {
        let file = match data.strip_prefix(b"xml") {
            Some(xml) => archive(name, xml),
            None => data.to_vec(),
        };
        if let Ok(document) = Document::read(file.into(), format, MAX_BYTES, &deadline) {
            let texts = document.texts();
            drop(document.plain_texts());
            drop(document.with_texts(&texts, &deadline));
        }
    }
});
