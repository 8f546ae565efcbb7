//! Sums over the rows of matrices, such as the gradient of a bias, and sums of equal tensors.

use burn::tensor::Shape;
use burn_cubecl::{
    cubecl::{self, CubeCount, CubeDim, calculate_cube_count_elemwise, prelude::*},
    tensor::CubeTensor,
};

use super::{
    empty,
    flat::{alignment, view},
    rows, units,
};

/// Columns that a cube adds up, and units that share each of them.
const COLUMNS: usize = 32;
const LANES: usize = 8;

/// Maximum number of rows that a cube adds up. More rows are added up in two steps.
const MAX_ROWS: usize = 512;

/// Maximum number of groups of rows whose columns a kernel adds up beside its own work.
const MAX_GROUPS: usize = 256;

/// Units of a cube that takes a group of rows and as many columns.
const GROUP_UNITS: usize = 64;

/// Returns the sums of the columns of `x`, divided into `N` vectors of the same length.
///
/// # Shapes
///
/// - `x`: `[.., N · width]`, contiguous; returns `N` times `[width]`
pub fn column_sums<const N: usize>(x: CubeTensor) -> [CubeTensor; N] {
    let [count, width] = rows(&x);
    let part = width / N;
    let sums = Sums { segments: 1, count, width, part, pitch: pitch(&x, part) };
    let vector = sums.of(x);
    std::array::from_fn(|index| view(&vector, index * sums.pitch, Shape::new([part])))
}

/// Returns the sums of the columns of each of the `segments` of `x`.
///
/// # Shapes
///
/// - `x`: `[segments, .., width]`, contiguous; returns `segments` times `[width]`, side by side if a
///   view can begin at each
pub fn segment_sums(x: CubeTensor, segments: usize) -> Vec<CubeTensor> {
    let [count, width] = rows(&x);
    let pitch = pitch(&x, width);
    let sums = Sums { segments, count: count / segments, width, part: width, pitch };
    let vector = sums.of(x);
    let start = |index| view(&vector, index * pitch, Shape::new([width]));
    (0..segments).map(start).collect()
}

/// Number of elements from the beginning of a vector of `len` elements to the next.
fn pitch(x: &CubeTensor, len: usize) -> usize {
    len.next_multiple_of(alignment(x))
}

/// Sizes of sums over the rows of each of several matrices of the same size.
#[derive(Debug, Clone, Copy)]
struct Sums {
    segments: usize,
    /// Rows and columns of a matrix.
    count: usize,
    width: usize,
    /// Every `part` columns of a sum begin at a multiple of `pitch`.
    part: usize,
    pitch: usize,
}

impl Sums {
    /// Returns the sums in one vector.
    fn of(self, x: CubeTensor) -> CubeTensor {
        let Self { count, width, .. } = self;
        if count <= MAX_ROWS {
            return self.of_groups(&x, count.max(1));
        }
        // About the square root of the number of rows, in both steps.
        let per_group = count.isqrt().next_multiple_of(LANES);
        let first = Self { part: width, pitch: width, ..self }.of_groups(&x, per_group);
        let count = count.div_ceil(per_group);
        Self { count, ..self }.of_groups(&first, count)
    }

    /// Adds up each group of `per_group` rows of each matrix.
    fn of_groups(self, x: &CubeTensor, per_group: usize) -> CubeTensor {
        let Self { segments, count, width, part, pitch } = self;
        let groups = count.div_ceil(per_group).max(1);
        let columns = width.checked_div(part).unwrap_or(0) * pitch;
        let sums = empty(x, Shape::new([segments * groups * columns]));
        let cubes = segments * groups * width.div_ceil(COLUMNS);
        if cubes > 0 {
            let dim = CubeDim::new_1d((COLUMNS * LANES) as u32);
            add_rows::launch(
                &x.client,
                calculate_cube_count_elemwise(&x.client, cubes * COLUMNS * LANES, dim),
                dim,
                x.clone().into_buffer_arg(),
                sums.clone().into_buffer_arg(),
                count,
                per_group,
                groups,
                segments * groups,
                width,
                part,
                pitch,
            );
        }
        sums
    }
}

#[cube(launch)]
fn add_rows(
    x: &[f32],
    sums: &mut [f32],
    count: usize,
    per_group: usize,
    groups: usize,
    all_groups: usize,
    #[comptime] width: usize,
    #[comptime] part: usize,
    #[comptime] pitch: usize,
) {
    let blocks = comptime!(width.div_ceil(COLUMNS));
    let group = CUBE_POS / blocks;
    let place = UNIT_POS as usize % COLUMNS;
    let lane = UNIT_POS as usize / COLUMNS;
    let column = CUBE_POS % blocks * COLUMNS + place;
    let is_inside = group < all_groups && column < width;
    let mut own = 0.0f32;
    if is_inside {
        let first = group / groups * count;
        let (start, end) = rows_of_group(group % groups, per_group, count);
        let mut row = start + lane;
        while row < end {
            own += x[(first + row) * width + column];
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

/// Groups of rows of a matrix. A unit takes one column of a group, so that it can add up its elements.
#[derive(Debug, Clone, Copy)]
pub struct Groups {
    /// Rows of a group; the last may have fewer.
    pub per_group: usize,
    /// Number of groups.
    pub groups: usize,
    width: usize,
}

impl Groups {
    /// Divides `count` rows; without sums, each row is a group.
    pub fn new([count, width]: [usize; 2], has_sums: bool) -> Self {
        let per_group = if has_sums { count.div_ceil(MAX_GROUPS).max(1) } else { 1 };
        Self { per_group, groups: count.div_ceil(per_group), width }
    }

    /// Returns the arguments of a launch, in which [`column()`] and [`group()`] are those of a unit.
    pub fn launch(self, x: &CubeTensor) -> (CubeCount, CubeDim) {
        let dim = CubeDim::new_1d(GROUP_UNITS as u32);
        let units = self.groups * self.width.next_multiple_of(GROUP_UNITS);
        (calculate_cube_count_elemwise(&x.client, units, dim), dim)
    }
}

/// Returns the column of a unit of a launch of [`Groups`], which may be `width` or more.
#[cube]
pub fn column(#[comptime] width: usize) -> usize {
    let blocks = comptime!(width.div_ceil(GROUP_UNITS));
    CUBE_POS % blocks * GROUP_UNITS + UNIT_POS as usize
}

/// Returns the group of a unit of a launch of [`Groups`].
#[cube]
pub fn group(#[comptime] width: usize) -> usize {
    CUBE_POS / comptime!(width.div_ceil(GROUP_UNITS))
}

/// Returns the first row of a group of `per_group` of `count` rows, and the row after its last.
#[cube]
pub fn rows_of_group(group: usize, per_group: usize, count: usize) -> (usize, usize) {
    let mut end = (group + 1) * per_group;
    if end > count {
        end = count;
    }
    (group * per_group, end)
}

/// Adds up tensors of the same shape.
///
/// # Shapes
///
/// - `x`: `[N, ..]`, contiguous; returns `shape`
pub fn sum_of_tensors(x: CubeTensor, shape: Shape) -> CubeTensor {
    let sum = empty(&x, shape);
    let len = sum.meta.num_elements();
    let (count, dim) = units(&x, len);
    if let Some(number) = x.meta.num_elements().checked_div(len) {
        let (client, sum) = (x.client.clone(), sum.clone().into_buffer_arg());
        add_tensors::launch(&client, count, dim, x.into_buffer_arg(), sum, number);
    }
    sum
}

#[cube(launch)]
fn add_tensors(x: &[f32], sum: &mut [f32], #[comptime] number: usize) {
    let i = ABSOLUTE_POS;
    let len = sum.len();
    if i < len {
        let mut all = 0.0f32;
        #[unroll]
        for index in 0..number {
            all += x[index * len + i];
        }
        sum[i] = all;
    }
}
