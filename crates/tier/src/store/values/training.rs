//! The trainer thread: it trains dictionaries from the values in the log.
//!
//! ```text
//! values in the log ─▶ trainer ─▶ dictionary ─▶ flusher: two files, then MANIFEST ─▶ new records
//! ```
//!
//! Training takes too long for the thread that allocates extents. The flusher writes the
//! dictionary, because only the flusher changes the manifest.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::super::catalog::Location;
use super::super::shared::Shared;
use super::super::space::records;
use crate::compression::{Compression, SAMPLE_BYTES_MAX, VALUE_BYTES_MIN, train};
use crate::disk::{Directory, File, Page, zeroed_pages};
use crate::flusher::{FlushError, Flusher};
use crate::format::{Record, SEGMENT_PAGES, SegmentNumber};
use crate::log::Extent;

/// The maximum number of segments that are read for samples.
const SEGMENTS_MAX: usize = 16;
/// The maximum length of a sample, in bytes. Longer values are truncated.
const SAMPLE_BYTES: usize = 4096;
/// After a training the log grows to four times its length before the next one, but by at most
/// this.
const GROWTH_BYTES_MAX: u64 = 16 << 30;
/// The interval at which the thread checks whether the store closes.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs until the store closes or the log fails.
pub(in crate::store) fn run<F: File>(shared: &Shared<F>) {
    let Some(compression) = shared.values.compression() else { return };
    let found_bytes = shared.values.found_bytes;
    let log_bytes = || found_bytes + shared.values.synced_bytes.load(Relaxed);
    let mut due_bytes = match shared.values.newest() {
        0 => compression.train_after_bytes,
        _ => after(log_bytes().max(compression.train_after_bytes)),
    };
    while !shared.is_over() {
        shared.values.due_bytes.store(due_bytes.saturating_sub(found_bytes), Relaxed);
        if log_bytes() < due_bytes || shared.values.is_trained() {
            let head = shared.head();
            if !shared.is_over() {
                drop(shared.wait(&shared.values.due, head, PAUSE));
            }
            continue;
        }
        due_bytes = after(log_bytes());
        if let Some(trained) = attempt(shared, compression) {
            *shared.values.trained() = Some(trained);
            let _head = shared.head();
            shared.work.notify_one();
        }
    }
}

/// Returns the length of the log at the next training.
fn after(log_bytes: u64) -> u64 {
    log_bytes + (log_bytes * 3).min(GROWTH_BYTES_MAX)
}

/// Trains a dictionary. Returns `None` if it would not be better than the current one.
fn attempt<F: File>(shared: &Shared<F>, compression: Compression) -> Option<Vec<u8>> {
    let newest = shared.values.newest();
    let number = newest.checked_add(1)?;
    let samples = samples(shared);
    train(&samples, compression.dictionary_bytes, number, shared.values.dictionaries().get(newest))
}

/// Returns values of live items, evenly distributed over the log.
///
/// Cost: reads of up to 16 segments.
fn samples<F: File>(shared: &Shared<F>) -> Vec<Vec<u8>> {
    let segments: Vec<_> = shared.head().segments().iter().copied().collect();
    let count = segments.len().min(SEGMENTS_MAX);
    let mut samples = Vec::new();
    let mut pages = zeroed_pages(SEGMENT_PAGES);
    for nth in 1..=count {
        let (extent, number) = segments[nth * segments.len() / count - 1];
        if !shared.is_over() && shared.log.segment(extent, &mut pages).is_ok() {
            let segment = SampledSegment { extent, number, pages: &pages };
            take_samples(shared, &segment, SAMPLE_BYTES_MAX / count, &mut samples);
        }
    }
    samples
}

/// A segment that was read for samples.
struct SampledSegment<'p> {
    extent: Extent,
    number: SegmentNumber,
    pages: &'p [Page],
}

/// Takes samples from a segment, with at most `bytes_max`. A segment that reclaim has freed since,
/// or a unit that is being written, ends the list: samples need not be complete.
fn take_samples<F: File>(
    shared: &Shared<F>,
    segment: &SampledSegment<'_>,
    bytes_max: usize,
    samples: &mut Vec<Vec<u8>>,
) {
    let SampledSegment { extent, number, pages } = *segment;
    let each = |take: &mut dyn FnMut(&Record<'_>)| {
        records(shared, number, pages, |at, filed, record| {
            if shared.catalog.has(filed, Location::new(extent, at.offset())) {
                take(record);
            }
            true
        });
    };
    let mut bytes = 0;
    each(&mut |record| bytes += record.bytes().min(SAMPLE_BYTES));
    // One record in this many.
    let stride = bytes.div_ceil(bytes_max).max(1);
    let (mut nth, mut left) = (0, bytes_max);
    each(&mut |record| {
        nth += 1;
        if nth % stride != 0 || left == 0 {
            return;
        }
        let mut sample = match record {
            Record::Item(item) if !item.number => item.value.to_vec(),
            Record::Compressed(compressed) => {
                shared.values.dictionaries().value_of(compressed).unwrap_or_default()
            }
            _ => return,
        };
        sample.truncate(SAMPLE_BYTES.min(left));
        if sample.len() >= VALUE_BYTES_MIN {
            left -= sample.len();
            samples.push(sample);
        }
    });
}

/// Writes the dictionary that was trained, durably, and permits records that name it.
pub(in crate::store) fn install<D: Directory>(
    shared: &Shared<D::File>,
    flusher: &mut Flusher<D>,
) -> Result<(), FlushError> {
    if shared.values.is_trained()
        && let Some(trained) = shared.values.trained().take()
    {
        flusher.add_dictionary(trained)?;
        shared.values.set_newest(flusher.tier().manifest().dictionaries.unwrap_or(0));
    }
    Ok(())
}

/// Called after a sync. Wakes the trainer if the log is long enough.
pub(in crate::store) fn note_synced<F>(shared: &Shared<F>) {
    let written_bytes = shared.counts.written_bytes.load(Relaxed);
    shared.values.synced_bytes.store(written_bytes, Relaxed);
    if written_bytes >= shared.values.due_bytes.load(Relaxed) {
        shared.values.due.notify_one();
    }
}
