//! Emptying segments: walks over their records, and freeing them.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use larder_item::KEY_BYTES_MAX;
use larder_stats::Counter;

use crate::error::StoreError;
use crate::index::find::Found;
use crate::index::group::Locked;
use crate::process::op::Op;
use crate::process::thread_slot::ThreadSlot;
use crate::reclaim::Reclaimer;
use crate::segment::header::Use;
use crate::segment::record::{HEADER_BYTES, Header};
use crate::segment::slot::Slot;

/// The number of records ahead of a walk whose groups are prefetched.
const RECORDS_AHEAD: usize = 16;

/// How far ahead of a walk the memory of a segment is prefetched, about a dozen records of 100
/// bytes, and how much of it.
const BYTES_AHEAD: usize = 2048;
const PREFETCHED_BYTES: usize = 128;

/// A record that a walk over a segment has reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// The slot word that names the record, without tag and freq.
    pub(crate) slot: Slot,
    /// The hash of the record's key; for a piece, of its item's key.
    pub(crate) hash: u64,
    pub(crate) header: Header,
}

/// The result of an attempt to empty a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EmptyOutcome {
    /// The segment is free. Holds the bytes of its records that were not moved.
    Yes(usize),
    /// Another thread empties the segment, or the maximal number of evictors is active. Waiting is
    /// worthwhile.
    Busy,
    /// Only a part of the records was moved, because other threads took the memory for survivors.
    Partly,
}

impl EmptyOutcome {
    /// Returns the reclaimed bytes.
    pub(crate) fn reclaimed_bytes(self) -> usize {
        match self {
            Self::Yes(bytes) => bytes,
            Self::Busy | Self::Partly => 0,
        }
    }
}

impl Reclaimer {
    /// Frees a segment in which no record was needed when it was chosen. If slots still name
    /// records of the segment, which may be expired, unlinks the dead records first. A record may
    /// be needed again, because a touch has changed its deadline since; such records are moved.
    pub(crate) fn reclaim(
        &self,
        op: &Op<'_>,
        reclaimable: Use,
    ) -> Result<EmptyOutcome, StoreError> {
        if self.segments().live(reclaimable.segment) > 0 {
            return self.compact(op, reclaimable);
        }
        let begun = self.segments().begin_emptying(op.thread, reclaimable);
        if begun {
            self.peers().bump(op.thread, Counter::SegmentsSpent, 1);
            self.finish_emptying(op.thread, reclaimable.segment);
        }
        Ok(if begun {
            EmptyOutcome::Yes(self.region().segment_bytes())
        } else {
            EmptyOutcome::Busy
        })
    }

    /// Frees a segment that no slot names. Its account contains at most pieces of uploads that will
    /// never be published.
    pub(crate) fn finish_emptying(&self, thread: &ThreadSlot, segment: u32) {
        self.segments().retire(thread, segment);
        if self.segments().is_over_limit() {
            self.segments().give_back_memory(segment);
        }
        self.segments().free(thread, segment);
    }

    /// Returns the records of a segment. Prefetches the groups of a few records ahead, because
    /// emptying looks up the group of each record and would otherwise wait for memory each time.
    pub(crate) fn records(&self, segment: u32) -> impl Iterator<Item = Record> {
        self.records_ahead(segment, |hash| self.index().prefetch_group(hash))
    }

    /// Same as [`Self::records`], but also prefetches the rows of the ghost, for a walk that enters
    /// evicted keys there.
    pub(crate) fn records_to_remember(&self, segment: u32) -> impl Iterator<Item = Record> {
        self.records_ahead(segment, |hash| {
            self.index().prefetch_group(hash);
            self.index().prefetch_ghost_row(hash);
        })
    }

    fn records_ahead(&self, segment: u32, prefetch: impl Fn(u64)) -> impl Iterator<Item = Record> {
        let mut records = self.records_in_order(segment);
        let mut ahead = VecDeque::with_capacity(RECORDS_AHEAD);
        std::iter::from_fn(move || {
            while ahead.len() < RECORDS_AHEAD
                && let Some(record) = records.next()
            {
                prefetch(record.hash);
                ahead.push_back(record);
            }
            ahead.pop_front()
        })
    }

    fn records_in_order(&self, segment: u32) -> impl Iterator<Item = Record> {
        let segment_at = self.region().segment_at(segment);
        let mut key = Vec::with_capacity(KEY_BYTES_MAX);
        self.headers(segment).map(move |(slot, header)| {
            let hash = self.hash_of(segment_at + slot.offset(), header, &mut key);
            Record { slot, hash, header }
        })
    }

    /// Returns the hash of a record's key; for a piece, of its item's key. `key` is overwritten.
    pub(crate) fn hash_of(&self, record_at: usize, header: Header, key: &mut Vec<u8>) -> u64 {
        if header.is_piece() {
            return self.region().word(record_at + HEADER_BYTES).load(Relaxed);
        }
        key.clear();
        self.region().memory().read(record_at + header.key_at(), header.key_bytes(), key);
        self.index().hash(key)
    }

    /// Returns the slot words of a segment's records, without tag and freq, and their headers.
    pub(crate) fn headers(&self, segment: u32) -> impl Iterator<Item = (Slot, Header)> {
        let segment_at = self.region().segment_at(segment);
        let filled = self.segments().filled(segment).min(self.region().segment_bytes());
        let sequence = self.segments().sequence(segment).load(Relaxed);
        let mut offset = 0;
        std::iter::from_fn(move || {
            if offset + HEADER_BYTES > filled {
                return None;
            }
            let header = Header::load(self.region().memory(), segment_at + offset);
            if offset + header.record_bytes() > filled {
                return None; // Only in a damaged region.
            }
            let slot = Slot::new(segment, offset, sequence);
            offset += header.record_bytes();
            self.prefetch_ahead(segment_at + offset);
            Some((slot, header))
        })
    }

    /// Prefetches a little of the segment's memory after a record: the start of the next record is
    /// known only when the header of this one has been loaded.
    fn prefetch_ahead(&self, record_at: usize) {
        self.region().memory().prefetch_lines(record_at + BYTES_AHEAD, PREFETCHED_BYTES);
    }

    /// Finds the item in a locked group whose record or piece this record is.
    pub(crate) fn find_item_of(&self, locked: &Locked<'_>, record: &Record) -> Option<Found> {
        let Record { slot, hash, header } = *record;
        match header.is_piece() {
            true => self.find_owner(locked, hash, slot),
            false => self.index().find_location(locked, hash, slot),
        }
    }
}
