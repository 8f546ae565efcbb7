//! Packing: from weights by name to the matrices of the packed engine.

use std::{borrow::Cow, collections::HashMap};

use rayon::prelude::*;

use super::{PackedMatrix, residual::PackedNorm};
use crate::{
    architecture::Architecture,
    config::{ModelConfig, VocabSizes},
};

/// Models with at least this many weights are packed by all cores. For smaller ones, starting the
/// threads takes longer than packing.
const PARALLEL: usize = 1 << 20;

/// Weights of a model by name.
///
/// Names and shapes are those of [`ModelConfig::weight_shapes_of`]; values are in row-major order.
pub trait WeightSource: Sync {
    /// Returns the values of a weight, borrowed if they already lie in memory.
    ///
    /// # Panics
    ///
    /// If there is no such weight. Callers of `pack` of a packed model check the names first.
    fn weight(&self, name: &str) -> Cow<'_, [f32]>;
}

impl WeightSource for HashMap<String, Vec<f32>> {
    fn weight(&self, name: &str) -> Cow<'_, [f32]> {
        Cow::Borrowed(&self[name])
    }
}

/// Weights of one model that are being packed.
pub(super) struct Packer<'a> {
    pub(super) config: &'a ModelConfig,
    weights: &'a dyn WeightSource,
    /// Whether all cores share the work.
    parallel: bool,
}

impl<'a> Packer<'a> {
    pub(super) fn new(
        config: &'a ModelConfig,
        architecture: Architecture,
        vocab: VocabSizes,
        weights: &'a dyn WeightSource,
    ) -> Self {
        let shapes = config.weight_shapes_of(architecture, vocab);
        let size =
            shapes.iter().map(|weight| weight.shape.iter().product::<usize>()).sum::<usize>();
        Self { config, weights, parallel: size >= PARALLEL }
    }

    pub(super) fn weight(&self, name: &str) -> Cow<'_, [f32]> {
        self.weights.weight(name)
    }

    /// Returns the values of a weight that only some configurations have; empty if it does not
    /// exist.
    pub(super) fn optional(&self, name: &str, exists: bool) -> Vec<f32> {
        if exists { self.weight(name).into_owned() } else { Vec::new() }
    }

    /// Packs a linear layer `[inputs, _]`.
    pub(super) fn linear(&self, name: &str, inputs: usize, bias: bool) -> PackedMatrix {
        let bias = self.optional(&format!("{name}.bias"), bias);
        self.matrix(inputs, &[&self.weight(&format!("{name}.weight"))], bias, 1.0)
    }

    /// Packs matrices `[inputs, _]` side by side, divided by `divisor`, with a bias that may be
    /// empty.
    pub(super) fn matrix(
        &self,
        inputs: usize,
        weights: &[&[f32]],
        bias: Vec<f32>,
        divisor: f32,
    ) -> PackedMatrix {
        PackedMatrix::new(inputs, weights, bias, divisor, self.parallel)
    }

    /// Packs the transpose of `weight`, `[_, inputs]`, with a bias that may be empty.
    pub(super) fn transposed(&self, inputs: usize, weight: &[f32], bias: Vec<f32>) -> PackedMatrix {
        PackedMatrix::transposed(inputs, weight, bias, self.parallel)
    }

    pub(super) fn norm(&self, name: &str) -> PackedNorm {
        PackedNorm {
            gamma: self.weight(&format!("{name}.gamma")).into_owned(),
            beta: self.weight(&format!("{name}.beta")).into_owned(),
            epsilon: self.config.norm_epsilon as f32,
        }
    }

    /// Packs `count` layers.
    pub(super) fn layers<T: Send>(&self, count: usize, pack: impl Fn(usize) -> T + Sync) -> Vec<T> {
        if self.parallel {
            (0..count).into_par_iter().map(&pack).collect()
        } else {
            (0..count).map(pack).collect()
        }
    }

    /// Runs two parts of packing, in parallel for large models.
    pub(super) fn both<A: Send, B: Send>(
        &self,
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        if self.parallel { rayon::join(a, b) } else { (a(), b()) }
    }
}
