//! The parts of a found record: key, value, metadata, and the table of a large value's pieces.
//!
//! A lookup returns a [`Found`]: the slot and the record of an item at that moment. A caller that
//! holds the lock of the item's group can rely on it. Any other caller must check afterwards that
//! the slot and the segment have not changed.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use larder_item::{Deadline, Meta, Number, Second};
use larder_region::Sink;

use crate::index::Index;
use crate::index::find::Found;
use crate::journal::Entry;
use crate::process::thread_slot::ThreadSlot;
use crate::segment::record::{Header, PIECE_HEAD_BYTES};
use crate::segment::slot::FREQ_MAX;

/// Returns the offset of the first slot in the table of a large value's record. The table follows
/// the total length of the value, a word of 8 bytes.
pub(crate) fn table_at(record_at: usize, header: Header) -> usize {
    record_at + header.value_at() + 8
}

impl Index {
    /// Counts a read of an item in the freq of its slot, by which the evictor decides whether the
    /// item survives. Returns true if it raised the freq.
    ///
    /// At the highest freq it writes nothing, so that the cache line of a hot item stays shared.
    /// If another thread has changed the slot since it was found, the read is not counted.
    #[inline]
    pub(crate) fn note_read(&self, found: &Found) -> bool {
        let (slot, freq) = (found.slot, found.slot.freq());
        freq < FREQ_MAX && {
            let noted = slot.with_freq(freq + 1);
            let word = self.region().word(found.slot_at);
            word.compare_exchange(slot.0, noted.0, Relaxed, Relaxed).is_ok()
        }
    }

    /// Returns the metadata of a found item. `value_bytes` is the length that clients read.
    pub(crate) fn meta(&self, found: &Found, value_bytes: usize, now: Second) -> Meta {
        self.meta_as::<true>(found, self.version(found), value_bytes, now)
    }

    /// Same as [`Self::meta`] if `TOGETHER`. Otherwise the marks (stale, recache token) may be
    /// older than the returned cas token, which saves a load on the hot path. `version` is the
    /// version of the record, which the caller has loaded.
    #[inline]
    pub(crate) fn meta_as<const TOGETHER: bool>(
        &self,
        found: &Found,
        version: u64,
        value_bytes: usize,
        now: Second,
    ) -> Meta {
        let cas = self.cas_of(version);
        let header = match TOGETHER {
            // A thread that marks an item as stale first stores the mark in the header, and then a
            // new version. A reader that has loaded this version and now loads the header again
            // therefore also finds the mark. Pairs with the release in `update_meta_here`.
            true => Header::load(self.region().memory(), found.record_at),
            false => found.header,
        };
        Meta {
            flags: found.header.flags(self.region().memory(), found.record_at),
            deadline: self.deadline(found),
            cas,
            value_bytes,
            stale: header.is_stale(),
            token_sent: header.is_token_sent(),
            fetched: header.is_fetched(found.slot.freq()),
            seen: header.used().second(now),
        }
    }

    /// Returns the flags that the client stored with an item.
    pub(crate) fn flags(&self, found: &Found) -> u32 {
        found.header.flags(self.region().memory(), found.record_at)
    }

    /// Returns a found item in the form that a journal records. The caller passes its key and
    /// value.
    pub(crate) fn entry<'a>(&self, key: &'a [u8], found: &Found, value: &'a [u8]) -> Entry<'a> {
        Entry {
            key,
            value,
            flags: found.header.flags(self.region().memory(), found.record_at),
            deadline: self.deadline(found),
            version: self.cas(found),
            stale: found.header.is_stale(),
            token_sent: found.header.is_token_sent(),
            number: found.header.is_number(),
        }
    }

    /// Copies the complete value of an item, and joins the pieces of a large one. The caller holds
    /// the lock of the item's group. The pieces cannot move during the copy: a thread that empties
    /// a segment takes the same lock for each piece that it moves.
    pub(crate) fn linked_value(&self, found: &Found) -> Vec<u8> {
        let mut value = Vec::new();
        if !found.header.is_large() {
            self.read_value(found, &mut value);
            return value;
        }
        for at in self.table(found) {
            let record_at = self.segments().record_at(self.slot(at));
            let bytes = Header::load(self.region().memory(), record_at).value_bytes();
            self.region().memory().read(record_at + PIECE_HEAD_BYTES, bytes, &mut value);
        }
        value
    }

    /// Returns the length of a record's value in bytes, as clients read it.
    pub(crate) fn value_bytes(&self, found: &Found) -> usize {
        match found.header.is_large() {
            true => {
                let value_at = found.record_at + found.header.value_at();
                self.region().word(value_at).load(Relaxed) as usize
            }
            false => found.header.shown_bytes(),
        }
    }

    /// Returns the value of a number record. Such a record stores the number in binary, so that an
    /// `incr` can change it in place.
    pub(crate) fn number(&self, found: &Found) -> Number {
        // Pairs with the release in `set_number`.
        Number(self.region().word(found.record_at + found.header.value_at()).load(Acquire))
    }

    /// Appends the value of a record to `out`. Writes a number as decimal digits, and pads it with
    /// spaces like memcached. Must not be called for a large value: its pieces are in other
    /// records.
    #[inline(always)]
    pub(crate) fn read_value(&self, found: &Found, out: &mut impl Sink) {
        let value_at = found.record_at + found.header.value_at();
        if found.header.is_number() {
            out.extend(&self.number(found).text_over(found.header.shown_bytes()));
        } else {
            self.region().memory().read(value_at, found.header.value_bytes(), out);
        }
    }

    /// Replaces the header of a found record. The caller holds the lock of its group.
    pub(crate) fn set_header(&self, found: &Found, header: Header) {
        if header != found.header {
            // Pairs with the acquire in `Header::load`.
            self.region().word(found.record_at).store(header.word(), Release);
        }
    }

    /// Replaces the deadline of a found record. Does nothing if `deadline` is `None` or the record
    /// has no deadline field. The caller holds the lock of its group.
    pub(crate) fn set_deadline(&self, found: &Found, deadline: Option<Deadline>) {
        if let (Some(deadline), Some(at)) = (deadline, found.header.deadline_at()) {
            self.segments().note_deadline(found.slot.segment(), deadline);
            self.region().half(found.record_at + at).store(deadline.0, Relaxed);
        }
    }

    /// Returns the offsets of the slots in a large value's table. Each slot names a piece.
    pub(crate) fn table(&self, found: &Found) -> impl Iterator<Item = usize> + Clone + use<> {
        let first = table_at(found.record_at, found.header);
        let count = (found.header.value_bytes() / 8).saturating_sub(1);
        (0..count).map(move |piece| first + 8 * piece)
    }

    pub(crate) fn key(&self, found: &Found) -> Vec<u8> {
        let mut key = Vec::new();
        self.read_key(found, &mut key);
        key
    }

    /// Appends the key of an item to `out`.
    pub(crate) fn read_key(&self, found: &Found, out: &mut Vec<u8>) {
        let key_at = found.record_at + found.header.key_at();
        self.region().memory().read(key_at, found.header.key_bytes(), out);
    }

    /// Stores `now` as the time of last use of an item that a reader found without a lock.
    ///
    /// A reader must not wait, so this only tries to lock the item's group. It does nothing if
    /// another thread holds the lock, or if the item has moved or changed since it was found.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_use(&self, thread: &ThreadSlot, hash: u64, found: &Found, now: Second) {
        let Some(_locked) = self.try_lock(thread, hash) else {
            return;
        };
        // If the slot still names the record, the record cannot move before the group is unlocked.
        // Otherwise the bytes at its offset may already belong to another record.
        let is_there = self.slot(found.slot_at).is_same(found.slot)
            && self.segments().sequence(found.slot.segment()).load(Acquire) == found.sequence;
        if is_there {
            let there = self.named_by(found.slot_at, found.slot);
            self.set_header(&there, there.header.with_used(now));
        }
    }
}
