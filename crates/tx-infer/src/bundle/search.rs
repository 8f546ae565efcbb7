//! Default search options of an existing bundle.

use std::path::Path;

use super::{Bundle, CONFIG, FORMAT, config::BundleConfig, files::Files};
use crate::{error::InferError, search::SearchOptions};

/// Replaces the default search options of the bundle in `folder`, such as the length penalty that is best
/// on validation data. The weights are not touched.
///
/// # Errors
///
/// If there is no valid bundle for translation or language modeling, the options are invalid for it, or
/// the configuration cannot be written.
pub fn set_search(folder: &Path, search: &SearchOptions) -> Result<(), InferError> {
    let bundle = Bundle::open(folder)?;
    let path = folder.join(CONFIG);
    let (mut config, _) = BundleConfig::read(&Files::Folder(folder.into()))?;
    config.format = config.format.max(FORMAT);
    config.search = Some(search.clone());
    config.check_options(&path, &bundle.tokenizers)?;
    config.write(&path)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;

    /// Copy of the bundle of an older format.
    fn copy(folder: &Path) -> PathBuf {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/bundle-v1");
        for entry in fs::read_dir(fixture).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
        }
        folder.to_owned()
    }

    #[test]
    fn options_are_replaced_and_checked() {
        let folder = tempfile::tempdir().unwrap();
        let bundle = copy(folder.path());
        let weights = || fs::read(bundle.join("model.safetensors")).unwrap();
        let before = (weights(), Bundle::open(&bundle).unwrap().config.clone());
        let search = SearchOptions { length_penalty: 1.5, ..SearchOptions::default() };
        for _ in 0..2 {
            set_search(&bundle, &search).unwrap();
            let opened = Bundle::open(&bundle).unwrap();
            assert_eq!(opened.search, Some(search.clone()));
            assert_eq!((weights(), opened.config.clone()), before);
        }
        let wrong = SearchOptions { beam: 0, ..search.clone() };
        let error = set_search(&bundle, &wrong).unwrap_err().to_string();
        assert!(error.contains("`search`: "), "{error}");
        assert_eq!(Bundle::open(&bundle).unwrap().search, Some(search));
    }
}
