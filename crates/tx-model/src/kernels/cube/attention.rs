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
    cubecl::{self, calculate_cube_count_elemwise, prelude::*},
    kernel::into_contiguous,
    tensor::CubeTensor,
};

use super::{
    dropout::KeyedMask,
    empty,
    flat::{alignment, view},
};
use kernels::{attend, of_keys_kernel, of_queries_kernel};

/// Units of a cube.
const UNITS: usize = 64;

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
    /// Broadcasts to `[B, H, Q, K]`
    blocked: Option<CubeTensor>,
    mask: Option<KeyedMask>,
}

impl Input {
    /// Arguments with dropout of the weights.
    pub fn new(
        heads: [CubeTensor; 3],
        blocked: Option<CubeTensor>,
        mask: Option<KeyedMask>,
    ) -> Self {
        // The kernels take any layout in which the numbers of a head are side by side.
        let heads = heads.map(|x| if x.meta.strides()[3] == 1 { x } else { into_contiguous(x) });
        Self { heads, blocked, mask }
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
        let blocked = match &self.blocked {
            Some(blocked) => strides(blocked),
            None => AxesLaunch::new(0, 0, 0, 0),
        };
        let scale = 1.0 / (width as f32).sqrt();
        LayoutLaunch::new(heads, queries, keys, q, k, v, blocked, scale)
    }

    /// Number of numbers in a row of shared memory.
    fn room(&self) -> usize {
        let [_, _, queries, keys, _] = self.sizes();
        queries.max(keys).next_power_of_two().max(UNITS)
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
    /// Of the mask, whose axes are batch, head, query and key.
    blocked: Axes,
    /// Factor of the scores: `1 / √D`.
    scale: f32,
}

/// Computes `dropout(softmax(q · kᵀ / √D)) · v` with the heads concatenated: `[B, Q, H · D]`; zeros for a query
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
    let (client, dim) = (q.client.clone(), CubeDim::new_1d(UNITS as u32));
    if y.meta.num_elements() == 0 {
        return y;
    }
    attend::launch::<M>(
        &client,
        calculate_cube_count_elemwise(&client, rows * UNITS, dim),
        dim,
        q.into_buffer_arg(),
        k.into_buffer_arg(),
        v.into_buffer_arg(),
        input.blocked.clone().into_iter().map(CubeTensor::into_buffer_arg).collect(),
        y.clone().into_buffer_arg(),
        input.arguments(),
        rows,
        KeyedMask::argument(input.mask),
        width,
        input.room(),
        UNITS,
    );
    y
}

/// Returns the gradients of queries, keys and values.
pub fn backward(input: &Input, dy: CubeTensor) -> [CubeTensor; 3] {
    match input.blocked.as_ref().map(|blocked| blocked.dtype.size()) {
        Some(1) => launch_backward::<u8>(input, dy),
        _ => launch_backward::<u32>(input, dy),
    }
}

fn launch_backward<M: Int>(input: &Input, dy: CubeTensor) -> [CubeTensor; 3] {
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
    let (client, dim) = (q.client.clone(), CubeDim::new_1d(UNITS as u32));
    let blocked = || input.blocked.clone().into_iter().map(CubeTensor::into_buffer_arg).collect();
    if rows * width > 0 {
        of_queries_kernel::launch::<M>(
            &client,
            calculate_cube_count_elemwise(&client, rows * UNITS, dim),
            dim,
            q.clone().into_buffer_arg(),
            k.clone().into_buffer_arg(),
            v.clone().into_buffer_arg(),
            blocked(),
            dy.clone().into_buffer_arg(),
            results.clone().into_buffer_arg(),
            input.arguments(),
            rows,
            statistics,
            KeyedMask::argument(input.mask),
            width,
            input.room(),
            UNITS,
        );
    }
    let rows = batch * heads * keys;
    if rows * width > 0 {
        of_keys_kernel::launch::<M>(
            &client,
            calculate_cube_count_elemwise(&client, rows * UNITS, dim),
            dim,
            q.clone().into_buffer_arg(),
            k.clone().into_buffer_arg(),
            v.clone().into_buffer_arg(),
            blocked(),
            dy.into_buffer_arg(),
            results.clone().into_buffer_arg(),
            input.arguments(),
            rows,
            dk,
            dv,
            statistics,
            KeyedMask::argument(input.mask),
            width,
            input.room(),
            UNITS,
        );
    }
    [(0, queries), (dk, keys), (dv, keys)].map(|(start, len)| {
        let gradient = view(&results, start, Shape::new([batch, len, heads, width]));
        Cube::float_swap_dims(gradient, 1, 2)
    })
}
