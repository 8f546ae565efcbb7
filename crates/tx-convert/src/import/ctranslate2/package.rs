//! Packages of Argos Translate, `.argosmodel`: a zip archive with `metadata.json`, a SentencePiece
//! model and the folder of a model, `model`.

use std::{
    borrow::Cow,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use tempfile::TempDir;
use tx_infer::SearchOptions;
use zip::ZipArchive;

use super::MODEL;
use crate::{
    error::ConvertError,
    source_files::{SourceFiles, regular_file},
};

/// Maximum number of bytes of the files of a package together.
const MOST_BYTES: u64 = 8 << 30;
/// Maximum number of bytes of a file for each byte in the archive. Weights are hardly compressed.
const MOST_GROWTH: u64 = 64;
/// Maximum number of files of a package.
const MOST_FILES: usize = 4_096;
/// Maximum number of parts of the path of a file that is used, as in `translate-en_it/model/model.bin`.
/// Packages also have models for the division into sentences, in deeper folders.
const DEEPEST: usize = 3;
/// Name of the description of a package.
const METADATA: &str = "metadata.json";
/// Folder of the model in a package.
const FOLDER: &str = "model";

/// Description of a package.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    from_code: String,
    to_code: String,
    target_prefix: String,
}

/// Folder of a model, which may be in a package.
pub(in crate::import) struct Package {
    folder: PathBuf,
    model: PathBuf,
    metadata: Option<Metadata>,
    unpacked: Option<TempDir>,
}

impl Package {
    /// Opens the folder of a model or of a package, or unpacks the file of a package.
    ///
    /// # Errors
    ///
    /// If it is neither, is damaged, or has an option that tx does not support.
    pub(super) fn open(from: &Path) -> Result<Self, ConvertError> {
        let unpacked = if from.is_dir() { None } else { Some(unpack(from)?) };
        let folder = match &unpacked {
            None => from.to_owned(),
            Some(unpacked) => content(unpacked.path(), from)?,
        };
        if folder.join(MODEL).is_file() {
            return Ok(Self { model: folder.clone(), folder, metadata: None, unpacked });
        }
        let path = folder.join(METADATA);
        let metadata: Metadata = SourceFiles::default().json(&path)?;
        if !metadata.target_prefix.is_empty() {
            let problem = format!("`target_prefix` = \"{}\"", metadata.target_prefix);
            return Err(ConvertError::Unsupported { path, problems: vec![problem] });
        }
        let model = folder.join(FOLDER);
        Ok(Self { folder, model, metadata: Some(metadata), unpacked })
    }

    /// Returns `true` if a folder has a package.
    pub(in crate::import) fn is_folder(folder: &Path) -> bool {
        folder.join(METADATA).is_file() && folder.join(FOLDER).join(MODEL).is_file()
    }

    /// Returns `true` if a file is a zip archive with a description and a model.
    pub(in crate::import) fn is_file(path: &Path) -> bool {
        let Some(archive) = File::open(path).ok().and_then(|file| ZipArchive::new(file).ok())
        else {
            return false;
        };
        let model = format!("{FOLDER}/{MODEL}");
        let names = archive.file_names().take(MOST_FILES).filter_map(Result::ok);
        let names: Vec<String> = names.map(Cow::into_owned).collect();
        [METADATA, &model].iter().all(|end| {
            names.iter().any(|name| {
                name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
            })
        })
    }

    /// Folder that contains the SentencePiece model.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Folder of the model.
    pub(super) fn model(&self) -> &Path {
        &self.model
    }

    /// Languages of the package.
    pub(super) fn pair(&self) -> Option<[String; 2]> {
        let Metadata { from_code, to_code, .. } = self.metadata.as_ref()?;
        let has_codes = !from_code.is_empty() && !to_code.is_empty();
        has_codes.then(|| [from_code.clone(), to_code.clone()])
    }

    /// Search options that Argos Translate uses, or those of CTranslate2.
    pub(super) fn search(&self) -> SearchOptions {
        let default = SearchOptions { min_len: 1, max_repeats: 0, ..SearchOptions::default() };
        match self.metadata {
            None => default,
            Some(_) => {
                SearchOptions { beam: 4, length_penalty: 0.2, replace_unknown: true, ..default }
            }
        }
    }

    /// Files that are needed until the bundle is saved.
    pub(super) fn into_unpacked(self) -> Option<TempDir> {
        self.unpacked
    }
}

/// Folder of a package in the folder that it was unpacked to.
fn content(unpacked: &Path, from: &Path) -> Result<PathBuf, ConvertError> {
    let read = |source| ConvertError::Read { path: from.to_owned(), source };
    let mut folders = vec![unpacked.to_owned()];
    for entry in fs::read_dir(unpacked).map_err(read)? {
        folders.push(entry.map_err(read)?.path());
    }
    folders.into_iter().find(|folder| Package::is_folder(folder)).ok_or_else(|| {
        let problem = format!("it has no `{METADATA}` beside `{FOLDER}/{MODEL}`");
        ConvertError::UnknownFormat { path: from.to_owned(), problem }
    })
}

/// Unpacks the files of an archive that a package needs. Files outside the folder, and more than the
/// limits, are refused.
fn unpack(path: &Path) -> Result<TempDir, ConvertError> {
    let problem = |problem: String| ConvertError::File { path: path.to_owned(), problem };
    let most = regular_file(path)?.saturating_mul(MOST_GROWTH).min(MOST_BYTES);
    let read = |source| ConvertError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(read)?;
    let mut archive = ZipArchive::new(file).map_err(|error| problem(error.to_string()))?;
    if archive.len() > MOST_FILES {
        return Err(problem(format!("it has more than {MOST_FILES} files")));
    }
    let folder = tempfile::tempdir().map_err(read)?;
    let mut left = most;
    for index in 0..archive.len() {
        let member = archive.by_index(index).map_err(|error| problem(error.to_string()))?;
        let Some(name) = member.enclosed_name() else {
            return Err(problem("a file in it has a path outside of it".to_owned()));
        };
        if !member.is_file() || name.components().count() > DEEPEST {
            continue;
        }
        let target = folder.path().join(name);
        let written = create(&target)
            .and_then(|mut file| io::copy(&mut member.take(left.saturating_add(1)), &mut file));
        left = left
            .checked_sub(written.map_err(read)?)
            .ok_or_else(|| problem(format!("its files have more than {most} bytes")))?;
    }
    Ok(folder)
}

fn create(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    File::create_new(path)
}
