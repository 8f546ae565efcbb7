//! HTTP server for translation bundles.
//!
//! [`Server::bind`] loads models and listens; [`Server::run`] answers until a signal. The interfaces are
//! those of LibreTranslate, DeepL and KServe, a native one, and a web page: see `docs/serving.md`.
//!
//! A request is divided into sentences ([`tx_markup::Plan`]), which wait in the queue of one
//! [`tx_infer::Pool`]; its threads translate batches of sentences of several requests. The threads of the
//! network never compute.
//!
//! ```no_run
//! use tx_serve::{Server, ServerOptions};
//!
//! let options = ServerOptions::new(vec!["en-de=runs/en-de".parse()?]);
//! Server::bind(options)?.run(None)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod options;
pub mod server;

mod connections;

pub mod model;
pub mod registry;

mod http;
pub mod service;

pub mod job;

mod bodies;
pub mod detect;
mod downloads;
pub mod glossaries;
mod keys;
pub mod language;
mod limiter;
mod random_id;

mod metrics;

pub mod error;

#[cfg(test)]
mod fixture;

pub use error::{ApiError, ServeError};
pub use glossaries::GlossarySpec;
pub use model::ModelSpec;
pub use options::{Cors, HostName, Limits, OfflinePage, PublicUrl, ServerOptions};
pub use server::{Server, Stop};
