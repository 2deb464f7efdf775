//! Segments: their states, sequences and accounts.
//!
//! ```text
//! FREE → RESERVED → ACTIVE → SEALED → EMPTYING → RESERVED or FREE
//!                 ↘ INDEX, OVERFLOW (for ever)
//! ```
//!
//! Every use of a segment for records begins with a fresh **sequence**, a number that is never given
//! twice, and ends by setting it to 0 after the last slot that names the segment is gone. So the sequence
//! is the segment's generation (a reader that finds it unchanged has read one incarnation), its age (the
//! smallest is the oldest) and its place before or after a flush, in one word.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use larder_item::Second;
use larder_region::layout::{SEGMENT_HEADER_BYTES, global};

use crate::Engine;

const STATE: usize = 0;
const NEXT_FREE: usize = 4;
const FILLED: usize = 8;
const LIVE: usize = 12;
const BEGUN: usize = 16;
const DEADLINE_MAX: usize = 20;
const ARRIVING: usize = 24;

/// What a segment is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum State {
    /// On the free stack.
    Free = 0,
    /// Taken from there by somebody who has not begun to use it.
    Reserved = 1,
    /// An append head writes to it.
    Active = 2,
    /// Full, or done with.
    Sealed = 3,
    /// Somebody is unlinking its records.
    Emptying = 4,
    /// Holds groups of the index.
    Index = 5,
    /// Holds overflow groups of the index.
    Overflow = 6,
}

impl State {
    const ALL: [Self; 7] = [
        Self::Free,
        Self::Reserved,
        Self::Active,
        Self::Sealed,
        Self::Emptying,
        Self::Index,
        Self::Overflow,
    ];
}

/// The deadline account of a segment that holds a record without deadline.
const NEVER_EXPIRES: Second = Second::MAX;

impl Engine {
    fn segment_field(&self, segment: u32, field: usize) -> &AtomicU32 {
        self.memory.half(self.layout.headers_at + segment as usize * SEGMENT_HEADER_BYTES + field)
    }

    /// The sequence of a segment's present use for records; 0 outside of one.
    #[inline]
    pub(crate) fn sequence(&self, segment: u32) -> &AtomicU64 {
        self.memory.word(self.layout.sequences_at + segment as usize * 8)
    }

    pub(crate) fn state(&self, segment: u32) -> State {
        let state = self.segment_field(segment, STATE).load(Acquire) as usize;
        State::ALL.get(state).copied().unwrap_or(State::Reserved)
    }

    pub(crate) fn set_state(&self, segment: u32, state: State) {
        // Pairs with the acquire in `state`: who sees a segment sealed sees all that was written.
        self.segment_field(segment, STATE).store(state as u32, Release);
    }

    /// Moves a segment from one state to another; false where somebody else was first.
    pub(crate) fn change_state(&self, segment: u32, from: State, to: State) -> bool {
        self.segment_field(segment, STATE)
            .compare_exchange(from as u32, to as u32, AcqRel, Relaxed)
            .is_ok()
    }

    /// How many bytes of a segment are records.
    pub(crate) fn filled(&self, segment: u32) -> usize {
        // Pairs with the release in `set_filled`: the records up to here are whole.
        self.segment_field(segment, FILLED).load(Acquire) as usize
    }

    pub(crate) fn set_filled(&self, segment: u32, bytes: usize) {
        self.segment_field(segment, FILLED).store(bytes as u32, Release);
    }

    /// How many bytes of a segment are records that can still be reached.
    pub(crate) fn live(&self, segment: u32) -> usize {
        // Pairs with the release in `subtract_live`: where nothing is live, nothing is named.
        self.segment_field(segment, LIVE).load(Acquire) as usize
    }

    pub(crate) fn add_live(&self, segment: u32, bytes: usize) {
        self.segment_field(segment, LIVE).fetch_add(bytes as u32, Relaxed);
    }

    pub(crate) fn subtract_live(&self, segment: u32, bytes: usize) {
        self.segment_field(segment, LIVE).fetch_sub(bytes as u32, Release);
    }

    /// Notes a piece of a value that is still arriving. Moving the segment's records would lose it: nothing
    /// names it yet.
    pub(crate) fn note_arriving(&self, segment: u32) {
        self.segment_field(segment, ARRIVING).fetch_add(1, Relaxed);
    }

    /// The value has arrived, or will not.
    pub(crate) fn note_arrived(&self, segment: u32) {
        self.segment_field(segment, ARRIVING).fetch_sub(1, Relaxed);
    }

    pub(crate) fn has_arriving(&self, segment: u32) -> bool {
        self.segment_field(segment, ARRIVING).load(Relaxed) > 0
    }

    /// The second in which a segment's present use began.
    pub(crate) fn begun(&self, segment: u32) -> Second {
        self.segment_field(segment, BEGUN).load(Relaxed)
    }

    /// Notes a record's deadline in the account of its segment. Only for the owner of the segment, or
    /// under the lock of the group that names the record.
    pub(crate) fn note_deadline(&self, segment: u32, deadline: larder_item::Deadline) {
        let second = if deadline.0 == 0 { NEVER_EXPIRES } else { deadline.0 };
        self.segment_field(segment, DEADLINE_MAX).fetch_max(second, Relaxed);
    }

    /// Does nothing in a sealed segment matter any more?
    pub(crate) fn is_spent(&self, segment: u32, now: Second) -> bool {
        let deadline_max = self.segment_field(segment, DEADLINE_MAX).load(Relaxed);
        self.live(segment) == 0
            || deadline_max != NEVER_EXPIRES && deadline_max <= now
            || self.is_flushed(self.sequence(segment).load(Relaxed))
    }

    /// Was everything written under this sequence flushed?
    #[inline]
    pub(crate) fn is_flushed(&self, sequence: u64) -> bool {
        // Pairs with the release in `flush`.
        sequence < self.memory.word(global::FLUSH_SEQUENCE).load(Acquire)
    }

    /// Begins the use of a reserved segment for records.
    pub(crate) fn activate(&self, segment: u32, now: Second) -> u64 {
        debug_assert_eq!(self.state(segment), State::Reserved);
        self.set_filled(segment, 0);
        self.segment_field(segment, LIVE).store(0, Relaxed);
        self.segment_field(segment, BEGUN).store(now, Relaxed);
        self.segment_field(segment, DEADLINE_MAX).store(0, Relaxed);
        self.segment_field(segment, ARRIVING).store(0, Relaxed);
        let sequence = self.memory.word(global::NEXT_SEQUENCE).fetch_add(1, AcqRel);
        self.sequence(segment).store(sequence, Release);
        self.set_state(segment, State::Active);
        sequence
    }

    /// Ends the use of a segment for records: no slot names one of them any more.
    pub(crate) fn retire(&self, segment: u32) {
        self.sequence(segment).store(0, Release);
        // Pairs with the acquire fence of readers: who sees bytes written after this, sees the sequence
        // gone too, and reads again.
        fence(Release);
        self.set_state(segment, State::Reserved);
    }

    /// How many segments hold nothing.
    pub(crate) fn free_segments(&self) -> u64 {
        let fresh = self.layout.segments as u64 - self.used_segments();
        self.memory.word(global::FREE_COUNT).load(Relaxed) + fresh
    }

    /// How many segments have ever been used. They are the first ones.
    pub(crate) fn used_segments(&self) -> u64 {
        self.memory.word(global::FRESH_SEGMENT).load(Relaxed)
    }

    /// Takes a segment that has never been used, leaving `spare`.
    pub(crate) fn take_fresh(&self, spare: u64) -> Option<u32> {
        let fresh = self.memory.word(global::FRESH_SEGMENT);
        let end = self.layout.segments as u64 - spare;
        let taken = fresh.fetch_update(Relaxed, Relaxed, |next| (next < end).then_some(next + 1));
        let segment = taken.ok()? as u32;
        self.set_state(segment, State::Reserved);
        Some(segment)
    }

    /// Puts a reserved segment on the free stack.
    pub(crate) fn push_free(&self, segment: u32) {
        self.set_state(segment, State::Free);
        let top = self.memory.word(global::FREE_SEGMENTS);
        let mut old = top.load(Relaxed);
        loop {
            self.segment_field(segment, NEXT_FREE).store(old as u32, Relaxed);
            let new = stack_top(old, segment + 1);
            // The release pairs with the acquire in `pop_free`.
            match top.compare_exchange_weak(old, new, Release, Relaxed) {
                Ok(_) => break,
                Err(found) => old = found,
            }
        }
        self.memory.word(global::FREE_COUNT).fetch_add(1, Relaxed);
    }

    /// Takes a segment from the free stack, leaving `spare` there.
    pub(crate) fn pop_free(&self, spare: u64) -> Option<u32> {
        let count = self.memory.word(global::FREE_COUNT);
        // The count is lowered first: it never promises a segment that somebody else takes.
        count.fetch_update(AcqRel, Relaxed, |free| (free > spare).then(|| free - 1)).ok()?;
        let top = self.memory.word(global::FREE_SEGMENTS);
        let mut old = top.load(Acquire);
        loop {
            let Some(segment) = (old as u32).checked_sub(1) else {
                // Counted but not on the stack yet: whoever pushes it raises the count afterwards, so
                // this cannot happen; give the count back all the same.
                count.fetch_add(1, Relaxed);
                return None;
            };
            let next = self.segment_field(segment, NEXT_FREE).load(Relaxed);
            match top.compare_exchange_weak(old, stack_top(old, next), Acquire, Acquire) {
                Ok(_) => {
                    self.set_state(segment, State::Reserved);
                    return Some(segment);
                }
                Err(found) => old = found,
            }
        }
    }

    /// All segments, by number.
    pub(crate) fn segments(&self) -> std::ops::Range<u32> {
        0..self.layout.segments as u32
    }
}

/// The word of a stack whose top is `number` (0 for none), with a version that differs from `old`'s: a
/// compare-exchange by somebody who saw an earlier top fails even if the same number is on top again.
pub(crate) fn stack_top(old: u64, number: u32) -> u64 {
    ((old >> 32) + 1) << 32 | u64::from(number)
}
