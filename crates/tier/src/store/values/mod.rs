//! The values of a store's records: compressed if that makes them shorter.

pub(super) mod training;

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::compression::{Compression, Dictionaries, Frame, VALUE_BYTES_MIN, compress};
use crate::disk::Directory;
use crate::format::{CompressedItem, Item, Record, SEGMENT_BYTES};
use crate::tier::Tier;

/// A change does not compress longer values, in bytes: its caller holds a lock. Reclaim compresses
/// them when it copies them.
pub(super) const VALUE_BYTES_MAX: usize = 32 << 10;
/// Without a dictionary, shorter values are not compressed.
const VALUE_BYTES_MIN_ALONE: usize = 1024;
/// After this many values in a row that did not become shorter, only one in this many is tried.
const FAILURES: u32 = 16;

/// Compresses and decompresses values.
pub(super) struct Values {
    compression: Option<Compression>,
    dictionaries: Arc<Dictionaries>,
    /// The number of the newest dictionary that records may name; 0: there is none.
    newest: AtomicU8,
    /// How many values in a row did not become shorter.
    failures: AtomicU32,
    /// A dictionary that the flusher has not written yet.
    trained: Mutex<Option<Vec<u8>>>,
    /// The trainer waits on it.
    pub(super) due: Condvar,
    /// The length of the log at the start, in bytes.
    found_bytes: u64,
    /// How much of the log was written and synced since the start, in bytes.
    synced_bytes: AtomicU64,
    /// The value of `synced_bytes` at which the trainer continues.
    due_bytes: AtomicU64,
    pub(super) counts: ValueCounts,
}

/// The compressed values since the start.
#[derive(Debug, Default)]
pub(super) struct ValueCounts {
    pub(super) items: AtomicU64,
    /// Their length before compression.
    pub(super) from_bytes: AtomicU64,
    /// Their length after compression.
    pub(super) to_bytes: AtomicU64,
}

/// The memory for a record that is encoded again.
#[derive(Default)]
pub(super) struct Buffers {
    frame: Option<Frame>,
    value: Vec<u8>,
}

impl Values {
    /// Returns the values of a log that has this many segments at the start.
    pub(super) fn new<D: Directory>(
        compression: Option<Compression>,
        tier: &Tier<D>,
        segments: usize,
    ) -> Self {
        Self {
            found_bytes: (segments * SEGMENT_BYTES) as u64,
            compression,
            dictionaries: tier.shared_dictionaries(),
            newest: AtomicU8::new(tier.manifest().dictionaries.unwrap_or(0)),
            failures: AtomicU32::new(0),
            trained: Mutex::default(),
            due: Condvar::new(),
            synced_bytes: AtomicU64::new(0),
            due_bytes: AtomicU64::new(u64::MAX),
            counts: ValueCounts::default(),
        }
    }

    pub(super) fn compression(&self) -> Option<Compression> {
        self.compression
    }

    pub(super) fn dictionaries(&self) -> &Dictionaries {
        &self.dictionaries
    }

    /// Returns the number of the newest dictionary, or 0.
    pub(super) fn newest(&self) -> u8 {
        // Pairs with the release in `set_newest`.
        // Rule: DictionaryBeforeRecord
        self.newest.load(Acquire)
    }

    /// Permits records that name a dictionary. The manifest that names it is durable.
    fn set_newest(&self, number: u8) {
        self.newest.store(number, Release);
        self.failures.store(0, Relaxed);
    }

    fn trained(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.trained.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the flusher must write a dictionary.
    pub(super) fn is_trained(&self) -> bool {
        self.compression.is_some() && self.trained().is_some()
    }

    /// Returns the record of an item. Compresses a value of at most `bytes_max` if that makes the
    /// record shorter.
    pub(super) fn encode<'a>(
        &self,
        item: &Item<'a>,
        frame: &'a mut Option<Frame>,
        bytes_max: usize,
    ) -> Record<'a> {
        let plain = Record::Item(*item);
        if self.compression.is_none() {
            return plain;
        }
        let newest = self.newest();
        let dictionary = self.dictionaries.get(newest);
        let bytes_min = if dictionary.is_some() { VALUE_BYTES_MIN } else { VALUE_BYTES_MIN_ALONE };
        if !(bytes_min..=bytes_max).contains(&item.value.len()) || !self.is_tried() {
            return plain;
        }
        *frame = compress(item.value, dictionary);
        let Some(frame) = frame else { return self.note_failure(plain) };
        let number = dictionary.map_or(0, |_| newest);
        let item = Item { value: frame.stored(), ..*item };
        let compressed = Record::Compressed(CompressedItem { item, dictionary: number });
        if compressed.bytes() >= plain.bytes() {
            return self.note_failure(plain);
        }
        self.failures.store(0, Relaxed);
        compressed
    }

    /// Counts a record that was appended to the log, if its value is compressed. `value_bytes` is
    /// the length of the plain value.
    pub(super) fn note_appended(&self, record: &Record<'_>, value_bytes: usize) {
        if let Record::Compressed(CompressedItem { item, .. }) = record {
            self.counts.items.fetch_add(1, Relaxed);
            self.counts.from_bytes.fetch_add(value_bytes as u64, Relaxed);
            self.counts.to_bytes.fetch_add(item.value.len() as u64, Relaxed);
        }
    }

    /// Returns the record for a copy of a record: with the newest dictionary, if the copy is then
    /// shorter. Also returns the length of the plain value if the copy is another record.
    pub(super) fn encode_again<'a>(
        &self,
        record: &Record<'a>,
        buffers: &'a mut Buffers,
    ) -> (Record<'a>, Option<usize>) {
        let Buffers { frame, value } = buffers;
        let (again, value_bytes) = match record {
            Record::Item(item) => (self.encode(item, frame, usize::MAX), item.value.len()),
            Record::Compressed(compressed)
                if self.compression.is_some() && compressed.dictionary != self.newest() =>
            {
                // A value that cannot be decompressed is copied as it is.
                let Ok(plain) = self.dictionaries.value_of(compressed) else {
                    return (*record, None);
                };
                *value = plain;
                let item = Item { value, ..compressed.item };
                (self.encode(&item, frame, usize::MAX), item.value.len())
            }
            _ => return (*record, None),
        };
        match again.bytes() < record.bytes() {
            true => (again, Some(value_bytes)),
            false => (*record, None),
        }
    }

    /// True if compressing the next value is worth the time.
    fn is_tried(&self) -> bool {
        let failures = self.failures.load(Relaxed);
        let is_tried = failures < FAILURES || failures.is_multiple_of(FAILURES);
        if !is_tried {
            self.failures.fetch_add(1, Relaxed);
        }
        is_tried
    }

    fn note_failure<'a>(&self, plain: Record<'a>) -> Record<'a> {
        self.failures.fetch_add(1, Relaxed);
        plain
    }
}
