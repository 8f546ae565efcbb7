//! The weights file. Its header is compared with the configuration before memory is allocated for a
//! model, its values must be finite, and they are packed from the memory-mapped file.

pub(super) mod quantized;

use std::{
    borrow::Cow,
    collections::HashMap,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use self::quantized::{StoredTensor, stored, too_many_inputs};
use rayon::prelude::*;
use safetensors::{
    Dtype,
    tensor::{Metadata, TensorInfo},
};
use tx_engine::{QuantizedLayout, WeightSource};
use tx_kernels::{Int8Kernel, QuantizedTable, QuantizedWeight};
use tx_model::{Architecture, ModelConfig, Tying, VocabSizes, WeightShape};

use super::{WEIGHTS, config::WeightDtype, file_bytes::FileBytes, files::Files};
use crate::error::InferError;

/// Maximum length of a header in bytes: the limit of the safetensors format.
const MAX_HEADER: u64 = 100_000_000;

/// Maximum number of header bytes for each weight of a model; names and shapes take about 150. The
/// header is parsed once for each weight by other readers, so its length must be in proportion to
/// their number.
const HEADER_BYTES_PER_WEIGHT: u64 = 1 << 10;

/// Maximum number of further header bytes, for metadata.
const HEADER_BYTES: u64 = 1 << 16;

/// Number of values that are checked at a time.
const CHUNK: usize = 1 << 18;

/// Bytes of weights that are read, besides the latest weight, before their pages are released.
const PACKING_BYTES: usize = 1 << 20;

/// A safetensors file: the length of the header in eight bytes, the header as JSON, the
/// values.
///
/// The offsets in the header follow each other without gaps, each weight has as many bytes as its
/// shape and dtype need, and together they are the rest of the file.
#[derive(Debug)]
pub(super) struct WeightsFile {
    path: PathBuf,
    bytes: FileBytes,
    metadata: Metadata,
    /// Names in the order of the file.
    names: Vec<String>,
    /// Number of bytes of the JSON text.
    header: u64,
    dtype: WeightDtype,
    /// Weights of a quantized model; empty in single precision.
    layouts: Vec<(WeightShape, QuantizedLayout)>,
}

impl WeightsFile {
    /// Opens the weights file of a bundle and reads its header. `layouts` are those of a quantized
    /// model, and otherwise empty.
    pub(super) fn open(
        files: &Files,
        dtype: WeightDtype,
        layouts: Vec<(WeightShape, QuantizedLayout)>,
    ) -> Result<Self, InferError> {
        Self::parse(files.path(WEIGHTS), files.bytes(WEIGHTS)?, dtype, layouts)
    }

    /// Copies the file into memory, where no other process changes it.
    pub(super) fn copied(self) -> Result<Self, InferError> {
        Self::parse(self.path, self.bytes.copied()?, self.dtype, self.layouts)
    }

    /// Reads the header of a file.
    fn parse(
        path: PathBuf,
        bytes: FileBytes,
        dtype: WeightDtype,
        layouts: Vec<(WeightShape, QuantizedLayout)>,
    ) -> Result<Self, InferError> {
        let problem = |problem: String| InferError::Weights { path: path.clone(), problem };
        let size = bytes.len() as u64;
        let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
            return Err(problem("it ends before its header".into()));
        };
        let header = u64::from_le_bytes(*length);
        if header > MAX_HEADER.min(rest.len() as u64) {
            return Err(problem(format!("its header has {header} bytes, the file {size} bytes")));
        }
        let (text, values) = rest.split_at(header as usize);
        let metadata: Metadata = tx_text::json::from_slice(text)
            .map_err(|error| problem(format!("its header: {error}")))?;
        let (expected, found) = (metadata.data_len(), values.len());
        if found != expected {
            return Err(problem(format!(
                "its header declares {expected} bytes of weights, found {found}"
            )));
        }
        let names = metadata.offset_keys();
        Ok(Self { path, bytes, metadata, names, header, dtype, layouts })
    }

    /// Path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The whole file.
    #[cfg(feature = "burn")]
    pub(super) fn file(&self) -> &FileBytes {
        &self.bytes
    }

    /// Number of bytes of all weights.
    pub(super) fn size(&self) -> usize {
        self.metadata.data_len()
    }

    /// Weights in the order of the file.
    pub(super) fn weights(&self) -> impl Iterator<Item = (String, &TensorInfo)> {
        self.names.iter().filter_map(|name| Some((name.clone(), self.metadata.info(name)?)))
    }

    /// Names of the weights, in the order of the file; those of a quantized model without their
    /// scales and sums.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let is_weight = |name: &&str| match self.dtype {
            WeightDtype::F32 => true,
            WeightDtype::Int8 => self.layouts.iter().any(|(weight, _)| weight.name == *name),
        };
        self.names.iter().map(String::as_str).filter(is_weight)
    }

    /// Names of the weights with their dtypes and shapes, in the order of the file. A quantized matrix
    /// has the shape that it has in single precision.
    pub(super) fn shapes(&self) -> impl Iterator<Item = (&str, Dtype, &[usize])> {
        self.names().filter_map(|name| {
            let info = self.metadata.info(name)?;
            let quantized = self.layouts.iter().find(|(weight, _)| weight.name == name);
            let shape = quantized.map_or(&info.shape, |(weight, _)| &weight.shape);
            Some((name, info.dtype, &shape[..]))
        })
    }

    /// Dtype of the matrices.
    pub(super) fn dtype(&self) -> WeightDtype {
        self.dtype
    }

    /// Shape and values of a weight, in single precision; `None` if there is no such weight.
    pub(super) fn weight(&self, name: &str) -> Option<(&[usize], Cow<'_, [f32]>)> {
        if self.dtype == WeightDtype::Int8 {
            let (weight, layout) = self.layouts.iter().find(|(weight, _)| weight.name == name)?;
            return Some((&weight.shape, self.dequantized(name, *layout)?));
        }
        let info = self.metadata.info(name)?;
        Some((&info.shape, values(&self.bytes[self.range(info)])))
    }

    /// Compares names, shapes and dtypes with those of a model of this architecture with `vocab`
    /// ids.
    pub(super) fn check(
        &self,
        config: &ModelConfig,
        architecture: Architecture,
        vocab: VocabSizes,
    ) -> Result<(), InferError> {
        let problem = |problem| InferError::Weights { path: self.path.clone(), problem };
        let expected: Vec<StoredTensor> = match self.dtype {
            WeightDtype::F32 => {
                let shapes = config.weight_shapes_of(architecture, vocab).into_iter();
                shapes.map(|it| StoredTensor::new(it.name, &it.shape, Dtype::F32)).collect()
            }
            WeightDtype::Int8 => {
                if let Some(problem) = too_many_inputs(config, architecture, vocab) {
                    return Err(problem_of(&self.path, problem));
                }
                let layouts = QuantizedLayout::of_weights(config, architecture, vocab);
                layouts.iter().flat_map(|(weight, layout)| stored(weight, *layout)).collect()
            }
        };
        let longest = HEADER_BYTES + HEADER_BYTES_PER_WEIGHT * expected.len() as u64;
        if self.header > longest {
            return Err(problem(format!(
                "its header has {} bytes; {} weights need at most {longest}",
                self.header,
                expected.len()
            )));
        }
        let mut found: HashMap<String, &TensorInfo> = self.weights().collect();
        for weight in expected {
            let name = weight.name;
            let Some(info) = found.remove(&name) else {
                return Err(problem(format!("weight `{name}` is missing")));
            };
            if info.shape != weight.shape {
                return Err(problem(format!(
                    "weight `{name}` has the shape {:?}, but the configuration needs {:?}",
                    info.shape, weight.shape
                )));
            }
            if info.dtype != weight.dtype {
                return Err(problem(format!(
                    "weight `{name}` has the dtype {:?}, but a bundle has {:?}",
                    info.dtype, weight.dtype
                )));
            }
        }
        match found.into_keys().min() {
            Some(name) => Err(problem(format!("weight `{name}` is not part of the model"))),
            None => Ok(()),
        }
    }

    /// Rejects values that are infinite or NaN, and inconsistent quantized weights. The weights must
    /// have passed [`check`](Self::check).
    ///
    /// Chunks are distributed among `parts` threads; this one is number `part`, from 0.
    pub(super) fn check_values(&self, part: usize, parts: usize) -> Result<(), InferError> {
        self.check_quantized(part, parts)?;
        for (name, info) in self.weights().filter(|(_, info)| info.dtype == Dtype::F32) {
            let range = self.range(info);
            let chunks = self.bytes[range.clone()].chunks(4 * CHUNK).enumerate();
            for (index, chunk) in chunks.skip(part).step_by(parts) {
                if let Some(position) = first_not_finite(chunk) {
                    return Err(not_finite(&self.path, &name, index * CHUNK + position));
                }
                let start = range.start + index * 4 * CHUNK;
                if self.dtype == WeightDtype::F32 {
                    self.bytes.release(start..start + chunk.len());
                }
            }
        }
        Ok(())
    }

    /// Bytes of a weight in the mapped file.
    fn range(&self, info: &TensorInfo) -> Range<usize> {
        let values = 8 + self.header as usize;
        let (start, end) = info.data_offsets;
        values + start..values + end
    }

    /// Source of the weights for packing. In single precision, it keeps few pages of the file in
    /// memory. With a kernel, matrices are packed for it. With `validates`, values are validated when
    /// they are read; [`Packing::validated`] returns the result.
    pub(super) fn packing(
        &self,
        tying: Tying,
        architecture: Architecture,
        kernel: Option<Int8Kernel>,
        validates: bool,
    ) -> Packing<'_> {
        let kept: &[&str] = match (architecture, tying) {
            _ if kernel.is_some() => &[],
            (Architecture::EncoderDecoder, Tying::None) => {
                &["source_embedding.weight", "target_embedding.weight"]
            }
            (Architecture::EncoderDecoder, Tying::Decoder) => &["source_embedding.weight"],
            (Architecture::EncoderDecoder, Tying::All) => &[],
            (Architecture::Classifier { .. }, _)
            | (Architecture::LanguageModel | Architecture::MaskedLanguageModel, Tying::None) => {
                &["embedding.weight"]
            }
            (
                Architecture::LanguageModel | Architecture::MaskedLanguageModel,
                Tying::Decoder | Tying::All,
            ) => &[],
        };
        Packing {
            file: self,
            kept,
            kernel,
            read: AtomicUsize::new(0),
            validates,
            problem: Mutex::new(None),
        }
    }

    /// Removes all pages of the file from the memory of this process.
    pub(super) fn release(&self) {
        self.bytes.release(0..self.bytes.len());
    }
}

/// Weights that are being packed.
///
/// Pages of a mapped file that were read are released while later weights are packed. Pages that other cores are
/// still packing are released as well, and read again.
pub(super) struct Packing<'a> {
    file: &'a WeightsFile,
    /// Weights that the packed engine keeps in the order of the file. They are copied in parts, so
    /// that copy and file are not in memory together.
    kept: &'static [&'static str],
    /// Kernel for products of bytes.
    kernel: Option<Int8Kernel>,
    /// Bytes read since pages were released.
    read: AtomicUsize,
    /// Whether values are validated when they are read.
    validates: bool,
    /// Error of a value that was read.
    problem: Mutex<Option<InferError>>,
}

impl WeightSource for Packing<'_> {
    fn weight(&self, name: &str) -> Cow<'_, [f32]> {
        if self.file.dtype == WeightDtype::Int8 {
            return self.file.weight(name).map_or(Cow::Borrowed(&[]), |(_, values)| values);
        }
        // `WeightsFile::check` compared the names with those that a model reads.
        let Some(info) = self.file.metadata.info(name) else { return Cow::Borrowed(&[]) };
        let range = self.file.range(info);
        if self.kept.contains(&name) {
            return Cow::Owned(self.copy(name, range));
        }
        if self.read.fetch_add(range.len(), Ordering::Relaxed) > PACKING_BYTES {
            self.read.store(range.len(), Ordering::Relaxed);
            self.file.release();
        }
        let bytes = &self.file.bytes[range];
        if bytes.len() > PACKING_BYTES {
            let chunks = bytes.par_chunks(4 * CHUNK).enumerate();
            chunks.for_each(|(index, chunk)| self.validate(name, index * CHUNK, chunk));
        } else {
            self.validate(name, 0, bytes);
        }
        values(bytes)
    }

    fn kernel(&self) -> Option<Int8Kernel> {
        self.kernel
    }

    fn quantized(&self, name: &str) -> Option<QuantizedWeight> {
        match self.file.dtype {
            WeightDtype::F32 => None,
            WeightDtype::Int8 => self.file.quantized(name),
        }
    }

    fn quantized_table(&self, name: &str) -> Option<QuantizedTable> {
        match self.file.dtype {
            WeightDtype::F32 => None,
            WeightDtype::Int8 => self.file.quantized_table(name),
        }
    }
}

impl Packing<'_> {
    /// Returns the problem of a value that was read, if values are validated.
    pub(super) fn validated(self) -> Result<(), InferError> {
        let problem = self.problem.into_inner().unwrap_or_else(PoisonError::into_inner);
        problem.map_or(Ok(()), Err)
    }

    /// Validates values of a weight, of which `bytes` begin at the value number `start`.
    fn validate(&self, name: &str, start: usize, bytes: &[u8]) {
        if self.validates
            && let Some(position) = first_not_finite(bytes)
        {
            let mut problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
            problem.get_or_insert_with(|| not_finite(&self.file.path, name, start + position));
        }
    }

    fn copy(&self, name: &str, range: Range<usize>) -> Vec<f32> {
        let mut copy = Vec::with_capacity(range.len() / 4);
        for (index, chunk) in self.file.bytes[range.clone()].chunks(4 * CHUNK).enumerate() {
            self.validate(name, index * CHUNK, chunk);
            copy.extend_from_slice(&values(chunk));
            let start = range.start + index * 4 * CHUNK;
            self.file.bytes.release(start..start + chunk.len());
        }
        copy
    }
}

fn problem_of(path: &Path, problem: String) -> InferError {
    InferError::Weights { path: path.to_owned(), problem }
}

fn not_finite(path: &Path, weight: &str, index: usize) -> InferError {
    InferError::NotFiniteWeight { path: path.to_owned(), weight: weight.to_owned(), index }
}

/// Little-endian values: borrowed where their bytes are aligned and in the order of this machine,
/// as they are in files whose header has a multiple of eight bytes.
fn values(bytes: &[u8]) -> Cow<'_, [f32]> {
    match bytemuck::try_cast_slice(bytes) {
        Ok(values) if cfg!(target_endian = "little") => Cow::Borrowed(values),
        _ => bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect(),
    }
}

/// Returns the index of the first little-endian `f32` that is infinite or NaN, which is one whose
/// exponent bits are all set.
fn first_not_finite(bytes: &[u8]) -> Option<usize> {
    const EXPONENT: u32 = 0x7f80_0000;
    let (values, _) = bytes.as_chunks::<4>();
    let is_finite = |value: &[u8; 4]| u32::from_le_bytes(*value) & EXPONENT != EXPONENT;
    // The first pass has no early exit, so that it vectorizes.
    if values.iter().fold(true, |all, value| all & is_finite(value)) {
        return None;
    }
    values.iter().position(|value| !is_finite(value))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn open(content: &[u8]) -> Result<WeightsFile, InferError> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(WEIGHTS), content).unwrap();
        WeightsFile::open(&Files::Folder(folder.path().into()), WeightDtype::F32, Vec::new())
    }

    /// A file with this header and `data` zero bytes.
    fn file(text: &str, data: usize) -> Vec<u8> {
        [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &vec![0; data]].concat()
    }

    #[test]
    fn a_damaged_header_is_an_error_that_names_the_file() {
        let weight = |rest: &str| format!("{{\"a\":{{{rest}}}}}");
        let cases = [
            (b"".to_vec(), "ends before its header"),
            (b"abc".to_vec(), "ends before its header"),
            ([255; 40].to_vec(), "its header has 18446744073709551615 bytes, the file 40 bytes"),
            (vec![3, 0, 0, 0, 0, 0, 0, 0, b'{', b'}', b'x'], "its header: "),
            (file(&weight("\"dtype\":\"F32\""), 0), "missing field `shape`"),
            (
                file(
                    "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\
                     \"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                    4,
                ),
                "the key `a` is given twice",
            ),
            // 2⁶³ · 2 overflows 64 bits.
            (
                file(
                    &weight(
                        "\"dtype\":\"F32\",\"shape\":[9223372036854775808,2],\"data_offsets\":[0,0]",
                    ),
                    0,
                ),
                "overflow",
            ),
            (
                file(&weight("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]"), 12),
                "declares 8 bytes of weights, found 12",
            ),
        ];
        for (content, expected) in cases {
            let error = open(&content).unwrap_err().to_string();
            assert!(error.contains(WEIGHTS), "{error}");
            assert!(error.to_lowercase().contains(expected), "{expected}: {error}");
        }
    }

    #[test]
    fn values_that_are_not_finite_are_found_in_any_chunk() {
        let count = 3 * CHUNK + 5;
        let text = format!(
            "{{\"a\":{{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}},\
             \"b\":{{\"dtype\":\"F32\",\"shape\":[{count}],\"data_offsets\":[4,{}]}}}}",
            4 + 4 * count
        );
        let whole = file(&text, 4 + 4 * count);
        let start = whole.len() - 4 * count;
        for (position, value) in
            [(0, f32::NAN), (CHUNK, f32::INFINITY), (count - 1, -f32::INFINITY)]
        {
            let mut content = whole.clone();
            content[start + 4 * position..][..4].copy_from_slice(&value.to_le_bytes());
            let error = open(&content).unwrap().check_values(0, 1).unwrap_err();
            let expected = format!("weight `b` is not finite at value {position}");
            assert!(error.to_string().contains(&expected), "{error}");
        }
        for value in [f32::MAX, f32::MIN, f32::MIN_POSITIVE, -0.0, f32::from_bits(1)] {
            assert_eq!(first_not_finite(&value.to_le_bytes()), None, "{value}");
        }
    }

    /// A header of any length, so that values begin at any byte; and many weights, so that some are
    /// released and read again.
    #[test]
    fn weights_are_read_from_any_offset() {
        let size = 1 << 19;
        let value = |index: usize| (index as f32).sin();
        let data: Vec<u8> = (0..4 * size).flat_map(|index| value(index).to_le_bytes()).collect();
        for padding in 0..9 {
            let weights: Vec<String> = (0..4)
                .map(|index| {
                    let (start, end) = (4 * size * index, 4 * size * (index + 1));
                    format!(
                        "\"{index}\":{{\"dtype\":\"F32\",\"shape\":[{size}],\
                         \"data_offsets\":[{start},{end}]}}"
                    )
                })
                .collect();
            let text = format!("{{{}{}}}", weights.join(","), " ".repeat(padding));
            let content = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &data].concat();
            let file = open(&content).unwrap();
            file.check_values(0, 1).unwrap();
            let copied = file
                .packing(Tying::None, Architecture::EncoderDecoder, None, false)
                .copy("1", file.range(file.metadata.info("1").unwrap()));
            assert!(copied.into_iter().eq((size..2 * size).map(value)));
            let packing = file.packing(Tying::None, Architecture::EncoderDecoder, None, false);
            for round in 0..2 {
                for index in 0..4 {
                    let found = packing.weight(&index.to_string());
                    let expected = (size * index..size * (index + 1)).map(value);
                    assert!(found.iter().copied().eq(expected), "{padding}, {round}, {index}");
                    let aligned = (8 + text.len()).is_multiple_of(4);
                    assert_eq!(matches!(found, Cow::Borrowed(_)), aligned, "{padding}");
                }
            }
            assert!(packing.read.into_inner() <= 2 * PACKING_BYTES);
        }
    }
}
