//! The space thread: it allocates extents, and reclaims the oldest segments. To *reclaim* a segment
//! is to copy its live records to the head of the log, or to drop them in mode cache, and then to
//! free its extent.

pub(super) mod cycle;
mod damage;
mod look;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use zerocopy::IntoBytes;

use crate::disk::{File, PAGE_BYTES, Page, zeroed_pages};
use crate::format::{
    Address, CompressedItem, Item, Record, SEGMENT_BYTES, SEGMENT_PAGES, SegmentNumber, Unit,
};
use crate::log::Extent;
use crate::recovery::Place;
use crate::store::appender::Purpose;
use crate::store::catalog::{KeyBits, Location};
use crate::store::error::Refusal;
use crate::store::shared::Shared;
use crate::store::values::Buffers;

/// How long the thread sleeps when it has nothing to do.
const PAUSE: Duration = Duration::from_millis(200);

/// The maximum number of extents that are prepared in advance.
const READY: usize = 12;

/// Runs until the store closes or the log fails.
pub(super) fn run<F: File>(shared: &Shared<F>) {
    let mut segment = zeroed_pages(SEGMENT_PAGES);
    while !shared.is_over() {
        let has_worked =
            prepare(shared) || reclaim(shared, &mut segment) || look::look(shared, &mut segment);
        shared.estimate_live_bytes();
        if !has_worked {
            let head = shared.head();
            if !shared.is_over() {
                drop(shared.wait(&shared.space, head, PAUSE));
            }
        }
    }
}

/// Returns how many extents should be ready. In a store, items begin another segment only if more
/// than three extents are ready; in a cache, if one is ready.
pub(super) fn wanted<F>(shared: &Shared<F>) -> usize {
    if shared.is_cache {
        return (shared.extents.count() as usize / 16).clamp(2, READY);
    }
    (shared.extents.count() as usize / 8).clamp(4, READY)
}

/// Allocates an extent if too few are ready. Returns false if there is nothing to do.
pub(super) fn prepare<F: File>(shared: &Shared<F>) -> bool {
    let extent = {
        let mut head = shared.head();
        if head.ready() >= wanted(shared) {
            return false;
        }
        let Some(extent) = head.take_free() else { return false };
        extent
    };
    let allocated = match has_reserve(shared) {
        true => shared.log.allocate(extent).map(|()| true),
        false => Ok(false),
    };
    match allocated {
        Ok(true) => {
            shared.counts.zeroed_bytes.fetch_add(SEGMENT_BYTES as u64, Relaxed);
            shared.head().put_ready(extent);
            shared.progress.notify_all();
            true
        }
        Err(error) if !error.is_full() => {
            shared.fail(&error);
            true
        }
        Ok(false) | Err(_) => {
            shared.head().put_back(extent);
            shared.progress.notify_all();
            false
        }
    }
}

/// True if the file system has space for another extent, and for everything that a stop and a start
/// write after that: the index and the manifest.
fn has_reserve<F: File>(shared: &Shared<F>) -> bool {
    let index_bytes = shared.catalog.bytes();
    let needed = SEGMENT_BYTES as u64 + index_bytes + RESERVE_BYTES;
    // If the file system does not report its free space, the allocation itself is tried.
    shared.log.free_bytes().map_or(true, |free| free >= needed)
}

/// The space that is left for the manifest and for the metadata of the file system, in bytes.
const RESERVE_BYTES: u64 = 1 << 20;

/// Reclaims the oldest segment if too few extents are free. Returns false if there is nothing to
/// do.
fn reclaim<F: File>(shared: &Shared<F>, segment: &mut [Page]) -> bool {
    let (extent, number) = {
        let mut head = shared.head();
        // Rule: ReclaimFromTail
        let Some((extent, number, next)) = head.oldest() else { return false };
        // Only a durable segment may be freed.
        let is_synced = shared.is_synced(Address::new(next, 0));
        let is_wanted = head.free_soon() <= wanted(shared) || shared.is_catalog_full.load(Relaxed);
        if !is_wanted || !is_synced || head.is_reclaim_vain(shared.live_bytes()) {
            return false;
        }
        head.note_reclaim(shared.live_bytes());
        (extent, number)
    };
    if shared.is_cache {
        if !drop_all(shared, extent, number, segment) {
            return true;
        }
    } else if shared.extents.is_live(extent) {
        if !damage::read(shared, extent, segment) {
            return false;
        }
        if !copy_live(shared, extent, number, segment) {
            return true;
        }
    }
    let mut head = shared.head();
    if shared.is_over() {
        // The flusher may have ended. The segment would then be neither in the snapshot nor erased.
        return true;
    }
    shared.extents.free(extent);
    head.give_up(extent, number, shared.synced(), shared.now());
    if !shared.is_cache {
        // A cache drops its oldest items, so reclaim always gains space.
        head.note_reclaimed(shared.live_bytes());
    }
    drop(head);
    shared.counts.reclaimed_segments.fetch_add(1, Relaxed);
    shared.work.notify_one();
    true
}

/// Removes the items of a cache's segment from the catalog. Returns false if the store stops.
fn drop_all<F: File>(
    shared: &Shared<F>,
    extent: Extent,
    number: SegmentNumber,
    segment: &mut [Page],
) -> bool {
    shared.is_catalog_full.store(false, Relaxed);
    if !shared.extents.is_live(extent) {
        return true;
    }
    let counts = &shared.counts;
    counts.evicted_segments.fetch_add(1, Relaxed);
    let is_whole = shared.log.segment(extent, segment).is_ok()
        && records(shared, number, segment, |at, filed, record| {
            let location = Location::new(extent, at.offset());
            let _head = shared.head();
            if !shared.is_over() && shared.catalog.remove(filed, location) {
                shared.extents.note_dead(location);
                counts.evicted_items.fetch_add(1, Relaxed);
                counts.evicted_bytes.fetch_add(record.bytes() as u64, Relaxed);
            }
            true
        }) == Walk::Done;
    let _head = shared.head();
    if shared.is_over() {
        return false;
    }
    if !is_whole || shared.extents.is_live(extent) {
        // The keys of damaged records are unknown.
        counts.damaged_segments.fetch_add(1, Relaxed);
        let [_, _, live] = shared.extents.counts(extent);
        counts.evicted_items.fetch_add(u64::from(live), Relaxed);
        shared.catalog.remove_extent(extent);
        shared.extents.note_extent_dead(extent);
    }
    true
}

/// How a walk over the records of a segment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    Done,
    /// The visitor stopped it.
    Ended,
    /// The segment is damaged.
    Damaged,
}

/// Calls `show` with the records of a segment that the catalog may point to: items and lost items.
pub(super) fn records<F: File>(
    shared: &Shared<F>,
    number: SegmentNumber,
    segment: &[Page],
    mut show: impl FnMut(Address, KeyBits, &Record<'_>) -> bool,
) -> Walk {
    let (seal, bytes) = (shared.log.seal(), segment.as_bytes());
    let mut page = 1;
    while page < SEGMENT_PAGES {
        let Ok(unit) = Unit::read(seal, number, page, bytes) else { return Walk::Damaged };
        if unit.is_void {
            break;
        }
        for record in unit.records() {
            let Ok((at, record)) = record else { return Walk::Damaged };
            let Some(filed) = KeyBits::of_record(&shared.hasher, &record) else { continue };
            if !matches!(record, Record::Tombstone { .. }) && !show(at, filed, &record) {
                return Walk::Ended;
            }
        }
        page += unit.pages;
    }
    Walk::Done
}

/// Copies the live records of a segment to the head. Returns false if the store stops.
fn copy_live<F: File>(
    shared: &Shared<F>,
    extent: Extent,
    number: SegmentNumber,
    segment: &[Page],
) -> bool {
    let copied = records(shared, number, segment, |at, filed, record| {
        copy(shared, Place { extent, at }, filed, record)
    });
    match copied {
        Walk::Done => true,
        Walk::Ended => false,
        Walk::Damaged => damage::copy(shared, extent, number, segment),
    }
}

/// Copies a record to the head if the catalog still points to it. Returns false if the store stops.
fn copy<F: File>(shared: &Shared<F>, from: Place, filed: KeyBits, record: &Record<'_>) -> bool {
    let location = Location::new(from.extent, from.at.offset());
    if !shared.catalog.has(filed, location) {
        return true;
    }
    let mut buffers = Buffers::default();
    let (record, value_bytes) = &shared.values.encode_again(record, &mut buffers);
    let mut head = shared.head();
    loop {
        // The record is evaluated under the lock that orders all changes and that also covers the
        // append of the copy.
        // Rule: JudgeAfterReserve
        if shared.is_over() {
            return false;
        }
        if !shared.catalog.has(filed, location) {
            return true;
        }
        let now = shared.now();
        if record.deadline_unix_secs().is_some_and(|deadline| deadline <= now) {
            // Rule: EmptyDeadSlot
            forget(shared, filed, location, now);
            return true;
        }
        let appended = match shared.has_room(&head) {
            true => shared.append(&mut head, record, Some(filed), Purpose::Copy),
            false => Err(Refusal::Busy),
        };
        match appended {
            Ok(to) => {
                shared.file(filed, Some(location), to, record);
                if let Record::Item(Item { key, .. })
                | Record::Compressed(CompressedItem { item: Item { key, .. }, .. })
                | Record::Lost { key, .. } = record
                {
                    shared.note_copy(key, from.at, to.at);
                }
                if let Some(value_bytes) = value_bytes {
                    shared.values.note_appended(record, *value_bytes);
                }
                shared.counts.copied_items.fetch_add(1, Relaxed);
                return true;
            }
            Err(_) => head = shared.wait(&shared.progress, head, PAUSE),
        }
    }
}

/// Removes an expired item from the catalog. The caller holds the head lock.
pub(super) fn forget<F>(
    shared: &Shared<F>,
    filed: KeyBits,
    location: Location,
    now_unix_secs: u64,
) {
    shared.note_dropping(now_unix_secs);
    if shared.catalog.remove(filed, location) {
        shared.extents.note_dead(location);
    }
}

const _: () = assert!(PAGE_BYTES * SEGMENT_PAGES == SEGMENT_BYTES);
