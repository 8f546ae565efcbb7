//! Tests across the crates of tx.
