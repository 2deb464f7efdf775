//! A thread slot: one thread's place in a region.
//!
//! It gives the thread a number under which it locks groups and claims appenders, a counter for
//! versions, and counters that nobody else writes.
//!
//! It also says what the thread is about to do, before it does it: its **intents**. They say nothing while it lives. Who
//! finds that its process has died learns from them where to look (see `repair`).
//!
//! ```text
//!  0  whose: peer + 1, or 0 u64          32  the slot word that is being replaced u64
//!  8  versions given u64                 40  where the record is that is being changed, or 0 u64
//! 16  slots filled, not yet told u64     48  the version that it had u64
//! 24  the group that is locked + 1 u64   56  are segments being taken or given back? u64
//! 64  counters, u64 each
//! ```

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use larder_region::layout::global;
use larder_stats::Counter;

use crate::Engine;
use crate::index::slot::Slot;

const CLAIMED: usize = 0;
const VERSIONS: usize = 8;
const UNTOLD_SLOTS: usize = 16;
const LOCKING: usize = 24;
const REPLACING: usize = 32;
const CHANGING: usize = 40;
const CHANGED_VERSION: usize = 48;
const TAKING: usize = 56;
const COUNTERS: usize = 64;

/// The bytes of a thread slot.
pub(crate) const THREAD_SLOT_BYTES: usize = COUNTERS + 8 * Counter::COUNT;

/// A version that somebody asked for is passed by all that are given later, so that none is given twice. But not one
/// beyond what a floating-point number holds exactly: some clients keep tokens in such a number, and no thread slot
/// gives so many. (At a million stores a second it would take a thread a year from there to the next power of two.)
const ASKED_VERSION_PASSED_MAX: u64 = 1 << 53;

/// How far a thread slot's count of filled slots runs ahead of the shared one: the shared line is written once
/// in so many stores of new keys.
const UNTOLD_SLOTS_MAX: u64 = 32;

/// A thread's place. It moves between threads but serves one at a time.
#[derive(Debug)]
pub struct ThreadSlot {
    pub(crate) index: u32,
    pub(crate) at: usize,
    /// Two threads counting on one thread slot would lose counts and could give one version twice.
    not_sync: PhantomData<Cell<()>>,
}

impl ThreadSlot {
    /// The number under which this thread slot owns groups and appenders; never 0.
    pub(crate) fn owner(&self) -> u64 {
        u64::from(self.index) + 1
    }
}

impl Engine {
    /// Takes a free thread slot, or none where as many threads as the region has thread slots for hold one. Give it back
    /// with [`Engine::deregister`].
    pub fn register(&self) -> Option<ThreadSlot> {
        (self.layout.peers as u32..self.layout.thread_slots as u32)
            .map(|index| self.thread_slot_at(index))
            .find(|thread| self.take_thread_slot(thread))
    }

    /// How many thread slots there are for threads of all processes, besides the one that is kept for each process.
    pub fn thread_slot_count(&self) -> usize {
        self.layout.thread_slots - self.layout.peers
    }

    /// Takes the thread slot that is kept for this process: one for all its threads that find no other. Once.
    pub fn sit_first(&self) -> ThreadSlot {
        let thread = self.thread_slot_at(self.peer);
        let is_taken = self.take_thread_slot(&thread);
        debug_assert!(is_taken, "a peer's own thread slot is taken");
        thread
    }

    fn thread_slot_at(&self, index: u32) -> ThreadSlot {
        let at = self.layout.thread_slots_at + index as usize * self.layout.thread_slot_bytes;
        ThreadSlot { index, at, not_sync: PhantomData }
    }

    fn take_thread_slot(&self, thread: &ThreadSlot) -> bool {
        let mine = u64::from(self.peer) + 1;
        let word = self.memory.word(thread.at + CLAIMED);
        // Threads that find none free ask again from time to time: a load leaves the cache lines to the threads that own the slots. The exchange
        // pairs with the release in `leave`: the counters of the last holder are seen.
        let is_taken =
            word.load(Relaxed) == 0 && word.compare_exchange(0, mine, AcqRel, Relaxed).is_ok();
        if is_taken {
            // Before anything is counted there: who adds up looks at all thread slots so far.
            let used = self.memory.word(global::THREAD_SLOTS_USED);
            used.fetch_max(u64::from(thread.index) + 1, AcqRel);
        }
        is_taken
    }

    /// Gives a thread slot back. What was counted on it stays counted.
    pub fn deregister(&self, thread: &ThreadSlot) {
        self.report_slots(thread);
        // Pairs with the acquire in `take_thread_slot`.
        self.memory.word(thread.at + CLAIMED).store(0, Release);
    }

    /// The thread slots of a peer.
    pub(crate) fn thread_slots_of(&self, peer: u32) -> impl Iterator<Item = ThreadSlot> + '_ {
        // All of them: one may be taken that does not count as used yet.
        let thread_slots =
            (0..self.layout.thread_slots as u32).map(|index| self.thread_slot_at(index));
        // Pairs with the exchange in `take_thread_slot`.
        thread_slots.filter(move |thread| {
            self.memory.word(thread.at + CLAIMED).load(Acquire) == u64::from(peer) + 1
        })
    }

    /// True if nothing is owned, or a thread slot owns it that a process has: one that lives, or that died and will be reaped.
    pub(crate) fn may_own(&self, owner: u64) -> bool {
        let Some(index) = owner.checked_sub(1).map(|index| index as usize) else {
            return true;
        };
        let claimed = |index| {
            let at = self.layout.thread_slots_at + index * self.layout.thread_slot_bytes;
            self.memory.word(at + CLAIMED).load(Acquire)
        };
        index < self.layout.thread_slots
            && claimed(index).checked_sub(1).is_some_and(|peer| self.is_peer(peer))
    }

    /// The thread slot is about to lock a group.
    #[inline]
    pub(crate) fn intend_to_lock(&self, thread: &ThreadSlot, group: u64) {
        self.memory.word(thread.at + LOCKING).store(group + 1, Relaxed);
    }

    /// The group that the thread slot locked last, or was about to.
    pub(crate) fn last_locked(&self, thread: &ThreadSlot) -> Option<u64> {
        self.memory.word(thread.at + LOCKING).load(Relaxed).checked_sub(1)
    }

    /// The thread slot is about to replace a word that names a record.
    #[inline]
    pub(crate) fn intend_to_replace(&self, thread: &ThreadSlot, slot: Slot) {
        self.memory.word(thread.at + REPLACING).store(slot.0, Relaxed);
    }

    /// The word that the thread slot replaced last, or was about to.
    pub(crate) fn last_replaced(&self, thread: &ThreadSlot) -> Slot {
        Slot(self.memory.word(thread.at + REPLACING).load(Relaxed))
    }

    /// The thread slot is about to give the record at an offset another version, in several steps.
    pub(crate) fn intend_to_change(&self, thread: &ThreadSlot, record_at: usize, version: u64) {
        self.memory.word(thread.at + CHANGED_VERSION).store(version, Relaxed);
        self.memory.word(thread.at + CHANGING).store(record_at as u64, Release);
    }

    /// It is done.
    pub(crate) fn end_change(&self, thread: &ThreadSlot) {
        self.memory.word(thread.at + CHANGING).store(0, Release);
    }

    /// The record that the thread slot is giving another version, and the one that it had.
    pub(crate) fn change_of(&self, thread: &ThreadSlot) -> Option<(usize, u64)> {
        let record_at = self.memory.word(thread.at + CHANGING).load(Relaxed) as usize;
        let version = self.memory.word(thread.at + CHANGED_VERSION).load(Relaxed);
        (record_at != 0).then_some((record_at, version))
    }

    /// The states of segments, and the number of those in use, may disagree by what this thread slot does.
    pub(crate) fn note_taking(&self, thread: &ThreadSlot, on: bool) {
        self.memory.word(thread.at + TAKING).store(u64::from(on), Release);
    }

    /// No thread slot is taking or giving back a segment: for a process that is alone.
    pub(crate) fn forget_taking(&self) {
        for at in self.used_thread_slots() {
            self.memory.word(at + TAKING).store(0, Release);
        }
    }

    /// Is any thread slot just taking or giving back a segment?
    pub(crate) fn is_anybody_taking(&self) -> bool {
        self.used_thread_slots().any(|at| self.memory.word(at + TAKING).load(Acquire) != 0)
    }

    /// Where the thread slots are that have ever been taken.
    fn used_thread_slots(&self) -> impl Iterator<Item = usize> + '_ {
        let used = self.memory.word(global::THREAD_SLOTS_USED).load(Acquire) as usize;
        (0..used.min(self.layout.thread_slots))
            .map(|index| self.layout.thread_slots_at + index * self.layout.thread_slot_bytes)
    }

    /// The sum of a counter over all thread slots.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.used_thread_slots()
            .map(|at| self.memory.word(at + COUNTERS + 8 * counter as usize).load(Relaxed))
            .fold(0, u64::wrapping_add)
    }

    /// Sets every counter that counts events back to 0; levels keep their value.
    pub fn reset_counters(&self) {
        for at in self.used_thread_slots() {
            for counter in Counter::ALL.iter().filter(|counter| counter.is_reset()) {
                self.memory.word(at + COUNTERS + 8 * *counter as usize).store(0, Relaxed);
            }
        }
    }

    /// Counts on a thread slot.
    #[inline]
    pub fn bump(&self, thread: &ThreadSlot, counter: Counter, n: u64) {
        add(self, thread.at + COUNTERS + 8 * counter as usize, n);
    }

    /// A version that no item of the region has had, larger than `replaced` unless that was asked for and is
    /// beyond [`ASKED_VERSION_PASSED_MAX`].
    pub(crate) fn next_version(&self, thread: &ThreadSlot, replaced: u64) -> u64 {
        let thread_slot_bits = self.layout.thread_slots.ilog2();
        let given = self.memory.word(thread.at + VERSIONS);
        let asked = self.memory.word(global::ASKED_VERSION).load(Relaxed);
        let replaced = if replaced > ASKED_VERSION_PASSED_MAX { 0 } else { replaced };
        let turn = given.load(Relaxed).max(replaced.max(asked) >> thread_slot_bits) + 1;
        given.store(turn, Relaxed);
        turn << thread_slot_bits | u64::from(thread.index)
    }

    /// The version that was asked for, or the next one. Under the lock of the item's group: whoever gives the
    /// item its next version sees that this one was given.
    pub(crate) fn give_version(
        &self,
        thread: &ThreadSlot,
        asked: Option<u64>,
        replaced: u64,
    ) -> u64 {
        // In a record 0 says that it is just being changed.
        let Some(version) = asked.filter(|version| *version != 0) else {
            return self.next_version(thread, replaced);
        };
        let highest = self.memory.word(global::ASKED_VERSION);
        if version <= ASKED_VERSION_PASSED_MAX && highest.load(Relaxed) < version {
            highest.fetch_max(version, Relaxed);
        }
        version
    }

    /// Notes that `change` more slots are filled.
    pub(crate) fn note_slots(&self, thread: &ThreadSlot, change: i64) {
        let untold = self.memory.word(thread.at + UNTOLD_SLOTS);
        let total = untold.load(Relaxed).cast_signed().wrapping_add(change);
        untold.store(total.cast_unsigned(), Relaxed);
        if total.unsigned_abs() >= UNTOLD_SLOTS_MAX {
            self.report_slots(thread);
        }
    }

    /// What all thread slots together have not told yet.
    pub(crate) fn unreported_slots(&self) -> i64 {
        let untold = |at| self.memory.word(at + UNTOLD_SLOTS).load(Relaxed).cast_signed();
        self.used_thread_slots().map(untold).fold(0, i64::wrapping_add)
    }

    fn report_slots(&self, thread: &ThreadSlot) {
        let untold = self.memory.word(thread.at + UNTOLD_SLOTS);
        self.memory.word(global::ITEMS).fetch_add(untold.load(Relaxed), Relaxed);
        untold.store(0, Relaxed);
    }
}

/// Adds to a word that only the caller's thread slot writes.
#[inline]
fn add(engine: &Engine, at: usize, n: u64) {
    let word = engine.memory.word(at);
    word.store(word.load(Relaxed).wrapping_add(n), Relaxed);
}
