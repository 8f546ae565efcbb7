//! Tensors of safetensors files, mapped into memory, in one file or in shards.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, de::IgnoredAny};

use super::{ElementType, Tensor, Tensors};
use crate::{
    error::ConvertError,
    source_files::{self, SourceFiles},
};

/// Index of a model in shards: the file of each tensor.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Tensors {
    /// Maps a safetensors file.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is damaged.
    pub(crate) fn open_safetensors(path: &Path) -> Result<Self, ConvertError> {
        let mut tensors = Self::new(path);
        tensors.add_safetensors(path)?;
        Ok(tensors)
    }

    /// Maps the shards that an index, `model.safetensors.index.json`, names. They are in the folder
    /// of the index.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or is damaged, or the shards do not contain the tensors of the
    /// index.
    pub(crate) fn open_safetensors_index(
        index: &Path,
        files: &mut SourceFiles,
    ) -> Result<Self, ConvertError> {
        let content = files.json::<Index>(index)?;
        let shards = shards(index, content.weight_map.values())?;
        let mut tensors = Self::new(index);
        for shard in shards {
            let path = index.with_file_name(shard);
            files.add(&path)?;
            tensors.add_safetensors(&path)?;
        }
        tensors.check_index(content.weight_map.keys())?;
        Ok(tensors)
    }

    /// Checks that the tensors are those of an index.
    pub(super) fn check_index<'a>(
        &self,
        names: impl Iterator<Item = &'a String>,
    ) -> Result<(), ConvertError> {
        let missing: Vec<String> = names
            .filter(|name| self.get(name).is_none())
            .map(|name| format!("`{name}` is in the index and in no file"))
            .collect();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(ConvertError::Weights { path: self.path.clone(), problems: missing }),
        }
    }

    fn add_safetensors(&mut self, path: &Path) -> Result<(), ConvertError> {
        let problem = |problem: String| ConvertError::File { path: path.to_owned(), problem };
        let map = source_files::map(path)?;
        let (header, metadata) =
            SafeTensors::read_metadata(&map).map_err(|error| problem(error.to_string()))?;
        // The format forbids names that are given twice, and its reader keeps the last.
        let text = map.get(8..8 + header).unwrap_or_default();
        tx_text::json::from_slice::<IgnoredAny>(text)
            .map_err(|error| problem(format!("its header: {error}")))?;
        let file = path.into();
        let infos: Vec<_> =
            metadata.tensors().into_iter().map(|(name, info)| (name, info.clone())).collect();
        for (name, info) in infos {
            let (start, end) = info.data_offsets;
            let range = header + 8 + start..header + 8 + end;
            // The header was compared with the length of the file.
            if map.get(range.clone()).is_none() {
                return Err(problem(format!("the tensor `{name}` is not in the file")));
            }
            let map = map.clone();
            let read = move || Ok(map.get(range.clone()).unwrap_or_default().to_vec());
            self.insert(name, Tensor::new(&file, info.shape, element(info.dtype), read))?;
        }
        Ok(())
    }
}

/// Names of the shards of an index. A shard is a file in the folder of the index.
pub(super) fn shards<'a>(
    index: &Path,
    names: impl Iterator<Item = &'a String>,
) -> Result<BTreeSet<&'a str>, ConvertError> {
    let shards: BTreeSet<&str> = names.map(String::as_str).collect();
    match shards.iter().find(|name| Path::new(name).file_name() != Some(name.as_ref())) {
        None => Ok(shards),
        Some(name) => Err(ConvertError::File {
            path: index.to_owned(),
            problem: format!("its file `{name}` is not in the same folder"),
        }),
    }
}

fn element(dtype: Dtype) -> ElementType {
    match dtype {
        Dtype::F32 => ElementType::F32,
        Dtype::F16 => ElementType::F16,
        Dtype::BF16 => ElementType::BF16,
        Dtype::F64 => ElementType::Other("F64"),
        Dtype::I64 => ElementType::Other("I64"),
        Dtype::I32 => ElementType::Other("I32"),
        Dtype::I8 => ElementType::Other("I8"),
        Dtype::U8 => ElementType::Other("U8"),
        Dtype::BOOL => ElementType::Other("BOOL"),
        _ => ElementType::Other("another type"),
    }
}
