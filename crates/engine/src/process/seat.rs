//! A seat: one thread's place in a region.
//!
//! It gives the thread a number under which it locks groups and claims append heads, a counter for
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

/// The bytes of a seat.
pub(crate) const SEAT_BYTES: usize = COUNTERS + 8 * Counter::COUNT;

/// A version that somebody asked for is passed by all that are given later, so that none is given twice. But not one
/// beyond what a floating-point number holds exactly: some clients keep tokens in such a number, and no seat
/// gives so many. (At a million stores a second it would take a thread a year from there to the next power of two.)
const ASKED_VERSION_PASSED_MAX: u64 = 1 << 53;

/// How far a seat's count of filled slots runs ahead of the shared one: the shared line is written once
/// in so many stores of new keys.
const UNTOLD_SLOTS_MAX: u64 = 32;

/// A thread's place. It moves between threads but serves one at a time.
#[derive(Debug)]
pub struct Seat {
    pub(crate) index: u32,
    pub(crate) at: usize,
    /// Two threads counting on one seat would lose counts and could give one version twice.
    not_sync: PhantomData<Cell<()>>,
}

impl Seat {
    /// The number under which this seat owns groups and heads; never 0.
    pub(crate) fn owner(&self) -> u64 {
        u64::from(self.index) + 1
    }
}

impl Engine {
    /// Takes a free seat, or none where as many threads as the region has seats for hold one. Give it back
    /// with [`Engine::leave`].
    pub fn sit(&self) -> Option<Seat> {
        (self.layout.peers as u32..self.layout.seats as u32)
            .map(|index| self.seat_at(index))
            .find(|seat| self.take_seat(seat))
    }

    /// How many seats there are for threads of all processes, besides the one that is kept for each process.
    pub fn seat_count(&self) -> usize {
        self.layout.seats - self.layout.peers
    }

    /// Takes the seat that is kept for this process: one for all its threads that find no other. Once.
    pub fn sit_first(&self) -> Seat {
        let seat = self.seat_at(self.peer);
        let is_taken = self.take_seat(&seat);
        debug_assert!(is_taken, "a peer's own seat is taken");
        seat
    }

    fn seat_at(&self, index: u32) -> Seat {
        let at = self.layout.seats_at + index as usize * self.layout.seat_bytes;
        Seat { index, at, not_sync: PhantomData }
    }

    fn take_seat(&self, seat: &Seat) -> bool {
        let mine = u64::from(self.peer) + 1;
        let word = self.memory.word(seat.at + CLAIMED);
        // Threads that find none free ask again from time to time: a look leaves the lines to those who sit there. The exchange
        // pairs with the release in `leave`: the counters of the last holder are seen.
        let is_taken =
            word.load(Relaxed) == 0 && word.compare_exchange(0, mine, AcqRel, Relaxed).is_ok();
        if is_taken {
            // Before anything is counted there: who adds up looks at all seats so far.
            let used = self.memory.word(global::SEATS_USED);
            used.fetch_max(u64::from(seat.index) + 1, AcqRel);
        }
        is_taken
    }

    /// Gives a seat back. What was counted on it stays counted.
    pub fn leave(&self, seat: &Seat) {
        self.tell_slots(seat);
        // Pairs with the acquire in `take_seat`.
        self.memory.word(seat.at + CLAIMED).store(0, Release);
    }

    /// The seats of a peer.
    pub(crate) fn seats_of(&self, peer: u32) -> impl Iterator<Item = Seat> + '_ {
        // All of them: one may be taken that does not count as used yet.
        let seats = (0..self.layout.seats as u32).map(|index| self.seat_at(index));
        // Pairs with the exchange in `take_seat`.
        seats.filter(move |seat| {
            self.memory.word(seat.at + CLAIMED).load(Acquire) == u64::from(peer) + 1
        })
    }

    /// True if nothing is owned, or a seat owns it that a process has: one that lives, or that died and will be buried.
    pub(crate) fn may_own(&self, owner: u64) -> bool {
        let Some(index) = owner.checked_sub(1).map(|index| index as usize) else {
            return true;
        };
        let claimed = |index| {
            let at = self.layout.seats_at + index * self.layout.seat_bytes;
            self.memory.word(at + CLAIMED).load(Acquire)
        };
        index < self.layout.seats
            && claimed(index).checked_sub(1).is_some_and(|peer| self.is_peer(peer))
    }

    /// The seat is about to lock a group.
    #[inline]
    pub(crate) fn intend_to_lock(&self, seat: &Seat, group: u64) {
        self.memory.word(seat.at + LOCKING).store(group + 1, Relaxed);
    }

    /// The group that the seat locked last, or was about to.
    pub(crate) fn last_locked(&self, seat: &Seat) -> Option<u64> {
        self.memory.word(seat.at + LOCKING).load(Relaxed).checked_sub(1)
    }

    /// The seat is about to replace a word that names a record.
    #[inline]
    pub(crate) fn intend_to_replace(&self, seat: &Seat, slot: Slot) {
        self.memory.word(seat.at + REPLACING).store(slot.0, Relaxed);
    }

    /// The word that the seat replaced last, or was about to.
    pub(crate) fn last_replaced(&self, seat: &Seat) -> Slot {
        Slot(self.memory.word(seat.at + REPLACING).load(Relaxed))
    }

    /// The seat is about to give the record at an offset another version, in several steps.
    pub(crate) fn intend_to_change(&self, seat: &Seat, record_at: usize, version: u64) {
        self.memory.word(seat.at + CHANGED_VERSION).store(version, Relaxed);
        self.memory.word(seat.at + CHANGING).store(record_at as u64, Release);
    }

    /// It is done.
    pub(crate) fn end_change(&self, seat: &Seat) {
        self.memory.word(seat.at + CHANGING).store(0, Release);
    }

    /// The record that the seat is giving another version, and the one that it had.
    pub(crate) fn change_of(&self, seat: &Seat) -> Option<(usize, u64)> {
        let record_at = self.memory.word(seat.at + CHANGING).load(Relaxed) as usize;
        let version = self.memory.word(seat.at + CHANGED_VERSION).load(Relaxed);
        (record_at != 0).then_some((record_at, version))
    }

    /// The states of segments, and the number of those in use, may disagree by what this seat does.
    pub(crate) fn note_taking(&self, seat: &Seat, on: bool) {
        self.memory.word(seat.at + TAKING).store(u64::from(on), Release);
    }

    /// No seat is taking or giving back a segment: for a process that is alone.
    pub(crate) fn forget_taking(&self) {
        for at in self.used_seats() {
            self.memory.word(at + TAKING).store(0, Release);
        }
    }

    /// Is any seat just taking or giving back a segment?
    pub(crate) fn is_anybody_taking(&self) -> bool {
        self.used_seats().any(|at| self.memory.word(at + TAKING).load(Acquire) != 0)
    }

    /// Where the seats are that have ever been taken.
    fn used_seats(&self) -> impl Iterator<Item = usize> + '_ {
        let used = self.memory.word(global::SEATS_USED).load(Acquire) as usize;
        (0..used.min(self.layout.seats))
            .map(|index| self.layout.seats_at + index * self.layout.seat_bytes)
    }

    /// The sum of a counter over all seats.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.used_seats()
            .map(|at| self.memory.word(at + COUNTERS + 8 * counter as usize).load(Relaxed))
            .fold(0, u64::wrapping_add)
    }

    /// Sets every counter that counts events back to 0; levels keep their value.
    pub fn reset_counters(&self) {
        for at in self.used_seats() {
            for counter in Counter::ALL.iter().filter(|counter| counter.is_reset()) {
                self.memory.word(at + COUNTERS + 8 * *counter as usize).store(0, Relaxed);
            }
        }
    }

    /// Counts on a seat.
    #[inline]
    pub fn count(&self, seat: &Seat, counter: Counter, n: u64) {
        add(self, seat.at + COUNTERS + 8 * counter as usize, n);
    }

    /// A version that no item of the region has had, larger than `replaced` unless that was asked for and is
    /// beyond [`ASKED_VERSION_PASSED_MAX`].
    pub(crate) fn next_version(&self, seat: &Seat, replaced: u64) -> u64 {
        let seat_bits = self.layout.seats.ilog2();
        let given = self.memory.word(seat.at + VERSIONS);
        let asked = self.memory.word(global::ASKED_VERSION).load(Relaxed);
        let replaced = if replaced > ASKED_VERSION_PASSED_MAX { 0 } else { replaced };
        let turn = given.load(Relaxed).max(replaced.max(asked) >> seat_bits) + 1;
        given.store(turn, Relaxed);
        turn << seat_bits | u64::from(seat.index)
    }

    /// The version that was asked for, or the next one. Under the lock of the item's group: whoever gives the
    /// item its next version sees that this one was given.
    pub(crate) fn give_version(&self, seat: &Seat, asked: Option<u64>, replaced: u64) -> u64 {
        // In a record 0 says that it is just being changed.
        let Some(version) = asked.filter(|version| *version != 0) else {
            return self.next_version(seat, replaced);
        };
        let highest = self.memory.word(global::ASKED_VERSION);
        if version <= ASKED_VERSION_PASSED_MAX && highest.load(Relaxed) < version {
            highest.fetch_max(version, Relaxed);
        }
        version
    }

    /// Notes that `change` more slots are filled.
    pub(crate) fn note_slots(&self, seat: &Seat, change: i64) {
        let untold = self.memory.word(seat.at + UNTOLD_SLOTS);
        let total = untold.load(Relaxed).cast_signed().wrapping_add(change);
        untold.store(total.cast_unsigned(), Relaxed);
        if total.unsigned_abs() >= UNTOLD_SLOTS_MAX {
            self.tell_slots(seat);
        }
    }

    /// What all seats together have not told yet.
    pub(crate) fn untold_slots(&self) -> i64 {
        let untold = |at| self.memory.word(at + UNTOLD_SLOTS).load(Relaxed).cast_signed();
        self.used_seats().map(untold).fold(0, i64::wrapping_add)
    }

    fn tell_slots(&self, seat: &Seat) {
        let untold = self.memory.word(seat.at + UNTOLD_SLOTS);
        self.memory.word(global::ITEMS).fetch_add(untold.load(Relaxed), Relaxed);
        untold.store(0, Relaxed);
    }
}

/// Adds to a word that only the caller's seat writes.
#[inline]
fn add(engine: &Engine, at: usize, n: u64) {
    let word = engine.memory.word(at);
    word.store(word.load(Relaxed).wrapping_add(n), Relaxed);
}
