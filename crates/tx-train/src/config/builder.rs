//! Builder of a configuration from a recipe, a file and single settings.

use std::{fs, path::Path};

use tx_infer::TaskKind;

use super::{
    parent,
    recipe::Recipe,
    similar::most_similar,
    table::{merge, to_table},
    train_config::TrainConfig,
};
use crate::error::TrainError;

/// Builder of a [`TrainConfig`]. Later values override earlier ones; keys without a value have
/// their default.
#[derive(Debug, Clone, Default)]
pub struct ConfigBuilder {
    table: toml::Table,
    /// Values that do not come from a recipe.
    given: toml::Table,
}

impl ConfigBuilder {
    /// Starts with a recipe.
    ///
    /// # Errors
    ///
    /// If there is no recipe of that name.
    pub fn from_recipe(name: &str) -> Result<Self, TrainError> {
        let recipe = Recipe::find(name)?;
        let table = parse(recipe.toml, &format!("recipe `{name}`"))?;
        let mut builder = Self { table, given: toml::Table::new() };
        builder.table.insert(FROM_RECIPE.into(), name.into());
        Ok(builder)
    }

    /// Starts with a file. If it has the key `recipe`, its values override those of that recipe.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or parsed.
    pub fn from_file(path: &Path) -> Result<Self, TrainError> {
        let text = fs::read_to_string(path).map_err(TrainError::reading(path))?;
        let location = format!("`{}`", path.display());
        // Keys are checked in the text itself, so that a message can name line and column.
        toml::from_str::<TrainConfig>(&text).map_err(|error| config_error(&location, &error))?;
        let mut table = parse(&text, &location)?;
        let mut builder = match table.remove("recipe").as_ref().and_then(toml::Value::as_str) {
            Some(name) => Self::from_recipe(name)?,
            None => Self::default(),
        };
        builder.merge(table);
        Ok(builder)
    }

    /// Overrides the values in `table`.
    fn merge(&mut self, table: toml::Table) {
        merge(&mut self.given, table.clone());
        merge(&mut self.table, table);
    }

    /// Starts with a complete configuration.
    ///
    /// # Errors
    ///
    /// If TOML cannot represent a number.
    pub fn from_config(config: &TrainConfig) -> Result<Self, TrainError> {
        Ok(Self { table: to_table(config)?, given: toml::Table::new() })
    }

    /// Overrides one key, as in `train.epochs=3`. The value is TOML, or a bare word that is taken
    /// as a string. An empty value resets the key to its default.
    ///
    /// # Errors
    ///
    /// If there is no `=`, or a key to reset is unknown.
    pub fn set(&mut self, setting: &str) -> Result<(), TrainError> {
        let Some((key, value)) = setting.split_once('=') else {
            return Err(TrainError::Config {
                location: format!("`--set {setting}`"),
                problem: "expected `section.key=value`".into(),
                nearest: None,
            });
        };
        let value = value.trim();
        if value.is_empty() {
            return self.reset(key.trim());
        }
        let value = format!("x = {value}")
            .parse::<toml::Table>()
            .ok()
            .and_then(|mut table| table.remove("x"))
            .unwrap_or_else(|| value.into());
        self.set_value(key.trim(), value);
        Ok(())
    }

    /// Resets one key to its default.
    fn reset(&mut self, key: &str) -> Result<(), TrainError> {
        // No key accepts such a value, so the error shows whether the key exists.
        let mut probe = self.clone();
        probe.set_value(key, vec![toml::Value::Array(Vec::new())]);
        if let Err(error) = probe.table.try_into::<TrainConfig>()
            && error.message().starts_with("unknown field ")
        {
            return Err(config_error("configuration", &error));
        }
        let (path, last) = key.rsplit_once('.').unwrap_or(("", key));
        for table in [&mut self.table, &mut self.given] {
            let mut sections = path.split('.').filter(|section| !section.is_empty());
            let table =
                sections.try_fold(table, |table, section| table.get_mut(section)?.as_table_mut());
            if let Some(table) = table {
                table.remove(last);
            }
        }
        Ok(())
    }

    /// Overrides one value; `key` is a path such as `data.train_source`.
    pub fn set_value(&mut self, key: &str, value: impl Into<toml::Value>) {
        let mut path: Vec<&str> = key.split('.').collect();
        let last = path.pop().unwrap_or_default();
        let nested = path
            .into_iter()
            .rev()
            .fold(toml::Table::from_iter([(last.to_owned(), value.into())]), |inner, key| {
                toml::Table::from_iter([(key.to_owned(), inner.into())])
            });
        self.merge(nested);
    }

    /// Overrides one value as [`set_value`](Self::set_value) does. A file with training data, such as
    /// `data.train_source`, also selects [files as the source](Self::use_files) of the data.
    pub fn set_given(&mut self, key: &str, value: impl Into<toml::Value>) {
        if ["data.train_source", "data.train_target", "data.train_file"].contains(&key) {
            self.use_files();
        }
        self.set_value(key, value);
    }

    /// Selects files as the source of the data. Numbers of pairs that another source, such as that
    /// of a recipe, was to generate do not limit the files.
    pub fn use_files(&mut self) {
        let data = self.table.get_mut("data").and_then(toml::Value::as_table_mut);
        if let Some(data) = data
            && data.get("source").is_some_and(|source| source.as_str() != Some("files"))
        {
            data.remove("train_pairs");
            data.remove("valid_pairs");
        }
        self.set_value("data.source", "files");
    }

    /// Selects generated pairs as the source of the data if it is files and no training file is named.
    /// A configuration can then be built without a corpus, for work that does not read one.
    pub fn use_generated_without_files(&mut self) {
        let data = self.table.entry("data").or_insert_with(|| toml::Table::new().into());
        let Some(data) = data.as_table_mut() else {
            return; // `build` reports it.
        };
        let names_files = ["train_source", "train_target", "train_file", "train", "prepared"]
            .into_iter()
            .any(|key| data.contains_key(key));
        let is_files = data.get("source").is_none_or(|source| source.as_str() == Some("files"));
        if is_files && !names_files {
            for key in ["valid_source", "valid_target", "valid_file", "valid"] {
                data.remove(key);
            }
            data.insert("source".into(), "phrasebook".into());
        }
    }

    /// Returns the task; `None` if its value is invalid, which [`build`](Self::build) reports.
    pub(crate) fn task(&self) -> Option<TaskKind> {
        self.table
            .get("task")
            .map_or(Some(TaskKind::default()), |task| task.clone().try_into().ok())
    }

    /// Builds the configuration.
    ///
    /// # Errors
    ///
    /// If a key is unknown, a value has the wrong type, values are out of range or contradict each
    /// other, or the bundle that the run starts from cannot be read.
    pub fn build(mut self) -> Result<TrainConfig, TrainError> {
        let mut problems = Vec::new();
        if let Some(folder) = self.table.remove(FROM) {
            let Some(folder) = folder.as_str() else {
                return Err(TrainError::Config {
                    location: "configuration".into(),
                    problem: format!("`{FROM}` = {folder}: expected the folder of a bundle"),
                    nearest: None,
                });
            };
            problems = parent::adopt(&mut self.table, &self.given, Path::new(folder))?;
        }
        let config: TrainConfig =
            self.table.try_into().map_err(|error| config_error("configuration", &error))?;
        problems.extend(config.problems());
        if problems.is_empty() { Ok(config) } else { Err(TrainError::Problems { problems }) }
    }
}

/// Key of the bundle that a run starts from.
const FROM: &str = "from";
/// Key that records the recipe of a configuration.
const FROM_RECIPE: &str = "from_recipe";

fn parse(text: &str, location: &str) -> Result<toml::Table, TrainError> {
    text.parse().map_err(|error| config_error(location, &error))
}

fn config_error(location: &str, error: &toml::de::Error) -> TrainError {
    let problem = error.to_string().trim_end().to_owned();
    // serde's message: unknown field `epoch`, expected one of `seed`, `epochs`, …
    let nearest = error.message().strip_prefix("unknown field ").and_then(|message| {
        let mut quoted = message.split('`').skip(1).step_by(2);
        let unknown = quoted.next()?;
        most_similar(unknown, quoted)
    });
    TrainError::Config { location: location.into(), problem, nearest }
}

#[cfg(test)]
mod tests {
    use tx_data::BatchSize;

    use super::*;
    use crate::config::{DataConfig, DataSource, recipe::RECIPES};

    #[test]
    fn every_recipe_is_a_valid_configuration() {
        for recipe in RECIPES {
            let mut builder = ConfigBuilder::from_recipe(recipe.name).unwrap();
            if recipe.about.ends_with("from files") {
                builder.set("data.train_file=pairs.tsv").unwrap();
            }
            let config = builder.build().unwrap_or_else(|error| panic!("{}: {error}", recipe.name));
            assert_eq!(config.recipe.as_deref(), Some(recipe.name));
            assert_eq!(config.task, recipe.task, "{}", recipe.name);
        }
    }

    /// The file of a recipe, parsed on its own.
    #[test]
    fn every_key_of_a_recipe_is_known() {
        for recipe in RECIPES {
            assert!(toml::from_str::<TrainConfig>(recipe.toml).is_ok(), "{}", recipe.name);
        }
    }

    #[test]
    fn settings_override_the_recipe() {
        let mut builder = ConfigBuilder::from_recipe("reverse").unwrap();
        builder.set("train.epochs=3").unwrap();
        builder.set("train.batch={ tokens = 100 }").unwrap();
        builder.set("model.norm=pre").unwrap();
        let config = builder.build().unwrap();
        assert_eq!(config.train.epochs, 3);
        assert_eq!(config.train.batch, BatchSize::Tokens(100));
        assert_eq!(config.model.norm, tx_model::NormPlacement::Pre);
        assert_eq!(config.model.d_model, 128);
    }

    #[test]
    fn generated_pairs_replace_missing_files_only() {
        let mut builder = ConfigBuilder::from_recipe("multi30k-tiny").unwrap();
        builder.set("data.valid_file=pairs.tsv").unwrap();
        builder.use_generated_without_files();
        let config = builder.build().unwrap();
        assert!(config.data.is_generated());

        let mut builder = ConfigBuilder::from_recipe("multi30k-tiny").unwrap();
        builder.set("data.train_file=pairs.tsv").unwrap();
        builder.use_generated_without_files();
        let config = builder.build().unwrap();
        assert_eq!(config.data.source, DataSource::Files);
    }

    #[test]
    fn a_file_overrides_the_recipe_that_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my.toml");
        fs::write(&path, "recipe = \"reverse\"\n[train]\nepochs = 7\n").unwrap();
        let config = ConfigBuilder::from_file(&path).unwrap().build().unwrap();
        assert_eq!((config.train.epochs, config.model.d_model), (7, 128));
    }

    /// `small` has a limit of 10 minutes, which does not return once it is removed or reset.
    #[test]
    fn a_saved_configuration_does_not_use_its_recipe_and_a_key_can_be_reset() {
        let mut builder = ConfigBuilder::from_recipe("small").unwrap();
        builder.set("data.train_file=pairs.tsv").unwrap();
        let small = builder.clone().build().unwrap();
        assert_eq!(small.train.max_minutes, Some(10.0));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.toml");
        let text = toml::to_string(&small).unwrap();
        fs::write(&path, text.replace("max_minutes = 10.0\n", "")).unwrap();
        let saved = ConfigBuilder::from_file(&path).unwrap().build().unwrap();
        assert_eq!((saved.train.max_minutes, saved.recipe.as_deref()), (None, Some("small")));
        assert_eq!(saved.model, small.model);

        builder.set("train.max_minutes=").unwrap();
        builder.set("model.dropout.residual = ").unwrap();
        let reset = builder.clone().build().unwrap();
        assert_eq!(reset.train.max_minutes, None);
        assert_eq!(reset.train.warmup_steps, small.train.warmup_steps);
        let error = builder.set("train.max_minute=").unwrap_err();
        assert_eq!(error.hint().as_deref(), Some("did you mean `max_minutes`?"));
        assert!(builder.set("trian.max_minutes=").is_err());
    }

    #[test]
    fn numbers_of_generated_pairs_do_not_limit_files() {
        let mut builder = ConfigBuilder::from_recipe("classify").unwrap();
        builder.use_files();
        builder.set("data.train_file=texts.tsv").unwrap();
        builder.set("data.valid_pairs=7").unwrap();
        // A limit that was set for files stays.
        builder.use_files();
        let data = builder.build().unwrap().data;
        assert_eq!((data.train_pairs, data.valid_pairs), (None, Some(7)));
    }

    #[test]
    fn a_column_is_a_name_or_a_number() {
        let set = |settings: &[&str]| {
            let mut builder = ConfigBuilder::from_recipe("small").unwrap();
            builder.set("data.train_file=pairs.tsv").unwrap();
            settings.iter().for_each(|setting| builder.set(setting).unwrap());
            builder.build().map(|config| config.data)
        };
        let data = set(&["data.source_column=2", "data.label_column=\"3\""]).unwrap();
        assert_eq!([data.source_column, data.target_column], [Some("2".into()), Some("3".into())]);
        let data = set(&["data.text_column=10", "data.target_column=it"]).unwrap();
        assert_eq!(
            [data.source_column, data.target_column],
            [Some("10".into()), Some("it".into())]
        );
        let data = set(&["data.source_column=2", "data.source_column="]).unwrap();
        assert_eq!(data.source_column, None);
        let json = serde_json::to_string(&data).unwrap();
        assert_eq!(serde_json::from_str::<DataConfig>(&json).unwrap(), data);
        let error = set(&["data.source_column=-1"]).unwrap_err().to_string();
        assert!(error.contains("expected the name of a column, or its number from 1"), "{error}");
        assert!(error.contains("source_column"), "{error}");
    }

    #[test]
    fn an_unknown_key_is_rejected_with_the_most_similar_one() {
        let mut builder = ConfigBuilder::from_recipe("toy").unwrap();
        builder.set("train.epoch=3").unwrap();
        let error = builder.build().unwrap_err();
        assert!(error.to_string().contains("unknown field `epoch`"), "{error}");
        assert_eq!(error.hint().as_deref(), Some("did you mean `epochs`?"));

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my.toml");
        fs::write(&path, "[model]\nd_modl = 7\n").unwrap();
        let error = ConfigBuilder::from_file(&path).unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
        assert_eq!(error.hint().as_deref(), Some("did you mean `d_model`?"));

        let error = ConfigBuilder::from_recipe("revers").unwrap_err();
        assert_eq!(error.hint().as_deref(), Some("did you mean `reverse`?"));
    }

    #[test]
    fn errors_about_types_and_ranges_name_the_key() {
        let mut builder = ConfigBuilder::from_recipe("toy").unwrap();
        builder.set("train.epochs=many").unwrap();
        let error = builder.build().unwrap_err().to_string();
        assert!(error.contains("epochs") && error.contains("many"), "{error}");

        let mut builder = ConfigBuilder::from_recipe("toy").unwrap();
        builder.set("model.n_heads=7").unwrap();
        let error = builder.build().unwrap_err().to_string();
        assert!(error.contains("[model] `n_heads` = 7 must divide `d_model` = 512"), "{error}");
    }
}
