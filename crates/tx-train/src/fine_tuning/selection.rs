//! Selection of the weights that are trained: frozen weights and LoRA.

use std::fmt;

use burn::{
    module::{Lora, Module, ModuleVisitor, Param, ParamGroup},
    tensor::Tensor,
};

use crate::config::{LoraConfig, TrainConfig};

/// Names of the two factors of a matrix that LoRA adapts.
pub(crate) const FACTORS: [&str; 2] = ["lora.a", "lora.b"];

/// Freezes the weights of `model` that `config` does not train. With LoRA, adds its matrices, which
/// are initialized from the device's random numbers such that the model is unchanged.
///
/// Frozen weights get no gradient. Therefore they are part of neither the gradient norm nor the
/// optimizer, and no update changes them.
pub(crate) fn select_weights<M: Module>(model: M, config: &TrainConfig) -> M {
    let train = &config.train;
    let names = |is_selected: &dyn Fn(&tx_model::WeightShape) -> bool| {
        let weights = config.weight_shapes().into_iter();
        ParamGroup::from_paths(weights.filter(is_selected).map(|weight| weight.name).collect())
    };
    match &train.lora {
        Some(lora) => {
            let LoraConfig { rank, alpha, .. } = *lora;
            let group = names(&|weight| lora.adapts(weight));
            model.apply_lora(Lora::new(rank, alpha).set_param_group(group))
        }
        None if train.freeze.is_empty() => model,
        None => model.set_require_grad_group(names(&|weight| train.freezes(weight)), false),
    }
}

/// Numbers of parameters of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameters {
    /// Parameters of the model, without matrices that LoRA adds.
    pub all: usize,
    /// Parameters that are trained, those that LoRA adds included.
    pub trained: usize,
    /// For each weight, in the order of the model, whether it is trained.
    pub is_trained: Vec<bool>,
}

impl Parameters {
    /// Counts the parameters of `model`, which is on a device with autodiff.
    pub fn of<M: Module>(model: &M) -> Self {
        let mut count =
            Count { path: Vec::new(), found: Self { all: 0, trained: 0, is_trained: Vec::new() } };
        model.visit(&mut count);
        count.found
    }
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { all, trained, is_trained } = self;
        write!(f, "{all} parameters")?;
        if is_trained.iter().all(|&is_trained| is_trained) {
            return Ok(());
        }
        write!(f, ", {trained} trained ({:.1} %)", 100.0 * *trained as f64 / (*all).max(1) as f64)
    }
}

struct Count {
    path: Vec<String>,
    found: Parameters,
}

impl ModuleVisitor for Count {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let count = param.val().shape().num_elements();
        let path = self.path.join(".");
        let is_trained = param.is_require_grad();
        if !FACTORS.iter().any(|factor| path.ends_with(factor)) {
            self.found.all += count;
        }
        if is_trained {
            self.found.trained += count;
        }
        self.found.is_trained.push(is_trained);
    }
}

#[cfg(test)]
mod tests;
