//! Named configurations, and how files and settings are laid over them.

use std::{fs, path::Path};

use crate::{config::TrainConfig, error::TrainError};

/// A named configuration that comes with tx.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipe {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// Its file, with comments.
    pub toml: &'static str,
}

macro_rules! recipes {
    ($($name:literal: $about:literal,)*) => {
        &[$(Recipe {
            name: $name,
            about: $about,
            toml: include_str!(concat!("recipes/", $name, ".toml")),
        }),*]
    };
}

/// All recipes; the first is what `train` does when not told otherwise.
pub const RECIPES: &[Recipe] = recipes! {
    "phrasebook": "English to Italian phrases from a generated grammar; offline, minutes",
    "reverse": "random words to their reverse, as published by Etienne; offline, a minute",
    "reverse-exact": "the same task with pre-norm and warm-up: hardly an error left",
    "toy": "`ich mochte ein bier` to `i want a beer`, as published by graykode; offline, seconds",
    "fra-eng": "English to French on 600 short pairs, as published in the d2l course; fetched",
    "small": "a small model for some 30,000 pairs of short sentences; from files",
    "multi30k-tiny": "the field's benchmark on Multi30k, tokenized text; from files",
    "opus-books": "English to Italian books, word level, as published by Jamil; fetched",
    "base": "the base model and schedule of \"Attention Is All You Need\"; from files",
};

impl Recipe {
    /// Finds a recipe by name.
    ///
    /// # Errors
    ///
    /// When there is none of that name; the nearest is named.
    pub fn find(name: &str) -> Result<&'static Self, TrainError> {
        RECIPES.iter().find(|recipe| recipe.name == name).ok_or_else(|| {
            let known: Vec<&str> = RECIPES.iter().map(|recipe| recipe.name).collect();
            let nearest = nearest(name, known.iter().copied());
            TrainError::UnknownRecipe { name: name.into(), known, nearest }
        })
    }
}

/// A configuration under way: tables laid over each other, the later over the earlier.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    table: toml::Table,
}

impl Layers {
    /// Starts from a recipe.
    ///
    /// # Errors
    ///
    /// When there is none of that name.
    pub fn recipe(name: &str) -> Result<Self, TrainError> {
        let recipe = Recipe::find(name)?;
        let mut layers = Self { table: parse(recipe.toml, &format!("recipe `{name}`"))? };
        layers.table.insert(FROM_RECIPE.into(), name.into());
        Ok(layers)
    }

    /// Starts from a file, laid over the recipe that its key `recipe` names, if it has one.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or understood.
    pub fn file(path: &Path) -> Result<Self, TrainError> {
        let text = fs::read_to_string(path)
            .map_err(|source| TrainError::Read { path: path.into(), source })?;
        let place = format!("`{}`", path.display());
        // Keys are checked in the text itself, so that a message can name line and column.
        toml::from_str::<TrainConfig>(&text).map_err(|error| config_error(&place, &error))?;
        let mut table = parse(&text, &place)?;
        let mut layers = match table.remove("recipe").as_ref().and_then(toml::Value::as_str) {
            Some(name) => Self::recipe(name)?,
            None => Self::default(),
        };
        lay(&mut layers.table, table);
        Ok(layers)
    }

    /// Starts from a whole configuration.
    ///
    /// # Errors
    ///
    /// When a number has no form in TOML.
    pub fn config(config: &TrainConfig) -> Result<Self, TrainError> {
        let table = toml::Table::try_from(config).map_err(|error| TrainError::Config {
            place: "configuration".into(),
            problem: error.to_string(),
            nearest: None,
        })?;
        Ok(Self { table })
    }

    /// Lays one setting over: `train.epochs=3`. The value is TOML; a bare word is a string; an empty
    /// one resets the key to its default, whatever the layers below say.
    ///
    /// # Errors
    ///
    /// When there is no `=`, or a key to reset is unknown.
    pub fn set(&mut self, setting: &str) -> Result<(), TrainError> {
        let Some((key, value)) = setting.split_once('=') else {
            return Err(TrainError::Config {
                place: format!("`--set {setting}`"),
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
        // No key takes such a value: the error tells whether there is the key.
        let mut probe = self.clone();
        probe.set_value(key, vec![toml::Value::Array(Vec::new())]);
        if let Err(error) = probe.table.try_into::<TrainConfig>()
            && error.message().starts_with("unknown field ")
        {
            return Err(config_error("configuration", &error));
        }
        let (path, last) = key.rsplit_once('.').unwrap_or(("", key));
        let mut sections = path.split('.').filter(|section| !section.is_empty());
        let table = sections
            .try_fold(&mut self.table, |table, section| table.get_mut(section)?.as_table_mut());
        if let Some(table) = table {
            table.remove(last);
        }
        Ok(())
    }

    /// Lays one value over; `key` is a path such as `data.train_source`.
    pub fn set_value(&mut self, key: &str, value: impl Into<toml::Value>) {
        let mut path: Vec<&str> = key.split('.').collect();
        let last = path.pop().unwrap_or_default();
        let nested = path
            .into_iter()
            .rev()
            .fold(toml::Table::from_iter([(last.to_owned(), value.into())]), |inner, key| {
                toml::Table::from_iter([(key.to_owned(), inner.into())])
            });
        lay(&mut self.table, nested);
    }

    /// The configuration, with defaults where no layer says anything.
    ///
    /// # Errors
    ///
    /// When a key is unknown, a value has the wrong type, or a rule is broken.
    pub fn finish(self) -> Result<TrainConfig, TrainError> {
        let config: TrainConfig =
            self.table.try_into().map_err(|error| config_error("configuration", &error))?;
        let problems = config.problems();
        if problems.is_empty() { Ok(config) } else { Err(TrainError::Problems { problems }) }
    }
}

/// The recipe that a configuration came from.
const FROM_RECIPE: &str = "from_recipe";

/// Puts the values of `above` over those of `below`, table by table. A table that chooses one of
/// several forms (`batch = { tokens = 4096 }`) is replaced whole.
fn lay(below: &mut toml::Table, above: toml::Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) if key != "batch" => {
                lay(below, above);
            }
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}

fn parse(text: &str, place: &str) -> Result<toml::Table, TrainError> {
    text.parse().map_err(|error| config_error(place, &error))
}

fn config_error(place: &str, error: &toml::de::Error) -> TrainError {
    let problem = error.to_string().trim_end().to_owned();
    // serde says: unknown field `epoch`, expected one of `seed`, `epochs`, …
    let nearest = error.message().strip_prefix("unknown field ").and_then(|message| {
        let mut quoted = message.split('`').skip(1).step_by(2);
        let unknown = quoted.next()?;
        nearest(unknown, quoted)
    });
    TrainError::Config { place: place.into(), problem, nearest }
}

/// The most similar of `known`, if any is similar at all.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    known
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_owned())
}

#[cfg(test)]
mod tests {
    use tx_data::BatchSize;

    use super::*;

    #[test]
    fn every_recipe_is_a_usable_configuration() {
        for recipe in RECIPES {
            let mut layers = Layers::recipe(recipe.name).unwrap();
            if recipe.about.ends_with("from files") {
                layers.set("data.train_file=pairs.tsv").unwrap();
            }
            let config = layers.finish().unwrap_or_else(|error| panic!("{}: {error}", recipe.name));
            assert_eq!(config.recipe.as_deref(), Some(recipe.name));
        }
    }

    #[test]
    fn a_recipe_says_nothing_that_it_does_not_mean() {
        // A file parsed on its own, without the recipe's name, must say the same.
        for recipe in RECIPES {
            assert!(toml::from_str::<TrainConfig>(recipe.toml).is_ok(), "{}", recipe.name);
        }
    }

    #[test]
    fn settings_lie_over_the_recipe() {
        let mut layers = Layers::recipe("reverse").unwrap();
        layers.set("train.epochs=3").unwrap();
        layers.set("train.batch={ tokens = 100 }").unwrap();
        layers.set("model.norm=pre").unwrap();
        let config = layers.finish().unwrap();
        assert_eq!(config.train.epochs, 3);
        assert_eq!(config.train.batch, BatchSize::Tokens(100));
        assert_eq!(config.model.norm, tx_model::NormPlacement::Pre);
        assert_eq!(config.model.d_model, 128);
    }

    #[test]
    fn a_file_lies_over_the_recipe_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my.toml");
        fs::write(&path, "recipe = \"reverse\"\n[train]\nepochs = 7\n").unwrap();
        let config = Layers::file(&path).unwrap().finish().unwrap();
        assert_eq!((config.train.epochs, config.model.d_model), (7, 128));
    }

    /// `small` ends after 10 minutes: without the key in a saved configuration, or reset, it does not.
    #[test]
    fn a_saved_configuration_is_laid_over_nothing_and_a_key_can_be_reset() {
        let mut layers = Layers::recipe("small").unwrap();
        layers.set("data.train_file=pairs.tsv").unwrap();
        let small = layers.clone().finish().unwrap();
        assert_eq!(small.train.max_minutes, Some(10.0));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.toml");
        let text = toml::to_string(&small).unwrap();
        fs::write(&path, text.replace("max_minutes = 10.0\n", "")).unwrap();
        let saved = Layers::file(&path).unwrap().finish().unwrap();
        assert_eq!((saved.train.max_minutes, saved.recipe.as_deref()), (None, Some("small")));
        assert_eq!(saved.model, small.model);

        layers.set("train.max_minutes=").unwrap();
        layers.set("model.dropout.residual = ").unwrap();
        let reset = layers.clone().finish().unwrap();
        assert_eq!(reset.train.max_minutes, None);
        assert_eq!(reset.train.warmup_steps, small.train.warmup_steps);
        let error = layers.set("train.max_minute=").unwrap_err();
        assert_eq!(error.hint().as_deref(), Some("did you mean `max_minutes`?"));
        assert!(layers.set("trian.max_minutes=").is_err());
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest() {
        let mut layers = Layers::recipe("toy").unwrap();
        layers.set("train.epoch=3").unwrap();
        let error = layers.finish().unwrap_err();
        assert!(error.to_string().contains("unknown field `epoch`"), "{error}");
        assert_eq!(error.hint().as_deref(), Some("did you mean `epochs`?"));

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my.toml");
        fs::write(&path, "[model]\nd_modl = 7\n").unwrap();
        let error = Layers::file(&path).unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
        assert_eq!(error.hint().as_deref(), Some("did you mean `d_model`?"));

        let error = Layers::recipe("revers").unwrap_err();
        assert_eq!(error.hint().as_deref(), Some("did you mean `reverse`?"));
    }

    #[test]
    fn a_wrong_type_and_a_broken_rule_name_the_key() {
        let mut layers = Layers::recipe("toy").unwrap();
        layers.set("train.epochs=many").unwrap();
        let error = layers.finish().unwrap_err().to_string();
        assert!(error.contains("epochs") && error.contains("many"), "{error}");

        let mut layers = Layers::recipe("toy").unwrap();
        layers.set("model.n_heads=7").unwrap();
        let error = layers.finish().unwrap_err().to_string();
        assert!(error.contains("[model] `n_heads` = 7 must divide `d_model` = 512"), "{error}");
    }
}
