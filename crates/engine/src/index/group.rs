//! A group: one control word and 15 slots, two cache lines.
//!
//! ```text
//! line 0  │ control │ slot 0 … slot 6 │
//! line 1  │ slot 7 … slot 14          │
//!
//! control  63     51 50      35 34    30 29         0
//!          ┌────────┬──────────┬────────┬────────────┐
//!          │owner 13│version 16│level 5 │overflow 30 │
//!          └────────┴──────────┴────────┴────────────┘
//! ```
//!
//! `owner` excludes other writers of the group. `version` changes whenever slots move. `level` is
//! the number of low hash bits that lead to the group, less [`LEVEL_BASE`]. `overflow` is the
//! number + 1 of the next group of the chain. An overflow group is not locked separately. While it
//! is neither in a chain nor free, `owner` is the thread slot that holds it.
//!
//! Groups overflow most shortly before their split: there is up to one overflow group for five
//! groups. A cache of a terabyte that is full of the smallest items, which take 16 bytes in a
//! segment and 14 in the index, has 3.4 · 10⁹ groups and 0.7 · 10⁹ overflow groups. These are fewer
//! than 2³⁰. When the field had 26 bits, the numbers ran out at 4 · 10⁹ items.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use larder_region::layout::{self, GROUP_BYTES, global};

use crate::error::Stuck;
use crate::index::Index;
use crate::index::chain::CHAIN_GROUPS_MAX;
use crate::process::op::Op;
use crate::process::thread_slot::ThreadSlot;
use crate::process::wait::Wait;
use crate::segment::slot::{Slot, TAG_BITS};

/// The number of slots in a group.
pub(crate) const SLOTS: usize = 15;
/// The first slot of the second line.
pub(crate) const SECOND_LINE: usize = 7;

/// How many times locking a key's group is retried because a split moved the key to another group.
/// More splits mean that the level is damaged.
const LOCKS_MAX: u32 = 1000;

/// A group's control word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Control(pub(crate) u64);

impl Control {
    pub(crate) fn new(level: u32) -> Self {
        Self(level_field(level) << LEVEL_SHIFT)
    }

    /// The control word of an overflow group in use, before an owner or the next group of the chain
    /// is added to it.
    pub(crate) const OVERFLOW: Self = Self(0);

    /// The control word of a free overflow group: its level is one that no group has.
    pub(crate) const FREE: Self = Self(LEVEL_MASK << LEVEL_SHIFT);

    pub(crate) fn owner(self) -> u64 {
        self.0 >> OWNER_SHIFT
    }

    pub(crate) fn with_owner(self, owner: u64) -> Self {
        Self(self.0 & ((1 << OWNER_SHIFT) - 1) | owner << OWNER_SHIFT)
    }

    /// Returns all fields except the owner. A lookup that found nothing is valid only if they did
    /// not change.
    #[inline]
    pub(crate) fn shape(self) -> u64 {
        self.0 << OWNER_BITS
    }

    /// Returns all fields except the version.
    pub(crate) fn without_version(self) -> Self {
        Self(self.0 & !(VERSION_MASK << VERSION_SHIFT))
    }

    #[inline]
    pub(crate) fn level(self) -> u32 {
        (self.0 >> LEVEL_SHIFT & LEVEL_MASK) as u32 + LEVEL_BASE
    }

    pub(crate) fn with_level(self, level: u32) -> Self {
        let others = self.0 & !(LEVEL_MASK << LEVEL_SHIFT);
        Self(others | level_field(level) << LEVEL_SHIFT)
    }

    /// Returns the word with the next version, which tells readers that slots have moved.
    pub(crate) fn moved(self) -> Self {
        let version = (self.0 >> VERSION_SHIFT).wrapping_add(1) & VERSION_MASK;
        Self(self.without_version().0 | version << VERSION_SHIFT)
    }

    #[inline]
    pub(crate) fn overflow(self) -> Option<u32> {
        (self.0 as u32 & OVERFLOW_GROUPS_MAX as u32).checked_sub(1)
    }

    /// Returns the word with another overflow group. If the group's number exceeds the field, the
    /// word names no group, so that the number never changes the level.
    pub(crate) fn with_overflow(self, group: Option<u32>) -> Self {
        let fitting = group.filter(|group| u64::from(*group) < OVERFLOW_GROUPS_MAX);
        debug_assert_eq!(fitting, group, "an overflow group has a number beyond its field");
        Self(self.0 & !OVERFLOW_GROUPS_MAX | fitting.map_or(0, |group| u64::from(group) + 1))
    }
}

/// The maximal number of overflow groups: their numbers + 1 have the bits below the level.
pub(crate) const OVERFLOW_GROUPS_MAX: u64 = (1 << LEVEL_SHIFT) - 1;

/// The level field stores the level less this number. No group has such a low level, because even
/// the smallest segment has more groups than this many bits distinguish.
const LEVEL_BASE: u32 = 8;
const LEVEL_SHIFT: u32 = 30;
const LEVEL_MASK: u64 = (1 << 5) - 1;
const VERSION_SHIFT: u32 = LEVEL_SHIFT + 5;
const VERSION_MASK: u64 = (1 << 16) - 1;
const OWNER_SHIFT: u32 = VERSION_SHIFT + 16;
const OWNER_BITS: u32 = u64::BITS - OWNER_SHIFT;

/// Returns the level field of a control word for this level.
const fn level_field(level: u32) -> u64 {
    let field = level.wrapping_sub(LEVEL_BASE) as u64;
    debug_assert!(0 < field && field < LEVEL_MASK, "a level is beyond its field");
    field & LEVEL_MASK
}

/// Returns the maximal number of overflow segments in a region of this many segments.
pub(crate) fn overflow_segments_max(segments: usize, group_shift: u32) -> usize {
    segments.min(OVERFLOW_GROUPS_MAX as usize >> group_shift)
}

/// A locked group and its chain. Dropping the value unlocks the group.
pub(crate) struct Locked<'a> {
    index: &'a Index,
    pub(crate) group: u64,
    pub(crate) at: usize,
}

impl Locked<'_> {
    pub(crate) fn control(&self) -> Control {
        Control(self.index.region().word(self.at).load(Relaxed))
    }

    /// Changes the control word and keeps the lock.
    pub(crate) fn set_control(&self, control: Control) {
        // Pairs with the acquire of readers that follow level or overflow.
        self.index.region().word(self.at).store(control.0, Release);
    }

    /// Returns the offsets of the group and its overflow groups.
    pub(crate) fn chain(&self) -> impl Iterator<Item = usize> {
        self.index.chain(self.at)
    }

    /// Returns the offsets of all slots. The line that readers of `hash` load first comes first.
    #[inline]
    pub(crate) fn slots(&self, hash: u64) -> Slots<'_> {
        self.index.slots(self.at, hash)
    }

    /// Returns the content of a slot.
    pub(crate) fn slot(&self, slot_at: usize) -> Slot {
        self.index.slot(slot_at)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Pairs with the acquire in `lock`.
        self.set_control(self.control().with_owner(0));
    }
}

/// Returns the offsets of a group's slots. The line that `hash` prefers comes first.
#[inline]
pub(crate) fn slots_of(group_at: usize, hash: u64) -> impl Iterator<Item = usize> {
    let (first, second) = if prefers_second_line(hash) { (7..15, 0..7) } else { (0..7, 7..15) };
    first.chain(second).map(move |slot| group_at + 8 + slot * 8)
}

/// True if a hash prefers the second line of its group. Most keys are stored in their preferred
/// line, so that a lookup typically costs one cache miss.
#[inline]
pub(crate) fn prefers_second_line(hash: u64) -> bool {
    hash >> 47 & 1 != 0
}

/// An iterator over the offsets of the slots of a group and its overflow groups. It is written out
/// by hand because chained iterators cost a hundred instructions for each store.
pub(crate) struct Slots<'a> {
    index: &'a Index,
    group_at: usize,
    /// The first slot to return of each group.
    first: usize,
    /// The number of slots of the current group that were already returned.
    shown: usize,
    /// The number of overflow groups visited: in a damaged region the chain may be a cycle.
    overflows: usize,
}

impl Iterator for Slots<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.shown == SLOTS {
            self.group_at = self.index.overflow_of(self.group_at)?;
            self.overflows += 1;
            if self.overflows == CHAIN_GROUPS_MAX {
                return None;
            }
            self.shown = 0;
        }
        let slot = self.first + self.shown;
        self.shown += 1;
        let slot = if slot < SLOTS { slot } else { slot - SLOTS };
        Some(self.group_at + 8 + slot * 8)
    }
}

impl Index {
    /// Returns the tag of a hash: the bits directly above the bits that choose among the initial
    /// groups. So a split needs no key.
    #[inline]
    pub(crate) fn tag_of(&self, hash: u64) -> u64 {
        hash >> self.first_level & ((1 << TAG_BITS) - 1)
    }

    /// Returns the group of a hash according to the number of groups.
    #[inline]
    pub(crate) fn group_of(&self, hash: u64) -> u64 {
        // Pairs with the release in `finish_split`: the counted groups are filled.
        let groups = self.region().word(global::GROUPS).load(Acquire);
        // The next power of two - 1, even if the number of groups is damaged.
        let mask = u64::MAX >> (groups.wrapping_sub(1) | 1).leading_zeros();
        let group = hash & mask;
        if group < groups { group } else { group & mask >> 1 }
    }

    /// Returns the number of groups, limited to the possible number in case the region is damaged.
    /// For walks over all groups.
    pub(crate) fn groups(&self) -> u64 {
        self.region().word(global::GROUPS).load(Acquire).min(self.groups_max())
    }

    /// Returns the maximal number of groups: as many as fit in all segments.
    pub(crate) fn groups_max(&self) -> u64 {
        (self.region().layout().segments as u64) << self.group_shift
    }

    /// Returns the number of overflow groups, free ones included.
    pub(crate) fn overflow_groups(&self) -> u32 {
        // Pairs with the exchange in `add_overflow_segment`: the counted groups are in the
        // directory.
        let groups = self.region().word(global::OVERFLOW_GROUPS).load(Acquire);
        groups.min(self.groups_max()).min(OVERFLOW_GROUPS_MAX) as u32
    }

    /// Returns the offset of a group.
    #[inline]
    pub(crate) fn group_at(&self, group: u64) -> usize {
        self.in_directory(self.region().layout().groups_directory_at, group as usize)
    }

    /// Returns the offset of an overflow group.
    pub(crate) fn overflow_at(&self, group: u32) -> usize {
        self.in_directory(self.region().layout().overflow_directory_at, group as usize)
    }

    /// Prefetches a hash's group, for a caller that has other work to do first.
    pub(crate) fn prefetch_group(&self, hash: u64) {
        let group_at = self.group_at(self.group_of(hash));
        self.region().memory().prefetch(group_at);
        self.region().memory().prefetch(group_at + GROUP_BYTES / 2);
    }

    /// Looks up a group in a directory. The directory names the segments of the groups in order,
    /// each as number + 1.
    #[inline]
    fn in_directory(&self, directory_at: usize, group: usize) -> usize {
        // Pairs with the release that entered the segment in the directory.
        let named =
            self.region().half(directory_at + (group >> self.group_shift) * 4).load(Acquire);
        self.region().segment_at(named.wrapping_sub(1))
            + (group & ((1 << self.group_shift) - 1)) * GROUP_BYTES
    }

    /// Returns the offsets of a group and its overflow groups.
    #[inline]
    pub(crate) fn chain(&self, group_at: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(group_at), |at| self.overflow_of(*at))
            // In a damaged region the chain may be a cycle.
            .take(CHAIN_GROUPS_MAX)
    }

    /// Returns the overflow group that follows a group in its chain.
    #[inline]
    fn overflow_of(&self, group_at: usize) -> Option<usize> {
        // Pairs with the release that linked the overflow group.
        let control = Control(self.region().word(group_at).load(Acquire));
        control.overflow().map(|group| self.overflow_at(group))
    }

    /// Returns the offsets of the slots of a group and its overflow groups. The line that readers
    /// of `hash` load first comes first.
    #[inline]
    pub(crate) fn slots(&self, group_at: usize, hash: u64) -> Slots<'_> {
        let first = if prefers_second_line(hash) { SECOND_LINE } else { 0 };
        Slots { index: self, group_at, first, shown: 0, overflows: 0 }
    }

    #[inline]
    pub(crate) fn slot(&self, slot_at: usize) -> Slot {
        Slot(self.region().word(slot_at).load(Acquire))
    }

    /// Stores a word in a slot of a group that the caller has locked. If a reader raises the freq
    /// of the old word at the same time, its increment may be lost.
    pub(crate) fn set_slot(&self, slot_at: usize, slot: Slot) {
        // Pairs with the acquire of readers: a reader that loads the new slot finds the complete
        // record.
        self.region().word(slot_at).store(slot.0, Release);
    }

    /// Locks the group of a hash. A thread locks one group at a time.
    pub(crate) fn lock(&self, op: &Op<'_>, hash: u64) -> Result<Locked<'_>, Stuck> {
        for _ in 0..LOCKS_MAX {
            let group = self.group_of(hash);
            let locked = self.lock_group(op, group)?;
            let level = locked.control().level();
            if hash & ((1 << level) - 1) == group {
                return Ok(locked);
            }
            // The group was split during the wait. The next attempt reads the current number of
            // groups.
        }
        // No group is split this often: its level is damaged.
        Err(Stuck)
    }

    /// Locks the group of a hash unless another thread holds it for longer than an operation takes.
    pub(crate) fn lock_soon(&self, thread: &ThreadSlot, hash: u64) -> Option<Locked<'_>> {
        let mut wait = Wait::default();
        loop {
            if let Some(locked) = self.try_lock(thread, hash) {
                return Some(locked);
            }
            if !wait.is_spinning() {
                return None;
            }
            wait.pause();
        }
    }

    /// Locks the group of a hash if no other thread holds it.
    pub(crate) fn try_lock(&self, thread: &ThreadSlot, hash: u64) -> Option<Locked<'_>> {
        let group = self.group_of(hash);
        let leads_here = |control: Control| hash & ((1 << control.level()) - 1) == group;
        self.try_lock_group(thread, group, leads_here)
    }

    /// Locks a group if no other thread holds it and its control word satisfies `fits`.
    pub(crate) fn try_lock_group(
        &self,
        thread: &ThreadSlot,
        group: u64,
        fits: impl Fn(Control) -> bool,
    ) -> Option<Locked<'_>> {
        let at = self.group_at(group);
        let word = self.region().word(at);
        let control = Control(word.load(Relaxed));
        if control.owner() != 0 || !fits(control) {
            return None;
        }
        self.peers().intend_to_lock(thread, group);
        // Same as in `lock_group`. The exchange compares the checked word, so the level is the
        // group's.
        let mine = control.with_owner(thread.owner());
        word.compare_exchange(control.0, mine.0, AcqRel, Relaxed).is_ok().then(|| Locked {
            index: self,
            group,
            at,
        })
    }

    pub(crate) fn lock_group(&self, op: &Op<'_>, group: u64) -> Result<Locked<'_>, Stuck> {
        let at = self.group_at(group);
        let word = self.region().word(at);
        let mut wait = Wait::default();
        loop {
            let control = Control(word.load(Relaxed));
            if control.owner() == 0 {
                let mine = control.with_owner(op.thread.owner());
                self.peers().intend_to_lock(op.thread, group);
                // The acquire pairs with the release of the last owner's unlock. The release keeps
                // the intent before the exchange.
                if word.compare_exchange_weak(control.0, mine.0, AcqRel, Relaxed).is_ok() {
                    return Ok(Locked { index: self, group, at });
                }
            }
            op.wait(self.peers(), &mut wait)?;
        }
    }

    /// Locks one group of a walk over all groups. Same as [`Self::lock_group`], but does not wait
    /// after [`Peers::has_failed_often`].
    ///
    /// [`Peers::has_failed_often`]: crate::process::Peers::has_failed_often
    pub(crate) fn lock_walked_group(&self, op: &Op<'_>, group: u64) -> Result<Locked<'_>, Stuck> {
        match self.peers().has_failed_often() {
            true => self.lock_group(&op.with_patience(Duration::from_micros(1)), group),
            false => self.lock_group(op, group),
        }
    }

    /// Returns a group that a dead process had locked, so that the caller can repair it.
    pub(crate) fn take_over_group(&self, group: u64) -> Locked<'_> {
        Locked { index: self, group, at: self.group_at(group) }
    }
}

const _: () = assert!(GROUP_BYTES == 8 * (SLOTS + 1));
const _: () = assert!(OWNER_BITS == 13 && layout::OWNERS_MAX < 1 << OWNER_BITS);
// The first segment of an index has more than one group, and no segment has as many groups as the
// last level distinguishes.
const _: () = assert!(layout::SEGMENT_BYTES_MIN / GROUP_BYTES > 1 << LEVEL_BASE);
const _: () = assert!(
    (layout::SEGMENTS_MAX * (layout::SEGMENT_BYTES_MAX / GROUP_BYTES)).ilog2() + 1
        < LEVEL_BASE + LEVEL_MASK as u32
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_control_word_do_not_disturb_each_other() {
        let control = Control::new(9).with_owner(0x1FFF).with_overflow(Some(0x3FFF_FFFE));
        assert_eq!((control.owner(), control.level()), (0x1FFF, 9));
        assert_eq!(control.overflow(), Some(0x3FFF_FFFE));
        let control = control.with_level(38).with_overflow(None);
        assert_eq!((control.owner(), control.level(), control.overflow()), (0x1FFF, 38, None));
        assert_ne!(Control::FREE.level(), 38);
    }

    #[test]
    fn no_overflow_group_has_a_number_that_reaches_into_the_level() {
        let last = OVERFLOW_GROUPS_MAX as u32 - 1;
        assert_eq!(Control::new(9).with_overflow(Some(last)).level(), 9);
        // The largest region, and the region with the smallest segments.
        for (segments, segment_bytes) in
            [(layout::SEGMENTS_MAX, layout::SEGMENT_BYTES_MAX), (1 << 20, 64 << 10)]
        {
            let group_shift = (segment_bytes / GROUP_BYTES).ilog2();
            let groups = (overflow_segments_max(segments, group_shift) as u64) << group_shift;
            assert!(groups > 0 && groups - 1 <= u64::from(last), "{groups} groups");
        }
        assert_eq!(overflow_segments_max(15, 9), 15);
    }

    #[test]
    fn the_version_wraps_within_its_field_and_the_owner_is_no_part_of_the_shape() {
        let mut control = Control::new(9).with_owner(3);
        for _ in 0..0x1_0000 {
            assert_ne!(control.moved().shape(), control.shape());
            control = control.moved();
        }
        assert_eq!(control, Control::new(9).with_owner(3));
        assert_eq!(control.with_owner(0).shape(), control.shape());
    }

    #[test]
    fn all_slots_of_a_group_are_visited_once() {
        for hash in [0, 1 << 47] {
            let mut slots: Vec<usize> = slots_of(1280, hash).collect();
            assert_eq!(slots[0] < 1280 + 64, hash == 0);
            slots.sort_unstable();
            assert_eq!(slots, (0..15).map(|slot| 1288 + 8 * slot).collect::<Vec<_>>());
        }
    }
}
