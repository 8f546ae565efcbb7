//! Invariants of the scores.

use burn::tensor::{Int, Tensor, TensorData};
use tx_model::{Autoregression, DecoderCache, Transformer, TransformerInput};

use super::{Subject, blocked, ids, input, sentence, sources, subjects, targets};
use crate::support::values;

#[test]
fn padding_changes_no_real_score() {
    let mut worst = 0.0_f64;
    for subject in subjects() {
        let model = subject.model();
        let plain = model.forward(subject.input());
        for extra in [1, 5] {
            let padded = model.forward(input(&sources(), &targets(), extra, &subject.device));
            for (index, target) in targets().iter().enumerate() {
                let found = sentence(&padded, index, target.len());
                let expected = sentence(&plain, index, target.len());
                worst = worst.max(subject.assert_close("a padded sentence", &found, &expected));
            }
        }
    }
    println!("padding: {worst:.1e}");
}

#[test]
fn batching_changes_no_score() {
    let mut worst = 0.0_f64;
    for subject in subjects() {
        let model = subject.model();
        let batch = model.forward(subject.input());
        for (index, (source, target)) in sources().iter().zip(&targets()).enumerate() {
            let alone = [vec![source.clone()], vec![target.clone()]];
            let alone = model.forward(input(&alone[0], &alone[1], 0, &subject.device));
            let found = sentence(&batch, index, target.len());
            worst = worst.max(subject.assert_close("a sentence alone", &found, &alone.into_data()));
        }
    }
    println!("batching: {worst:.1e}");
}

/// Equal to the bit: a blocked key has weight zero, and adding zero changes no bit.
#[test]
fn a_later_token_changes_nothing_before_it() {
    for subject in subjects() {
        let model = subject.model();
        let input = subject.input();
        let before = model.forward(input.clone());
        let [batch, len, vocabulary] = before.dims();
        for place in 1..len {
            let other = Tensor::<2, Int>::full([batch, 1], 3, &subject.device);
            let target = input.target.clone().slice_assign([0..batch, place..place + 1], other);
            let after = model.forward(TransformerInput { target, ..input.clone() });

            let upto = |scores: &Tensor<3>, places: std::ops::Range<usize>| {
                values(&scores.clone().slice([0..batch, places, 0..vocabulary]).into_data())
            };
            let Subject { name, .. } = &subject;
            assert!(upto(&before, 0..place) == upto(&after, 0..place), "{name}, place {place}");
            let here = place..place + 1;
            assert!(
                upto(&before, here.clone()) != upto(&after, here),
                "{name}: the change has no effect"
            );
        }
    }
}

/// Starts decoding of `input`'s sources.
pub(super) fn start(model: &Transformer, input: &TransformerInput) -> DecoderCache {
    let memory = model.encode(input.source.clone(), input.source_blocked.clone());
    model.start_decoding(memory, input.source_blocked.clone())
}

/// Ids of every row at one position: `[B]`.
pub(super) fn column(ids: &Tensor<2, Int>, place: usize) -> Tensor<1, Int> {
    ids.clone().narrow(1, place, 1).squeeze_dim(1)
}

/// Scores after one position: `[B, V]`.
pub(super) fn scores_at(logits: &Tensor<3>, place: usize) -> TensorData {
    logits.clone().narrow(1, place, 1).squeeze_dim::<2>(1).into_data()
}

#[test]
fn cached_decoding_equals_full_decoding() {
    let mut worst = 0.0_f64;
    for subject in subjects() {
        let model = subject.model();
        let input = subject.input();
        let (full, full_maps) = model.forward_with_attention(input.clone());
        let [_, len, _] = full.dims();

        let mut cache = start(&model, &input);
        assert!(cache.is_empty());
        for place in 0..len {
            let token = column(&input.target, place);
            let (scores, maps) = model.decode_step_with_attention(token, &mut cache);
            assert_eq!(cache.len(), place + 1);
            let expected = scores_at(&full, place);
            worst = worst.max(subject.assert_close("a step", &scores.into_data(), &expected));

            for (found, full) in maps.self_attention.iter().zip(&full_maps.decoder.self_attention) {
                let expected = full.clone().narrow(2, place, 1).narrow(3, 0, place + 1);
                let (found, expected) = (found.to_data(), expected.into_data());
                worst = worst.max(subject.assert_close("self-attention", &found, &expected));
            }
            for (found, full) in maps.cross.iter().zip(&full_maps.decoder.cross) {
                let expected = full.clone().narrow(2, place, 1);
                let (found, expected) = (found.to_data(), expected.into_data());
                worst = worst.max(subject.assert_close("cross-attention", &found, &expected));
            }
        }
    }
    println!("cache: {worst:.1e}");
}

/// The weights of one layer are those of all maps, and the logits do not depend on the request.
#[test]
fn cross_attention_of_one_layer_is_that_of_all_maps() {
    for subject in subjects() {
        let model = subject.model();
        let input = subject.input();
        let (logits, maps) = model.forward_with_attention(input.clone());
        for (layer, expected) in maps.decoder.cross.into_iter().enumerate() {
            let (hidden, found) = model.hidden_states_with_cross_attention(input.clone(), layer);
            let found_logits = model.project(hidden);
            let expected = expected.into_data();
            subject.assert_close("weights", &found.unwrap().into_data(), &expected);
            subject.assert_close("logits", &found_logits.into_data(), &logits.to_data());
        }
        let (_, none) = model.hidden_states_with_cross_attention(input, 99);
        assert!(none.is_none());
    }
}

/// As in beam search, rows are swapped, repeated and dropped after each step.
#[test]
fn selected_rows_continue_decoding_unchanged() {
    let mut worst = 0.0_f64;
    for subject in subjects() {
        let rounds: [&[usize]; 3] = [&[2, 0, 0, 1], &[3, 1, 1, 0, 2], &[4, 0]];
        worst = worst.max(decode_in_rounds(&subject, sources(), &rounds, DecoderCache::select));
    }
    println!("select: {worst:.1e}");
}

/// Rows 0 and 1 belong to one sentence, 2 and 3 to another; rows are swapped within a sentence.
#[test]
fn reordered_rows_continue_decoding_unchanged() {
    let mut worst = 0.0_f64;
    for subject in subjects() {
        let [first, second, _] = <[Vec<u32>; 3]>::try_from(sources()).unwrap();
        let sources = vec![first.clone(), first, second.clone(), second];
        let rounds: [&[usize]; 3] = [&[1, 0, 2, 2], &[0, 0, 3, 2], &[1, 0, 3, 3]];
        worst = worst.max(decode_in_rounds(&subject, sources, &rounds, DecoderCache::reorder));
    }
    println!("reorder: {worst:.1e}");
}

/// Alternates decoding steps and rearrangements of rows. Each row is compared with full decoding of
/// its source and its tokens.
fn decode_in_rounds(
    subject: &Subject,
    mut sources: Vec<Vec<u32>>,
    rounds: &[&[usize]],
    rearrange: fn(DecoderCache, &Tensor<1, Int>) -> DecoderCache,
) -> f64 {
    let (model, device) = (subject.model(), &subject.device);
    let mut targets = vec![Vec::new(); sources.len()];
    let mut cache = start(&model, &input(&sources, &targets, 0, device));
    let mut worst = 0.0_f64;
    for round in 0..=rounds.len() {
        // A different token for every row and round.
        for (row, target) in targets.iter_mut().enumerate() {
            target.push(4 + ((2 * row + 3 * round) % 7) as u32);
        }
        let tokens = column(&ids(&targets, 0, device), round);
        let scores = model.decode_step(tokens, &mut cache);
        let full = model.forward(input(&sources, &targets, 0, device));
        let expected = scores_at(&full, round);
        worst = worst.max(subject.assert_close("a step", &scores.into_data(), &expected));

        if let Some(&rows) = rounds.get(round) {
            let picked: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
            cache = rearrange(cache, &Tensor::from_data(&picked[..], device));
            sources = rows.iter().map(|&row| sources[row].clone()).collect();
            targets = rows.iter().map(|&row| targets[row].clone()).collect();
        }
    }
    worst
}

#[test]
fn attention_sums_to_one_and_is_zero_at_blocked_positions() {
    for subject in subjects() {
        let Subject { name, .. } = &subject;
        let input = subject.input();
        let (_, maps) = subject.model().forward_with_attention(input.clone());
        let self_attention = match subject.config.autoregression {
            Autoregression::SelfAttention => subject.config.decoder_layers,
            Autoregression::Ssru => 0,
        };
        let layers = [
            (subject.config.encoder_layers, &maps.encoder, &input.source_blocked),
            (self_attention, &maps.decoder.self_attention, &input.target_blocked),
            (subject.config.decoder_layers, &maps.decoder.cross, &input.source_blocked),
        ];
        for (count, maps, mask) in layers {
            assert_eq!(maps.len(), count, "{name}");
            for map in maps {
                let blocked = blocked(mask, map.dims());
                let weights = values(&map.to_data());
                for (weight, blocked) in weights.iter().zip(blocked) {
                    assert!(if blocked { *weight == 0.0 } else { *weight > 0.0 }, "{name}");
                }
                for row in weights.chunks_exact(map.dims()[3]) {
                    assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6, "{name}: {row:?}");
                }
            }
        }
    }
}

/// An empty line among other lines gets finite scores and does not change the others.
#[test]
fn a_source_of_padding_alone_is_finite_and_changes_no_other_row() {
    for subject in subjects() {
        let Subject { name, device, .. } = &subject;
        let model = subject.model();
        let expected = model.forward(subject.input());
        let mut sources = sources();
        sources[1].clear();
        let input = input(&sources, &targets(), 0, device);
        let found = model.forward(input.clone());
        // With attention maps, another code path computes the same scores.
        let (same, maps) = model.forward_with_attention(input);
        subject.assert_close("with attention", &same.into_data(), &found.to_data());

        assert!(values(&found.to_data()).iter().all(|score| score.is_finite()), "{name}");
        for map in maps.encoder.iter().chain(&maps.decoder.cross) {
            let looked = map.clone().narrow(0, 1, 1).abs().sum().into_scalar::<f32>();
            assert_eq!(looked, 0.0, "{name}: an empty source must get no attention");
        }
        for row in [0, 2] {
            let found = found.clone().narrow(0, row, 1).into_data();
            found.assert_eq(&expected.clone().narrow(0, row, 1).into_data(), true);
        }
    }
}
