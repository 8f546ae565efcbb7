//! A model made ready for searching on its device.

#[cfg(feature = "cpu")]
use burn::tensor::DType;
use burn::tensor::Device;
use tx_model::Transformer;
#[cfg(feature = "cpu")]
use tx_model::packed::PackedTransformer;

use super::{
    Hypothesis, Request, SearchOptions, beam,
    decoder::{Decoder, TensorDecoder, Watched},
    ensemble::EnsembleDecoder,
    forced, greedy,
    job::Job,
};

/// A model made ready for searching, or several that search as one.
///
/// On the processor (`Device::flex()`, with the feature `cpu`) weights in single precision are packed
/// for decoding without tensors; on every other device it stays the model it is. Clones share the weights.
#[derive(Debug, Clone)]
pub struct Engine {
    /// At least one.
    members: Vec<Weights>,
}

#[derive(Debug, Clone)]
enum Weights {
    Tensors(Box<Transformer>, Device),
    #[cfg(feature = "cpu")]
    Packed(std::sync::Arc<PackedTransformer>),
}

impl Engine {
    /// Makes `model` ready, which is on `device`.
    pub fn new(model: Transformer, device: &Device) -> Self {
        #[cfg(feature = "cpu")]
        if *device == Device::flex() && model.dtype() == DType::F32 {
            let packed = PackedTransformer::new(model);
            return Self { members: vec![Weights::Packed(packed.into())] };
        }
        Self::on_tensors(model, device)
    }

    /// Keeps to tensors, on the processor too.
    pub fn on_tensors(model: Transformer, device: &Device) -> Self {
        Self { members: vec![Weights::Tensors(Box::new(model), device.clone())] }
    }

    /// Makes `self` and `other` search as one: a token is as likely as all models find it on the
    /// mean. They must have the same vocabularies.
    pub fn and(mut self, other: Self) -> Self {
        self.members.extend(other.members);
        self
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
    /// `sources` are token ids as the source tokenizer gives them; none may be empty or longer than
    /// `max_len`, the model's longest sequence. `options` must have no
    /// [`problems`](SearchOptions::problems).
    pub fn search(
        &self,
        sources: &[&[u32]],
        max_len: usize,
        options: &SearchOptions,
    ) -> Vec<Vec<Hypothesis>> {
        let requests = sources.iter().zip(0..).map(|(source, number)| Request::new(source, number));
        self.search_requests(&requests.collect::<Vec<_>>(), max_len, options)
    }

    /// As [`search`](Self::search), where targets begin with what is asked for. With
    /// [`sampling`](SearchOptions::sampling), gives the targets drawn in the order drawn.
    pub fn search_requests(
        &self,
        requests: &[Request<'_>],
        max_len: usize,
        options: &SearchOptions,
    ) -> Vec<Vec<Hypothesis>> {
        if requests.is_empty() {
            return Vec::new();
        }
        let job = self.read(requests, max_len, options);
        let one = options.beam == 1 || options.sampling.is_some();
        if one { greedy::search(job) } else { beam::search(job) }
    }

    /// The natural logarithm of the probability of each token of each target, given its source and
    /// the tokens before it.
    ///
    /// `pairs` are sources, as for [`search`](Self::search), and targets without `<bos>`, which
    /// may end with `<eos>` and be as long as the model's `max_len`.
    pub fn log_probabilities(&self, pairs: &[(&[u32], &[u32])]) -> Vec<Vec<f32>> {
        let (sources, targets): (Vec<&[u32]>, Vec<&[u32]>) = pairs.iter().copied().unzip();
        if sources.is_empty() {
            return Vec::new();
        }
        forced::log_probabilities(self.start(&sources, None, false), &targets)
    }

    /// Reads the sources.
    pub(super) fn read<'a>(
        &'a self,
        requests: &[Request<'a>],
        max_len: usize,
        options: &'a SearchOptions,
    ) -> Job<'a> {
        let sources: Vec<&[u32]> = requests.iter().map(|request| request.source).collect();
        let decoder = self.start(&sources, options.attention_layer, options.watches());
        Job::new(decoder, requests, max_len, options)
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
