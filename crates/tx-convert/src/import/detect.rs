//! Detection of the format of a model from its content.

use std::path::Path;

use serde::Deserialize;

use super::{
    ImportFormat,
    content::{Content, files},
    ctranslate2::{MODEL, Package},
    fairseq, joeynmt, pytorch,
    tutorial::checkpoint,
};
use crate::{error::ConvertError, source_files::SourceFiles};

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

#[cfg(test)]
mod tests {
    use std::fs;

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
