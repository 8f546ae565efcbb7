//! Translation on a processor without tensors: the encoder-decoder on packed weights and plain
//! slices, for inference alone.
//!
//! A step of decoding is a few hundred products of small matrices. As tensor operations each of
//! them is allocated, dispatched and laid out on its own, which costs more than the arithmetic.
//! Here the weights are packed once ([`PackedMatrix`]), sentences stand one after another without
//! padding, and a step writes into buffers that are there already.
//!
//! [`PackedTransformer`] gives the scores of the [`Transformer`](crate::Transformer) it is made
//! of, to rounding, for every variant of [`ModelConfig`](crate::ModelConfig); a law in `tests/invariants`
//! holds it to that.

mod transformer;

mod decoder;
mod encoder;

mod attention;
mod embedding;
mod feed_forward;
mod residual;

mod matrix;
mod top_tokens;

pub(crate) use attention::PackedAttention;
pub(crate) use decoder::{PackedDecoder, PackedDecoderLayer};
pub(crate) use embedding::PackedEmbedding;
pub(crate) use encoder::{PackedEncoder, PackedEncoderLayer};
pub(crate) use feed_forward::PackedFeedForward;
pub use matrix::PackedMatrix;
pub(crate) use residual::{PackedNorm, PackedResidual};
pub use transformer::{Decoding, PackedTransformer};

use burn::tensor::Tensor;

use crate::kernels::simd::{self, vectorised};

/// Room for what a layer computes on the way, used again by the next.
#[derive(Debug, Default)]
struct Scratch {
    /// `[rows, d_model]`
    normalised: Vec<f32>,
    attention: attention::AttentionScratch,
    /// `[rows, 2 d_model]`
    keys_values: Vec<f32>,
    hidden: feed_forward::Hidden,
    /// `[rows, d_model]`
    output: Vec<f32>,
}

/// `log softmax(x)`, in place. Where all are minus infinity, they stay.
pub fn log_softmax(x: &mut [f32]) {
    vectorised(
        #[inline(always)]
        || {
            let max = simd::max(x);
            if max > f32::NEG_INFINITY {
                let sum = simd::sum_of(x, |x| simd::exp(x - max));
                let log_sum = f64::from(max) + f64::from(sum).ln();
                x.iter_mut().for_each(|x| *x = (f64::from(*x) - log_sum) as f32);
            }
        },
    );
}

/// All values of a tensor, row by row.
pub(crate) fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    let data = tensor.into_data();
    // Weights in single precision, as they nearly always are, need no conversion.
    data.try_to_vec().unwrap_or_else(|_| data.iter::<f32>().collect())
}
