//! A model prepared for search on its device.

use std::{ops::Range, sync::Arc};

#[cfg(feature = "cpu")]
use burn::tensor::DType;
use burn::tensor::Device;
use tx_model::Transformer;
#[cfg(feature = "cpu")]
use tx_model::packed::PackedTransformer;

use super::{
    Hypothesis, Request, SearchOptions, beam,
    decoder::{Decoder, TensorDecoder, Watched, in_host_memory},
    ensemble::EnsembleDecoder,
    forced, greedy,
    job::Job,
};
use crate::{cancellation::Cancellation, error::InferError};

/// A model made ready for searching, or several that search as one.
///
/// On the processor (`Device::flex()`, with the feature `cpu`) weights in single precision are packed
/// for decoding without tensors; on every other device it stays the model it is. Clones share the weights.
#[derive(Debug, Clone)]
pub struct Engine {
    /// At least one.
    members: Vec<Weights>,
    /// Target ids that only pad the vocabulary.
    padding: Range<u32>,
}

#[derive(Debug, Clone)]
enum Weights {
    Tensors(Arc<Transformer>, Device),
    #[cfg(feature = "cpu")]
    Packed(Arc<PackedTransformer>),
}

impl Engine {
    /// Makes `model` ready, which is on `device`.
    pub fn new(model: Transformer, device: &Device) -> Self {
        #[cfg(feature = "cpu")]
        if *device == Device::flex() && model.dtype() == DType::F32 {
            let packed = PackedTransformer::from(&model);
            return Self { members: vec![Weights::Packed(packed.into())], padding: 0..0 };
        }
        Self::on_tensors(model, device)
    }

    /// Decodes on tensors, on the processor too.
    pub fn on_tensors(model: Transformer, device: &Device) -> Self {
        let members = vec![Weights::Tensors(model.into(), device.clone())];
        Self { members, padding: 0..0 }
    }

    /// Never generates the ids of `padding`, which no token has: those between the size of the
    /// tokenizer's vocabulary and that size
    /// [rounded up](tx_model::ModelConfig::vocab_multiple).
    pub fn with_padding(self, padding: Range<u32>) -> Self {
        Self { padding, ..self }
    }

    /// Makes `self` and `other` search as one: a token is as likely as all models find it on the
    /// mean. They must have the same vocabularies.
    pub fn and(mut self, other: Self) -> Self {
        self.members.extend(other.members);
        self.padding = match self.padding.is_empty() {
            true => other.padding,
            false => self.padding.start..self.padding.end.max(other.padding.end),
        };
        self
    }

    /// Whether a tensor lies in the memory of a device that computes beside the processor.
    pub(crate) fn is_on_gpu(&self) -> bool {
        self.members.iter().any(|member| match member {
            Weights::Tensors(_, device) => !in_host_memory(device),
            #[cfg(feature = "cpu")]
            Weights::Packed(_) => false,
        })
    }

    /// Whether threads that search at the same time share the work: tensors take all cores for
    /// themselves.
    pub fn gains_from_threads(&self) -> bool {
        self.members.iter().all(|member| !matches!(member, Weights::Tensors(..)))
    }

    /// Layers of the decoder; of several models, the fewest.
    pub fn decoder_layers(&self) -> usize {
        self.members.iter().map(Weights::decoder_layers).min().unwrap_or(0)
    }

    /// Finds targets for a batch of sources: for each, the `n_best` hypotheses, best first.
    ///
    /// `sources` are token ids of the source tokenizer; `max_len` is the model's longest sequence.
    ///
    /// # Errors
    ///
    /// [`InferError::Search`] if `options` have [`problems`](SearchOptions::problems) or a source is
    /// empty or longer than `max_len`; [`InferError::NotFinite`] if the model computes NaN or
    /// infinity.
    ///
    /// # Panics
    ///
    /// If an id is not in the model's vocabulary, or `max_len` is more than the model's.
    pub fn search(
        &self,
        sources: &[&[u32]],
        max_len: usize,
        options: &SearchOptions,
    ) -> Result<Vec<Vec<Hypothesis>>, InferError> {
        let requests = sources.iter().zip(0..).map(|(source, number)| Request::new(source, number));
        let requests: Vec<_> = requests.collect();
        self.search_requests(&requests, max_len, options, &Cancellation::new())
    }

    /// As [`search`](Self::search), for targets with given beginnings, and until `cancellation` is
    /// set. With [`sampling`](SearchOptions::sampling), returns the samples in the order of their
    /// numbers.
    ///
    /// # Errors
    ///
    /// As [`search`](Self::search); [`InferError::Cancelled`]; [`InferError::Search`] also if a
    /// prefix is not shorter than `max_len`.
    ///
    /// # Panics
    ///
    /// As [`search`](Self::search).
    pub fn search_requests(
        &self,
        requests: &[Request<'_>],
        max_len: usize,
        options: &SearchOptions,
        cancellation: &Cancellation,
    ) -> Result<Vec<Vec<Hypothesis>>, InferError> {
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
        let job = self.read(requests, max_len, options, cancellation);
        let one = options.beam == 1 || options.sampling.is_some();
        if one { greedy::search(job) } else { beam::search(job) }
    }

    /// The natural logarithm of the probability of each token of each target, given its source and
    /// the tokens before it.
    ///
    /// `pairs` are sources, as for [`search`](Self::search), and targets without `<bos>`, which
    /// may end with `<eos>` and be as long as the model's `max_len`.
    ///
    /// # Errors
    ///
    /// [`InferError::Cancelled`]; [`InferError::NotFinite`] with the position of the pair, from 1.
    ///
    /// # Panics
    ///
    /// If an id is not in the model's vocabulary, a source is empty, or a sequence is longer than the
    /// model's `max_len`.
    pub fn log_probabilities(
        &self,
        pairs: &[(&[u32], &[u32])],
        cancellation: &Cancellation,
    ) -> Result<Vec<Vec<f32>>, InferError> {
        let (sources, targets): (Vec<&[u32]>, Vec<&[u32]>) = pairs.iter().copied().unzip();
        if sources.is_empty() {
            return Ok(Vec::new());
        }
        forced::log_probabilities(self.start(&sources, None, false), &targets, cancellation)
    }

    /// Encodes the sources.
    pub(super) fn read<'a>(
        &'a self,
        requests: &[Request<'a>],
        max_len: usize,
        options: &'a SearchOptions,
        cancellation: &'a Cancellation,
    ) -> Job<'a> {
        let sources: Vec<&[u32]> = requests.iter().map(|request| request.source).collect();
        let decoder = self.start(&sources, options.attention_layer, options.watches());
        Job::new(decoder, requests, self.padding.clone(), max_len, options, cancellation)
    }

    /// `layer`, from 1, is the one to watch, if any is.
    fn start<'a>(
        &'a self,
        sources: &[&[u32]],
        layer: Option<usize>,
        watches: bool,
    ) -> Box<dyn Decoder + 'a> {
        let mut decoders: Vec<Box<dyn Decoder + 'a>> = self
            .members
            .iter()
            .map(|member| {
                let layers = member.decoder_layers();
                // The last but one says best where a token comes from (Garg et al. 2019).
                let layer = layer.map_or(layers.saturating_sub(2), |layer| layer - 1);
                member.start(sources, watches.then_some(layer.min(layers.saturating_sub(1))))
            })
            .collect();
        match decoders.len() {
            1 => decoders.remove(0),
            _ => Box::new(EnsembleDecoder::new(decoders)),
        }
    }
}

impl Weights {
    fn decoder_layers(&self) -> usize {
        match self {
            Self::Tensors(model, _) => model.decoder_layers(),
            #[cfg(feature = "cpu")]
            Self::Packed(model) => model.decoder_layers(),
        }
    }

    fn start<'a>(&'a self, sources: &[&[u32]], watched: Watched) -> Box<dyn Decoder + 'a> {
        match self {
            Self::Tensors(model, device) => {
                Box::new(TensorDecoder::new(model, sources, device, watched))
            }
            #[cfg(feature = "cpu")]
            Self::Packed(model) => {
                let mut decoding = model.start(sources);
                if let Some(layer) = watched {
                    decoding.watch(layer);
                }
                Box::new(decoding)
            }
        }
    }
}
