//! Initialization of a model from the weights of a model for another task.

use burn::{
    module::{ModuleMapper, Param},
    tensor::{Tensor, TensorData},
};
use tx_model::{Architecture, architecture::corresponding_weight};

use super::{Bundle, weights::WeightsFile};
use crate::{error::InferError, model::BundleModel, task::ModelTask};

/// Weights of a model that were taken from a bundle, and the others. Names are those of the new
/// model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Initialized {
    /// Weights with the values of the bundle.
    pub taken: Vec<String>,
    /// Weights that keep their own values, because the bundle has no such weight or one of another
    /// shape.
    pub initialized: Vec<String>,
}

impl Bundle {
    /// Replaces the weights of `model`, which is for `task`, by those of the bundle, where a weight
    /// [corresponds](corresponding_weight) and has the same shape. A classifier takes the output
    /// layer of one with the same labels only.
    ///
    /// The caller ensures that the model uses the bundle's tokenizer: embeddings of two
    /// vocabularies of the same size cannot be distinguished.
    ///
    /// # Errors
    ///
    /// [`InferError::NothingToTake`] if no weight corresponds.
    pub fn initialize<M: BundleModel>(
        &self,
        model: M,
        task: &ModelTask,
    ) -> Result<(M, Initialized), InferError> {
        let is_same_output = match (&self.task, task) {
            (ModelTask::Classify { labels, .. }, ModelTask::Classify { labels: others, .. }) => {
                labels == others
            }
            _ => true,
        };
        let mut loader = Loader {
            file: &self.weights,
            from: self.task.architecture(),
            to: task.architecture(),
            is_same_output,
            path: Vec::new(),
            result: Initialized::default(),
        };
        self.check_unread_values()?;
        let model = model.map(&mut loader);
        self.weights.release();
        if loader.result.taken.is_empty() {
            return Err(InferError::NothingToTake {
                path: self.folder(),
                found: self.task.kind(),
                model: M::TASK,
            });
        }
        Ok((model, loader.result))
    }
}

/// Replacement of the weights of a module, in the order of the module.
struct Loader<'a> {
    file: &'a WeightsFile,
    from: Architecture,
    to: Architecture,
    /// Whether the classes of the output layer, if there is one, are the same.
    is_same_output: bool,
    /// Names of the current module and those that contain it.
    path: Vec<String>,
    result: Initialized,
}

impl ModuleMapper for Loader<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.path.join(".");
        let weight = Some(&name)
            .filter(|name| self.is_same_output || !name.starts_with("output."))
            .and_then(|name| corresponding_weight(name, self.from, self.to))
            .and_then(|name| self.file.weight(&name))
            .filter(|(shape, _)| **shape == param.val().dims());
        let Some((shape, values)) = weight else {
            self.result.initialized.push(name);
            return param;
        };
        let data = TensorData::new(values.into_owned(), shape.to_vec());
        let tensor = Tensor::from_data(data, &param.lazy_device());
        self.result.taken.push(name);
        let id = param.id;
        param.transform_for_load(tensor, id)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use burn::{
        module::{Module, ModuleVisitor},
        tensor::Device,
    };
    use tx_model::{Classifier, LanguageModel, ModelConfig, Pooling, Tying};
    use tx_text::TokenizerKind;

    use super::*;
    use crate::fixture;

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

    #[test]
    fn a_classifier_starts_from_the_encoder_of_a_masked_model() {
        let folder = tempfile::tempdir().unwrap();
        let masked = fixture::masked(TokenizerKind::Word, Tying::All);
        masked.save(folder.path()).unwrap();
        let bundle = Bundle::open(folder.path()).unwrap();
        let device = Device::flex();
        let classifier = |config: &ModelConfig| {
            device.seed(3);
            let vocabulary = config.padded(bundle.vocabulary()).target;
            Classifier::new(config, vocabulary, 2, Pooling::Mean, &device).unwrap()
        };
        let model = classifier(&masked.config);
        let (before, from) = (values(&model), values(&masked.model));
        let task = classify(["a", "b"]);
        let (model, found) = bundle.initialize(model, &task).unwrap();
        let after = values(&model);
        assert_eq!(found.initialized, ["output.weight", "output.bias"]);
        assert_eq!(found.taken.len() + 2, after.len());
        for name in &found.taken {
            assert_eq!(after[name], from[name], "{name}");
        }
        assert_eq!(after["output.weight"], before["output.weight"]);

        // A weight of another shape keeps its values.
        let wider = ModelConfig { d_ff: 8, ..masked.config.clone() };
        let model = classifier(&wider);
        let (_, found) = bundle.initialize(model, &task).unwrap();
        let inner = "encoder.layers.0.feed_forward.inner.weight".to_owned();
        assert!(found.initialized.contains(&inner) && !found.taken.contains(&inner));
        assert!(found.taken.contains(&"embedding.weight".to_owned()));
    }

    fn classify(labels: [&str; 2]) -> ModelTask {
        let labels = labels.map(str::to_owned).to_vec();
        ModelTask::Classify { labels, pooling: Pooling::Mean }
    }

    #[test]
    fn a_classifier_takes_the_output_layer_of_its_own_labels_only() {
        let folder = tempfile::tempdir().unwrap();
        let saved = fixture::classifier(Pooling::Mean);
        saved.save(folder.path()).unwrap();
        let bundle = Bundle::open(folder.path()).unwrap();
        let ModelTask::Classify { labels, .. } = &saved.task else { panic!("no classifier") };
        let mut renamed = labels.clone();
        renamed[0] += " ";
        for (labels, takes_output) in [(labels.clone(), true), (renamed, false)] {
            let vocabulary = saved.config.padded(bundle.vocabulary()).target;
            let (classes, device) = (labels.len(), Device::flex());
            let model = Classifier::new(&saved.config, vocabulary, classes, Pooling::Mean, &device)
                .unwrap();
            let task = ModelTask::Classify { labels, pooling: Pooling::Mean };
            let (_, found) = bundle.initialize(model, &task).unwrap();
            let output = ["output.weight".to_owned(), "output.bias".to_owned()];
            assert_eq!(output.iter().all(|name| found.taken.contains(name)), takes_output);
            assert_eq!(found.initialized.is_empty(), takes_output);
        }
    }

    #[test]
    fn a_model_that_corresponds_in_nothing_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let masked = fixture::masked(TokenizerKind::Word, Tying::All);
        masked.save(folder.path()).unwrap();
        let bundle = Bundle::open(folder.path()).unwrap();
        let vocabulary = masked.config.padded(bundle.vocabulary()).target;
        let model = LanguageModel::new(&masked.config, vocabulary, &Device::flex()).unwrap();
        let error = bundle.initialize(model, &ModelTask::Generate).unwrap_err();
        assert!(error.to_string().contains("fits the model for the task `generate`"), "{error}");
    }
}
