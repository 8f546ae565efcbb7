//! Configurations as TOML tables: merged, compared, and listed as single settings.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::TrainError;

/// Returns a configuration, or a section of one, as a table.
///
/// # Errors
///
/// If TOML cannot represent a number.
pub(crate) fn to_table(config: &impl Serialize) -> Result<toml::Table, TrainError> {
    toml::Table::try_from(config).map_err(|error| TrainError::Config {
        location: "configuration".into(),
        problem: error.to_string(),
        nearest: None,
    })
}

/// Tables that are values: one of several variants, such as `{ tokens = 4096 }`, or a map.
const VALUES: [&str; 2] = ["train.batch", "classification.class_weights"];

/// Overrides values of `base`, a configuration or a part of one, by those of `overrides`.
pub(super) fn merge(base: &mut toml::Table, overrides: toml::Table) {
    merge_at("", base, overrides);
}

/// Overrides the values of the table at `path`.
fn merge_at(path: &str, base: &mut toml::Table, overrides: toml::Table) {
    for (key, value) in overrides {
        let path = joined(path, &key);
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(base)), toml::Value::Table(overrides))
                if !VALUES.contains(&&*path) =>
            {
                merge_at(&path, base, overrides);
            }
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Returns the values of a table as TOML, by their path such as `train.epochs`.
pub(crate) fn settings(table: &toml::Table) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    flatten("", table, &mut settings);
    settings
}

fn flatten(prefix: &str, table: &toml::Table, settings: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        let path = joined(prefix, key);
        match value {
            toml::Value::Table(table) => flatten(&path, table, settings),
            value => drop(settings.insert(path, value.to_string())),
        }
    }
}

/// Returns the differences between two configurations, one line each, such as `train.epochs` = 20,
/// was 10.
///
/// # Errors
///
/// If TOML cannot represent a number.
pub(crate) fn differences(
    before: &impl Serialize,
    now: &impl Serialize,
) -> Result<Vec<String>, TrainError> {
    let (before, now) = (settings(&to_table(before)?), settings(&to_table(now)?));
    let keys = before.keys().chain(now.keys().filter(|key| !before.contains_key(*key)));
    let text = |value: Option<&String>| value.map_or("not given", String::as_str).to_owned();
    Ok(keys
        .filter(|key| before.get(*key) != now.get(*key))
        .map(|key| format!("`{key}` = {}, was {}", text(now.get(key)), text(before.get(key))))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TrainConfig;

    #[test]
    fn a_difference_names_key_and_both_values() {
        let before = TrainConfig::default();
        assert_eq!(differences(&before, &before).unwrap(), [""; 0]);
        let mut now = before.clone();
        now.train.epochs = 20;
        now.train.batch = tx_data::BatchSize::Sentences(8);
        now.recipe = Some("toy".into());
        assert_eq!(
            differences(&before, &now).unwrap(),
            [
                "`train.batch.tokens` = not given, was 4096",
                "`train.epochs` = 20, was 10",
                "`from_recipe` = \"toy\", was not given",
                "`train.batch.sentences` = 8, was not given",
            ]
        );
    }
}
