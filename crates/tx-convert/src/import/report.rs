//! Description of an import, and the provenance of the bundle.

use super::{Import, License};
use crate::error::ConvertError;

impl Import {
    /// Returns a description for people: names and values.
    pub fn report(&self) -> Vec<(String, String)> {
        let vocabulary = self.vocabulary();
        let mut lines = vec![
            ("format".to_owned(), self.format.to_string()),
            ("task".to_owned(), self.task.kind().to_string()),
            ("parameters".to_owned(), self.parameters().to_string()),
            ("source tokens".to_owned(), vocabulary.source.to_string()),
            ("target tokens".to_owned(), vocabulary.target.to_string()),
        ];
        let config = serde_json::to_value(&self.config).unwrap_or_default();
        for (key, value) in config.as_object().into_iter().flatten() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            lines.push((key.clone(), value));
        }
        if let Some(search) = &self.search {
            lines.push(("beam".to_owned(), search.beam.to_string()));
            lines.push(("length_penalty".to_owned(), search.length_penalty.to_string()));
        }
        let License { name, text } = &self.license;
        if let Some(name) = name {
            lines.push(("license".to_owned(), name.clone()));
        }
        if let Some(first) = text.as_deref().and_then(|text| text.trim().lines().next()) {
            lines.push(("license text".to_owned(), format!("{first} …")));
        }
        lines.extend(
            self.files
                .iter()
                .map(|file| ("file".to_owned(), format!("{} ({} bytes)", file.name, file.bytes))),
        );
        lines.extend(self.notes.iter().map(|note| ("note".to_owned(), note.clone())));
        lines
    }

    /// Origin of the bundle: format, name, hashes of the files, license.
    pub(super) fn provenance(&self) -> Result<toml::Table, ConvertError> {
        let mut hashes = toml::Table::new();
        for file in &self.files {
            hashes.insert(file.name.clone(), file.sha256()?.into());
        }
        let origin = self.origin.canonicalize().unwrap_or_else(|_| self.origin.clone());
        let name = origin.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut import = toml::Table::new();
        import.insert("format".into(), self.format.name().into());
        import.insert("from".into(), name.into());
        import.insert("sha256".into(), hashes.into());
        let License { name, text } = &self.license;
        if let Some(name) = name {
            import.insert("license".into(), name.clone().into());
        }
        if let Some(text) = text {
            import.insert("license_text".into(), text.clone().into());
        }
        if !self.notes.is_empty() {
            import.insert("notes".into(), self.notes.clone().into());
        }
        let mut provenance = toml::Table::new();
        provenance.insert("tx_version".into(), env!("CARGO_PKG_VERSION").into());
        if let Some([source, target]) = &self.pair {
            provenance.insert("source_language".into(), source.clone().into());
            provenance.insert("target_language".into(), target.clone().into());
        }
        provenance.insert("import".into(), import.into());
        Ok(provenance)
    }
}
