//! Initialization of a model from the weights of a model for another task.

use burn::{
    module::{ModuleMapper, Param},
    tensor::{Tensor, TensorData},
};
use tx_model::{Architecture, architecture::corresponding_weight};

use super::{Bundle, BundleModel, weights::WeightsFile};
use crate::error::InferError;

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
    /// Replaces the weights of `model`, which has the architecture `architecture`, by those of the
    /// bundle, where a weight [corresponds](corresponding_weight) and has the same shape.
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
        architecture: Architecture,
    ) -> Result<(M, Initialized), InferError> {
        let mut loader = Loader {
            file: &self.weights,
            from: self.task.architecture(),
            to: architecture,
            path: Vec::new(),
            result: Initialized::default(),
        };
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
        let weight = corresponding_weight(&name, self.from, self.to)
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
