//! Conversion of translation models: import of other toolkits' models as bundles, and export of
//! bundles.
//!
//! [`import`](import::import) reads a folder or a file of another toolkit and returns a bundle that
//! can be saved. [`export`](export::export) writes a bundle in the format of another toolkit. Both
//! reject everything that the other format cannot express, by name, and neither runs any code of a
//! model: pickles are read by a reader that executes nothing.

pub mod export;
pub mod import;

pub mod error;

mod marian;
mod rows;
mod source_files;
mod tensors;

pub use error::ConvertError;
pub use export::ExportFormat;
pub use import::ImportFormat;
