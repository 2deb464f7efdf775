//! Finds the record of a key without locking and without writing.
//!
//! ```text
//! slot      names the record
//! sequence  of its segment, whose low byte the slot must have
//! slot      again, the same except for freq
//! record    header, key, …
//! sequence  again, the same
//! ```
//!
//! The result is exact. At the second load of the slot, the slot named a record of the segment's
//! use at that time: no slot ever names a record of a finished use, because every record is
//! unlinked before the sequence changes. If the sequence is unchanged at the end, it was unchanged
//! all the time, so the copied bytes belong to that record. If the search fails and the group's
//! control word, except for the owner, is unchanged, the key was absent at some time during the
//! search, because slots move only together with a change of the version in the control word.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;

use crate::index::Index;
use crate::index::group::{Control, Locked, SLOTS, prefers_second_line};
use crate::segment::record::Header;
use crate::segment::slot::Slot;

/// A found record and its location.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The offset of the slot in the region.
    pub(crate) slot_at: usize,
    /// The content of the slot when the record was found.
    pub(crate) slot: Slot,
    /// The sequence of the record's segment.
    pub(crate) sequence: u64,
    /// The offset of the record in the region.
    pub(crate) record_at: usize,
    pub(crate) header: Header,
}

impl Found {
    /// True if the item was read or touched since it was stored.
    #[inline]
    pub(crate) fn is_fetched(&self) -> bool {
        self.header.is_fetched(self.slot.freq())
    }
}

/// How many times a lookup searches a chain that changes during the search. Each retry means that
/// another thread made progress. Only a damaged region reaches the limit: its slots may name no
/// record, or its levels may contradict each other.
const SEARCHES_MAX: u32 = 1 << 20;

/// The result of comparing a key with the record that a slot names.
enum Examined {
    /// The record has the key.
    Same(Found),
    /// The record has another key with the same tag.
    OtherKey,
    /// The slot or its segment changed during the search. The search starts over.
    Changed,
}

impl Index {
    /// Finds the record of a key, whether the item is alive or dead. After reading from the record,
    /// the caller must confirm the result with [`Self::is_still_there`].
    #[inline(always)] // So that the result stays in registers.
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<Found> {
        let tag = self.tag_of(hash);
        let group_at = self.group_at(self.group_of(hash));
        let line = if prefers_second_line(hash) { 7..SLOTS } else { 0..7 };
        // Most keys are in the cache line that their hash prefers (see `prefers_second_line`). A
        // hit in this line does not need the control word.
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
        let Found { slot_at, slot, sequence, record_at, header } = self.find_in_chain(hash, key)?;
        Some(Found { slot_at, slot, sequence, record_at, header })
    }

    #[inline(never)]
    fn find_in_chain(&self, hash: u64, key: &[u8]) -> Option<Found> {
        let tag = self.tag_of(hash);
        let mut group = self.group_of(hash);
        'search: for _ in 0..SEARCHES_MAX {
            let group_at = self.group_at(group);
            let before = Control(self.region().word(group_at).load(Acquire));
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
            let after = Control(self.region().word(group_at).load(Relaxed));
            if before.shape() != after.shape() {
                continue;
            }
            // A thread that splits this group may already have moved the key, and not yet have
            // raised the number of groups. The level in the control word then leads to the new
            // group.
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
        let sequence = self.segments().sequence(slot.segment()).load(Acquire);
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
        let record_at = self.segments().record_at(slot);
        let header = Header::load(self.region().memory(), record_at);
        Found { slot_at, slot, sequence, record_at, header }
    }

    #[inline(always)]
    fn has_key(&self, found: &Found, key: &[u8]) -> bool {
        let Found { header, record_at, slot, .. } = found;
        // While a segment changes its use, the header may contain any length.
        header.fits(key.len())
            && slot.offset() + header.record_bytes() <= self.region().segment_bytes()
            && self.region().memory().equals(record_at + header.key_at(), key)
    }

    /// True if all bytes that were read from a record since it was found belong to that record.
    #[inline]
    pub(crate) fn is_still_there(&self, found: &Found) -> bool {
        // Pairs with the release fence in `claim_free`.
        fence(Acquire);
        self.segments().sequence(found.slot.segment()).load(Relaxed) == found.sequence
    }

    /// Finds the record of a key in its locked group. While a group is locked, only freqs change.
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

    /// Returns the record of a key in its locked group, if the slot that named it before still
    /// does.
    #[inline]
    pub(crate) fn find_again(&self, slot_at: usize, slot: Slot, key: &[u8]) -> Option<Found> {
        let now = self.slot(slot_at);
        let found = now.is_same(slot).then(|| self.named_by(slot_at, now))?;
        self.has_key(&found, key).then_some(found)
    }

    /// Returns the record that a slot of a locked group names.
    pub(crate) fn named_by(&self, slot_at: usize, slot: Slot) -> Found {
        self.found(slot_at, slot, self.segments().sequence(slot.segment()).load(Acquire))
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

    /// Returns the records that the slots of a group and its overflow groups name.
    pub(crate) fn linked(&self, group: u64) -> impl Iterator<Item = Found> {
        self.slots(self.group_at(group), 0)
            .map(|at| (at, self.slot(at)))
            .filter(|(_, slot)| !slot.is_empty())
            .map(|(at, slot)| self.named_by(at, slot))
    }
}
