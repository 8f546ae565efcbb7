//! Multi-head attention without its projections, and its backward pass, which stores no weights.
//!
//! A cube computes one row of scores in shared memory: for a query in forward and for its gradient, and for
//! a key for the gradients of keys and values.

mod kernels;

use burn::{
    backend::{Cube, ops::FloatTensorOps},
    tensor::Shape,
};
use burn_cubecl::{
    cubecl::{self, prelude::*},
    kernel::into_contiguous,
    tensor::CubeTensor,
};

use super::{
    cubes,
    dropout::KeyedMask,
    empty,
    flat::{alignment, view},
    units,
};
use kernels::{attend, of_bias_kernel, of_keys_kernel, of_queries_kernel};

/// Units of a cube, at most.
const UNITS: usize = 64;

/// Minimum number of numbers in a row of shared memory, so that short sentences share their kernels.
const MIN_ROOM: usize = 64;

/// Maximum number of queries or keys: two rows of numbers take 8 KiB of shared memory, of which the smallest
/// adapters have 16.
pub const MAX_LEN: usize = 1024;

/// Less than any finite score.
const LOWEST: f32 = -3.4e38;

/// Arguments of a forward pass, which the backward pass needs, too.
#[derive(Debug, Clone)]
pub struct Input {
    /// Queries, keys and values: `[B, H, L, D]`
    heads: [CubeTensor; 3],
    /// Added to the scores, `[1, H, Q, K]`
    bias: Option<CubeTensor>,
    /// Broadcasts to `[B, H, Q, K]`
    blocked: Option<CubeTensor>,
    mask: Option<KeyedMask>,
}

impl Input {
    /// Arguments with dropout of the weights.
    pub fn new(
        heads: [CubeTensor; 3],
        bias: Option<CubeTensor>,
        blocked: Option<CubeTensor>,
        mask: Option<KeyedMask>,
    ) -> Self {
        // The kernels take any layout in which the numbers of a head are side by side.
        let heads = heads.map(|x| if x.meta.strides()[3] == 1 { x } else { into_contiguous(x) });
        Self { heads, bias, blocked, mask }
    }

    /// Returns batch, heads, queries, keys and numbers per head.
    fn sizes(&self) -> [usize; 5] {
        let (queries, keys) = (self.heads[0].meta.shape(), self.heads[1].meta.shape());
        [queries[0], queries[1], queries[2], keys[2], queries[3]]
    }

    /// Returns the arguments that all kernels have.
    fn arguments(&self) -> LayoutLaunch {
        let [_, heads, queries, keys, width] = self.sizes();
        let strides = |x: &CubeTensor| {
            let (sizes, strides) = (x.meta.shape(), x.meta.strides());
            let stride = |axis: usize| if sizes[axis] == 1 { 0 } else { strides[axis] };
            AxesLaunch::new(stride(0), stride(1), stride(2), stride(3))
        };
        let [q, k, v] = self.heads.each_ref().map(strides);
        let optional = |x: &Option<CubeTensor>| match x {
            Some(x) => strides(x),
            None => AxesLaunch::new(0, 0, 0, 0),
        };
        let (bias, blocked) = (optional(&self.bias), optional(&self.blocked));
        let scale = 1.0 / (width as f32).sqrt();
        LayoutLaunch::new(heads, queries, keys, q, k, v, bias, blocked, scale)
    }

    /// Number of numbers in a row of shared memory.
    fn room(&self) -> usize {
        let [_, _, queries, keys, _] = self.sizes();
        queries.max(keys).next_power_of_two().max(MIN_ROOM)
    }
}

/// Strides of four axes, 0 for one that is broadcast.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub struct Axes {
    b: usize,
    h: usize,
    l: usize,
    last: usize,
}

/// Sizes and strides of an attention.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub struct Layout {
    heads: usize,
    queries: usize,
    keys: usize,
    q: Axes,
    k: Axes,
    v: Axes,
    /// Of the bias and the mask, whose axes are batch, head, query and key.
    bias: Axes,
    blocked: Axes,
    /// Factor of the scores: `1 / √D`.
    scale: f32,
}

/// Computes `dropout(softmax(q · kᵀ / √D + bias)) · v` with the heads concatenated: `[B, Q, H · D]`; zeros for a query
/// with every key blocked.
pub fn forward(input: &Input) -> CubeTensor {
    match input.blocked.as_ref().map(|blocked| blocked.dtype.size()) {
        Some(1) => launch_forward::<u8>(input),
        _ => launch_forward::<u32>(input),
    }
}

fn launch_forward<M: Int>(input: &Input) -> CubeTensor {
    let [batch, heads, queries, _, width] = input.sizes();
    let [q, k, v] = input.heads.clone();
    let y = empty(&q, Shape::new([batch, queries, heads * width]));
    let rows = batch * heads * queries;
    let (cubes, dim, units) = cubes(&q, rows, UNITS);
    if y.meta.num_elements() == 0 {
        return y;
    }
    attend::launch::<M>(
        &q.client.clone(),
        cubes,
        dim,
        q.into_buffer_arg(),
        k.into_buffer_arg(),
        v.into_buffer_arg(),
        input.bias.clone().into_iter().map(CubeTensor::into_buffer_arg).collect(),
        input.blocked.clone().into_iter().map(CubeTensor::into_buffer_arg).collect(),
        y.clone().into_buffer_arg(),
        input.arguments(),
        rows,
        KeyedMask::argument(input.mask),
        width,
        input.room(),
        units,
    );
    y
}

/// Gradients of an attention.
#[derive(Debug)]
pub struct Gradients {
    /// Of queries, keys and values: `[B, H, L, D]`
    pub heads: [CubeTensor; 3],
    /// `[1, H, Q, K]`
    pub bias: Option<CubeTensor>,
}

/// Returns the gradients of queries, keys and values, and of the bias if `needs_bias`.
pub fn backward(input: &Input, dy: CubeTensor, needs_bias: bool) -> Gradients {
    match input.blocked.as_ref().map(|blocked| blocked.dtype.size()) {
        Some(1) => launch_backward::<u8>(input, dy, needs_bias),
        _ => launch_backward::<u32>(input, dy, needs_bias),
    }
}

fn launch_backward<M: Int>(input: &Input, dy: CubeTensor, needs_bias: bool) -> Gradients {
    let [batch, heads, queries, keys, width] = input.sizes();
    let [q, k, v] = input.heads.clone();
    let dy = into_contiguous(dy);
    // One buffer for all results, because the smallest adapters have few.
    let pitch = |len: usize| len.next_multiple_of(alignment(&q));
    let of_queries = batch * queries * heads * width;
    let of_keys = batch * keys * heads * width;
    let [dk, dv] = [pitch(of_queries), pitch(of_queries) + pitch(of_keys)];
    let statistics = dv + pitch(of_keys);
    let rows = batch * heads * queries;
    let results = empty(&q, Shape::new([statistics + 2 * rows]));
    let client = q.client.clone();
    let bias = || input.bias.clone().into_iter().map(CubeTensor::into_buffer_arg).collect();
    let blocked = || input.blocked.clone().into_iter().map(CubeTensor::into_buffer_arg).collect();
    if rows * width > 0 {
        let (cubes, dim, units) = cubes(&q, rows, UNITS);
        of_queries_kernel::launch::<M>(
            &client,
            cubes,
            dim,
            q.clone().into_buffer_arg(),
            k.clone().into_buffer_arg(),
            v.clone().into_buffer_arg(),
            bias(),
            blocked(),
            dy.clone().into_buffer_arg(),
            results.clone().into_buffer_arg(),
            input.arguments(),
            rows,
            statistics,
            KeyedMask::argument(input.mask),
            width,
            input.room(),
            units,
        );
    }
    let rows = batch * heads * keys;
    if rows * width > 0 {
        let (cubes, dim, units) = cubes(&q, rows, UNITS);
        of_keys_kernel::launch::<M>(
            &client,
            cubes,
            dim,
            q.clone().into_buffer_arg(),
            k.clone().into_buffer_arg(),
            v.clone().into_buffer_arg(),
            bias(),
            blocked(),
            dy.clone().into_buffer_arg(),
            results.clone().into_buffer_arg(),
            input.arguments(),
            rows,
            dk,
            dv,
            statistics,
            KeyedMask::argument(input.mask),
            width,
            input.room(),
            units,
        );
    }
    let of_bias = needs_bias.then(|| {
        let of_bias = empty(&q, Shape::new([1, heads, queries, keys]));
        let (cubes, dim) = units(&q, heads * queries * keys);
        if heads * queries * keys > 0 {
            of_bias_kernel::launch::<M>(
                &client,
                cubes,
                dim,
                q.into_buffer_arg(),
                k.into_buffer_arg(),
                v.into_buffer_arg(),
                bias(),
                blocked(),
                dy.into_buffer_arg(),
                results.clone().into_buffer_arg(),
                of_bias.clone().into_buffer_arg(),
                input.arguments(),
                batch,
                statistics,
                KeyedMask::argument(input.mask),
                width,
            );
        }
        of_bias
    });
    let heads = [(0, queries), (dk, keys), (dv, keys)].map(|(start, len)| {
        let gradient = view(&results, start, Shape::new([batch, len, heads, width]));
        Cube::float_swap_dims(gradient, 1, 2)
    });
    Gradients { heads, bias: of_bias }
}
