//! Devices, and weights and gradients by path, shared by several tests.

use std::collections::BTreeMap;

use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param},
    tensor::{Device, Gradients, Tensor, TensorData},
};

/// CPU devices by name; `flex` is the first.
pub fn devices() -> Vec<(&'static str, Device)> {
    vec![
        ("flex", Device::flex()),
        #[cfg(feature = "ndarray")]
        ("ndarray", ndarray()),
    ]
}

/// Deprecated in Burn 0.22; tx still supports it.
#[cfg(feature = "ndarray")]
#[expect(deprecated, reason = "tx supports it as long as Burn has it")]
fn ndarray() -> Device {
    Device::ndarray()
}

/// Values by parameter path, as in `encoder.layers.0.self_attention.query.weight`.
pub type Named = BTreeMap<String, TensorData>;

/// Replaces every weight of `module` with `values` of its path and shape.
pub fn with_weights<M: Module>(module: M, values: impl FnMut(&str, &[usize]) -> TensorData) -> M {
    module.map(&mut Replace { path: Vec::new(), values })
}

/// Weights of `module` by path.
pub fn weights(module: &impl Module) -> Named {
    let mut visitor = CollectWeights { path: Vec::new(), found: Named::new() };
    module.visit(&mut visitor);
    visitor.found
}

/// Gradients of every weight of `module`.
///
/// # Panics
///
/// If a weight has no gradient, because it did not contribute to the loss.
pub fn gradients(module: &impl Module, gradients: &Gradients) -> Named {
    let mut visitor = CollectGradients { path: Vec::new(), gradients, found: Named::new() };
    module.visit(&mut visitor);
    visitor.found
}

/// All values of a float tensor, in row-major order.
pub fn values(data: &TensorData) -> Vec<f32> {
    data.try_to_vec().expect("a tensor of single precision")
}

/// Maximum absolute value; zero for no values.
pub fn largest(values: &[f32]) -> f64 {
    values.iter().fold(0.0, |largest, &value| largest.max(f64::from(value).abs()))
}

struct Replace<F> {
    path: Vec<String>,
    values: F,
}

impl<F: FnMut(&str, &[usize]) -> TensorData> ModuleMapper for Replace<F> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|old| {
            let new = (self.values)(&self.path.join("."), &old.dims());
            Tensor::from_data(new, &old.device()).set_require_grad(old.is_require_grad())
        })
    }
}

struct CollectWeights {
    path: Vec<String>,
    found: Named,
}

impl ModuleVisitor for CollectWeights {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.found.insert(self.path.join("."), param.val().into_data());
    }
}

struct CollectGradients<'a> {
    path: Vec<String>,
    gradients: &'a Gradients,
    found: Named,
}

impl ModuleVisitor for CollectGradients<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let path = self.path.join(".");
        let gradient = param.val().grad(self.gradients);
        let gradient = gradient.unwrap_or_else(|| panic!("`{path}` has no gradient"));
        self.found.insert(path, gradient.into_data());
    }
}
