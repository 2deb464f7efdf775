//! The statistics of a store.

use std::sync::atomic::Ordering::Relaxed;

use super::shared::Shared;
use crate::format::SEGMENT_BYTES;

/// The statistics of a store. Counters begin at 0 at each start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The number of items on the disk, including expired items and items that are also in memory.
    pub items: u64,
    /// The size of the log, in bytes.
    pub size_bytes: u64,
    /// The estimated length of the live records, in bytes.
    pub live_bytes: u64,
    /// The limit of live records, in bytes. Above it a store accepts no more items.
    pub live_bytes_max: u64,
    /// The size of all free extents, in bytes.
    pub free_bytes: u64,
    /// The memory of the catalog, in bytes.
    pub catalog_bytes: u64,
    /// The memory limit of the catalog, in bytes.
    pub catalog_bytes_max: u64,
    /// The length of records that are not durable yet, in bytes.
    pub dirty_bytes: u64,
    /// Bytes written to the log, without the zeros of new extents.
    pub written_bytes: u64,
    /// Zeros written when extents were allocated, in bytes.
    pub zeroed_bytes: u64,
    /// The number of syncs.
    pub syncs: u64,
    /// The total time of the syncs, in microseconds.
    pub sync_us: u64,
    /// The number of records read from the disk.
    pub reads: u64,
    /// The number of bytes read for these records.
    pub read_bytes: u64,
    /// The number of segments begun.
    pub begun_segments: u64,
    /// The number of segments reclaimed.
    pub reclaimed_segments: u64,
    /// The number of reclaimed segments of a cache that had live items.
    pub evicted_segments: u64,
    /// The number of live items of a cache that were dropped with their segments.
    pub evicted_items: u64,
    /// The length of their records, in bytes.
    pub evicted_bytes: u64,
    /// The number of items that reclaim copied.
    pub copied_items: u64,
    /// The number of damaged segments that reclaim found.
    pub damaged_segments: u64,
    /// The number of damaged items that reclaim found and that no later change has replaced or
    /// removed.
    pub lost_items: u64,
    /// The number of failed reads that reclaim repeated.
    pub retried_reads: u64,
    /// The number of items of a cache that memory evicted and the log accepted.
    pub kept_items: u64,
    /// The number of items of a cache that memory evicted and the log had no space for.
    pub dropped_items: u64,
    /// The number of values that were compressed.
    pub compressed_items: u64,
    /// The length of these values before compression, in bytes.
    pub compressed_from_bytes: u64,
    /// Their length after compression, in bytes.
    pub compressed_to_bytes: u64,
    /// The number of the newest dictionary; 0: the directory has no dictionary.
    pub dictionary: u64,
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
        compressed_items: shared.values.counts.items.load(Relaxed),
        compressed_from_bytes: shared.values.counts.from_bytes.load(Relaxed),
        compressed_to_bytes: shared.values.counts.to_bytes.load(Relaxed),
        dictionary: shared.values.newest().into(),
        has_failed: shared.has_failed.load(Relaxed),
    }
}
