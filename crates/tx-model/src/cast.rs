//! Dtype of the parameters, in which a model computes.

use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{FloatDType, Tensor},
};

/// Casts all parameters of `module` to `dtype`.
pub(crate) fn cast<M: Module>(module: M, dtype: FloatDType) -> M {
    struct Cast(FloatDType);
    impl ModuleMapper for Cast {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|weight| weight.cast(self.0))
        }
    }
    module.map(&mut Cast(dtype))
}
