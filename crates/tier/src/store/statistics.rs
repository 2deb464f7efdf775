//! The statistics of a store.

use std::sync::atomic::Ordering::Relaxed;

use super::shared::Shared;
use crate::format::SEGMENT_BYTES;

/// The statistics of a store. Counts are since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Items on the disk, those in memory and expired ones included.
    pub items: u64,
    /// Size of the log, in bytes.
    pub size_bytes: u64,
    /// Length of the live records, in bytes: an estimate.
    pub live_bytes: u64,
    /// Length of the live records beyond which a store takes no more, in bytes.
    pub live_bytes_max: u64,
    /// Free extents, in bytes.
    pub free_bytes: u64,
    /// Memory of the catalog, in bytes.
    pub catalog_bytes: u64,
    /// Memory that the catalog may have, in bytes.
    pub catalog_bytes_max: u64,
    /// Bytes that are not durable yet.
    pub dirty_bytes: u64,
    /// Bytes written to the log, without zeros.
    pub written_bytes: u64,
    /// Zeros written to allocate extents, in bytes.
    pub zeroed_bytes: u64,
    /// Syncs.
    pub syncs: u64,
    /// The time that they took, in microseconds.
    pub sync_us: u64,
    /// Records read from the disk.
    pub reads: u64,
    /// Bytes read for them.
    pub read_bytes: u64,
    /// Segments that were begun.
    pub begun_segments: u64,
    /// Segments that were reclaimed.
    pub reclaimed_segments: u64,
    /// Those of a cache that had items.
    pub evicted_segments: u64,
    /// Items of a cache that went with them.
    pub evicted_items: u64,
    /// Length of their records, in bytes.
    pub evicted_bytes: u64,
    /// Items that reclaim has copied.
    pub copied_items: u64,
    /// Segments that reclaim has found damaged.
    pub damaged_segments: u64,
    /// Items that reclaim has found damaged, and that no change has replaced or removed since.
    pub lost_items: u64,
    /// Reads of reclaim that failed, and that it has tried again.
    pub retried_reads: u64,
    /// Items of a cache that memory evicted and the log took.
    pub kept_items: u64,
    /// Items of a cache that memory evicted and the log had no room for.
    pub dropped_items: u64,
    /// True if the log has failed.
    pub has_failed: bool,
}

pub(super) fn of<F>(shared: &Shared<F>) -> Statistics {
    let (free, dirty_bytes) = {
        let head = shared.head();
        (head.free() as u64, head.dirty_bytes())
    };
    let counts = &shared.counts;
    Statistics {
        items: shared.catalog.items(),
        size_bytes: u64::from(shared.extents.count()) * SEGMENT_BYTES as u64,
        live_bytes: shared.live_bytes(),
        live_bytes_max: shared.live_bytes_max(),
        free_bytes: free * SEGMENT_BYTES as u64,
        catalog_bytes: shared.catalog.bytes(),
        catalog_bytes_max: shared.settings.catalog_bytes_max,
        dirty_bytes,
        written_bytes: counts.written_bytes.load(Relaxed),
        zeroed_bytes: counts.zeroed_bytes.load(Relaxed),
        syncs: counts.syncs.load(Relaxed),
        sync_us: counts.sync_us.load(Relaxed),
        reads: counts.reads.load(Relaxed),
        read_bytes: counts.read_bytes.load(Relaxed),
        begun_segments: counts.begun_segments.load(Relaxed),
        reclaimed_segments: counts.reclaimed_segments.load(Relaxed),
        evicted_segments: counts.evicted_segments.load(Relaxed),
        evicted_items: counts.evicted_items.load(Relaxed),
        evicted_bytes: counts.evicted_bytes.load(Relaxed),
        copied_items: counts.copied_items.load(Relaxed),
        damaged_segments: counts.damaged_segments.load(Relaxed),
        lost_items: shared.extents.lost_count(),
        retried_reads: counts.retried_reads.load(Relaxed),
        kept_items: counts.kept_items.load(Relaxed),
        dropped_items: counts.dropped_items.load(Relaxed),
        has_failed: shared.has_failed.load(Relaxed),
    }
}
