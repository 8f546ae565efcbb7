//! Buffers of intermediate results.

use crate::{attention::AttentionScratch, probe::Probe};

/// Buffers of intermediate results, shared by all layers.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// `[rows, d_model]`
    pub(crate) normalized: Vec<f32>,
    pub(crate) attention: AttentionScratch,
    /// `[rows, 2 d_model]`
    pub(crate) keys_values: Vec<f32>,
    pub(crate) hidden: Hidden,
    /// `[rows, d_model]`
    pub(crate) output: Vec<f32>,
    pub(crate) probe: Probe,
}

/// Buffers of the inner features of a feed-forward network.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    /// `[rows, d_ff]`
    pub(crate) values: Vec<f32>,
    /// `[rows, d_ff]`, used by the gated variant.
    pub(crate) gate: Vec<f32>,
}
