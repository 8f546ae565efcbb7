//! Invariants of search for any weights. The weights are computed from a hash, as in `invariants`.

use burn::tensor::{Device, Tensor, activation::log_softmax};
use tx_data::{batch::padded, mask};
use tx_infer::{
    Cancellation, Request, Translator,
    search::{Engine, Hypothesis, SearchOptions, start_id},
};
use tx_model::{
    Activation, Autoregression, DecoderStart, DropoutConfig, ModelConfig, NormPlacement,
    Normalization, Positions, Transformer, TransformerInput, Tying, VocabSizes,
};
use tx_text::special::{BOS, EOS, PAD};

use crate::{
    invariants::pattern,
    support::{devices, values, with_weights},
};

// Every option against a list of all possible targets.
mod exhaustive;

// Stopping criteria and diverse beam groups.
mod stopping;

// Sampling, and the probability of given targets.
mod sampling;

// Comparison with CTranslate2 for the same weights.
mod ctranslate2;

/// Maximum sequence length of the models.
const MAX_LEN: usize = 16;

/// Maximum difference between two computations of one log-probability in single precision.
const LIMIT: f32 = 1e-4;

/// Sources from a single `<eos>` to the maximum length.
const SOURCES: [&[u32]; 6] = [
    &[5, 4, 6, 2],
    &[2],
    &[4, 5, 6, 4, 4, 5, 6, 6, 5, 4, 3, 5, 6, 4, 5, 2],
    &[6, 2],
    &[3, 3, 3, 2],
    &[6, 5, 4, 5, 6, 4, 5, 2],
];

struct Subject {
    /// Device and variant, for messages.
    name: String,
    model: Transformer,
    decoder_start: DecoderStart,
    device: Device,
    vocabulary: usize,
}

impl Subject {
    fn search(&self, sources: &[&[u32]], options: &SearchOptions) -> Vec<Vec<Hypothesis>> {
        assert_eq!(options.problems(), [""; 0]);
        let engine = self.engine(&self.device.clone().into());
        let found = engine.search(sources, options).unwrap();
        assert_eq!(found.len(), sources.len(), "{}", self.name);
        found
    }

    fn engine(&self, device: &tx_infer::Device) -> Engine {
        Engine::from_transformer(self.model.clone(), MAX_LEN, device).with_start(self.decoder_start)
    }

    /// Engine with tensors on this device.
    fn tensors(&self) -> Engine {
        self.engine(&tx_infer::Device::Burn(self.device.clone()))
    }

    /// Engines of this device.
    fn engines(&self) -> Vec<Engine> {
        let mut engines = vec![self.engine(&self.device.clone().into())];
        if engines[0].gains_from_threads() {
            engines.push(self.tensors());
        }
        engines
    }

    /// Inputs of the decoder that generates `target`.
    fn inputs(&self, target: &[u32]) -> Vec<u32> {
        [&[start_id(self.decoder_start)], &target[..target.len() - 1]].concat()
    }

    /// Log-probabilities of `targets` for `source`, computed by teacher forcing without a cache.
    fn log_probabilities(&self, source: &[u32], targets: &[Vec<u32>]) -> Vec<f32> {
        let inputs: Vec<Vec<u32>> = targets.iter().map(|target| self.inputs(target)).collect();
        let rows = |rows: &[Vec<u32>]| {
            padded(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>(), &self.device)
        };
        let sources = rows(&vec![source.to_vec(); targets.len()]);
        let target = rows(&inputs);
        let [_, target_len] = target.dims();
        let logits = self.model.forward(TransformerInput {
            source_blocked: mask::padding(&sources),
            source: sources,
            target,
            target_blocked: mask::causal(target_len, &self.device),
        });
        let log_probs: Tensor<3> = log_softmax(logits, 2);
        let log_probs = values(&log_probs.into_data());
        targets
            .iter()
            .enumerate()
            .map(|(row, target)| {
                let places = target.iter().enumerate();
                let at = |place| (row * target_len + place) * self.vocabulary;
                places.map(|(place, &id)| log_probs[at(place) + id as usize]).sum()
            })
            .collect()
    }
}

/// Models of several kinds on every device, with ids below `vocabulary`.
fn subjects(vocabulary: usize) -> Vec<Subject> {
    let base = base();
    let pre = ModelConfig { norm: NormPlacement::Pre, ..base.clone() };
    let variants = [
        ("post-norm, tied", base.clone()),
        (
            "pre-norm, rotary, gated",
            ModelConfig {
                positions: Positions::Rotary,
                activation: Activation::Gated,
                tying: Tying::None,
                ..pre.clone()
            },
        ),
        ("pre-norm, relative", ModelConfig { positions: Positions::Relative, ..pre.clone() }),
        ("pre-norm, ALiBi", ModelConfig { positions: Positions::Alibi, ..pre.clone() }),
        (
            "recurrent, RMSNorm",
            ModelConfig {
                autoregression: Autoregression::Ssru,
                normalization: Normalization::Rms,
                ..pre
            },
        ),
        (
            "norm in the sub-layer, learned positions",
            ModelConfig {
                norm: NormPlacement::SublayerOutput,
                positions: Positions::Learned,
                tying: Tying::Decoder,
                ..base
            },
        ),
    ];
    on_devices(&variants, vocabulary)
}

/// Models on every device whose decoder starts with another input than `<bos>`.
fn subjects_with_other_starts(vocabulary: usize) -> Vec<Subject> {
    let starts = [
        ("starts with padding", DecoderStart::Pad),
        ("starts with the end", DecoderStart::Eos),
        ("starts with zeros", DecoderStart::Zero),
    ];
    let variants = starts.map(|(name, decoder_start)| {
        (name, ModelConfig { decoder_start, norm: NormPlacement::Pre, ..base() })
    });
    on_devices(&variants, vocabulary)
}

fn base() -> ModelConfig {
    ModelConfig {
        d_model: 8,
        n_heads: 2,
        d_ff: 12,
        encoder_layers: 1,
        decoder_layers: 2,
        max_len: MAX_LEN,
        dropout: DropoutConfig::none(),
        ..ModelConfig::default()
    }
}

fn on_devices(variants: &[(&str, ModelConfig)], vocabulary: usize) -> Vec<Subject> {
    let vocab = VocabSizes { source: vocabulary, target: vocabulary };
    let mut subjects = Vec::new();
    for (device_name, device) in devices() {
        for (name, config) in variants {
            let model = Transformer::new(config, vocab, &device).unwrap();
            subjects.push(Subject {
                name: format!("{device_name}, {name}"),
                model: with_weights(model, |path, shape| pattern(&format!("{name} {path}"), shape)),
                decoder_start: config.decoder_start,
                device: device.clone(),
                vocabulary,
            });
        }
    }
    subjects
}

/// Results of `engine`, after checking the order of each request's hypotheses.
fn search_requests(
    engine: &Engine,
    requests: &[Request<'_>],
    options: &SearchOptions,
) -> Vec<Vec<Hypothesis>> {
    engine.search_requests(requests, options, &Cancellation::new()).unwrap()
}

/// Compares hypotheses.
///
/// # Panics
///
/// If ids differ, or scores differ by more than rounding.
fn assert_same(what: &str, found: &[Hypothesis], expected: &[Hypothesis]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.ids, expected.ids, "{what}");
        let gap = found.log_probability - expected.log_probability;
        assert!(gap.abs() <= LIMIT, "{what}: {found:?} and {expected:?}");
    }
}

#[test]
fn a_batch_of_very_different_lengths_gives_the_results_of_single_sentences() {
    for subject in subjects(7) {
        for beam in [1, 2, 5] {
            let options = SearchOptions { beam, n_best: beam, ..SearchOptions::default() };
            let together = subject.search(&SOURCES, &options);
            for (source, together) in SOURCES.iter().zip(&together) {
                let alone = subject.search(&[source], &options);
                let what = format!("{}, beam {beam}, {source:?}", subject.name);
                assert_same(&what, together, &alone[0]);
            }
        }
    }
}

#[test]
fn hypotheses_are_sorted_distinct_and_within_their_limits() {
    let mut ended = 0;
    let mut unended = 0;
    for subject in subjects(7) {
        for (beam, n_best) in [(1, 1), (3, 2), (4, 4), (20, 20)] {
            // From 2 tokens for the shortest source to the model's limit for the longest.
            let options = SearchOptions {
                beam,
                n_best,
                max_len_ratio: 1.5,
                max_len_extra: 0,
                ..SearchOptions::default()
            };
            for (source, found) in SOURCES.iter().zip(subject.search(&SOURCES, &options)) {
                let what = format!("{}, beam {beam}, {source:?}: {found:?}", subject.name);
                let limit = (source.len() * 3).div_ceil(2).min(MAX_LEN);
                assert!((1..=n_best).contains(&found.len()), "{what}");
                assert!(found.is_sorted_by(|a, b| a.score >= b.score), "{what}");
                for (index, hypothesis) in found.iter().enumerate() {
                    let ids = &hypothesis.ids;
                    assert!(found[..index].iter().all(|other| other.ids != *ids), "{what}");
                    assert!((1..=limit).contains(&ids.len()), "{what}");
                    assert!(!ids.contains(&PAD) && !ids.contains(&BOS), "{what}");
                    let (last, before) = ids.split_last().unwrap();
                    assert!(!before.contains(&EOS), "{what}");
                    if *last == EOS {
                        ended += 1;
                    } else {
                        assert_eq!(ids.len(), limit, "{what}");
                        unended += 1;
                    }
                }
            }
        }
    }
    assert!(ended > 100 && unended > 10, "both kinds must occur: {ended} and {unended}");
}

#[test]
fn log_probabilities_are_those_of_teacher_forcing() {
    for subject in subjects(7) {
        for beam in [1, 4] {
            for length_penalty in [0.0, 0.6, 1.0] {
                let options = SearchOptions {
                    beam,
                    n_best: beam,
                    length_penalty,
                    ..SearchOptions::default()
                };
                for (source, found) in SOURCES.iter().zip(subject.search(&SOURCES, &options)) {
                    let ids: Vec<Vec<u32>> = found.iter().map(|h| h.ids.clone()).collect();
                    let expected = subject.log_probabilities(source, &ids);
                    for (hypothesis, expected) in found.iter().zip(expected) {
                        let what = format!("{}: {hypothesis:?}, {expected}", subject.name);
                        assert!((hypothesis.log_probability - expected).abs() <= LIMIT, "{what}");
                        let score = expected / (hypothesis.ids.len() as f32).powf(length_penalty);
                        assert!((hypothesis.score - score).abs() <= LIMIT, "{what}");
                    }
                }
            }
        }
    }
}

/// With ids 0 to 6, of which padding and `<bos>` are never generated, and at most L tokens, the
/// number of targets is
///
/// ```text
/// 4^0 + 4^1 + … + 4^(L-1)   that end with <eos>
/// 4^L                       that do not
/// ```
///
/// Sums: 85 for L = 3, 341 for L = 4. A beam of this size holds all targets.
#[test]
fn an_exhaustive_beam_finds_the_best_targets() {
    for (limit, count) in [(3, 85), (4, 341)] {
        let everything = all_targets(limit);
        assert_eq!(everything.len(), count);
        for subject in subjects(7) {
            for source in [&SOURCES[0], &SOURCES[3]] {
                let log_probabilities = subject.log_probabilities(source, &everything);
                for length_penalty in [0.0, 0.6, 1.0, 2.0] {
                    let options = SearchOptions {
                        beam: count,
                        n_best: count,
                        length_penalty,
                        max_len_ratio: 0.0,
                        max_len_extra: limit,
                        ..SearchOptions::default()
                    };
                    let what = format!("{}, {source:?}, α = {length_penalty}", subject.name);
                    let mut expected: Vec<(f32, &Vec<u32>)> = everything
                        .iter()
                        .zip(&log_probabilities)
                        .map(|(ids, p)| (p / (ids.len() as f32).powf(length_penalty), ids))
                        .collect();
                    expected.sort_by(|a, b| b.0.total_cmp(&a.0));

                    let found = subject.search(&[source], &options).remove(0);
                    assert_eq!(found.len(), count, "{what}");
                    assert_eq!(found[0].ids, *expected[0].1, "{what}");
                    for (found, expected) in found.iter().zip(&expected) {
                        let gap = (found.score - expected.0).abs();
                        assert!(gap <= LIMIT, "{what}: {found:?} and {expected:?}");
                    }

                    let narrow = SearchOptions { beam: 2, n_best: 1, ..options };
                    let narrow = subject.search(&[source], &narrow).remove(0).remove(0);
                    assert!(narrow.score <= expected[0].0 + LIMIT, "{what}: {narrow:?}");
                }
            }
        }
    }
}

/// All targets of at most `limit` tokens with ids 0 to 6.
fn all_targets(limit: usize) -> Vec<Vec<u32>> {
    let mut found = Vec::new();
    let mut open = vec![Vec::new()];
    for _ in 0..limit {
        let with = |id: u32| move |ids: &Vec<u32>| [&ids[..], &[id]].concat();
        found.extend(open.iter().map(with(EOS)));
        open = (3..7).flat_map(|id| open.iter().map(with(id)).collect::<Vec<_>>()).collect();
    }
    found.extend(open);
    found
}

#[test]
fn a_beam_wider_than_the_vocabulary_finds_each_of_the_few_there_are() {
    // One token: `<eos>` or one of the four words.
    let options = SearchOptions {
        beam: 30,
        n_best: 30,
        max_len_ratio: 0.0,
        max_len_extra: 1,
        ..SearchOptions::default()
    };
    for subject in subjects(7) {
        for found in subject.search(&SOURCES, &options) {
            let mut ids: Vec<u32> = found.iter().flat_map(|found| found.ids.clone()).collect();
            ids.sort_unstable();
            assert_eq!(ids, [2, 3, 4, 5, 6], "{}", subject.name);
        }
    }
}

#[test]
fn no_sources_find_nothing() {
    for subject in subjects(7) {
        assert_eq!(subject.search(&[], &SearchOptions::default()), Vec::<Vec<Hypothesis>>::new());
    }
}

/// Packed engine and tensors give the same results.
#[test]
fn packed_weights_and_tensors_find_the_same() {
    for subject in subjects(30).into_iter().filter(|subject| subject.device == Device::flex()) {
        let tensors = subject.tensors();
        let packed = subject.engine(&tx_infer::Device::Cpu);
        assert!(packed.gains_from_threads() && !tensors.gains_from_threads());
        for beam in [1, 2, 5] {
            for min_len in [0, 6] {
                let options =
                    SearchOptions { beam, n_best: beam, min_len, ..SearchOptions::default() };
                let expected = tensors.search(&SOURCES, &options).unwrap();
                let found = packed.search(&SOURCES, &options).unwrap();
                assert_eq!(found.len(), expected.len());
                for (found, expected) in found.iter().zip(&expected) {
                    assert_same(&format!("{}, beam {beam}", subject.name), found, expected);
                }
            }
        }
    }
}

/// Equal to the bit: the result of a sentence does not depend on its batch.
#[test]
fn any_number_of_threads_translates_the_same_in_the_same_order() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/bundle-v1");
    let texts = ["the cat sleeps .", "", "dog", "the dog eats the bread, and sleeps !", "xyz 42"];
    let texts: Vec<&str> = texts.into_iter().cycle().take(23).collect();
    for beam in [1, 4] {
        let options = SearchOptions { beam, n_best: beam, ..SearchOptions::default() };
        let translate = |threads| {
            let translator = Translator::open(folder, &tx_infer::Device::Cpu).unwrap();
            let translator =
                translator.with_options(options.clone()).unwrap().with_threads(threads);
            translator.translate_batch(&texts).unwrap()
        };
        let alone = translate(1);
        assert_eq!(alone.len(), texts.len());
        for (text, found) in texts.iter().zip(&alone) {
            assert_eq!(text.is_empty(), found.hypotheses.is_empty(), "{text}");
        }
        for threads in [0, 2, 3, 40] {
            assert_eq!(translate(threads), alone, "{threads} threads, beam {beam}");
        }
    }
}

#[test]
fn no_target_ends_before_its_minimum_length() {
    for subject in subjects(7) {
        for beam in [1, 3] {
            for min_len in [1, 4, 30] {
                let options =
                    SearchOptions { beam, n_best: beam, min_len, ..SearchOptions::default() };
                for (source, found) in SOURCES.iter().zip(subject.search(&SOURCES, &options)) {
                    let limit = (2 * source.len() + 10).min(MAX_LEN);
                    for Hypothesis { ids, .. } in found {
                        let words = ids.iter().filter(|&&id| id != EOS).count();
                        assert!(words >= min_len.min(limit), "{}: {ids:?}", subject.name);
                    }
                }
            }
        }
    }
}

/// Ids 0 to 2 are padding, `<bos>` and `<eos>`: a vocabulary without words.
#[test]
fn a_vocabulary_without_words_gives_targets_without_words() {
    for subject in subjects(3) {
        for beam in [1, 4] {
            let options = SearchOptions { beam, ..SearchOptions::default() };
            for found in subject.search(&[&[2], &[2, 2]], &options) {
                assert_eq!(found[0].ids, [EOS], "{}", subject.name);
            }
            let options = SearchOptions { min_len: 2, ..options };
            for found in subject.search(&[&[2], &[2, 2]], &options) {
                assert_eq!(found[0].ids, [0; 0], "{}", subject.name);
                assert_eq!((found[0].log_probability, found[0].score), (0.0, 0.0));
            }
        }
    }
}
