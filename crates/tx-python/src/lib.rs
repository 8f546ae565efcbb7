//! Python package `txmt`: conversion between Python's objects and the libraries of tx.
//!
//! The classes are documented in `python/txmt/__init__.pyi`. Work runs in a thread of its own without
//! the lock of the interpreter, so that Ctrl-C and other threads are served meanwhile.

mod error;
mod interrupt;
mod options;
mod stream;

mod fetching;
mod program;
mod serving;
mod training;

mod metrics;
mod one_text;
mod tokenizer;
mod translator;

mod convert;

use pyo3::prelude::*;

/// Compiled part of `txmt`.
#[pymodule]
mod _txmt {
    #[pymodule_export]
    use super::convert::{export, import_model};
    #[pymodule_export]
    use super::fetching::{fetch, get_model};
    #[pymodule_export]
    use super::metrics::{PyBleu, PyChrf, PyScore, PyTer, paired_test};
    #[pymodule_export]
    use super::one_text::{PyClassifier, PyFillMask, PyGenerator};
    #[pymodule_export]
    use super::program::main;
    #[pymodule_export]
    use super::serving::PyServer;
    #[pymodule_export]
    use super::tokenizer::PyTokenizer;
    #[pymodule_export]
    use super::training::{PyConfig, PyTrainingResult, PyUpdate, PyValidation, resume, train};
    #[pymodule_export]
    use super::translator::{PyScored, PyTranslation, PyTranslator};
    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // Commands in messages are those of the program that the package installs.
        let python: std::ffi::OsString =
            module.py().import("sys")?.getattr("executable")?.extract().unwrap_or_default();
        tx_cli::called::set_txmt(vec![python, "-m".into(), "txmt".into()]);
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
