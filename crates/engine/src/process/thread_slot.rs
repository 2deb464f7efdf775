//! Thread slots: the state of one thread in a region.
//!
//! A slot gives the thread a number under which it locks groups and claims appenders, a version
//! counter, and statistics counters that only this thread increases.
//!
//! The slot also records the thread's **intents**: the changes that it is about to make. If the
//! process dies, they show the process that repairs the region where to look (see `repair`). They
//! have no other use.
//!
//! ```text
//!  0  owner: peer + 1, or 0 u64         32  the slot word that is being replaced u64
//!  8  versions given u64                40  offset of the record being changed, or 0 u64
//! 16  slots filled, unreported u64      48  version of that record before the change u64
//! 24  the group that is locked + 1 u64  56  is a segment being taken or freed? u64
//! 64  counters, u64 each
//! ```
//!
//! Bit 0 of the offset at 40 is set while the value of that record is overwritten.
//!
//! Bit 63 of the locked group is set while the thread takes or frees overflow groups under that
//! lock.

use std::cell::Cell;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use larder_region::layout::global;
use larder_stats::Counter;

use crate::process::Peers;
use crate::region::Region;

const CLAIMED: usize = 0;
const VERSIONS: usize = 8;
const UNTOLD_SLOTS: usize = 16;
const LOCKING: usize = 24;
const REPLACING: usize = 32;
const CHANGING: usize = 40;
const CHANGED_VERSION: usize = 48;
const TAKING: usize = 56;
const COUNTERS: usize = 64;

/// The bit in [`LOCKING`] for overflow groups.
const OVERFLOWING: u64 = 1 << 63;

/// The bit in [`CHANGING`] for an overwrite. Offsets of records are multiples of 8.
const OVERWRITING: u64 = 1;

/// A change of a record in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InPlace {
    /// A change of which every part leaves a valid value.
    Update,
    /// An overwrite, during which the value is a mixture of two.
    Overwrite,
}

/// The change that a thread was making when its process died.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingChange {
    /// The offset of the record in the region.
    pub(crate) record_at: usize,
    /// The version of the record before the change.
    pub(crate) version: u64,
    pub(crate) kind: InPlace,
}

/// The size of a thread slot in bytes.
pub(crate) const THREAD_SLOT_BYTES: usize = COUNTERS + 8 * Counter::COUNT;

/// If a client requests a version up to this number, all versions given later are above it, so that
/// no version is given twice. The number is the largest integer up to which a floating-point number
/// represents every integer, because some clients keep tokens in such numbers. A thread slot never
/// gives that many versions in practice: at a million stores a second, a thread needs 100 days to
/// get from 2⁵³ to 2⁵⁴ in a region of 1024 thread slots, and 12 days in a region of 8192.
const ASKED_VERSION_PASSED_MAX: u64 = 1 << 53;

/// How many filled index slots a thread counts in its thread slot before it adds them to the shared
/// count. The cache line of the shared count, which all threads write, is therefore written only
/// once in this many stores of new keys.
const UNREPORTED_SLOTS_MAX: u64 = 32;

/// A thread slot that the caller holds. It may move between threads but serves one thread at a
/// time.
#[derive(Debug)]
pub struct ThreadSlot {
    pub(crate) index: u32,
    pub(crate) at: usize,
    /// True if the index may have too few groups. True at first, and from then on when the thread
    /// reports filled slots. Cleared when the thread finds that the index has enough groups, or
    /// that it cannot split one now.
    may_be_crowded: Cell<bool>,
    /// The stripe of the appender that the thread claimed last. The cells make the type not `Sync`,
    /// so that only one thread at a time uses it: two threads would lose counts and could give one
    /// version twice.
    pub(crate) stripe: Cell<u32>,
}

impl ThreadSlot {
    /// Returns the number that marks this thread slot as the owner of groups and appenders; never
    /// 0.
    pub(crate) fn owner(&self) -> u64 {
        u64::from(self.index) + 1
    }

    /// True if the thread must check whether the index has enough groups. The check loads cache
    /// lines that all threads write, so a thread checks only after its own stores have changed
    /// them.
    #[inline]
    pub(crate) fn may_be_crowded(&self) -> bool {
        self.may_be_crowded.get()
    }

    pub(crate) fn set_may_be_crowded(&self, may_be_crowded: bool) {
        self.may_be_crowded.set(may_be_crowded);
    }
}

impl Peers {
    /// See `Engine::register`.
    pub(crate) fn register(&self) -> Option<ThreadSlot> {
        let layout = self.region.layout();
        let end = layout.owners() as u32;
        // Begins at the hint. Slots before it, which other processes may have freed since, are
        // tried last.
        let hint = self.slot_hint.load(Relaxed).min(end);
        let thread = (hint..end)
            .chain(0..hint)
            .filter(|index| !layout.is_reserved(*index as usize))
            .map(|index| self.thread_slot_at(index))
            .find(|thread| self.take_thread_slot(thread))?;
        // If another thread freed a slot and changed the hint, the hint stays as it is.
        let _ = self.slot_hint.compare_exchange(hint, thread.index + 1, Relaxed, Relaxed);
        Some(thread)
    }

    /// See `Engine::thread_slot_count`.
    pub(crate) fn thread_slot_count(&self) -> usize {
        self.region.layout().owners() - self.region.layout().peers
    }

    /// See `Engine::register_reserved`.
    pub(crate) fn register_reserved(&self) -> ThreadSlot {
        let index = self.region.layout().reserved_thread_slot(self.row() as usize);
        let thread = self.thread_slot_at(index as u32);
        let is_taken = self.take_thread_slot(&thread);
        debug_assert!(is_taken, "the reserved thread slot of a peer was taken already");
        thread
    }

    fn thread_slot_at(&self, index: u32) -> ThreadSlot {
        let at = self.region.layout().thread_slots_at
            + index as usize * self.region.layout().thread_slot_bytes;
        let may_be_crowded = Cell::new(true);
        ThreadSlot { index, at, may_be_crowded, stripe: Cell::new(index) }
    }

    fn take_thread_slot(&self, thread: &ThreadSlot) -> bool {
        let mine = u64::from(self.row()) + 1;
        let word = self.region.word(thread.at + CLAIMED);
        // Threads that find no free slot try again from time to time. A load does not take the
        // cache lines away from the owners of the slots.
        if word.load(Relaxed) != 0 {
            return false;
        }
        // Raised before the slot is taken, because a repair after a dead process and a sum of
        // counters cover all thread slots up to this one.
        let used = self.region.word(global::THREAD_SLOTS_USED);
        used.fetch_max(u64::from(thread.index) + 1, AcqRel);
        // Pairs with the release in `deregister`: the counters of the last owner are visible.
        word.compare_exchange(0, mine, AcqRel, Relaxed).is_ok()
    }

    /// See `Engine::deregister`.
    pub(crate) fn deregister(&self, thread: &ThreadSlot) {
        self.report_slots(thread);
        // Pairs with the acquire in `take_thread_slot`.
        self.region.word(thread.at + CLAIMED).store(0, Release);
        self.slot_hint.fetch_min(thread.index, Relaxed);
    }

    /// Returns the thread slots of a peer.
    pub(crate) fn thread_slots_of(&self, peer: u32) -> impl Iterator<Item = ThreadSlot> + '_ {
        let thread_slots = self.used_thread_slots().map(|index| self.thread_slot_at(index));
        // Pairs with the exchange in `take_thread_slot`.
        thread_slots.filter(move |thread| {
            self.region.word(thread.at + CLAIMED).load(Acquire) == u64::from(peer) + 1
        })
    }

    /// True if the owner is 0, or if it is a thread slot of a process that is alive, or is dead and
    /// will be reaped.
    pub(crate) fn may_own(&self, owner: u64) -> bool {
        let Some(index) = owner.checked_sub(1).map(|index| index as usize) else {
            return true;
        };
        let claimed = |index| {
            let at = self.region.layout().thread_slots_at
                + index * self.region.layout().thread_slot_bytes;
            self.region.word(at + CLAIMED).load(Acquire)
        };
        index < self.region.layout().thread_slots
            && claimed(index).checked_sub(1).is_some_and(|peer| self.is_peer(peer))
    }

    /// Announces that the thread is about to lock a group.
    #[inline]
    pub(crate) fn intend_to_lock(&self, thread: &ThreadSlot, group: u64) {
        self.region.word(thread.at + LOCKING).store(group + 1, Relaxed);
    }

    /// Returns the group that the thread locked last, or was about to lock.
    pub(crate) fn last_locked(&self, thread: &ThreadSlot) -> Option<u64> {
        (self.region.word(thread.at + LOCKING).load(Relaxed) & !OVERFLOWING).checked_sub(1)
    }

    /// Announces that the thread is about to take or free overflow groups under the lock that it
    /// holds.
    pub(crate) fn intend_to_overflow(&self, thread: &ThreadSlot) {
        let locking = self.region.word(thread.at + LOCKING);
        locking.store(locking.load(Relaxed) | OVERFLOWING, Release);
    }

    /// True if the thread took or freed overflow groups under its last lock, or was about to.
    pub(crate) fn may_have_overflowed(&self, thread: &ThreadSlot) -> bool {
        self.region.word(thread.at + LOCKING).load(Relaxed) & OVERFLOWING != 0
    }

    /// Announces that the thread is about to replace a word that names a record.
    #[inline]
    pub(crate) fn intend_to_replace(&self, thread: &ThreadSlot, slot_word: u64) {
        self.region.word(thread.at + REPLACING).store(slot_word, Relaxed);
    }

    /// Returns the word that the thread replaced last, or was about to replace.
    pub(crate) fn last_replaced(&self, thread: &ThreadSlot) -> u64 {
        self.region.word(thread.at + REPLACING).load(Relaxed)
    }

    /// Announces that the thread is about to change the version of the record at an offset, in
    /// several steps.
    pub(crate) fn intend_to_change(
        &self,
        thread: &ThreadSlot,
        record_at: usize,
        version: u64,
        kind: InPlace,
    ) {
        let mark = if kind == InPlace::Overwrite { OVERWRITING } else { 0 };
        self.region.word(thread.at + CHANGED_VERSION).store(version, Relaxed);
        self.region.word(thread.at + CHANGING).store(record_at as u64 | mark, Release);
    }

    /// Announces that the change is complete.
    pub(crate) fn end_change(&self, thread: &ThreadSlot) {
        self.region.word(thread.at + CHANGING).store(0, Release);
    }

    /// Returns the change of a record that the thread is making.
    pub(crate) fn change_of(&self, thread: &ThreadSlot) -> Option<PendingChange> {
        let changing = self.region.word(thread.at + CHANGING).load(Relaxed);
        let version = self.region.word(thread.at + CHANGED_VERSION).load(Relaxed);
        let kind = match changing & OVERWRITING {
            0 => InPlace::Update,
            _ => InPlace::Overwrite,
        };
        let record_at = (changing & !OVERWRITING) as usize;
        (changing != 0).then_some(PendingChange { record_at, version, kind })
    }

    /// Notes whether this thread is taking or freeing a segment. While it is, the states of the
    /// segments and the number of segments in use may disagree.
    pub(crate) fn note_taking(&self, thread: &ThreadSlot, on: bool) {
        self.region.word(thread.at + TAKING).store(u64::from(on), Release);
    }

    /// Clears the notes of all thread slots, for a process that has no peers.
    pub(crate) fn forget_taking(&self) {
        for at in self.used_slots_at() {
            self.region.word(at + TAKING).store(0, Release);
        }
    }

    /// True if any thread slot is taking or freeing a segment.
    pub(crate) fn is_anybody_taking(&self) -> bool {
        self.used_slots_at().any(|at| self.region.word(at + TAKING).load(Acquire) != 0)
    }

    /// Returns the numbers of the thread slots that have ever been taken.
    fn used_thread_slots(&self) -> std::ops::Range<u32> {
        let used = self.region.word(global::THREAD_SLOTS_USED).load(Acquire);
        0..used.min(self.region.layout().thread_slots as u64) as u32
    }

    /// Returns the offsets of the thread slots that have ever been taken.
    fn used_slots_at(&self) -> impl Iterator<Item = usize> + '_ {
        let layout = self.region.layout();
        self.used_thread_slots()
            .map(|index| layout.thread_slots_at + index as usize * layout.thread_slot_bytes)
    }

    /// See `Engine::counter`.
    pub(crate) fn counter(&self, counter: Counter) -> u64 {
        self.used_slots_at()
            .map(|at| self.region.word(at + COUNTERS + 8 * counter as usize).load(Relaxed))
            .fold(0, u64::wrapping_add)
    }

    /// See `Engine::reset_counters`.
    pub(crate) fn reset_counters(&self) {
        for at in self.used_slots_at() {
            for counter in Counter::ALL.iter().filter(|counter| counter.is_reset()) {
                self.region.word(at + COUNTERS + 8 * *counter as usize).store(0, Relaxed);
            }
        }
    }

    /// See `Engine::bump`.
    #[inline]
    pub(crate) fn bump(&self, thread: &ThreadSlot, counter: Counter, n: u64) {
        add(&self.region, thread.at + COUNTERS + 8 * counter as usize, n);
    }

    /// Returns a version that no item of the region has had. It is larger than `replaced`, unless
    /// `replaced` was requested by a client and exceeds [`ASKED_VERSION_PASSED_MAX`].
    pub(crate) fn next_version(&self, thread: &ThreadSlot, replaced: u64) -> u64 {
        let thread_slot_bits = self.region.layout().thread_slots.ilog2();
        let given = self.region.word(thread.at + VERSIONS);
        let asked = self.region.word(global::ASKED_VERSION).load(Relaxed);
        let replaced = if replaced > ASKED_VERSION_PASSED_MAX { 0 } else { replaced };
        let turn = given.load(Relaxed).max(replaced.max(asked) >> thread_slot_bits) + 1;
        given.store(turn, Relaxed);
        turn << thread_slot_bits | u64::from(thread.index)
    }

    /// Returns the version that the client requested, or otherwise the next one. The caller holds
    /// the lock of the item's group, so the thread that gives the item its next version observes
    /// this one.
    pub(crate) fn give_version(
        &self,
        thread: &ThreadSlot,
        asked: Option<u64>,
        replaced: u64,
    ) -> u64 {
        // In a record, version 0 marks a change in progress.
        let Some(version) = asked.filter(|version| *version != 0) else {
            return self.next_version(thread, replaced);
        };
        self.raise_versions(version);
        version
    }

    /// Makes all later versions higher than `past`, unless `past` exceeds
    /// [`ASKED_VERSION_PASSED_MAX`].
    pub(crate) fn raise_versions(&self, past: u64) {
        let highest = self.region.word(global::ASKED_VERSION);
        if past <= ASKED_VERSION_PASSED_MAX && highest.load(Relaxed) < past {
            highest.fetch_max(past, Relaxed);
        }
    }

    /// See `Engine::end_versions`.
    pub(crate) fn end_versions(&self) -> u64 {
        let slots = self.region.layout().thread_slots as u64;
        let turns = self.used_slots_at().map(|at| self.region.word(at + VERSIONS).load(Relaxed));
        let turn = turns.max().unwrap_or(0);
        let given = (turn + 1).saturating_mul(1 << slots.ilog2()) - 1;
        let past = given.max(self.region.word(global::ASKED_VERSION).load(Relaxed));
        self.raise_versions(past);
        past
    }

    /// Counts `change` more filled slots.
    pub(crate) fn note_slots(&self, thread: &ThreadSlot, change: i64) {
        let untold = self.region.word(thread.at + UNTOLD_SLOTS);
        let total = untold.load(Relaxed).cast_signed().wrapping_add(change);
        untold.store(total.cast_unsigned(), Relaxed);
        if total.unsigned_abs() >= UNREPORTED_SLOTS_MAX {
            self.report_slots(thread);
        }
    }

    /// Returns the number of filled slots that all thread slots together have not reported yet.
    pub(crate) fn unreported_slots(&self) -> i64 {
        let untold = |at| self.region.word(at + UNTOLD_SLOTS).load(Relaxed).cast_signed();
        self.used_slots_at().map(untold).fold(0, i64::wrapping_add)
    }

    fn report_slots(&self, thread: &ThreadSlot) {
        let untold = self.region.word(thread.at + UNTOLD_SLOTS);
        self.region.word(global::ITEMS).fetch_add(untold.load(Relaxed), Relaxed);
        untold.store(0, Relaxed);
        thread.set_may_be_crowded(true);
    }
}

/// Adds to a word that only the caller's thread slot writes.
#[inline]
fn add(region: &Region, at: usize, n: u64) {
    let word = region.word(at);
    word.store(word.load(Relaxed).wrapping_add(n), Relaxed);
}
