//! The packed engine computes the scores and attention weights of the model on tensors.

use std::slice::from_ref;

use burn::tensor::Tensor;
use tx_engine::{Decoding, Map, PackedTransformer};

use super::{LIMIT, Subject, difference, input, sentence, sources, subjects, targets};
use crate::support::values;

/// Scores of the model on tensors after the last token of each of `targets`.
fn expected(subject: &Subject, sources: &[Vec<u32>], targets: &[Vec<u32>]) -> Vec<Vec<f32>> {
    let model = subject.model();
    let row = |(source, target): (&Vec<u32>, &Vec<u32>)| {
        let input = input(from_ref(source), from_ref(target), 0, &subject.device);
        let logits = model.forward(input);
        let last = target.len() - 1;
        let [_, _, vocabulary] = logits.dims();
        values(&logits.slice([0..1, last..last + 1, 0..vocabulary]).into_data())
    };
    sources.iter().zip(targets).map(row).collect()
}

fn start<'a>(model: &'a PackedTransformer, sources: &[Vec<u32>]) -> Decoding<'a> {
    model.start(&sources.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// Returns the difference of all rows.
///
/// # Panics
///
/// If a row of `found` differs from the expected one by more than [`LIMIT`].
fn assert_rows(subject: &Subject, found: &[f32], expected: &[Vec<f32>]) -> f64 {
    let expected = expected.concat();
    assert_eq!(found.len(), expected.len(), "{}", subject.name);
    let difference = difference(found, &expected);
    assert!(difference <= LIMIT, "{}: differs by {difference:.1e}", subject.name);
    difference
}

#[test]
fn packed_scores_are_those_of_the_model_on_tensors() {
    let mut worst = 0.0_f64;
    for subject in subjects() {
        let model = subject.model();
        let full = model.forward(subject.input());
        let packed = PackedTransformer::from(&model);

        let mut decoding = start(&packed, &sources());
        assert!(decoding.is_empty());
        let targets = targets();
        let longest = targets.iter().map(Vec::len).max().unwrap();
        for position in 0..longest {
            // Rows whose target has ended continue with padding, as in a batch of tensors.
            let column = targets.iter().map(|target| target.get(position).copied().unwrap_or(0));
            let scores = decoding.step_logits(&column.collect::<Vec<_>>());
            assert_eq!(decoding.len(), position + 1);
            let width = scores.len() / targets.len();
            for (row, target) in targets.iter().enumerate().filter(|(_, t)| position < t.len()) {
                let expected = values(&sentence(&full, row, target.len()));
                let expected = expected[position * width..(position + 1) * width].to_vec();
                let found = &scores[row * width..(row + 1) * width];
                worst = worst.max(assert_rows(&subject, found, &[expected]));
            }
        }
    }
    println!("packed: {worst:.1e}");
}

/// Rows are swapped, repeated and removed after each step, as in beam search.
#[test]
fn selected_rows_continue_packed_decoding_unchanged() {
    let mut worst = 0.0_f64;
    for subject in subjects() {
        let packed = PackedTransformer::from(&subject.model());
        let mut sources = sources();
        let mut targets = vec![Vec::new(); sources.len()];
        let mut decoding = start(&packed, &sources);
        let rounds: [&[usize]; 4] = [&[2, 0, 0, 1], &[3, 1, 1, 0, 2], &[4, 0], &[1, 1, 0]];
        for round in 0..=rounds.len() {
            // A different token for every row and round.
            for (row, target) in targets.iter_mut().enumerate() {
                target.push(4 + ((2 * row + 3 * round) % 7) as u32);
            }
            let tokens: Vec<u32> =
                targets.iter().filter_map(|t: &Vec<u32>| t.last().copied()).collect();
            let scores = decoding.step_logits(&tokens);
            let expected = expected(&subject, &sources, &targets);
            worst = worst.max(assert_rows(&subject, &scores, &expected));
            if let Some(&rows) = rounds.get(round) {
                decoding.select(rows);
                sources = rows.iter().map(|&row| sources[row].clone()).collect();
                targets = rows.iter().map(|&row| targets[row].clone()).collect();
            }
        }
    }
    println!("packed, selected: {worst:.1e}");
}

/// Compared with `log softmax` of the scores, sorted; suppressed tokens are not listed but count.
#[test]
fn the_likeliest_tokens_are_those_of_the_scores() {
    for subject in subjects() {
        let packed = PackedTransformer::from(&subject.model());
        let scores = start(&packed, &sources()).step_logits(&[1, 1, 1]);
        let found = start(&packed, &sources()).step(&[1, 1, 1], &[0, 1], 4);
        let rows = scores.chunks_exact(scores.len() / 3);
        for (found, row) in found.iter().zip(rows) {
            let sum: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
            let mut expected: Vec<(u32, f64)> = (0..)
                .zip(row)
                .skip(2)
                .map(|(token, &x)| (token, f64::from(x) - sum.ln()))
                .collect();
            expected.sort_by(|a, b| b.1.total_cmp(&a.1));
            assert_eq!(found.len(), 4, "{}", subject.name);
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found.0, expected.0, "{}", subject.name);
                assert!((f64::from(found.1) - expected.1).abs() < 1e-5, "{}", subject.name);
            }
        }
    }
}

/// An empty source among others.
#[test]
fn an_empty_source_is_finite_and_changes_no_other_row() {
    for subject in subjects() {
        let packed = PackedTransformer::from(&subject.model());
        let expected = start(&packed, &sources()).step_logits(&[1, 1, 1]);
        let mut sources = sources();
        sources[1].clear();
        let found = start(&packed, &sources).step_logits(&[1, 1, 1]);
        let width = found.len() / 3;
        assert!(found.iter().all(|score| score.is_finite()), "{}", subject.name);
        for row in [0, 2] {
            let at = row * width..(row + 1) * width;
            assert_rows(&subject, &found[at.clone()], &[expected[at].to_vec()]);
        }
    }
}

#[test]
fn packed_attention_maps_are_those_of_the_model_on_tensors() {
    let mut worst = 0.0_f64;
    for subject in subjects() {
        let model = subject.model();
        let packed = PackedTransformer::from(&model);
        for (source, target) in sources().iter().zip(&targets()) {
            let input = input(from_ref(source), from_ref(target), 0, &subject.device);
            let (_, expected) = model.forward_with_attention(input);
            let found = packed.attention_maps(source, target);
            let pairs: [(&str, &[Map], Vec<Tensor<4>>); 3] = [
                ("encoder", &found.encoder, expected.encoder),
                ("decoder", &found.decoder, expected.decoder.self_attention),
                ("cross", &found.cross, expected.decoder.cross),
            ];
            for (kind, found, expected) in pairs {
                worst = worst.max(assert_maps(&subject, kind, found, expected));
            }
        }
    }
    println!("packed, attention: {worst:.1e}");
}

/// Returns the maximum difference of the attention weights of all layers.
///
/// # Panics
///
/// If shapes differ, or a weight differs by more than [`LIMIT`].
pub(super) fn assert_maps(
    subject: &Subject,
    kind: &str,
    found: &[Map],
    expected: Vec<Tensor<4>>,
) -> f64 {
    let mut worst = 0.0_f64;
    assert_eq!(found.len(), expected.len(), "{}: {kind}", subject.name);
    for (map, expected) in found.iter().zip(expected) {
        let shape = [1, map.heads, map.queries, map.keys];
        assert_eq!(shape, expected.dims(), "{}: {kind}", subject.name);
        for (found, expected) in map.values.iter().zip(values(&expected.into_data())) {
            let gap = f64::from((found - expected).abs());
            assert!(gap <= LIMIT, "{}: {kind} differs by {gap:.1e}", subject.name);
            worst = worst.max(gap);
        }
    }
    worst
}
