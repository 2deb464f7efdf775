//! Finding the record of a key without a lock and without a store.
//!
//! ```text
//! slot      names the record
//! sequence  of its segment, whose low byte the slot must have
//! slot      again, the same but for freq
//! record    header, key, …
//! sequence  again, the same
//! ```
//!
//! This is exact, not probable. When the slot was read again it named a record of the segment's use at
//! that time, for no slot ever names a record of a use that is over: everything is unlinked before the
//! sequence moves. If the sequence read before is still there at the end, it was there all the time, so
//! the bytes read are that record's. A key that is not found was not there at some time during the search
//! if the group's shape is what it was: slots only move between places together with the version.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;

use larder_item::{Deadline, Second};

use crate::index::group::{Control, Locked, SLOTS, prefers_second_line};
use crate::index::slot::Slot;
use crate::segment::record::Header;
use crate::{Engine, Miss};

/// A record and where it was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) slot_at: usize,
    pub(crate) slot: Slot,
    pub(crate) sequence: u64,
    pub(crate) record_at: usize,
    pub(crate) header: Header,
}

impl Found {
    /// Has the item been read or touched since it was stored?
    #[inline]
    pub(crate) fn is_fetched(&self) -> bool {
        self.header.is_fetched(self.slot.freq())
    }
}

/// So often a chain is searched that changes under the search. Somebody else comes forward each time: only in a damaged
/// region, where a slot names nothing or levels contradict each other, it comes to that.
const SEARCHES_MAX: u32 = 1 << 20;

enum Examined {
    Same(Found),
    OtherKey,
    /// The slot or its segment changed meanwhile; nothing is known.
    Changed,
}

impl Engine {
    /// Finds the record of a key, dead or alive. What is read of it must be confirmed by
    /// [`Self::is_still_there`].
    #[inline(always)] // What was found stays in registers.
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<Found> {
        let tag = self.tag_of(hash);
        let group_at = self.group_at(self.group_of(hash));
        let line = if prefers_second_line(hash) { 7..SLOTS } else { 0..7 };
        // Most keys are found in the preferred line; a hit needs no look at the control word.
        for slot_at in line.map(|slot| group_at + 8 + slot * 8) {
            let slot = self.slot(slot_at);
            if slot.has_tag(tag) {
                match self.examine(slot_at, slot, key) {
                    Examined::Same(found) => return Some(found),
                    Examined::OtherKey => {}
                    Examined::Changed => break,
                }
            }
        }
        self.find_in_chain(hash, key)
    }

    fn find_in_chain(&self, hash: u64, key: &[u8]) -> Option<Found> {
        let tag = self.tag_of(hash);
        let mut group = self.group_of(hash);
        'search: for _ in 0..SEARCHES_MAX {
            let group_at = self.group_at(group);
            let before = Control(self.memory.word(group_at).load(Acquire));
            for slot_at in self.slots(group_at, hash) {
                let slot = self.slot(slot_at);
                if slot.has_tag(tag) {
                    match self.examine(slot_at, slot, key) {
                        Examined::Same(found) => return Some(found),
                        Examined::OtherKey => {}
                        Examined::Changed => continue 'search,
                    }
                }
            }
            fence(Acquire);
            let after = Control(self.memory.word(group_at).load(Relaxed));
            if before.shape() != after.shape() {
                continue;
            }
            // The group may have been split before the number of groups told.
            let home = hash & ((1 << after.level()) - 1);
            if home == group {
                return None;
            }
            group = home;
        }
        None
    }

    #[inline(always)]
    fn examine(&self, slot_at: usize, slot: Slot, key: &[u8]) -> Examined {
        let sequence = self.sequence(slot.segment()).load(Acquire);
        if sequence == 0 || !slot.is_of(sequence) || !self.slot(slot_at).is_same(slot) {
            return Examined::Changed;
        }
        let found = self.found(slot_at, slot, sequence);
        if self.has_key(&found, key) {
            return Examined::Same(found);
        }
        if self.is_still_there(&found) { Examined::OtherKey } else { Examined::Changed }
    }

    #[inline(always)]
    fn found(&self, slot_at: usize, slot: Slot, sequence: u64) -> Found {
        let record_at = self.layout.segment_at(slot.segment()) + slot.offset();
        let header = Header::load(&self.memory, record_at);
        Found { slot_at, slot, sequence, record_at, header }
    }

    #[inline(always)]
    fn has_key(&self, found: &Found, key: &[u8]) -> bool {
        let Found { header, record_at, slot, .. } = found;
        // A header caught while its segment changes hands may claim any length.
        header.fits(key.len())
            && slot.offset() + header.record_bytes() <= self.layout.segment_bytes
            && self.memory.equals(record_at + header.key_at(), key)
    }

    /// Is everything that was read of a record since it was found really of that record?
    #[inline]
    pub(crate) fn is_still_there(&self, found: &Found) -> bool {
        // Pairs with the release fence in `claim_free`.
        fence(Acquire);
        self.sequence(found.slot.segment()).load(Relaxed) == found.sequence
    }

    /// Finds the record of a key in its locked group: nobody changes it under the lock but for freq.
    pub(crate) fn find_locked(&self, locked: &Locked<'_>, hash: u64, key: &[u8]) -> Option<Found> {
        let tag = self.tag_of(hash);
        locked.slots(hash).find_map(|slot_at| {
            let slot = self.slot(slot_at);
            if !slot.has_tag(tag) {
                return None;
            }
            let found = self.named_by(slot_at, slot);
            self.has_key(&found, key).then_some(found)
        })
    }

    /// The record that a slot of a locked group names.
    pub(crate) fn named_by(&self, slot_at: usize, slot: Slot) -> Found {
        self.found(slot_at, slot, self.sequence(slot.segment()).load(Acquire))
    }

    /// Finds the slot of a locked group that names exactly this record.
    pub(crate) fn find_location(
        &self,
        locked: &Locked<'_>,
        hash: u64,
        slot: Slot,
    ) -> Option<Found> {
        locked
            .slots(hash)
            .find(|at| self.slot(*at).location() == slot.location())
            .map(|at| self.named_by(at, self.slot(at)))
    }

    /// Why a record that is there counts as absent, if it does.
    #[inline]
    pub(crate) fn death(&self, found: &Found, now: Second) -> Option<Miss> {
        if self.is_flushed(found.sequence) {
            return Some(Miss::Flushed);
        }
        self.deadline(found).is_past(now).then_some(Miss::Expired)
    }

    #[inline]
    pub(crate) fn deadline(&self, found: &Found) -> Deadline {
        found.header.deadline(&self.memory, found.record_at)
    }

    pub(crate) fn version(&self, found: &Found) -> u64 {
        found.header.version(&self.memory, found.record_at)
    }
}
