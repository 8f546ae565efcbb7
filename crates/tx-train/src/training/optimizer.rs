//! Optimizers by name, with the learning rate and the weight decay of each group of weights.

use std::collections::BTreeMap;

use burn::{
    module::ParamGroup,
    optim::{
        AdafactorConfig, AdjustLrFn, LambConfig, LionConfig, ModuleOptimizer, MuonConfig,
        Optimizer, SgdConfig, decay::WeightDecayConfig, momentum::MomentumConfig,
    },
    tensor::{Device, Tensor},
};
use tx_model::WeightShape;

use super::adam::Adam;
use crate::{
    config::{OptimizationConfig, OptimizerKind, TrainConfig, selects},
    fine_tuning::selection::FACTORS,
};

/// Field of every trained module that contains the model of its bundle.
pub(crate) const MODEL: &str = "model";

/// Creates the optimizer of a configuration.
pub(crate) fn optimizer(config: &TrainConfig) -> ModuleOptimizer {
    let train = &config.train;
    let mut groups: BTreeMap<Group, Vec<String>> = BTreeMap::new();
    for weight in config.weight_shapes() {
        let group = Group::of(&weight, train);
        let path = format!("{MODEL}.{}", weight.name);
        // Muon is for the weights of a model, not for factors of their changes.
        let of_factors = groups.entry(Group { is_hidden_matrix: false, ..group }).or_default();
        of_factors.extend(FACTORS.map(|factor| format!("{path}.{factor}")));
        groups.entry(group).or_default().push(path);
    }
    groups.remove(&Group::MOST);
    let adam = Adam::new(train);
    let first = Group::MOST.add_to(None, ParamGroup::all(), train, &adam);
    groups.into_iter().fold(first, |optimizer, (group, paths)| {
        group.add_to(Some(optimizer), ParamGroup::from_paths(paths), train, &adam)
    })
}

/// Group of weights with the same settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    /// Bits of the factor of the learning rate.
    rate_factor: u64,
    /// Whether weight decay applies.
    decays: bool,
    /// Whether Muon updates the weights: matrices that are neither embedding nor projection.
    is_hidden_matrix: bool,
}

impl Group {
    /// Settings of weights that no key selects, and that Muon does not update.
    const MOST: Self = Self { rate_factor: 1_f64.to_bits(), decays: true, is_hidden_matrix: false };

    fn of(weight: &WeightShape, train: &OptimizationConfig) -> Self {
        let name = &weight.name;
        let is_outer =
            ["embeddings", "positions", "projection"].iter().any(|outer| selects(outer, name));
        Self {
            rate_factor: train.rate_factor(name).to_bits(),
            decays: !train.no_decay.iter().any(|pattern| selects(pattern, name)),
            is_hidden_matrix: train.optimizer == OptimizerKind::Muon
                && weight.shape.len() == 2
                && !is_outer,
        }
    }

    /// Adds the optimizer of the weights `group`. `adam` is an optimizer of the same model.
    fn add_to(
        self,
        optimizer: Option<ModuleOptimizer>,
        group: ParamGroup,
        train: &OptimizationConfig,
        adam: &Adam,
    ) -> ModuleOptimizer {
        let weight_decay = if self.decays { train.weight_decay } else { 0.0 };
        let train = &OptimizationConfig { weight_decay, ..train.clone() };
        let penalty = (weight_decay > 0.0).then(|| WeightDecayConfig::new(weight_decay));
        let momentum = |nesterov| MomentumConfig {
            momentum: f64::from(train.beta1),
            dampening: 0.0,
            nesterov,
        };
        match train.optimizer {
            OptimizerKind::Adam | OptimizerKind::AdamW => {
                self.add(optimizer, group, adam.with_settings(train))
            }
            OptimizerKind::Muon if !self.is_hidden_matrix => {
                self.add(optimizer, group, adam.with_settings(train))
            }
            OptimizerKind::Muon => {
                let muon = MuonConfig::new()
                    .with_momentum(momentum(true))
                    .with_weight_decay(penalty)
                    .with_adjust_lr_fn(AdjustLrFn::MatchRmsAdamW);
                self.add(optimizer, group, muon.build())
            }
            OptimizerKind::Lion => {
                let lion = LionConfig::new()
                    .with_beta_1(train.beta1)
                    .with_beta_2(train.beta2)
                    .with_weight_decay(weight_decay);
                self.add(optimizer, group, lion.build())
            }
            OptimizerKind::Lamb => {
                let lamb = LambConfig::new()
                    .with_beta_1(train.beta1)
                    .with_beta_2(train.beta2)
                    .with_epsilon(train.epsilon)
                    .with_weight_decay(weight_decay);
                self.add(optimizer, group, lamb.build())
            }
            OptimizerKind::Adafactor => {
                // The schedule takes the place of the relative step sizes.
                let adafactor = AdafactorConfig::new()
                    .with_relative_step(false)
                    .with_weight_decay(weight_decay);
                self.add(optimizer, group, adafactor.build())
            }
            OptimizerKind::Sgd => {
                let momentum = (train.beta1 > 0.0).then(|| momentum(false));
                let sgd = SgdConfig::new().with_momentum(momentum).with_weight_decay(penalty);
                self.add(optimizer, group, sgd.build())
            }
        }
    }

    fn add<O: Optimizer>(
        self,
        optimizer: Option<ModuleOptimizer>,
        group: ParamGroup,
        rule: O,
    ) -> ModuleOptimizer {
        let rule = Scaled { rule, rate_factor: f64::from_bits(self.rate_factor) };
        match optimizer {
            None => rule.into(),
            Some(optimizer) => optimizer.with_group(group, rule, None),
        }
    }
}

/// Optimizer whose learning rates are multiplied by a factor.
#[derive(Debug, Clone)]
struct Scaled<O> {
    rule: O,
    rate_factor: f64,
}

impl<O: Optimizer> Optimizer for Scaled<O> {
    type State<const D: usize> = O::State<D>;

    fn step<const D: usize>(
        &self,
        learning_rate: f64,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        self.rule.step(learning_rate * self.rate_factor, parameter, gradient, state)
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        O::to_device(state, device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> Tensor<1> {
        Tensor::from_floats([1.0], &Device::flex())
    }

    /// AdamW from weight 1 with gradient 1, learning rate 0.1 and its factor 0.5: a step of 0.05, after
    /// a decay by 1 - 0.05 · 0.2 = 0.99.
    #[test]
    fn a_factor_multiplies_the_learning_rate_of_step_and_decay() {
        let config = OptimizationConfig {
            optimizer: OptimizerKind::AdamW,
            weight_decay: 0.2,
            epsilon: 1e-8,
            ..OptimizationConfig::default()
        };
        let scaled = Scaled { rule: Adam::new(&config), rate_factor: 0.5 };
        let (w, _) = scaled.step(0.1, one(), one(), None);
        assert!((w.into_scalar::<f32>() - (0.99 - 0.05)).abs() < 1e-6);
    }
}
