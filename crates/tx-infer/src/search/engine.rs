//! Models prepared for search.

use std::{ops::Range, sync::Arc};

#[cfg(feature = "burn")]
use burn::tensor::DType;
#[cfg(feature = "burn")]
use tx_model::Transformer;
use tx_model::packed::PackedTransformer;

#[cfg(feature = "burn")]
use super::tensors::{TensorDecoder, in_host_memory};
use super::{
    Hypothesis, Request, SearchOptions, beam, decoder::IncrementalDecoder,
    ensemble::EnsembleDecoder, greedy, state::SearchState, target_scores,
};
#[cfg(feature = "burn")]
use crate::device::Device;
use crate::{cancellation::Cancellation, error::InferError};

/// A model prepared for search, or several that search as an ensemble.
///
/// Clones share the weights.
#[derive(Debug, Clone)]
pub struct Engine {
    /// Models, at least one.
    members: Vec<Member>,
    /// Target ids that only pad the vocabulary.
    padding: Range<u32>,
    /// Maximum length of a sequence in tokens; the smallest of an ensemble.
    max_len: usize,
}

/// A model of an ensemble.
#[derive(Debug, Clone)]
pub(crate) enum Member {
    /// Weights of the packed engine.
    Packed(Arc<PackedTransformer>),
    /// A module and its device.
    #[cfg(feature = "burn")]
    Tensors(Arc<Transformer>, burn::tensor::Device),
}

impl Engine {
    /// Creates an engine with packed weights. `max_len` is the model's maximum sequence length in
    /// tokens.
    pub fn new(model: PackedTransformer, max_len: usize) -> Self {
        Self { members: vec![Member::Packed(model.into())], padding: 0..0, max_len }
    }

    /// Creates an engine with the weights of a module, which is on `device`. `max_len` is the
    /// model's maximum sequence length in tokens.
    ///
    /// [`Device::Cpu`] packs weights in single precision. Other devices, and other dtypes on the
    /// CPU, decode with tensors.
    #[cfg(feature = "burn")]
    pub fn from_transformer(model: Transformer, max_len: usize, device: &Device) -> Self {
        if *device == Device::Cpu && model.dtype() == DType::F32 {
            return Self::new(PackedTransformer::from(&model), max_len);
        }
        let members = vec![Member::Tensors(model.into(), device.to_burn())];
        Self { members, padding: 0..0, max_len }
    }

    /// Suppresses the ids of `padding`, which have no token: those between the size of the
    /// tokenizer's vocabulary and that size
    /// [rounded up](tx_model::ModelConfig::vocab_multiple).
    pub fn with_padding(self, padding: Range<u32>) -> Self {
        Self { padding, ..self }
    }

    /// Adds the models of `other` to the ensemble: the probability of a token is the mean over all
    /// models. They must have the same vocabularies.
    pub fn with_member(mut self, other: Self) -> Self {
        self.members.extend(other.members);
        self.padding = match self.padding.is_empty() {
            true => other.padding,
            false => self.padding.start..self.padding.end.max(other.padding.end),
        };
        self.max_len = self.max_len.min(other.max_len);
        self
    }

    /// Returns the maximum length of a sequence in tokens; of an ensemble, the smallest.
    pub fn max_len(&self) -> usize {
        self.max_len
    }

    /// The first model.
    pub(crate) fn first(&self) -> &Member {
        &self.members[0]
    }

    /// Returns `true` if a model runs on a device with its own memory.
    pub(crate) fn is_on_gpu(&self) -> bool {
        self.members.iter().any(|member| match member {
            Member::Packed(_) => false,
            #[cfg(feature = "burn")]
            Member::Tensors(_, device) => !in_host_memory(device),
        })
    }

    /// Returns `true` if searching in several threads is faster. A single tensor operation already
    /// uses all cores.
    pub fn gains_from_threads(&self) -> bool {
        self.members.iter().all(|member| matches!(member, Member::Packed(_)))
    }

    /// Returns the number of decoder layers; of an ensemble, the smallest.
    pub fn decoder_layers(&self) -> usize {
        self.members.iter().map(Member::decoder_layers).min().unwrap_or(0)
    }

    /// Finds targets for a batch of sources: for each, the `n_best` hypotheses, best first.
    ///
    /// `sources` are token ids of the source tokenizer.
    ///
    /// # Errors
    ///
    /// [`InferError::Search`] if `options` have [`problems`](SearchOptions::problems) or a source
    /// is empty or longer than [`max_len`](Self::max_len); [`InferError::NotFinite`] if the model
    /// computes NaN or infinity.
    ///
    /// # Panics
    ///
    /// If an id is not in the model's vocabulary.
    pub fn search(
        &self,
        sources: &[&[u32]],
        options: &SearchOptions,
    ) -> Result<Vec<Vec<Hypothesis>>, InferError> {
        let requests = sources.iter().zip(0..).map(|(source, number)| Request::new(source, number));
        let requests: Vec<_> = requests.collect();
        self.search_requests(&requests, options, &Cancellation::new())
    }

    /// Finds targets as [`search`](Self::search) does, with given prefixes, until `cancellation` is
    /// set. With [`sampling`](SearchOptions::sampling), returns the samples in the order of their
    /// numbers.
    ///
    /// # Errors
    ///
    /// Same as [`search`](Self::search); [`InferError::Cancelled`]; [`InferError::Search`] also if
    /// a prefix is not shorter than [`max_len`](Self::max_len).
    ///
    /// # Panics
    ///
    /// Same as [`search`](Self::search).
    pub fn search_requests(
        &self,
        requests: &[Request<'_>],
        options: &SearchOptions,
        cancellation: &Cancellation,
    ) -> Result<Vec<Vec<Hypothesis>>, InferError> {
        let max_len = self.max_len;
        let mut problems = options.problems();
        for &Request { source, prefix, number } in requests {
            if !(1..=max_len).contains(&source.len()) || prefix.len() >= max_len {
                problems.push(format!(
                    "sentence {number} has {} source ids and {} prefix ids; expected 1 to {max_len} \
                     and fewer than {max_len}",
                    source.len(),
                    prefix.len()
                ));
            }
        }
        if !problems.is_empty() {
            return Err(InferError::Search { problems });
        }
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let state = self.encode(requests, options, cancellation);
        let has_one_hypothesis = options.beam == 1 || options.sampling.is_some();
        if has_one_hypothesis { greedy::search(state) } else { beam::search(state) }
    }

    /// Scores given targets: the natural logarithm of the probability of each token of each target,
    /// given its source and the tokens before it (forced decoding).
    ///
    /// `pairs` are sources, as for [`search`](Self::search), and targets without `<bos>`, which
    /// may end with `<eos>` and have up to [`max_len`](Self::max_len) tokens.
    ///
    /// # Errors
    ///
    /// [`InferError::Cancelled`]; [`InferError::NotFinite`] with the position of the pair, from 1.
    ///
    /// # Panics
    ///
    /// If an id is not in the model's vocabulary, a source is empty, or a sequence is longer than
    /// the model's `max_len`.
    pub fn log_probabilities(
        &self,
        pairs: &[(&[u32], &[u32])],
        cancellation: &Cancellation,
    ) -> Result<Vec<Vec<f32>>, InferError> {
        let (sources, targets): (Vec<&[u32]>, Vec<&[u32]>) = pairs.iter().copied().unzip();
        if sources.is_empty() {
            return Ok(Vec::new());
        }
        let decoder = self.start(&sources, None, false);
        target_scores::log_probabilities(decoder, &targets, cancellation)
    }

    /// Encodes the sources.
    pub(super) fn encode<'a>(
        &'a self,
        requests: &[Request<'a>],
        options: &'a SearchOptions,
        cancellation: &'a Cancellation,
    ) -> SearchState<'a> {
        let sources: Vec<&[u32]> = requests.iter().map(|request| request.source).collect();
        let decoder = self.start(&sources, options.attention_layer, options.records_attention());
        let (padding, max_len) = (self.padding.clone(), self.max_len);
        SearchState::new(decoder, requests, padding, max_len, options, cancellation)
    }

    /// Starts decoding. With `records_attention`, records the attention of decoder layer `layer`,
    /// from 1.
    fn start<'a>(
        &'a self,
        sources: &[&[u32]],
        layer: Option<usize>,
        records_attention: bool,
    ) -> Box<dyn IncrementalDecoder + 'a> {
        let mut decoders: Vec<Box<dyn IncrementalDecoder + 'a>> = self
            .members
            .iter()
            .map(|member| {
                let layers = member.decoder_layers();
                // The penultimate layer aligns tokens best (Garg et al. 2019).
                let layer = layer.map_or(layers.saturating_sub(2), |layer| layer - 1);
                let layer = layer.min(layers.saturating_sub(1));
                member.start(sources, records_attention.then_some(layer))
            })
            .collect();
        match decoders.len() {
            1 => decoders.remove(0),
            _ => Box::new(EnsembleDecoder::new(decoders)),
        }
    }
}

impl Member {
    fn decoder_layers(&self) -> usize {
        match self {
            Self::Packed(model) => model.decoder_layers(),
            #[cfg(feature = "burn")]
            Self::Tensors(model, _) => model.decoder_layers(),
        }
    }

    /// Starts decoding. `recorded_layer` is the decoder layer, from 0, whose cross-attention is
    /// recorded.
    fn start<'a>(
        &'a self,
        sources: &[&[u32]],
        recorded_layer: Option<usize>,
    ) -> Box<dyn IncrementalDecoder + 'a> {
        match self {
            Self::Packed(model) => {
                let mut decoding = model.start(sources);
                if let Some(layer) = recorded_layer {
                    decoding.watch(layer);
                }
                Box::new(decoding)
            }
            #[cfg(feature = "burn")]
            Self::Tensors(model, device) => {
                Box::new(TensorDecoder::new(model, sources, device, recorded_layer))
            }
        }
    }
}
