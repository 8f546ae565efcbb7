//! Bundles of downloaded models.

use std::{
    fs::{self, File},
    io::{self, BufReader},
    path::{Path, PathBuf},
};

use sha2::Sha256;
use tempfile::TempDir;
use tx_convert::import::import;
use tx_fetch::{Cache, Fetcher, Mode, measure};
use tx_text::compression::{ExpansionLimit, decompress};

use crate::{
    catalogue::{Entry, is_name},
    error::CatalogueError,
};

/// Folder in the cache.
const FOLDER: &str = "models";
/// File in the store that a process locks while it changes the store.
const LOCK: &str = ".lock";
/// Start of the names of temporary folders in the store.
const TEMPORARY: &str = ".new-";

/// End of the names of compressed files.
const COMPRESSED: &str = ".gz";

/// Folder with a bundle for each downloaded model.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// Uses the folder `models` of a cache, which is created on first use.
    pub fn in_cache(cache: &Cache) -> Self {
        Self { root: cache.root().join(FOLDER) }
    }

    /// Returns the folder that `path` stands for: that of a downloaded model of this name, if there is
    /// no file or folder of the name.
    pub fn resolve(path: PathBuf) -> PathBuf {
        let bundle = || {
            let name = path.to_str().filter(|_| !path.exists())?;
            Self::in_cache(&Cache::of_user().ok()?).bundle(name).ok()
        };
        bundle().unwrap_or(path)
    }

    /// Returns the folder of the store.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the bundle of a model.
    ///
    /// # Errors
    ///
    /// [`CatalogueError::NotDownloaded`].
    pub fn bundle(&self, name: &str) -> Result<PathBuf, CatalogueError> {
        let path = self.root.join(name);
        match is_name(name) && path.is_dir() {
            true => Ok(path),
            false => Err(CatalogueError::NotDownloaded {
                name: name.to_owned(),
                store: self.root.clone(),
            }),
        }
    }

    /// Returns the names of the downloaded models, sorted.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn names(&self) -> Result<Vec<String>, CatalogueError> {
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|source| self.error(&self.root, source))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|source| self.error(&self.root, source))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_name(&name) && entry.path().is_dir() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Returns the bundle of a model. If it is not in the store, or in [`Mode::Refresh`], downloads the files
    /// and converts them. The files remain in the cache of the fetcher.
    ///
    /// # Errors
    ///
    /// If a file cannot be downloaded or is not the one of the catalogue, or the model cannot be converted.
    /// A bundle in the store stays as it is then.
    pub fn get(&self, entry: &Entry, fetcher: &Fetcher) -> Result<PathBuf, CatalogueError> {
        if let (Ok(bundle), Mode::Online | Mode::Offline) =
            (self.bundle(&entry.name), fetcher.mode())
        {
            return Ok(bundle);
        }
        let download = |problem| CatalogueError::Download {
            name: entry.name.clone(),
            files: entry.files.iter().map(|file| file.url.clone()).collect(),
            problem: Box::new(problem),
        };
        let mut files = Vec::new();
        for file in &entry.files {
            files.push((file.name(), fetcher.get(&file.remote()).map_err(download)?.path));
        }
        self.convert(entry, &files)
    }

    /// Converts a model whose files were downloaded by other means into `folder`.
    ///
    /// # Errors
    ///
    /// If a file is missing or is not the one of the catalogue, or the model cannot be converted.
    pub fn get_from(&self, entry: &Entry, folder: &Path) -> Result<PathBuf, CatalogueError> {
        let mut files = Vec::new();
        for file in &entry.files {
            let path = folder.join(file.name());
            let measured = measure::<Sha256>(&path);
            let (bytes, sha256) = measured.map_err(|source| self.error(&path, source))?;
            let other = |problem| CatalogueError::OtherFile { path: path.clone(), problem };
            if let Some(expected) = file.bytes.filter(|&expected| expected != bytes) {
                return Err(other(format!("it has {bytes} bytes, expected {expected}")));
            }
            if let Some(expected) =
                file.sha256.as_ref().filter(|it| !it.eq_ignore_ascii_case(&sha256))
            {
                return Err(other(format!("its SHA-256 is {sha256}, expected {expected}")));
            }
            files.push((file.name(), path));
        }
        self.convert(entry, &files)
    }

    /// Deletes the bundle of a model. Downloaded files remain in the cache.
    ///
    /// # Errors
    ///
    /// If there is none, or it cannot be deleted.
    pub fn remove(&self, name: &str) -> Result<(), CatalogueError> {
        let _lock = self.lock()?;
        let bundle = self.bundle(name)?;
        // A bundle that is half deleted has no name.
        let old = self.temporary()?;
        let moved = old.path().join(name);
        fs::rename(&bundle, &moved).map_err(|source| self.error(&bundle, source))?;
        fs::remove_dir_all(&moved).map_err(|source| self.error(&moved, source))
    }

    /// Writes the bundle of a model with these files, each with its name and path.
    fn convert(&self, entry: &Entry, files: &[(&str, PathBuf)]) -> Result<PathBuf, CatalogueError> {
        let _lock = self.lock()?;
        let work = self.temporary()?;
        // The format of a folder needs all files beside each other, and a bundle records its name.
        let folder = work.path().join("from").join(&entry.name);
        fs::create_dir_all(&folder).map_err(|source| self.error(&folder, source))?;
        let mut placed = Vec::new();
        for (name, path) in files {
            let to = folder.join(name.strip_suffix(COMPRESSED).unwrap_or(name));
            let result = match name.ends_with(COMPRESSED) {
                true => unpack(path, &to),
                false => fs::hard_link(path, &to).or_else(|_| fs::copy(path, &to).map(drop)),
            };
            result.map_err(|source| self.error(path, source))?;
            placed.push(to);
        }
        let from = match <[PathBuf; 1]>::try_from(placed) {
            Ok([file]) => file,
            Err(_) => folder,
        };
        let bundle = self.root.join(&entry.name);
        let new = work.path().join("bundle");
        import(&from, entry.format().ok())?.save(&new)?;
        if bundle.exists() {
            let old = work.path().join("old");
            fs::rename(&bundle, &old).map_err(|source| self.error(&bundle, source))?;
        }
        fs::rename(&new, &bundle).map_err(|source| self.error(&bundle, source))?;
        Ok(bundle)
    }

    /// Waits until no other process changes the store, and deletes what a process left that was killed. The
    /// store is locked until the file is closed.
    fn lock(&self) -> Result<File, CatalogueError> {
        fs::create_dir_all(&self.root).map_err(|source| self.error(&self.root, source))?;
        let path = self.root.join(LOCK);
        let file = File::create(&path).and_then(|file| file.lock().map(|()| file));
        let file = file.map_err(|source| self.error(&path, source))?;
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
                // A folder that cannot be deleted is in nobody's way.
                drop(fs::remove_dir_all(entry.path()));
            }
        }
        Ok(file)
    }

    /// Folder in the store that is deleted afterwards. Its name is that of no model.
    fn temporary(&self) -> Result<TempDir, CatalogueError> {
        tempfile::Builder::new()
            .prefix(TEMPORARY)
            .tempdir_in(&self.root)
            .map_err(|source| self.error(&self.root, source))
    }

    fn error(&self, path: &Path, source: io::Error) -> CatalogueError {
        CatalogueError::Io { path: path.to_owned(), source }
    }
}

/// Writes the content of a compressed file.
fn unpack(path: &Path, to: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let limit = ExpansionLimit::default();
    let mut content = decompress(Box::new(BufReader::new(file)), Some(size), limit)?;
    io::copy(&mut content, &mut File::create(to)?).map(drop)
}
