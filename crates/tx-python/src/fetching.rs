//! Downloads: corpora and models by name.

use std::path::PathBuf;

use pyo3::prelude::*;
use tx_catalogue::{Catalogue, CatalogueError, Store};
use tx_cli::download;
use tx_fetch::{Cache, Fetcher, Mode, Patience};
use tx_train::{
    TrainError,
    tx_data::{
        DataError,
        source::named::{self, CorpusCache, Endpoints, Part, Request},
    },
};

use crate::{error::IntoException, interrupt::interruptible};

/// Cache of named corpora; none if there is no folder for it.
pub(crate) fn corpora() -> Option<CorpusCache> {
    let cache = Cache::of_user().ok()?;
    Some(CorpusCache { cache, endpoints: Endpoints::from_env() })
}

/// Fetcher with the cache of the user, which shows its progress unless it is `quiet`.
pub(crate) fn fetcher(quiet: bool) -> Result<Fetcher, TrainError> {
    let fetcher = download::fetcher(Mode::Online, Patience::default(), quiet);
    fetcher.map_err(|error| DataError::from(error).into())
}

/// Downloads a corpus, and returns the paths of its files in the cache.
#[pyfunction]
#[pyo3(signature = (name, *, source = "", target = "", subset = None, split = None,
                    revision = None, progress = false))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(crate) fn fetch(
    py: Python<'_>,
    name: String,
    source: &str,
    target: &str,
    subset: Option<String>,
    split: Option<String>,
    revision: Option<String>,
    progress: bool,
) -> PyResult<Vec<PathBuf>> {
    let (source, target) = (source.to_owned(), target.to_owned());
    let request = Request { name, source, target, subset, split, revision };
    let work = || -> Result<Vec<PathBuf>, TrainError> {
        let fetcher = fetcher(!progress)?;
        let corpus =
            named::find(&request, &fetcher, &Endpoints::from_env()).map_err(DataError::from)?;
        let parts = [Part::Training, Part::Validation, Part::Test];
        let files = corpus
            .remotes(&parts)
            .into_iter()
            .map(|remote| Ok(fetcher.get(remote).map_err(DataError::from)?.path));
        files.collect()
    };
    interruptible(py, || {}, work)?.map_err(IntoException::into_exception)
}

/// Downloads a model of the catalogue, and returns the folder of its bundle.
#[pyfunction]
#[pyo3(signature = (name, *, progress = false))]
pub(crate) fn get_model(py: Python<'_>, name: String, progress: bool) -> PyResult<PathBuf> {
    let work = || -> Result<PathBuf, CatalogueError> {
        let fetcher = download::fetcher(Mode::Online, Patience::default(), !progress)?;
        let catalogue = Catalogue::shipped()?;
        Store::in_cache(fetcher.cache()).get(catalogue.entry(&name)?, &fetcher)
    };
    interruptible(py, || {}, work)?.map_err(IntoException::into_exception)
}
