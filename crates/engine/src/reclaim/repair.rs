//! Repair after the death of a process.
//!
//! The holder of the lock of a dead peer's row acts on the dead peer's thread slots. If it dies
//! too, the next process finds what is half done and repeats it. Every step leaves the region valid
//! and is harmless when repeated.
//!
//! | left behind | found by | repair |
//! |---|---|---|
//! | a locked group | the thread slot's intent, and the owner in the group | a split is finished, duplicates removed, unlocked |
//! | overflow groups in no chain | the owner in their control words | freed |
//! | a record that was being changed | the thread slot's intent | it gets an unused version |
//! | appenders | the owner in the appender | released; written but unpublished records are skipped |
//! | segments taken, filled or emptied | the owner in the state | freed, or sealed |
//! | places of evictors and of the grower | the owner there | given back |
//! | pins and arriving pieces | the peer's row | forgotten |
//! | a flush | the next operation | finished before anything else |
//! | accounts | all of the above | recounted soon if they may be too high |
//! | the count of filled slots | a dead process | recounted soon |

use std::collections::HashSet;
use std::sync::TryLockError;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use larder_region::layout::global;

use crate::index::group::{Control, Locked, slots_of};
use crate::index::item::table_at;
use crate::process::peers::lock_byte;
use crate::process::wait::let_others_run;
use crate::segment::allocator::recounted;
use crate::segment::header::{Account, State};
use crate::segment::record::Header;
use crate::segment::slot::Slot;
use crate::segment::suspect::{ACCOUNTS, SEGMENTS_IN_USE, SLOTS};
use crate::{Engine, ThreadSlot};

impl Engine {
    /// Repairs what the process of a row left. Only for the holder of the row's lock.
    pub(crate) fn repair(&self, row: u32) {
        let thread_slots: Vec<ThreadSlot> = self.thread_slots_of(row).collect();
        for thread in &thread_slots {
            self.unlock_for(thread);
            self.release_appenders(thread);
            self.release_segments(thread);
            self.release_places(thread);
        }
        self.release_holds(row);
        for thread in &thread_slots {
            self.note_taking(thread, false);
            self.deregister(thread);
        }
        self.count_segments_again();
        // The dead process may have been about to recount the suspects.
        self.memory.word(global::SUSPECTS).fetch_or(ACCOUNTS, Release);
        self.free_row(row);
    }

    /// As [`Self::repair`], for a process that died: it may have filled slots without counting
    /// them.
    pub(crate) fn reap_peer(&self, row: u32) {
        self.memory.word(global::SUSPECTS).fetch_or(SLOTS, Release);
        self.repair(row);
    }

    /// Recounts the segments in use while no other process uses the region. After the death of a
    /// process, [`Engine::maintain`] recounts the filled slots.
    pub(crate) fn count_alone(&self) {
        self.forget_taking();
        self.count_segments_again();
    }

    /// Unlocks the group that a dead thread slot held, if any, and finishes what was half done
    /// under that lock.
    fn unlock_for(&self, thread: &ThreadSlot) {
        let groups = self.memory.word(global::GROUPS).load(Acquire);
        let Some(group) = self.last_locked(thread).filter(|group| *group < groups) else {
            return;
        };
        if Control(self.memory.word(self.group_at(group)).load(Acquire)).owner() != thread.owner() {
            return;
        }
        let locked = self.adopt_group(group);
        self.suspect_replaced(thread);
        self.finish_change(thread, &locked);
        let level = groups.ilog2();
        if group == groups - (1 << level) && locked.control().level() == level + 1 {
            self.finish_split(thread, &locked, groups);
        }
        self.remove_duplicates(&locked);
        self.shorten_chain(thread, &locked);
        self.settle_overflow(thread, &locked);
    }

    /// Marks the accounts that may still count the record that was being replaced, and its pieces.
    fn suspect_replaced(&self, thread: &ThreadSlot) {
        let slot = self.last_replaced(thread);
        if slot.is_empty() || !self.segment_numbers().contains(&slot.segment()) {
            return;
        }
        self.suspect(slot.segment());
        let sequence = self.sequence(slot.segment()).load(Acquire);
        if sequence == 0 || !slot.is_of(sequence) {
            return;
        }
        let record_at = self.layout.segment_at(slot.segment()) + slot.offset();
        let header = Header::load(&self.memory, record_at);
        let fits = slot.offset() + header.record_bytes() <= self.layout.segment_bytes;
        if header.is_large() && fits {
            let table = table_at(record_at, header);
            for piece in 0..(header.value_bytes() / 8).saturating_sub(1) {
                self.suspect(self.slot(table + 8 * piece).segment());
            }
        }
    }

    /// Gives the record that was being changed a version, as the dead thread would have.
    fn finish_change(&self, thread: &ThreadSlot, locked: &Locked<'_>) {
        let Some((record_at, replaced)) = self.change_of(thread) else {
            return;
        };
        for at in locked.chain().flat_map(|group_at| slots_of(group_at, 0)) {
            let found = self.named_by(at, self.slot(at));
            if !found.slot.is_empty()
                && found.record_at == record_at
                && let Some(version_at) = found.header.version_at()
            {
                let version = self.next_version(thread, replaced);
                self.memory.word(record_at + version_at).store(version, Release);
            }
        }
        self.end_change(thread);
    }

    /// Removes duplicates: a split copies slots to their new places before it clears the old ones.
    fn remove_duplicates(&self, locked: &Locked<'_>) {
        let mut seen = HashSet::new();
        for at in locked.chain().flat_map(|group_at| slots_of(group_at, 0)) {
            let slot = self.slot(at);
            if !slot.is_empty() && !seen.insert(slot.location()) {
                locked.set_control(locked.control().moved());
                self.set_slot(at, Slot::EMPTY);
            }
        }
    }

    /// Assigns the overflow groups of a dead thread slot to their chains, or frees them.
    fn settle_overflow(&self, thread: &ThreadSlot, locked: &Locked<'_>) {
        let chained: HashSet<usize> = locked.chain().collect();
        for group in 0..self.overflow_groups() {
            let at = self.overflow_at(group);
            let control = Control(self.memory.word(at).load(Acquire));
            if control.owner() != thread.owner() {
                continue;
            }
            if chained.contains(&at) {
                self.disown(at);
            } else {
                slots_of(at, 0).for_each(|at| self.set_slot(at, Slot::EMPTY));
                self.free_overflow(at);
            }
        }
    }

    /// Frees or seals the segments of a dead thread slot. Its appenders are released before.
    fn release_segments(&self, thread: &ThreadSlot) {
        for segment in self.segment_numbers().take(self.used_segments() as usize) {
            if self.segment_owner(segment) != thread.owner() {
                continue;
            }
            self.suspect(segment);
            match self.state(segment) {
                // Between two appenders: complete, and without an owner.
                State::Active => self.set_state(segment, State::Sealed),
                State::Emptying if self.sequence(segment).load(Acquire) != 0 => {
                    self.set_state(segment, State::Sealed);
                }
                state @ (State::Index | State::Overflow | State::Ghost)
                    if self.is_in_directory(segment, state) =>
                {
                    self.set_state(segment, state);
                }
                _ => {
                    self.sequence(segment).store(0, Release);
                    self.free(thread, segment);
                }
            }
        }
    }

    fn is_in_directory(&self, segment: u32, state: State) -> bool {
        let directory = match state {
            State::Index => self.layout.groups_directory_at,
            State::Overflow => self.layout.overflow_directory_at,
            _ => self.layout.ghost_directory_at,
        };
        let mut named = (0..self.layout.segments)
            .map(|place| self.memory.half(directory + place * 4).load(Acquire));
        named.any(|named| named == segment + 1)
    }

    /// Gives back the places of evictors and of the grower.
    fn release_places(&self, thread: &ThreadSlot) {
        let evictors = (0..global::EVICTORS_MAX).map(|place| global::EVICTORS + 8 * place);
        for at in evictors.chain([global::GROWER]) {
            let word = self.memory.word(at);
            if word.load(Relaxed) == thread.owner() {
                word.store(0, Release);
            }
        }
    }

    /// Recounts the segments in use, if no thread takes or gives back one meanwhile.
    fn count_segments_again(&self) {
        let word = self.memory.word(global::SEGMENTS_USED);
        for _ in 0..RECOUNTS_MAX {
            let before = word.load(Acquire);
            if !self.is_anybody_taking() {
                let segments = self.segment_numbers().take(self.used_segments() as usize);
                let is_used = |segment: &u32| self.state(*segment) != State::Free;
                let counted = recounted(before, segments.filter(is_used).count() as u64);
                if !self.is_anybody_taking()
                    && word.compare_exchange(before, counted, AcqRel, Relaxed).is_ok()
                {
                    return;
                }
            }
            let_others_run();
        }
        self.memory.word(global::SUSPECTS).fetch_or(SEGMENTS_IN_USE, Release);
    }

    /// Recounts the accounts of suspect segments, at most `count_max`. Segments with arriving
    /// values have to wait, because no slot names their pieces yet.
    pub fn recount_suspects(&self, thread: &ThreadSlot, count_max: usize) {
        let suspects = self.memory.word(global::SUSPECTS).swap(0, AcqRel);
        if suspects & SEGMENTS_IN_USE != 0 {
            self.count_segments_again();
        }
        if suspects & SLOTS != 0 {
            self.recount_slots();
        }
        if suspects & ACCOUNTS == 0 {
            return;
        }
        let mut count = 0;
        let times_stuck = self.times_stuck();
        for segment in self.segment_numbers().take(self.used_segments() as usize) {
            if !self.is_suspect(segment) {
                continue;
            }
            count += 1;
            if count > count_max || !self.recount(thread, segment) {
                self.memory.word(global::SUSPECTS).fetch_or(ACCOUNTS, Release);
            }
            if count > count_max || self.times_stuck() != times_stuck {
                return;
            }
        }
    }

    /// Recounts the reachable content of a segment. Returns false if it has to be done another
    /// time.
    ///
    /// Each record is looked up under the lock of its group, and discharges happen under the same
    /// lock. A sealed segment only loses records, so if its account is the same before and after,
    /// nothing changed between and the count is its true value. In a segment that is still written
    /// to, additions could make up for removals: it is sealed first, or waits until it is.
    fn recount(&self, thread: &ThreadSlot, segment: u32) -> bool {
        let present = self.present_use(segment);
        if present.sequence == 0 {
            self.set_suspect(segment, false);
            return true;
        }
        if self.state(segment) == State::Active {
            self.detach_where(thread, |idle| idle == segment);
        }
        if self.is_any_arriving(segment) || !self.pin(segment, present.sequence) {
            return false;
        }
        // Before the count: the death of another process marks the segment again. If this process
        // dies, its pin does: see `release_holds`.
        self.set_suspect(segment, false);
        let done = self.state(segment) == State::Sealed && self.count_again(thread, segment);
        if !done {
            self.set_suspect(segment, true);
        }
        self.unpin(segment);
        done
    }

    fn count_again(&self, thread: &ThreadSlot, segment: u32) -> bool {
        let word = self.account_word(segment);
        let before = word.load(Acquire);
        let counted = self.reached(thread, segment);
        counted.is_some_and(|counted| {
            !self.is_any_arriving(segment)
                && word.compare_exchange(before, counted.word(), AcqRel, Relaxed).is_ok()
        })
    }

    fn reached(&self, thread: &ThreadSlot, segment: u32) -> Option<Account> {
        let mut counted = Account::default();
        for record in self.records(segment) {
            let locked = self.lock(thread, record.hash).ok()?;
            if self.find_item_of(&locked, &record).is_some() {
                counted.add(Account::of(record.header));
            }
        }
        Some(counted)
    }

    /// Looks for dead peers and repairs what they left. Returns true if there were any.
    ///
    /// Cost: a system call for each peer.
    pub(crate) fn reap_peers(&self) -> bool {
        let Some(locks) = &self.table.locks else {
            return false;
        };
        let _reaping = match self.table.reaping.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let mut any = false;
        for row in self.rows().filter(|row| *row != self.peer && self.is_row_in_use(*row)) {
            // If the system call fails, the peer counts as alive.
            if !locks.try_lock(lock_byte(row)).unwrap_or(false) {
                continue;
            }
            // The peer may have left between the two checks.
            if self.is_row_in_use(row) {
                self.reap_peer(row);
                any = true;
            }
            let _ = locks.unlock(lock_byte(row));
        }
        any
    }
}

/// The number of counts before the recount is left to the next call of [`Engine::maintain`].
const RECOUNTS_MAX: u32 = 1000;
