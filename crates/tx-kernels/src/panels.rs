//! Memory of the panels of a packed matrix.

use std::{
    ops::{Deref, Range},
    sync::Arc,
};

use memmap2::MmapMut;
use rayon::prelude::*;

use crate::layout::PANEL;

/// One row of a panel.
pub(crate) type PanelRow = [f32; PANEL];

/// Number of panel rows that one core packs at a time, about.
const PIECE: usize = 1 << 12;

/// Bytes of a matrix that has a memory map of its own.
const MAPPED: usize = 1 << 20;

/// Bytes of a memory map that the system provides at once, before they are filled: few enough for the
/// cache of all cores.
const WAVE: usize = 1 << 23;

/// Rows of all panels of a matrix.
#[derive(Debug, Clone)]
pub(crate) enum Panels {
    Heap(Vec<PanelRow>),
    /// Clones share the map.
    Mapped(Arc<MmapMut>),
}

impl Panels {
    /// Computes `row(panel, input)` for all rows of `count` panels; on all cores if `parallel`. The rows
    /// of `together` panels with the same input are computed in succession.
    pub(crate) fn fill(
        [count, inputs]: [usize; 2],
        together: usize,
        parallel: bool,
        row: impl Fn(usize, usize) -> PanelRow + Sync,
    ) -> Self {
        let tile = together * inputs.max(1);
        let fill_tile = |first: usize, rows: &mut [PanelRow]| {
            for input in 0..inputs {
                for (panel, rows) in rows.chunks_exact_mut(inputs).enumerate() {
                    rows[input] = row(first + panel, input);
                }
            }
        };
        let piece = tile * (PIECE / tile).max(1);
        let fill_piece = |first: usize, rows: &mut [PanelRow]| {
            for (index, rows) in rows.chunks_mut(tile).enumerate() {
                fill_tile(first + index * together, rows);
            }
        };
        let fill = |first: usize, rows: &mut [PanelRow]| {
            let first_of = |index: usize| first + index * (piece / inputs.max(1));
            match parallel {
                true => rows
                    .par_chunks_mut(piece)
                    .enumerate()
                    .for_each(|(index, rows)| fill_piece(first_of(index), rows)),
                false => fill_piece(first, rows),
            }
        };

        let bytes = count * inputs * size_of::<PanelRow>();
        let Some(mut map) = (bytes >= MAPPED).then(|| MmapMut::map_anon(bytes).ok()).flatten()
        else {
            let mut rows = vec![[0.0; PANEL]; count * inputs];
            fill(0, &mut rows);
            return Self::Heap(rows);
        };
        ask_for_huge_pages(&map);
        let panel = inputs * size_of::<PanelRow>();
        let wave = panel * piece / inputs * (WAVE / (panel * piece / inputs)).max(1);
        for start in (0..bytes).step_by(wave) {
            let end = (start + wave).min(bytes);
            provide(&map, start..end, parallel);
            fill(start / panel, bytemuck::cast_slice_mut(&mut map[start..end]));
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

/// Asks for huge pages, which many distributions of Linux provide on request only. With small pages, reading
/// the weights once, as each step of decoding does, takes up to twice as long: the CPU does not prefetch
/// across the end of a page.
fn ask_for_huge_pages(map: &MmapMut) {
    // A failure costs time, not correctness: a kernel can be built without huge pages.
    #[cfg(target_os = "linux")]
    drop(map.advise(memmap2::Advice::HugePage));
    #[cfg(not(target_os = "linux"))]
    let _ = map;
}

/// Asks the system for the pages of a range, on all cores if `parallel`: one call for many pages takes a
/// fraction of the time of their page faults.
fn provide(map: &MmapMut, range: Range<usize>, parallel: bool) {
    #[cfg(target_os = "linux")]
    {
        /// Bytes that one system call provides.
        const PROVIDED: usize = 1 << 18;

        // A failure costs time, not correctness: Linux before 5.14 has no such call.
        let provide = |start: usize| {
            let length = PROVIDED.min(range.end - start);
            drop(map.advise_range(memmap2::Advice::PopulateWrite, start, length));
        };
        let starts = range.clone().step_by(PROVIDED);
        match parallel {
            true => starts.collect::<Vec<_>>().into_par_iter().for_each(provide),
            false => starts.for_each(provide),
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (map, range, parallel);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_their_panel_and_input() {
        let bytes = size_of::<PanelRow>();
        let cases =
            [(0, 3), (1, 1), (5, 7), (MAPPED / bytes / 32 - 1, 32), (MAPPED / bytes / 32, 32)];
        for (count, inputs) in
            cases.into_iter().chain([(41, 700), (3, 5_000), (WAVE / bytes / 64 + 9, 64)])
        {
            for (together, parallel) in [(1, false), (1, true), (8, false), (8, true)] {
                let row = |panel: usize, input: usize| [(panel * inputs + input) as f32; PANEL];
                let panels = Panels::fill([count, inputs], together, parallel, row);
                let is_mapped = count * inputs * bytes >= MAPPED;
                assert_eq!(matches!(panels, Panels::Mapped(_)), is_mapped);
                assert_eq!(panels.len(), count * inputs);
                for (index, row) in panels.iter().enumerate() {
                    assert_eq!(*row, [index as f32; PANEL]);
                }
                let copy = panels.clone();
                drop(panels);
                assert_eq!(copy.len(), count * inputs);
            }
        }
    }
}
