//! A store that gets full looks at its segments: for items that have expired, and how much lives.
//!
//! Reclaim meets expired items, too, but it begins only when segments are few, and a store refuses
//! items before that. How much lives is an estimate from the mean length of a segment's items,
//! which is wrong where long ones have died and short ones live. Here segments are read and not
//! copied.

use crate::disk::{File, Page};
use crate::log::Extent;
use crate::store::catalog::Location;
use crate::store::extents::Counted;
use crate::store::shared::Shared;

use super::{Walk, forget, records};

/// Drops the expired items of one segment from the catalog and counts the others, if the store gets
/// full. Returns false if there is nothing to do.
///
/// Cost: a read of the segment. It is read again when the next deadline of its items has passed, or
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
            // Under the lock: it may have been replaced, and a closed store changes nothing.
            if !shared.is_over() && shared.catalog.has(filed, location) {
                forget(shared, filed, location, now);
            }
            true
        }) == Walk::Done;
    // What cannot be read is left to reclaim.
    let counted = if is_read { live } else { Counted::default() };
    shared.extents.set_counted(extent, counted);
    shared.extents.set_earliest_deadline(extent, earliest.filter(|_| is_read));
    shared.estimate_live_bytes();
    shared.progress.notify_all();
    true
}

/// True if expired items soon keep others out.
fn is_nearly_full<F>(shared: &Shared<F>) -> bool {
    let is_nearly = |used: u64, max: u64| used > max / 8 * 7;
    is_nearly(shared.live_bytes(), shared.live_bytes_max())
        || is_nearly(shared.catalog.bytes(), shared.settings.catalog_bytes_max)
}

/// The oldest segment with an item that has expired, or that has to be counted. The open one still
/// changes.
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
