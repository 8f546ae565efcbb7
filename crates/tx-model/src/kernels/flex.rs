//! Conversion between tensors of Burn's `flex` backend and slices.

use burn::{
    backend::flex::FlexTensor,
    tensor::{Shape, TensorData},
};
use tx_kernels::matrix::Matrix;

/// Returns the shape of a tensor with `D` dimensions.
pub fn dims<const D: usize>(tensor: &FlexTensor) -> [usize; D] {
    let shape = tensor.layout().shape();
    std::array::from_fn(|i| shape[i])
}

/// Returns the number of rows and their length, if all dimensions but the last are flattened.
pub fn rows(tensor: &FlexTensor) -> [usize; 2] {
    let shape = tensor.layout().shape();
    let width = shape[shape.num_dims() - 1];
    [shape.num_elements() / width.max(1), width]
}

/// Returns the tensor in a contiguous layout.
pub fn contiguous(tensor: FlexTensor) -> FlexTensor {
    if tensor.is_contiguous() { tensor } else { tensor.to_contiguous() }
}

/// Returns the tensor with positive strides: a flipped one is copied, because the kernels address
/// elements from the first one on.
pub fn forward(tensor: FlexTensor) -> FlexTensor {
    if tensor.layout().has_positive_strides() { tensor } else { tensor.to_contiguous() }
}

/// Elements of a [`contiguous`] tensor; empty for another layout.
pub fn floats(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().unwrap_or_default()
}

/// Returns the ids of a [`contiguous`] tensor of 32-bit integers; empty for another layout.
pub fn ids(tensor: &FlexTensor) -> &[i32] {
    tensor.as_slice().unwrap_or_default()
}

/// Returns the stride of a [`forward`] tensor.
///
/// # Panics
///
/// If it is negative.
pub fn stride(stride: isize) -> usize {
    assert!(stride >= 0, "a kernel got a stride of {stride}");
    stride.unsigned_abs()
}

/// Returns the tensor in a form that can be overwritten; copies it if it is a view.
pub fn writable(tensor: FlexTensor) -> FlexTensor {
    let whole = tensor.is_contiguous()
        && tensor.layout().start_offset() == 0
        && tensor.bytes().len() == size_of::<f32>() * tensor.layout().num_elements();
    if whole { tensor } else { tensor.to_contiguous() }
}

/// Creates a tensor from its elements in row-major order.
pub fn tensor(data: Vec<f32>, shape: impl Into<Shape>) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(data, shape.into()))
}

/// Returns a view of a [`forward`] tensor with two dimensions.
pub fn matrix(tensor: &FlexTensor) -> Matrix<'_> {
    let layout = tensor.layout();
    let strides = layout.strides();
    let data = &tensor.storage::<f32>()[layout.start_offset()..];
    Matrix::with_strides(data, dims(tensor), [stride(strides[0]), stride(strides[1])])
}
