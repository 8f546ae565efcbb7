//! The program `txmt`.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the program with `arguments`, of which the first is its name, and returns the exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| txmt::main(Vec::new(), arguments))
}
