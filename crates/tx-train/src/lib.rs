//! Training.

pub mod loss;
