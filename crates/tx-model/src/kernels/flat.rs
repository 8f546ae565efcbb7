//! Kernels that process many tensors in one launch, on CubeCL devices.

#[cfg(all(feature = "cubecl", not(feature = "fusion")))]
use std::sync::{Arc, Mutex, PoisonError};

use burn::{
    backend::{Dispatch, tensor::FloatTensor},
    module::{Module, ModuleMapper, ModuleVisitor, Param},
    tensor::Tensor,
};

#[cfg(all(feature = "cubecl", not(feature = "fusion")))]
use super::cube;
use super::{AdamUpdate, ParameterState, adam};

/// Tensors that are parts of few vectors, with zeros between them.
#[derive(Debug, Clone)]
pub struct FlatTensors {
    #[cfg(all(feature = "cubecl", not(feature = "fusion")))]
    vectors: cube::flat::Vectors,
    #[cfg(not(all(feature = "cubecl", not(feature = "fusion"))))]
    vectors: std::convert::Infallible,
}

#[cfg(all(feature = "cubecl", not(feature = "fusion")))]
impl FlatTensors {
    /// Copies `tensors` into as few vectors as the device allows, and replaces each by a view of its
    /// part. Returns `None` and changes nothing if a tensor is not in single precision, tracks gradients
    /// or is on another device than CubeCL's.
    pub fn replacing(tensors: &mut [FloatTensor<Dispatch>]) -> Option<Self> {
        Some(Self { vectors: cube::flat::Vectors::replacing(tensors)? })
    }

    /// Returns the sum of the squares of all elements, `[1]`.
    pub fn sum_of_squares(&self) -> Tensor<1> {
        self.vectors.sum_of_squares()
    }

    /// Adds the tensors of `others`, in place: the views change, too. Returns `false` and changes nothing if
    /// they have other shapes or are on another device.
    pub fn add(&self, others: &Self) -> bool {
        self.vectors.add(&others.vectors)
    }

    /// Multiplies all elements by `factor`, in place: the views change, too.
    pub fn scale(&self, factor: f32) {
        self.vectors.scale(factor);
    }
}

#[cfg(not(all(feature = "cubecl", not(feature = "fusion"))))]
impl FlatTensors {
    /// Returns `None`, because this build has no kernels for CubeCL devices.
    pub fn replacing(_: &mut [FloatTensor<Dispatch>]) -> Option<Self> {
        None
    }

    /// Returns the sum of the squares of all elements, `[1]`.
    pub fn sum_of_squares(&self) -> Tensor<1> {
        match self.vectors {}
    }

    /// Adds the tensors of `others`, in place: the views change, too.
    pub fn add(&self, _: &Self) -> bool {
        match self.vectors {}
    }

    /// Multiplies all elements by `factor`, in place: the views change, too.
    pub fn scale(&self, _: f32) {
        match self.vectors {}
    }
}

/// Replaces the weights of a module by views of few vectors, on devices that have kernels for them, so that
/// one product can use adjacent weights. Weights that track gradients still do.
pub fn flattened<M: Module>(module: M) -> M {
    let mut weights = Collect(Vec::new());
    module.visit(&mut weights);
    match FlatTensors::replacing(&mut weights.0) {
        Some(_) => module.map(&mut Replace(weights.0.into_iter())),
        None => module,
    }
}

/// Visitor that collects all weights.
struct Collect(Vec<FloatTensor<Dispatch>>);

impl ModuleVisitor for Collect {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let weight = param.val();
        let is_autodiff = weight.device().is_autodiff();
        let weight = if is_autodiff { weight.inner() } else { weight };
        self.0.push(weight.into_dispatch());
    }
}

/// Mapper that replaces all weights.
struct Replace(std::vec::IntoIter<FloatTensor<Dispatch>>);

impl ModuleMapper for Replace {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        match self.0.next() {
            Some(view) => param.map(|weight| {
                let view = Tensor::from_dispatch(view);
                match weight.device().is_autodiff() {
                    true => Tensor::from_inner(view).set_require_grad(weight.is_require_grad()),
                    false => view,
                }
            }),
            None => param,
        }
    }
}

/// Buffers in which Adam updates all parameters of a model together, where a device can. Clones share
/// them.
#[derive(Debug, Clone, Default)]
pub struct AdamBuffers {
    #[cfg(all(feature = "cubecl", not(feature = "fusion")))]
    last: Arc<Mutex<Option<cube::adam::Results>>>,
}

impl AdamBuffers {
    /// Does the work of [`adam()`]. If the gradients of a model are [`FlatTensors`], the first call of an
    /// update launches the work of those that follow with the same coefficients.
    pub fn adam<const D: usize>(
        &self,
        state: ParameterState<D>,
        gradient: Tensor<D>,
        update: AdamUpdate,
    ) -> ParameterState<D> {
        #[cfg(all(feature = "cubecl", not(feature = "fusion")))]
        if let Some(updated) = self.update(&state, &gradient, update) {
            return updated;
        }
        adam(state, gradient, update)
    }

    #[cfg(all(feature = "cubecl", not(feature = "fusion")))]
    fn update<const D: usize>(
        &self,
        state: &ParameterState<D>,
        gradient: &Tensor<D>,
        update: AdamUpdate,
    ) -> Option<ParameterState<D>> {
        let ParameterState { parameter, exp_avg, exp_avg_sq } = state;
        let [parameter, exp_avg, exp_avg_sq, gradient] =
            [parameter, exp_avg, exp_avg_sq, gradient].map(cube::unwrapped);
        let state = [parameter?, exp_avg?, exp_avg_sq?];
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let [parameter, exp_avg, exp_avg_sq] =
            cube::adam::update(&mut last, state, gradient?, update).map(cube::wrapped);
        Some(ParameterState { parameter, exp_avg, exp_avg_sq })
    }
}
