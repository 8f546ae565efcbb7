//! Sums over the rows of a matrix, such as the gradient of a bias.

use burn::tensor::Shape;
use burn_cubecl::{
    cubecl::{self, calculate_cube_count_elemwise, prelude::*},
    tensor::CubeTensor,
};

use super::{
    empty,
    flat::{alignment, view},
    rows,
};

/// Columns that a cube adds up, and units that share each of them.
const COLUMNS: usize = 32;
const LANES: usize = 8;

/// Maximum number of rows that a cube adds up. More rows are added up in two steps.
const MAX_ROWS: usize = 512;

/// Returns the sums of the columns of `x`, divided into `N` vectors of the same length.
///
/// # Shapes
///
/// - `x`: `[.., N · width]`, contiguous; returns `N` times `[width]`
pub fn column_sums<const N: usize>(x: CubeTensor) -> [CubeTensor; N] {
    let [count, width] = rows(&x);
    let part = width / N;
    let pitch = part.next_multiple_of(alignment(&x));
    let x = if count > MAX_ROWS {
        // About the square root of the number of rows, in both steps.
        let per_group = count.isqrt().next_multiple_of(LANES);
        let groups = count.div_ceil(per_group);
        let sums = empty(&x, Shape::new([groups, width]));
        add_up(&x, &sums, [count, width], per_group, [width, width]);
        sums
    } else {
        x
    };
    let [count, _] = rows(&x);
    let sums = empty(&x, Shape::new([N * pitch]));
    add_up(&x, &sums, [count, width], count.max(1), [part, pitch]);
    std::array::from_fn(|index| view(&sums, index * pitch, Shape::new([part])))
}

/// Adds up each group of `per_group` rows. Every `part` columns of a sum begin at a multiple of `pitch`.
fn add_up(
    x: &CubeTensor,
    sums: &CubeTensor,
    [count, width]: [usize; 2],
    per_group: usize,
    [part, pitch]: [usize; 2],
) {
    let groups = count.div_ceil(per_group).max(1);
    let cubes = groups * width.div_ceil(COLUMNS);
    let dim = CubeDim::new_1d((COLUMNS * LANES) as u32);
    if cubes == 0 {
        return;
    }
    add_rows::launch(
        &x.client,
        calculate_cube_count_elemwise(&x.client, cubes * COLUMNS * LANES, dim),
        dim,
        x.clone().into_buffer_arg(),
        sums.clone().into_buffer_arg(),
        count,
        per_group,
        groups,
        width,
        part,
        pitch,
    );
}

#[cube(launch)]
fn add_rows(
    x: &[f32],
    sums: &mut [f32],
    count: usize,
    per_group: usize,
    groups: usize,
    #[comptime] width: usize,
    #[comptime] part: usize,
    #[comptime] pitch: usize,
) {
    let blocks = comptime!(width.div_ceil(COLUMNS));
    let group = CUBE_POS / blocks;
    let place = UNIT_POS as usize % COLUMNS;
    let lane = UNIT_POS as usize / COLUMNS;
    let column = CUBE_POS % blocks * COLUMNS + place;
    let is_inside = group < groups && column < width;
    let mut own = 0.0f32;
    if is_inside {
        let mut end = (group + 1) * per_group;
        if end > count {
            end = count;
        }
        let mut row = group * per_group + lane;
        while row < end {
            own += x[row * width + column];
            row += LANES;
        }
    }
    let mut all = Shared::<[f32]>::new_slice(comptime!(COLUMNS * LANES));
    all[UNIT_POS as usize] = own;
    sync_cube();
    if is_inside && lane == 0 {
        let mut sum = 0.0f32;
        for lane in 0..LANES {
            sum += all[lane * COLUMNS + place];
        }
        let row = comptime!(width / part * pitch);
        sums[group * row + column / part * pitch + column % part] = sum;
    }
}
