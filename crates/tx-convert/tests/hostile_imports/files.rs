//! Files of a model. Archives are divided into their entries, because most changes of an archive only
//! break its checksums.

use std::{
    fs,
    io::{Cursor, Read, Write},
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;
use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

use super::mutation::Mutation;

/// A file of a model, or an entry of an archive.
#[derive(Debug, Clone)]
pub struct Part {
    /// Name of the file.
    pub file: String,
    /// Name of the entry; `None` for the file itself.
    pub entry: Option<String>,
    /// Content.
    pub bytes: Vec<u8>,
}

/// Files of a model.
#[derive(Debug, Clone)]
pub struct Files {
    /// Files and entries of archives, in order.
    pub parts: Vec<Part>,
    /// Changes of whole archives, which are applied when they are written.
    pub whole: Vec<Mutation>,
}

impl Files {
    /// Reads files.
    pub fn read(paths: impl Iterator<Item = PathBuf>) -> Self {
        let mut paths: Vec<PathBuf> = paths.collect();
        paths.sort();
        let mut parts = Vec::new();
        for path in paths {
            let mut file = path.file_name().unwrap().to_str().unwrap().to_owned();
            let mut bytes = fs::read(&path).unwrap();
            if let Some(name) = file.strip_suffix(".gz") {
                let mut plain = Vec::new();
                GzDecoder::new(&*bytes).read_to_end(&mut plain).unwrap();
                let name = if name == "bpe.model" { "sentencepiece.bpe.model" } else { name };
                (file, bytes) = (name.to_owned(), plain);
            }
            if !bytes.starts_with(b"PK\x03\x04") {
                parts.push(Part { file, entry: None, bytes });
                continue;
            }
            let mut archive = ZipArchive::new(Cursor::new(bytes)).unwrap();
            for index in 0..archive.len() {
                let mut entry = archive.by_index(index).unwrap();
                let name = entry.name().unwrap().into_owned();
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).unwrap();
                parts.push(Part { file: file.clone(), entry: Some(name), bytes });
            }
        }
        Self { parts, whole: Vec::new() }
    }

    /// Writes the files into `folder`, and returns their size in bytes.
    pub fn write(&self, folder: &Path) -> usize {
        let mut size = 0;
        let mut rest = self.parts.as_slice();
        while let Some(first) = rest.first() {
            let count = rest.iter().take_while(|part| part.file == first.file).count();
            let (parts, others) = rest.split_at(count);
            rest = others;
            let mut bytes =
                if first.entry.is_some() { archive(parts) } else { first.bytes.clone() };
            if first.entry.is_some() {
                self.whole.iter().for_each(|mutation| mutation.apply_to(&mut bytes, &first.bytes));
            }
            size += bytes.len();
            fs::write(folder.join(&first.file), bytes).unwrap();
        }
        size
    }

    /// Applies a change to one part.
    pub fn apply(&mut self, mutation: &Mutation) {
        if let Mutation::Archive(inner) = mutation {
            self.whole.push((**inner).clone());
            return;
        }
        let [to, from] = mutation.parts().map(|share| self.part(share));
        let from = self.parts[from].bytes.clone();
        mutation.apply_to(&mut self.parts[to].bytes, &from);
    }
}

impl Files {
    /// Index of the part at this fraction of all parts. Files and pickles are chosen more often than
    /// their number, because most entries of an archive are weights.
    fn part(&self, share: f64) -> usize {
        let is_text = |part: &Part| {
            part.entry
                .as_ref()
                .is_none_or(|entry| entry.ends_with("data.pkl") || entry.contains("yml"))
        };
        let texts: Vec<usize> =
            (0..self.parts.len()).filter(|&at| is_text(&self.parts[at])).collect();
        match share < 0.7 && !texts.is_empty() {
            true => texts[(share / 0.7 * texts.len() as f64) as usize],
            false => (share * self.parts.len() as f64) as usize,
        }
    }
}

/// Archive with these entries. Names are those of the original, so that only contents change.
fn archive(parts: &[Part]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for part in parts {
        writer.start_file(part.entry.as_deref().unwrap_or_default(), options).unwrap();
        writer.write_all(&part.bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}
