//! The parts of a found record: key, value, metadata, and the table of a large value.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use larder_item::{Deadline, Meta, Number, Second};
use larder_region::Sink;

use crate::index::Index;
use crate::index::find::Found;
use crate::journal::Entry;
use crate::process::thread_slot::ThreadSlot;
use crate::segment::record::{Header, PIECE_HEAD_BYTES};
use crate::segment::slot::FREQ_MAX;

/// Returns the offset of the first slot in the table of a large value's record.
pub(crate) fn table_at(record_at: usize, header: Header) -> usize {
    record_at + header.value_at() + 8
}

impl Index {
    /// Counts a read in the slot, for eviction. Returns true if it raised the freq. The read is not
    /// counted if the slot has changed since. At the highest freq, a read writes nothing.
    #[inline]
    pub(crate) fn note_read(&self, found: &Found) -> bool {
        let (slot, freq) = (found.slot, found.slot.freq());
        freq < FREQ_MAX && {
            let noted = slot.with_freq(freq + 1);
            let word = self.region().word(found.slot_at);
            word.compare_exchange(slot.0, noted.0, Relaxed, Relaxed).is_ok()
        }
    }

    pub(crate) fn meta(&self, found: &Found, value_bytes: usize, now: Second) -> Meta {
        self.meta_as::<true>(found, value_bytes, now)
    }

    #[inline]
    pub(crate) fn meta_as<const TOGETHER: bool>(
        &self,
        found: &Found,
        value_bytes: usize,
        now: Second,
    ) -> Meta {
        let cas = self.version(found);
        let header = match TOGETHER {
            // Loaded again after the version: a reader that loads the version of a mark also loads
            // the mark. Pairs with the release in `update_meta_here`.
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

    /// Returns a found item with its key and value.
    pub(crate) fn entry<'a>(&self, key: &'a [u8], found: &Found, value: &'a [u8]) -> Entry<'a> {
        Entry {
            key,
            value,
            flags: found.header.flags(self.region().memory(), found.record_at),
            deadline: self.deadline(found),
            version: self.version(found),
            stale: found.header.is_stale(),
            token_sent: found.header.is_token_sent(),
            number: found.header.is_number(),
        }
    }

    /// Returns the value of a linked item, including its pieces. The caller holds the lock of its
    /// group. A thread that empties a segment needs that lock for each piece that it moves.
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

    /// Returns the length of a record's value.
    pub(crate) fn value_bytes(&self, found: &Found) -> usize {
        match found.header.is_large() {
            true => {
                let value_at = found.record_at + found.header.value_at();
                self.region().word(value_at).load(Relaxed) as usize
            }
            false => found.header.shown_bytes(),
        }
    }

    /// Returns the number of a number record.
    pub(crate) fn number(&self, found: &Found) -> Number {
        // Pairs with the release in `set_number`.
        Number(self.region().word(found.record_at + found.header.value_at()).load(Acquire))
    }

    /// Appends the value of a record, in the form that clients read, to `out`. Not for large
    /// values.
    #[inline(always)]
    pub(crate) fn read_value(&self, found: &Found, out: &mut impl Sink) {
        let value_at = found.record_at + found.header.value_at();
        if found.header.is_number() {
            out.extend(&self.number(found).text_over(found.header.shown_bytes()));
        } else {
            self.region().memory().read(value_at, found.header.value_bytes(), out);
        }
    }

    /// Stores the header of a found record. The caller holds the lock of its group.
    pub(crate) fn set_header(&self, found: &Found, header: Header) {
        if header != found.header {
            // Pairs with the acquire in `Header::load`.
            self.region().word(found.record_at).store(header.word(), Release);
        }
    }

    /// Stores the deadline of a found record that has the field. The caller holds the lock of its
    /// group.
    pub(crate) fn set_deadline(&self, found: &Found, deadline: Option<Deadline>) {
        if let (Some(deadline), Some(at)) = (deadline, found.header.deadline_at()) {
            self.segments().note_deadline(found.slot.segment(), deadline);
            self.region().half(found.record_at + at).store(deadline.0, Relaxed);
        }
    }

    /// Returns the offsets of the table's slots.
    pub(crate) fn table(&self, found: &Found) -> impl Iterator<Item = usize> + Clone + use<> {
        let first = table_at(found.record_at, found.header);
        let count = (found.header.value_bytes() / 8).saturating_sub(1);
        (0..count).map(move |piece| first + 8 * piece)
    }

    pub(crate) fn key(&self, found: &Found) -> Vec<u8> {
        let mut key = Vec::new();
        let key_at = found.record_at + found.header.key_at();
        self.region().memory().read(key_at, found.header.key_bytes(), &mut key);
        key
    }

    /// Notes, for a reader without a lock, that the reader uses a found item now. Does nothing if
    /// another thread holds the item's group or if the item has moved since.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_use(&self, thread: &ThreadSlot, hash: u64, found: &Found, now: Second) {
        let Some(_locked) = self.try_lock(thread, hash) else {
            return;
        };
        // While the group is locked, the record stays in place if the slot still names it.
        let is_there = self.slot(found.slot_at).is_same(found.slot)
            && self.segments().sequence(found.slot.segment()).load(Acquire) == found.sequence;
        if is_there {
            let there = self.named_by(found.slot_at, found.slot);
            self.set_header(&there, there.header.with_used(now));
        }
    }
}
