//! Classifier, masked language model and language model.

use burn::{
    module::Module,
    tensor::{Bool, Device, Int, Tensor, TensorData},
};
use tx_data::mask;
use tx_model::{
    Architecture, Classifier, LanguageModel, LanguageModelInput, MaskedLanguageModel,
    kernels::{self, CrossEntropyConfig},
};
use tx_text::special::PAD;

use super::{FORWARD_LIMIT, Fixture, Worst, compare_gradients, real_rows};
use crate::support::{self, devices, values};

/// Post-norm, relu, mean over the tokens that are not padding.
#[test]
fn mean_pooling_agrees() {
    agrees("classifier_mean");
}

/// Pre-norm, gelu, the first token.
#[test]
fn first_token_pooling_agrees() {
    agrees("classifier_first");
}

/// Post-norm, gelu, the projection tied to the embedding.
#[test]
fn masked_language_modeling_agrees() {
    agrees("masked_language_model");
}

/// Pre-norm, gelu, tied, with two documents in each row.
#[test]
fn language_modeling_of_documents_in_a_row_agrees() {
    agrees("language_model");
}

/// Post-norm, relu, not tied, learned positions that restart in each document.
#[test]
fn learned_positions_of_documents_in_a_row_agree() {
    agrees("language_model_learned");
}

fn agrees(case: &str) {
    let fixture = Fixture::open(case);
    let Fixture { config, vocab, architecture, .. } = &fixture;
    let vocabulary = vocab.source;
    for (name, device) in devices() {
        let report = match *architecture {
            Architecture::Classifier { classes, pooling } => {
                let new = |device: &Device| {
                    Classifier::new(config, vocabulary, classes, pooling, device).unwrap()
                };
                let run = |model: &Classifier, device: &Device| {
                    let (ids, blocked) = text(&fixture, device);
                    model.forward_with_attention(ids, blocked)
                };
                let train = |model: &Classifier, device: &Device| {
                    let (ids, blocked) = text(&fixture, device);
                    model.forward(ids, blocked)
                };
                // Every class counts: no label is padding.
                check(&fixture, &device, classes as u32, new, run, train)
            }
            Architecture::MaskedLanguageModel => {
                let new =
                    |device: &Device| MaskedLanguageModel::new(config, vocabulary, device).unwrap();
                let run = |model: &MaskedLanguageModel, device: &Device| {
                    let (ids, blocked) = text(&fixture, device);
                    let (logits, maps) = model.forward_with_attention(ids, blocked);
                    (flat(logits), maps)
                };
                let train = |model: &MaskedLanguageModel, device: &Device| {
                    let (ids, blocked) = text(&fixture, device);
                    flat(model.forward(ids, blocked))
                };
                check(&fixture, &device, PAD, new, run, train)
            }
            Architecture::LanguageModel => {
                let new = |device: &Device| LanguageModel::new(config, vocabulary, device).unwrap();
                let run = |model: &LanguageModel, device: &Device| {
                    let (logits, maps) = model.forward_with_attention(row(&fixture, device));
                    (flat(logits), maps)
                };
                let train = |model: &LanguageModel, device: &Device| {
                    flat(model.forward(row(&fixture, device)))
                };
                check(&fixture, &device, PAD, new, run, train)
            }
            Architecture::EncoderDecoder => panic!("{case} is not a model with one stack"),
        };
        println!("{case} on {name}: {report}");
    }
}

/// Texts of an encoder, and their padding mask.
fn text(fixture: &Fixture, device: &Device) -> (Tensor<2, Int>, Tensor<4, Bool>) {
    let ids = Tensor::<2, Int>::from_data(fixture.tensor("ids").clone(), device);
    let blocked = mask::padding(&ids);
    (ids, blocked)
}

/// Rows of documents.
fn row(fixture: &Fixture, device: &Device) -> LanguageModelInput {
    let ids = |path| Tensor::<2, Int>::from_data(fixture.tensor(path).clone(), device);
    let blocked = Tensor::<3, Int>::from_data(fixture.tensor("blocked").clone(), device);
    LanguageModelInput {
        ids: ids("ids"),
        positions: Some(ids("positions")),
        blocked: blocked.equal_elem(1).unsqueeze_dim(1),
    }
}

/// `[B, L, V]` → `[B · L, V]`
fn flat(logits: Tensor<3>) -> Tensor<2> {
    let [batch, len, vocabulary] = logits.dims();
    logits.reshape([batch * len, vocabulary])
}

/// Checks logits, losses and attention maps of `run`, and the gradients of `train`, for labels of
/// which `ignored` does not count.
fn check<M: Module>(
    fixture: &Fixture,
    device: &Device,
    ignored: u32,
    new: impl Fn(&Device) -> M,
    run: impl Fn(&M, &Device) -> (Tensor<2>, Vec<Tensor<4>>),
    train: impl Fn(&M, &Device) -> Tensor<2>,
) -> String {
    let labels: Vec<i32> = fixture.tensor("labels").try_to_vec().unwrap();
    let labels = TensorData::new(labels.clone(), [labels.len()]);
    let loss = |logits: Tensor<2>, smoothing| {
        let labels = Tensor::<1, Int>::from_data(labels.clone(), device);
        let config = CrossEntropyConfig { smoothing, ignore_index: ignored };
        kernels::cross_entropy(logits, labels, None, config).loss
    };

    let (logits, maps) = run(&fixture.load(new(device)), device);
    let mut logits_error = Worst::within(FORWARD_LIMIT);
    let real = fixture.real("ids");
    // A classifier has a row for each text, other models one for each token.
    let counted: Vec<Vec<bool>> = match logits.dims()[0] == real.len() {
        true => vec![vec![true]; real.len()],
        false => real.clone(),
    };
    let expected = real_rows(fixture.tensor("logits"), &counted);
    logits_error.add("logits", real_rows(&logits.to_data(), &counted), &expected);

    let mut loss_error = Worst::within(FORWARD_LIMIT);
    for smoothing in [0.0, 0.1] {
        let path = format!("loss.{smoothing:?}");
        let expected = values(fixture.tensor(&path));
        loss_error.add(&path, values(&loss(logits.clone(), smoothing).into_data()), &expected);
    }

    let mut map_error = Worst::within(FORWARD_LIMIT);
    for (layer, map) in maps.iter().enumerate() {
        let path = format!("attention.{layer}");
        let expected = fixture.tensor(&path);
        assert_eq!(map.dims(), expected.shape().dims::<4>(), "{path}");
        map_error.add(&path, real_rows(&map.to_data(), &real), &real_rows(expected, &real));
    }
    let in_fixture = fixture.tensors.keys().filter(|path| path.starts_with("attention.")).count();
    assert_eq!(maps.len(), in_fixture, "attention maps of {}", fixture.case);

    let model = fixture.load(new(&device.clone().autodiff()));
    let gradients = loss(train(&model, device), 0.1).backward();
    let gradients = compare_gradients(fixture, &support::gradients(&model, &gradients));
    format!("logits {logits_error}, loss {loss_error}, maps {map_error}, {gradients}")
}
