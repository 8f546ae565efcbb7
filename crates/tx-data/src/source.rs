//! Sources of sentence pairs.
//!
//! [`generated`] and [`phrasebook`] generate pairs, [`local`] reads text files. With the feature
//! `sources`, `read` reads all formats, compressed or not, and `named` finds corpora by name.

pub mod generated;
pub mod limits;
pub mod local;
pub mod pairs;

#[cfg(feature = "sources")]
pub mod named;
#[cfg(feature = "sources")]
pub mod pattern;
#[cfg(feature = "sources")]
pub mod read;

#[cfg(feature = "sources")]
pub mod columns;
#[cfg(feature = "sources")]
pub mod format;
#[cfg(feature = "sources")]
pub mod input;
#[cfg(feature = "sources")]
pub mod language;
#[cfg(feature = "sources")]
pub mod layout;

#[cfg(feature = "sources")]
mod archive;
#[cfg(feature = "sources")]
mod json_lines;
#[cfg(feature = "sources")]
mod parquet;
#[cfg(feature = "sources")]
mod table;
#[cfg(feature = "sources")]
mod tmx;

#[cfg(feature = "sources")]
pub mod error;

pub use pairs::Pairs;
pub use tx_phrasebook as phrasebook;

#[cfg(test)]
#[cfg(feature = "sources")]
mod tests;
