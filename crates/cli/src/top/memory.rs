//! The map of segments, the units into which the server's memory is divided.

use serde_json::Value;

/// The segments of a server, binned into cells.
#[derive(Clone, Debug, Default)]
pub(super) struct Map {
    pub(super) cells: Vec<Cell>,
    /// The number of segments per cell.
    pub(super) segments_per_cell: u64,
}

/// A group of adjacent segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    /// The number of segments with each use, in the order of [`Usage`].
    counts: [u64; 5],
    /// The live bytes of the segments with items, in percent of their size.
    live_percent: u64,
}

/// The use of a segment: items of the main or the small pool, the index, the ghost queue, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usage {
    Main,
    Small,
    Index,
    Ghost,
    Free,
}

impl Map {
    /// Reads the map from a status. Returns an empty map if the status does not contain one.
    pub(super) fn of(status: &Value) -> Self {
        let map = &status["segments"];
        let cells = map["cells"].as_array().map(Vec::as_slice).unwrap_or_default();
        let cells = cells.iter().take(CELLS_MAX).map(Cell::of).collect();
        Self { cells, segments_per_cell: map["segments_per_cell"].as_u64().unwrap_or(1).max(1) }
    }

    /// Returns the map with at most `cells_max` cells.
    pub(super) fn binned(&self, cells_max: usize) -> Self {
        let per_cell = self.cells.len().div_ceil(cells_max.max(1)).max(1);
        Self {
            cells: self.cells.chunks(per_cell).map(Cell::merged).collect(),
            segments_per_cell: self.segments_per_cell.saturating_mul(per_cell as u64),
        }
    }
}

impl Cell {
    fn of(row: &Value) -> Self {
        let at = |column: usize| row[column].as_u64().unwrap_or_default();
        Self { counts: [at(0), at(1), at(2), at(3), at(4)], live_percent: at(5).min(100) }
    }

    fn merged(cells: &[Self]) -> Self {
        let mut counts = [0_u64; 5];
        let (mut live, mut with_items) = (0_u64, 0_u64);
        for cell in cells {
            for (sum, count) in counts.iter_mut().zip(cell.counts) {
                *sum = sum.saturating_add(count);
            }
            let items = cell.counts[0].saturating_add(cell.counts[1]);
            with_items = with_items.saturating_add(items);
            live = live.saturating_add(items.saturating_mul(cell.live_percent));
        }
        Self { counts, live_percent: live.checked_div(with_items).unwrap_or(0) }
    }

    /// Returns the most frequent use.
    pub(super) fn usage(&self) -> Usage {
        let most = self.counts.iter().max().copied().unwrap_or_default();
        let uses = [Usage::Main, Usage::Small, Usage::Index, Usage::Ghost, Usage::Free];
        let is_most = |(count, _): &(u64, Usage)| *count == most;
        self.counts.into_iter().zip(uses).find(is_most).map_or(Usage::Free, |(_, usage)| usage)
    }

    /// Returns the character that represents the cell.
    pub(super) fn symbol(&self) -> &'static str {
        match (self.usage(), self.live_percent) {
            (Usage::Main | Usage::Small, ..25) => "░",
            (Usage::Main | Usage::Small, ..50) => "▒",
            (Usage::Main | Usage::Small, ..75) => "▓",
            (Usage::Main | Usage::Small, _) => "█",
            (Usage::Index, _) => "i",
            (Usage::Ghost, _) => "g",
            (Usage::Free, _) => "·",
        }
    }
}

/// The server does not send more.
const CELLS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_are_merged_with_their_live_share() {
        let cells = json!([[1, 0, 0, 0, 0, 100], [0, 3, 0, 0, 0, 20], [0, 0, 0, 0, 4, 0]]);
        let map = Map::of(&json!({ "segments": { "segments_per_cell": 4, "cells": cells } }));
        assert_eq!(map.cells.iter().map(Cell::symbol).collect::<String>(), "█░·");
        let binned = map.binned(2);
        assert_eq!(binned.segments_per_cell, 8);
        assert_eq!(binned.cells[0], Cell { counts: [1, 3, 0, 0, 0], live_percent: 40 });
        assert_eq!(binned.cells[0].usage(), Usage::Small);
        assert_eq!(binned.cells.len(), 2);
        assert_eq!(map.binned(9).cells, map.cells);
    }

    #[test]
    fn a_malformed_map_is_shown_without_a_panic() {
        for segments in [json!(null), json!({"cells": [[], 7, [u64::MAX, u64::MAX, 0, 0, 0, 900]]})]
        {
            let map = Map::of(&json!({ "segments": segments }));
            assert!(map.binned(0).cells.len() <= 1 && map.binned(1).cells.len() <= 1);
        }
    }
}
