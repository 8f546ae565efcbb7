//! The bundle of the tests.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use tx_infer::Pool;

use crate::model::{Model, ModelSpec, Route};

/// Folder of a bundle with random weights, which translates `en` to `it`.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/bundle-v1")
}

/// The model, loaded once.
pub fn model() -> Arc<Model> {
    static MODEL: OnceLock<Arc<Model>> = OnceLock::new();
    let load = || {
        let spec = ModelSpec { name: "en-it".into(), folder: folder() };
        Model::load(&spec, None, &Pool::new(1)).unwrap()
    };
    MODEL.get_or_init(load).clone()
}

/// Route from `en` to `it`.
pub fn route() -> Route {
    model().route("en", "it").unwrap()
}
