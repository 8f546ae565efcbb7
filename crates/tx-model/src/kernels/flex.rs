//! Burn's `flex` tensors as slices of numbers and back.

use burn::{
    backend::flex::FlexTensor,
    tensor::{Shape, TensorData},
};

use super::matrix::Matrix;

/// The sizes of a tensor with `D` dimensions.
pub fn dims<const D: usize>(tensor: &FlexTensor) -> [usize; D] {
    let shape = tensor.layout().shape();
    std::array::from_fn(|i| shape[i])
}

/// Rows and their length, when all dimensions but the last are one.
pub fn rows(tensor: &FlexTensor) -> [usize; 2] {
    let shape = tensor.layout().shape();
    let width = shape[shape.num_dims() - 1];
    [shape.num_elements() / width.max(1), width]
}

/// The tensor with its numbers in order and without gaps.
pub fn contiguous(tensor: FlexTensor) -> FlexTensor {
    if tensor.is_contiguous() { tensor } else { tensor.to_contiguous() }
}

/// The tensor with steps that only go forward: a flipped one is copied, because the kernels address
/// elements from the first one on.
pub fn forward(tensor: FlexTensor) -> FlexTensor {
    if tensor.layout().has_positive_strides() { tensor } else { tensor.to_contiguous() }
}

/// The numbers of a [`contiguous`] tensor; none of another.
pub fn floats(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().unwrap_or_default()
}

/// The numbers of a [`contiguous`] tensor of 32-bit ids; none of another.
pub fn ids(tensor: &FlexTensor) -> &[i32] {
    tensor.as_slice().unwrap_or_default()
}

/// A step of a [`forward`] tensor.
///
/// # Panics
///
/// When it goes back.
pub fn step(step: isize) -> usize {
    assert!(step >= 0, "a kernel got a step of {step}");
    step.unsigned_abs()
}

/// The numbers to be written over, copied first where others hold the tensor too.
pub fn writable(tensor: FlexTensor) -> FlexTensor {
    let whole = tensor.is_contiguous()
        && tensor.layout().start_offset() == 0
        && tensor.bytes().len() == size_of::<f32>() * tensor.layout().num_elements();
    if whole { tensor } else { tensor.to_contiguous() }
}

/// A tensor of numbers in order.
pub fn tensor(data: Vec<f32>, shape: impl Into<Shape>) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(data, shape.into()))
}

/// A [`forward`] tensor of two dimensions as it lies in memory.
pub fn matrix(tensor: &FlexTensor) -> Matrix<'_> {
    let layout = tensor.layout();
    let steps = layout.strides();
    let data = &tensor.storage::<f32>()[layout.start_offset()..];
    Matrix::with_steps(data, dims(tensor), [step(steps[0]), step(steps[1])])
}
