//! Translation models by name.
//!
//! A [`Catalogue`] lists published models: their files, with sizes and checksums where they are known, their
//! languages and licenses. A [`Store`] downloads the files of an [`Entry`] with a
//! [`Fetcher`](tx_fetch::Fetcher), converts them into a bundle with [`tx_convert`], and finds the bundle
//! by the name of the entry afterwards.

mod catalogue;
mod error;
mod store;

pub use catalogue::{Catalogue, Entry, EntryFile};
pub use error::CatalogueError;
pub use store::Store;
