//! Binary models of Marian, `.bin`, which Firefox uses: arrays, by name.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | version, 1 |
//! | 8 | number of arrays; for each: |
//! | 8 each | bytes of the name, type, number of dimensions, bytes of the values |
//! | … | names, each with the zero that ends it |
//! | 4 each | dimensions of all arrays |
//! | 8 | number of zeros that follow, so that the values are aligned |
//! | … | values, padded |
//!
//! Numbers are little-endian. A quantized matrix `[rows, columns]` is stored as `[columns, rows]`, except
//! embeddings, and its factor follows its values: the integers are the values times this factor.

use std::{ops::Range, path::Path, sync::Arc};

use memmap2::Mmap;

use super::options::OPTIONS;
use crate::{
    error::ConvertError,
    source_files,
    tensors::{ElementType, Tensor, Tensors},
};

/// Version of the format.
const VERSION: u64 = 1;
/// Bytes of the header of an array.
const HEADER: usize = 32;
/// Longest name in bytes.
const LONGEST_NAME: usize = 1 << 10;
/// Maximum number of dimensions of an array.
const MOST_DIMENSIONS: usize = 8;
/// End of the names of fixed factors for the quantization of activations.
const ACTIVATION_FACTOR: &str = "_QuantMultA";

/// Type of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    F32,
    F16,
    /// Text.
    Bytes,
    /// Quantized bytes.
    Int8,
    /// Quantized 16-bit integers.
    Int16,
}

impl Kind {
    /// Type of a number in a file. Marian and the branch that Firefox uses number the quantized types
    /// differently.
    fn of_number(number: u64) -> Result<Self, String> {
        match number {
            0x404 => Ok(Self::F32),
            0x402 => Ok(Self::F16),
            0x101 => Ok(Self::Bytes),
            0x4101 | 0x1_0001 => Ok(Self::Int8),
            0x4102 | 0x1_0002 => Ok(Self::Int16),
            other => Err(format!(
                "has the type {other:#x}, which is not that of numbers for all processors: \
                 float32, float16, intgemm8 or intgemm16"
            )),
        }
    }

    fn width(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Int16 => 2,
            Self::Bytes | Self::Int8 => 1,
        }
    }
}

/// An array whose values are in the file.
struct Array {
    name: String,
    kind: Kind,
    shape: Vec<usize>,
    bytes: Range<usize>,
}

/// Returns `true` if a file that starts with these bytes is a binary model.
pub(crate) fn is_binary(start: &[u8]) -> bool {
    let mut reader = Reader { bytes: start, at: 0 };
    let mut number = || reader.number().unwrap_or_default();
    let (version, arrays, name, kind) = (number(), number(), number(), number());
    version == VERSION
        && arrays > 0
        && (1..=LONGEST_NAME as u64).contains(&name)
        && Kind::of_number(kind).is_ok()
}

/// Maps a file. Returns its arrays and the text of its options.
///
/// # Errors
///
/// If it cannot be read or is damaged, has types of another processor, or has no options.
pub(super) fn open(path: &Path) -> Result<(Tensors, String), ConvertError> {
    let problem = |problem: String| ConvertError::File { path: path.to_owned(), problem };
    let map = source_files::map(path)?;
    let mut tensors = Tensors::new(path);
    let mut options = None;
    let file: Arc<Path> = path.into();
    for array in arrays(&map).map_err(problem)? {
        if array.name == OPTIONS {
            options = Some(text(&array, &map).map_err(problem)?);
        } else if !array.name.ends_with(ACTIVATION_FACTOR) {
            let name = array.name.clone();
            let tensor = tensor(&file, &map, array)
                .map_err(|what| problem(format!("its array `{name}` {what}")))?;
            tensors.insert(name, tensor)?;
        }
    }
    let options = options.ok_or_else(|| problem(format!("it has no array `{OPTIONS}`")))?;
    Ok((tensors, options))
}

/// Reads the headers of all arrays.
fn arrays(bytes: &[u8]) -> Result<Vec<Array>, String> {
    let short = || "it ends in its header".to_owned();
    let mut reader = Reader { bytes, at: 0 };
    let version = reader.number().ok_or_else(short)?;
    if version != VERSION {
        return Err(format!("it has version {version}, expected {VERSION}"));
    }
    let count = reader.size().ok_or_else(short)?;
    if count > bytes.len() / HEADER {
        return Err(short());
    }
    let mut headers = Vec::with_capacity(count);
    for _ in 0..count {
        let mut size = || reader.number().ok_or_else(short);
        headers.push([size()?, size()?, size()?, size()?]);
    }
    let mut found = Vec::with_capacity(count);
    for &[name, kind, dimensions, _] in &headers {
        let length = usize::try_from(name).unwrap_or(usize::MAX);
        if length > LONGEST_NAME || dimensions > MOST_DIMENSIONS as u64 {
            return Err(format!("its header has a name of {name} bytes, {dimensions} dimensions"));
        }
        let name = reader.take(length).ok_or_else(short)?;
        let name = name.strip_suffix(&[0]).unwrap_or(name);
        let name = str::from_utf8(name).map_err(|_| "it has a name that is not UTF-8")?.to_owned();
        let kind = Kind::of_number(kind).map_err(|what| format!("its array `{name}` {what}"))?;
        found.push(Array { name, kind, shape: Vec::new(), bytes: 0..0 });
    }
    for (array, &[_, _, dimensions, _]) in found.iter_mut().zip(&headers) {
        for _ in 0..dimensions {
            let size = reader.take(4).and_then(|four| four.first_chunk()).ok_or_else(short)?;
            let size = usize::try_from(i32::from_le_bytes(*size));
            let name = &array.name;
            array.shape.push(size.map_err(|_| format!("its array `{name}` has a negative size"))?);
        }
    }
    let padding = reader.size().ok_or_else(short)?;
    reader.take(padding).ok_or_else(short)?;
    for (array, &[_, _, _, length]) in found.iter_mut().zip(&headers) {
        let start = reader.at;
        let length = usize::try_from(length).ok().and_then(|length| reader.take(length));
        let name = &array.name;
        length.ok_or_else(|| format!("it ends before the values of its array `{name}`"))?;
        array.bytes = start..reader.at;
    }
    Ok(found)
}

/// Text of an array, up to the zero that ends it.
fn text(array: &Array, bytes: &[u8]) -> Result<String, String> {
    let bytes = bytes.get(array.bytes.clone()).unwrap_or_default();
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = str::from_utf8(text).map_err(|_| format!("its `{OPTIONS}` is not UTF-8"))?;
    Ok(text.to_owned())
}

fn tensor(file: &Arc<Path>, map: &Arc<Mmap>, array: Array) -> Result<Tensor, String> {
    let Array { name, kind, shape, bytes } = array;
    let count = shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
    let length = count.and_then(|count| count.checked_mul(kind.width()));
    let length = length
        .filter(|&length| length <= bytes.len())
        .ok_or_else(|| format!("has {} bytes, too few for its shape {shape:?}", bytes.len()))?;
    let values = bytes.start..bytes.start + length;
    let map = map.clone();
    let element = match kind {
        Kind::F32 | Kind::Int8 | Kind::Int16 => ElementType::F32,
        Kind::F16 => ElementType::F16,
        Kind::Bytes => ElementType::Other("INT8"),
    };
    if matches!(kind, Kind::F32 | Kind::F16 | Kind::Bytes) {
        let read = move || Ok(map.get(values.clone()).unwrap_or_default().to_vec());
        return Ok(Tensor::new(file, shape, element, read));
    }
    let factor = map.get(values.end..bytes.end).and_then(|rest| rest.first_chunk());
    let factor = f32::from_le_bytes(*factor.ok_or("has no factor behind its values")?);
    let columns = shape.last().copied().unwrap_or_default();
    let rows =
        if name.contains("Wemb") { None } else { count.unwrap_or_default().checked_div(columns) };
    let read = move || {
        let bytes = map.get(values.clone()).unwrap_or_default();
        let integers: Vec<f32> = match kind {
            Kind::Int16 => {
                let (pairs, _) = bytes.as_chunks();
                pairs.iter().map(|pair| f32::from(i16::from_le_bytes(*pair))).collect()
            }
            _ => bytes.iter().map(|byte| f32::from(byte.cast_signed())).collect(),
        };
        let integers = match rows {
            Some(rows) => crate::rows::transpose(&integers, columns, rows),
            None => integers,
        };
        Ok(integers.iter().flat_map(|value| (value / factor).to_le_bytes()).collect())
    };
    Ok(Tensor::new(file, shape, element, read))
}

/// Reader of numbers.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        self.take(8)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    fn size(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// File with arrays of a name, a type, a shape and values.
    fn file(arrays: &[(&str, u64, &[i32], &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut number = |number: usize| bytes.extend((number as u64).to_le_bytes());
        number(1);
        number(arrays.len());
        for (name, kind, shape, values) in arrays {
            for size in [name.len() + 1, *kind as usize, shape.len(), values.len()] {
                number(size);
            }
        }
        for (name, ..) in arrays {
            bytes.extend(name.bytes());
            bytes.push(0);
        }
        for (_, _, shape, _) in arrays {
            bytes.extend(shape.iter().flat_map(|size| size.to_le_bytes()));
        }
        bytes.extend(3_u64.to_le_bytes());
        bytes.extend([0; 3]);
        for (.., values) in arrays {
            bytes.extend(*values);
        }
        bytes
    }

    /// Factor 2: matrix [[1, 2, 3], [-4, 5, 6]] / 2, stored by columns, and the same as embeddings.
    #[test]
    fn quantized_matrices_are_transposed_and_embeddings_are_not() {
        let factor = 2.0_f32.to_le_bytes();
        let of = |values: [i8; 6]| -> Vec<u8> {
            values.iter().map(|value| value.cast_unsigned()).chain(factor).chain([9; 6]).collect()
        };
        let (matrix, table) = (of([1, -4, 2, 5, 3, 6]), of([1, 2, 3, -4, 5, 6]));
        let wide: Vec<u8> =
            [300_i16, -2].iter().flat_map(|value| value.to_le_bytes()).chain(factor).collect();
        let single: Vec<u8> =
            [0.5_f32, -1.5].iter().flat_map(|value| value.to_le_bytes()).collect();
        let bytes = file(&[
            ("encoder_l1_self_Wq", 0x4101, &[2, 3], &matrix),
            ("Wemb", 0x1_0001, &[2, 3], &table),
            ("decoder_l1_rnn_Wf", 0x1_0002, &[2, 1], &wide),
            ("decoder_l1_rnn_bf", 0x404, &[1, 2], &single),
            ("none_QuantMultA", 0x404, &[1, 1], &factor),
            (OPTIONS, 0x101, &[6], b"a: 1\n\0\0\0"),
        ]);
        assert!(is_binary(&bytes));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.bin");
        std::fs::write(&path, &bytes).unwrap();
        let (tensors, options) = open(&path).unwrap();
        assert_eq!(options, "a: 1\n");
        let expected = [0.5, 1.0, 1.5, -2.0, 2.5, 3.0];
        assert_eq!(tensors.finite_values("encoder_l1_self_Wq").unwrap(), expected);
        assert_eq!(tensors.finite_values("Wemb").unwrap(), expected);
        assert_eq!(tensors.finite_values("decoder_l1_rnn_Wf").unwrap(), [150.0, -1.0]);
        assert_eq!(tensors.finite_values("decoder_l1_rnn_bf").unwrap(), [0.5, -1.5]);
        assert!(tensors.get("none_QuantMultA").is_none());
    }

    #[test]
    fn damaged_files_are_refused_by_name() {
        let good = file(&[("a", 0x404, &[1], &[0; 4]), (OPTIONS, 0x101, &[1], b"\0")]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.bin");
        let problem = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            open(&path).map(|_| ()).unwrap_err().to_string()
        };
        for end in 0..good.len() {
            problem(&good[..end]);
        }
        for (arrays, expected) in [
            (file(&[("a", 0x1_1001, &[1], &[0; 4])]), "has the type 0x11001"),
            (file(&[("a", 0x404, &[-1], &[0; 4])]), "negative size"),
            (file(&[("a", 0x404, &[2], &[0; 4])]), "too few for its shape [2]"),
            (file(&[("a", 0x4101, &[4], &[0; 4])]), "no factor"),
            (file(&[("a", 0x404, &[1], &[0; 4])]), "no array `special:model.yml`"),
            (file(&[("a", 0x404, &[i32::MAX; 8], &[0; 4])]), "too few for its shape"),
        ] {
            let found = problem(&arrays);
            assert!(found.contains(expected), "{found}");
        }
    }
}
