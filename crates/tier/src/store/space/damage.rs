//! Segments that reclaim cannot read, or not all of.
//!
//! Each record has a checksum, so reclaim copies the good ones. In place of a damaged one it writes
//! [`Record::Lost`], which the catalog names until a change of the key replaces or removes it. Then
//! it frees the segment like any other, and the log has no gap.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use zerocopy::IntoBytes;

use super::super::catalog::Filed;
use super::super::shared::Shared;
use super::PAUSE;
use crate::disk::{File, Page, zeroed_pages};
use crate::format::{Address, Record, SEGMENT_PAGES, SegmentNumber};
use crate::log::Extent;
use crate::recovery::Place;

/// Reads a segment. Repeats a read that fails, because the disk may fail once and not again; then
/// fills the pages that it does not return with zeros. Returns false if the store ends, or if the
/// disk returns nothing, not even of another segment: it may return everything later.
pub(super) fn read<F: File>(shared: &Shared<F>, extent: Extent, segment: &mut [Page]) -> bool {
    for pause in RETRIES {
        if shared.log.segment(extent, segment).is_ok() {
            return true;
        }
        shared.counts.retried_reads.fetch_add(1, Relaxed);
        let until = Instant::now() + pause;
        while !shared.is_over() && Instant::now() < until {
            let head = shared.head();
            let left = until.saturating_duration_since(Instant::now());
            drop(shared.wait(&shared.space, head, left.min(PAUSE)));
        }
        if shared.is_over() {
            return false;
        }
    }
    let mut returned = 0;
    for (page, into) in segment[..SEGMENT_PAGES].iter_mut().enumerate() {
        if shared.is_over() {
            return false;
        }
        match shared.log.read(extent, page, std::slice::from_mut(into)) {
            Ok(()) => returned += 1,
            Err(_) => into.bytes_mut().fill(0),
        }
    }
    returned > 0 || returns_another(shared)
}

/// True if the disk returns the header of the segment after the oldest one.
fn returns_another<F: File>(shared: &Shared<F>) -> bool {
    let next = shared.head().segments().get(1).copied();
    next.is_some_and(|(extent, _)| shared.log.read(extent, 0, &mut zeroed_pages(1)).is_ok())
}

/// The pauses before a read of reclaim is tried again.
const RETRIES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
];

/// Copies the good records of a damaged segment, and writes lost ones for the others. Returns false
/// if the store ends.
///
/// Cost: a look at every entry of the catalog.
pub(super) fn copy<F: File>(
    shared: &Shared<F>,
    extent: Extent,
    number: SegmentNumber,
    segment: &[Page],
) -> bool {
    shared.counts.damaged_segments.fetch_add(1, Relaxed);
    let bytes = segment.as_bytes();
    shared.catalog.of_extent(extent).into_iter().all(|(filed, location)| {
        let at = Address::new(number, location.offset());
        let bytes = &bytes[location.offset()..];
        let record = match Record::read(shared.log.seal(), at, bytes) {
            Ok(record @ (Record::Item(_) | Record::Lost { .. })) => record,
            _ => Record::Lost { place: filed.place(), key: key_of_damaged(shared, filed, bytes) },
        };
        super::copy(shared, Place { extent, at }, filed, &record)
    })
}

/// Returns the key of a damaged record; empty if its hash differs from the 33 bits in the catalog.
fn key_of_damaged<'b, F>(shared: &Shared<F>, filed: Filed, bytes: &'b [u8]) -> &'b [u8] {
    let key = Record::claimed_key(bytes).filter(|key| shared.filed(key).place() == filed.place());
    key.unwrap_or_default()
}
