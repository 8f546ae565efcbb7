//! CPU primitives of tx: vector functions, and matrix products in f32, bf16 and int8.
//!
//! The crate works on slices of numbers. It knows no model and no tensor, opens no file and prints
//! nothing. `tx-model` builds its operations for training on it, `tx-engine` inference.
//!
//! The products of inference read weights that are packed once: [`packed_matrix`] in
//! f32, [`quantized_matrix`] in int8. Those of training, with the feature
//! `training`, read their factors in place: `matrix` in f32, `bf16` in bf16. Each product has one
//! implementation for every CPU, and others for the [`instruction_set`]s that make it faster.
//!
//! ```
//! use tx_kernels::packed_matrix::PackedMatrix;
//!
//! // [inputs 2, outputs 3], row by row, with a bias.
//! let weights = PackedMatrix::new(2, &[&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]], vec![0.5; 3], 1.0, false);
//! let mut y = [0.0; 3];
//! weights.product(&[1.0, 10.0], &mut y);
//! assert_eq!(y, [41.5, 52.5, 63.5]);
//! ```

pub mod instruction_set;
pub mod vector;

pub mod formulas;
pub mod top_k;

pub mod packed_matrix;
mod panels;
pub mod prefetch;

pub mod int8_kernel;
pub mod quantized_matrix;
pub mod quantized_rows;
pub mod quantized_weight;
mod shared_bytes;

#[cfg(feature = "training")]
pub mod bf16;
#[cfg(feature = "training")]
pub mod matrix;
#[cfg(feature = "training")]
pub mod rows;

pub mod amx;
pub mod layout;

pub use int8_kernel::Int8Kernel;
pub use quantized_weight::{MAX_INPUTS, QuantizedTable, QuantizedWeight};
pub use shared_bytes::SharedBytes;
