//! Languages of the loaded models, computed once when models change.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use serde::Serialize;

use crate::{
    detect::Candidates,
    language,
    model::{Model, ModelInfo},
};

/// A language in the list of languages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LanguageEntry {
    /// Code.
    pub code: String,
    /// English name.
    pub name: String,
    /// Codes of the languages that texts of this one can be translated to.
    pub targets: Vec<String>,
}

/// Languages of all models, and their lists in the form of each interface.
#[derive(Debug, Default)]
pub struct Languages {
    entries: Vec<LanguageEntry>,
    targets: Vec<LanguageEntry>,
    /// Source languages of texts that are translated to each target, by [`language::base`].
    candidates: HashMap<String, Arc<Candidates>>,
    sources: Candidates,
    /// Rendered lists.
    pub answers: Answers,
}

/// Lists of languages as they are sent, each rendered by its first request.
#[derive(Debug, Default)]
pub struct Answers {
    /// `GET /languages`.
    pub libretranslate: OnceLock<Bytes>,
    /// `GET /v2/languages`.
    pub deepl_sources: OnceLock<Bytes>,
    /// `GET /v2/languages?type=target`.
    pub deepl_targets: OnceLock<Bytes>,
}

impl Languages {
    /// Collects the languages of models.
    pub fn of(models: &[Arc<Model>]) -> Self {
        let entries = entries(models.iter().map(|model| model.info()));
        let targets = models.iter().flat_map(|model| &model.info().targets);
        let targets: BTreeMap<&String, LanguageEntry> =
            targets.map(|code| (code, entry(code))).collect();
        let sources = entries.iter().filter(|entry| !entry.targets.is_empty());
        let sources = Candidates::new(sources.map(|entry| entry.code.clone()), None);
        Self {
            targets: sorted(targets.into_values()),
            candidates: candidates(models),
            sources,
            entries,
            answers: Answers::default(),
        }
    }

    /// All languages with the targets of their texts, which are empty for a language that is only a
    /// target: clients look both sides up in this list.
    pub fn all(&self) -> &[LanguageEntry] {
        &self.entries
    }

    /// Languages that are a source of some model, with their targets.
    pub fn sources(&self) -> impl Iterator<Item = &LanguageEntry> {
        self.entries.iter().filter(|entry| !entry.targets.is_empty())
    }

    /// Languages that are a target of some model, with an empty list of targets.
    pub fn targets(&self) -> &[LanguageEntry] {
        &self.targets
    }

    /// Source languages of all models.
    pub fn detected(&self) -> &Candidates {
        &self.sources
    }

    /// Source languages of texts that are translated to `target`; `None` if it is not a target.
    pub fn candidates(&self, target: &str) -> Option<&Arc<Candidates>> {
        self.candidates.get(&language::base(target))
    }
}

fn entry(code: &str) -> LanguageEntry {
    LanguageEntry { code: code.to_owned(), name: language::name(code), targets: Vec::new() }
}

fn sorted(entries: impl Iterator<Item = LanguageEntry>) -> Vec<LanguageEntry> {
    let mut entries: Vec<LanguageEntry> = entries.collect();
    entries.sort_by(|one, other| (&one.name, &one.code).cmp(&(&other.name, &other.code)));
    entries
}

fn entries<'a>(models: impl Iterator<Item = &'a ModelInfo>) -> Vec<LanguageEntry> {
    let mut entries: BTreeMap<&str, LanguageEntry> = BTreeMap::new();
    for ModelInfo { sources, targets, .. } in models {
        for code in targets {
            entries.entry(code).or_insert_with(|| entry(code));
        }
        for source in sources {
            let entry = entries.entry(source).or_insert_with(|| entry(source));
            entry.targets.extend(targets.iter().filter(|target| *target != source).cloned());
        }
    }
    sorted(entries.into_values().map(|mut entry| {
        entry.targets.sort_unstable();
        entry.targets.dedup();
        entry
    }))
}

/// Source languages of each target. One model's are shared, those of several are joined.
fn candidates(models: &[Arc<Model>]) -> HashMap<String, Arc<Candidates>> {
    let mut of_target: HashMap<&String, Vec<&Arc<Candidates>>> = HashMap::new();
    for model in models {
        for (base, candidates) in model.all_candidates() {
            of_target.entry(base).or_default().push(candidates);
        }
    }
    let joined = of_target.into_iter().map(|(base, list)| {
        let candidates = match &list[..] {
            [one] => Arc::clone(one),
            several => {
                let codes = several.iter().flat_map(|candidates| candidates.codes());
                Arc::new(Candidates::new(codes.cloned(), Some(base)))
            }
        };
        (base.clone(), candidates)
    });
    joined.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(sources: &[&str], targets: &[&str]) -> ModelInfo {
        let codes = |codes: &[&str]| codes.iter().map(|code| (*code).to_owned()).collect();
        ModelInfo { name: "a".into(), sources: codes(sources), targets: codes(targets) }
    }

    #[test]
    fn languages_of_several_models_are_joined() {
        let models = [info(&["en", "de"], &["it", "de"]), info(&["it", "en"], &["fr", "de"])];
        let found = entries(models.iter());
        let found: Vec<(&str, String)> =
            found.iter().map(|entry| (&*entry.code, entry.targets.join(" "))).collect();
        let expected = [("en", "de fr it"), ("fr", ""), ("de", "it"), ("it", "de fr")];
        assert_eq!(found, expected.map(|(code, targets)| (code, targets.to_owned())));
    }

    /// As many languages as large multilingual models have: 33,672 pairs.
    #[test]
    fn a_table_of_many_languages_takes_a_moment() {
        let rows = include_str!("../languages.csv").lines();
        let codes: Vec<&str> = rows.filter_map(|row| row.split(',').next()).collect();
        let started = std::time::Instant::now();
        let found = entries([info(&codes, &codes)].iter());
        assert!(found.len() == 184 && found.iter().all(|entry| entry.targets.len() == 183));
        assert!(started.elapsed() < std::time::Duration::from_secs(2), "{:?}", started.elapsed());
    }
}
