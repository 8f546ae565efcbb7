//! Order of the numbers of packed factors.

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
    /// Returns the group of a panel with which a block begins, and the distance
    /// from each of its groups to the next. The block is the `half`-th of its lines, at block
    /// `index` of the depth.
    pub fn block(self, half: usize, index: usize) -> (usize, usize) {
        match self.order {
            Order::Pairs => {
                let halves = self.lines / BLOCK_LINES;
                (index * self.lines + half, halves)
            }
            Order::Lines => (index * self.lines + half * BLOCK_LINES, 1),
        }
    }
}
