//! Growth of the index: linear hashing, one group at a time.
//!
//! With `2^L + p` groups, the next split is that of group `p`: slots whose hash has bit `L` set
//! move to the new group `p + 2^L`. The bit belongs to the tag, so a split reads no key. Readers
//! never wait:
//!
//! 1. lock group `p`; fill the new group, which no reader can reach yet
//! 2. one store of `p`'s control word: level + 1. From here on, readers that miss in `p` follow it
//! 3. clear the moved slots in `p`
//! 4. raise the number of groups, unlock
//!
//! Until step 4 no writer reaches the new group without the lock of `p`, so a moved slot that a
//! reader still finds in `p` is current.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use larder_region::layout::{GROUP_BYTES, global};
use larder_stats::Counter;

use crate::error::StoreError;
use crate::index::Index;
use crate::index::group::{
    Control, Locked, SLOTS, is_in_second_line, overflow_segments_max, slots_of,
};
use crate::process::op::Op;
use crate::process::thread_slot::ThreadSlot;
use crate::segment::header::State;
use crate::segment::slot::{Slot, TAG_BITS};

/// The percentage of filled slots above which the index grows. Groups that wait for their split are
/// fuller than the others; a higher limit makes too many of them overflow.
const LOAD_PERCENT_MAX: u64 = 72;

/// A filled slot and its location.
#[derive(Clone, Copy)]
struct Placed {
    at: usize,
    group_at: usize,
    in_second_line: bool,
    slot: Slot,
}

impl Locked<'_> {
    /// Returns the filled slots of the group and its overflow groups.
    fn placed(&self) -> Vec<Placed> {
        let of_group = |group_at: usize| {
            slots_of(group_at, 0).map(move |at| {
                let in_second_line = is_in_second_line(at, group_at);
                Placed { at, group_at, in_second_line, slot: self.slot(at) }
            })
        };
        self.chain().flat_map(of_group).filter(|placed| !placed.slot.is_empty()).collect()
    }
}

impl Index {
    /// Splits groups until the index has enough room, or no memory is left for it. The caller holds
    /// neither group nor appender.
    pub(crate) fn grow_if_due(&self, op: &Op<'_>) {
        let grower = self.region().word(global::GROWER);
        while self.is_crowded() {
            if grower.compare_exchange(0, op.thread.owner(), Acquire, Relaxed).is_err() {
                self.look_after_grower(op);
                return; // Another thread grows the index.
            }
            let split = self.is_crowded() && self.split(op).is_ok();
            grower.store(0, Release);
            if !split {
                return;
            }
        }
    }

    /// If the index falls far behind, the thread that grows it may be dead.
    fn look_after_grower(&self, op: &Op<'_>) {
        if self.peers().has_peers() && self.is_filled_to(LOAD_PERCENT_MAX + 10) {
            op.reap_peers();
        }
    }

    fn is_crowded(&self) -> bool {
        self.is_filled_to(LOAD_PERCENT_MAX)
    }

    fn is_filled_to(&self, percent: u64) -> bool {
        let items = self.region().word(global::ITEMS).load(Relaxed).cast_signed().max(0) as u64;
        let groups = self.region().word(global::GROUPS).load(Relaxed);
        items.wrapping_mul(100) > groups.wrapping_mul(SLOTS as u64 * percent)
    }

    /// Returns the number of filled slots of one group, without those of its chain.
    pub(crate) fn filled_slots(&self, group_at: usize) -> u64 {
        slots_of(group_at, 0).filter(|at| !self.slot(*at).is_empty()).count() as u64
    }

    /// Recounts the filled slots. A process that was killed may have filled or emptied slots
    /// without counting them. Concurrent stores make the count inexact by as much as they change.
    /// The count only decides when the index grows.
    ///
    /// Cost: a load from each group.
    pub(crate) fn recount_slots(&self) {
        let before = self.region().word(global::ITEMS).load(Relaxed);
        let filled: u64 = (0..self.groups())
            .flat_map(|group| self.chain(self.group_at(group)))
            .map(|group_at| self.filled_slots(group_at))
            .sum();
        let counted = filled.wrapping_sub(self.peers().unreported_slots().cast_unsigned());
        self.region().word(global::ITEMS).fetch_add(counted.wrapping_sub(before), Relaxed);
    }

    /// Splits the next group. Only the grower calls it.
    pub(crate) fn split(&self, op: &Op<'_>) -> Result<(), StoreError> {
        let groups = self.region().word(global::GROUPS).load(Relaxed);
        let level = groups.ilog2();
        let tag_bit = level - self.first_level;
        if tag_bit >= TAG_BITS {
            return Err(StoreError::NoMemory); // Tags have no more bits; groups overflow from here on.
        }
        let moves = |slot: Slot| slot.tag() >> tag_bit & 1 != 0;
        let new_at = self.new_group(op, groups)?;
        let (locked, moved, spare) = loop {
            let locked = self.lock_group(op, groups - (1 << level))?;
            let moved: Vec<Placed> =
                locked.placed().into_iter().filter(|placed| moves(placed.slot)).collect();
            let spare_count = moved.len().div_ceil(SLOTS).saturating_sub(1);
            match self.take_overflow_groups(op.thread, spare_count) {
                Some(spare) => break (locked, moved, spare),
                None => drop(locked),
            }
            self.add_overflow_segment(op)?;
        };

        self.fill_chain(op.thread, new_at, Control::new(level + 1), moved, &spare);
        self.split_ghost_row(locked.group, groups, tag_bit);
        // Step 2. Pairs with the acquire of readers: a reader that sees the level sees the new
        // group filled.
        locked.set_control(locked.control().with_level(level + 1).moved());
        self.finish_split(op.thread, &locked, groups);
        drop(locked);
        self.peers().bump(op.thread, Counter::GroupsSplit, 1);
        Ok(())
    }

    /// Does steps 3 and 4 of a split, after readers follow the new level. Repair repeats it if it
    /// finds a split half done.
    pub(crate) fn finish_split(&self, thread: &ThreadSlot, locked: &Locked<'_>, new_group: u64) {
        let tag_bit = new_group.ilog2() - self.first_level;
        let moved = |placed: &&Placed| placed.slot.tag() >> tag_bit & 1 != 0;
        for placed in locked.placed().iter().filter(moved) {
            self.set_slot(placed.at, Slot::EMPTY);
        }
        self.shorten_chain(thread, locked);
        let overflow: Vec<usize> = self.chain(self.group_at(new_group)).skip(1).collect();
        for at in overflow {
            self.disown(at);
        }
        self.region().word(global::GROUPS).store(new_group + 1, Release);
    }

    /// Returns the offset for a new group.
    fn new_group(&self, op: &Op<'_>, group: u64) -> Result<usize, StoreError> {
        let directory =
            self.region().layout().groups_directory_at + (group as usize >> self.group_shift) * 4;
        if self.region().half(directory).load(Relaxed) == 0 {
            let segment = self.take_index_segment(op, State::Index)?;
            // Pairs with the acquire in `in_directory`: the segment is zeroed.
            self.region().half(directory).store(segment + 1, Release);
            self.segments().set_state(segment, State::Index);
        }
        Ok(self.group_at(group))
    }

    /// Takes a zeroed segment for the index.
    fn take_index_segment(&self, op: &Op<'_>, state: State) -> Result<u32, StoreError> {
        let segment = op.take_segment()?;
        self.segments().zero_segment(segment);
        self.segments().set_own_state(segment, state, op.thread);
        Ok(segment)
    }

    /// Writes slots into a group that no thread can reach yet, and into the `spare` overflow groups
    /// of the thread slot behind it.
    fn fill_chain(
        &self,
        thread: &ThreadSlot,
        at: usize,
        control: Control,
        mut slots: Vec<Placed>,
        spare: &[u32],
    ) {
        for place in slots_of(at, 0) {
            self.set_slot(place, Slot::EMPTY);
        }
        let free: Vec<usize> = slots_of(at, 0).collect();
        self.settle(at, free, &mut slots);
        let overflow = spare.split_first().map(|(group, spare)| {
            let owned = Control::new(0).with_owner(thread.owner());
            self.fill_chain(thread, self.overflow_at(*group), owned, slots, spare);
            *group
        });
        // No thread sees this word before the release that makes the group reachable.
        self.region().word(at).store(control.with_overflow(overflow).0, Release);
    }

    /// Moves slots to free places of one group, each into its former line if possible, and removes
    /// the placed ones from `slots`.
    fn settle(&self, group_at: usize, mut free: Vec<usize>, slots: &mut Vec<Placed>) {
        for same_line in [true, false] {
            slots.retain(|placed| {
                let fits = |at: &usize| is_in_second_line(*at, group_at) == placed.in_second_line;
                match free.iter().position(|at| !same_line || fits(at)) {
                    Some(place) => {
                        self.set_slot(free.swap_remove(place), placed.slot);
                        false
                    }
                    None => true,
                }
            });
        }
    }

    /// Moves the rest of a chain to its front and frees the groups that become empty.
    pub(crate) fn shorten_chain(&self, thread: &ThreadSlot, locked: &Locked<'_>) {
        if locked.control().overflow().is_none() {
            return;
        }
        let chain: Vec<usize> = locked.chain().collect();
        if chain.len() > self.overflow_groups() as usize {
            return; // The chain of a damaged region is a ring; otherwise all overflow groups are in this one chain.
        }
        let keep = locked.placed().len().div_ceil(SLOTS).max(1);
        let (front, back) = chain.split_at(keep.min(chain.len()));
        let strays: Vec<Placed> =
            locked.placed().into_iter().filter(|placed| back.contains(&placed.group_at)).collect();
        let mut left = strays.clone();
        for group_at in front {
            let is_free = |at: &usize| self.slot(*at).is_empty();
            self.settle(*group_at, slots_of(*group_at, 0).filter(is_free).collect(), &mut left);
        }
        debug_assert!(left.is_empty(), "the kept groups have no room for all slots");
        // A reader that saw the old holes and then the new places must search again.
        locked.set_control(locked.control().moved());
        for stray in strays {
            self.set_slot(stray.at, Slot::EMPTY);
        }
        self.cut_chain(thread, front[front.len() - 1], back);
    }

    /// Ends a chain at the group at `last_at` and frees the empty ones behind it. The thread slot
    /// owns them in between, so that repair finds them if the process dies here.
    fn cut_chain(&self, thread: &ThreadSlot, last_at: usize, empty: &[usize]) {
        for at in empty {
            let control = Control(self.region().word(*at).load(Relaxed));
            self.region().word(*at).store(control.with_owner(thread.owner()).0, Release);
        }
        let last = Control(self.region().word(last_at).load(Relaxed));
        self.region().word(last_at).store(last.with_overflow(None).0, Release);
        empty.iter().for_each(|at| self.free_overflow(*at));
    }

    /// Appends an empty group to a locked chain. Returns `None` if no overflow group is free.
    pub(crate) fn extend_chain(&self, thread: &ThreadSlot, locked: &Locked<'_>) -> Option<usize> {
        let group = self.take_overflow(thread)?;
        let at = self.overflow_at(group);
        let last_at = locked.chain().last()?;
        let last = Control(self.region().word(last_at).load(Relaxed));
        self.region().word(last_at).store(last.with_overflow(Some(group)).0, Release);
        self.disown(at);
        Some(at + 8)
    }

    /// Makes more overflow groups. The caller holds no group.
    pub(crate) fn add_overflow_segment(&self, op: &Op<'_>) -> Result<(), StoreError> {
        let segment = self.take_index_segment(op, State::Overflow)?;
        let at = self.region().segment_at(segment);
        for group in 0..1 << self.group_shift {
            self.region().word(at + group * GROUP_BYTES).store(Control::FREE.0, Relaxed);
        }
        for ordinal in 0..overflow_segments_max(self.region().layout().segments, self.group_shift) {
            let named =
                self.region().half(self.region().layout().overflow_directory_at + ordinal * 4);
            let is_ours = named.load(Relaxed) == 0
                && named.compare_exchange(0, segment + 1, AcqRel, Relaxed).is_ok();
            // Also on behalf of a thread that entered a segment and died.
            let groups = (ordinal as u64 + 1) << self.group_shift;
            self.region().word(global::OVERFLOW_GROUPS).fetch_max(groups, AcqRel);
            if is_ours {
                self.segments().set_state(segment, State::Overflow);
                return Ok(());
            }
        }
        // The directory is full.
        self.segments().free(op.thread, segment);
        Err(StoreError::NoMemory)
    }

    fn take_overflow_groups(&self, thread: &ThreadSlot, count: usize) -> Option<Vec<u32>> {
        let mut groups = Vec::with_capacity(count);
        while groups.len() < count {
            match self.take_overflow(thread) {
                Some(group) => groups.push(group),
                None => {
                    groups
                        .into_iter()
                        .for_each(|group| self.free_overflow(self.overflow_at(group)));
                    return None;
                }
            }
        }
        Some(groups)
    }

    /// Claims a free overflow group: the one freed last, or one near it.
    fn take_overflow(&self, thread: &ThreadSlot) -> Option<u32> {
        let hint = self.region().word(global::OVERFLOW_NEXT);
        let groups = self.overflow_groups();
        let start = (hint.load(Relaxed) as u32).min(groups);
        let mine = Control::new(0).with_owner(thread.owner());
        let group = (start..groups).chain(0..start).find(|group| {
            let word = self.region().word(self.overflow_at(*group));
            word.load(Relaxed) == Control::FREE.0
                && word.compare_exchange(Control::FREE.0, mine.0, AcqRel, Relaxed).is_ok()
        })?;
        hint.store(u64::from(group) + 1, Relaxed);
        Some(group)
    }

    /// Frees an empty overflow group of the thread slot that is in no chain.
    pub(crate) fn free_overflow(&self, at: usize) {
        // Pairs with the exchange in `take_overflow`. A late reader sees the end of a chain.
        self.region().word(at).store(Control::FREE.0, Release);
    }

    /// Clears the owner of an overflow group that a chain holds now.
    pub(crate) fn disown(&self, at: usize) {
        let control = Control(self.region().word(at).load(Relaxed));
        self.region().word(at).store(control.with_owner(0).0, Release);
    }

    /// Returns the number of free overflow groups.
    pub(crate) fn free_overflow_groups(&self) -> u64 {
        let is_free = |group: &u32| {
            self.region().word(self.overflow_at(*group)).load(Relaxed) == Control::FREE.0
        };
        (0..self.overflow_groups()).filter(is_free).count() as u64
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests {
    use larder_item::{Deadline, Second, StoreMode};

    use super::*;
    use crate::fixtures::two_peers;
    use crate::ops::request::StoreRequest;

    const NOW: Second = 10;

    #[test]
    fn slots_that_a_dead_process_did_not_count_are_recounted() {
        let (dead, engine) = two_peers();
        let thread = engine.register().unwrap();
        for key in 0..3000_u32 {
            let key = key.to_le_bytes();
            let request = StoreRequest {
                deadline: Deadline::NEVER,
                ..StoreRequest::new(&key, StoreMode::Set)
            };
            engine.store(&thread, &request, b"v", NOW).unwrap();
        }
        let count = engine.region().word(global::ITEMS);
        let filled =
            || count.load(Relaxed).wrapping_add(engine.peers().unreported_slots().cast_unsigned());
        assert_eq!(filled(), 3000);
        // As if the process had filled slots and died before counting them, many times.
        count.fetch_sub(2000, Relaxed);
        engine.reclaimer().reap_peer(dead.peers().row());
        engine.maintain(&thread, NOW);
        assert_eq!(filled(), 3000);
    }
}
