//! Tensors of PyTorch files, `.bin` and `.pt`. The pickle in them is interpreted by a reader that
//! executes nothing.

use std::{collections::BTreeMap, path::Path};

use pytorch_reader::{DType, PytorchReader};
use serde::Deserialize;

use super::{ElementType, Tensor, Tensors, elements, safetensors::shards};
use crate::{
    error::ConvertError,
    import::source_files::{SourceFiles, regular_file},
};

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
