//! Loaded models, and the routes between languages.

use std::sync::{Arc, PoisonError, RwLock};

use serde::Serialize;

use crate::{
    error::{ApiError, ServeError},
    language,
    model::{Execution, Model, ModelInfo, ModelSpec, Route},
};

/// Models of the server. A request keeps the models that it started with, so replacing or removing one
/// does not affect it.
#[derive(Debug)]
pub struct Registry {
    execution: Execution,
    models: RwLock<Arc<Vec<Arc<Model>>>>,
}

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

impl Registry {
    /// Loads models.
    ///
    /// # Errors
    ///
    /// If a model cannot be loaded, or two have the same name.
    pub fn load(specs: &[ModelSpec], execution: Execution) -> Result<Self, ServeError> {
        if specs.is_empty() {
            return Err(ServeError::NoModel);
        }
        let registry = Self { execution, models: RwLock::default() };
        for spec in specs {
            if registry.models().iter().any(|model| model.name == spec.name) {
                return Err(ServeError::SameName { name: spec.name.clone() });
            }
            registry.put(spec)?;
        }
        Ok(registry)
    }

    /// Returns the current models.
    pub fn models(&self) -> Arc<Vec<Arc<Model>>> {
        self.models.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Loads a model, and replaces the one with the same name when it is complete.
    ///
    /// # Errors
    ///
    /// If it cannot be loaded; the models are unchanged then.
    pub fn put(&self, spec: &ModelSpec) -> Result<ModelInfo, ServeError> {
        let model = Model::load(spec, self.execution)?;
        let info = model.info();
        let mut models = self.models.write().unwrap_or_else(PoisonError::into_inner);
        let mut list = (**models).clone();
        match list.iter_mut().find(|old| old.name == model.name) {
            Some(old) => *old = model,
            None => list.push(model),
        }
        *models = Arc::new(list);
        Ok(info)
    }

    /// Removes the model with this name; returns whether there was one.
    pub fn remove(&self, name: &str) -> bool {
        let mut models = self.models.write().unwrap_or_else(PoisonError::into_inner);
        let list: Vec<Arc<Model>> =
            models.iter().filter(|model| model.name != name).cloned().collect();
        let removed = list.len() < models.len();
        *models = Arc::new(list);
        removed
    }

    /// Loads all models again from their folders; returns the errors of those that keep the loaded
    /// state.
    pub fn reload(&self) -> Vec<ServeError> {
        let models = self.models();
        let specs = models
            .iter()
            .map(|model| ModelSpec { name: model.name.clone(), folder: model.folder().to_owned() });
        specs.filter_map(|spec| self.put(&spec).err()).collect()
    }

    /// Returns the route from a language to another one.
    ///
    /// With `name`, only that model is used. Without a direct model, `pivot` names the language of an
    /// intermediate translation; the result then has two routes.
    ///
    /// # Errors
    ///
    /// If there is no route.
    pub fn routes(
        &self,
        source: &str,
        target: &str,
        name: Option<&str>,
        pivot: Option<&str>,
    ) -> Result<Vec<Route>, ApiError> {
        let models = self.models();
        let direct = |source: &str, target: &str| {
            let mut models =
                models.iter().filter(|model| name.is_none_or(|name| model.name == name));
            models.find_map(|model| model.route(source, target))
        };
        if let Some(name) = name
            && !models.iter().any(|model| model.name == name)
        {
            return Err(ApiError::NotFound(format!("no model `{name}`")));
        }
        if let Some(pivot) = pivot {
            return match direct(source, pivot).zip(direct(pivot, target)) {
                Some((first, second)) => Ok(vec![first, second]),
                None => Err(ApiError::Invalid(format!(
                    "no models from `{source}` by `{pivot}` to `{target}`"
                ))),
            };
        }
        if let Some(route) = direct(source, target) {
            return Ok(vec![route]);
        }
        let has_source = models.iter().any(|model| covers(model.sources(), source));
        let has_target = models.iter().any(|model| covers(model.targets(), target));
        Err(ApiError::Invalid(match (has_source, has_target) {
            (false, _) => format!("{source} is not supported"),
            (_, false) => format!("{target} is not supported"),
            (true, true) => format!("no model translates from {source} to {target}"),
        }))
    }

    /// Returns all languages with the targets of their texts, which are empty for a language that is only
    /// a target: clients look both sides up in this list.
    pub fn languages(&self) -> Vec<LanguageEntry> {
        let mut entries = self.target_languages();
        for model in self.models().iter() {
            for source in model.sources() {
                let code = language::public_code(source);
                let targets = model.targets().iter().filter(|target| *target != source);
                let targets = targets.map(|target| language::public_code(target));
                match entries.iter_mut().find(|entry| entry.code == code) {
                    Some(entry) => entry.targets.extend(targets),
                    None => entries.push(LanguageEntry {
                        name: language::name(source),
                        code,
                        targets: targets.collect(),
                    }),
                }
            }
        }
        for entry in &mut entries {
            entry.targets.sort_unstable();
            entry.targets.dedup();
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        entries
    }

    /// Returns the languages that are a source of some model, with their targets.
    pub fn source_languages(&self) -> Vec<LanguageEntry> {
        let mut entries = self.languages();
        entries.retain(|entry| !entry.targets.is_empty());
        entries
    }

    /// Returns the languages that are a target of some model, with an empty list of targets.
    pub fn target_languages(&self) -> Vec<LanguageEntry> {
        let models = self.models();
        let codes = models.iter().flat_map(|model| model.targets());
        let mut entries: Vec<LanguageEntry> = codes
            .map(|code| LanguageEntry {
                code: language::public_code(code),
                name: language::name(code),
                targets: Vec::new(),
            })
            .collect();
        entries.sort_by(|one, other| (&one.name, &one.code).cmp(&(&other.name, &other.code)));
        entries.dedup();
        entries
    }
}

fn covers(codes: &[String], wanted: &str) -> bool {
    codes.iter().any(|code| language::same_language(wanted, code))
}
