//! Detection of the format of a model from its content.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{
    ImportFormat,
    ctranslate2::{MODEL, Package},
    fairseq, joeynmt, pytorch,
    tutorial::checkpoint,
};
use crate::{
    error::ConvertError,
    marian::{binary, binary_shortlist},
    source_files::{SourceFiles, regular_file},
};

/// Key of `config.json` that names the architecture.
#[derive(Deserialize)]
struct ModelType {
    #[serde(default)]
    model_type: Option<String>,
}

/// Detects the format of a file or folder.
///
/// # Errors
///
/// [`ConvertError::UnknownFormat`] with the reason; an error of reading.
pub(super) fn detect(from: &Path) -> Result<ImportFormat, ConvertError> {
    let unknown = |problem: String| ConvertError::UnknownFormat { path: from.to_owned(), problem };
    if joeynmt::is_model(from) {
        return Ok(ImportFormat::JoeyNmt);
    }
    if !from.is_dir() {
        return match Content::of(from)? {
            Content::PyTorch if Package::is_file(from) => Ok(ImportFormat::CTranslate2),
            Content::Npz | Content::MarianBinary => Ok(ImportFormat::Marian),
            Content::PyTorch => Ok(of_pytorch(from)),
            Content::MarianShortlist => Err(unknown(
                "it is a shortlist of Marian; import the folder of its model".to_owned(),
            )),
            Content::Other => Err(unknown(
                "it is no `.npz` or `.bin` of Marian, no file of PyTorch and no package of Argos \
                 Translate"
                    .to_owned(),
            )),
        };
    }
    let model = from.join(MODEL);
    if model.is_file() && Content::of(&model)? == Content::MarianBinary {
        return Ok(ImportFormat::Marian);
    }
    if model.is_file() || Package::is_folder(from) {
        return Ok(ImportFormat::CTranslate2);
    }
    let config = from.join("config.json");
    if config.is_file() {
        let ModelType { model_type } = SourceFiles::default().json(&config)?;
        return match model_type.as_deref() {
            Some("marian" | "pegasus") => Ok(ImportFormat::TransformersMarian),
            Some("m2m_100") => Ok(ImportFormat::TransformersM2m100),
            Some(other) => Err(unknown(format!(
                "`model_type` in `config.json` is `{other}`, supported are `marian`, `pegasus` \
                 and `m2m_100`"
            ))),
            None => Err(unknown("`config.json` has no `model_type`".to_owned())),
        };
    }
    let contents: Vec<Content> =
        files(from)?.iter().map(|path| Content::of(path)).collect::<Result<_, _>>()?;
    if contents.contains(&Content::Npz) || contents.contains(&Content::MarianBinary) {
        Ok(ImportFormat::Marian)
    } else if contents.contains(&Content::PyTorch) {
        Ok(of_pytorch(&checkpoint(from, &mut Vec::new())?))
    } else {
        let packed = files(from)?.into_iter().find_map(|path| {
            let name = path.file_name()?.to_str()?.to_owned();
            [".bin.gz", ".bin.zst", ".bin.xz"].iter().any(|end| name.ends_with(end)).then_some(name)
        });
        Err(unknown(match packed {
            Some(name) => format!("`{name}` is compressed; unpack the files of the model"),
            None => {
                "it has no `config.json`, no `model.bin`, no `.npz`, no `.bin` of Marian and no \
                     `.pt`"
                    .to_owned()
            }
        }))
    }
}

/// Format of a file of PyTorch.
fn of_pytorch(checkpoint: &Path) -> ImportFormat {
    if fairseq::is_checkpoint(checkpoint) {
        ImportFormat::Fairseq
    } else if pytorch::is_transformer(checkpoint) {
        ImportFormat::PyTorchTransformer
    } else {
        ImportFormat::TutorialCheckpoint
    }
}

/// Kind of a file of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Archive of numpy arrays.
    Npz,
    /// Binary model of Marian.
    MarianBinary,
    /// Binary shortlist of Marian.
    MarianShortlist,
    /// File written by `torch.save`.
    PyTorch,
    /// Another kind.
    Other,
}

impl Content {
    /// Detects the kind of a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub(super) fn of(path: &Path) -> Result<Self, ConvertError> {
        match regular_file(path) {
            // Only a missing file of weights is a problem.
            Err(ConvertError::GitLfsPointer { .. }) if !has_weights_name(path) => {
                return Ok(Self::Other);
            }
            other => other?,
        };
        let mut start = Vec::new();
        let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut start));
        read.map_err(|source| ConvertError::Read { path: path.to_owned(), source })?;
        if !start.starts_with(b"PK\x03\x04") {
            if binary::is_binary(&start) {
                return Ok(Self::MarianBinary);
            }
            if binary_shortlist::is_shortlist(&start) {
                return Ok(Self::MarianShortlist);
            }
            // The pickle of `torch.save` before version 1.6 starts with its protocol.
            let is_pickle = start.starts_with(b"\x80") && has_weights_name(path);
            return Ok(if is_pickle { Self::PyTorch } else { Self::Other });
        }
        // The first entry of an archive follows the fixed fields of its header, 30 bytes.
        let name = start.get(30..).unwrap_or_default();
        let length = start.get(26..28).unwrap_or_default();
        let length = length.first_chunk::<2>().map_or(0, |bytes| u16::from_le_bytes(*bytes));
        let name = name.get(..usize::from(length)).unwrap_or(name);
        let is_npz = name.ends_with(b".npy") || path.extension().is_some_and(|end| end == "npz");
        Ok(if is_npz { Self::Npz } else { Self::PyTorch })
    }
}

/// Returns `true` if the name of a file is that of weights.
fn has_weights_name(path: &Path) -> bool {
    path.extension().is_some_and(|end| ["pt", "pth", "ckpt", "npz"].iter().any(|it| end == *it))
}

/// Regular files in a folder, sorted by name.
///
/// # Errors
///
/// If the folder cannot be read.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, ConvertError> {
    let read_error = |source| ConvertError::Read { path: folder.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(read_error)? {
        let path = entry.map_err(read_error)?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Local header of a zip archive whose first entry has this name.
    fn archive(name: &str) -> Vec<u8> {
        let mut header = b"PK\x03\x04".to_vec();
        header.resize(26, 0);
        header.extend((name.len() as u16).to_le_bytes());
        header.extend([0, 0]);
        header.extend(name.as_bytes());
        header.extend([0; 20]);
        header
    }

    #[test]
    fn the_content_decides() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert!(detect(folder.path()).is_err());
        fs::write(at("notes.txt"), "no model").unwrap();
        assert!(detect(folder.path()).is_err());
        fs::write(at("tmodel_02.pt"), archive("tmodel_02/data.pkl")).unwrap();
        assert_eq!(detect(folder.path()).unwrap(), ImportFormat::TutorialCheckpoint);
        fs::write(at("model"), archive("decoder_Wemb.npy")).unwrap();
        assert_eq!(detect(folder.path()).unwrap(), ImportFormat::Marian);
        assert_eq!(detect(&at("model")).unwrap(), ImportFormat::Marian);
        assert_eq!(detect(&at("tmodel_02.pt")).unwrap(), ImportFormat::TutorialCheckpoint);
        for (model_type, expected) in [
            ("marian", ImportFormat::TransformersMarian),
            ("pegasus", ImportFormat::TransformersMarian),
            ("m2m_100", ImportFormat::TransformersM2m100),
        ] {
            let config = format!(r#"{{"model_type": "{model_type}"}}"#);
            fs::write(at("config.json"), config).unwrap();
            assert_eq!(detect(folder.path()).unwrap(), expected);
        }
        fs::write(at("config.json"), r#"{"model_type": "t5"}"#).unwrap();
        let error = detect(folder.path()).unwrap_err().to_string();
        assert!(error.contains("`t5`"), "{error}");
    }
}
