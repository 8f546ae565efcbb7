//! Folders of Hugging Face `transformers`: Marian models (OPUS-MT), M2M-100 and NLLB.

mod folder;
mod options;

pub(super) mod languages;
mod layers;
mod search;
mod vocabulary;

mod m2m100;
mod marian;

pub(super) use m2m100::import_m2m100;
pub(super) use marian::import_marian;
