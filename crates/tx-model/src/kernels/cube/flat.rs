//! Tensors as parts of few vectors, which a kernel processes in one launch.

use burn::{
    backend::{Dispatch, tensor::FloatTensor},
    tensor::{Shape, Tensor},
};
use burn_cubecl::{
    cubecl::{self, prelude::*},
    kernel::into_contiguous,
    tensor::CubeTensor,
};

use super::{UNITS, cubes, empty, sum_over_units, units, unwrapped, wrapped};

/// Buffers of a launch on the smallest adapters, which have 8 and need one for themselves.
const MIN_BUFFERS: usize = 7;

/// Maximum number of tensors copied by one launch: a kernel has code for each of them.
const MAX_COPIED: usize = 32;

/// Number of partial sums of a norm.
const PARTS: usize = 256;

/// See [`FlatTensors`](crate::kernels::FlatTensors).
#[derive(Debug, Clone)]
pub struct Vectors {
    /// At least one.
    vectors: Vec<CubeTensor>,
    /// Shapes of all tensors, in their order.
    shapes: Vec<Shape>,
}

impl Vectors {
    /// Replaces `tensors` by views; `None` if there are none, or some that the kernels do not take, or
    /// several devices.
    pub fn replacing(tensors: &mut [FloatTensor<Dispatch>]) -> Option<Self> {
        // The rank of a tensor without type does not matter here.
        let found =
            tensors.iter().map(|tensor| unwrapped(&Tensor::<1>::from_dispatch(tensor.clone())));
        let found: Vec<CubeTensor> = found.collect::<Option<_>>()?;
        if found.windows(2).any(|pair| pair[0].device != pair[1].device) {
            return None;
        }
        // Vectors come after matrices, so that the matrices of adjacent layers are side by side.
        let shapes = found.iter().map(|tensor| tensor.meta.shape().clone()).collect();
        let mut found: Vec<_> = found.into_iter().zip(tensors).collect();
        found.sort_by_key(|(tensor, _)| tensor.meta.shape().num_dims() < 2);
        let (found, places): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let (mut vectors, mut places) = (Vec::new(), places.into_iter());
        for group in groups(found) {
            let (vector, parts) = copied(group);
            vectors.push(vector);
            for (part, place) in parts.into_iter().zip(places.by_ref()) {
                *place = wrapped::<1>(part).into_dispatch();
            }
        }
        (!vectors.is_empty()).then_some(Self { vectors, shapes })
    }

    /// See [`FlatTensors::sum_of_squares`](crate::kernels::FlatTensors::sum_of_squares).
    pub fn sum_of_squares(&self) -> Tensor<1> {
        let first = &self.vectors[0];
        let parts = empty(first, Shape::new([PARTS * self.vectors.len()]));
        for (index, vector) in self.vectors.iter().enumerate() {
            let (cubes, dim, units) = cubes(first, PARTS, UNITS as usize);
            squares::launch(
                &first.client,
                cubes,
                dim,
                vector.clone().into_buffer_arg(),
                parts.clone().into_buffer_arg(),
                PARTS * index,
                PARTS,
                units,
            );
        }
        let sum = empty(first, Shape::new([1]));
        let (cubes, dim, units) = cubes(first, 1, UNITS as usize);
        sum_of_parts::launch(
            &first.client,
            cubes,
            dim,
            parts.into_buffer_arg(),
            sum.clone().into_buffer_arg(),
            units,
        );
        wrapped(sum)
    }

    /// See [`FlatTensors::add`](crate::kernels::FlatTensors::add).
    pub fn add(&self, others: &Self) -> bool {
        if self.shapes != others.shapes || self.vectors[0].device != others.vectors[0].device {
            return false;
        }
        for (vector, other) in self.vectors.iter().zip(&others.vectors) {
            let (count, dim) = units(vector, vector.meta.num_elements());
            let [x, y] = [vector, other].map(|x| x.clone().into_buffer_arg());
            added::launch(&vector.client, count, dim, x, y);
        }
        true
    }

    /// See [`FlatTensors::scale`](crate::kernels::FlatTensors::scale).
    pub fn scale(&self, factor: f32) {
        for vector in &self.vectors {
            let (count, dim) = units(vector, vector.meta.num_elements());
            let argument = vector.clone().into_buffer_arg();
            scaled::launch(&vector.client, count, dim, argument, factor);
        }
    }
}

/// Number of elements to a multiple of which a view must begin.
pub fn alignment(x: &CubeTensor) -> usize {
    (x.client.properties().memory.alignment as usize / size_of::<f32>()).max(1)
}

/// Divides tensors, in their order, among vectors that fit in one allocation.
fn groups(tensors: Vec<CubeTensor>) -> Vec<Vec<CubeTensor>> {
    let mut groups: Vec<Vec<CubeTensor>> = Vec::new();
    let mut filled = 0;
    for tensor in tensors {
        let limit = tensor.client.properties().memory.max_page_size as usize / size_of::<f32>();
        let len = tensor.meta.num_elements().next_multiple_of(alignment(&tensor));
        match groups.last_mut() {
            Some(group) if filled + len <= limit => {
                filled += len;
                group.push(tensor);
            }
            _ => {
                filled = len;
                groups.push(vec![tensor]);
            }
        }
    }
    groups
}

/// Copies tensors into one vector. Returns it, and the views of its parts.
fn copied(tensors: Vec<CubeTensor>) -> (CubeTensor, Vec<CubeTensor>) {
    let alignment = alignment(&tensors[0]);
    let mut ends = vec![0];
    for tensor in &tensors {
        let len = tensor.meta.num_elements().next_multiple_of(alignment);
        ends.push(ends[ends.len() - 1] + len);
    }
    let vector = empty(&tensors[0], Shape::new([ends[tensors.len()]]));
    let views = tensors
        .iter()
        .zip(&ends)
        .map(|(tensor, &start)| view(&vector, start, tensor.meta.shape().clone()));
    let views = views.collect();
    let limit = vector.client.properties().hardware.max_bindings as usize;
    // One buffer is the vector, and one has the numbers of the launch.
    let inputs = (limit.max(MIN_BUFFERS) - 2).min(MAX_COPIED);
    let mut start = 0;
    for chunk in runs(tensors, alignment).chunks(inputs) {
        let len = |run: &CubeTensor| run.meta.num_elements().next_multiple_of(alignment);
        let end = start + chunk.iter().map(len).sum::<usize>();
        if start == end {
            continue;
        }
        let mut arguments = Arguments::default();
        chunk.iter().for_each(|run| arguments.push(run.clone()));
        let target = view(&vector, start, Shape::new([end - start]));
        let (count, dim) = units(&vector, end - start);
        copy_all::launch(
            &vector.client,
            count,
            dim,
            arguments.inputs,
            arguments.lens,
            arguments.widths,
            arguments.row_strides,
            arguments.column_strides,
            target.into_buffer_arg(),
            alignment,
        );
        start = end;
    }
    (vector, views)
}

/// Merges tensors that follow each other in a buffer without gaps.
fn runs(tensors: Vec<CubeTensor>, alignment: usize) -> Vec<CubeTensor> {
    let mut runs: Vec<CubeTensor> = Vec::new();
    for tensor in tensors {
        let len = tensor.meta.num_elements();
        if let Some(last) = runs.last_mut() {
            let [before, place] = [&*last, &tensor].map(Place::of);
            let own = last.meta.num_elements();
            if last.is_contiguous()
                && tensor.is_contiguous()
                && own.is_multiple_of(alignment)
                && place.follows(before)
            {
                *last = from_start_of(last, own + len);
                continue;
            }
        }
        runs.push(tensor);
    }
    runs
}

/// Tensors of the same shape as one tensor, `[N, ..]`; a copy, unless they follow each other in a buffer
/// already. Their lengths must be multiples of [`alignment`], so that the copy has no gaps.
pub fn side_by_side(tensors: Vec<CubeTensor>) -> CubeTensor {
    let shape = tensors[0].meta.shape();
    let shape = Shape::from([&[tensors.len()], &shape[..]].concat());
    let mut runs = runs(tensors, 1);
    let vector = if runs.len() == 1 { runs.remove(0) } else { copied(runs).0 };
    view(&vector, 0, shape)
}

/// Part of a buffer that a tensor occupies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Number that no other buffer of the process has had.
    pub buffer: usize,
    /// Bytes of the part.
    start: u64,
    end: u64,
    /// Bytes of the buffer.
    size: u64,
}

impl Place {
    pub fn of(tensor: &CubeTensor) -> Self {
        let (buffer, start, end) = tensor.handle.clone().binding().claim_key();
        Self { buffer: buffer.value, start, end, size: tensor.handle.size() }
    }

    /// Returns `true` for the same part of a buffer of the same size.
    pub fn is_at(self, other: Self) -> bool {
        Self { buffer: other.buffer, ..self } == other
    }

    /// Number of elements of the buffer before the tensor.
    pub fn first(self) -> usize {
        self.start as usize / size_of::<f32>()
    }

    /// Number of elements of the buffer.
    pub fn elements(self) -> usize {
        (self.size as usize).div_ceil(size_of::<f32>())
    }

    /// Returns `true` if the part begins at the end of `before`, in the same buffer.
    fn follows(self, before: Self) -> bool {
        self.buffer == before.buffer && self.start == before.end
    }

    /// Number of elements from each of the tensors to the next; `None` if they are in several buffers or not
    /// evenly spaced.
    pub fn distance(tensors: &[&CubeTensor]) -> Option<usize> {
        let places: Vec<Self> = tensors.iter().copied().map(Self::of).collect();
        let mut distances = places.windows(2).map(|pair| {
            let distance = pair[1].first().checked_sub(pair[0].first());
            distance.filter(|_| pair[0].buffer == pair[1].buffer)
        });
        let first = distances.next()??;
        distances.all(|distance| distance == Some(first)).then_some(first)
    }
}

/// Returns the part of `vector` from `start` with this shape.
pub fn view(vector: &CubeTensor, start: usize, shape: Shape) -> CubeTensor {
    let bytes = |elements: usize| (elements * size_of::<f32>()) as u64;
    let rest = vector.meta.num_elements() - start - shape.num_elements();
    let handle = vector.handle.clone().offset_start(bytes(start)).offset_end(bytes(rest));
    let (client, device) = (vector.client.clone(), vector.device.clone());
    CubeTensor::new_contiguous(client, device, shape, handle, vector.dtype)
}

/// Returns the `len` elements of the buffer of `first` from its beginning, as a vector.
pub fn from_start_of(first: &CubeTensor, len: usize) -> CubeTensor {
    let mut handle = first.handle.clone();
    let end = handle.offset_start.unwrap_or(0) + (len * size_of::<f32>()) as u64;
    handle.offset_end = Some(handle.size() - end);
    let (client, device) = (first.client.clone(), first.device.clone());
    CubeTensor::new_contiguous(client, device, Shape::new([len]), handle, first.dtype)
}

/// Inputs of a copy: rows and columns of each, as a gradient may be a transposed matrix.
#[derive(Default)]
struct Arguments {
    inputs: SequenceArg<Box<[f32]>>,
    lens: SequenceArg<usize>,
    widths: SequenceArg<usize>,
    row_strides: SequenceArg<usize>,
    column_strides: SequenceArg<usize>,
}

impl Arguments {
    fn push(&mut self, tensor: CubeTensor) {
        let shape = tensor.meta.shape();
        let len = shape.num_elements();
        let is_transposed = shape.num_dims() == 2 && tensor.meta.strides()[..] == [1, shape[0]];
        let (width, strides) = if is_transposed { (shape[1], [1, shape[0]]) } else { (1, [1, 0]) };
        let tensor = if is_transposed { tensor } else { into_contiguous(tensor) };
        self.inputs.push(tensor.into_buffer_arg());
        self.lens.push(len);
        self.widths.push(width.max(1));
        self.row_strides.push(strides[0]);
        self.column_strides.push(strides[1]);
    }
}

/// Copies each input to a multiple of `alignment`, followed by zeros.
#[cube(launch)]
fn copy_all(
    inputs: &Sequence<Box<[f32]>>,
    lens: &Sequence<usize>,
    widths: &Sequence<usize>,
    row_strides: &Sequence<usize>,
    column_strides: &Sequence<usize>,
    output: &mut [f32],
    #[comptime] alignment: usize,
) {
    let place = ABSOLUTE_POS;
    let mut start = 0usize;
    #[unroll]
    for input in 0..inputs.len() {
        let len = lens[input];
        let end = start + (len + alignment - 1) / alignment * alignment;
        if place >= start && place < end {
            let index = place - start;
            let mut value = 0.0f32;
            if index < len {
                let row = index / widths[input];
                let column = index % widths[input];
                value = inputs[input][row * row_strides[input] + column * column_strides[input]];
            }
            output[place] = value;
        }
        start = end;
    }
}

/// Sums of the squares of the elements that each of `cubes` cubes takes in turn.
#[cube(launch)]
fn squares(
    x: &[f32],
    parts: &mut [f32],
    first_part: usize,
    #[comptime] cubes: usize,
    #[comptime] units: usize,
) {
    let mut own = 0.0f32;
    let mut i = CUBE_POS * units + UNIT_POS as usize;
    while i < x.len() {
        own += x[i] * x[i];
        i += cubes * units;
    }
    let sum = sum_over_units(own, units);
    if UNIT_POS == 0 {
        parts[first_part + CUBE_POS] = sum;
    }
}

/// Sum of all elements, by one cube.
#[cube(launch)]
fn sum_of_parts(parts: &[f32], sum: &mut [f32], #[comptime] units: usize) {
    let mut own = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < parts.len() {
        own += parts[i];
        i += units;
    }
    let all = sum_over_units(own, units);
    if UNIT_POS == 0 {
        sum[0] = all;
    }
}

#[cube(launch)]
fn scaled(x: &mut [f32], factor: f32) {
    if ABSOLUTE_POS < x.len() {
        x[ABSOLUTE_POS] *= factor;
    }
}

#[cube(launch)]
fn added(x: &mut [f32], y: &[f32]) {
    if ABSOLUTE_POS < x.len() {
        x[ABSOLUTE_POS] += y[ABSOLUTE_POS];
    }
}
