//! Tensors of PyTorch files, `.bin` and `.pt`. The pickle in them is interpreted by a reader that
//! executes nothing.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufReader, Read},
    path::Path,
};

use pytorch_reader::{DType, PytorchReader};
use serde::Deserialize;
use zip::{CompressionMethod, ZipArchive};

use super::{ElementType, Tensor, Tensors, elements, pickle, safetensors::shards};
use crate::{
    error::ConvertError,
    import::source_files::{SourceFiles, regular_file},
};

/// Largest pickle in bytes. The pickle of a model with 1,000 tensors has 150 kB.
const MAX_PICKLE: u64 = 16 << 20;

/// Name of the pickle in an archive.
const PICKLE: &str = "data.pkl";

/// Pickles at the start of a file of PyTorch before version 1.6: magic number, version, machine, the
/// saved object, and the order of its storages.
const OLD_PICKLES: usize = 5;

/// Index of a model in shards: the file of each tensor.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Tensors {
    /// Opens a file written by `torch.save`. With `key`, the tensors are those of the dictionary
    /// under this key of the saved object.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is damaged, contains objects other than tensors and plain values, or
    /// a tensor that is larger than the file.
    pub(crate) fn open_pytorch(path: &Path, key: Option<&str>) -> Result<Self, ConvertError> {
        let mut tensors = Self::new(path);
        tensors.add_pytorch(path, key)?;
        Ok(tensors)
    }

    /// Opens the shards that an index, `pytorch_model.bin.index.json`, names.
    ///
    /// # Errors
    ///
    /// Same as [`open_safetensors_index`](Self::open_safetensors_index).
    pub(crate) fn open_pytorch_index(
        index: &Path,
        files: &mut SourceFiles,
    ) -> Result<Self, ConvertError> {
        let content = files.json::<Index>(index)?;
        let mut tensors = Self::new(index);
        for shard in shards(index, content.weight_map.values())? {
            let path = index.with_file_name(shard);
            files.add(&path)?;
            tensors.add_pytorch(&path, None)?;
        }
        tensors.check_index(content.weight_map.keys())?;
        Ok(tensors)
    }

    fn add_pytorch(&mut self, path: &Path, key: Option<&str>) -> Result<(), ConvertError> {
        let problem = |problem: String| ConvertError::File { path: path.to_owned(), problem };
        let size = regular_file(path)?;
        check_pickles(path, size).map_err(problem)?;
        let reader = match key {
            Some(key) => PytorchReader::with_top_level_key(path, key),
            None => PytorchReader::new(path),
        };
        let reader = reader.map_err(|error| problem(error.to_string()))?;
        for (name, tensor) in reader.into_tensors() {
            let (shape, element) = (tensor.shape().to_vec(), element(tensor.dtype()));
            // A view can repeat its values, so that the file does not limit its size.
            let bytes = elements(&shape).and_then(|count| count.checked_mul(tensor.dtype().size()));
            if bytes.is_none_or(|bytes| bytes as u64 > size) {
                return Err(problem(format!("the tensor `{name}` is larger than the file")));
            }
            let read = move || {
                let mut bytes = tensor.read()?;
                // The reader returns values in the byte order of this machine.
                if cfg!(target_endian = "big") {
                    bytes.chunks_mut(tensor.dtype().size()).for_each(<[u8]>::reverse);
                }
                Ok(bytes)
            };
            self.insert(name, Tensor::new(shape, element, read))?;
        }
        Ok(())
    }
}

/// Checks the names in the pickles of a file before it is opened.
///
/// # Errors
///
/// If it is neither an archive nor a pickle, a pickle is compressed, too large or damaged, or names
/// a class or function that is not part of tensors.
fn check_pickles(path: &Path, size: u64) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let file = File::open(path).map_err(text)?;
    let mut start = Vec::new();
    (&file).take(4).read_to_end(&mut start).map_err(text)?;
    let file = File::open(path).map_err(text)?;
    if start.starts_with(b"PK\x03\x04") {
        let bytes = archived_pickle(file, size)?;
        return pickle::check(&bytes).map(|_| ());
    }
    if !start.starts_with(b"\x80") {
        return Err("it is neither an archive nor a pickle".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(MAX_PICKLE).read_to_end(&mut bytes).map_err(text)?;
    let mut rest = bytes.as_slice();
    for _ in 0..OLD_PICKLES {
        let length = pickle::check(rest)?;
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(())
}

/// Reads the pickle of an archive, which `torch.save` never compresses.
fn archived_pickle(file: File, size: u64) -> Result<Vec<u8>, String> {
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| error.to_string())?;
    let mut found = None;
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(|error| error.to_string())?;
        let name = entry.name().map_err(|error| error.to_string())?;
        if name.ends_with(PICKLE) && found.replace(index).is_some() {
            return Err(format!("it contains several files `{PICKLE}`"));
        }
    }
    let index = found.ok_or_else(|| format!("it contains no `{PICKLE}`"))?;
    let entry = archive.by_index(index).map_err(|error| error.to_string())?;
    if entry.compression() != CompressionMethod::Stored {
        return Err(format!("its `{PICKLE}` is compressed"));
    }
    let most = MAX_PICKLE.min(size);
    if entry.size() > most {
        return Err(format!("its `{PICKLE}` has {} bytes, more than {most}", entry.size()));
    }
    let mut bytes = Vec::new();
    entry.take(most).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn element(dtype: DType) -> ElementType {
    match dtype {
        DType::F32 => ElementType::F32,
        DType::F16 => ElementType::F16,
        DType::BF16 => ElementType::BF16,
        DType::F64 => ElementType::Other("F64"),
        DType::I64 => ElementType::Other("I64"),
        DType::I32 => ElementType::Other("I32"),
        DType::I16 => ElementType::Other("I16"),
        DType::I8 => ElementType::Other("I8"),
        DType::U64 => ElementType::Other("U64"),
        DType::U32 => ElementType::Other("U32"),
        DType::U16 => ElementType::Other("U16"),
        DType::U8 => ElementType::Other("U8"),
        DType::Bool => ElementType::Other("BOOL"),
    }
}
