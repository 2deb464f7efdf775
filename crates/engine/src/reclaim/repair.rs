//! Repair after the death of a process.
//!
//! A *peer* is a process that is attached to the region. It holds the lock of its row in the table
//! of peers while it lives. A process that acquires the lock of a dead peer's row repairs what the
//! dead peer's threads left. If it dies during the repair, the next process finds the unfinished
//! work and repeats it. Every step leaves the region valid and is harmless when repeated.
//!
//! | left by the dead process | found by | repair |
//! |---|---|---|
//! | a locked group | the thread slot's intent, and the owner in the group | a split is finished, duplicates are removed, the group is unlocked |
//! | overflow groups in no chain, or not counted as free | the thread slot's intent, the owner in their control words | freed, counted |
//! | a record that was being changed | the thread slot's intent | an unused version is stored in it |
//! | a record that was being overwritten | the thread slot's intent, and version 0 in the record | the item is removed |
//! | appenders | the owner in the appender | released; records that were written but not published are skipped |
//! | segments taken, filled or emptied | the owner in the state | freed, or sealed |
//! | places of evictors | the owner in the place | released |
//! | pins and arriving pieces | the peer's row | dropped |
//! | a flush | the next operation | finished before the operation starts |
//! | accounts | all of the above | recounted soon if they may be too high |
//! | the count of filled slots | a dead process | recounted soon |

use std::collections::HashSet;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use larder_region::layout::global;

use crate::index::find::Found;
use crate::index::group::{Control, Locked, slots_of};
use crate::index::item::table_at;
use crate::process::op::Op;
use crate::process::thread_slot::{InPlace, ThreadSlot};
use crate::reclaim::Reclaimer;
use crate::segment::header::{Account, State};
use crate::segment::record::Header;
use crate::segment::slot::Slot;
use crate::segment::suspect::{ACCOUNTS, SEGMENTS_IN_USE, SLOTS};

impl Reclaimer {
    /// Repairs what the process of a row left. The caller holds the row's lock.
    pub(crate) fn repair(&self, row: u32) {
        let thread_slots: Vec<ThreadSlot> = self.peers().thread_slots_of(row).collect();
        // First releases everything that other threads wait for, because the rest takes longer in a
        // large memory.
        for thread in &thread_slots {
            self.unlock_for(thread);
            self.segments().release_appenders(thread);
            self.release_places(thread);
        }
        self.release_segments(&thread_slots);
        let segments = self.segments().used_segment_numbers();
        self.peers().release_holds(row, segments, |segment| self.segments().suspect(segment));
        for thread in &thread_slots {
            self.peers().note_taking(thread, false);
            self.peers().deregister(thread);
        }
        self.segments().recount_in_use();
        // The dead process may have been about to recount the suspects.
        self.segments().call_for_recount(ACCOUNTS);
        self.peers().free_row(row);
    }

    /// Same as [`Self::repair`], for a process that died. It may have filled slots without counting
    /// them.
    pub(crate) fn reap_peer(&self, row: u32) {
        self.segments().call_for_recount(SLOTS);
        self.repair(row);
    }

    /// Recounts the segments in use, while no other process uses the region. After the death of a
    /// process, `Engine::maintain` recounts the filled slots.
    pub(crate) fn count_alone(&self) {
        self.peers().forget_taking();
        self.segments().recount_in_use();
    }

    /// Unlocks the group that a dead thread slot held, if any, and finishes the work that the
    /// thread began under that lock.
    fn unlock_for(&self, thread: &ThreadSlot) {
        let groups = self.index().groups();
        let Some(group) = self.peers().last_locked(thread).filter(|group| *group < groups) else {
            return;
        };
        if Control(self.region().word(self.index().group_at(group)).load(Acquire)).owner()
            != thread.owner()
        {
            return;
        }
        let locked = self.index().take_over_group(group);
        self.suspect_replaced(thread);
        self.finish_change(thread, &locked);
        let level = groups.ilog2();
        if group == groups - (1 << level) && locked.control().level() == level + 1 {
            self.index().finish_split(thread, &locked, groups);
        }
        self.remove_duplicates(&locked);
        self.index().shorten_chain(thread, &locked);
        if self.peers().may_have_overflowed(thread) {
            self.settle_overflow(thread, &locked);
        }
    }

    /// Marks the accounts that may still count the record that was being replaced, and its pieces.
    fn suspect_replaced(&self, thread: &ThreadSlot) {
        let slot = Slot(self.peers().last_replaced(thread));
        if slot.is_empty() || !self.segments().segment_numbers().contains(&slot.segment()) {
            return;
        }
        self.segments().suspect(slot.segment());
        let sequence = self.segments().sequence(slot.segment()).load(Acquire);
        if sequence == 0 || !slot.is_of(sequence) {
            return;
        }
        let record_at = self.segments().record_at(slot);
        let header = Header::load(self.region().memory(), record_at);
        let fits = slot.offset() + header.record_bytes() <= self.region().segment_bytes();
        if header.is_large() && fits {
            let table = table_at(record_at, header);
            for piece in 0..(header.value_bytes() / 8).saturating_sub(1) {
                self.segments().suspect(self.index().slot(table + 8 * piece).segment());
            }
        }
    }

    /// Stores a version in the record that was being changed, as the dead thread would have done.
    /// Removes an item whose value the dead thread was overwriting, because the value is a mixture.
    fn finish_change(&self, thread: &ThreadSlot, locked: &Locked<'_>) {
        let Some(change) = self.peers().change_of(thread) else {
            return;
        };
        for at in locked.chain().flat_map(|group_at| slots_of(group_at, 0)) {
            let found = self.index().named_by(at, self.index().slot(at));
            if found.slot.is_empty() || found.record_at != change.record_at {
                continue;
            }
            let Some(version_at) = found.header.version_at() else {
                continue;
            };
            match change.kind {
                InPlace::Update => {
                    let version = self.peers().next_version(thread, change.version);
                    self.region().word(found.record_at + version_at).store(version, Release);
                }
                InPlace::Overwrite if self.index().version(&found) == 0 => {
                    self.remove_torn(thread, &found);
                }
                // The overwrite had not begun, or it was complete.
                InPlace::Overwrite => {}
            }
        }
        self.peers().end_change(thread);
    }

    /// Removes an item whose value is a mixture. Removal listeners receive values, so they are not
    /// called.
    fn remove_torn(&self, thread: &ThreadSlot, found: &Found) {
        let listener = self.segments().listener();
        let key = listener.map(|_| self.index().key(found));
        self.index().unlink(thread, found);
        if let (Some(listener), Some(key)) = (listener, key) {
            listener.changed(&key);
        }
    }

    /// Removes duplicates, which exist because a split copies slots to their new places before it
    /// clears the old ones.
    fn remove_duplicates(&self, locked: &Locked<'_>) {
        let mut seen = HashSet::new();
        for at in locked.chain().flat_map(|group_at| slots_of(group_at, 0)) {
            let slot = self.index().slot(at);
            if !slot.is_empty() && !seen.insert(slot.location()) {
                locked.set_control(locked.control().moved());
                self.index().set_slot(at, Slot::EMPTY);
            }
        }
    }

    /// Clears the owner of a dead thread slot's overflow groups that are in this chain, and frees
    /// its other overflow groups.
    ///
    /// Cost: two loads from each overflow group.
    fn settle_overflow(&self, thread: &ThreadSlot, locked: &Locked<'_>) {
        let chained: HashSet<usize> = locked.chain().collect();
        for group in 0..self.index().overflow_groups() {
            let at = self.index().overflow_at(group);
            let control = Control(self.region().word(at).load(Acquire));
            if control.owner() != thread.owner() {
                continue;
            }
            if chained.contains(&at) {
                self.index().disown(at);
            } else {
                slots_of(at, 0).for_each(|at| self.index().set_slot(at, Slot::EMPTY));
                self.index().free_overflow(group);
            }
        }
        // The dead thread may have lowered a count without taking a group, or freed a group without
        // counting it.
        for ordinal in 0..self.index().overflow_segments() {
            self.index().recount_overflow(ordinal);
        }
    }

    /// Frees or seals the segments of dead thread slots. The appenders of these thread slots must
    /// be released before.
    ///
    /// Cost: one pass over all segments, whatever the number of thread slots.
    fn release_segments(&self, thread_slots: &[ThreadSlot]) {
        let mut slot_of_owner = vec![None; self.region().layout().thread_slots + 1];
        for thread in thread_slots {
            slot_of_owner[thread.owner() as usize] = Some(thread);
        }
        for segment in self.segments().used_segment_numbers() {
            let owner = self.segments().segment_owner(segment) as usize;
            // In a damaged region, the owner may be any number.
            if let Some(thread) = slot_of_owner.get(owner).copied().flatten() {
                self.release_segment(thread, segment);
            }
        }
    }

    fn release_segment(&self, thread: &ThreadSlot, segment: u32) {
        self.segments().suspect(segment);
        match self.segments().state(segment) {
            // The thread died while it attached the segment to an appender or detached it. The
            // segment's records are complete, and no appender has it.
            State::Active => self.segments().seal(segment),
            State::Emptying if self.segments().sequence(segment).load(Acquire) != 0 => {
                self.segments().seal(segment);
            }
            state @ (State::Index | State::Overflow | State::Ghost)
                if self.is_in_directory(segment, state) =>
            {
                self.segments().set_state(segment, state);
            }
            _ => {
                self.segments().sequence(segment).store(0, Release);
                self.segments().free(thread, segment);
            }
        }
    }

    fn is_in_directory(&self, segment: u32, state: State) -> bool {
        let directory = match state {
            State::Index => self.region().layout().groups_directory_at,
            State::Overflow => self.region().layout().overflow_directory_at,
            _ => self.region().layout().ghost_directory_at,
        };
        let mut named = (0..self.region().layout().segments)
            .map(|place| self.region().half(directory + place * 4).load(Acquire));
        named.any(|named| named == segment + 1)
    }

    /// Releases the places of evictors.
    fn release_places(&self, thread: &ThreadSlot) {
        for place in 0..global::EVICTORS_MAX {
            let word = self.region().word(global::EVICTORS + 8 * place);
            if word.load(Relaxed) == thread.owner() {
                word.store(0, Release);
            }
        }
    }

    /// See `Engine::recount_suspects`.
    pub(crate) fn recount_suspects(&self, op: &Op<'_>, count_max: usize) {
        let suspects = self.segments().take_due_recounts();
        if suspects & SEGMENTS_IN_USE != 0 {
            self.segments().recount_in_use();
        }
        if suspects & SLOTS != 0 {
            self.index().recount_slots();
        }
        if suspects & ACCOUNTS == 0 {
            return;
        }
        let mut count = 0;
        let times_stuck = self.peers().times_stuck();
        for segment in self.segments().used_segment_numbers() {
            if !self.segments().is_suspect(segment) {
                continue;
            }
            count += 1;
            if count > count_max || !self.recount(op, segment) {
                self.segments().call_for_recount(ACCOUNTS);
            }
            if count > count_max || self.peers().times_stuck() != times_stuck {
                return;
            }
        }
    }

    /// Recounts the reachable content of a segment. Returns false if the recount must be repeated
    /// later.
    ///
    /// Each record is looked up under the lock of its group, and discharges happen under the same
    /// lock. A sealed segment only loses records. So if its account is the same before and after
    /// the count, nothing changed in between, and the count is the true value. In a segment that an
    /// appender still writes to, additions could offset removals. Such a segment is sealed first if
    /// its appender is idle; otherwise the recount waits.
    fn recount(&self, op: &Op<'_>, segment: u32) -> bool {
        let present = self.segments().present_use(segment);
        if present.sequence == 0 {
            self.segments().set_suspect(segment, false);
            return true;
        }
        if self.segments().state(segment) == State::Active {
            self.segments().detach_where(op.thread, |idle| idle == segment);
        }
        if self.peers().is_any_arriving(segment) || !self.segments().pin(segment, present.sequence)
        {
            return false;
        }
        // Cleared before the count: if another process dies during the count, its repair marks the
        // segment again. If this process dies, the repair finds its pin; see `release_holds`.
        self.segments().set_suspect(segment, false);
        let done = self.segments().state(segment) == State::Sealed && self.count_again(op, segment);
        if done {
            self.segments().file(segment);
        } else {
            self.segments().set_suspect(segment, true);
        }
        self.peers().unpin(segment);
        done
    }

    fn count_again(&self, op: &Op<'_>, segment: u32) -> bool {
        let word = self.segments().account_word(segment);
        let before = word.load(Acquire);
        let counted = self.reached(op, segment);
        counted.is_some_and(|counted| {
            !self.peers().is_any_arriving(segment)
                && word.compare_exchange(before, counted.word(), AcqRel, Relaxed).is_ok()
        })
    }

    fn reached(&self, op: &Op<'_>, segment: u32) -> Option<Account> {
        let mut counted = Account::default();
        for record in self.records(segment) {
            let locked = self.index().lock(op, record.hash).ok()?;
            if self.find_item_of(&locked, &record).is_some() {
                counted.add(Account::of(record.header));
            }
        }
        Some(counted)
    }

    /// Looks for dead peers and repairs what they left; see [`Peers::reap`].
    ///
    /// [`Peers::reap`]: crate::process::Peers::reap
    pub(crate) fn reap_peers(&self) -> bool {
        self.peers().reap(|row| self.reap_peer(row))
    }

    /// Same as [`Self::reap_peers`], using [`Peers::reap_some`].
    ///
    /// [`Peers::reap_some`]: crate::process::Peers::reap_some
    pub(crate) fn reap_some_peers(&self) -> bool {
        self.peers().reap_some(|row| self.reap_peer(row))
    }

    /// Same as [`Self::reap_peers`], using [`Peers::reap_in_turn`].
    ///
    /// [`Peers::reap_in_turn`]: crate::process::Peers::reap_in_turn
    pub(crate) fn reap_in_turn(&self) -> bool {
        self.peers().reap_in_turn(|row| self.reap_peer(row))
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests;
