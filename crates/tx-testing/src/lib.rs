//! Parts that the tests of several crates share. No other code depends on this crate.
#![allow(clippy::unwrap_used, reason = "a test ends at the first failure")]

pub mod server;
