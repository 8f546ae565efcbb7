//! Corpus of a run: where its pairs come from, and their part of an epoch.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tx_data::{
    CleanConfig,
    source::{format::Format, named},
};

use super::data_source::DataSource;

/// Entry of `[[data.train]]`, one of several training corpora, or of `[[data.valid]]`, one of
/// several validation sets; or `[data.replay]`, of which each epoch contains a fraction beside all
/// training pairs, so that a model does not forget what it was trained on.
///
/// [`DataConfig::corpora`](super::DataConfig::corpora) returns all corpora of a configuration in
/// this form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CorpusConfig {
    /// Name in messages, metrics and provenance. Default: the corpus, or the name of its first
    /// file.
    pub name: Option<String>,
    /// Files of the source side: a path, or a pattern with `*`, `?` or `[…]`, whose files are read
    /// in alphabetical order.
    pub source: Option<PathBuf>,
    /// Files of the target side, as many as those of the source side.
    pub target: Option<PathBuf>,
    /// Files with both sides, in any format with both sides: a path or a pattern.
    pub file: Option<PathBuf>,
    /// Named corpus.
    pub corpus: Option<String>,
    /// Training: folder of a prepared corpus, whose tokenizers are those of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepared: Option<PathBuf>,
    /// Named corpora: subset, such as `en-it`; by default that of the languages.
    pub subset: Option<String>,
    /// Named corpora: split to train on; `train` by default.
    pub split: Option<String>,
    /// Named corpora: branch, tag, commit or version; the newest by default.
    pub revision: Option<String>,
    /// Format of the files; detected from their content by default.
    pub format: Option<Format>,
    /// Language code of the source; `data.source_language` by default.
    pub source_language: Option<String>,
    /// Language code of the target; `data.target_language` by default.
    pub target_language: Option<String>,
    /// Number of pairs to read from the beginning.
    pub pairs: Option<usize>,
    /// Training: file with a weight of each pair in the loss, one a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair_weights: Option<PathBuf>,
    /// Training: file with the word alignment of each pair in Pharaoh format, one a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alignments: Option<PathBuf>,
    /// Training: special token that precedes each source, such as `<bt>` for back-translated pairs
    /// (Caswell et al. 2019).
    pub tag: Option<String>,
    /// Training: average number of occurrences of each pair in an epoch.
    pub weight: f64,
    /// Training: fraction of the pairs of an epoch, in place of `weight`, in `0.0..1.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
    /// Training: first epoch that contains pairs of this corpus, from 1.
    pub first_epoch: usize,
    /// Training: last epoch that contains pairs of this corpus.
    pub last_epoch: Option<usize>,
    /// Training: cleaning; `data.clean` by default.
    pub clean: Option<CleanConfig>,
    /// Maximum number of source sentences before a sentence in its document that the model reads with it;
    /// `data.context` by default. 0 for a corpus without documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<usize>,
}

impl Default for CorpusConfig {
    fn default() -> Self {
        Self {
            name: None,
            source: None,
            target: None,
            file: None,
            corpus: None,
            prepared: None,
            subset: None,
            split: None,
            revision: None,
            format: None,
            source_language: None,
            target_language: None,
            pairs: None,
            pair_weights: None,
            alignments: None,
            tag: None,
            weight: 1.0,
            fraction: None,
            first_epoch: 1,
            last_epoch: None,
            clean: None,
            context: None,
        }
    }
}

impl CorpusConfig {
    /// Returns the name in messages.
    pub fn name(&self) -> String {
        let of_file = |path: &PathBuf| {
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let path = || self.file.as_ref().or(self.source.as_ref()).or(self.prepared.as_ref());
        let file = || path().map(of_file);
        self.name.clone().or_else(|| self.corpus.clone()).or_else(file).unwrap_or_default()
    }

    /// Returns `true` if the pairs are generated, and therefore clean.
    pub(crate) fn is_generated(&self) -> bool {
        self.corpus.as_deref().is_some_and(|name| DataSource::from(name.to_owned()).is_generated())
    }

    /// Returns the files of the training or validation pairs.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.source, &self.target, &self.file].into_iter().flatten()
    }

    /// Returns the problems of entry `number`, from 1, of `[[data.train]]`.
    pub(super) fn training_problems(&self, number: usize) -> Vec<String> {
        let key = |key: &str| format!("`train` {number}: `{key}`");
        let mut problems = self.source_problems(&format!("`train` {number}"));
        problems.extend(self.problems(key));
        problems
    }

    /// Returns the problems of `[data.replay]`.
    pub(super) fn replay_problems(&self) -> Vec<String> {
        let Self { source, target, file, corpus, prepared, .. } = self;
        let mut problems = Vec::new();
        if self.files().next().is_none() && corpus.is_none() && prepared.is_none() {
            problems.push("`replay` needs `source` and `target`, or `file`".into());
        }
        problems.extend(sides("replay.", [source, target, file]));
        problems.extend(self.problems(|key| format!("`replay.{key}`")));
        if self.weight != Self::default().weight {
            problems.push("`replay` has `fraction` in place of `weight`".into());
        }
        problems
    }

    /// Returns the problems of entry `number`, from 1, of `[[data.valid]]`.
    pub(super) fn validation_problems(&self, number: usize) -> Vec<String> {
        let place = format!("`valid` {number}");
        let mut problems = self.source_problems(&place);
        problems.extend(self.problems(|key| format!("{place}: `{key}`")));
        let default = Self::default();
        for (key, is_given) in [
            ("prepared", self.prepared.is_some()),
            ("pair_weights", self.pair_weights.is_some()),
            ("alignments", self.alignments.is_some()),
            ("tag", self.tag.is_some()),
            ("weight", self.weight != default.weight),
            ("fraction", self.fraction.is_some()),
            ("first_epoch", self.first_epoch != default.first_epoch),
            ("last_epoch", self.last_epoch.is_some()),
            ("clean", self.clean.is_some()),
        ] {
            if is_given {
                problems.push(format!("{place}: `{key}` is for training"));
            }
        }
        problems
    }

    /// Returns the problem of the source of an entry, `place`, which needs exactly one.
    fn source_problems(&self, place: &str) -> Vec<String> {
        let Self { source, target, file, corpus, .. } = self;
        let problem = match [source.is_some(), target.is_some(), file.is_some(), corpus.is_some()] {
            _ if self.prepared.is_some() => None,
            [true, true, false, false]
            | [false, false, true, false]
            | [false, false, false, true] => None,
            [false, false, false, false] => {
                Some("needs `source` and `target`, `file`, or `corpus`")
            }
            [true, false, false, false] | [false, true, false, false] => {
                Some("`source` and `target` go together")
            }
            _ => Some("`source` and `target`, `file`, and `corpus` exclude each other"),
        };
        problem.map(|problem| format!("{place}: {problem}")).into_iter().collect()
    }

    /// Returns the problems of the keys, which `name` names.
    fn problems(&self, name: impl Fn(&str) -> String) -> Vec<String> {
        let mut problems = Vec::new();
        let mut problem = |key: &str, text: String| problems.push(format!("{}{text}", name(key)));
        for (key, is_given) in [
            ("source", self.source.is_some()),
            ("target", self.target.is_some()),
            ("file", self.file.is_some()),
            ("corpus", self.corpus.is_some()),
            ("format", self.format.is_some()),
            ("pairs", self.pairs.is_some()),
            ("pair_weights", self.pair_weights.is_some()),
            ("alignments", self.alignments.is_some()),
            ("clean", self.clean.is_some()),
            ("context", self.context.is_some()),
        ] {
            if is_given && self.prepared.is_some() {
                problem("prepared", format!(" and `{key}` exclude each other"));
            }
        }
        if let Some(name) = &self.corpus
            && !named::Request::is_name(name)
        {
            let known: Vec<&str> = named::KNOWN.iter().map(|known| known.name).collect();
            problem("corpus", format!(" = \"{name}\" is unknown; known are {}", known.join(", ")));
        }
        for (key, value) in
            [("subset", &self.subset), ("split", &self.split), ("revision", &self.revision)]
        {
            if value.is_some() && self.corpus.is_none() {
                problem(key, " belongs to a `corpus`".into());
            }
        }
        if self.pairs == Some(0) {
            problem("pairs", " must be at least 1".into());
        }
        let weight = self.weight;
        if !(weight > 0.0 && weight <= 1_000.0) {
            problem("weight", format!(" = {weight} must be more than 0 and at most 1000"));
        }
        if let Some(fraction) =
            self.fraction.filter(|fraction| !(*fraction > 0.0 && *fraction < 1.0))
        {
            problem("fraction", format!(" = {fraction} must be between 0 and 1"));
        }
        let (first, last) = (self.first_epoch, self.last_epoch);
        if first == 0 {
            problem("first_epoch", " must be at least 1".into());
        } else if last.is_some_and(|last| last < first) {
            problem("last_epoch", format!(" must be at least `first_epoch` = {first}"));
        }
        if self.tag.as_ref().is_some_and(|tag| tag.is_empty() || tag.contains(char::is_whitespace))
        {
            problem("tag", " must be one word".into());
        }
        for text in self.clean.iter().flat_map(CleanConfig::problems) {
            problem("clean", format!(": {text}"));
        }
        problems
    }
}

/// Returns the problem of the files of a corpus, if any; the names of the keys start with `keys`.
pub(super) fn sides(keys: &str, [source, target, file]: [&Option<PathBuf>; 3]) -> Option<String> {
    match (source.is_some(), target.is_some(), file.is_some()) {
        (true, true, false) | (false, false, _) => None,
        (_, _, false) => Some(format!("`{keys}source` and `{keys}target` go together")),
        (_, _, true) => Some(format!(
            "`{keys}file` has both sides and conflicts with `{keys}source` and `{keys}target`"
        )),
    }
}

/// Returns the first epoch for which no entry has pairs, if any.
pub(super) fn empty_epoch(entries: &[CorpusConfig]) -> Option<usize> {
    let is_used = |epoch: usize| {
        let within = |entry: &CorpusConfig| {
            entry.first_epoch <= epoch && entry.last_epoch.is_none_or(|last| epoch <= last)
        };
        entries.iter().any(within)
    };
    // Corpora end nowhere else.
    let ends = entries.iter().filter_map(|entry| entry.last_epoch);
    let mut candidates: Vec<usize> = ends.map(|last| last.saturating_add(1)).collect();
    candidates.push(1);
    candidates.sort_unstable();
    candidates.into_iter().find(|&epoch| !is_used(epoch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> CorpusConfig {
        CorpusConfig { file: Some("a.tsv".into()), ..CorpusConfig::default() }
    }

    #[test]
    fn entries_are_checked() {
        assert_eq!(file().training_problems(1), [""; 0]);
        assert_eq!(file().validation_problems(1), [""; 0]);
        let entry = CorpusConfig {
            target: Some("a".into()),
            subset: Some("en-de".into()),
            pairs: Some(0),
            tag: Some("a b".into()),
            weight: -1.0,
            first_epoch: 3,
            last_epoch: Some(2),
            ..CorpusConfig::default()
        };
        assert_eq!(
            entry.training_problems(2),
            [
                "`train` 2: `source` and `target` go together",
                "`train` 2: `subset` belongs to a `corpus`",
                "`train` 2: `pairs` must be at least 1",
                "`train` 2: `weight` = -1 must be more than 0 and at most 1000",
                "`train` 2: `last_epoch` must be at least `first_epoch` = 3",
                "`train` 2: `tag` must be one word",
            ]
        );
        let entry = CorpusConfig { corpus: Some("multi".into()), weight: 2.0, ..file() };
        let problems = entry.validation_problems(1);
        assert!(problems[0].contains("exclude each other"), "{problems:?}");
        assert!(problems[1].contains("`corpus` = \"multi\" is unknown; known are"), "{problems:?}");
        assert_eq!(problems[2], "`valid` 1: `weight` is for training");
        let entry =
            CorpusConfig { prepared: Some("corpora/de-en".into()), ..CorpusConfig::default() };
        assert_eq!(entry.name(), "de-en");
        assert_eq!(entry.training_problems(1), [""; 0]);
        assert_eq!(entry.validation_problems(1), ["`valid` 1: `prepared` is for training"]);
        let entry = CorpusConfig { pairs: Some(3), file: Some("a.tsv".into()), ..entry };
        assert_eq!(
            entry.training_problems(1),
            [
                "`train` 1: `prepared` and `file` exclude each other",
                "`train` 1: `prepared` and `pairs` exclude each other",
            ]
        );
        let problems = CorpusConfig::default().training_problems(1);
        assert_eq!(problems, ["`train` 1: needs `source` and `target`, `file`, or `corpus`"]);
    }

    #[test]
    fn files_and_fraction_are_checked() {
        let path = || Some(PathBuf::from("a"));
        let replay = CorpusConfig { file: path(), ..CorpusConfig::default() };
        assert_eq!(replay.replay_problems(), [""; 0]);
        let replay =
            CorpusConfig { fraction: Some(1.0), pairs: Some(0), ..CorpusConfig::default() };
        assert_eq!(
            replay.replay_problems(),
            [
                "`replay` needs `source` and `target`, or `file`",
                "`replay.pairs` must be at least 1",
                "`replay.fraction` = 1 must be between 0 and 1",
            ]
        );
        let replay = CorpusConfig { source: path(), ..CorpusConfig::default() };
        assert_eq!(replay.replay_problems(), ["`replay.source` and `replay.target` go together"]);
        let replay = CorpusConfig { file: path(), ..replay };
        assert!(replay.replay_problems()[0].contains("conflicts"));
    }

    #[test]
    fn every_epoch_needs_a_corpus() {
        let entry = |first_epoch, last_epoch| CorpusConfig { first_epoch, last_epoch, ..file() };
        assert_eq!(empty_epoch(&[entry(1, None)]), None);
        assert_eq!(empty_epoch(&[entry(1, Some(3)), entry(4, None)]), None);
        assert_eq!(empty_epoch(&[entry(2, None)]), Some(1));
        assert_eq!(empty_epoch(&[entry(1, Some(3)), entry(6, None)]), Some(4));
        assert_eq!(empty_epoch(&[entry(1, Some(3))]), Some(4));
    }

    #[test]
    fn a_name_is_that_of_the_corpus_or_of_a_file() {
        assert_eq!(file().name(), "a.tsv");
        let named = CorpusConfig { corpus: Some("multi30k".into()), ..CorpusConfig::default() };
        assert_eq!(named.name(), "multi30k");
        assert_eq!(CorpusConfig { name: Some("news".into()), ..named }.name(), "news");
    }
}
