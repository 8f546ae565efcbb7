//! Invariants of the language model, on tensors and in the packed engine.

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use tx_data::mask;
use tx_engine::{LanguageModelDecoding, PackedLanguageModel};
use tx_model::{LanguageModel, LanguageModelCache, LanguageModelInput, Positions};
use tx_text::special::PAD;
use tx_train::loss::{Labels, smoothed_cross_entropy};

use super::{
    Subject, VOCABULARY,
    backward::{cannot_matter, largest_of_all},
    difference,
    forward::{column, scores_at},
    ids, pattern, sentence, subjects_with_attention,
};
use crate::support::{self, Named, largest, values, with_weights};

/// Documents that together fit in one row of `max_len` tokens.
fn documents() -> Vec<Vec<u32>> {
    vec![vec![1, 7, 5, 2], vec![1, 4, 10, 9, 9, 6, 2], vec![1, 8, 2]]
}

/// Language model with the weights of [`pattern`].
pub(super) fn language_model(subject: &Subject, device: &Device) -> LanguageModel {
    with_weights(LanguageModel::new(&subject.config, VOCABULARY, device).unwrap(), pattern)
}

/// Rows of one document each, with `extra` columns of padding.
pub(super) fn rows(documents: &[Vec<u32>], extra: usize, device: &Device) -> LanguageModelInput {
    let ids = ids(documents, extra, device);
    let [_, len] = ids.dims();
    LanguageModelInput { ids, positions: None, blocked: mask::causal(len, device) }
}

/// One row with all documents and two tokens of padding, which attend to nothing.
pub(super) fn one_row(documents: &[Vec<u32>], device: &Device) -> LanguageModelInput {
    let mut ids = documents.concat();
    let mut positions: Vec<i32> =
        documents.iter().flat_map(|document| 0..document.len() as i32).collect();
    ids.extend([PAD; 2]);
    positions.extend([0, 1]);
    let owners: Vec<Option<usize>> = documents
        .iter()
        .enumerate()
        .flat_map(|(index, document)| vec![Some(index); document.len()])
        .chain([None; 2])
        .collect();
    let len = ids.len();
    let is_blocked = |query: usize, key: usize| {
        key > query || owners[query].is_none() || owners[query] != owners[key]
    };
    let blocked: Vec<bool> = (0..len)
        .flat_map(|query| (0..len).map(move |key| (query, key)))
        .map(|(query, key)| is_blocked(query, key))
        .collect();
    let ids: Vec<i32> = ids.into_iter().map(|id| id as i32).collect();
    LanguageModelInput {
        ids: Tensor::from_data(TensorData::new(ids, [1, len]), device),
        positions: Some(Tensor::from_data(TensorData::new(positions, [1, len]), device)),
        blocked: Tensor::from_data(TensorData::new(blocked, [1, 1, len, len]), device),
    }
}

/// Range of each document in [`one_row`].
fn places(documents: &[Vec<u32>]) -> Vec<std::ops::Range<usize>> {
    let mut end = 0;
    documents
        .iter()
        .map(|document| {
            let start = end;
            end += document.len();
            start..end
        })
        .collect()
}

#[test]
fn documents_in_one_row_are_each_document_alone() {
    let mut worst = 0.0_f64;
    for subject in subjects_with_attention() {
        let Subject { name, device, .. } = &subject;
        let model = language_model(&subject, device);
        let input = one_row(&documents(), device);
        let plain = model.forward(input.clone());
        // With attention maps, another code path computes the same scores.
        let (row, maps) = model.forward_with_attention(input);
        subject.assert_close("with attention", &row.to_data(), &plain.to_data());
        assert!(values(&plain.to_data()).iter().all(|score| score.is_finite()), "{name}");
        assert_eq!(maps.len(), subject.config.decoder_layers, "{name}");
        for (document, place) in documents().iter().zip(places(&documents())) {
            let alone = rows(std::slice::from_ref(document), 0, device);
            let (expected, expected_maps) = model.forward_with_attention(alone);
            let found = plain.clone().slice([0..1, place.clone()]).into_data();
            let gap = subject.assert_close("a document", &found, &expected.into_data());
            worst = worst.max(gap);
            for (map, expected) in maps.iter().zip(expected_maps) {
                let found =
                    map.clone().slice([0..1, 0..map.dims()[1], place.clone(), place.clone()]);
                let (found, expected) = (found.into_data(), expected.into_data());
                worst = worst.max(subject.assert_close("attention", &found, &expected));
            }
        }
    }
    println!("documents: {worst:.1e}");
}

/// Equal to the bit: a blocked key has weight zero, and adding zero changes no bit.
#[test]
fn a_token_changes_nothing_before_it_and_no_other_document() {
    for subject in subjects_with_attention() {
        let Subject { name, device, .. } = &subject;
        let model = language_model(&subject, device);
        let input = one_row(&documents(), device);
        let before = model.forward(input.clone());
        for document in places(&documents()) {
            let place = document.start + 1;
            let other = Tensor::<2, Int>::full([1, 1], 3, device);
            let ids = input.ids.clone().slice_assign([0..1, place..place + 1], other);
            let after = model.forward(LanguageModelInput { ids, ..input.clone() });
            for position in 0..input.ids.dims()[1] {
                let [before, after] =
                    [&before, &after].map(|scores| values(&scores_at(scores, position)));
                if position == place {
                    assert!(before != after, "{name}: place {place} sees no change");
                } else if !(place..document.end).contains(&position) {
                    assert!(before == after, "{name}: place {place} changes {position}");
                }
            }
        }
    }
}

/// Encodings that are added to the embeddings need positions that restart in each document; the
/// others give the same scores without.
#[test]
fn positions_matter_to_the_encodings_that_are_added() {
    for subject in subjects_with_attention() {
        let Subject { name, config, device } = &subject;
        let model = language_model(&subject, device);
        let input = one_row(&documents(), device);
        let expected = model.forward(input.clone()).into_data();
        let found = model.forward(LanguageModelInput { positions: None, ..input }).into_data();
        match config.positions {
            Positions::Sinusoidal | Positions::Learned => {
                assert!(difference(&values(&found), &values(&expected)) > 1e-3, "{name}");
            }
            Positions::Rotary | Positions::Relative | Positions::Alibi | Positions::None => {
                found.assert_eq(&expected, true);
            }
        }
    }
}

#[test]
fn explicit_positions_from_zero_are_the_default_ones() {
    for subject in subjects_with_attention() {
        let device = &subject.device;
        let model = language_model(&subject, device);
        let input = rows(&documents(), 0, device);
        let [batch, len] = input.ids.dims();
        let expected = model.forward(input.clone());
        let positions = Tensor::<1, Int>::arange(0..len as i64, device).unsqueeze::<2>();
        let positions = Some(positions.expand([batch, len]));
        let found = model.forward(LanguageModelInput { positions, ..input });
        found.into_data().assert_eq(&expected.into_data(), true);
    }
}

#[test]
fn padding_changes_no_score_of_a_document() {
    let mut worst = 0.0_f64;
    for subject in subjects_with_attention() {
        let device = &subject.device;
        let model = language_model(&subject, device);
        let batch = model.forward(rows(&documents(), 3, device));
        for (index, document) in documents().iter().enumerate() {
            let alone = model.forward(rows(std::slice::from_ref(document), 0, device));
            let found = sentence(&batch, index, document.len());
            worst = worst.max(subject.assert_close("a document", &found, &alone.into_data()));
        }
    }
    println!("padding: {worst:.1e}");
}

#[test]
fn decoding_step_by_step_is_decoding_at_once_without_a_source() {
    let mut worst = 0.0_f64;
    for subject in subjects_with_attention() {
        let device = &subject.device;
        let model = language_model(&subject, device);
        let input = rows(&documents(), 0, device);
        let [batch, len] = input.ids.dims();
        let (full, full_maps) = model.forward_with_attention(input.clone());
        let mut cache = model.start_decoding(batch);
        assert!(cache.is_empty());
        for place in 0..len {
            let token = column(&input.ids, place);
            let (scores, maps) = model.decode_step_with_attention(token, &mut cache);
            assert_eq!(cache.len(), place + 1);
            let expected = scores_at(&full, place);
            worst = worst.max(subject.assert_close("a step", &scores.into_data(), &expected));
            for (found, full) in maps.iter().zip(&full_maps) {
                let expected = full.clone().narrow(2, place, 1).narrow(3, 0, place + 1);
                let (found, expected) = (found.to_data(), expected.into_data());
                worst = worst.max(subject.assert_close("attention", &found, &expected));
            }
        }
    }
    println!("cache: {worst:.1e}");
}

/// Rearrangements of three rows, as in beam search.
const ROUNDS: [&[usize]; 3] = [&[2, 0, 0, 1], &[3, 1, 1, 0, 2], &[4, 0]];

/// Decodes while rows are swapped, repeated and removed after each step, and compares each row with
/// the scores of its tokens alone.
fn decode_in_rounds<D>(
    subject: &Subject,
    decoding: &mut D,
    step: impl Fn(&mut D, &[u32]) -> Vec<f32>,
    select: impl Fn(&mut D, &[usize]),
) -> f64 {
    let model = language_model(subject, &subject.device);
    let mut texts = vec![Vec::new(); 3];
    let mut worst = 0.0_f64;
    for round in 0..=ROUNDS.len() {
        // A different token for every row and round.
        for (row, text) in texts.iter_mut().enumerate() {
            text.push(4 + ((2 * row + 3 * round) % 7) as u32);
        }
        let tokens: Vec<u32> = texts.iter().filter_map(|text| text.last().copied()).collect();
        let found = step(decoding, &tokens);
        let full = model.forward(rows(&texts, 0, &subject.device));
        let expected = values(&scores_at(&full, round));
        assert_eq!(found.len(), expected.len(), "{}", subject.name);
        let gap = difference(&found, &expected);
        assert!(gap <= super::LIMIT, "{}: differs by {gap:.1e}", subject.name);
        worst = worst.max(gap);
        if let Some(&rows) = ROUNDS.get(round) {
            select(decoding, rows);
            texts = rows.iter().map(|&row| texts[row].clone()).collect();
        }
    }
    worst
}

#[test]
fn selected_rows_of_a_language_model_decode_on_as_before() {
    let mut worst = 0.0_f64;
    for subject in subjects_with_attention() {
        let device = &subject.device;
        let model = language_model(&subject, device);
        // Taken and put back, because a selection consumes the cache.
        let mut cache = Some(model.start_decoding(3));
        let step = |cache: &mut Option<LanguageModelCache>, tokens: &[u32]| {
            let tokens: Vec<i32> = tokens.iter().map(|&token| token as i32).collect();
            let tokens = Tensor::from_data(&tokens[..], device);
            values(&model.decode_step(tokens, cache.as_mut().unwrap()).into_data())
        };
        let select = |cache: &mut Option<LanguageModelCache>, rows: &[usize]| {
            let rows: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
            let rows = Tensor::from_data(&rows[..], device);
            *cache = cache.take().map(|cache| cache.select(&rows));
        };
        worst = worst.max(decode_in_rounds(&subject, &mut cache, step, select));
    }
    println!("select: {worst:.1e}");
}

#[test]
fn packed_language_models_decode_as_those_on_tensors() {
    let mut worst = 0.0_f64;
    for subject in subjects_with_attention() {
        let packed = PackedLanguageModel::from(&language_model(&subject, &subject.device));
        assert_eq!(packed.vocabulary(), VOCABULARY);
        let mut decoding = packed.start(3);
        assert!(decoding.is_empty());
        let step =
            |decoding: &mut LanguageModelDecoding<'_>, tokens: &[u32]| decoding.step_logits(tokens);
        let select =
            |decoding: &mut LanguageModelDecoding<'_>, rows: &[usize]| decoding.select(rows);
        worst = worst.max(decode_in_rounds(&subject, &mut decoding, step, select));
        assert_eq!(decoding.len(), ROUNDS.len() + 1);
    }
    println!("packed: {worst:.1e}");
}

#[test]
fn packed_attention_of_a_language_model_is_that_on_tensors() {
    let mut worst = 0.0_f64;
    for subject in subjects_with_attention() {
        let model = language_model(&subject, &subject.device);
        let packed = PackedLanguageModel::from(&model);
        for document in &documents() {
            let alone = rows(std::slice::from_ref(document), 0, &subject.device);
            let (_, expected) = model.forward_with_attention(alone);
            let found = packed.attention_maps(document);
            worst = worst.max(super::packed::assert_maps(&subject, "layers", &found, expected));
        }
    }
    println!("packed, attention: {worst:.1e}");
}

/// Compared with `log softmax` of the scores, sorted; suppressed tokens are not listed but count.
#[test]
fn the_likeliest_tokens_of_a_language_model_are_those_of_its_scores() {
    for subject in subjects_with_attention() {
        let packed = PackedLanguageModel::from(&language_model(&subject, &subject.device));
        let scores = packed.start(1).step_logits(&[1]);
        let sum: f64 = scores.iter().map(|&x| f64::from(x).exp()).sum();
        let mut expected: Vec<(u32, f64)> =
            (0..).zip(&scores).skip(2).map(|(id, &x)| (id, f64::from(x) - sum.ln())).collect();
        expected.sort_by(|a, b| b.1.total_cmp(&a.1));
        let found = packed.start(1).step(&[1], &[0, 1], 4);
        assert_eq!(found[0].len(), 4, "{}", subject.name);
        for (found, expected) in found[0].iter().zip(&expected) {
            assert_eq!(found.0, expected.0, "{}", subject.name);
            assert!((f64::from(found.1) - expected.1).abs() < 1e-5, "{}", subject.name);
        }
    }
}

/// Summed loss of the next tokens, and all gradients.
fn loss_and_gradients(
    model: &LanguageModel,
    input: LanguageModelInput,
    documents: &[Vec<u32>],
) -> (f64, Named) {
    let len = input.ids.dims()[1];
    let mut labels: Vec<i32> = documents
        .iter()
        .flat_map(|document| document[1..].iter().copied().chain([PAD]))
        .map(|id| id as i32)
        .collect();
    labels.resize(len, PAD as i32);
    let labels =
        Tensor::<2, Int>::from_data(TensorData::new(labels, [1, len]), &input.ids.device());
    let loss = smoothed_cross_entropy(model.forward(input), Labels::new(labels, 0.1)).sum;
    let gradients = support::gradients(model, &loss.backward());
    (f64::from(loss.into_scalar::<f32>()), gradients)
}

/// Every weight has a part in the loss, and no gradient passes from one document to another.
#[test]
fn gradients_of_documents_in_one_row_are_those_of_each_alone() {
    let mut worst = 0.0_f64;
    for subject in subjects_with_attention() {
        let Subject { name, config, device } = &subject;
        let model = language_model(&subject, &device.clone().autodiff());
        let (loss, found) = loss_and_gradients(&model, one_row(&documents(), device), &documents());
        let alone: Vec<(f64, Named)> = documents()
            .chunks(1)
            .map(|document| loss_and_gradients(&model, rows(document, 0, device), document))
            .collect();
        let expected: f64 = alone.iter().map(|(loss, _)| loss).sum();
        assert!((loss - expected).abs() / expected <= super::LIMIT, "{name}: {loss}, {expected}");

        let scale = largest_of_all(&found);
        for (path, found) in &found {
            let found = values(found);
            let share = largest(&found) / scale;
            if cannot_matter(path, config.positions) {
                assert!(share < 1e-6, "{name}: `{path}` has a gradient, {share:.1e}");
            } else {
                assert!(share > 1e-5, "{name}: `{path}` has none, {share:.1e}");
            }
            let mut gaps = found;
            for (_, gradients) in &alone {
                gaps.iter_mut().zip(values(&gradients[path])).for_each(|(gap, x)| *gap -= x);
            }
            assert!(gaps.iter().all(|gap| gap.is_finite()), "{name}: {path}");
            let gap = largest(&gaps) / scale;
            assert!(gap <= super::LIMIT, "{name}: {path} differs by {gap:.1e}");
            worst = worst.max(gap);
        }
    }
    println!("gradients of documents: {worst:.1e}");
}

/// Masks of [`one_row`], by hand: documents of two and one tokens, then two of padding.
#[test]
fn a_row_of_documents_blocks_later_tokens_other_documents_and_padding() {
    let input = one_row(&[vec![1, 2], vec![3]], &Device::flex());
    let (o, x) = (false, true);
    let expected =
        [[o, x, x, x, x], [o, o, x, x, x], [x, x, o, x, x], [x, x, x, x, x], [x, x, x, x, x]];
    let expected = Tensor::<4, Bool>::from_data([[expected]], &Device::flex());
    input.blocked.into_data().assert_eq(&expected.into_data(), true);
}
