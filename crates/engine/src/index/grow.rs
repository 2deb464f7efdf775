//! Growth of the index: linear hashing, one group at a time.
//!
//! With `2^L + p` groups, the next split is the split of group `p`: slots whose hash has bit `L`
//! set move to the new group `p + 2^L`. The bit belongs to the tag, so a split reads no key.
//! Readers never wait:
//!
//! 1. lock group `p`; fill the new group, which no reader can reach yet
//! 2. one store of `p`'s control word: level + 1. From here on, readers that miss in `p` follow it
//! 3. clear the moved slots in `p`
//! 4. raise the number of groups, unlock
//!
//! Until step 4, writers reach the new group only with the lock of `p`. So a moved slot that a
//! reader still finds in `p` is current.
//!
//! The lock of group `p` is also the right to split it. A store tries to take it once. While a
//! stopped process holds the lock, the index does not grow and its chains become longer. A store
//! splits one group, so a store never pays for growth that other stores caused.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use larder_region::layout::global;
use larder_stats::Counter;

use crate::error::StoreError;
use crate::index::Index;
use crate::index::group::{Control, Locked, SLOTS, slots_of};
use crate::index::selection::{ALL, Selection};
use crate::process::op::Op;
use crate::process::thread_slot::ThreadSlot;
use crate::segment::header::State;
use crate::segment::slot::{Slot, TAG_BITS};

/// The index grows when more than this percentage of its slots is filled. Groups that are about to
/// be split are fuller than the others. A higher limit makes too many of them overflow.
pub(crate) const LOAD_PERCENT_MAX: u64 = 72;

/// The number of groups that `Engine::maintain` splits in one call.
const MAINTAINED_SPLITS_MAX: usize = 1024;

/// How often a split is attempted if it runs out of overflow groups.
const ATTEMPTS_MAX: usize = 2;

/// The number of groups in which a recount counts filled slots. For a larger index, the estimate is
/// off by a few thousandths.
const RECOUNTED_GROUPS_MAX: u64 = 1 << 16;

/// The outcome of an attempt to split the next group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// The group was split.
    Done,
    /// Another thread holds the group, or has just split it.
    Busy,
}

impl Index {
    /// Splits the next group if the index has too few groups, unless another thread splits it. The
    /// caller holds neither group nor appender.
    #[inline]
    pub(crate) fn grow_if_due(&self, op: &Op<'_>) {
        if op.thread.may_be_crowded() {
            self.grow(op);
        }
    }

    #[cold]
    fn grow(&self, op: &Op<'_>) {
        let is_due = self.is_crowded()
            && match self.split(op) {
                Ok(Split::Done) => true,
                Ok(Split::Busy) => !self.look_after_splitter(op),
                Err(_) => false, // No memory: the thread tries again after more stores.
            };
        op.thread.set_may_be_crowded(is_due);
    }

    /// Splits groups until the index has enough, but at most [`MAINTAINED_SPLITS_MAX`] of them.
    pub(crate) fn grow_on(&self, op: &Op<'_>) {
        for _ in 0..MAINTAINED_SPLITS_MAX {
            if !self.is_crowded() || self.split(op) != Ok(Split::Done) {
                return;
            }
        }
    }

    /// Called when another thread holds the next group. Returns true if the index is much too
    /// small. Then the process of the other thread may be dead, so this also looks for dead peers
    /// when that is due.
    fn look_after_splitter(&self, op: &Op<'_>) -> bool {
        let is_far_behind = self.is_filled_to(LOAD_PERCENT_MAX + 10);
        if is_far_behind && self.peers().has_peers() && self.peers().is_reap_due() {
            op.reap_peers();
        }
        is_far_behind
    }

    fn is_crowded(&self) -> bool {
        self.is_filled_to(LOAD_PERCENT_MAX)
    }

    fn is_filled_to(&self, percent: u64) -> bool {
        let items = self.region().word(global::ITEMS).load(Relaxed).cast_signed().max(0) as u64;
        let groups = self.region().word(global::GROUPS).load(Relaxed);
        items.wrapping_mul(100) > groups.wrapping_mul(SLOTS as u64 * percent)
    }

    /// Returns the number of filled slots in one group, without its overflow groups.
    pub(crate) fn filled_slots(&self, group_at: usize) -> u64 {
        slots_of(group_at, 0).filter(|at| !self.slot(*at).is_empty()).count() as u64
    }

    /// Recounts the filled slots, because a killed process may have filled or emptied slots without
    /// counting them. Concurrent stores make the count inexact by the number of slots they change,
    /// and in a large index the count is an estimate. It only decides when the index grows.
    ///
    /// Cost: a load from each of at most [`RECOUNTED_GROUPS_MAX`] groups.
    pub(crate) fn recount_slots(&self) {
        let before = self.region().word(global::ITEMS).load(Relaxed);
        let groups = self.groups();
        let step = groups.div_ceil(RECOUNTED_GROUPS_MAX).max(1);
        let filled: u64 = (0..groups)
            .step_by(step as usize)
            .flat_map(|group| self.chain(self.group_at(group)))
            .map(|group_at| self.filled_slots(group_at))
            .sum();
        let looked_at = groups.div_ceil(step).max(1);
        let filled = (u128::from(filled) * u128::from(groups) / u128::from(looked_at)) as u64;
        let counted = filled.wrapping_sub(self.peers().unreported_slots().cast_unsigned());
        self.region().word(global::ITEMS).fetch_add(counted.wrapping_sub(before), Relaxed);
    }

    /// Splits the next group unless another thread holds it.
    pub(crate) fn split(&self, op: &Op<'_>) -> Result<Split, StoreError> {
        let groups = self.region().word(global::GROUPS).load(Acquire).max(1);
        if groups.ilog2().wrapping_sub(self.first_level()) >= TAG_BITS {
            // The tag has no more bits. From here on, groups overflow.
            return Err(StoreError::NoMemory);
        }
        // A thread must not hold a group while it takes a segment, because that may evict.
        let new_at = self.new_group(op, groups)?;
        for _ in 0..ATTEMPTS_MAX {
            let Some(locked) = self.lock_next_group(op.thread, groups) else {
                return Ok(Split::Busy);
            };
            if self.fill_new_group(op.thread, &locked, groups, new_at) {
                self.lead_to_new_group(&locked, groups);
                self.finish_split(op.thread, &locked, groups);
                drop(locked);
                self.peers().bump(op.thread, Counter::GroupsSplit, 1);
                return Ok(Split::Done);
            }
            drop(locked);
            self.add_overflow_segment(op)?;
        }
        Ok(Split::Busy)
    }

    /// Locks the group that is next to be split when there are this many groups, unless another
    /// thread holds it or has split it.
    pub(crate) fn lock_next_group(&self, thread: &ThreadSlot, groups: u64) -> Option<Locked<'_>> {
        let level = groups.ilog2();
        // If the number of groups has changed, this group was split and has another level.
        let is_next = |control: Control| control.level() == level;
        self.try_lock_group(thread, groups - (1 << level), is_next)
    }

    /// Does step 1 of a split: copies slots and ghost marks to the new group, which no reader can
    /// reach yet. Returns false if too few overflow groups are free.
    pub(crate) fn fill_new_group(
        &self,
        thread: &ThreadSlot,
        locked: &Locked<'_>,
        new_group: u64,
        new_at: usize,
    ) -> bool {
        let moving = Selection::of(self, locked.chain(), self.moves_to(new_group));
        let is_filled = self.fill_chain(thread, new_at, new_group.ilog2() + 1, moving);
        if is_filled {
            let tag_bit = new_group.ilog2() - self.first_level();
            self.split_ghost_row(locked.group, new_group, tag_bit);
        }
        is_filled
    }

    /// Does step 2 of a split.
    pub(crate) fn lead_to_new_group(&self, locked: &Locked<'_>, new_group: u64) {
        // Pairs with the acquire of readers: a reader that loads the new level finds the new group
        // filled.
        locked.set_control(locked.control().with_level(new_group.ilog2() + 1).moved());
    }

    /// Does steps 3 and 4 of a split, when readers already follow the new level. Repair repeats
    /// these steps if it finds an unfinished split.
    pub(crate) fn finish_split(&self, thread: &ThreadSlot, locked: &Locked<'_>, new_group: u64) {
        Selection::of(self, locked.chain(), self.moves_to(new_group)).clear(self);
        self.shorten_chain(thread, locked);
        self.chain(self.group_at(new_group)).skip(1).for_each(|at| self.disown(at));
        self.region().word(global::GROUPS).store(new_group + 1, Release);
    }

    /// Returns a function that tests whether a slot moves to a new group.
    fn moves_to(&self, new_group: u64) -> impl Fn(Slot) -> bool {
        let tag_bit = new_group.ilog2() - self.first_level();
        move |slot| slot.tag() >> tag_bit & 1 != 0
    }

    /// Returns the offset of a new group, and takes a segment for it if necessary.
    pub(crate) fn new_group(&self, op: &Op<'_>, group: u64) -> Result<usize, StoreError> {
        let ordinal = group as usize >> self.group_shift();
        let named = self.region().half(self.region().layout().groups_directory_at + ordinal * 4);
        if named.load(Relaxed) == 0 {
            // A split writes the complete group before a reader can reach it.
            let segment = op.take_segment()?;
            self.segments().set_own_state(segment, State::Index, op.thread);
            // Pairs with the acquire in `in_directory`.
            if named.compare_exchange(0, segment + 1, AcqRel, Relaxed).is_ok() {
                self.segments().set_state(segment, State::Index);
            } else {
                self.segments().free(op.thread, segment);
            }
        }
        Ok(self.group_at(group))
    }

    /// Writes slots to a group that no thread can reach yet and, if necessary, to overflow groups
    /// that follow it, which the thread slot owns. Returns false if too few overflow groups are
    /// free.
    fn fill_chain(
        &self,
        thread: &ThreadSlot,
        new_at: usize,
        level: u32,
        mut moving: Selection,
    ) -> bool {
        let (mut at, mut control) = (new_at, Control::new(level));
        loop {
            self.empty(at);
            moving.copy_into(self, at, ALL);
            let overflow = match moving.count() {
                0 => None,
                _ => self.take_overflow(thread),
            };
            // No thread loads this word before the release that makes the group reachable.
            self.region().word(at).store(control.with_overflow(overflow).0, Release);
            match overflow {
                Some(group) => at = self.overflow_at(group),
                None if moving.count() == 0 => return true,
                None => {
                    self.free_chain_behind(new_at);
                    return false;
                }
            }
            control = Control::OVERFLOW.with_owner(thread.owner());
        }
    }

    fn empty(&self, group_at: usize) {
        slots_of(group_at, 0).for_each(|at| self.set_slot(at, Slot::EMPTY));
    }

    /// Frees the overflow groups that follow a group that no thread can reach.
    fn free_chain_behind(&self, group_at: usize) {
        let overflow_of = |at| Control(self.region().word(at).load(Relaxed)).overflow();
        let mut next = overflow_of(group_at);
        while let Some(group) = next {
            let at = self.overflow_at(group);
            next = overflow_of(at);
            self.empty(at);
            self.free_overflow(group);
        }
    }

    /// Moves the remaining slots of a chain to its front and frees the groups that become empty.
    pub(crate) fn shorten_chain(&self, thread: &ThreadSlot, locked: &Locked<'_>) {
        if locked.control().overflow().is_none() {
            return;
        }
        let filled = Selection::of(self, locked.chain(), |_| true);
        let (chain, keep) = (filled.groups(), filled.count().div_ceil(SLOTS).max(1));
        let end = chain.last().map(|at| Control(self.region().word(*at).load(Relaxed)));
        if keep >= chain.len() || end.is_some_and(|end| end.overflow().is_some()) {
            return; // Nothing to cut, or the chain of a damaged region is a cycle.
        }
        let strays = filled.behind(keep);
        let mut left = strays.clone();
        for (number, group_at) in chain[..keep].iter().enumerate() {
            left.copy_into(self, *group_at, filled.others(number));
        }
        debug_assert!(left.count() == 0, "the kept groups have no room for all slots");
        // A reader that loaded the new places before they were filled, and the old ones after they
        // were cleared, must search again.
        locked.set_control(locked.control().moved());
        strays.clear(self);
        self.cut_chain(thread, &chain[keep - 1..]);
    }

    /// Ends a chain after the first of these groups, and frees the empty groups that followed it.
    /// Until then the thread slot owns them, so that repair finds them if the process dies here.
    fn cut_chain(&self, thread: &ThreadSlot, rest: &[usize]) {
        let control = |at: usize| Control(self.region().word(at).load(Relaxed));
        let store = |at: usize, control: Control| self.region().word(at).store(control.0, Release);
        let (last_at, empty) = (rest[0], &rest[1..]);
        self.peers().intend_to_overflow(thread);
        for at in empty {
            store(*at, control(*at).with_owner(thread.owner()));
        }
        let mut next = control(last_at).overflow();
        store(last_at, control(last_at).with_overflow(None));
        for at in empty {
            let Some(group) = next else { return };
            next = control(*at).overflow();
            self.free_overflow(group);
        }
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests {
    use std::ops::Range;
    use std::time::{Duration, Instant};

    use larder_item::{Deadline, Second, StoreMode};

    use super::*;
    use crate::engine::Engine;
    use crate::fixtures::{SMALL, two_peers};
    use crate::open::Config;
    use crate::ops::read::Read;
    use crate::ops::request::StoreRequest;
    use crate::process::operation::Operation;

    const NOW: Second = 10;

    /// Stores items with these numbers, each with its key, unless the key's group is `avoided`.
    fn store(engine: &Engine, thread: &ThreadSlot, numbers: Range<u32>, avoided: Option<u64>) {
        for key in numbers.map(u32::to_le_bytes) {
            let group = engine.index().group_of(engine.index().hash(&key));
            let request = StoreRequest {
                deadline: Deadline::NEVER,
                ..StoreRequest::new(&key, StoreMode::Set)
            };
            if Some(group) != avoided {
                engine.store(&Operation::new(thread, NOW), &request, b"v").unwrap();
            }
        }
    }

    fn is_there(engine: &Engine, thread: &ThreadSlot, number: u32) -> bool {
        let key = number.to_le_bytes();
        matches!(engine.read(thread, &key, NOW, &mut Vec::new(), |_, _| ()), Read::Hit(_))
    }

    #[test]
    fn slots_that_a_dead_process_did_not_count_are_recounted() {
        let (dead, engine) = two_peers();
        let thread = engine.register().unwrap();
        store(&engine, &thread, 0..3000, None);
        let count = engine.region().word(global::ITEMS);
        let filled =
            || count.load(Relaxed).wrapping_add(engine.peers().unreported_slots().cast_unsigned());
        assert_eq!(filled(), 3000);
        // Simulates a process that filled slots and died before counting them, many times.
        count.fetch_sub(2000, Relaxed);
        engine.reclaimer().reap_peer(dead.peers().row());
        engine.maintain(&thread, NOW);
        assert_eq!(filled(), 3000);
    }

    #[test]
    fn a_store_splits_one_group_and_maintenance_a_bounded_number_though_many_are_due() {
        let engine = Engine::create(&SMALL).unwrap();
        let thread = engine.register().unwrap();
        let groups = || engine.index().groups();
        store(&engine, &thread, 0..100, None);
        assert_eq!(groups(), 512);
        // Simulates an index that found no memory while this many items were stored.
        engine.region().word(global::ITEMS).fetch_add(20_000, Relaxed);
        for stores in 1..200 {
            let before = groups();
            store(&engine, &thread, 1000 + stores..1001 + stores, None);
            assert!(groups() <= before + 1, "one store split {} groups", groups() - before);
        }
        assert!(groups() > 512 + 150, "stores split {} groups only", groups() - 512);
        let before = groups();
        engine.maintain(&thread, NOW);
        assert_eq!(groups(), before + MAINTAINED_SPLITS_MAX as u64);
        engine.region().word(global::ITEMS).fetch_sub(20_000, Relaxed);
        engine.validate().unwrap();
    }

    #[test]
    fn the_index_keeps_up_with_threads_that_look_at_it_now_and_then() {
        let config = Config { memory_bytes: 4 << 20, memory_bytes_max: 4 << 20, ..SMALL };
        let engine = Engine::create(&config).unwrap();
        let threads = [(); 8].map(|()| engine.register().unwrap());
        for number in 0..40_000 {
            store(&engine, &threads[number as usize % 8], number..number + 1, None);
        }
        assert!(!engine.index().is_filled_to(LOAD_PERCENT_MAX + 1), "too few groups");
        engine.validate().unwrap();
    }

    #[test]
    fn a_process_stopped_in_a_split_stops_growth_and_no_store() {
        const STORE_MAX: Duration = Duration::from_secs(1);
        for leads_on in [false, true] {
            let (stopped, engine) = two_peers();
            let (holder, thread) = (stopped.register().unwrap(), engine.register().unwrap());
            store(&engine, &thread, 0..5000, None);
            let (index, groups) = (stopped.index(), engine.index().groups());
            let new_at = index.new_group(&stopped.op(&holder, NOW), groups).unwrap();
            let locked = index.lock_next_group(&holder, groups).unwrap();
            assert!(index.fill_new_group(&holder, &locked, groups, new_at));
            if leads_on {
                index.lead_to_new_group(&locked, groups);
            }
            for number in 5000..7000 {
                let begun = Instant::now();
                store(&engine, &thread, number..number + 1, Some(locked.group));
                assert!(begun.elapsed() < STORE_MAX, "a store waited for the stopped process");
            }
            assert_eq!(engine.index().groups(), groups, "the group was split twice");
            assert!((0..5000).all(|number| is_there(&engine, &thread, number)), "an item is lost");
            if leads_on {
                index.finish_split(&holder, &locked, groups);
            }
            drop(locked);
            store(&engine, &thread, 7000..7500, None);
            assert!(engine.index().groups() > groups + 50, "growth did not go on");
            assert!((0..5000).all(|number| is_there(&engine, &thread, number)), "an item is lost");
            engine.validate().unwrap();
        }
    }
}
