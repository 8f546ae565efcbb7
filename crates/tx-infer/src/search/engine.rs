//! Models prepared for search.

use std::{ops::Range, sync::Arc};

use tx_engine::{Ablation, PackedLanguageModel, PackedTransformer};
use tx_model::DecoderStart;
#[cfg(feature = "burn")]
use tx_model::Transformer;
use tx_text::special::{BOS, PAD};

#[cfg(all(feature = "kernels", not(feature = "fusion")))]
use super::look_ahead::LookAheadDecoder;
#[cfg(feature = "burn")]
use super::tensors::{Encoded, LanguageModelDecoder, TensorDecoder};
use super::{
    BeamStep, Constraints, Hypothesis, Request, SearchOptions, alignment_layer, beam,
    decoder::IncrementalDecoder,
    ensemble::EnsembleDecoder,
    greedy,
    start::start_id,
    state::{Limits, ModelLimits, SearchState},
    target_scores,
};
#[cfg(feature = "burn")]
use crate::device::Device;
use crate::{
    cancellation::Cancellation, error::InferError, lexicon::WordRestriction, pool::Placement,
    shortlist::Shortlist, weights::Weights,
};

/// Message for engines that compute without a single packed model for translation.
pub(crate) const NOT_SINGLE: &str = "values inside a model need one model for translation, the device `cpu` and the precision f32 or int8";

/// A model prepared for search, or several that search as an ensemble.
///
/// A language model has no source: its sources are empty, and texts to continue are prefixes.
///
/// Clones share the weights.
#[derive(Debug, Clone)]
pub struct Engine {
    /// Models, at least one.
    members: Vec<Member>,
    /// First input of the decoder of each model.
    starts: Vec<u32>,
    /// Target ids that only pad the vocabulary.
    padding: Range<u32>,
    /// Maximum length of a sequence in tokens; the smallest of an ensemble.
    max_len: usize,
    /// Candidates for the targets of a search.
    shortlist: Option<Arc<Shortlist>>,
    /// Restriction of targets to the words of a lexicon.
    lexicon: Option<WordRestriction>,
    /// Parts of the model that are turned off.
    ablations: Vec<Ablation>,
}

/// A model of an ensemble.
#[derive(Debug, Clone)]
pub(crate) enum Member {
    /// A model for translation.
    Translation {
        weights: Weights<PackedTransformer>,
        /// Decoder layer, from 0, whose cross-attention aligns tokens.
        alignment_layer: usize,
    },
    /// A language model, which has no source.
    LanguageModel(Weights<PackedLanguageModel>),
}

impl From<Weights<PackedTransformer>> for Member {
    fn from(weights: Weights<PackedTransformer>) -> Self {
        let alignment_layer = alignment_layer(weights.decoder_layers(), None);
        Self::Translation { weights, alignment_layer }
    }
}

impl From<Weights<PackedLanguageModel>> for Member {
    fn from(weights: Weights<PackedLanguageModel>) -> Self {
        Self::LanguageModel(weights)
    }
}

impl Engine {
    /// Creates an engine with packed weights. `max_len` is the model's maximum sequence length in
    /// tokens.
    pub fn new(model: PackedTransformer, max_len: usize) -> Self {
        Self::of(Weights::Packed(model.into()), max_len)
    }

    /// Creates an engine with the weights of a module, which is on `device`. `max_len` is the
    /// model's maximum sequence length in tokens.
    ///
    /// [`Device::Cpu`] packs weights in single precision. Other devices, and other dtypes on the
    /// CPU, decode with tensors.
    #[cfg(feature = "burn")]
    pub fn from_transformer(model: Transformer, max_len: usize, device: &Device) -> Self {
        Self::of(Weights::<PackedTransformer>::of_module(&model, device), max_len)
    }

    pub(crate) fn of(model: impl Into<Member>, max_len: usize) -> Self {
        let (members, starts) = (vec![model.into()], vec![BOS]);
        Self {
            members,
            starts,
            padding: 0..0,
            max_len,
            shortlist: None,
            lexicon: None,
            ablations: Vec::new(),
        }
    }

    /// Starts the decoder with another input (default: `<bos>`).
    pub fn with_start(mut self, start: DecoderStart) -> Self {
        self.starts.fill(start_id(start));
        self
    }

    /// Aligns tokens by the cross-attention of another decoder layer, from 0 [default: that of
    /// [`Bundle::alignment_layer`](crate::Bundle::alignment_layer) without guided alignment].
    pub(crate) fn with_alignment_layer(mut self, layer: usize) -> Self {
        for member in &mut self.members {
            if let Member::Translation { alignment_layer, .. } = member {
                *alignment_layer = layer;
            }
        }
        self
    }

    /// Suppresses the ids of `padding`, which have no token: those between the size of the
    /// tokenizer's vocabulary and that size
    /// [rounded up](tx_model::ModelConfig::vocab_multiple).
    pub fn with_padding(self, padding: Range<u32>) -> Self {
        Self { padding, ..self }
    }

    /// Searches among the candidates of a shortlist, which was [checked](Shortlist::check) for the
    /// tokenizers of the model. It does not apply to forced decoding.
    ///
    /// # Errors
    ///
    /// [`InferError::Search`] for an ensemble, a language model, and models that run on tensors.
    pub fn with_shortlist(self, shortlist: Arc<Shortlist>) -> Result<Self, InferError> {
        match self.shortlist_problem() {
            None => Ok(Self { shortlist: Some(shortlist), ..self }),
            Some(problem) => Err(InferError::Search { problems: vec![problem] }),
        }
    }

    /// Returns `true` if the engine searches among the candidates of a shortlist.
    pub fn has_shortlist(&self) -> bool {
        self.shortlist.is_some()
    }

    /// Reason for which the engine cannot use a shortlist.
    pub(crate) fn shortlist_problem(&self) -> Option<String> {
        match (self.first(), self.members.len()) {
            #[cfg(feature = "burn")]
            (Member::Translation { weights: Weights::Module(..), .. }, _)
            | (Member::LanguageModel(Weights::Module(..)), _) => {
                Some("`shortlist` needs the device `cpu` and the precision f32 or int8".into())
            }
            (Member::Translation { .. }, 1) => None,
            (Member::Translation { .. }, _) => {
                Some("`shortlist` conflicts with an ensemble".into())
            }
            (Member::LanguageModel(_), _) => {
                Some("`shortlist` needs a source, which a language model does not have".into())
            }
        }
    }

    /// Restricts targets to the words of a lexicon in searches with [`LexiconUse::Words`](super::LexiconUse::Words) or
    /// [`LexiconUse::Both`](super::LexiconUse::Both).
    pub(crate) fn with_lexicon(self, lexicon: WordRestriction) -> Self {
        Self { lexicon: Some(lexicon), ..self }
    }

    /// Turns parts of the model off in searches, to see what they contribute.
    ///
    /// # Errors
    ///
    /// [`InferError::Search`] if there is no such part; for an ensemble, a language model, and models that run on
    /// tensors.
    pub fn with_ablations(self, ablations: Vec<Ablation>) -> Result<Self, InferError> {
        let problems = match self.single_translator() {
            Some(model) => model.ablation_problems(&ablations),
            None => vec![NOT_SINGLE.into()],
        };
        match problems.is_empty() {
            true => Ok(Self { ablations, ..self }),
            false => Err(InferError::Search { problems }),
        }
    }

    /// Parts of the model that are turned off.
    pub(crate) fn ablations(&self) -> &[Ablation] {
        &self.ablations
    }

    /// The model, if it is one for translation on the packed engine and not an ensemble.
    pub(crate) fn single_translator(&self) -> Option<&PackedTransformer> {
        match &self.members[..] {
            [Member::Translation { weights: Weights::Packed(model), .. }] => Some(model),
            _ => None,
        }
    }

    /// Adds the models of `other` to the ensemble: the probability of a token is the mean over all
    /// models. They must have the same vocabularies and the same task. A shortlist and ablations are not kept.
    pub fn with_member(mut self, other: Self) -> Self {
        self.members.extend(other.members);
        self.starts.extend(other.starts);
        self.padding = match self.padding.is_empty() {
            true => other.padding,
            false => self.padding.start..self.padding.end.max(other.padding.end),
        };
        self.max_len = self.max_len.min(other.max_len);
        self.shortlist = None;
        self.ablations.clear();
        self
    }

    /// Returns the maximum length of a sequence in tokens; of an ensemble, the smallest.
    pub fn max_len(&self) -> usize {
        self.max_len
    }

    /// Id of the first input of the decoder; of an ensemble, that of the first model.
    pub(crate) fn start(&self) -> u32 {
        self.starts[0]
    }

    /// The first model.
    pub(crate) fn first(&self) -> &Member {
        &self.members[0]
    }

    /// Decoder layer, from 0, whose cross-attention aligns tokens; of an ensemble, that of the first
    /// model.
    pub(crate) fn alignment_layer(&self) -> usize {
        self.first().alignment_layer()
    }

    /// Returns `true` if the models have a source; language models do not.
    pub(crate) fn has_source(&self) -> bool {
        matches!(self.first(), Member::Translation { .. })
    }

    /// Use of threads by the models.
    pub(crate) fn placement(&self) -> Placement {
        let places = || self.members.iter().map(Member::placement);
        if places().any(|place| place == Placement::Gpu) {
            Placement::Gpu
        } else if places().any(|place| place == Placement::Host) {
            Placement::Host
        } else {
            Placement::Threads
        }
    }

    /// Returns `true` if searching in several threads is faster. A single tensor operation already
    /// uses all cores.
    pub fn gains_from_threads(&self) -> bool {
        self.placement() == Placement::Threads
    }

    /// Returns `true` if a batch of few rows is faster when threads without a batch take parts of its
    /// products.
    pub(crate) fn gains_from_helpers(&self) -> bool {
        self.members.iter().any(|member| match member {
            Member::Translation { weights: Weights::Packed(model), .. } => {
                model.gains_from_helpers()
            }
            _ => true,
        })
    }

    /// Returns the number of decoder layers with cross-attention, of which language models have
    /// none; of an ensemble, the smallest.
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
    /// numbers. A request that is [canceled](Request::cancellation) alone has no hypotheses.
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
        self.check(requests, options)?;
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let state = self.encode(requests, options, cancellation);
        if options.rows_are_independent() {
            greedy::search(state, &mut |_| {})
        } else {
            beam::search(state, None)
        }
    }

    /// Finds targets of one source as [`search_requests`](Self::search_requests) does, by beam search, and returns its
    /// steps as well.
    ///
    /// # Errors
    ///
    /// Same as [`search_requests`](Self::search_requests); [`InferError::Search`] also for sampling.
    ///
    /// # Panics
    ///
    /// Same as [`search`](Self::search).
    pub fn search_steps(
        &self,
        request: Request<'_>,
        options: &SearchOptions,
        cancellation: &Cancellation,
    ) -> Result<(Vec<Hypothesis>, Vec<BeamStep>), InferError> {
        self.check(&[request], options)?;
        if options.sampling.is_some() {
            return Err(InferError::Search { problems: vec!["`sampling` has no beam".into()] });
        }
        let (requests, mut steps) = ([request], Vec::new());
        let state = self.encode(&requests, options, cancellation);
        let found = beam::search(state, Some(&mut steps))?;
        Ok((found.into_iter().flatten().collect(), steps))
    }

    /// Finds one target by greedy search or with one sample, and passes its ids so far to `observe`
    /// after each token, from the end of the prefix on.
    ///
    /// # Errors
    ///
    /// Same as [`search_requests`](Self::search_requests); [`InferError::Search`] also if the
    /// options keep several hypotheses or samples.
    ///
    /// # Panics
    ///
    /// Same as [`search`](Self::search).
    pub fn search_streaming(
        &self,
        request: Request<'_>,
        options: &SearchOptions,
        cancellation: &Cancellation,
        observe: &mut dyn FnMut(&[u32]),
    ) -> Result<Hypothesis, InferError> {
        self.check(&[request], options)?;
        if options.rows() != 1 {
            let problem = format!(
                "streaming needs one hypothesis (`beam` = 1 or one sample), found {}",
                options.rows()
            );
            return Err(InferError::Search { problems: vec![problem] });
        }
        let requests = [request];
        let state = self.encode(&requests, options, cancellation);
        let found = greedy::search(state, observe)?;
        if request.is_cancelled() {
            return Err(InferError::Cancelled);
        }
        let missing = || InferError::Search { problems: vec!["no token is allowed".into()] };
        found.into_iter().flatten().next().ok_or_else(missing)
    }

    /// # Errors
    ///
    /// [`InferError::Search`] with all problems of the options and the requests.
    fn check(&self, requests: &[Request<'_>], options: &SearchOptions) -> Result<(), InferError> {
        let max_len = self.max_len;
        let mut problems = options.problems();
        let sources = if self.has_source() { 1..=max_len } else { 0..=0 };
        if !self.has_source() {
            options.problems_without_source(&mut problems);
        }
        for &Request { source, forced_first, prefix, number, .. } in requests {
            let given = usize::from(forced_first.is_some()) + prefix.len();
            if !sources.contains(&source.len()) || given >= max_len {
                problems.push(format!(
                    "sentence {number} has {} source ids and {} given target ids; expected {} to {} and \
                     fewer than {max_len}",
                    source.len(),
                    given,
                    sources.start(),
                    sources.end()
                ));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(InferError::Search { problems }) }
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
        let decoder = self.decoder(&sources, None, false, None);
        target_scores::log_probabilities(decoder, self.start(), &targets, cancellation)
    }

    /// Encodes the sources.
    pub(super) fn encode<'a>(
        &'a self,
        requests: &[Request<'a>],
        options: &'a SearchOptions,
        cancellation: &'a Cancellation,
    ) -> SearchState<'a> {
        let sources: Vec<&[u32]> = requests.iter().map(|request| request.source).collect();
        let (layer, records) = (options.attention_layer, options.records_attention());
        let decoder = self.decoder(&sources, layer, records, self.candidates(requests));
        let (padding, max_len) = (self.padding.clone(), self.max_len);
        let limits = if self.has_source() { Limits::Source } else { Limits::Prefix };
        let lexicon = self.lexicon.as_ref().filter(|_| options.lexicon.restricts());
        let model = ModelLimits { start: self.start(), padding, limits, max_len, lexicon };
        SearchState::new(decoder, requests, model, options, cancellation)
    }

    /// Candidates of each request in ascending order, if there is a shortlist. Those that are all
    /// tokens of the vocabulary include its padding.
    fn candidates(&self, requests: &[Request<'_>]) -> Option<Vec<Vec<u32>>> {
        let shortlist = self.shortlist.as_ref()?;
        let Member::Translation { weights: Weights::Packed(model), .. } = self.first() else {
            return None;
        };
        let vocabulary = model.target_vocabulary();
        let tokens = vocabulary.saturating_sub(self.padding.len());
        let of_request = |request: &Request<'_>| {
            let required = request.constraints.into_iter().flat_map(Constraints::ids);
            let given = request.forced_first.iter().chain(request.prefix).copied();
            let given: Vec<u32> = given.chain(required).collect();
            let mut candidates = shortlist.candidates(request.source, &given);
            candidates.retain(|&id| (id as usize) < tokens);
            // All tokens but `<pad>` and `<bos>`, which are never generated.
            let others = candidates.iter().filter(|id| ![PAD, BOS].contains(id)).count();
            match others + 2 < tokens {
                true => candidates,
                false => (0..vocabulary as u32).collect(),
            }
        };
        Some(requests.iter().map(of_request).collect())
    }

    /// Starts decoding. With `records_attention`, records the attention of decoder layer `layer`,
    /// from 1. With `candidates`, next tokens are those of each source.
    pub(super) fn decoder<'a>(
        &'a self,
        sources: &[&[u32]],
        layer: Option<usize>,
        records_attention: bool,
        candidates: Option<Vec<Vec<u32>>>,
    ) -> Box<dyn IncrementalDecoder + 'a> {
        let mut decoders: Vec<Box<dyn IncrementalDecoder + 'a>> = self
            .members
            .iter()
            .map(|member| {
                let layer = match layer {
                    Some(_) => alignment_layer(member.decoder_layers(), layer),
                    None => member.alignment_layer(),
                };
                let recorded = records_attention.then_some(layer);
                member.start(sources, recorded, candidates.clone(), &self.ablations)
            })
            .collect();
        match decoders.len() {
            1 => decoders.remove(0),
            _ => Box::new(EnsembleDecoder::new(decoders, &self.starts)),
        }
    }
}

impl Weights<PackedTransformer> {
    fn decoder_layers(&self) -> usize {
        match self {
            Self::Packed(model) => model.decoder_layers(),
            #[cfg(feature = "burn")]
            Self::Module(model, _) => model.decoder_layers(),
        }
    }
}

impl Member {
    fn decoder_layers(&self) -> usize {
        match self {
            Self::Translation { weights, .. } => weights.decoder_layers(),
            Self::LanguageModel(_) => 0,
        }
    }

    /// Decoder layer, from 0, whose cross-attention aligns tokens.
    fn alignment_layer(&self) -> usize {
        match self {
            Self::Translation { alignment_layer, .. } => *alignment_layer,
            Self::LanguageModel(_) => 0,
        }
    }

    fn placement(&self) -> Placement {
        match self {
            Self::Translation { weights, .. } => weights.placement(),
            Self::LanguageModel(weights) => weights.placement(),
        }
    }

    /// Starts decoding. `recorded_layer` is the decoder layer, from 0, whose cross-attention is
    /// recorded. `candidates`, those of the next tokens of each source, and `ablations` are for the packed engine.
    fn start<'a>(
        &'a self,
        sources: &[&[u32]],
        recorded_layer: Option<usize>,
        candidates: Option<Vec<Vec<u32>>>,
        ablations: &[Ablation],
    ) -> Box<dyn IncrementalDecoder + 'a> {
        match self {
            Self::Translation { weights: Weights::Packed(model), .. } => {
                let mut decoding = model.start_ablated(sources, ablations);
                if let Some(layer) = recorded_layer {
                    decoding.watch(layer);
                }
                if let Some(candidates) = candidates {
                    decoding.restrict(candidates);
                }
                Box::new(decoding)
            }
            #[cfg(feature = "burn")]
            Self::Translation { weights: Weights::Module(model, device), .. } => {
                let encoded = Encoded::new(model, sources, device);
                #[cfg(all(feature = "kernels", not(feature = "fusion")))]
                if recorded_layer.is_none()
                    && let Some(decoder) =
                        LookAheadDecoder::of_transformer(model, sources, &encoded, device)
                {
                    return Box::new(decoder);
                }
                Box::new(TensorDecoder::new(model, sources, encoded, device, recorded_layer))
            }
            Self::LanguageModel(Weights::Packed(model)) => Box::new(model.start(sources.len())),
            #[cfg(feature = "burn")]
            Self::LanguageModel(Weights::Module(model, device)) => {
                #[cfg(all(feature = "kernels", not(feature = "fusion")))]
                if let Some(decoder) =
                    LookAheadDecoder::of_language_model(model, sources.len(), device)
                {
                    return Box::new(decoder);
                }
                Box::new(LanguageModelDecoder::new(model, sources.len(), device))
            }
        }
    }
}
