//! Arrays and options of a model, from an archive of numpy arrays, `.npz`, or from a binary model.
//!
//! Marian's archive is a zip archive of uncompressed `.npy` files.
//!
//! The headers of the arrays are parsed here, because the parser of `npyz` is recursive and its
//! product of the dimensions overflows, neither of which is acceptable for untrusted files.

use std::{
    fs::File,
    io::{self, BufWriter, Read, Seek, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

use super::{binary, options::OPTIONS};
use crate::{
    error::ConvertError,
    source_files::regular_file,
    tensors::{ElementType, Tensor, Tensors},
};

/// Maximum number of bytes of the options.
const MOST_OPTIONS: u64 = 1 << 20;
/// Maximum number of bytes of the header of an array.
const LONGEST_HEADER: usize = 1 << 12;
/// Maximum number of dimensions of an array.
const MOST_DIMENSIONS: usize = 8;
/// Start of an array: magic string and version 1.0.
const MAGIC: &[u8; 8] = b"\x93NUMPY\x01\x00";

/// Content of a file of a model.
pub(crate) struct Archive {
    /// Arrays, without the options.
    pub(crate) tensors: Tensors,
    /// Text of the options.
    pub(crate) options: String,
}

impl Archive {
    /// Reads the headers of all arrays, and the options.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is damaged, has compressed arrays, or has no options.
    pub(crate) fn open(path: &Path) -> Result<Self, ConvertError> {
        let problem = |problem: String| ConvertError::File { path: path.to_owned(), problem };
        let mut left = regular_file(path)?;
        let read_error = |source| ConvertError::Read { path: path.to_owned(), source };
        let mut start = Vec::new();
        let file = File::open(path).map_err(read_error)?;
        (&file).take(32).read_to_end(&mut start).map_err(read_error)?;
        if binary::is_binary(&start) {
            let (tensors, options) = binary::open(path)?;
            return Ok(Self { tensors, options });
        }
        let mut archive = ZipArchive::new(file).map_err(|error| problem(error.to_string()))?;
        let mut tensors = Vec::new();
        let mut options = None;
        for index in 0..archive.len() {
            let entry = Entry::read(&mut archive, index).map_err(problem)?;
            // Entries that overlap would declare more values than the file has.
            left = left
                .checked_sub(entry.size)
                .ok_or_else(|| problem("its arrays are larger than the file".to_owned()))?;
            if entry.name == OPTIONS {
                options = Some(entry.text(&mut archive).map_err(problem)?);
            } else {
                tensors.push(entry);
            }
        }
        let options = options.ok_or_else(|| problem(format!("it has no array `{OPTIONS}`")))?;
        let archive = Arc::new(Mutex::new(archive));
        let mut found = Tensors::new(path);
        let file = path.into();
        for entry in tensors {
            let archive = archive.clone();
            let (name, shape, element) = (entry.name.clone(), entry.shape.clone(), entry.element);
            let read =
                move || entry.values(&mut archive.lock().unwrap_or_else(PoisonError::into_inner));
            found.insert(name, Tensor::new(&file, shape, element, read))?;
        }
        Ok(Self { tensors: found, options })
    }
}

/// An array in an archive.
struct Entry {
    index: usize,
    name: String,
    /// Bytes of header and values.
    size: u64,
    /// Bytes of the header.
    header: usize,
    shape: Vec<usize>,
    element: ElementType,
    /// Bytes of an element.
    width: usize,
}

impl Entry {
    /// Reads the header of an array.
    fn read<R: Read + Seek>(archive: &mut ZipArchive<R>, index: usize) -> Result<Self, String> {
        let mut member = archive.by_index(index).map_err(|error| error.to_string())?;
        let name = member.name().map_err(|error| error.to_string())?.into_owned();
        let problem = |problem: &str| format!("its array `{name}` {problem}");
        if member.compression() != CompressionMethod::Stored {
            return Err(problem("is compressed; Marian writes uncompressed arrays"));
        }
        let size = member.size();
        if member.compressed_size() != size {
            return Err(problem("has two sizes"));
        }
        let short = |_| problem("ends before its header");
        let mut start = [0; 10];
        member.read_exact(&mut start).map_err(short)?;
        let Some((MAGIC, length)) = start.split_first_chunk::<8>() else {
            return Err(problem("is not a numpy array of version 1.0"));
        };
        let length = length.first_chunk::<2>().map_or(0, |bytes| u16::from_le_bytes(*bytes));
        let length = usize::from(length);
        if length > LONGEST_HEADER {
            return Err(problem("has a header that is too long"));
        }
        let mut header = vec![0; length];
        member.read_exact(&mut header).map_err(short)?;
        let header =
            str::from_utf8(&header).map_err(|_| problem("has a header that is no text"))?;
        let header = Header::parse(header).map_err(|what| problem(&what))?;
        let values = header
            .shape
            .iter()
            .try_fold(header.width, |product, &size| product.checked_mul(size))
            .and_then(|values| u64::try_from(values).ok());
        let start = start.len() + length;
        if values.and_then(|values| values.checked_add(start as u64)) != Some(size) {
            return Err(problem(&format!(
                "has {size} bytes, which are not those of its shape {:?}",
                header.shape
            )));
        }
        let name = name.strip_suffix(".npy").map(str::to_owned).unwrap_or(name);
        let Header { shape, element, width } = header;
        Ok(Self { index, name, size, header: start, shape, element, width })
    }

    /// Bytes of the values. Reads to the end, so that the checksum is compared.
    fn values<R: Read + Seek>(&self, archive: &mut ZipArchive<R>) -> io::Result<Vec<u8>> {
        let mut member = archive.by_index(self.index).map_err(io::Error::other)?;
        let mut header = vec![0; self.header];
        member.read_exact(&mut header)?;
        let mut bytes = Vec::with_capacity((self.size as usize).saturating_sub(self.header));
        member.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Values of bytes as text, which ends before the first NUL.
    fn text<R: Read + Seek>(&self, archive: &mut ZipArchive<R>) -> Result<String, String> {
        if self.size > MOST_OPTIONS || self.width != 1 {
            return Err(format!("its array `{}` is not text of moderate size", self.name));
        }
        let bytes = self.values(archive).map_err(|error| error.to_string())?;
        let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8(bytes.to_vec())
            .map_err(|_| format!("its array `{}` is not UTF-8", self.name))
    }
}

/// Header of a `.npy` file, a dictionary of Python.
#[derive(Debug, PartialEq)]
struct Header {
    shape: Vec<usize>,
    element: ElementType,
    width: usize,
}

impl Header {
    /// Parses the three keys in any order.
    fn parse(text: &str) -> Result<Self, String> {
        let value = |key: &str| {
            let start = text.find(&format!("'{key}':")).ok_or(format!("has no `{key}`"))?;
            Ok::<_, String>(text.get(start + key.len() + 3..).unwrap_or_default().trim_start())
        };
        if !value("fortran_order")?.starts_with("False") {
            return Err("is in column-major order".to_owned());
        }
        let kind = value("descr")?;
        let kind = kind.strip_prefix('\'').and_then(|kind| kind.split_once('\''));
        let (element, width) = match kind.map(|(kind, _)| kind) {
            Some("<f4") => (ElementType::F32, 4),
            Some("<f2") => (ElementType::F16, 2),
            Some("|i1" | "<i1") => (ElementType::Other("int8"), 1),
            Some("|u1" | "<u1") => (ElementType::Other("uint8"), 1),
            Some("<i2") => (ElementType::Other("int16"), 2),
            other => {
                return Err(format!("has type {:?}, expected float32", other.unwrap_or_default()));
            }
        };
        let shape = value("shape")?;
        let shape = shape.strip_prefix('(').and_then(|shape| shape.split_once(')'));
        let (shape, _) = shape.ok_or("has no shape")?;
        let sizes: Vec<&str> =
            shape.split(',').map(str::trim).filter(|size| !size.is_empty()).collect();
        if sizes.len() > MOST_DIMENSIONS {
            return Err(format!("has {} dimensions", sizes.len()));
        }
        let sizes: Result<Vec<usize>, _> = sizes.iter().map(|size| size.parse()).collect();
        let shape = sizes.map_err(|_| format!("has the shape ({shape})"))?;
        Ok(Self { shape, element, width })
    }
}

/// Writer of an archive.
pub(crate) struct ArchiveWriter<W: Write + Seek> {
    archive: ZipWriter<BufWriter<W>>,
}

impl<W: Write + Seek> ArchiveWriter<W> {
    /// Starts an archive.
    pub(crate) fn new(file: W) -> Self {
        Self { archive: ZipWriter::new(BufWriter::with_capacity(1 << 20, file)) }
    }

    /// Writes an array of single-precision values.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(crate) fn array(&mut self, name: &str, shape: &[usize], values: &[f32]) -> io::Result<()> {
        self.start(name, "<f4", shape)?;
        let mut bytes = Vec::with_capacity(1 << 16);
        for chunk in values.chunks(1 << 14) {
            bytes.clear();
            bytes.extend(chunk.iter().flat_map(|value| value.to_le_bytes()));
            self.archive.write_all(&bytes)?;
        }
        Ok(())
    }

    /// Writes the options, and ends the archive.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(crate) fn finish(mut self, options: &str) -> io::Result<W> {
        // The text ends with NUL, as a string of C.
        self.start(OPTIONS, "|i1", &[options.len() + 1])?;
        self.archive.write_all(options.as_bytes())?;
        self.archive.write_all(&[0])?;
        let file = self.archive.finish().map_err(io::Error::other)?;
        file.into_inner().map_err(io::IntoInnerError::into_error)
    }

    fn start(&mut self, name: &str, kind: &str, shape: &[usize]) -> io::Result<()> {
        let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        self.archive.start_file(format!("{name}.npy"), stored).map_err(io::Error::other)?;
        let mut header = header(kind, shape);
        // The values start at a multiple of 64 bytes.
        let length = (MAGIC.len() + 2 + header.len() + 1).next_multiple_of(64) - MAGIC.len() - 2;
        header.extend(std::iter::repeat_n(' ', length - header.len() - 1));
        header.push('\n');
        let length = u16::try_from(length).map_err(io::Error::other)?;
        self.archive.write_all(MAGIC)?;
        self.archive.write_all(&length.to_le_bytes())?;
        self.archive.write_all(header.as_bytes())
    }
}

/// Header of an array as numpy writes it. Marian reads a shape that ends with a comma as one dimension.
fn header(kind: &str, shape: &[usize]) -> String {
    let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
    let end = if sizes.len() == 1 { "," } else { "" };
    let sizes = sizes.join(", ");
    format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({sizes}{end}), }}")
}

#[cfg(test)]
mod tests;
