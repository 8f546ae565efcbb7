//! Inference of tx in browsers and Node.js.
//!
//! A host, which is JavaScript, writes a request as JSON into a [buffer](buffers::Buffers) and receives a
//! response as JSON in another one. [`Session`] answers requests: it opens bundles whose bytes are in
//! buffers, and runs them. The functions for the host are in `exports`, which is compiled for WebAssembly
//! only; the folder `js` contains the package for JavaScript.

pub mod buffers;
pub mod request;
pub mod session;

mod model;
mod problem;

#[cfg(target_family = "wasm")]
mod exports;

pub use session::Session;
