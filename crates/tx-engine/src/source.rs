//! Packing: from weights by name to the matrices of the packed engine.

use std::{borrow::Cow, collections::HashMap};

use rayon::prelude::*;
use tx_kernels::{
    Int8Kernel, QuantizedTable, QuantizedWeight, packed_matrix::PackedMatrix,
    quantized_matrix::QuantizedMatrix,
};
use tx_model::{
    architecture::Architecture,
    config::{ModelConfig, VocabSizes},
};

use crate::linear::Linear;

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

    /// Returns the kernel for products of bytes; `None` if the model computes in single precision.
    ///
    /// With a kernel, linear layers, the projection and the embeddings are quantized.
    fn kernel(&self) -> Option<Int8Kernel> {
        None
    }

    /// Returns the matrix of a linear layer or the table of a tied embedding, if the source has it
    /// quantized.
    fn quantized(&self, _name: &str) -> Option<QuantizedWeight> {
        None
    }

    /// Returns the table of an embedding that is not tied to the projection, if the source has it
    /// quantized.
    fn quantized_table(&self, _name: &str) -> Option<QuantizedTable> {
        None
    }
}

/// Weights whose matrices are quantized when they are packed.
pub struct InBytes<'a> {
    /// The weights.
    pub weights: &'a dyn WeightSource,
    /// Kernel for products of the quantized matrices.
    pub kernel: Int8Kernel,
}

impl WeightSource for InBytes<'_> {
    fn weight(&self, name: &str) -> Cow<'_, [f32]> {
        self.weights.weight(name)
    }

    fn kernel(&self) -> Option<Int8Kernel> {
        Some(self.kernel)
    }

    fn quantized(&self, name: &str) -> Option<QuantizedWeight> {
        self.weights.quantized(name)
    }

    fn quantized_table(&self, name: &str) -> Option<QuantizedTable> {
        self.weights.quantized_table(name)
    }
}

impl WeightSource for HashMap<String, Vec<f32>> {
    fn weight(&self, name: &str) -> Cow<'_, [f32]> {
        Cow::Borrowed(&self[name])
    }
}

/// Weights of one model that are being packed.
pub(crate) struct Packer<'a> {
    pub(crate) config: &'a ModelConfig,
    weights: &'a dyn WeightSource,
    /// Whether all cores share the work.
    parallel: bool,
}

impl<'a> Packer<'a> {
    pub(crate) fn new(
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

    pub(crate) fn weight(&self, name: &str) -> Cow<'_, [f32]> {
        self.weights.weight(name)
    }

    /// Returns the values of a weight that only some configurations have; empty if it does not
    /// exist.
    pub(crate) fn optional(&self, name: &str, exists: bool) -> Vec<f32> {
        if exists { self.weight(name).into_owned() } else { Vec::new() }
    }

    /// Packs a linear layer `[inputs, _]`.
    pub(crate) fn linear(&self, name: &str, inputs: usize, bias: bool) -> Linear {
        let bias = self.optional(&format!("{name}.bias"), bias);
        self.matrix(inputs, &[&format!("{name}.weight")], bias, 1.0)
    }

    /// Packs the matrices `[inputs, _]` at paths `names` side by side, divided by `divisor`, with a
    /// bias that may be empty.
    pub(crate) fn matrix(
        &self,
        inputs: usize,
        names: &[&str],
        bias: Vec<f32>,
        divisor: f32,
    ) -> Linear {
        match self.weights.kernel() {
            Some(kernel) => {
                let weight = |name: &&str| self.quantized(name, inputs, false);
                let weights = names.iter().map(weight).collect();
                Linear::Int8(QuantizedMatrix::new(inputs, weights, &bias, divisor, kernel))
            }
            None => {
                let weights: Vec<_> = names.iter().map(|name| self.weight(name)).collect();
                let weights: Vec<&[f32]> = weights.iter().map(|weight| &**weight).collect();
                Linear::F32(PackedMatrix::new(inputs, &weights, bias, divisor, self.parallel))
            }
        }
    }

    /// Packs the transpose of the matrix `[_, inputs]` at path `name`, with a bias that may be
    /// empty.
    pub(crate) fn transposed(&self, inputs: usize, name: &str, bias: Vec<f32>) -> Linear {
        match self.weights.kernel() {
            Some(kernel) => {
                let weights = vec![self.quantized(name, inputs, true)];
                Linear::Int8(QuantizedMatrix::new(inputs, weights, &bias, 1.0, kernel))
            }
            None => {
                let weight = self.weight(name);
                Linear::F32(PackedMatrix::transposed(inputs, &weight, bias, self.parallel))
            }
        }
    }

    fn quantized(&self, name: &str, inputs: usize, is_transposed: bool) -> QuantizedWeight {
        self.weights.quantized(name).unwrap_or_else(|| {
            let weight = self.weight(name);
            QuantizedWeight::quantize(inputs, &weight, is_transposed, self.parallel)
        })
    }

    /// Returns the table `[_, d_model]` at path `name`, quantized if the model is.
    pub(crate) fn quantized_table(&self, name: &str) -> Option<QuantizedTable> {
        self.weights.kernel()?;
        let quantize = || QuantizedTable::quantize(self.config.d_model, &self.weight(name));
        Some(self.weights.quantized_table(name).unwrap_or_else(quantize))
    }

    /// Packs `count` layers.
    pub(crate) fn layers<T: Send>(&self, count: usize, pack: impl Fn(usize) -> T + Sync) -> Vec<T> {
        if self.parallel {
            (0..count).into_par_iter().map(&pack).collect()
        } else {
            (0..count).map(pack).collect()
        }
    }

    /// Runs two parts of packing, in parallel for large models.
    pub(crate) fn both<A: Send, B: Send>(
        &self,
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        if self.parallel { rayon::join(a, b) } else { (a(), b()) }
    }
}
