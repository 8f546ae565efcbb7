//! Differences between two configurations.

use std::collections::BTreeMap;

use super::train_config::TrainConfig;
use crate::error::TrainError;

/// Returns the values of a table as TOML, by their path such as `train.epochs`.
pub(crate) fn settings(table: &toml::Table) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    flatten("", table, &mut settings);
    settings
}

fn flatten(prefix: &str, table: &toml::Table, settings: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
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
    before: &TrainConfig,
    now: &TrainConfig,
) -> Result<Vec<String>, TrainError> {
    let (before, now) = (settings(&before.to_table()?), settings(&now.to_table()?));
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
