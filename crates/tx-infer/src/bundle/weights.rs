//! The weights file: its header, which is compared with the configuration before memory is taken for
//! a model, and its values, which must be finite.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use burn::{
    store::{ModuleSnapshot, SafetensorsStore},
    tensor::{DType, FloatDType},
};
use safetensors::{
    Dtype,
    tensor::{Metadata, TensorInfo},
};
use tx_model::{ModelConfig, Transformer, VocabSizes};

use super::{WEIGHTS, regular_file};
use crate::error::InferError;

/// Longest header that is read: the format's own limit.
const LONGEST_HEADER: u64 = 100_000_000;

/// Bytes of a header for each weight of a model; names and shapes take some 150. The header is parsed
/// once for each weight, so its length must be in proportion to their number.
const HEADER_BYTES_PER_WEIGHT: u64 = 1 << 10;

/// Bytes of a header beside its weights, for metadata.
const HEADER_BYTES: u64 = 1 << 16;

/// Values that are read at a time.
const CHUNK: usize = 1 << 18;

/// The header of a safetensors file: the length of the header in eight bytes, then JSON.
///
/// Its offsets follow each other without gaps, each weight has as many bytes as its shape and dtype
/// need, and together they are the rest of the file.
#[derive(Debug)]
pub(super) struct Header {
    path: PathBuf,
    metadata: Metadata,
    /// Bytes of the JSON text.
    len: u64,
}

impl Header {
    /// Reads the header of the weights file of a bundle.
    pub(super) fn read(folder: &Path) -> Result<Self, InferError> {
        let path = folder.join(WEIGHTS);
        let problem = |problem: String| InferError::Weights { path: path.clone(), problem };
        let read_error = |source| InferError::Read { path: path.clone(), source };
        let size = regular_file(&path)?;
        let mut file = File::open(&path).map_err(read_error)?;
        let mut len = [0; 8];
        file.read_exact(&mut len).map_err(|_| problem("it ends before its header".into()))?;
        let len = u64::from_le_bytes(len);
        // The rest of the file.
        let rest = size.saturating_sub(8);
        if len > LONGEST_HEADER.min(rest) {
            return Err(problem(format!("its header has {len} bytes, the file {size} bytes")));
        }
        let mut text = Vec::new();
        file.take(len).read_to_end(&mut text).map_err(read_error)?;
        let metadata: Metadata = serde_json::from_slice(&text)
            .map_err(|error| problem(format!("its header: {error}")))?;
        let expected = metadata.data_len() as u64;
        let found = rest - len;
        if found != expected {
            return Err(problem(format!(
                "its header asks for {expected} bytes of weights, found {found}"
            )));
        }
        Ok(Self { path, metadata, len })
    }

    /// The weights in the order of the file.
    pub(super) fn weights(&self) -> impl Iterator<Item = (String, &TensorInfo)> {
        let infos = self.metadata.offset_keys().into_iter();
        infos.filter_map(|name| self.metadata.info(&name).map(|info| (name, info)))
    }

    /// Compares names, shapes and dtypes with those of a model of `vocab` ids.
    pub(super) fn check(&self, config: &ModelConfig, vocab: VocabSizes) -> Result<(), InferError> {
        let problem = |problem| InferError::Weights { path: self.path.clone(), problem };
        let expected = config.weight_shapes(vocab);
        let longest = HEADER_BYTES + HEADER_BYTES_PER_WEIGHT * expected.len() as u64;
        if self.len > longest {
            return Err(problem(format!(
                "its header has {} bytes; {} weights need at most {longest}",
                self.len,
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
            if info.dtype != Dtype::F32 {
                return Err(problem(format!(
                    "weight `{name}` has the dtype {:?}, but a bundle has F32",
                    info.dtype
                )));
            }
        }
        match found.into_keys().min() {
            Some(name) => Err(problem(format!("weight `{name}` is not part of the model"))),
            None => Ok(()),
        }
    }

    /// Refuses values that are infinite or not a number. All weights must be `F32`.
    pub(super) fn check_values(&self) -> Result<(), InferError> {
        let read_error = |source| InferError::Read { path: self.path.clone(), source };
        let mut file = File::open(&self.path).map_err(read_error)?;
        file.seek(SeekFrom::Start(8 + self.len)).map_err(read_error)?;
        let mut bytes = vec![0; 4 * CHUNK];
        for (name, info) in self.weights() {
            let (start, end) = info.data_offsets;
            let mut left = end - start;
            while left > 0 {
                let chunk = &mut bytes[..left.min(4 * CHUNK)];
                file.read_exact(chunk).map_err(read_error)?;
                if let Some(place) = first_not_finite(chunk) {
                    let value = (end - start - left) / 4 + place;
                    let path = self.path.clone();
                    let problem = format!("weight `{name}` is not finite at value {value}");
                    return Err(InferError::Weights { path, problem });
                }
                left -= chunk.len();
            }
        }
        Ok(())
    }
}

/// The first of little-endian `f32` values that is infinite or not a number: all bits of its exponent
/// are set.
fn first_not_finite(bytes: &[u8]) -> Option<usize> {
    const EXPONENT: u32 = 0x7f80_0000;
    let (values, _) = bytes.as_chunks::<4>();
    let is_finite = |value: &[u8; 4]| u32::from_le_bytes(*value) & EXPONENT != EXPONENT;
    // Without an early exit the first pass is one of vectors.
    if values.iter().fold(true, |all, value| all & is_finite(value)) {
        return None;
    }
    values.iter().position(|value| !is_finite(value))
}

/// Puts the weights in the file at `path` into `model`.
pub(super) fn load(model: &mut Transformer, path: &Path) -> Result<(), InferError> {
    let problem = |problem| InferError::Weights { path: path.into(), problem };
    // Validation is ours, so that the message is ours too.
    let mut store = SafetensorsStore::from_file(path).validate(false).allow_partial(true);
    let result = model.load_from(&mut store).map_err(|error| problem(error.to_string()))?;
    if let Some(error) = result.errors.first() {
        return Err(problem(error.to_string()));
    }
    if let Some((name, _)) = result.missing.first() {
        return Err(problem(format!("weight `{name}` is missing")));
    }
    match result.unused.first() {
        Some(name) => Err(problem(format!("weight `{name}` is not part of the model"))),
        None => Ok(()),
    }
}

/// Writes the weights of `model` in single precision to `path`, with the permissions of the file
/// `like`.
pub(super) fn save(
    model: &Transformer,
    path: &Path,
    like: &Path,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // One entry, for the library writes several in any order: the same weights, the same file.
    let store = SafetensorsStore::from_file(path).clear_metadata().metadata("producer", "tx");
    let mut store = store.overwrite(true);
    let saved = match model.dtype() {
        DType::F32 => model.save_into(&mut store),
        _ => model.clone().cast(FloatDType::F32).save_into(&mut store),
    };
    saved.map_err(|error| error.to_string())?;
    // The library makes files for nobody else to read; these are to be shared as the others are.
    fs::set_permissions(path, fs::metadata(like)?.permissions())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(content: &[u8]) -> Result<Header, InferError> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(WEIGHTS), content).unwrap();
        Header::read(folder.path())
    }

    /// A file with this header and so many zero bytes.
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
            // 2⁶³ · 2 values are none in 64 bits.
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
                "asks for 8 bytes of weights, found 12",
            ),
        ];
        for (content, expected) in cases {
            let error = header(&content).unwrap_err().to_string();
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
        for (place, value) in [(0, f32::NAN), (CHUNK, f32::INFINITY), (count - 1, -f32::INFINITY)] {
            let folder = tempfile::tempdir().unwrap();
            let mut content = whole.clone();
            content[start + 4 * place..][..4].copy_from_slice(&value.to_le_bytes());
            fs::write(folder.path().join(WEIGHTS), &content).unwrap();
            let error = Header::read(folder.path()).unwrap().check_values().unwrap_err();
            let expected = format!("weight `b` is not finite at value {place}");
            assert!(error.to_string().contains(&expected), "{error}");
        }
        for value in [f32::MAX, f32::MIN, f32::MIN_POSITIVE, -0.0, f32::from_bits(1)] {
            assert_eq!(first_not_finite(&value.to_le_bytes()), None, "{value}");
        }
    }
}
