//! Prefetching of groups and records.

use crate::index::Index;
use crate::index::group::slots_of;
use crate::segment::slot::Slot;

/// The number of keys whose memory is fetched at the same time.
const KEYS_AT_ONCE: usize = 16;

/// The number of bytes of a record that are prefetched: header, key and a small value. If the
/// record is longer, the processor detects the sequential read.
const RECORD_BYTES: usize = 192;

impl Index {
    /// See `Engine::prefetch`.
    pub(crate) fn prefetch<'k>(&self, mut keys: impl Iterator<Item = &'k [u8]>) {
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

    /// Prefetches the ghost row of a hash, in addition to its group. Group and row are at different
    /// places in memory, but a processor fetches both in the time of one.
    pub(crate) fn prefetch_ghost_row(&self, hash: u64) {
        self.prefetch_ghost_row_of(self.group_of(hash));
    }

    /// Same as [`Self::prefetch_ghost_row`], for a group.
    #[inline]
    pub(crate) fn prefetch_ghost_row_of(&self, group: u64) {
        if let Some(row_at) = self.ghost_row_at(group) {
            self.region().memory().prefetch(row_at);
        }
    }

    /// Prefetches the record that most likely has the key with this hash.
    fn prefetch_record(&self, hash: u64) {
        let tag = self.tag_of(hash);
        let mut slots = slots_of(self.group_at(self.group_of(hash)), hash).map(|at| self.slot(at));
        if let Some(slot) = slots.find(|slot| slot.has_tag(tag)) {
            self.region().memory().prefetch_lines(self.segments().record_at(slot), RECORD_BYTES);
        }
    }

    /// Prefetches the header and the key of the record that a slot names.
    pub(crate) fn prefetch_slot(&self, slot: Slot) {
        self.region().memory().prefetch(self.segments().record_at(slot));
    }
}
