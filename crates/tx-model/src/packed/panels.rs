//! Memory of the panels of a packed matrix.

use std::{ops::Deref, sync::Arc};

use memmap2::MmapMut;
use rayon::prelude::*;

use super::matrix::PANEL;

/// One row of a panel.
pub(super) type PanelRow = [f32; PANEL];

/// Number of panel rows that one core packs at a time.
const PIECE: usize = 1 << 12;

/// Bytes of a matrix that has a memory map of its own, in huge pages if the system has them: one
/// page fault for 2 MiB takes a fraction of the time of 512, and a product misses the translation
/// cache less often.
const MAPPED: usize = 1 << 20;

/// Rows of all panels of a matrix.
#[derive(Debug, Clone)]
pub(super) enum Panels {
    Heap(Vec<PanelRow>),
    /// Clones share the map.
    Mapped(Arc<MmapMut>),
}

impl Panels {
    /// Computes `count` rows by their index; on all cores if `parallel`.
    pub(super) fn fill(
        count: usize,
        parallel: bool,
        row: impl Fn(usize) -> PanelRow + Sync,
    ) -> Self {
        let Some(mut map) = huge_pages(count * size_of::<PanelRow>()) else {
            let rows = 0..count;
            return Self::Heap(match parallel {
                true => rows.into_par_iter().with_min_len(PIECE).map(&row).collect(),
                false => rows.map(&row).collect(),
            });
        };
        let rows: &mut [PanelRow] = bytemuck::cast_slice_mut(&mut map);
        let fill = |(piece, rows): (usize, &mut [PanelRow])| {
            for (place, index) in rows.iter_mut().zip(piece * PIECE..) {
                *place = row(index);
            }
        };
        match parallel {
            true => rows.par_chunks_mut(PIECE).enumerate().for_each(fill),
            false => rows.chunks_mut(PIECE).enumerate().for_each(fill),
        }
        Self::Mapped(Arc::new(map))
    }
}

impl Deref for Panels {
    type Target = [PanelRow];

    fn deref(&self) -> &[PanelRow] {
        match self {
            Self::Heap(rows) => rows,
            Self::Mapped(map) => bytemuck::cast_slice(map),
        }
    }
}

/// Returns zeroed memory of its own for a large matrix; `None` for a small one, or if the system has
/// no memory maps.
fn huge_pages(bytes: usize) -> Option<MmapMut> {
    if bytes < MAPPED {
        return None;
    }
    let map = MmapMut::map_anon(bytes).ok()?;
    // A failure costs time, not correctness.
    #[cfg(target_os = "linux")]
    drop(map.advise(memmap2::Advice::HugePage));
    Some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_their_index() {
        let mapped = MAPPED / size_of::<PanelRow>();
        for count in [0, 1, mapped - 1, mapped, mapped + PIECE / 2 + 1] {
            for parallel in [false, true] {
                let panels = Panels::fill(count, parallel, |index| [index as f32; PANEL]);
                assert_eq!(matches!(panels, Panels::Mapped(_)), count >= mapped);
                assert_eq!(panels.len(), count);
                for (index, row) in panels.iter().enumerate() {
                    assert_eq!(*row, [index as f32; PANEL]);
                }
                let copy = panels.clone();
                drop(panels);
                assert_eq!(copy.len(), count);
            }
        }
    }
}
