//! Scans the segments of a store that is nearly full, for expired items and for the length of live
//! records.
//!
//! Reclaim also finds expired items, but it begins only when few extents are free, and a store
//! refuses items before that. The length of live records is estimated from the mean length of a
//! segment's items. The estimate is wrong where long items have died and short ones live. This scan
//! reads segments without copying them.

use crate::disk::{File, Page};
use crate::log::Extent;
use crate::store::catalog::Location;
use crate::store::extents::Counted;
use crate::store::shared::Shared;

use super::{Walk, forget, records};

/// Removes the expired items of one segment from the catalog and counts the others, if the store is
/// nearly full. Returns false if there is nothing to do.
///
/// Cost: a read of the segment. It is repeated when the next deadline of its items has passed, or
/// if some of its items have died and the store is full.
pub(super) fn look<F: File>(shared: &Shared<F>, segment: &mut [Page]) -> bool {
    let now = shared.now();
    if shared.is_cache || !is_nearly_full(shared) {
        return false;
    }
    let Some(extent) = next(shared, now) else { return false };
    let Some(number) = shared.extents.number(extent) else { return false };
    let mut earliest: Option<u64> = None;
    let mut live = Counted::default();
    let is_read = shared.log.segment(extent, segment).is_ok()
        && records(shared, number, segment, |at, filed, record| {
            let location = Location::new(extent, at.offset());
            if !shared.catalog.has(filed, location) {
                return true;
            }
            let deadline = record.deadline_unix_secs();
            if deadline.is_none_or(|deadline| deadline > now) {
                earliest = earliest.into_iter().chain(deadline).min();
                live.items += 1;
                live.bytes += record.bytes() as u32;
                return true;
            }
            let _head = shared.head();
            // Checked again under the lock: the record may have been replaced, and a closed store
            // must not change.
            if !shared.is_over() && shared.catalog.has(filed, location) {
                forget(shared, filed, location, now);
            }
            true
        }) == Walk::Done;
    // Reclaim handles segments that cannot be read.
    let counted = if is_read { live } else { Counted::default() };
    shared.extents.set_counted(extent, counted);
    shared.extents.set_earliest_deadline(extent, earliest.filter(|_| is_read));
    shared.estimate_live_bytes();
    shared.progress.notify_all();
    true
}

/// True if expired items will soon prevent the store from accepting others.
fn is_nearly_full<F>(shared: &Shared<F>) -> bool {
    let is_nearly = |used: u64, max: u64| used > max / 8 * 7;
    is_nearly(shared.live_bytes(), shared.live_bytes_max())
        || is_nearly(shared.catalog.bytes(), shared.settings.catalog_bytes_max)
}

/// Returns the oldest closed segment that has an expired item, or that must be counted.
fn next<F>(shared: &Shared<F>, now_unix_secs: u64) -> Option<Extent> {
    let head = shared.head();
    let synced = shared.synced()?;
    let closed = head.segments().iter().take_while(|(_, number)| *number < synced.number());
    let (mut earliest, is_full) = (u64::MAX, shared.is_full());
    for (extent, _) in closed {
        if is_full && shared.extents.is_miscounted(*extent) {
            return Some(*extent);
        }
        let Some(deadline) = shared.extents.earliest_deadline(*extent) else { continue };
        earliest = earliest.min(deadline);
        if deadline <= now_unix_secs {
            shared.note_next_deadline(deadline);
            return Some(*extent);
        }
    }
    shared.note_next_deadline(earliest);
    shared.set_surely_full(is_full);
    None
}
