//! The ghost: the keys that were recently evicted from the small pool, without their items.
//!
//! Each group of the index has a row in the ghost. A split of a group also splits its row. A row
//! changes only under the lock of its group.
//!
//! ```text
//! row      8 marks of u32
//! mark     fingerprint 20 │ stamp 12          0 = none
//! ```
//!
//! A fingerprint is the hash's tag and five more bits. Stamps run from 1 to 4095 and wrap around.
//! The stamp advances when the ghost has received 1/64 as many new marks as the cache has items,
//! and a mark is valid for 64 stamps. So the ghost remembers as many keys as there are items. The
//! mark of a large item is dated back, so that it is valid for a shorter time.
//!
//! The ghost is only a hint: a lost or wrong mark only puts an item into the other pool.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use larder_region::layout::{GHOST_ROW_BYTES, global};

use crate::index::Index;
use crate::index::group::Locked;
use crate::process::thread_slot::ThreadSlot;
use crate::segment::header::State;

const MARKS: usize = GHOST_ROW_BYTES / 4;
const STAMP_BITS: u32 = 12;
/// Stamps range from 1 to this number.
const STAMPS: u32 = (1 << STAMP_BITS) - 1;
/// The number of stamps for which a mark is valid.
const STAMPS_VALID: u32 = 64;
/// A mark is valid for this number of stamps, divided by the size of its item relative to the mean
/// size. If the key of a large item returns later than that, the item is read too rarely to be
/// worth its bytes.
const STAMPS_BY_SIZE: u64 = 96;
/// The bits of a fingerprint besides those of the tag.
const MORE_BITS: u32 = 5;
/// The position of the lowest of these bits in the hash. The tag is below them, and the bit that
/// chooses a line is above.
const MORE_SHIFT: u32 = 42;

/// A mark: the fingerprint of a key, and the stamp of its eviction.
#[derive(Clone, Copy)]
struct Mark(u32);

impl Mark {
    /// Creates a mark that is valid for this number of stamps. To expire earlier, it is dated back.
    fn valid_for(stamps: u32, fingerprint: u32, stamp: u32) -> Self {
        let early = STAMPS_VALID.saturating_sub(stamps);
        let dated = (stamp - 1 + STAMPS - early) % STAMPS + 1;
        Self(fingerprint << STAMP_BITS | dated)
    }

    fn fingerprint(self) -> u32 {
        self.0 >> STAMP_BITS
    }

    /// Returns the age of the mark in stamps. An empty mark is older than all others.
    fn age(self, stamp: u32) -> u32 {
        match self.0 & STAMPS {
            0 => u32::MAX,
            made => (stamp + STAMPS - made) % STAMPS,
        }
    }
}

/// Returns for how many stamps after the current one the ghost remembers an item of this size.
pub(crate) fn stamps_for(item_bytes: u64, mean_bytes: u64) -> u32 {
    let stamps = STAMPS_BY_SIZE.saturating_mul(mean_bytes) / item_bytes.max(1);
    stamps.min(u64::from(STAMPS_VALID)) as u32
}

impl Index {
    fn fingerprint(&self, hash: u64) -> u32 {
        let more = hash >> MORE_SHIFT & ((1 << MORE_BITS) - 1);
        (self.tag_of(hash) << MORE_BITS | more) as u32
    }

    fn ghost_stamp(&self) -> u32 {
        self.region().word(global::GHOST_STAMP).load(Relaxed) as u32 % STAMPS + 1
    }

    /// Returns the offset of a group's row, if the ghost extends that far.
    #[inline]
    pub(crate) fn ghost_row_at(&self, group: u64) -> Option<usize> {
        // Pairs with the release in `extend_ghost`: the counted rows are zeroed.
        let rows = self.region().word(global::GHOST_ROWS).load(Acquire);
        if group >= rows {
            return None;
        }
        let shift = self.ghost_shift();
        let directory = self.region().layout().ghost_directory_at + (group as usize >> shift) * 4;
        let segment = self.region().half(directory).load(Relaxed).wrapping_sub(1);
        let row = group as usize & ((1 << shift) - 1);
        Some(self.region().segment_at(segment) + row * GHOST_ROW_BYTES)
    }

    pub(crate) fn ghost_shift(&self) -> u32 {
        (self.region().segment_bytes() / GHOST_ROW_BYTES).ilog2()
    }

    fn marks(&self, row_at: usize) -> impl Iterator<Item = &AtomicU32> {
        (0..MARKS).map(move |mark| self.region().half(row_at + mark * 4))
    }

    /// True if the key with this hash was recently evicted from the small pool.
    pub(crate) fn ghost_holds(&self, group: u64, hash: u64) -> bool {
        let Some(row_at) = self.ghost_row_at(group) else {
            return false;
        };
        let (fingerprint, stamp) = (self.fingerprint(hash), self.ghost_stamp());
        self.marks(row_at)
            .map(|mark| Mark(mark.load(Relaxed)))
            .any(|mark| mark.fingerprint() == fingerprint && mark.age(stamp) <= STAMPS_VALID)
    }

    /// Remembers a key that is evicted from the small pool, for this number of stamps after the
    /// current one. It replaces the oldest mark of the row.
    pub(crate) fn remember(&self, locked: &Locked<'_>, hash: u64, stamps: u32) {
        let Some(row_at) = self.ghost_row_at(locked.group) else {
            return;
        };
        let (fingerprint, stamp) = (self.fingerprint(hash), self.ghost_stamp());
        let rank = |mark: &&AtomicU32| {
            let mark = Mark(mark.load(Relaxed));
            (mark.age(stamp) < u32::MAX && mark.fingerprint() == fingerprint, mark.age(stamp))
        };
        if let Some(oldest) = self.marks(row_at).max_by_key(rank) {
            oldest.store(Mark::valid_for(stamps, fingerprint, stamp).0, Relaxed);
        }
    }

    /// Forgets a key that is stored again. Returns true if the ghost remembered it.
    pub(crate) fn forget(&self, locked: &Locked<'_>, hash: u64) -> bool {
        let Some(row_at) = self.ghost_row_at(locked.group) else {
            return false;
        };
        let (fingerprint, stamp) = (self.fingerprint(hash), self.ghost_stamp());
        let mut is_remembered = false;
        for word in self.marks(row_at) {
            let mark = Mark(word.load(Relaxed));
            if mark.0 != 0 && mark.fingerprint() == fingerprint {
                is_remembered |= mark.age(stamp) <= STAMPS_VALID;
                word.store(0, Relaxed);
            }
        }
        is_remembered
    }

    /// Counts remembered keys and advances the stamp when it is due.
    pub(crate) fn note_remembered(&self, count: u64) {
        let items = self.region().word(global::ITEMS).load(Relaxed).cast_signed().max(0) as u64;
        let added = self.region().word(global::GHOST_ADDED);
        let total = added.fetch_add(count, Relaxed) + count;
        let per_stamp = (items / u64::from(STAMPS_VALID)).max(1);
        // One segment may fill several stamps. Concurrent callers may lose a count, which is
        // acceptable because stamps are a hint.
        self.region().word(global::GHOST_STAMP).fetch_add(total / per_stamp, Relaxed);
        added.store(total % per_stamp, Relaxed);
    }

    /// Splits the row of a group together with the group: marks with `tag_bit` set move to the new
    /// group's row. The caller holds the lock of the old group, and no thread can reach the new one
    /// yet.
    pub(crate) fn split_ghost_row(&self, group: u64, new_group: u64, tag_bit: u32) {
        let (Some(row_at), new_at) = (self.ghost_row_at(group), self.ghost_row_at(new_group))
        else {
            return;
        };
        for (place, mark) in self.marks(row_at).enumerate() {
            let word = mark.load(Relaxed);
            if Mark(word).fingerprint() >> (MORE_BITS + tag_bit) & 1 != 0 {
                mark.store(0, Relaxed);
                if let Some(new_at) = new_at {
                    self.region().half(new_at + place * 4).store(word, Relaxed);
                }
            }
        }
    }

    /// Extends the ghost by a segment if some groups have no row. Called when segments are freed; a
    /// cache without eviction needs no ghost.
    pub(crate) fn extend_ghost(&self, thread: &ThreadSlot) {
        let rows = self.region().word(global::GHOST_ROWS);
        let have = rows.load(Relaxed);
        if have >= self.region().word(global::GROUPS).load(Relaxed) {
            return;
        }
        let directory =
            self.region().layout().ghost_directory_at + (have as usize >> self.ghost_shift()) * 4;
        let named = self.region().half(directory);
        if named.load(Relaxed) == 0 {
            // The spare segments stay free for survivors. Without them, eviction would drop all
            // items of a segment.
            let Some(segment) = self.segments().take_any(thread, self.segments().spare_segments())
            else {
                return;
            };
            self.segments().zero_segment(segment);
            self.segments().set_own_state(segment, State::Ghost, thread);
            if named.compare_exchange(0, segment + 1, AcqRel, Relaxed).is_ok() {
                self.segments().set_state(segment, State::Ghost);
            } else {
                self.segments().free(thread, segment);
            }
        }
        // Pairs with the acquire in `ghost_row_at`. The process that entered the segment in the
        // directory may have died before it counted the rows. So this thread counts them even if
        // another process entered the segment.
        rows.fetch_max(have + (1 << self.ghost_shift()), AcqRel);
    }
}

const _: () = assert!(GHOST_ROW_BYTES.is_multiple_of(4) && MORE_SHIFT + MORE_BITS <= 47);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_a_mark_is_right_after_stamps_wrap() {
        let made_at = |stamp: u32| Mark(7 << STAMP_BITS | stamp);
        assert_eq!(made_at(5).age(5), 0);
        assert_eq!(made_at(5).age(9), 4);
        assert_eq!(made_at(STAMPS).age(1), 1);
        assert_eq!(Mark(0).age(1), u32::MAX);
    }

    #[test]
    fn a_mark_is_valid_for_its_number_of_stamps() {
        for stamp in [1, 10, 64, 65, STAMPS] {
            for stamps in [0, 1, 20, STAMPS_VALID] {
                let mark = Mark::valid_for(stamps, 7, stamp);
                let later = |passed: u32| (stamp - 1 + passed) % STAMPS + 1;
                assert_eq!(mark.fingerprint(), 7);
                assert_eq!(mark.age(later(stamps)), STAMPS_VALID, "{stamps} from stamp {stamp}");
            }
        }
    }

    #[test]
    fn large_items_are_remembered_for_a_shorter_time() {
        let stamps = [1, 100, 150, 300, 960, 9_600, 9_601].map(|bytes| stamps_for(bytes, 100));
        assert_eq!(stamps, [64, 64, 64, 32, 10, 1, 0]);
    }
}
