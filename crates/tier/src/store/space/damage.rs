//! Segments that reclaim cannot read, completely or in part.
//!
//! Each record has a checksum, so reclaim copies the valid ones. It replaces a damaged record with
//! [`Record::Lost`], which stays in the catalog until a change replaces or removes the key. Then it
//! frees the segment like any other, so the log has no gap.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use zerocopy::IntoBytes;

use super::super::catalog::KeyBits;
use super::super::shared::Shared;
use super::PAUSE;
use crate::disk::{File, Page, zeroed_pages};
use crate::format::{Address, Record, SEGMENT_PAGES, SegmentNumber};
use crate::log::Extent;
use crate::recovery::Place;

/// Reads a segment. Repeats a failed read, because the failure may be temporary. Then fills the
/// unreadable pages with zeros. Returns false if the store stops, or if the disk returns nothing,
/// not even a page of another segment: the disk may recover later.
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

/// The pauses before reclaim repeats a read.
const RETRIES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
];

/// Copies the valid records of a damaged segment, and writes a lost record for each of the others.
/// Returns false if the store stops.
///
/// Cost: a scan of the catalog.
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
            Ok(record @ (Record::Item(_) | Record::Compressed(_) | Record::Lost { .. })) => record,
            _ => Record::Lost { place: filed.place(), key: key_of_damaged(shared, filed, bytes) },
        };
        super::copy(shared, Place { extent, at }, filed, &record)
    })
}

/// Returns the key of a damaged record, or an empty key if its hash differs from the 33 bits in the
/// catalog.
fn key_of_damaged<'b, F>(shared: &Shared<F>, filed: KeyBits, bytes: &'b [u8]) -> &'b [u8] {
    let key = Record::claimed_key(bytes).filter(|key| shared.filed(key).place() == filed.place());
    key.unwrap_or_default()
}
