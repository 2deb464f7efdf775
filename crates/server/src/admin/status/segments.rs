//! A map of the cache's memory. It shows the segments, the parts of the memory that are filled and
//! emptied as a unit, in at most a thousand cells.

use larder::{Cache, SegmentReport};
use serde_json::{Value, json};
use tokio::task::yield_now;

/// Returns the segments in the order of their numbers, grouped into cells. Each cell contains the
/// number of its segments in each use, and the percentage of live bytes in its item segments.
///
/// If a cell has more than [`LOOKS`] segments, only that many are examined, evenly spread, so that
/// the cost does not grow with the memory.
pub(super) async fn map(cache: &Cache) -> Value {
    let report = cache.report();
    let per_cell = report.segments.div_ceil(CELLS_MAX).max(1);
    let mut cells = Vec::new();
    for first in (0..report.segments).step_by(per_cell as usize) {
        let segments = per_cell.min(report.segments - first);
        cells.push(cell(cache, first, segments, report.segment_bytes));
        if cells.len().is_multiple_of(CELLS_IN_SLICE) {
            yield_now().await;
        }
    }
    json!({
        "segments": report.segments,
        "segment_bytes": report.segment_bytes,
        "segments_per_cell": per_cell,
        "columns": ["main", "small", "index", "ghost", "free", "live_percent"],
        "cells": cells,
    })
}

/// Returns the row of a cell.
fn cell(cache: &Cache, first: u64, segments: u64, segment_bytes: u64) -> [u64; 6] {
    let looks = segments.min(LOOKS);
    let (mut counts, mut live) = ([0; 5], 0);
    for look in 0..looks {
        let number = first + look * segments / looks;
        let Some(segment) = u32::try_from(number).ok().and_then(|number| cache.segment(number))
        else {
            continue;
        };
        counts[usage(&segment) as usize] += 1;
        live += segment.live_bytes as u64;
    }
    let with_items = counts[Usage::Main as usize] + counts[Usage::Small as usize];
    let live_percent = (live * 100).checked_div(with_items * segment_bytes).unwrap_or(0);
    let [main, small, index, ghost, free] = counts;
    [main, small, index, ghost, free, live_percent.min(100)]
}

/// The use of a segment, in the order of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usage {
    /// Items of the main pool: they were read, or returned soon after an eviction.
    Main,
    /// Items of the small pool, where new items begin.
    Small,
    /// The hash table of the keys.
    Index,
    /// The fingerprints of items that were evicted recently.
    Ghost,
    Free,
}

fn usage(segment: &SegmentReport) -> Usage {
    match segment.state {
        "active" | "sealed" | "emptying" if segment.is_small => Usage::Small,
        "active" | "sealed" | "emptying" => Usage::Main,
        "index" | "overflow" => Usage::Index,
        "ghost" => Usage::Ghost,
        _ => Usage::Free,
    }
}

const CELLS_MAX: u64 = 1024;

/// Maximum number of segments of a cell that are examined.
const LOOKS: u64 = 16;

/// After this many cells, other requests take their turn.
const CELLS_IN_SLICE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_shows_each_segment_once_or_bins_them() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for (memory, is_binned) in [(16 << 20, false), (8 << 30, true)] {
            let cache = Cache::builder().memory_bytes(memory).open().unwrap();
            for number in 0..4000 {
                cache.set(format!("key:{number}"), [b'v'; 1000], None).unwrap();
            }
            let (report, map) = (cache.report(), runtime.block_on(map(&cache)));
            let per_cell = map["segments_per_cell"].as_u64().unwrap();
            assert_eq!(per_cell > 1, is_binned, "{} segments", report.segments);
            let cells = map["cells"].as_array().unwrap();
            assert_eq!(cells.len() as u64, report.segments.div_ceil(per_cell));
            let sum = |column: usize| -> u64 {
                cells.iter().map(|cell| cell[column].as_u64().unwrap()).sum()
            };
            assert_eq!(sum(0) + sum(1), report.segments_items, "segments of items");
            assert_eq!(sum(2), report.segments_index, "segments of the index");
            let all: u64 = (0..5).map(sum).sum();
            assert_eq!(all, report.segments, "each segment is in one column");
            let live = cells.iter().filter_map(|cell| cell[5].as_u64()).max();
            assert!(live > Some(80), "a sequentially filled segment is mostly live: {live:?}");
        }
    }
}
