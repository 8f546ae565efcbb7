use std::collections::HashMap;

use tx_kernels::Int8Kernel;
use tx_model::config::{ModelConfig, Tying, VocabSizes};

use crate::{InBytes, PackedTransformer};

const VOCABULARY: usize = 75;

/// The same random model in single precision and in bytes, with this tying.
fn models(tying: Tying) -> [PackedTransformer; 2] {
    let config = ModelConfig {
        d_model: 16,
        n_heads: 2,
        d_ff: 24,
        encoder_layers: 1,
        decoder_layers: 1,
        tying,
        ..ModelConfig::default()
    };
    let vocab = VocabSizes { source: VOCABULARY, target: VOCABULARY };
    let noise = |seed: usize, i: usize| {
        let hash = ((seed * 977 + i) as u32).wrapping_mul(2_654_435_761) >> 8;
        hash as f32 / (1 << 23) as f32 - 1.0
    };
    let weights: HashMap<String, Vec<f32>> = config
        .weight_shapes(vocab)
        .into_iter()
        .enumerate()
        .map(|(seed, weight)| {
            let count = weight.shape.iter().product();
            (weight.name, (0..count).map(|i| noise(seed, i)).collect())
        })
        .collect();
    let bytes = InBytes { weights: &weights, kernel: Int8Kernel::reference() };
    [
        PackedTransformer::pack(&config, vocab, &weights).unwrap(),
        PackedTransformer::pack(&config, vocab, &bytes).unwrap(),
    ]
}

const SOURCES: [&[u32]; 2] = [&[4, 9, 2], &[33, 2]];

/// Results of two steps, with the candidates of the sources; the second step has two rows of the last
/// source.
fn steps(
    model: &PackedTransformer,
    sources: &[&[u32]],
    candidates: Option<&[Vec<u32>]>,
) -> Vec<Vec<(u32, f32)>> {
    let mut decoding = model.start(sources);
    if let Some(candidates) = candidates {
        decoding.restrict(candidates.to_vec());
    }
    let last = sources.len() - 1;
    let mut found = decoding.step(&vec![1; sources.len()], &[0, 7], 5);
    decoding.select(&[last, last]);
    found.extend(decoding.step(&[8, 40], &[7], 5));
    found
}

#[test]
fn candidates_of_one_source_do_not_change_another() {
    let all: Vec<u32> = (0..VOCABULARY as u32).collect();
    let few = vec![2, 3, 7, 40, 41, 74];
    for model in [Tying::None, Tying::All].into_iter().flat_map(models) {
        let free = steps(&model, &SOURCES, None);
        assert_eq!(steps(&model, &SOURCES, Some(&[all.clone(), all.clone()])), free);
        let mixed = steps(&model, &SOURCES, Some(&[few.clone(), all.clone()]));
        assert_eq!(mixed[1..], free[1..], "all tokens, beside a source with few");
        assert_ne!(mixed[0], free[0]);
        let alone = steps(&model, &SOURCES[1..], Some(std::slice::from_ref(&few)));
        let mixed = steps(&model, &SOURCES, Some(&[all.clone(), few.clone()]));
        assert_eq!(mixed[1..], alone);
        assert_eq!(mixed[0], free[0]);
    }
}

/// Probabilities of the candidates are those of all tokens, divided by their sum.
#[test]
fn probabilities_sum_to_one_over_the_candidates() {
    let candidates = vec![2, 3, 7, 40, 74];
    for model in models(Tying::Decoder) {
        let (mut free, mut restricted) = (model.start(&SOURCES[1..]), model.start(&SOURCES[1..]));
        restricted.restrict(vec![candidates.clone()]);
        let (all, some) = (free.step_logits(&[1]), restricted.step_logits(&[1]));
        for (token, (all, some)) in (0..).zip(all.iter().zip(&some)) {
            let expected = if candidates.contains(&token) { *all } else { f32::NEG_INFINITY };
            assert_eq!(*some, expected, "{token}");
        }
        let mut restricted = model.start(&SOURCES[1..]);
        restricted.restrict(vec![candidates.clone()]);
        let found = restricted.step(&[1], &[], 9).remove(0);
        let sum: f32 = candidates.iter().map(|&token| all[token as usize].exp()).sum();
        assert_eq!(found.len(), candidates.len());
        assert!(found.is_sorted_by(|a, b| a.1 >= b.1));
        for (token, log_probability) in found {
            let expected = all[token as usize].exp() / sum;
            assert!((log_probability.exp() - expected).abs() < 1e-6, "{token}");
        }
        let suppressed = restricted.step(&[1], &candidates, 9).remove(0);
        assert_eq!(suppressed, []);
    }
}

#[test]
#[should_panic(expected = "ascending")]
fn candidates_are_in_order() {
    let [model, _] = models(Tying::None);
    model.start(&SOURCES[1..]).restrict(vec![vec![3, 2]]);
}
