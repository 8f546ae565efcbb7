//! Linear layers and their backward passes, as products of matrices; several layers of one input in one
//! product.

use std::sync::{Arc, Mutex, PoisonError};

use burn::{
    backend::{Cube, DispatchDevice, ops::FloatTensorOps},
    tensor::{DType, Device, Shape},
};
use burn_cubecl::{
    cubecl::{
        self,
        ir::{ElemType, FloatKind},
        prelude::*,
        zspace::{Strides, metadata::Metadata},
    },
    kernel::{
        into_contiguous,
        matmul::{MatmulStrategy, matmul},
    },
    tensor::CubeTensor,
};

use super::{
    flat::{Place, alignment, from_start_of, side_by_side, view},
    reshaped, rows,
    sums::{segment_sums, sum_of_tensors},
    units,
};
use crate::product_precision::ProductPrecision;

/// Computes `x w + b`.
///
/// # Shapes
///
/// - `x`: `[.., d_in]`; `w`: `[d_in, d_out]`; `b`: `[d_out]`; returns `[.., d_out]`
pub fn forward(
    x: CubeTensor,
    w: CubeTensor,
    b: Option<CubeTensor>,
    precision: ProductPrecision,
) -> CubeTensor {
    let mut shape = x.meta.shape().clone();
    let last = shape.num_dims() - 1;
    shape[last] = w.meta.shape()[1];
    let y = product(matrix(x), w, precision);
    if let Some(b) = b {
        add_bias(&y, into_contiguous(b), 0, 1);
    }
    Cube::float_reshape(y, shape)
}

/// Adds a bias to each of the `segments` of `y`, in place. In `b`, each bias begins `pitch` elements after
/// the one before.
pub fn add_bias(y: &CubeTensor, b: CubeTensor, pitch: usize, segments: usize) {
    let [count, width] = rows(y);
    let (cubes, dim) = units(y, count * width);
    let segment = count * width / segments;
    if segment > 0 {
        let (y, client) = (y.clone().into_buffer_arg(), &y.client);
        biased::launch(client, cubes, dim, y, b.into_buffer_arg(), segment, pitch, width);
    }
}

#[cube(launch)]
fn biased(y: &mut [f32], b: &[f32], segment: usize, pitch: usize, #[comptime] width: usize) {
    let i = ABSOLUTE_POS;
    if i < y.len() {
        y[i] += b[i / segment * pitch + i % width];
    }
}

/// Returns `dy wᵀ`.
pub fn gradient_of_x(dy: CubeTensor, w: CubeTensor, precision: ProductPrecision) -> CubeTensor {
    let mut shape = dy.meta.shape().clone();
    let last = shape.num_dims() - 1;
    shape[last] = w.meta.shape()[0];
    Cube::float_reshape(product(matrix(dy), Cube::float_transpose(w), precision), shape)
}

/// Returns `xᵀ dy`.
pub fn gradient_of_w(x: CubeTensor, dy: CubeTensor, precision: ProductPrecision) -> CubeTensor {
    product(Cube::float_transpose(matrix(x)), matrix(dy), precision)
}

/// Multiplies matrices in single precision. With [`ProductPrecision::F16`], matrix units round the factors as
/// they load them, so that no launch converts them.
fn product(lhs: CubeTensor, rhs: CubeTensor, precision: ProductPrecision) -> CubeTensor {
    match precision {
        ProductPrecision::F32 | ProductPrecision::Bf16 | ProductPrecision::Bf16x3 => {
            Cube::float_matmul(lhs, rhs)
        }
        ProductPrecision::F16 => {
            let [x, y] = [&lhs, &rhs].map(|x| CubeTensor { dtype: DType::Flex32, ..x.clone() });
            // Sizes that no kernel of this precision takes are multiplied in single precision.
            matmul(x, y, None, MatmulStrategy::default(), DType::F32)
                .unwrap_or_else(|_| Cube::float_matmul(lhs, rhs))
        }
    }
}

/// Returns `true` if a device has matrix units that multiply f16 and add up in single precision.
pub fn has_f16_units(device: &Device) -> bool {
    let DispatchDevice::Cube(device) = device.clone().inner().as_dispatch().clone() else {
        return false;
    };
    let [f16, f32] = [FloatKind::F16, FloatKind::F32].map(ElemType::Float);
    let client = device.client();
    let units = &client.properties().features.matmul.cmma;
    units.iter().any(|unit| unit.a_type == f16 && unit.b_type == f16 && unit.cd_type == f32)
}

/// Flattens all dimensions but the last.
fn matrix(x: CubeTensor) -> CubeTensor {
    let shape = rows(&x);
    reshaped(x, shape)
}

/// Linear layers of the same input, whose weights, and whose biases, are evenly spaced views of a buffer.
#[derive(Debug, Clone)]
pub struct Stack {
    /// `[N, d_in, d_out]`
    w: CubeTensor,
    /// From the first bias to the last, and the distance of two.
    b: Option<(CubeTensor, usize)>,
    precision: ProductPrecision,
}

impl Stack {
    /// Stacks layers; `None` if their weights are elsewhere, or have several shapes, or if a view cannot begin
    /// at the output of each layer for `count` rows, or at the gradient of each weight.
    pub fn of<const N: usize>(
        count: usize,
        w: &[CubeTensor; N],
        b: &[Option<CubeTensor>; N],
        precision: ProductPrecision,
    ) -> Option<Self> {
        let shape = w[0].meta.shape();
        let (d_in, d_out) = (shape[0], shape[1]);
        let alignment = alignment(&w[0]);
        let is_aligned = |len: usize| len.is_multiple_of(alignment);
        (is_aligned(count * d_out) && is_aligned(d_in * d_out))
            .then(|| Self::evenly_spaced(w, b, precision))
            .flatten()
    }

    /// Stacks layers; `None` if their weights are elsewhere, or have several shapes.
    pub fn evenly_spaced<const N: usize>(
        w: &[CubeTensor; N],
        b: &[Option<CubeTensor>; N],
        precision: ProductPrecision,
    ) -> Option<Self> {
        let shape = w[0].meta.shape();
        let (d_in, d_out) = (shape[0], shape[1]);
        let is_row_major = |w: &CubeTensor| w.meta.strides()[..] == [d_out, 1];
        if w.iter().any(|w| w.meta.shape() != shape || !is_row_major(w)) {
            return None;
        }
        let b = match b.iter().filter(|b| b.is_some()).count() {
            0 => None,
            found if found == N => {
                let b: Vec<_> = b.iter().flatten().collect();
                let pitch = Place::distance(&b)?;
                Some((from_start_of(b[0], (N - 1) * pitch + d_out), pitch))
            }
            _ => return None,
        };
        let w: Vec<_> = w.iter().collect();
        let pitch = Place::distance(&w)?;
        let all = from_start_of(w[0], (N - 1) * pitch + d_in * d_out);
        let strides = Strides::new(&[pitch, d_out, 1]);
        let meta = Metadata::new(Shape::new([N, d_in, d_out]), strides);
        let w = CubeTensor::new(all.client, all.handle, meta, all.device, all.dtype);
        Some(Self { w, b, precision })
    }

    fn len(&self) -> usize {
        self.w.meta.shape()[0]
    }

    /// Computes the outputs of all layers.
    ///
    /// # Shapes
    ///
    /// - `x`: `[.., d_in]`; returns `[N, .., d_out]`
    pub fn forward(&self, x: CubeTensor) -> CubeTensor {
        let mut shape = vec![self.len()];
        shape.extend(x.meta.shape().iter().copied());
        let last = shape.len() - 1;
        shape[last] = self.w.meta.shape()[2];
        let y = self.product(x);
        if let Some((b, pitch)) = self.b.clone() {
            add_bias(&y, b, pitch, self.len());
        }
        Cube::float_reshape(y, Shape::from(shape))
    }

    /// Computes the products of all layers, without the biases.
    ///
    /// # Shapes
    ///
    /// - `x`: `[.., d_in]`; returns `[N, rows, d_out]`
    pub fn product(&self, x: CubeTensor) -> CubeTensor {
        let [count, d_in] = rows(&x);
        product(reshaped(x, [1, count, d_in]), self.w.clone(), self.precision)
    }

    /// Returns a vector with all biases, and the distance from one to the next.
    pub fn bias(&self) -> Option<(CubeTensor, usize)> {
        self.b.clone()
    }

    /// Returns the gradients of `x`, of each weight and of each bias from those of all outputs.
    pub fn backward(
        self,
        x: CubeTensor,
        dy: CubeTensor,
        needs_x: bool,
    ) -> (Option<CubeTensor>, Vec<CubeTensor>, Vec<CubeTensor>) {
        let ([count, d_in], number, shape) = (rows(&x), self.len(), x.meta.shape().clone());
        let d_out = self.w.meta.shape()[2];
        let dy = reshaped(dy, [number, count, d_out]);
        let dx = needs_x.then(|| {
            let w = Cube::float_swap_dims(self.w.clone(), 1, 2);
            let each = product(dy.clone(), w, self.precision);
            sum_of_tensors(each, shape)
        });
        let x = Cube::float_swap_dims(reshaped(x, [1, count, d_in]), 1, 2);
        let dw = parts(&product(x, dy.clone(), self.precision), number);
        let db = if self.b.is_some() { segment_sums(dy, number) } else { Vec::new() };
        (dx, dw, db)
    }
}

/// Returns the `number` parts of `x` along its first axis, which it loses.
fn parts(x: &CubeTensor, number: usize) -> Vec<CubeTensor> {
    (0..number).map(|index| part(x, index)).collect()
}

/// Returns a part of `x` along its first axis, which it loses.
pub fn part(x: &CubeTensor, index: usize) -> CubeTensor {
    let shape = Shape::from(x.meta.shape()[1..].to_vec());
    view(x, index * shape.num_elements(), shape)
}

/// Gradients of the outputs of a [`Stack`], until all are known.
#[derive(Debug, Clone)]
pub struct Collected(Arc<Mutex<Vec<Option<CubeTensor>>>>);

impl Collected {
    pub fn new(number: usize) -> Self {
        Self(Arc::new(Mutex::new(vec![None; number])))
    }

    /// Adds the gradient of the output `index`. The last one returns all in one tensor, `[N, ..]`.
    pub fn add(&self, index: usize, dy: CubeTensor) -> Option<CubeTensor> {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found[index] = Some(dy);
        let all: Vec<CubeTensor> = found.iter().cloned().collect::<Option<_>>()?;
        found.iter_mut().for_each(|gradient| *gradient = None);
        Some(side_by_side(all))
    }
}
