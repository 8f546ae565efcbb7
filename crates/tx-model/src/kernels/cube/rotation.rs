//! Rotary positions (Su et al. 2021): rotation of pairs of features, and its backward pass, the rotation in
//! the other direction.

use burn::{
    backend::{Cube, ops::FloatTensorOps},
    tensor::Shape,
};
use burn_cubecl::{
    cubecl::{self, prelude::*},
    kernel::into_contiguous,
    tensor::CubeTensor,
};

use super::{empty, units};

/// Rotates each pair of features `(x_i, x_{i + D/2})` by the angle of its position, or back.
///
/// # Shapes
///
/// - `x`: `[B, H, L, D]`; `table`: cosines, then sines, `[2, 1, L, D / 2]`
/// - returns `[B, H, L, D]`, with the heads of a token side by side
pub fn rotate(x: CubeTensor, table: CubeTensor, is_back: bool) -> CubeTensor {
    let x = if x.meta.strides()[3] == 1 { x } else { into_contiguous(x) };
    let table = into_contiguous(table);
    let (shape, strides) = (x.meta.shape().clone(), x.meta.strides().to_vec());
    let (batch, heads, len, width) = (shape[0], shape[1], shape[2], shape[3]);
    let y = empty(&x, Shape::new([batch, len, heads, width]));
    let (count, dim) = units(&x, y.meta.num_elements() / 2);
    if y.meta.num_elements() > 0 {
        rotated::launch(
            &x.client.clone(),
            count,
            dim,
            x.into_buffer_arg(),
            table.into_buffer_arg(),
            y.clone().into_buffer_arg(),
            strides[0],
            strides[1],
            strides[2],
            heads,
            len,
            if is_back { -1.0 } else { 1.0 },
            width / 2,
        );
    }
    Cube::float_swap_dims(y, 1, 2)
}

/// A unit rotates one pair.
#[cube(launch)]
fn rotated(
    x: &[f32],
    table: &[f32],
    y: &mut [f32],
    of_batch: usize,
    of_head: usize,
    of_position: usize,
    heads: usize,
    len: usize,
    sign: f32,
    #[comptime] half: usize,
) {
    let unit = ABSOLUTE_POS;
    let (pair, head) = (unit % half, unit / half % heads);
    let (position, row) = (unit / half / heads % len, unit / half / heads / len);
    let first_y = unit / half * 2 * half + pair;
    if first_y < y.len() {
        let first_x = row * of_batch + head * of_head + position * of_position + pair;
        let cos = table[position * half + pair];
        let sin = sign * table[(len + position) * half + pair];
        let (a, b) = (x[first_x], x[first_x + half]);
        y[first_y] = a * cos - b * sin;
        y[first_y + half] = a * sin + b * cos;
    }
}
