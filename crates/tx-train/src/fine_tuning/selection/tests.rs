//! Updates of models of which some weights are trained.

use std::{
    collections::BTreeMap,
    sync::{LazyLock, Mutex},
};

use burn::{
    optim::ModuleOptimizer,
    tensor::{Device, Tolerance},
};
use tx_data::{EncodedPair, Seq2SeqBatch};
use tx_model::{DropoutConfig, ModelConfig, Transformer, VocabSizes};
use tx_text::special::BOS;

use super::*;
use crate::{
    config::{OptimizationConfig, OptimizerKind, RateFactor},
    task::Trainable,
    training::{
        gradients::{UpdateGradients, compute_gradients},
        optimizer::{MODEL, optimizer},
    },
    translation::seq2seq::Seq2Seq,
};

/// d 4, d_ff 6, one layer each, 9 tied ids.
fn config(train: OptimizationConfig) -> TrainConfig {
    let model = ModelConfig {
        d_model: 4,
        n_heads: 2,
        d_ff: 6,
        encoder_layers: 1,
        decoder_layers: 1,
        max_len: 5,
        dropout: DropoutConfig::none(),
        ..ModelConfig::default()
    };
    TrainConfig { model, train, ..TrainConfig::default() }
}

/// Copies of one model. Tests in parallel share the generator of the device, so that models which are
/// initialized with the same seed can differ.
fn plain() -> Transformer {
    static MODEL: LazyLock<Mutex<Transformer>> = LazyLock::new(|| {
        let model = config(OptimizationConfig::default()).model;
        let vocab = VocabSizes { source: 9, target: 9 };
        Mutex::new(Transformer::new(&model, vocab, &Device::flex().autodiff()).unwrap())
    });
    MODEL.lock().unwrap().clone()
}

fn model(config: &TrainConfig) -> Seq2Seq {
    Seq2Seq::new(select_weights(plain(), config), 0.1)
}

fn batch() -> Seq2SeqBatch {
    let pair = |id: u32| EncodedPair::new(vec![id, 4, 2], vec![1, id, 5, 2]);
    let pairs = [pair(4), pair(7), pair(8)];
    Seq2SeqBatch::new(&pairs.iter().collect::<Vec<_>>(), BOS, &Device::flex().autodiff())
}

fn gradients(model: &Seq2Seq) -> UpdateGradients {
    compute_gradients(model, vec![batch()], &[], 0.0)
}

/// Values of each weight by name.
#[derive(Default)]
struct Values {
    path: Vec<String>,
    found: BTreeMap<String, Vec<f32>>,
}

impl ModuleVisitor for Values {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let values = param.val().into_data().iter::<f32>().collect();
        self.found.insert(self.path.join("."), values);
    }
}

fn values(model: &impl Module) -> BTreeMap<String, Vec<f32>> {
    let mut values = Values::default();
    model.visit(&mut values);
    values.found
}

/// Values after some updates with the learning rate 0.01.
fn trained(config: &TrainConfig, updates: usize) -> (Seq2Seq, ModuleOptimizer) {
    let (mut model, mut optimizer) = (model(config), optimizer(config));
    for _ in 0..updates {
        let UpdateGradients { gradients, .. } = gradients(&model);
        model = optimizer.step(0.01, model, gradients);
    }
    (model, optimizer)
}

/// Embedding 9·4, projection bias 9, attention 4·(4·4 + 4), feed-forward 4·6 + 6 + 6·4 + 4, norm
/// 2·4.
#[test]
fn trained_parameters_are_counted() {
    let parameters = |train| Parameters::of(&model(&config(train)));
    let [attention, feed_forward, norm] = [80, 58, 8];
    let encoder = attention + feed_forward + 2 * norm;
    let all = 36 + 9 + encoder + 2 * attention + feed_forward + 3 * norm;
    let found = parameters(OptimizationConfig::default());
    assert_eq!((found.all, found.trained), (all, all));
    assert_eq!(found.to_string(), format!("{all} parameters"));

    let freeze = vec!["encoder".into(), "embeddings".into()];
    let found = parameters(OptimizationConfig { freeze, ..OptimizationConfig::default() });
    assert_eq!((found.all, found.trained), (all, all - encoder - 36));
    let text = found.to_string();
    assert!(text.starts_with(&format!("{all} parameters, {} trained (", found.trained)));

    // Two matrices [4, 4] of three attentions, with factors [4, 2] and [2, 4].
    let lora = Some(LoraConfig { rank: 2, ..LoraConfig::default() });
    let found = parameters(OptimizationConfig { lora, ..OptimizationConfig::default() });
    assert_eq!((found.all, found.trained), (all, 3 * 2 * 16));
}

#[test]
fn frozen_weights_have_no_gradient_no_state_and_no_update() {
    let freeze = vec!["embeddings".into(), "encoder".into(), "biases".into()];
    let train = OptimizationConfig {
        freeze,
        optimizer: OptimizerKind::AdamW,
        weight_decay: 0.1,
        ..OptimizationConfig::default()
    };
    let config = config(train);
    let before = values(&model(&config));
    let (after, optimizer) = trained(&config, 3);
    let after = values(&after);
    let is_frozen = |name: &str| {
        name.contains("embedding") || name.contains(".encoder.") || name.ends_with(".bias")
    };
    let mut frozen = 0;
    for (name, before) in &before {
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(before) == bits(&after[name]), is_frozen(name), "{name}");
        frozen += usize::from(is_frozen(name));
    }
    // Two moments of each other weight.
    assert_eq!(optimizer.to_record().len(), 2 * (before.len() - frozen));
}

/// The gradients of the other weights do not change.
#[test]
fn the_norm_has_no_part_of_frozen_weights() {
    struct Compare<'a> {
        all: &'a UpdateGradients,
        some: &'a UpdateGradients,
        squares: f64,
        compared: usize,
        ids: std::vec::IntoIter<burn::module::ParamId>,
    }
    impl ModuleVisitor for Compare<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            // Ids of the same weight in the other model.
            let other = self.ids.next().unwrap();
            let Some(found) = self.some.gradients.get::<D>(param.id) else { return };
            let expected = self.all.gradients.get::<D>(other).unwrap().into_data();
            let found = found.into_data();
            found.assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-6));
            self.squares += found.iter::<f64>().map(|x| x * x).sum::<f64>();
            self.compared += 1;
        }
    }
    let freeze = vec!["source_embedding".into(), "encoder".into(), "decoder.layers.0".into()];
    let whole = model(&config(OptimizationConfig::default()));
    let part = model(&config(OptimizationConfig { freeze, ..OptimizationConfig::default() }));
    let (all, some) = (gradients(&whole), gradients(&part));
    let ids = burn::module::list_param_ids(&whole).into_iter();
    let mut compare = Compare { all: &all, some: &some, squares: 0.0, compared: 0, ids };
    part.visit(&mut compare);
    // The bias of the projection alone.
    assert_eq!(compare.compared, 1);
    assert!((some.norm - compare.squares.sqrt()).abs() < 1e-6 * some.norm, "{}", some.norm);
    assert!(some.norm < all.norm);
}

/// In its first step, Adam moves every weight by the learning rate, whatever the gradient: 0.01, times
/// 0.1 in the encoder and 0.5 · 0.1 in its norms.
#[test]
fn the_first_step_has_the_rate_of_each_weight() {
    let entry = |weights: &str, factor| RateFactor { weights: weights.into(), factor };
    let train = OptimizationConfig {
        learning_rates: vec![entry("encoder", 0.1), entry("norms", 0.5)],
        epsilon: 1e-30,
        ..OptimizationConfig::default()
    };
    let config = config(train);
    let before = values(&model(&config));
    let after = values(&trained(&config, 1).0);
    for (name, before) in before {
        let encoder = if name.contains(".encoder.") { 0.1 } else { 1.0 };
        let norm = if name.contains("norm.") { 0.5 } else { 1.0 };
        let expected = 0.01 * encoder * norm;
        // A key bias has no effect on the scores, so its gradient is 0, up to rounding.
        if name.ends_with("key.bias") {
            continue;
        }
        for (before, after) in before.iter().zip(&after[&name]) {
            let step = f64::from((after - before).abs());
            // Embeddings of ids that do not occur, and relu units that are not active, have none.
            assert!(step == 0.0 || (step - expected).abs() < 2e-7, "{name}: {step}");
        }
    }
}

/// Weights that `no_decay` selects have the values of a run without decay, after one update, which does
/// not depend on other weights.
#[test]
fn some_weights_have_no_decay() {
    let train = |no_decay: &[&str], weight_decay| OptimizationConfig {
        no_decay: no_decay.iter().map(|&name| name.to_owned()).collect(),
        optimizer: OptimizerKind::AdamW,
        weight_decay,
        ..OptimizationConfig::default()
    };
    let after = |train| values(&trained(&config(train), 1).0);
    let (none, all) = (after(train(&[], 0.0)), after(train(&[], 0.5)));
    let some = after(train(&["norms", "biases"], 0.5));
    for (name, values) in some {
        let is_selected = name.contains("norm.") || name.ends_with(".bias");
        assert_eq!(&values, if is_selected { &none } else { &all }.get(&name).unwrap(), "{name}");
        // Others are 0 at first.
        if name.ends_with("gamma") || name.ends_with("weight") {
            assert_ne!(none[&name], all[&name], "{name}");
        }
    }
}

/// Each optimizer reduces the loss, and its saved state continues bit by bit.
#[test]
fn every_optimizer_learns_and_resumes() {
    use OptimizerKind::{Adafactor, Adam, AdamW, Lamb, Lion, Muon, Sgd};
    for kind in [Adam, AdamW, Lion, Lamb, Adafactor, Muon, Sgd] {
        let config =
            config(OptimizationConfig { optimizer: kind, ..OptimizationConfig::default() });
        let loss = |model: &Seq2Seq| {
            let loss = model.validation_loss(batch()).sum;
            loss.into_data().iter::<f64>().sum::<f64>()
        };
        let (half, state) = trained(&config, 5);
        let (whole, _) = trained(&config, 10);
        assert!(loss(&whole) < loss(&model(&config)), "{kind:?}");
        let mut resumed = half;
        let mut optimizer = optimizer(&config).load_record(state.to_record());
        for _ in 0..5 {
            let UpdateGradients { gradients, .. } = gradients(&resumed);
            resumed = optimizer.step(0.01, resumed, gradients);
        }
        assert_eq!(values(&resumed), values(&whole), "{kind:?}");
    }
}

#[test]
fn a_model_with_merged_matrices_equals_the_unmerged_one() {
    let targets = ["query", "feed_forward.inner", "embeddings"].map(str::to_owned).to_vec();
    let lora = Some(LoraConfig { rank: 2, alpha: 3.0, targets });
    let config = config(OptimizationConfig { lora, ..OptimizationConfig::default() });
    let first = model(&config);
    // B is 0 at first, so the model is unchanged.
    let loss = |model: &Seq2Seq| {
        let loss = model.validation_loss(batch()).sum;
        loss.into_data().iter::<f64>().sum::<f64>()
    };
    assert_eq!(loss(&first), loss(&Seq2Seq::new(plain(), 0.1)));

    let (trained, _) = trained(&config, 5);
    let merged = trained.clone().materialize();
    let (unmerged, loss_of_merged) = (loss(&trained), loss(&merged));
    assert!((unmerged - loss_of_merged).abs() < 1e-5 * unmerged, "{unmerged} {loss_of_merged}");
    assert!((unmerged - loss(&first)).abs() > 1e-3);

    // W + 3/2 A B, computed from the factors.
    let (merged, parts, base) = (values(&merged), values(&trained), values(&plain()));
    assert_eq!(merged.len(), base.len());
    let mut adapted = 0;
    for (name, before) in base {
        let path = format!("{MODEL}.{name}");
        assert_eq!(parts[&path], before, "{name}");
        let Some(a) = parts.get(&format!("{path}.lora.a")) else {
            assert_eq!(merged[&path], before, "{name}");
            continue;
        };
        adapted += 1;
        let b = &parts[&format!("{path}.lora.b")];
        let columns = b.len() / 2;
        for (index, (before, found)) in before.iter().zip(&merged[&path]).enumerate() {
            let (row, column) = (index / columns, index % columns);
            let product = a[2 * row] * b[column] + a[2 * row + 1] * b[columns + column];
            assert!((found - (before + 1.5 * product)).abs() < 1e-6, "{name}: {found}");
        }
    }
    // Queries of three attentions, two feed-forward layers, one table.
    assert_eq!(adapted, 6);
}
