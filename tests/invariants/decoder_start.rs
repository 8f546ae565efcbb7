//! Invariants of the first input of the decoder.

use burn::tensor::TensorData;
use tx_data::{EncodedPair, Seq2SeqBatch};
use tx_engine::PackedTransformer;
use tx_model::{DecoderStart, ModelConfig, Transformer, TransformerInput, Tying};
use tx_text::special::{BOS, EOS, PAD};

use super::{
    Subject, answers,
    backward::loss_and_gradients,
    forward::{column, scores_at, start},
    pattern, sources, subjects,
};
use crate::support::{values, with_weights};

/// Variants with the decoder's start `start`, but nothing tied, so that the table of the target has
/// no other use.
fn untied(start: DecoderStart) -> impl Iterator<Item = Subject> {
    subjects().filter(move |subject| subject.config.decoder_start == start).map(|subject| Subject {
        config: ModelConfig { tying: Tying::None, ..subject.config },
        ..subject
    })
}

/// Batch of [`sources`] and [`answers`] whose decoder starts with the id `start`.
fn input_from(start: u32, subject: &Subject) -> TransformerInput {
    let pairs: Vec<EncodedPair> = sources()
        .into_iter()
        .zip(answers())
        .map(|(source, answer)| EncodedPair::new(source, [&[BOS], &answer[..]].concat()))
        .collect();
    let batch = Seq2SeqBatch::new(&pairs.iter().collect::<Vec<_>>(), start, &subject.device);
    TransformerInput {
        source: batch.source,
        source_blocked: batch.source_blocked,
        target: batch.target_in,
        target_blocked: batch.target_blocked,
    }
}

/// Model of `subject` whose row of the target's table for `id` is `row`.
fn with_row(subject: &Subject, id: u32, row: &[f32]) -> Transformer {
    with_weights(subject.model(), |path, shape| {
        let mut weights = values(&pattern(path, shape));
        if path == "target_embedding.weight" {
            weights[id as usize * row.len()..][..row.len()].copy_from_slice(row);
        }
        TensorData::new(weights, shape.to_vec())
    })
}

/// Scores of all tokens at once, step by step, and packed: for each position, `[B, V]`.
fn scores(model: &Transformer, input: &TransformerInput) -> [Vec<TensorData>; 3] {
    let full = model.forward(input.clone());
    let [_, len, vocabulary] = full.dims();
    let mut cache = start(model, input);
    let packed = PackedTransformer::from(model);
    let sources = sources();
    let mut decoding = packed.start(&sources.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let mut all = [const { Vec::new() }; 3];
    for place in 0..len {
        let tokens = column(&input.target, place);
        let ids: Vec<u32> = tokens.to_data().iter::<u32>().collect();
        all[0].push(scores_at(&full, place));
        all[1].push(model.decode_step(tokens, &mut cache).into_data());
        let scores = decoding.step_logits(&ids);
        all[2].push(TensorData::new(scores, [sources.len(), vocabulary]));
    }
    all
}

/// Equal to the bit: neither reads the row of the table.
#[test]
fn the_first_id_has_no_effect_with_the_zero_vector() {
    for subject in untied(DecoderStart::Zero) {
        let model = subject.model();
        let expected = scores(&model, &input_from(BOS, &subject));
        for id in [PAD, EOS, 7] {
            let found = scores(&model, &input_from(id, &subject));
            assert!(found == expected, "{}: {id}", subject.name);
        }
    }
}

/// In all ways of decoding.
#[test]
fn the_zero_vector_is_a_token_with_an_embedding_of_zeros() {
    for subject in untied(DecoderStart::Zero) {
        let found = scores(&subject.model(), &input_from(BOS, &subject));
        let config = ModelConfig { decoder_start: DecoderStart::Bos, ..subject.config.clone() };
        let (name, device) = (subject.name.clone(), subject.device.clone());
        let other = Subject { name, config, device };
        let model = with_row(&other, BOS, &vec![0.0; other.config.d_model]);
        let expected = scores(&model, &input_from(BOS, &other));
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            subject.assert_close("a score", found, expected);
        }
    }
}

/// `<pad>` and `<eos>` with the embedding of `<bos>` have its scores, so nothing hides them.
#[test]
fn any_token_can_be_the_first() {
    for (start, id) in [(DecoderStart::Pad, PAD), (DecoderStart::Eos, EOS)] {
        for subject in untied(start) {
            let [width, id_of_bos] = [subject.config.d_model, BOS as usize];
            let table = values(&pattern("target_embedding.weight", &[11, width]));
            let row = &table[id_of_bos * width..][..width];
            let found = scores(&with_row(&subject, id, row), &input_from(id, &subject));
            let expected = scores(&subject.model(), &input_from(BOS, &subject));
            // Later tokens of the shorter rows are padding, whose embedding differs.
            let first = |all: [Vec<TensorData>; 3]| all.map(|mut places| places.swap_remove(0));
            for (found, expected) in first(found).iter().zip(&first(expected)) {
                assert!(found == expected, "{}", subject.name);
            }
        }
    }
}

/// `<bos>` is only the first input: with the zero vector its row of the table has no part in the
/// loss.
#[test]
fn the_row_of_the_first_id_has_no_gradient_with_the_zero_vector() {
    for start in [DecoderStart::Zero, DecoderStart::Bos] {
        for subject in untied(start) {
            let width = subject.config.d_model;
            let input = input_from(BOS, &subject);
            let (_, gradients) = loss_and_gradients(&subject.trainable(), input, &answers());
            let table = values(&gradients["target_embedding.weight"]);
            let row = &table[BOS as usize * width..][..width];
            let is_zero = row.iter().all(|&x| x == 0.0);
            assert_eq!(is_zero, start.is_zero(), "{}", subject.name);
            assert!(table.iter().any(|&x| x != 0.0), "{}", subject.name);
        }
    }
}
