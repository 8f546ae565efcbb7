//! Weights of a module on tensors, for packing.

use std::{borrow::Cow, collections::HashMap};

use burn::{
    module::{Module, ModuleVisitor, Param},
    tensor::Tensor,
};
use tx_model::{
    classifier::Classifier, language_model::LanguageModel,
    masked_language_model::MaskedLanguageModel, transformer::Transformer,
};

use crate::{
    PackedClassifier, PackedLanguageModel, PackedMaskedLanguageModel, PackedTransformer,
    WeightSource,
};

impl From<&Transformer> for PackedTransformer {
    /// Packs the weights of `model`, which are read from its device.
    fn from(model: &Transformer) -> Self {
        Self::pack_checked(model.config(), model.vocab(), &ModuleWeights::new(model))
    }
}

impl From<&Classifier> for PackedClassifier {
    /// Packs the weights of `model`, which are read from its device.
    fn from(model: &Classifier) -> Self {
        let weights = ModuleWeights::new(model);
        let (classes, pooling) = (model.classes(), model.pooling());
        Self::pack_checked(model.config(), model.vocab(), classes, pooling, &weights)
    }
}

impl From<&MaskedLanguageModel> for PackedMaskedLanguageModel {
    /// Packs the weights of `model`, which are read from its device.
    fn from(model: &MaskedLanguageModel) -> Self {
        Self::pack_checked(model.config(), model.vocab(), &ModuleWeights::new(model))
    }
}

impl From<&LanguageModel> for PackedLanguageModel {
    /// Packs the weights of `model`, which are read from its device.
    fn from(model: &LanguageModel) -> Self {
        Self::pack_checked(model.config(), model.vocab(), &ModuleWeights::new(model))
    }
}

/// Parameters of a module by path. Each is read from the device when it is packed.
struct ModuleWeights {
    weights: HashMap<String, Tensor<1>>,
}

impl ModuleWeights {
    fn new(module: &impl Module) -> Self {
        let mut collect = Collect { path: Vec::new(), weights: HashMap::new() };
        module.visit(&mut collect);
        Self { weights: collect.weights }
    }
}

impl WeightSource for ModuleWeights {
    fn weight(&self, name: &str) -> Cow<'_, [f32]> {
        let data = self.weights[name].to_data();
        // Single precision, which weights nearly always have, needs no conversion.
        Cow::Owned(data.try_to_vec().unwrap_or_else(|_| data.iter::<f32>().collect()))
    }
}

struct Collect {
    path: Vec<String>,
    weights: HashMap<String, Tensor<1>>,
}

impl ModuleVisitor for Collect {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let weight = param.val();
        let count = weight.shape().num_elements();
        self.weights.insert(self.path.join("."), weight.reshape([count]));
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use tx_model::{ModelConfig, VocabSizes};

    use super::*;

    /// Compares the scores of a batch of two sources after packing a module, and after packing its
    /// weights by name.
    #[test]
    fn packing_a_module_equals_packing_its_weights_by_name() {
        let config = ModelConfig { d_model: 8, n_heads: 2, d_ff: 12, ..ModelConfig::default() };
        let vocab = VocabSizes { source: 11, target: 11 };
        let model = Transformer::new(&config, vocab, &Device::flex()).unwrap();
        let source = ModuleWeights::new(&model);
        let names = source.weights.keys();
        let named: HashMap<String, Vec<f32>> =
            names.map(|name| (name.clone(), source.weight(name).into_owned())).collect();
        let [from_module, from_names] = [
            PackedTransformer::from(&model),
            PackedTransformer::pack(&config, vocab, &named).unwrap(),
        ]
        .map(|packed| packed.start(&[&[4, 5, 2], &[6, 2]]).step_logits(&[1, 1]));
        assert_eq!(from_module, from_names);
    }
}
