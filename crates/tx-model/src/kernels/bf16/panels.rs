//! Factors of a product in the order in which a unit reads them.

use std::mem::MaybeUninit;

use rayon::prelude::*;

use super::{
    Split,
    pack::pack_block,
    unit::{Side, Unit},
};
use crate::kernels::matrix::Matrix;

/// Lines of a block: rows of the left or columns of the right factor.
pub const BLOCK_LINES: usize = 16;

/// Numbers of each line of a block.
pub const BLOCK_DEPTH: usize = 32;

/// 32 bf16 numbers, as one vector or one row of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Group(pub [u16; BLOCK_DEPTH]);

/// Order of the numbers of a block of 16 lines, in 16 groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Group `k` contains the numbers `2k` and `2k + 1` of each line.
    Pairs,
    /// Group `k` contains the line `k`.
    Lines,
}

/// Order of the numbers of a panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Lines of a panel: one block or two.
    pub lines: usize,
    /// Order within a block.
    pub order: Order,
}

impl Layout {
    /// Returns the group of a panel of `depth` blocks with which a block begins, and the distance
    /// from each of its groups to the next. The block is the `half`-th of its lines, at block
    /// `index` of the depth.
    fn block(self, depth: usize, half: usize, index: usize) -> (usize, usize) {
        match self.order {
            Order::Pairs => {
                let halves = self.lines / BLOCK_LINES;
                (index * self.lines + half, halves)
            }
            Order::Lines => (half * BLOCK_LINES * depth + index, depth),
        }
    }
}

/// Packed factor: panels of lines, padded with zeros to whole blocks.
#[derive(Debug)]
pub struct Panels {
    groups: Vec<Group>,
    layout: Layout,
    parts: usize,
    /// Lines of the factor.
    pub lines: usize,
    /// Numbers of a line.
    pub inner: usize,
}

impl Panels {
    /// Packs the rows of `lines` in the layout of `side`, on all cores if `is_parallel`, in the
    /// memory of `room`.
    pub fn pack(
        unit: Unit,
        side: Side,
        lines: Matrix<'_>,
        split: Split,
        room: Vec<Group>,
        is_parallel: bool,
    ) -> Self {
        let mut groups = room;
        groups.clear();
        let [lines_len, inner] = [lines.rows, lines.columns];
        let (layout, parts) = (unit.layout(side), split.parts());
        let panels = Self { groups: Vec::new(), layout, parts, lines: lines_len, inner };
        let (len, depth) = (panels.panel_stride(), panels.depth());
        let count = len * panels.count();
        groups.reserve(count);
        let room = &mut groups.spare_capacity_mut()[..count];
        let pack = |(index, room): (usize, &mut [MaybeUninit<Group>])| {
            pack_panel(unit, lines, index, layout, depth, room);
        };
        if is_parallel {
            room.par_chunks_mut(len.max(1)).enumerate().for_each(pack);
        } else {
            room.chunks_mut(len.max(1)).enumerate().for_each(pack);
        }
        // SAFETY: `pack_panel` writes all groups of a panel.
        #[allow(unsafe_code)]
        unsafe {
            groups.set_len(count);
        }
        Self { groups, ..panels }
    }

    /// Returns the memory, for other panels.
    pub fn into_room(self) -> Vec<Group> {
        self.groups
    }

    /// Returns the number of panels.
    pub fn count(&self) -> usize {
        self.lines.div_ceil(self.layout.lines)
    }

    /// Returns the number of blocks of a line.
    fn depth(&self) -> usize {
        self.inner.div_ceil(BLOCK_DEPTH)
    }

    /// Returns the number of groups of one part of a panel.
    pub fn panel_len(&self) -> usize {
        self.layout.lines * self.depth()
    }

    /// Returns the number of groups from a panel to the next.
    pub fn panel_stride(&self) -> usize {
        self.panel_len() * self.parts
    }

    /// Returns one part of `count` panels from `index` on; between two of them are the other parts.
    pub fn panels(&self, index: usize, count: usize, part: usize) -> &[Group] {
        let start = index * self.panel_stride() + part * self.panel_len();
        &self.groups[start..][..(count - 1) * self.panel_stride() + self.panel_len()]
    }
}

/// Packs panel `index` of the rows of `lines`, all parts one after the other.
fn pack_panel(
    unit: Unit,
    lines: Matrix<'_>,
    index: usize,
    layout: Layout,
    depth: usize,
    room: &mut [MaybeUninit<Group>],
) {
    let (high, low) = room.split_at_mut(layout.lines * depth);
    for half in 0..layout.lines / BLOCK_LINES {
        let first = (index * layout.lines + half * BLOCK_LINES).min(lines.rows);
        let last = (first + BLOCK_LINES).min(lines.rows);
        for block in 0..depth {
            let inner = block * BLOCK_DEPTH..((block + 1) * BLOCK_DEPTH).min(lines.columns);
            let (start, stride) = layout.block(depth, half, block);
            let low = if low.is_empty() { None } else { Some(&mut low[start..]) };
            let part = lines.part(first..last, inner);
            pack_block(unit, part, layout.order, &mut high[start..], low, stride);
        }
    }
}
