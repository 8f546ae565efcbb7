//! A model made ready for searching on its device.

use burn::tensor::Device;
use tx_model::Transformer;
#[cfg(feature = "cpu")]
use tx_model::packed::PackedTransformer;

use super::{
    Hypothesis, SearchOptions, beam,
    decoder::{Decoder, TensorDecoder},
    greedy,
};

/// A model made ready for searching.
///
/// On the processor (`Device::flex()`, with the feature `cpu`) its weights are packed for decoding
/// without tensors; on every other device it stays the model it is. Clones share the weights.
#[derive(Debug, Clone)]
pub struct Engine {
    weights: Weights,
}

#[derive(Debug, Clone)]
enum Weights {
    Tensors(Box<Transformer>, Device),
    #[cfg(feature = "cpu")]
    Packed(std::sync::Arc<PackedTransformer>),
}

/// A batch whose sources have been read.
pub(super) struct Job<'a> {
    pub(super) decoder: Box<dyn Decoder + 'a>,
    /// Most tokens of each target.
    pub(super) limits: Vec<usize>,
    pub(super) options: &'a SearchOptions,
}

impl Engine {
    /// Makes `model` ready, which is on `device`.
    pub fn new(model: Transformer, device: &Device) -> Self {
        #[cfg(feature = "cpu")]
        if *device == Device::flex() {
            let packed = PackedTransformer::new(model);
            return Self { weights: Weights::Packed(packed.into()) };
        }
        Self::on_tensors(model, device)
    }

    /// Keeps to tensors, on the processor too.
    pub fn on_tensors(model: Transformer, device: &Device) -> Self {
        Self { weights: Weights::Tensors(Box::new(model), device.clone()) }
    }

    /// Whether threads that search at the same time share the work: tensors take all cores for
    /// themselves.
    pub fn gains_from_threads(&self) -> bool {
        !matches!(self.weights, Weights::Tensors(..))
    }

    /// Finds targets for a batch of sources: for each, the `n_best` hypotheses, best first.
    ///
    /// `sources` are token ids as the source tokenizer gives them; none may be empty or longer than
    /// `max_len`, the model's longest sequence. `options` must have no
    /// [`problems`](SearchOptions::problems).
    pub fn search(
        &self,
        sources: &[&[u32]],
        max_len: usize,
        options: &SearchOptions,
    ) -> Vec<Vec<Hypothesis>> {
        if sources.is_empty() {
            return Vec::new();
        }
        let job = self.read(sources, max_len, options);
        if options.beam == 1 { greedy::search(job) } else { beam::search(job) }
    }

    /// Reads the sources.
    pub(super) fn read<'a>(
        &'a self,
        sources: &[&[u32]],
        max_len: usize,
        options: &'a SearchOptions,
    ) -> Job<'a> {
        let decoder: Box<dyn Decoder + 'a> = match &self.weights {
            Weights::Tensors(model, device) => Box::new(TensorDecoder::new(model, sources, device)),
            #[cfg(feature = "cpu")]
            Weights::Packed(model) => Box::new(model.start(sources)),
        };
        let limits = sources.iter().map(|source| options.limit(source.len(), max_len)).collect();
        Job { decoder, limits, options }
    }
}
