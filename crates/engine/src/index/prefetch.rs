//! Asking the memory for what is needed next.

use crate::Engine;
use crate::index::group::slots_of;
use crate::index::slot::Slot;

/// So many keys wait for the memory at the same time.
const KEYS_AT_ONCE: usize = 16;

/// What of a record is asked for: head, key, and a small value. A longer one is read in a row, which the
/// processor notices by itself.
const RECORD_BYTES: usize = 192;

/// What the memory is asked for in one go.
const CACHE_LINE_BYTES: usize = 64;

impl Engine {
    /// Brings the index groups and the records of some keys into the processor's caches, for operations on
    /// them that follow at once. Changes nothing and promises nothing.
    ///
    /// An operation waits for the memory two or three times in a row; here the keys wait together.
    pub fn prefetch<'k>(&self, mut keys: impl Iterator<Item = &'k [u8]>) {
        let mut count = KEYS_AT_ONCE;
        while count == KEYS_AT_ONCE {
            let mut hashes = [0; KEYS_AT_ONCE];
            count = 0;
            for (hash, key) in hashes.iter_mut().zip(&mut keys) {
                *hash = self.hash(key);
                self.prefetch_group(*hash);
                count += 1;
            }
            for hash in &hashes[..count] {
                self.prefetch_record(*hash);
            }
        }
    }

    /// Asks for the record that is most likely the one of a key with this hash.
    fn prefetch_record(&self, hash: u64) {
        let tag = self.tag_of(hash);
        let mut slots = slots_of(self.group_at(self.group_of(hash)), hash).map(|at| self.slot(at));
        if let Some(slot) = slots.find(|slot| slot.has_tag(tag)) {
            let record_at = self.layout.segment_at(slot.segment()) + slot.offset();
            for offset in (0..RECORD_BYTES).step_by(CACHE_LINE_BYTES) {
                self.memory.prefetch(record_at + offset);
            }
        }
    }

    /// Asks for the head and the key of the record that a slot names.
    pub(crate) fn prefetch_slot(&self, slot: Slot) {
        self.memory.prefetch(self.layout.segment_at(slot.segment()) + slot.offset());
    }
}
