//! Files of a folder.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::options::Options;
use crate::{error::ConvertError, source_files::SourceFiles, tensors::Tensors};

/// A folder with the files that were read from it.
pub(super) struct Folder {
    /// Path of the folder.
    pub(super) path: PathBuf,
    /// Files that were read.
    pub(super) files: SourceFiles,
    /// Content of `config.json`.
    pub(super) config: Options,
    /// Content of `generation_config.json`, or of `config.json` if there is none.
    pub(super) generation: Options,
    /// Content of `tokenizer_config.json` and `special_tokens_map.json`.
    pub(super) tokenizer: Options,
}

impl Folder {
    /// Reads the configurations of a folder.
    ///
    /// # Errors
    ///
    /// If one is damaged, or there is no `config.json`.
    pub(super) fn open(path: &Path) -> Result<Self, ConvertError> {
        let mut files = SourceFiles::default();
        let config: Map<String, Value> = files.json(&path.join("config.json"))?;
        let mut optional = |name: &str| -> Result<Option<Map<String, Value>>, ConvertError> {
            let path = path.join(name);
            path.is_file().then(|| files.json(&path)).transpose()
        };
        let generation = optional("generation_config.json")?.unwrap_or_else(|| config.clone());
        let mut tokenizer = optional("special_tokens_map.json")?.unwrap_or_default();
        tokenizer.extend(optional("tokenizer_config.json")?.unwrap_or_default());
        Ok(Self {
            path: path.to_owned(),
            files,
            config: Options::new(config),
            generation: Options::new(generation),
            tokenizer: Options::new(tokenizer),
        })
    }

    /// Reads a file of the folder.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub(super) fn bytes(&mut self, name: &str) -> Result<Vec<u8>, ConvertError> {
        self.files.bytes(&self.path.join(name))
    }

    /// Reads a JSON file of the folder; `None` if there is no such file.
    ///
    /// # Errors
    ///
    /// If it is damaged.
    pub(super) fn json(&mut self, name: &str) -> Result<Option<Value>, ConvertError> {
        let path = self.path.join(name);
        path.is_file().then(|| self.files.json(&path)).transpose()
    }

    /// Opens the weights: safetensors, or a file of PyTorch, in one file or in shards.
    ///
    /// # Errors
    ///
    /// If there are none, or a file is damaged.
    pub(super) fn tensors(&mut self) -> Result<Tensors, ConvertError> {
        const FILES: [&str; 4] = [
            "model.safetensors",
            "model.safetensors.index.json",
            "pytorch_model.bin",
            "pytorch_model.bin.index.json",
        ];
        let found = FILES.iter().find(|name| self.path.join(name).is_file());
        let Some(name) = found else {
            let problem = format!("it has none of {}", FILES.join(", "));
            return Err(ConvertError::File { path: self.path.clone(), problem });
        };
        let path = self.path.join(name);
        self.files.add(&path)?;
        match *name {
            "model.safetensors" => Tensors::open_safetensors(&path),
            "model.safetensors.index.json" => {
                Tensors::open_safetensors_index(&path, &mut self.files)
            }
            "pytorch_model.bin" => Tensors::open_pytorch(&path, None),
            _ => Tensors::open_pytorch_index(&path, &mut self.files),
        }
    }

    /// Returns all problems of the configurations.
    ///
    /// # Errors
    ///
    /// [`ConvertError::Unsupported`] if there are any.
    pub(super) fn check(&mut self) -> Result<(), ConvertError> {
        let mut problems = self.config.problems();
        problems.extend(self.generation.problems());
        problems.extend(self.tokenizer.problems());
        match problems.is_empty() {
            true => Ok(()),
            false => {
                Err(ConvertError::Unsupported { path: self.path.join("config.json"), problems })
            }
        }
    }

    /// Describes a problem of a file of the folder.
    pub(super) fn problem(&self, name: &str, problem: impl Into<String>) -> ConvertError {
        ConvertError::File { path: self.path.join(name), problem: problem.into() }
    }
}
