//! Construction of shortlists from the cross-attention of a model.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
};

use rayon::prelude::*;
use tx_text::{
    Tokenizers,
    special::{EOS, UNK},
};

use super::{Shortlist, cross_attention::cross_attention};
use crate::{
    error::InferError,
    search::{Engine, Member},
    tokens::Tokens,
    translator::Translator,
    weights::Weights,
};

/// Pairs that are decoded together.
const BATCH: usize = 32;

/// Smallest attention weight of a link.
const MIN_WEIGHT: f32 = 0.05;

/// Links of all source tokens that are kept, at least; more take memory.
const MAX_LINKS: usize = 1 << 24;

/// Options of a shortlist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortlistOptions {
    /// Candidates of each source token.
    pub candidates: usize,
    /// Most frequent target tokens, which are candidates of every source.
    pub frequent: usize,
    /// Decoder layer, from 0, whose attention links tokens; `None` selects
    /// [that of the bundle](crate::Bundle::alignment_layer).
    pub layer: Option<usize>,
}

impl Default for ShortlistOptions {
    fn default() -> Self {
        Self { candidates: 100, frequent: 100, layer: None }
    }
}

/// Collects links between the tokens of sources and targets.
///
/// A link of a target token has the attention weight that the model gives to a source token when it
/// generates the target token. The candidates of a source token are the target tokens with the largest
/// sums of weights, those that are frequent not counted, and the token with the same text.
#[derive(Debug, Clone)]
pub struct ShortlistBuilder {
    engine: Engine,
    tokenizers: Tokenizers,
    options: ShortlistOptions,
    layer: usize,
    /// Sums of the weights of each source token's links.
    links: Vec<HashMap<u32, f32>>,
    /// Number of links of all source tokens.
    count: usize,
    max_links: usize,
    /// Occurrences of each target token.
    occurrences: Vec<u64>,
}

impl ShortlistBuilder {
    /// Creates a builder with the model of `translator`.
    ///
    /// # Errors
    ///
    /// [`InferError::Search`] if it is an ensemble or does not run on the packed engine, or the
    /// decoder has no such layer.
    pub fn new(translator: &Translator, options: ShortlistOptions) -> Result<Self, InferError> {
        let engine = translator.engine().clone();
        let mut problems = engine.shortlist_problem().into_iter().collect::<Vec<_>>();
        let layers = engine.decoder_layers();
        let layer = options.layer.unwrap_or(engine.alignment_layer());
        if layer >= layers {
            problems.push(format!(
                "`attention_layer` = {}, but the decoder has {layers} layers",
                layer.saturating_add(1)
            ));
        }
        if !problems.is_empty() {
            return Err(InferError::Search { problems });
        }
        let tokenizers = translator.tokenizers().clone();
        let source = tokenizers.source.vocab_size();
        Ok(Self {
            links: vec![HashMap::new(); source],
            count: 0,
            max_links: MAX_LINKS.max(source.saturating_mul(options.candidates).saturating_mul(8)),
            occurrences: vec![0; tokenizers.target.vocab_size()],
            engine,
            tokenizers,
            options,
            layer,
        })
    }

    /// Adds the links of pairs of source and target, whose tokens are those of the translator's
    /// [`texts`](Translator::texts). Pairs with an empty side are left out.
    pub fn add(&mut self, pairs: &[(Tokens, Tokens)]) {
        let Member::Translation { weights: Weights::Packed(model), .. } = self.engine.first()
        else {
            return;
        };
        let is_whole =
            |(source, target): &&(Tokens, Tokens)| !source.ids.is_empty() && !target.ids.is_empty();
        let mut ids: Vec<(&[u32], &[u32])> =
            pairs.iter().filter(is_whole).map(|(s, t)| (&*s.ids, &*t.ids)).collect();
        // Targets of one batch end together.
        ids.sort_by_key(|(_, target)| target.len());
        let start = self.engine.start();
        let links = |batch: &[(&[u32], &[u32])]| {
            let mut links = Vec::new();
            cross_attention(model, start, self.layer, batch, |pair, target, weights| {
                let linked = batch[pair].0.iter().zip(weights);
                let linked = linked.filter(|(_, weight)| **weight >= MIN_WEIGHT);
                links.extend(linked.map(|(source, weight)| (*source, target, *weight)));
            });
            links
        };
        let found: Vec<Vec<(u32, u32, f32)>> = ids.par_chunks(BATCH).map(links).collect();
        for (source, target, weight) in found.into_iter().flatten() {
            if !self.is_linked(source, target) {
                continue;
            }
            let Some(links) = self.links.get_mut(source as usize) else { continue };
            let before = links.len();
            *links.entry(target).or_default() += weight;
            self.count += links.len() - before;
        }
        for &token in ids.iter().flat_map(|(_, target)| *target) {
            self.occurrences.get_mut(token as usize).into_iter().for_each(|count| *count += 1);
        }
        if self.count > self.max_links {
            self.prune();
        }
    }

    /// Whether a link of these tokens counts: `<eos>` and language tokens translate to no other ones.
    fn is_linked(&self, source: u32, target: u32) -> bool {
        let Tokenizers { source: sources, target: targets } = &self.tokenizers;
        (source == UNK || !sources.is_special(source)) && !targets.is_special(target)
    }

    /// Keeps the strongest links of each source token, four times as many as there are candidates.
    pub(super) fn prune(&mut self) {
        let kept = self.options.candidates.saturating_mul(4);
        self.count = 0;
        for links in &mut self.links {
            if links.len() > kept {
                *links = strongest(links).take(kept).collect();
            }
            self.count += links.len();
        }
    }

    /// Returns the shortlist.
    pub fn finish(&self) -> Shortlist {
        let targets = &self.tokenizers.target;
        let mut frequent: Vec<u32> = (0..self.occurrences.len() as u32)
            .filter(|&id| self.occurrences[id as usize] > 0 && !targets.is_special(id))
            .collect();
        frequent.sort_by_key(|&id| (Reverse(self.occurrences[id as usize]), id));
        frequent.truncate(self.options.frequent);
        frequent.sort_unstable();

        let lists = (0..).zip(&self.links).map(|(source, links)| {
            let is_new = |id: &u32| ![EOS, UNK].contains(id) && frequent.binary_search(id).is_err();
            let linked = strongest(links).map(|(id, _)| id).filter(is_new);
            let mut found: BTreeSet<u32> = linked.take(self.options.candidates).collect();
            let text = self.tokenizers.source.token(source);
            let same = text.and_then(|text| targets.id(&text));
            found.extend(same.filter(|id| !targets.is_special(*id) && is_new(id)));
            found.into_iter().collect()
        });
        Shortlist::new(&self.tokenizers, frequent.clone(), lists)
    }
}

/// Links by the sum of their weights, the largest first, on a tie by id.
fn strongest(links: &HashMap<u32, f32>) -> impl Iterator<Item = (u32, f32)> + use<> {
    let mut links: Vec<(u32, f32)> = links.iter().map(|(id, weight)| (*id, *weight)).collect();
    links.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    links.into_iter()
}

#[cfg(test)]
impl ShortlistBuilder {
    /// Sets the sums of a source token's links.
    pub(super) fn set_sums(&mut self, source: usize, sums: &[(u32, f32)]) {
        self.links[source] = sums.iter().copied().collect();
    }

    /// Sets the occurrences of target tokens.
    pub(super) fn set_occurrences(&mut self, occurrences: &[(u32, u64)]) {
        occurrences.iter().for_each(|(token, count)| self.occurrences[*token as usize] = *count);
    }

    /// Number of links.
    pub(super) fn count(&self) -> usize {
        self.count
    }
}
