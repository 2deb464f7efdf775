//! How the index grows: linear hashing, one group at a time.
//!
//! With `2^L + p` groups, the next split is that of group `p`: slots whose hash has bit `L` set move to
//! the new group `p + 2^L`. The bit is one of the tag, so no key is read. Readers are never held up:
//!
//! 1. lock group `p`; fill the new group, which nobody can reach yet
//! 2. one store of `p`'s control word: level + 1. From here on readers that miss in `p` are led on
//! 3. clear the moved slots in `p`
//! 4. raise the number of groups, unlock
//!
//! Until 4 no writer reaches the new group without the lock of `p`, so a moved slot that a reader still
//! finds in `p` is current.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use larder_item::Second;
use larder_region::layout::global;
use larder_stats::Counter;

use crate::group::{Control, Locked, SLOTS, is_in_second_line, slots_of};
use crate::segment::State;
use crate::slot::{Slot, TAG_BITS};
use crate::supply::stack_top;
use crate::{Engine, NoMemory, Seat};

/// The index grows when more than so many of a hundred slots are filled. Groups that wait for their split
/// are fuller than those behind it, so that with more than this too many overflow.
const LOAD_PERCENT_MAX: u64 = 72;

/// A filled slot and where it was found.
#[derive(Clone, Copy)]
struct Placed {
    at: usize,
    group_at: usize,
    in_second_line: bool,
    slot: Slot,
}

impl Locked<'_> {
    /// The filled slots of the group and its overflow groups.
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

impl Engine {
    /// Splits groups until the index has room for what is in it, or nothing more can be had for it.
    /// The caller holds neither group nor head.
    pub(crate) fn grow_if_due(&self, seat: &Seat, now: Second) {
        let grower = self.memory.word(global::GROWER);
        while self.is_crowded() {
            if grower.compare_exchange(0, seat.owner(), Acquire, Relaxed).is_err() {
                return; // Somebody else is at it.
            }
            let split = self.is_crowded() && self.split(seat, now).is_ok();
            grower.store(0, Release);
            if !split {
                return;
            }
        }
    }

    fn is_crowded(&self) -> bool {
        let items = self.memory.word(global::ITEMS).load(Relaxed).cast_signed().max(0) as u64;
        let groups = self.memory.word(global::GROUPS).load(Relaxed);
        items * 100 > groups * SLOTS as u64 * LOAD_PERCENT_MAX
    }

    /// Splits the next group. Only for the grower.
    pub(crate) fn split(&self, seat: &Seat, now: Second) -> Result<(), NoMemory> {
        let groups = self.memory.word(global::GROUPS).load(Relaxed);
        let level = groups.ilog2();
        let tag_bit = level - self.first_level;
        if tag_bit >= TAG_BITS {
            return Err(NoMemory); // Tags have no more bits; groups overflow from here on.
        }
        let moves = |slot: Slot| slot.tag() >> tag_bit & 1 != 0;
        let new_at = self.new_group(seat, groups, now)?;
        let (locked, moved, spare) = loop {
            let locked = self.lock_group(seat, groups - (1 << level));
            let moved: Vec<Placed> =
                locked.placed().into_iter().filter(|placed| moves(placed.slot)).collect();
            match self.pop_overflow_groups(moved.len().div_ceil(SLOTS).saturating_sub(1)) {
                Some(spare) => break (locked, moved, spare),
                None => drop(locked),
            }
            self.add_overflow_segment(seat, now)?;
        };

        self.fill_chain(new_at, Control::new(level + 1), moved, &spare);
        self.split_ghost_row(locked.group, groups, tag_bit);
        // Step 2. Pairs with the acquire of readers: who sees the level sees the new group filled.
        locked.set_control(locked.control().with_level(level + 1).moved());
        for placed in locked.placed().iter().filter(|placed| moves(placed.slot)) {
            self.set_slot(placed.at, Slot::EMPTY);
        }
        self.shorten_chain(&locked);
        self.memory.word(global::GROUPS).store(groups + 1, Release);
        drop(locked);
        self.count(seat, Counter::GroupsSplit, 1);
        Ok(())
    }

    /// The place of a group that does not exist yet.
    fn new_group(&self, seat: &Seat, group: u64, now: Second) -> Result<usize, NoMemory> {
        let directory = self.layout.groups_directory_at + (group as usize >> self.group_shift) * 4;
        if self.memory.half(directory).load(Relaxed) == 0 {
            let segment = self.take_index_segment(seat, State::Index, now)?;
            // Pairs with the acquire in `in_directory`: the segment is zeroed.
            self.memory.half(directory).store(segment + 1, Release);
        }
        Ok(self.group_at(group))
    }

    /// Takes a zeroed segment for a part of the index.
    fn take_index_segment(&self, seat: &Seat, state: State, now: Second) -> Result<u32, NoMemory> {
        let segment = self.take_segment(seat, now)?;
        self.zero_segment(segment);
        self.set_state(segment, state);
        Ok(segment)
    }

    /// Fills a segment that nobody can reach with zeros.
    pub(crate) fn zero_segment(&self, segment: u32) {
        let at = self.layout.segment_at(segment);
        for word in (0..self.layout.segment_bytes).step_by(8) {
            self.memory.word(at + word).store(0, Relaxed);
        }
    }

    /// Writes slots into a group nobody can reach yet, and into the `spare` overflow groups behind it.
    fn fill_chain(&self, at: usize, control: Control, mut slots: Vec<Placed>, spare: &[u32]) {
        for place in slots_of(at, 0) {
            self.set_slot(place, Slot::EMPTY);
        }
        let free: Vec<usize> = slots_of(at, 0).collect();
        self.settle(at, free, &mut slots);
        let overflow = spare.split_first().map(|(group, spare)| {
            self.fill_chain(self.overflow_at(*group), Control::new(0), slots, spare);
            *group
        });
        // Nobody sees this word before the release that makes the group reachable.
        self.memory.word(at).store(control.with_overflow(overflow).0, Release);
    }

    /// Puts slots into free places of one group, each into the line it had where that is possible, and
    /// removes those it placed from `slots`.
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

    /// Moves what is left of a chain to its front and gives back the groups that are empty then.
    fn shorten_chain(&self, locked: &Locked<'_>) {
        if locked.control().overflow().is_none() {
            return;
        }
        let keep = locked.placed().len().div_ceil(SLOTS).max(1);
        let chain: Vec<usize> = locked.chain().collect();
        let (front, back) = chain.split_at(keep.min(chain.len()));
        let strays: Vec<Placed> =
            locked.placed().into_iter().filter(|placed| back.contains(&placed.group_at)).collect();
        let mut left = strays.clone();
        for group_at in front {
            let is_free = |at: &usize| self.slot(*at).is_empty();
            self.settle(*group_at, slots_of(*group_at, 0).filter(is_free).collect(), &mut left);
        }
        debug_assert!(left.is_empty(), "as many groups are kept as the slots need");
        // A reader that saw the holes before and the strays' places after this must look again.
        locked.set_control(locked.control().moved());
        for stray in strays {
            self.set_slot(stray.at, Slot::EMPTY);
        }
        self.cut_chain(front[front.len() - 1]);
    }

    /// Ends a chain at the group at `last_at`, whose followers are empty.
    fn cut_chain(&self, last_at: usize) {
        let last = Control(self.memory.word(last_at).load(Relaxed));
        let mut next = last.overflow();
        self.memory.word(last_at).store(last.with_overflow(None).0, Release);
        while let Some(group) = next {
            let control = Control(self.memory.word(self.overflow_at(group)).load(Relaxed));
            next = control.overflow();
            self.push_overflow(group);
        }
    }

    /// Puts an empty group behind the last one of a locked chain; none where none is free.
    pub(crate) fn extend_chain(&self, locked: &Locked<'_>) -> Option<usize> {
        let group = self.pop_overflow()?;
        let at = self.overflow_at(group);
        self.memory.word(at).store(Control::new(0).0, Release);
        let mut last_at = locked.at;
        loop {
            let control = Control(self.memory.word(last_at).load(Relaxed));
            match control.overflow() {
                Some(next) => last_at = self.overflow_at(next),
                None => {
                    let longer = control.with_overflow(Some(group));
                    self.memory.word(last_at).store(longer.0, Release);
                    return Some(at + 8);
                }
            }
        }
    }

    /// Makes more overflow groups. The caller holds no group.
    pub(crate) fn add_overflow_segment(&self, seat: &Seat, now: Second) -> Result<(), NoMemory> {
        let segment = self.take_index_segment(seat, State::Overflow, now)?;
        let per_segment = 1u64 << self.group_shift;
        let first = self.memory.word(global::OVERFLOW_GROUPS).fetch_add(per_segment, AcqRel);
        let ordinal = first as usize >> self.group_shift;
        let directory = self.layout.overflow_directory_at + ordinal * 4;
        self.memory.half(directory).store(segment + 1, Release);
        for group in (first..first + per_segment).rev() {
            self.push_overflow(group as u32);
        }
        Ok(())
    }

    fn push_overflow(&self, group: u32) {
        let at = self.overflow_at(group);
        let top = self.memory.word(global::FREE_OVERFLOW);
        let mut old = top.load(Relaxed);
        loop {
            // The link is not where chains have theirs: a reader that comes here late finds an end.
            self.memory.word(at).store(old << 32, Relaxed);
            // The release pairs with the acquire in `pop_overflow`.
            match top.compare_exchange_weak(old, stack_top(old, group + 1), Release, Relaxed) {
                Ok(_) => break,
                Err(found) => old = found,
            }
        }
        self.memory.word(global::FREE_OVERFLOW_COUNT).fetch_add(1, Relaxed);
    }

    fn pop_overflow_groups(&self, count: usize) -> Option<Vec<u32>> {
        let mut groups = Vec::with_capacity(count);
        while groups.len() < count {
            match self.pop_overflow() {
                Some(group) => groups.push(group),
                None => {
                    groups.into_iter().for_each(|group| self.push_overflow(group));
                    return None;
                }
            }
        }
        Some(groups)
    }

    fn pop_overflow(&self) -> Option<u32> {
        let count = self.memory.word(global::FREE_OVERFLOW_COUNT);
        // Lowered first, as with segments: it never promises a group that somebody else takes.
        count.fetch_update(AcqRel, Relaxed, |free| free.checked_sub(1)).ok()?;
        let top = self.memory.word(global::FREE_OVERFLOW);
        let mut old = top.load(Acquire);
        loop {
            let group = (old as u32).checked_sub(1)?;
            let below = (self.memory.word(self.overflow_at(group)).load(Relaxed) >> 32) as u32;
            match top.compare_exchange_weak(old, stack_top(old, below), Acquire, Acquire) {
                Ok(_) => return Some(group),
                Err(found) => old = found,
            }
        }
    }
}
