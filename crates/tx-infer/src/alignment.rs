//! Word alignment of a source and a target by cross-attention.
//!
//! 1. The maps of one decoder layer are averaged over its heads, or one head is selected.
//! 2. Tokens are merged into words: weights *to* the pieces of a word are summed, weights *from*
//!    them averaged. Weights to special tokens are left out, so a row may sum to less than 1.
//! 3. The result is the soft alignment. The hard alignment links each target word to the source
//!    word with the largest weight, on a tie to the first.
//!
//! A model that was not trained to align gives rough alignments. They show its attention and do not
//! replace a dictionary.

use rayon::prelude::*;

use crate::{
    attention::{Attention, AttentionKind, AttentionMap},
    search::{Engine, Member},
    tokens::Tokens,
    weights::Weights,
};

/// Layer and head of alignments, both from 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AlignmentOptions {
    /// Decoder layer; `None` selects [that of the bundle](crate::Bundle::alignment_layer).
    pub layer: Option<usize>,
    /// Head; `None` selects the mean over all heads.
    pub head: Option<usize>,
}

/// Alignment of the words of a source and a target.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Alignment {
    /// Words of the source.
    pub source: Vec<String>,
    /// Words of the target.
    pub target: Vec<String>,
    /// Attention weights: for each target word, a row over the source words.
    pub weights: Vec<Vec<f32>>,
}

impl Alignment {
    /// Computes the alignment of a pair from its cross-attention; `map` is
    /// `[target tokens, source tokens]`.
    pub fn new(source: &Tokens, target: &Tokens, map: &AttentionMap) -> Self {
        let mut pieces = vec![0_usize; target.words.len()];
        for word in target.word_of.iter().flatten() {
            pieces.get_mut(*word).into_iter().for_each(|count| *count += 1);
        }
        let mut weights = vec![vec![0.0; source.words.len()]; target.words.len()];
        for (row, word) in map.rows().zip(&target.word_of) {
            let Some((word, pieces)) =
                word.and_then(|word| weights.get_mut(word).zip(pieces.get(word)))
            else {
                continue;
            };
            for (weight, column) in row.iter().zip(&source.word_of) {
                if let Some(sum) = column.and_then(|column| word.get_mut(column)) {
                    *sum += weight / *pieces as f32;
                }
            }
        }
        Self { source: source.words.clone(), target: target.words.clone(), weights }
    }

    /// Returns the linked pairs of a source and a target word, both from 0, in the order of the
    /// source. A target word that attends to no word has no link.
    pub fn links(&self) -> Vec<(usize, usize)> {
        let mut links: Vec<(usize, usize)> = self
            .weights
            .iter()
            .enumerate()
            .filter_map(|(target, row)| {
                let mut best = None;
                for (source, &weight) in row.iter().enumerate() {
                    if weight > best.map_or(0.0, |(_, largest)| largest) {
                        best = Some((source, weight));
                    }
                }
                best.map(|(source, _)| (source, target))
            })
            .collect();
        links.sort_unstable();
        links
    }

    /// Returns the links as `0-0 1-2 …`, the format of Pharaoh, Moses and fast_align.
    pub fn pharaoh(&self) -> String {
        let links: Vec<String> =
            self.links().iter().map(|(source, target)| format!("{source}-{target}")).collect();
        links.join(" ")
    }
}

/// Aligns pairs of texts with a model.
#[derive(Debug, Clone)]
pub struct Aligner {
    engine: Engine,
    options: AlignmentOptions,
}

impl Aligner {
    /// Creates an aligner with the model of `engine`, or with the first model of an ensemble. A
    /// layer or head that the model does not have gives empty alignments.
    pub fn new(engine: Engine, options: AlignmentOptions) -> Self {
        Self { engine, options }
    }

    /// Aligns pairs of source and target; results are in the order of `pairs`.
    pub fn align(&self, pairs: &[(Tokens, Tokens)]) -> Vec<Alignment> {
        match self.engine.first() {
            // A language model has no cross-attention, so its alignments have no links.
            Member::LanguageModel(_) => vec![Alignment::default(); pairs.len()],
            Member::Translation { weights: Weights::Packed(_), .. } => {
                let align = |(source, target): &(Tokens, Tokens)| self.align_one(source, target);
                // A single pair does not start the threads of the pool.
                match pairs {
                    [pair] => vec![align(pair)],
                    pairs => pairs.par_iter().map(align).collect(),
                }
            }
            #[cfg(feature = "burn")]
            Member::Translation { weights: Weights::Module(model, device), .. } => {
                let start = self.engine.start();
                let (layer, head) = (self.layer(), self.options.head);
                let batches = tensors::Batches { model, start, device, layer, head };
                batches.align(pairs)
            }
        }
    }

    fn layer(&self) -> usize {
        self.options.layer.unwrap_or(self.engine.alignment_layer())
    }

    fn align_one(&self, source: &Tokens, target: &Tokens) -> Alignment {
        if source.ids.is_empty() && target.ids.is_empty() {
            return Alignment::default();
        }
        let attention = Attention::of(&self.engine, source.clone(), target.clone());
        let layer = self.layer();
        let map = attention.map(AttentionKind::Cross, layer, self.options.head);
        Alignment::new(source, target, &map.unwrap_or_default())
    }
}

/// Alignment with a module, in batches.
#[cfg(feature = "burn")]
mod tensors {
    use std::cmp::Reverse;

    use burn::tensor::Device;
    use tx_data::{EncodedPair, Seq2SeqBatch};
    use tx_model::{Transformer, TransformerInput};

    use super::Alignment;
    use crate::{attention::AttentionMap, tokens::Tokens};

    /// Tokens of a batch, padding included. The maps of all layers take much memory.
    const BATCH_TOKENS: usize = 2_048;

    pub(super) struct Batches<'a> {
        pub(super) model: &'a Transformer,
        /// First input of the decoder.
        pub(super) start: u32,
        pub(super) device: &'a Device,
        pub(super) layer: usize,
        pub(super) head: Option<usize>,
    }

    impl Batches<'_> {
        /// Aligns pairs in batches of similar length; results are in the order of `pairs`.
        pub(super) fn align(&self, pairs: &[(Tokens, Tokens)]) -> Vec<Alignment> {
            let mut found = vec![Alignment::default(); pairs.len()];
            let len = |index: usize| pairs[index].0.ids.len().max(pairs[index].1.ids.len());
            let mut order: Vec<usize> = (0..pairs.len()).filter(|&index| len(index) > 0).collect();
            order.sort_by_key(|&index| Reverse(len(index)));
            let mut rest = &order[..];
            while let Some(&longest) = rest.first() {
                let count = (BATCH_TOKENS / len(longest)).clamp(1, rest.len());
                let (batch, later) = rest.split_at(count);
                for (&index, map) in batch.iter().zip(self.maps(pairs, batch)) {
                    let (source, target) = &pairs[index];
                    found[index] = Alignment::new(source, target, &map);
                }
                rest = later;
            }
            found
        }

        /// Returns the map of each pair of a batch.
        fn maps(&self, pairs: &[(Tokens, Tokens)], batch: &[usize]) -> Vec<AttentionMap> {
            let encoded: Vec<EncodedPair> = batch
                .iter()
                .map(|&index| {
                    let (source, target) = &pairs[index];
                    let target = [&[self.start], &target.ids[..]].concat();
                    EncodedPair::new(source.ids.clone(), target)
                })
                .collect();
            let input =
                Seq2SeqBatch::new(&encoded.iter().collect::<Vec<_>>(), self.start, self.device);
            let (_, maps) = self.model.forward_with_attention(TransformerInput {
                source: input.source,
                source_blocked: input.source_blocked,
                target: input.target_in,
                target_blocked: input.target_blocked,
            });
            let Some(maps) = maps.decoder.cross.get(self.layer).cloned() else {
                return vec![AttentionMap::default(); batch.len()];
            };
            let [rows, heads, targets, sources] = maps.dims();
            let map = match self.head {
                None => maps.mean_dim(1),
                Some(head) if head < heads => maps.narrow(1, head, 1),
                Some(_) => return vec![AttentionMap::default(); batch.len()],
            };
            let weights: Vec<f32> = map.into_data().iter::<f32>().collect();
            let crop = |(row, pair): (usize, &EncodedPair)| {
                // Without the padding of either side.
                let (n_targets, n_sources) = (pair.target.len() - 1, pair.source.len());
                let map = &weights[row * targets * sources..(row + 1) * targets * sources];
                let kept = map.chunks_exact(sources).take(n_targets);
                let weights = kept.flat_map(|row| &row[..n_sources]).copied().collect();
                AttentionMap { columns: n_sources, weights }
            };
            (0..rows).zip(&encoded).map(crop).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Id 2 is `<eos>`; the other tokens form words of two.
    fn tokens(ids: &[u32]) -> Tokens {
        let word_of = ids.iter().enumerate();
        let word_of: Vec<_> =
            word_of.map(|(position, &id)| (id != 2).then_some(position / 2)).collect();
        let count = word_of.iter().flatten().max().map_or(0, |last| last + 1);
        let words = (0..count).map(|word| format!("w{word}")).collect();
        Tokens {
            ids: ids.to_vec(),
            tokens: ids.iter().map(u32::to_string).collect(),
            word_of,
            words,
        }
    }

    /// By hand, with words `ab cd` and `uv w`:
    ///
    /// ```text
    ///          a   b   c   d  eos                ab  cd
    ///      u  .1  .1  .4  .4   0    uv   mean   .15  .7
    ///      v  .1   0  .3  .3  .3
    ///      w   0   0   0   0   1    w             0   0
    ///    eos  .9  .1   0   0   0    (not a word)
    /// ```
    #[test]
    fn word_alignments_equal_those_computed_by_hand() {
        let (source, target) = (tokens(&[4, 5, 6, 7, 2]), tokens(&[4, 5, 6, 2]));
        let weights = [
            [0.1, 0.1, 0.4, 0.4, 0.0],
            [0.1, 0.0, 0.3, 0.3, 0.3],
            [0.0, 0.0, 0.0, 0.0, 1.0],
            [0.9, 0.1, 0.0, 0.0, 0.0],
        ];
        let map = AttentionMap { columns: 5, weights: weights.concat() };
        let alignment = Alignment::new(&source, &target, &map);
        for (found, expected) in alignment.weights.concat().iter().zip([0.15_f32, 0.7, 0.0, 0.0]) {
            assert!((found - expected).abs() < 1e-6, "{alignment:?}");
        }
        assert_eq!((alignment.links(), alignment.pharaoh().as_str()), (vec![(1, 0)], "1-0"));
    }

    /// A token with the index of a word that does not exist adds nothing.
    #[test]
    fn tokens_without_a_word_are_not_aligned() {
        let (mut source, mut target) = (tokens(&[4, 5, 2]), tokens(&[4, 5, 2]));
        (source.word_of[1], target.word_of[1]) = (Some(7), Some(9));
        let map = AttentionMap { columns: 3, weights: [0.5, 0.3, 0.2].repeat(3) };
        let alignment = Alignment::new(&source, &target, &map);
        assert_eq!(alignment.weights, [[0.5]]);
    }

    #[test]
    fn links_go_to_the_first_largest_weight_in_the_order_of_the_source() {
        let words = |n: usize| (0..n).map(|n| n.to_string()).collect();
        let weights =
            vec![vec![0.2, 0.3, 0.5], vec![0.4, 0.4, 0.2], vec![0.0; 3], vec![0.9, 0.0, 0.0]];
        let alignment = Alignment { source: words(3), target: words(4), weights };
        assert_eq!(alignment.pharaoh(), "0-1 0-3 2-0");
        assert_eq!(Alignment::default().pharaoh(), "");
    }

    /// A model with two decoder layers and random weights.
    #[cfg(feature = "burn")]
    fn model() -> tx_model::Transformer {
        let config = tx_model::ModelConfig {
            d_model: 8,
            n_heads: 2,
            d_ff: 8,
            encoder_layers: 1,
            decoder_layers: 2,
            max_len: 8,
            ..Default::default()
        };
        let vocab = tx_model::VocabSizes { source: 11, target: 11 };
        tx_model::Transformer::new(&config, vocab, &burn::tensor::Device::flex()).unwrap()
    }

    /// Alignments and the search read the layer of the engine unless another one is chosen.
    #[cfg(feature = "burn")]
    #[test]
    fn all_uses_read_one_layer() {
        use crate::{Device, SearchOptions};

        let model = model();
        let pairs = [(tokens(&[4, 9, 8, 7, 6, 5, 2]), tokens(&[5, 6, 7, 2]))];
        for device in [Device::Cpu, Device::Burn(burn::tensor::Device::flex())] {
            let engine = Engine::from_transformer(model.clone(), 8, &device);
            let aligned = |engine: &Engine, layer| {
                let options = AlignmentOptions { layer, head: None };
                Aligner::new(engine.clone(), options).align(&pairs)
            };
            let coverage = |engine: &Engine, attention_layer| {
                let search = SearchOptions {
                    coverage_penalty: 2.0,
                    attention_layer,
                    ..SearchOptions::default()
                };
                engine.search(&[&pairs[0].0.ids], &search).unwrap().concat()
            };
            assert_ne!(aligned(&engine, Some(0)), aligned(&engine, Some(1)));
            assert_ne!(coverage(&engine, Some(1)), coverage(&engine, Some(2)));
            assert_eq!(aligned(&engine, None), aligned(&engine, Some(1)));
            for layer in [0, 1] {
                let guided = engine.clone().with_alignment_layer(layer);
                assert_eq!(aligned(&guided, None), aligned(&engine, Some(layer)));
                assert_eq!(coverage(&guided, None), coverage(&engine, Some(layer + 1)));
            }
        }
    }

    #[cfg(feature = "burn")]
    #[test]
    fn a_batch_gives_the_alignments_of_its_pairs() {
        use crate::Device;

        let model = model();
        let engine = |device: &Device| Engine::from_transformer(model.clone(), 8, device);
        let tensors = engine(&Device::Burn(burn::tensor::Device::flex()));
        let pairs = [
            (tokens(&[4, 2]), tokens(&[5, 6, 7, 8, 9, 2])),
            (Tokens::default(), Tokens::default()),
            (tokens(&[4, 9, 8, 7, 6, 5, 2]), tokens(&[5, 2])),
        ];
        for (layer, head) in [(None, None), (Some(0), Some(1))] {
            let options = AlignmentOptions { layer, head };
            for engine in [&tensors, &engine(&Device::Cpu)] {
                let together = Aligner::new(engine.clone(), options).align(&pairs);
                assert_eq!(together[1], Alignment::default());
                for index in [0, 2] {
                    let (source, target) = pairs[index].clone();
                    let attention = Attention::of(&tensors, source.clone(), target.clone());
                    let map =
                        attention.map(AttentionKind::Cross, layer.unwrap_or(1), head).unwrap();
                    let alone = Alignment::new(&source, &target, &map);
                    assert_eq!(together[index].links(), alone.links());
                    let pairs =
                        together[index].weights.concat().into_iter().zip(alone.weights.concat());
                    for (found, expected) in pairs {
                        assert!((found - expected).abs() < 1e-5);
                    }
                }
            }
        }
    }
}
