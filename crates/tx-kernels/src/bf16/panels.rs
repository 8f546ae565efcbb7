//! Factors of a product in the order in which a unit reads them.

use std::mem::MaybeUninit;

use rayon::prelude::*;

use super::{
    Split,
    layout::{BLOCK_DEPTH, BLOCK_LINES, Group, Layout, Order},
    pack::{Number, PairPanels, pack_block, pack_pairs},
    unit::{Side, Unit},
};
use crate::matrix::Matrix;

/// Panels that a thread packs together. If the lines are the columns of a matrix, it reads 256 bytes
/// of each row at a time.
const PANELS_OF_TASK: usize = 4;

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
    pub fn pack<T: Number>(
        unit: Unit,
        side: Side,
        lines: Matrix<'_, T>,
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
        let task = (PANELS_OF_TASK * len).max(1);
        let pack = |(index, room): (usize, &mut [MaybeUninit<Group>])| {
            pack_panels(unit, lines, index * PANELS_OF_TASK, layout, [len, depth], room);
        };
        if is_parallel {
            room.par_chunks_mut(task).enumerate().for_each(pack);
        } else {
            room.chunks_mut(task).enumerate().for_each(pack);
        }
        // SAFETY: `pack_panels` writes all groups.
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

/// Packs the panels of `room`, `len` groups and `depth` blocks each, from panel `first` of the rows
/// of `lines`.
fn pack_panels<T: Number>(
    unit: Unit,
    lines: Matrix<'_, T>,
    first: usize,
    layout: Layout,
    [len, depth]: [usize; 2],
    room: &mut [MaybeUninit<Group>],
) {
    let count = room.len() / len.max(1);
    if let Some(proof) = unit.vectors()
        && lines.row_stride == 1
        && layout.order == Order::Pairs
    {
        let [start, end] =
            [first, first + count].map(|panel| (panel * layout.lines).min(lines.rows));
        let lines = lines.part(start..end, 0..lines.columns);
        pack_pairs(proof, lines, PairPanels { layout, len, depth }, room);
        return;
    }
    let mut pack = |panel: usize, block: usize| {
        let inner = block * BLOCK_DEPTH..((block + 1) * BLOCK_DEPTH).min(lines.columns);
        let (high, low) = room[panel * len..][..len].split_at_mut(layout.lines * depth);
        for half in 0..layout.lines / BLOCK_LINES {
            let start = ((first + panel) * layout.lines + half * BLOCK_LINES).min(lines.rows);
            let part = lines.part(start..(start + BLOCK_LINES).min(lines.rows), inner.clone());
            let (start, stride) = layout.block(half, block);
            let low = if low.is_empty() { None } else { Some(&mut low[start..]) };
            pack_block(unit, part, layout.order, &mut high[start..], low, stride);
        }
    };
    // In the order of the memory.
    if lines.row_stride == 1 {
        (0..depth).for_each(|block| (0..count).for_each(|panel| pack(panel, block)));
    } else {
        (0..count).for_each(|panel| (0..depth).for_each(|block| pack(panel, block)));
    }
}
