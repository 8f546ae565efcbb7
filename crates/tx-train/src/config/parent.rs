//! Bundle that a run continues.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use tx_infer::{
    BundleInfo, InferError, ModelTask, TaskKind,
    bundle::{Languages, WEIGHTS},
};
use tx_model::Tying;
use tx_text::{Lowercase, Tokenizer, TokenizerConfig, Tokenizers};

use super::{
    data::DataConfig,
    language_codes::LanguageCodes,
    optimization::OptimizationConfig,
    table::{merge, settings, to_table},
};
use crate::error::TrainError;

/// Keys of `[model]` that change neither the shape nor the meaning of a weight.
const FREE: [&str; 3] = ["dropout", "init", "embedding_init"];

/// Bundle whose weights, tokenizers and model configuration a run starts from.
///
/// In a file, the key `from` is the folder of the bundle; the builder then adds the configuration of
/// the model. A complete configuration has `from_bundle` instead, with the hash of the weights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "FolderOrParent")]
pub struct ParentBundle {
    /// Folder.
    pub path: PathBuf,
    /// SHA-256 of `model.safetensors`, in hexadecimal.
    pub sha256: String,
}

/// Value of `from`, or of `from_bundle`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected the folder of a bundle")]
enum FolderOrParent {
    Folder(PathBuf),
    Parent { path: PathBuf, sha256: String },
}

impl From<FolderOrParent> for ParentBundle {
    fn from(value: FolderOrParent) -> Self {
        match value {
            FolderOrParent::Folder(path) => Self { path, sha256: String::new() },
            FolderOrParent::Parent { path, sha256 } => Self { path, sha256 },
        }
    }
}

impl ParentBundle {
    /// Reads the description of the bundle.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or its weights have changed since the configuration was written.
    pub(crate) fn read(&self) -> Result<BundleInfo, TrainError> {
        let info = BundleInfo::read(&self.path)?;
        let sha256 = hash_of_weights(&info);
        if self.sha256 == sha256 {
            return Ok(info);
        }
        let problem = format!(
            "`from`: the weights of `{}` have changed since this configuration was written: SHA-256 \
             {sha256}, was {}",
            self.path.display(),
            self.sha256
        );
        Err(TrainError::Problems { problems: vec![problem] })
    }
}

fn hash_of_weights(info: &BundleInfo) -> String {
    let file = info.files.iter().find(|file| file.name == WEIGHTS);
    file.map(|file| file.sha256.clone()).unwrap_or_default()
}

/// Replaces task, model and tokenizers of `table`, a configuration, by those of the bundle in
/// `folder`. `given` contains the keys that do not come from a recipe. Returns the problems of those
/// that differ from the bundle.
///
/// # Errors
///
/// If the bundle cannot be read.
pub(super) fn adopt(
    table: &mut toml::Table,
    given: &toml::Table,
    folder: &Path,
) -> Result<Vec<String>, TrainError> {
    let info = BundleInfo::read(folder)?;
    let mut problems = Vec::new();
    let mut differs = |key: &str, found: String, expected: String| {
        let folder = folder.display();
        problems.push(format!(
            "{key} = {found} differs from that of `from`: `{folder}` has {expected}"
        ));
    };

    let kind = info.task.kind();
    // A recipe without this key is for any task.
    let task = table.get("task").filter(|task| task.as_str() != Some(kind.name()));
    if let Some(task) = task {
        differs("`task`", task.to_string(), format!("\"{kind}\""));
    }
    table.insert("task".into(), kind.name().into());

    let mut model = to_table(&info.config)?;
    let section = |name: &str| given.get(name).and_then(toml::Value::as_table);
    let of_bundle = settings(&model);
    let mut kept = toml::Table::new();
    for (key, value) in section("model").into_iter().flatten() {
        if FREE.contains(&key.as_str()) || !model.contains_key(key) {
            // Unknown keys are reported as such.
            kept.insert(key.clone(), value.clone());
            continue;
        }
        for (key, found) in settings(&toml::Table::from_iter([(key.clone(), value.clone())])) {
            match of_bundle.get(&key) {
                Some(expected) if same(expected, &found) => {}
                Some(expected) => differs(&format!("[model] `{key}`"), found, expected.clone()),
                None => differs(&format!("[model] `{key}`"), found, "no such key".into()),
            }
        }
    }
    merge(&mut model, kept);
    table.insert("model".into(), model.into());

    if let ModelTask::Classify { pooling, .. } = &info.task {
        let of_bundle = to_table(&BTreeMap::from([("pooling", pooling)]))?;
        let pooling = &of_bundle["pooling"];
        let found = section("classification").and_then(|section| section.get("pooling"));
        if let Some(found) = found.filter(|found| *found != pooling) {
            differs("[classification] `pooling`", found.to_string(), pooling.to_string());
        }
        merge(table, toml::Table::from_iter([("classification".to_owned(), of_bundle.into())]));
    }
    let tokenizer = described(kind, &info.tokenizers, info.config.tying)?;
    table.insert("tokenizer".into(), to_table(&tokenizer)?.into());
    if let Some(languages) = &info.languages {
        problems.extend(language_problems(languages, table));
    }
    let parent = ParentBundle { path: folder.into(), sha256: hash_of_weights(&info) };
    table.insert(FROM_BUNDLE.into(), to_table(&parent)?.into());
    Ok(problems)
}

/// Problems of the languages of a multilingual model. A configuration that is not valid otherwise has
/// none.
fn language_problems(languages: &Languages, table: &toml::Table) -> Vec<String> {
    fn section<T: DeserializeOwned>(table: &toml::Table, name: &str) -> Option<T> {
        table.get(name).cloned().unwrap_or_else(|| toml::Table::new().into()).try_into().ok()
    }
    let mut problems = Vec::new();
    if let Some(data) = section::<DataConfig>(table, "data") {
        for entry in data.corpora().iter().chain(&data.validation_sets()) {
            let found = LanguageCodes::choose(languages, entry).err().into_iter().flatten();
            problems
                .extend(found.filter(|problem| !problems.contains(problem)).collect::<Vec<_>>());
        }
    }
    let Some(train) = section::<OptimizationConfig>(table, "train") else { return problems };
    for (key, rate) in [("word_dropout", train.word_dropout), ("bpe_dropout", train.bpe_dropout)] {
        if rate > 0.0 {
            problems.push(format!(
                "[train] `{key}` is not available for a bundle with several languages"
            ));
        }
    }
    problems
}

/// Key of the bundle in a complete configuration.
pub(super) const FROM_BUNDLE: &str = "from_bundle";

/// Returns `true` if two values in TOML are equal; numbers may have another notation.
fn same(expected: &str, found: &str) -> bool {
    let number = |text: &str| text.replace('_', "").parse::<f64>().ok();
    expected == found || number(expected).is_some_and(|value| number(found) == Some(value))
}

/// Configuration that describes the tokenizers of a bundle, as far as a run uses it.
fn described(
    kind: TaskKind,
    tokenizers: &Tokenizers,
    tying: Tying,
) -> Result<TokenizerConfig, InferError> {
    let Tokenizers { source, target } = tokenizers;
    let lowercase = match (lowercases(source)?, lowercases(target)?) {
        (_, true) => Lowercase::Both,
        (true, false) if !kind.has_one_text() => Lowercase::Source,
        (_, false) => Lowercase::None,
    };
    let joint = kind.has_one_text() || tying == Tying::All;
    Ok(TokenizerConfig { lowercase, joint, ..TokenizerConfig::default() })
}

/// Returns `true` if a tokenizer lowercases text.
fn lowercases(tokenizer: &Tokenizer) -> Result<bool, InferError> {
    fn contains(normalizer: &Value) -> bool {
        match normalizer {
            Value::Object(fields) => {
                fields.get("type").is_some_and(|name| name == "Lowercase")
                    || fields.values().any(contains)
            }
            Value::Array(parts) => parts.iter().any(contains),
            _ => false,
        }
    }
    let json = tokenizer.to_json()?;
    let file: Value = serde_json::from_str(&json).unwrap_or_default();
    Ok(contains(&file["normalizer"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_by_value() {
        assert!(same("512", "512") && same("\"pre\"", "\"pre\"") && same("0.1", "0.10"));
        assert!(!same("512", "256") && !same("\"pre\"", "\"post\"") && !same("true", "1"));
    }

    #[test]
    fn a_lowercasing_tokenizer_is_recognized() {
        let pairs = [tx_text::SentencePair::new("A b", "C d")];
        for (lowercase, expected) in [
            (Lowercase::None, [false, false]),
            (Lowercase::Source, [true, false]),
            (Lowercase::Both, [true, true]),
        ] {
            let kind = tx_text::TokenizerKind::Word;
            let joint = false;
            let config = TokenizerConfig { kind, lowercase, joint, ..TokenizerConfig::default() };
            let tokenizers = Tokenizers::train(&config, &pairs).unwrap();
            let found =
                [&tokenizers.source, &tokenizers.target].map(|one| lowercases(one).unwrap());
            assert_eq!(found, expected);
            let described = described(TaskKind::Translate, &tokenizers, Tying::None).unwrap();
            assert_eq!((described.lowercase, described.joint), (lowercase, false));
        }
    }
}
