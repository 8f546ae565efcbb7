//! Files that a path or a pattern names.

use std::path::{Path, PathBuf};

use crate::error::DataError;

/// Returns `true` if a path contains `*`, `?` or `[`, and does not exist.
pub fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '[']) && !path.exists()
}

/// Returns the files of a pattern with `*`, `?` or `[…]` in alphabetical order; `**` stands for any
/// number of folders. A path that exists, or that contains none of these characters, is returned
/// unchanged.
///
/// # Errors
///
/// [`DataError::NoPairs`] if the pattern is malformed or no file matches it.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    let text = path.to_string_lossy();
    if !is_pattern(path) {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |reason: String| DataError::NoPairs { what: format!("`{text}`"), reason };
    let found = glob::glob(&text).map_err(|error| failed(error.to_string()))?;
    // A folder that cannot be read is an error, because its files would be missing silently.
    let found: Result<Vec<PathBuf>, _> = found.collect();
    let mut found = found.map_err(|error| failed(error.to_string()))?;
    found.retain(|path| path.is_file());
    found.sort();
    match found.is_empty() {
        true => Err(failed("no file matches".into())),
        false => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_pattern_names_files_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.en", "a.en", "a.de", "c[1].en", "part/d.en"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let found = |pattern: &str| {
            files(&folder.path().join(pattern)).map(|found| {
                let name = |path: &PathBuf| {
                    path.strip_prefix(folder.path()).unwrap().to_string_lossy().into_owned()
                };
                found.iter().map(name).collect::<Vec<_>>()
            })
        };
        assert_eq!(found("*.en").unwrap(), ["a.en", "b.en", "c[1].en"]);
        assert_eq!(found("[ab].*").unwrap(), ["a.de", "a.en", "b.en"]);
        assert_eq!(found("**/d.en").unwrap(), ["part/d.en"]);
        // A file whose name looks like a pattern.
        assert_eq!(found("c[1].en").unwrap(), ["c[1].en"]);
        // Reading reports that it does not exist.
        assert_eq!(found("none").unwrap(), ["none"]);
        let error = found("*.fr").unwrap_err().to_string();
        assert!(error.contains("*.fr`: no file matches"), "{error}");
        assert!(found("[").is_err());
    }
}
