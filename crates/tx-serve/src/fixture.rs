//! The bundle of the tests.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use crate::model::{Execution, Model, ModelSpec, Route};

/// Folder of a bundle with random weights, which translates `en` to `it`.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/bundle-v1")
}

/// The model, loaded once.
pub fn model() -> Arc<Model> {
    static MODEL: OnceLock<Arc<Model>> = OnceLock::new();
    let load = || {
        let spec = ModelSpec { name: "en-it".into(), folder: folder() };
        Model::load(&spec, Execution { threads: 1, batch_tokens: 4_096, precision: None }).unwrap()
    };
    MODEL.get_or_init(load).clone()
}

/// Route from `en` to `it`.
pub fn route() -> Route {
    model().route("en", "it").unwrap()
}
