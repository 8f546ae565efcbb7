//! Loaded models, and the routes between languages.

pub mod languages;

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tx_infer::{Pool, Precision};

use crate::{
    error::{ApiError, ServeError, Side},
    language,
    model::{Model, ModelInfo, ModelSpec, Route},
};
use languages::Languages;

/// Models of the server. A request keeps the models that it started with, so replacing or removing one
/// does not affect it.
#[derive(Debug)]
pub struct Registry {
    precision: Option<Precision>,
    /// Threads of all models.
    pool: Pool,
    loaded: RwLock<Loaded>,
    /// Held while models change, so that the lock of the requests is held for a moment only.
    changes: Mutex<()>,
}

/// Models, and what follows from them.
#[derive(Debug, Clone, Default)]
struct Loaded {
    models: Arc<Vec<Arc<Model>>>,
    languages: Arc<Languages>,
}

impl Registry {
    /// Loads models, to be run by `pool`; without `precision`, each in that of its bundle.
    ///
    /// # Errors
    ///
    /// If a model cannot be loaded, or two have the same name.
    pub fn load(
        specs: &[ModelSpec],
        precision: Option<Precision>,
        pool: Pool,
    ) -> Result<Self, ServeError> {
        if specs.is_empty() {
            return Err(ServeError::NoModel);
        }
        let mut models: Vec<Arc<Model>> = Vec::new();
        for spec in specs {
            if models.iter().any(|model| model.name == spec.name) {
                return Err(ServeError::SameName { name: spec.name.clone() });
            }
            models.push(Model::load(spec, precision, &pool)?);
        }
        let (loaded, changes) = Default::default();
        let registry = Self { precision, pool, loaded, changes };
        registry.set(models);
        Ok(registry)
    }

    fn loaded(&self) -> Loaded {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, models: Vec<Arc<Model>>) {
        let languages = Arc::new(Languages::of(&models));
        let loaded = Loaded { models: Arc::new(models), languages };
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
    }

    /// Returns the current models.
    pub fn models(&self) -> Arc<Vec<Arc<Model>>> {
        self.loaded().models
    }

    /// Returns the model with a name.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn model(&self, name: &str) -> Result<Arc<Model>, ApiError> {
        let models = self.models();
        let model = models.iter().find(|model| model.name == name);
        model.cloned().ok_or_else(|| ApiError::NotFound(format!("no model `{name}`")))
    }

    /// Returns the languages of the current models.
    pub fn languages(&self) -> Arc<Languages> {
        self.loaded().languages
    }

    /// Loads a model, and replaces the one with the same name when it is complete.
    ///
    /// # Errors
    ///
    /// If it cannot be loaded; the models are unchanged then.
    pub fn put(&self, spec: &ModelSpec) -> Result<ModelInfo, ServeError> {
        let model = Model::load(spec, self.precision, &self.pool)?;
        let info = model.info().clone();
        let _changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list = (*self.models()).clone();
        match list.iter_mut().find(|old| old.name == model.name) {
            Some(old) => *old = model,
            None => list.push(model),
        }
        self.set(list);
        Ok(info)
    }

    /// Removes the model with this name; returns whether there was one.
    pub fn remove(&self, name: &str) -> bool {
        let _changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list = (*self.models()).clone();
        let before = list.len();
        list.retain(|model| model.name != name);
        let removed = list.len() < before;
        if removed {
            self.set(list);
        }
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
        let has_source = models.iter().any(|model| model.sources().find(source).is_some());
        let has_target = models.iter().any(|model| model.targets().find(target).is_some());
        let unsupported = |side, code: &str| ApiError::Unsupported { side, code: code.to_owned() };
        Err(match (has_source, has_target) {
            _ if language::same_language(source, target) => ApiError::Invalid(format!(
                "`{source}` and `{target}` are the same language; expected two languages"
            )),
            (false, _) => unsupported(Side::Source, source),
            (_, false) => unsupported(Side::Target, target),
            (true, true) => {
                ApiError::Invalid(format!("no model translates from {source} to {target}"))
            }
        })
    }
}
