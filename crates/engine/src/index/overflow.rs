//! Overflow groups: the groups that follow a full group of the index.
//!
//! They are stored in separate segments. The header of each such segment counts its free groups, so
//! that a search skips a full segment after one load. A thread that takes a group first lowers the
//! count and then searches for the group. A thread that frees a group raises the count last. When
//! no thread changes it, the count is the number of free groups. If a process dies between the two
//! steps, the count is one too low. The thread that repairs the region then counts again. Its count
//! may include a group that another thread is just taking. A search that finds no free group in a
//! segment with a positive count lowers the count.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use larder_region::layout::{GROUP_BYTES, SEGMENT_BYTES_MAX, global};

use crate::error::StoreError;
use crate::index::Index;
use crate::index::group::{Control, Locked, overflow_segments_max};
use crate::process::op::Op;
use crate::process::thread_slot::ThreadSlot;
use crate::segment::header::{FREE_GROUPS, State};

/// The free groups of an overflow segment: the number of changes in the upper half, and the count
/// in the lower half.
#[derive(Clone, Copy)]
struct Free(u32);

impl Free {
    fn count(self) -> u32 {
        self.0 & 0xFFFF
    }

    fn with_count(self, count: u32) -> Self {
        Self((self.0 >> 16).wrapping_add(1) << 16 | count)
    }
}

impl Index {
    /// Appends an empty group to a locked chain. Returns the offset of its first slot, or `None` if
    /// no overflow group is free.
    pub(crate) fn extend_chain(&self, thread: &ThreadSlot, locked: &Locked<'_>) -> Option<usize> {
        let group = self.take_overflow(thread)?;
        let at = self.overflow_at(group);
        let last_at = locked.chain().last()?;
        let last = Control(self.region().word(last_at).load(Relaxed));
        self.region().word(last_at).store(last.with_overflow(Some(group)).0, Release);
        self.disown(at);
        Some(at + 8)
    }

    /// Adds a segment of overflow groups. The caller holds no group.
    pub(crate) fn add_overflow_segment(&self, op: &Op<'_>) -> Result<(), StoreError> {
        let before = self.overflow_groups();
        let segment = op.take_segment()?;
        // Threads that run out of overflow groups at the same time share one new segment.
        if self.overflow_groups() != before {
            self.segments().free(op.thread, segment);
            return Ok(());
        }
        self.segments().zero_segment(segment);
        let at = self.region().segment_at(segment);
        let groups = 1 << self.group_shift();
        for group in 0..groups as usize {
            self.region().word(at + group * GROUP_BYTES).store(Control::FREE.0, Relaxed);
        }
        self.free_count(segment).store(Free(0).with_count(groups).0, Relaxed);
        self.segments().set_own_state(segment, State::Overflow, op.thread);
        let max = overflow_segments_max(self.region().layout().segments, self.group_shift());
        for ordinal in self.overflow_segments()..max {
            let named = self.overflow_segment(ordinal);
            let is_ours = named.load(Relaxed) == 0
                && named.compare_exchange(0, segment + 1, AcqRel, Relaxed).is_ok();
            // This also counts a segment that another thread entered before it died.
            let end = (ordinal as u64 + 1) << self.group_shift();
            self.region().word(global::OVERFLOW_GROUPS).fetch_max(end, AcqRel);
            if is_ours {
                self.segments().set_state(segment, State::Overflow);
                // The next groups are taken from here.
                let first = (ordinal as u64) << self.group_shift();
                self.region().word(global::OVERFLOW_NEXT).store(first, Relaxed);
                return Ok(());
            }
        }
        // The directory is full.
        self.segments().free(op.thread, segment);
        Err(StoreError::NoMemory)
    }

    /// Claims a free overflow group. The search begins after the group that was claimed last.
    ///
    /// Cost: a load for each full segment of overflow groups on the way and, in the segment that it
    /// takes the group from, a load for each group in use on the way.
    pub(crate) fn take_overflow(&self, thread: &ThreadSlot) -> Option<u32> {
        // The exchanges that claim a group order the intent before the claim.
        self.peers().intend_to_overflow(thread);
        let hint = self.region().word(global::OVERFLOW_NEXT);
        let segments = self.overflow_segments();
        let next = hint.load(Relaxed) as usize;
        let (first, from) = (next >> self.group_shift(), next & (self.groups_of_segment() - 1));
        let first = first.min(segments);
        let group = (first..segments).chain(0..first).find_map(|ordinal| {
            let from = if ordinal == first { from } else { 0 };
            self.take_overflow_of(thread, ordinal, from)
        })?;
        hint.store(u64::from(group) + 1, Relaxed);
        Some(group)
    }

    /// Claims a free group of one segment; the search begins at the group `from`.
    fn take_overflow_of(&self, thread: &ThreadSlot, ordinal: usize, from: usize) -> Option<u32> {
        let lower = |word| Some(Free(word).with_count(Free(word).count().checked_sub(1)?).0);
        let before = self.free_count_of(ordinal).fetch_update(AcqRel, Relaxed, lower).ok()?;
        let mine = Control::OVERFLOW.with_owner(thread.owner());
        let groups = self.groups_of_segment();
        let group = (from..groups).chain(0..from).find(|group| {
            let word = self.region().word(self.overflow_at(self.overflow_number(ordinal, *group)));
            word.load(Relaxed) == Control::FREE.0
                && word.compare_exchange(Control::FREE.0, mine.0, AcqRel, Relaxed).is_ok()
        });
        // The search may fail because other threads took the groups. If the count has changed since
        // this thread lowered it, this thread raises it again. Otherwise it was too high, and stays
        // lowered.
        if group.is_none() && Some(self.free_count_of(ordinal).load(Relaxed)) != lower(before) {
            self.count_freed(ordinal);
        }
        Some(self.overflow_number(ordinal, group?))
    }

    /// Frees an empty overflow group that the thread slot owns and that is in no chain.
    pub(crate) fn free_overflow(&self, group: u32) {
        let at = self.overflow_at(group);
        // Pairs with the exchange in `take_overflow_of`. For a late reader the chain ends here.
        self.region().word(at).store(Control::FREE.0, Release);
        self.count_freed(group as usize >> self.group_shift());
    }

    fn count_freed(&self, ordinal: usize) {
        let raise = |word| Some(Free(word).with_count((Free(word).count() + 1) & 0xFFFF).0);
        let _ = self.free_count_of(ordinal).fetch_update(AcqRel, Relaxed, raise);
    }

    /// Clears the owner of an overflow group that is now in a chain.
    pub(crate) fn disown(&self, at: usize) {
        let word = self.region().word(at);
        word.store(Control(word.load(Relaxed)).with_owner(0).0, Release);
    }

    /// Recounts the free groups of one segment of overflow groups.
    pub(crate) fn recount_overflow(&self, ordinal: usize) {
        let before = Free(self.free_count_of(ordinal).load(Acquire));
        let counted = self.walked_free(ordinal);
        if counted != before.count() {
            // If another thread took or freed a group since the count was loaded, it has changed
            // the count itself, and the exchange fails.
            let after = before.with_count(counted).0;
            let count = self.free_count_of(ordinal);
            let _ = count.compare_exchange(before.0, after, AcqRel, Relaxed);
        }
    }

    /// Counts the free groups of a segment by walking over all its groups.
    pub(crate) fn walked_free(&self, ordinal: usize) -> u32 {
        let is_free = |group: &usize| {
            let at = self.overflow_at(self.overflow_number(ordinal, *group));
            self.region().word(at).load(Relaxed) == Control::FREE.0
        };
        (0..self.groups_of_segment()).filter(is_free).count() as u32
    }

    /// Returns the number of free groups of a segment according to its header.
    pub(crate) fn counted_free(&self, ordinal: usize) -> u32 {
        Free(self.free_count_of(ordinal).load(Relaxed)).count()
    }

    /// Returns the number of free overflow groups.
    ///
    /// Cost: a load from each segment of overflow groups.
    pub(crate) fn free_overflow_groups(&self) -> u64 {
        (0..self.overflow_segments()).map(|ordinal| u64::from(self.counted_free(ordinal))).sum()
    }

    /// Returns the number of segments of overflow groups.
    pub(crate) fn overflow_segments(&self) -> usize {
        self.overflow_groups() as usize >> self.group_shift()
    }

    fn groups_of_segment(&self) -> usize {
        1 << self.group_shift()
    }

    fn overflow_number(&self, ordinal: usize, group: usize) -> u32 {
        (ordinal << self.group_shift() | group) as u32
    }

    /// Returns the place of a segment in the directory of overflow groups.
    fn overflow_segment(&self, ordinal: usize) -> &AtomicU32 {
        self.region().half(self.region().layout().overflow_directory_at + ordinal * 4)
    }

    fn free_count_of(&self, ordinal: usize) -> &AtomicU32 {
        // Pairs with the exchange in `add_overflow_segment`.
        let named = self.overflow_segment(ordinal).load(Acquire);
        self.free_count(named.wrapping_sub(1))
    }

    fn free_count(&self, segment: u32) -> &AtomicU32 {
        self.segments().segment_field(segment, FREE_GROUPS)
    }
}

const _: () = assert!(SEGMENT_BYTES_MAX / GROUP_BYTES <= 0xFFFF, "a count has 16 bits");

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::fixtures::SMALL;
    use crate::index::group::{OVERFLOW_GROUPS_MAX, SLOTS};
    use crate::index::grow::LOAD_PERCENT_MAX;

    #[test]
    fn a_group_freed_in_a_full_segment_is_found_and_none_is_taken_twice() {
        let engine = Engine::create(&SMALL).unwrap();
        let (thread, index) = (engine.register().unwrap(), engine.index());
        for _ in 0..2 {
            index.add_overflow_segment(&engine.op(&thread, 10)).unwrap();
        }
        let all = u64::from(index.overflow_groups());
        assert_eq!((all, index.free_overflow_groups()), (1024, 1024));
        let mut taken: Vec<u32> = (0..all).map(|_| index.take_overflow(&thread).unwrap()).collect();
        assert_eq!((index.take_overflow(&thread), index.free_overflow_groups()), (None, 0));
        taken.sort_unstable();
        assert_eq!(taken, (0..1024).collect::<Vec<u32>>());
        for group in [700, 3, 511] {
            index.free_overflow(group);
            assert_eq!((index.counted_free(0) + index.counted_free(1)), 1);
            assert_eq!(index.take_overflow(&thread), Some(group));
        }
        taken.iter().for_each(|group| index.free_overflow(*group));
        engine.validate().unwrap();
    }

    #[test]
    fn a_count_that_a_dead_process_left_wrong_is_corrected() {
        let engine = Engine::create(&SMALL).unwrap();
        let (thread, index) = (engine.register().unwrap(), engine.index());
        index.add_overflow_segment(&engine.op(&thread, 10)).unwrap();
        let count = index.free_count_of(0);
        count.fetch_sub(1, Relaxed);
        let said = engine.validate().unwrap_err().to_string();
        assert!(said.contains("512 groups of overflow segment 0 are free, 511 count"), "{said}");
        index.recount_overflow(0);
        engine.validate().unwrap();
        // This group was counted as free while a thread was taking it.
        count.fetch_add(1, Relaxed);
        (0..512).for_each(|group| assert_eq!(index.take_overflow(&thread), Some(group)));
        assert_eq!((index.counted_free(0), index.take_overflow(&thread)), (1, None));
        assert_eq!(index.counted_free(0), 0);
    }

    #[test]
    fn a_full_directory_refuses_a_segment_and_keeps_none() {
        let engine = Engine::create(&SMALL).unwrap();
        let (thread, index) = (engine.register().unwrap(), engine.index());
        let segments = engine.region().layout().segments;
        let max = overflow_segments_max(segments, index.group_shift());
        (0..max).for_each(|ordinal| index.overflow_segment(ordinal).store(1, Relaxed));
        let used = engine.segments().segments_in_use();
        let added = index.add_overflow_segment(&engine.op(&thread, 10));
        assert_eq!(added, Err(StoreError::NoMemory));
        assert_eq!(engine.segments().segments_in_use(), used);
        assert!(u64::from(index.overflow_groups()) <= OVERFLOW_GROUPS_MAX);
    }

    /// Items are distributed over groups according to a Poisson distribution. A group that waits
    /// for its split has up to twice as many items as one that was split.
    #[test]
    fn a_terabyte_of_the_smallest_items_needs_fewer_overflow_groups_than_have_numbers() {
        const MEMORY_BYTES: f64 = (1_u64 << 40) as f64;
        const ITEM_BYTES: f64 = 16.0;
        let overflow_groups = |mean: f64| {
            let (mut share, mut overflow) = ((-mean).exp(), 0.0);
            for items in 0..200_usize {
                let groups = items.div_ceil(SLOTS).max(1) - 1;
                overflow += share * groups as f64;
                share *= mean / (items + 1) as f64;
            }
            overflow
        };
        let mean = SLOTS as f64 * LOAD_PERCENT_MAX as f64 / 100.0;
        let most = (0..=100).map(f64::from).map(|percent| {
            let split = percent / 100.0;
            let waiting = mean * (1.0 + split);
            let overflow = (1.0 - split) * overflow_groups(waiting)
                + 2.0 * split * overflow_groups(waiting / 2.0);
            overflow / (1.0 + split)
        });
        let most = most.fold(0.0, f64::max);
        assert!((0.15..0.2).contains(&most), "{most} overflow groups stand beside a group");
        let index_bytes = GROUP_BYTES as f64 * (1.0 + most) / mean;
        let groups = MEMORY_BYTES / (ITEM_BYTES + index_bytes) / mean;
        let (needed, numbers) = (groups * most, OVERFLOW_GROUPS_MAX as f64);
        assert!(needed < 0.7 * numbers, "{needed} of {numbers} overflow groups are needed");
    }
}
