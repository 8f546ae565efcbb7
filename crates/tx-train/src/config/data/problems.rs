//! Problems of the configuration of data.

use std::path::PathBuf;

use tx_data::source::named;
use tx_infer::{TaskKind, bundle::MAX_CONTEXT};

use super::{DataConfig, has_documents};
use crate::config::{
    corpus::{CorpusConfig, empty_epoch, sides},
    data_source::DataSource,
};

impl DataConfig {
    /// Returns the problem of files given for generated pairs, which include their own validation
    /// pairs.
    fn files_of_generated(&self) -> Option<String> {
        let parts = [("train", self.train_files()), ("valid", self.valid_files())];
        let is_given = |files: &[&Option<PathBuf>; 3]| files.iter().any(|file| file.is_some());
        let (part, _) = parts.into_iter().find(|(_, files)| is_given(files))?;
        let source = String::from(self.source.clone());
        Some(format!("`{part}_…` names files, but `source` = \"{source}\" generates its own pairs"))
    }

    /// Returns the problems of the files of a task with documents, which have one side.
    fn document_problems(&self, is_needed: bool) -> Vec<String> {
        let mut problems = Vec::new();
        if is_needed && self.train_source.is_none() {
            problems.push("`source` = \"files\" needs `train_source`, a text file".into());
        }
        for (key, file) in [
            ("train_target", &self.train_target),
            ("train_file", &self.train_file),
            ("valid_target", &self.valid_target),
            ("valid_file", &self.valid_file),
        ] {
            if file.is_some() {
                let part = key.split('_').next().unwrap_or_default();
                problems.push(format!(
                    "`{key}`: a text has one side; name its file as `{part}_source`"
                ));
            }
        }
        problems
    }

    /// Returns `true` if the pairs are generated, and therefore clean.
    pub fn is_generated(&self) -> bool {
        self.source.is_generated()
    }

    /// Returns `true` if training corpora or validation sets are lists.
    pub fn has_lists(&self) -> bool {
        !self.train.is_empty() || !self.valid.is_empty()
    }

    /// Returns the problems of the lists of corpora.
    fn list_problems(&self, task: TaskKind) -> Vec<String> {
        let mut problems = Vec::new();
        if task != TaskKind::Translate {
            problems.push(format!(
                "`train` and `valid` lists are not available for the task \"{task}\""
            ));
        }
        for (number, entry) in self.train.iter().enumerate() {
            problems.extend(entry.training_problems(number + 1));
        }
        for (number, entry) in self.valid.iter().enumerate() {
            problems.extend(entry.validation_problems(number + 1));
        }
        let names: Vec<String> = self.valid.iter().map(CorpusConfig::name).collect();
        for (number, name) in names.iter().enumerate() {
            if names[..number].contains(name) {
                problems
                    .push(format!("`valid` {}: another set has the name \"{name}\"", number + 1));
            }
        }
        let train = [
            ("train_source", self.train_source.is_some()),
            ("train_target", self.train_target.is_some()),
            ("train_file", self.train_file.is_some()),
            ("train_pairs", self.train_pairs.is_some()),
            ("pair_weights", self.pair_weights.is_some()),
            ("alignments", self.alignments.is_some()),
            ("source", self.source != DataSource::Files),
        ];
        let valid = [
            ("valid_source", self.valid_source.is_some()),
            ("valid_target", self.valid_target.is_some()),
            ("valid_file", self.valid_file.is_some()),
        ];
        for (list, keys) in [("train", &train[..]), ("valid", &valid)] {
            let is_list =
                if list == "train" { !self.train.is_empty() } else { !self.valid.is_empty() };
            for (key, _) in keys.iter().filter(|(_, is_given)| is_list && *is_given) {
                problems.push(format!("`{key}` is not available with a list of `{list}` entries"));
            }
        }
        if self.prepared.is_some() {
            problems.push("`prepared` is not available with lists of corpora".into());
        }
        if self.is_generated() {
            problems.push("generated pairs have their own validation pairs, not a list".into());
        }
        let is_validated = !self.valid.is_empty() || valid.iter().any(|(_, is_given)| *is_given);
        if !self.train.is_empty() && !is_validated {
            problems
                .push("a list of `train` entries needs validation pairs: `[[data.valid]]`".into());
        }
        if let Some(epoch) = empty_epoch(&self.train).filter(|_| !self.train.is_empty()) {
            problems.push(format!("no entry of `train` has pairs for epoch {epoch}"));
        }
        problems
    }

    /// Returns the problems of the proportions of several corpora.
    fn mixture_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let temperature = self.temperature;
        if !(1.0..=1_000.0).contains(&temperature) {
            problems
                .push(format!("`temperature` = {temperature} must be at least 1 and at most 1000"));
        }
        if self.train.is_empty() && temperature != 1.0 {
            problems.push("`temperature` needs a list of `train` entries".into());
        }
        let corpora = self.corpora();
        let fractions: f64 = corpora.iter().filter_map(|entry| entry.fraction).sum();
        if fractions >= 1.0 && corpora.iter().filter(|entry| entry.fraction.is_some()).count() > 1 {
            problems
                .push(format!("the `fraction`s of an epoch add up to {fractions}, not below 1"));
        }
        if corpora.iter().all(|entry| entry.fraction.is_some()) {
            problems.push("`train` needs an entry without `fraction`".into());
        }
        problems
    }

    pub(in crate::config) fn problems(&self, task: TaskKind, model_max_len: usize) -> Vec<String> {
        let mut problems = self.clean.problems();
        problems.extend(self.noise.problems());
        if task != TaskKind::Translate && !self.noise.is_off() {
            problems.push(format!("`noise` is not available for the task \"{task}\""));
        }
        if task != TaskKind::Translate && self.lexicon {
            problems.push(format!("`lexicon` is not available for the task \"{task}\""));
        }
        problems.extend(self.context_problems(task));
        problems.extend(self.source_problems(task));
        problems.extend(self.mixture_problems());
        if self.has_lists() {
            problems.extend(self.list_problems(task));
        }
        for (key, count) in [
            ("train_pairs", self.train_pairs),
            ("valid_pairs", self.valid_pairs),
            ("vocabulary_pairs", self.vocabulary_pairs),
        ] {
            if count == Some(0) {
                problems.push(format!("`{key}` must be at least 1"));
            }
        }
        if !(0.0..1.0).contains(&self.valid_share) {
            problems.push(format!(
                "`valid_share` = {} must be at least 0 and below 1",
                self.valid_share
            ));
        }
        match self.max_len {
            Some(len) if len > model_max_len => problems
                .push(format!("`max_len` = {len} exceeds `model.max_len` = {model_max_len}")),
            Some(len) if len < 3 => {
                problems
                    .push(format!("`max_len` = {len} leaves no room between `<bos>` and `<eos>`"));
            }
            _ => {}
        }
        if self.prepared.is_some() && task.has_one_text() {
            problems.push(format!("`prepared` is not available for the task \"{task}\""));
        }
        if let Some(replay) = &self.replay {
            problems.extend(replay.replay_problems());
            if task != TaskKind::Translate {
                problems.push(format!("`replay` is not available for the task \"{task}\""));
            }
        }
        problems
    }

    /// Returns the problems of the context.
    fn context_problems(&self, task: TaskKind) -> Vec<String> {
        let mut problems = Vec::new();
        let Self { context, context_dropout: dropout, .. } = *self;
        if context > 0 && task != TaskKind::Translate {
            problems.push(format!("`context` is not available for the task \"{task}\""));
        }
        if context > 0 && self.is_generated() {
            problems.push("generated pairs have no documents, so `context` must be 0".into());
        }
        if context > MAX_CONTEXT {
            problems.push(format!("`context` = {context} must be at most {MAX_CONTEXT}"));
        }
        if !(0.0..=1.0).contains(&dropout) {
            problems.push(format!("`context_dropout` = {dropout} must be in 0..1"));
        }
        let entries = [("train", &self.train), ("valid", &self.valid)];
        for (list, entries) in entries {
            for (number, entry) in entries.iter().enumerate() {
                if let Some(own) = entry.context.filter(|&own| own > context) {
                    let number = number + 1;
                    problems.push(format!(
                        "`{list}` {number}: `context` = {own} exceeds that of [data], {context}"
                    ));
                }
            }
        }
        problems
    }

    /// Returns the problems of `source` and the files.
    fn source_problems(&self, task: TaskKind) -> Vec<String> {
        let mut problems = Vec::new();
        match &self.source {
            DataSource::Files if has_documents(task) => {
                problems.extend(self.document_problems(true));
            }
            DataSource::Files => {
                let is_given = self.train_files().iter().any(|file| file.is_some());
                if self.train.is_empty() && !is_given {
                    problems.push(
                        "`source` = \"files\" needs `train_source` and `train_target`, or \
                         `train_file`"
                            .into(),
                    );
                }
                problems.extend(sides("train_", self.train_files()));
                problems.extend(sides("valid_", self.valid_files()));
            }
            DataSource::Named(name) if !named::Request::is_name(name) => {
                let known: Vec<&str> = named::KNOWN.iter().map(|known| known.name).collect();
                problems.push(format!(
                    "`source` = \"{name}\" is unknown; accepted are \"files\", \"phrasebook\", \
                     \"reverse\", \"toy\" and corpora such as {}",
                    known.join(", ")
                ));
            }
            DataSource::Named(name) => {
                if self.source_language.is_none() || self.target_language.is_none() {
                    problems.push(format!(
                        "`source` = \"{name}\" needs `source_language` and `target_language`"
                    ));
                }
                problems.extend(sides("valid_", self.valid_files()));
            }
            DataSource::Toy | DataSource::Reverse | DataSource::Phrasebook => {
                problems.extend(self.files_of_generated());
            }
        }
        if has_documents(task) && matches!(self.source, DataSource::Named(_)) {
            problems.push(format!(
                "`source` = \"{}\" has sentence pairs, but the task \"{task}\" learns from text: \
                 write one side to a file and name it as `train_source`",
                String::from(self.source.clone())
            ));
        }
        if matches!(self.source, DataSource::Toy | DataSource::Reverse) {
            let source = String::from(self.source.clone());
            match task {
                TaskKind::Translate => {}
                TaskKind::Classify => problems.push(format!(
                    "`source` = \"{source}\" has no labels for the task \"classify\""
                )),
                TaskKind::Generate | TaskKind::FillMask => problems.push(format!(
                    "`source` = \"{source}\" has no documents for the task \"{task}\"; accepted are \
                     \"files\" and \"phrasebook\""
                )),
            }
        }
        problems
    }
}
