//! Embedding of tokens with scale, positions and dropout, and its backward pass.

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
    dropout::{KeyedMask, Mask, factor},
    empty, max_over_units, rows,
    sums::column_sums,
    units,
};

/// Maximum number of units that add up the gradient of one token together.
const MAX_UNITS: usize = 256;

/// Options of an embedding.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub scale: f32,
    pub zero_first: bool,
    pub mask: Option<KeyedMask>,
}

/// Computes `dropout(scale · table[id] + position)`.
///
/// # Shapes
///
/// - `table`: `[V, width]`; `ids`: `[B, L]`, 32-bit integers; `positions`: `[.., width]`, of which the
///   first token has number `offset`; all contiguous
/// - returns `[B, L, width]`
pub fn forward(
    table: CubeTensor,
    ids: CubeTensor,
    positions: Option<CubeTensor>,
    offset: usize,
    options: Options,
) -> CubeTensor {
    let ([batch, len], [_, width]) = (rows(&ids), rows(&table));
    let y = empty(&table, Shape::new([batch, len, width]));
    let (count, dim) = units(&table, batch * len * width);
    if batch * len * width > 0 {
        embed::launch(
            &table.client.clone(),
            count,
            dim,
            table.into_buffer_arg(),
            ids.into_buffer_arg(),
            positions.into_iter().map(CubeTensor::into_buffer_arg).collect(),
            y.clone().into_buffer_arg(),
            KeyedMask::argument(options.mask),
            options.scale,
            len,
            offset,
            width,
            options.zero_first,
        );
    }
    y
}

/// Returns the gradient of the table, whose shape is `[vocabulary, width]`.
pub fn gradient_of_table(
    dy: CubeTensor,
    ids: CubeTensor,
    vocabulary: usize,
    options: Options,
) -> CubeTensor {
    let (dy, [_, len]) = (into_contiguous(dy), rows(&ids));
    let [count, width] = rows(&dy);
    let shape = Shape::new([vocabulary, width]);
    let table = Cube::float_zeros(shape, &dy.device, dy.dtype.into());
    if count * width > 0 {
        let most = width.next_power_of_two().clamp(32, MAX_UNITS);
        let (cubes, dim, units) = cubes(&dy, count, most);
        of_table::launch(
            &dy.client.clone(),
            cubes,
            dim,
            dy.into_buffer_arg(),
            ids.into_buffer_arg(),
            table.clone().into_buffer_arg(),
            KeyedMask::argument(options.mask),
            options.scale,
            count,
            len,
            width,
            units,
            options.zero_first,
        );
    }
    table
}

/// Returns the gradient of the positions, `[L, width]`.
pub fn gradient_of_positions(dy: CubeTensor, options: Options) -> CubeTensor {
    let shape = dy.meta.shape().clone();
    let (batch, len, width) = (shape[0], shape[1], shape[2]);
    let dy = match options.mask {
        Some(mask) => mask.apply(dy),
        None => into_contiguous(dy),
    };
    let [sum] = column_sums(Cube::float_reshape(dy, Shape::new([batch, len * width])));
    Cube::float_reshape(sum, Shape::new([len, width]))
}

#[cube(launch)]
fn embed(
    table: &[f32],
    ids: &[i32],
    positions: &Sequence<Box<[f32]>>,
    y: &mut [f32],
    mask: Mask,
    scale: f32,
    len: usize,
    offset: usize,
    #[comptime] width: usize,
    #[comptime] zero_first: bool,
) {
    let i = ABSOLUTE_POS;
    if i < y.len() {
        let token = i / width;
        let column = i % width;
        let position = token % len;
        let mut value = 0.0f32;
        if comptime!(!zero_first) || position > 0 {
            value = scale * table[usize::cast_from(ids[token]) * width + column];
        }
        if comptime!(positions.len() > 0) {
            value += positions[0][(offset + position) * width + column];
        }
        y[i] = value * factor(mask, i);
    }
}

/// Each cube takes one token, and adds up the gradients of all tokens with its id if it is the first of
/// them.
#[cube(launch)]
fn of_table(
    dy: &[f32],
    ids: &[i32],
    table: &mut [f32],
    mask: Mask,
    scale: f32,
    count: usize,
    len: usize,
    #[comptime] width: usize,
    #[comptime] units: usize,
    #[comptime] zero_first: bool,
) {
    let token = CUBE_POS;
    if token >= count {
        terminate!();
    }
    let id = ids[token];
    let unit = UNIT_POS as usize;
    let mut is_later = 0.0f32;
    let mut other = unit;
    while other < token {
        if ids[other] == id {
            is_later = 1.0f32;
        }
        other += units;
    }
    if max_over_units(is_later, units) > 0.0f32 {
        terminate!();
    }
    let first = usize::cast_from(id) * width;
    let mut column = unit;
    while column < width {
        table[first + column] = 0.0f32;
        column += units;
    }
    let mut current = token;
    while current < count {
        if comptime!(!zero_first) || current % len > 0 {
            // Only this unit adds to these elements.
            let mut column = unit;
            while column < width {
                let i = current * width + column;
                table[first + column] += scale * dy[i] * factor(mask, i);
                column += units;
            }
        }
        // The next token with this id, found in blocks of as many tokens as units.
        let mut block = current + 1;
        current = count;
        while block < count && current == count {
            let mut own = -f32::cast_from(count);
            if block + unit < count && ids[block + unit] == id {
                own = -f32::cast_from(block + unit);
            }
            // Exact up to 2²⁴ tokens.
            current = usize::cast_from(-max_over_units(own, units));
            block += units;
        }
    }
}
