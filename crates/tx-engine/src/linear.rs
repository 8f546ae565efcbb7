//! Matrices of linear layers in the precision of the model.

use tx_kernels::{
    int8_kernel::Epilogue,
    packed_matrix::{self, PackedMatrix},
    quantized_matrix::{self, QuantizedMatrix},
    quantized_rows::QuantizedRows,
    vector::vectorized,
};
use tx_model::config::Activation;

/// Matrix `[inputs, outputs]` with its bias.
#[derive(Debug, Clone)]
pub(crate) enum Linear {
    /// In single precision.
    F32(PackedMatrix),
    /// Of signed bytes.
    Int8(QuantizedMatrix),
}

/// Rows that are multiplied with one or more matrices of a model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    /// `[rows, inputs]`
    values: &'a [f32],
    /// The same rows, for matrices of bytes.
    quantized: Option<&'a QuantizedRows>,
}

/// Consecutive columns of a [`Linear`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum Columns<'a> {
    F32(packed_matrix::Columns<'a>),
    Int8(quantized_matrix::Columns<'a>, usize),
}

impl Linear {
    /// Number of features of a row of input.
    pub(crate) fn inputs(&self) -> usize {
        match self {
            Self::F32(matrix) => matrix.inputs(),
            Self::Int8(matrix) => matrix.inputs(),
        }
    }

    /// Number of features of a row of output.
    pub(crate) fn outputs(&self) -> usize {
        match self {
            Self::F32(matrix) => matrix.outputs(),
            Self::Int8(matrix) => matrix.outputs(),
        }
    }

    /// Returns `true` if a product of few rows is shared with other threads of the pool.
    pub(crate) fn is_shared(&self) -> bool {
        match self {
            Self::F32(matrix) => matrix.is_shared(),
            Self::Int8(matrix) => matrix.is_shared(),
        }
    }

    /// Adds a column of the matrix to `x`, without its bias, each element multiplied by `factor`.
    ///
    /// # Panics
    ///
    /// If there is no such column.
    pub(crate) fn push_column(&self, x: &mut Vec<f32>, column: usize, factor: f32) {
        match self {
            Self::F32(matrix) => x.extend(matrix.column(column).map(|weight| weight * factor)),
            Self::Int8(matrix) => x.extend(matrix.column(column).map(|weight| weight * factor)),
        }
    }

    /// Returns a matrix of some of the columns, in this order.
    ///
    /// # Panics
    ///
    /// If there is no such column.
    pub(crate) fn gather(&self, columns: &[u32]) -> Self {
        match self {
            Self::F32(matrix) => Self::F32(matrix.gather(columns)),
            Self::Int8(matrix) => Self::Int8(matrix.gather(columns)),
        }
    }

    /// Calls `work` with the rows of `x` for products with this matrix, and with other matrices of
    /// the model that have the same number of inputs. They are quantized once, if at all.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, inputs]`
    pub(crate) fn with_input<R>(&self, x: &[f32], work: impl FnOnce(Input<'_>) -> R) -> R {
        match self {
            Self::F32(_) => work(Input { values: x, quantized: None }),
            Self::Int8(matrix) => QuantizedRows::with(x, matrix.inputs(), |rows| {
                work(Input { values: x, quantized: Some(rows) })
            }),
        }
    }

    /// `y = x W + b` for the rows that [`with_input`](Self::with_input) has prepared.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, inputs]`, `y`: `[rows, outputs]`
    ///
    /// # Panics
    ///
    /// If the shapes disagree.
    pub(crate) fn product(&self, x: Input<'_>, y: &mut [f32]) {
        match self {
            Self::F32(matrix) => matrix.product(x.values, y),
            Self::Int8(matrix) => x.quantized(matrix.inputs(), |x| {
                matrix.multiply(x, y, Epilogue::Replace);
            }),
        }
    }

    /// `y = x W + b`; see [`product`](Self::product).
    pub(crate) fn product_of(&self, x: &[f32], y: &mut [f32]) {
        self.with_input(x, |x| self.product(x, y));
    }

    /// Returns `x W + b`; see [`product`](Self::product).
    pub(crate) fn apply(&self, x: &[f32]) -> Vec<f32> {
        let mut y = vec![0.0; x.len() / self.inputs() * self.outputs()];
        self.product_of(x, &mut y);
        y
    }

    /// `y += x W + b`; see [`product`](Self::product).
    pub(crate) fn add_product(&self, x: &[f32], y: &mut [f32]) {
        match self {
            Self::F32(matrix) => matrix.add_product(x, y),
            Self::Int8(matrix) => QuantizedRows::with(x, matrix.inputs(), |x| {
                matrix.multiply(x, y, Epilogue::Add);
            }),
        }
    }

    /// `y = activation(x W + b)`; see [`product`](Self::product). A gated activation applies swish.
    pub(crate) fn activated_product(&self, x: Input<'_>, y: &mut [f32], activation: Activation) {
        match (self, activation) {
            (Self::Int8(matrix), Activation::Relu) => x.quantized(matrix.inputs(), |x| {
                matrix.multiply(x, y, Epilogue::Relu);
            }),
            _ => {
                self.product(x, y);
                vectorized(
                    #[inline(always)]
                    || activation.apply(y),
                );
            }
        }
    }

    /// Blocks of about `columns` columns.
    pub(crate) fn blocks(&self, columns: usize) -> Vec<Columns<'_>> {
        match self {
            Self::F32(matrix) => matrix.blocks(columns).map(Columns::F32).collect(),
            Self::Int8(matrix) => {
                let inputs = matrix.inputs();
                matrix.blocks(columns).map(|block| Columns::Int8(block, inputs)).collect()
            }
        }
    }
}

impl Input<'_> {
    /// Number of rows for a matrix with this number of inputs.
    pub(crate) fn rows(self, inputs: usize) -> usize {
        self.values.len() / inputs
    }

    /// Calls `work` with the quantized rows, which are quantized now if they are not yet.
    fn quantized<R>(self, inputs: usize, work: impl FnOnce(&QuantizedRows) -> R) -> R {
        match self.quantized {
            Some(rows) => work(rows),
            None => QuantizedRows::with(self.values, inputs, work),
        }
    }
}

impl Columns<'_> {
    /// Index of the first of these columns in the matrix.
    pub(crate) fn first(self) -> usize {
        match self {
            Self::F32(columns) => columns.first,
            Self::Int8(columns, _) => columns.first,
        }
    }

    /// Number of columns.
    pub(crate) fn count(self) -> usize {
        match self {
            Self::F32(columns) => columns.count,
            Self::Int8(columns, _) => columns.count,
        }
    }

    /// `y = x W + b` for these columns.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, inputs]`, `y`: `[rows, count]`
    pub(crate) fn product(self, x: Input<'_>, y: &mut [f32]) {
        match self {
            Self::F32(columns) => columns.product(x.values, y),
            Self::Int8(columns, inputs) => x.quantized(inputs, |x| columns.product(x, y)),
        }
    }
}
