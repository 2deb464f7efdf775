//! Segments: their states, sequences and accounts.
//!
//! ```text
//! FREE → RESERVED → ACTIVE → SEALED → EMPTYING → RESERVED → FREE
//!                 ↘ INDEX, OVERFLOW, GHOST (for ever)
//! ```
//!
//! Between two of these a segment is somebody's alone: then its state has the number of that thread slot beside it, from the
//! first instruction on, and what a dead process held is found.
//!
//! Every use of a segment for records begins with a fresh **sequence**, a number that is never given
//! twice, and ends by setting it to 0 after the last slot that names the segment is gone. So the sequence
//! is the segment's generation (a reader that finds it unchanged has read one incarnation), its age (the
//! smallest is the oldest) and its place before or after a flush, in one word. Its upper half is the second in
//! which the use began: so a reader knows, without a further look, since when a record may be where it is.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};

use larder_item::Second;
use larder_region::layout::{SEGMENT_HEADER_BYTES, global};

use crate::segment::record::Header;
use crate::segment::stream::Stream;
use crate::{Engine, ThreadSlot};

const STATE: usize = 0;
const FILLED: usize = 8;
const SUSPECT: usize = 12;
const ACCOUNT: usize = 16;
const DEADLINE_MAX: usize = 24;
const DEADLINE_MIN: usize = 28;
const STREAM: usize = 32;

/// What a segment is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum State {
    /// Nobody's.
    Free = 0,
    /// Taken from there by somebody who has not begun to use it.
    Reserved = 1,
    /// An appender writes to it.
    Active = 2,
    /// Full, or done with.
    Sealed = 3,
    /// Somebody is unlinking its records.
    Emptying = 4,
    /// Holds groups of the index.
    Index = 5,
    /// Holds overflow groups of the index.
    Overflow = 6,
    /// Holds rows of the ghost.
    Ghost = 7,
}

impl State {
    const ALL: [Self; 8] = [
        Self::Free,
        Self::Reserved,
        Self::Active,
        Self::Sealed,
        Self::Emptying,
        Self::Index,
        Self::Overflow,
        Self::Ghost,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Reserved => "reserved",
            Self::Active => "active",
            Self::Sealed => "sealed",
            Self::Emptying => "emptying",
            Self::Index => "index",
            Self::Overflow => "overflow",
            Self::Ghost => "ghost",
        }
    }

    fn owned_by(self, owner: u64) -> u32 {
        (owner as u32) << OWNER_SHIFT | self as u32
    }

    fn of_word(word: u32) -> Self {
        Self::ALL.get((word & 0xFF) as usize).copied().unwrap_or(Self::Reserved)
    }
}

/// Above the state stands whose the segment is.
const OWNER_SHIFT: u32 = 16;

/// What of a segment can be reached: items, and bytes of records, pieces among them. One word, so that both change
/// together.
///
/// Items in it are counted before they can be reached, and until they cannot be any more: it may say too much for a
/// moment, and after the death of a process until it is counted again, but never too little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) items: u64,
    pub(crate) bytes: usize,
}

impl Account {
    /// One record.
    pub(crate) fn of(header: Header) -> Self {
        Self { items: u64::from(!header.is_piece()), bytes: header.record_bytes() }
    }

    pub(crate) fn of_word(word: u64) -> Self {
        Self { items: word >> 32, bytes: (word & 0xFFFF_FFFF) as usize }
    }

    pub(crate) fn word(self) -> u64 {
        self.items << 32 | self.bytes as u64
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.items += more.items;
        self.bytes += more.bytes;
    }
}

/// A segment in one of its uses for records, the older the less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Use {
    pub(crate) sequence: u64,
    pub(crate) segment: u32,
}

/// The second in which the use with a sequence began.
#[inline]
pub(crate) fn begun(sequence: u64) -> Second {
    (sequence >> 32) as Second
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
        State::of_word(self.segment_field(segment, STATE).load(Acquire))
    }

    /// True if the word of a segment's state says one that there is.
    pub(crate) fn has_state(&self, segment: u32) -> bool {
        let word = self.segment_field(segment, STATE).load(Acquire);
        ((word & 0xFFFF) as usize) < State::ALL.len()
    }

    /// Whose a segment is: a thread slot's number + 1, or 0.
    pub(crate) fn segment_owner(&self, segment: u32) -> u64 {
        u64::from(self.segment_field(segment, STATE).load(Acquire) >> OWNER_SHIFT)
    }

    /// Gives a segment a state in which it is nobody's.
    pub(crate) fn set_state(&self, segment: u32, state: State) {
        // Pairs with the acquire in `state`: who sees a segment sealed sees all that was written.
        self.segment_field(segment, STATE).store(state as u32, Release);
    }

    /// Gives a segment of the thread slot another state, in which it still is the thread slot's.
    pub(crate) fn set_own_state(&self, segment: u32, state: State, thread: &ThreadSlot) {
        self.segment_field(segment, STATE).store(state.owned_by(thread.owner()), Release);
    }

    /// Makes a segment in a state, which is nobody's, the thread slot's; false where somebody else was first.
    pub(crate) fn claim_segment(
        &self,
        segment: u32,
        from: State,
        to: State,
        thread: &ThreadSlot,
    ) -> bool {
        let state = self.segment_field(segment, STATE);
        let mine = to.owned_by(thread.owner());
        state.load(Relaxed) == from as u32
            && state.compare_exchange(from as u32, mine, SeqCst, Relaxed).is_ok()
    }

    /// How many bytes of a segment are records.
    pub(crate) fn filled(&self, segment: u32) -> usize {
        // Pairs with the release in `set_filled`: the records up to here are whole.
        self.segment_field(segment, FILLED).load(Acquire) as usize
    }

    pub(crate) fn set_filled(&self, segment: u32, bytes: usize) {
        self.segment_field(segment, FILLED).store(bytes as u32, Release);
    }

    pub(crate) fn account_word(&self, segment: u32) -> &AtomicU64 {
        self.memory.word(self.layout.headers_at + segment as usize * SEGMENT_HEADER_BYTES + ACCOUNT)
    }

    /// What of a segment can still be reached.
    pub(crate) fn account(&self, segment: u32) -> Account {
        // Pairs with the release in `discharge`: where nothing is live, nothing is named.
        Account::of_word(self.account_word(segment).load(Acquire))
    }

    /// How many bytes of a segment are records that can still be reached.
    pub(crate) fn live(&self, segment: u32) -> usize {
        self.account(segment).bytes
    }

    /// Adds to a segment's account, before anything names it.
    pub(crate) fn charge(&self, segment: u32, account: Account) {
        // Pairs with the acquire in `recount`: who sees a piece counted sees that it is arriving.
        self.account_word(segment).fetch_add(account.word(), Release);
    }

    /// Takes out of a segment's account what nothing names any more: a segment without live bytes is given to other
    /// use without a look.
    pub(crate) fn discharge(&self, segment: u32, account: Account) {
        self.account_word(segment).fetch_sub(account.word(), Release);
    }

    /// Is a segment's account one that may say too much?
    pub(crate) fn is_suspect(&self, segment: u32) -> bool {
        self.segment_field(segment, SUSPECT).load(Relaxed) != 0
    }

    pub(crate) fn set_suspect(&self, segment: u32, on: bool) {
        self.segment_field(segment, SUSPECT).store(u32::from(on), Relaxed);
    }

    /// The accounts of all segments together.
    pub(crate) fn total(&self) -> Account {
        let mut total = Account::default();
        for segment in self.segments().take(self.used_segments() as usize) {
            if self.sequence(segment).load(Relaxed) != 0 {
                total.add(self.account(segment));
            }
        }
        total
    }

    /// Keeps a segment from being put to other use until [`Self::unpin`]; false where somebody is at it.
    ///
    /// Pin and state are like two flags that two parties raise before each looks at the other's: all four
    /// accesses are sequentially consistent, so that at least one sees the other.
    pub(crate) fn pin(&self, segment: u32, sequence: u64) -> bool {
        self.raise_pin(segment);
        let state = State::of_word(self.segment_field(segment, STATE).load(SeqCst));
        let is_there = state != State::Emptying
            && self.sequence(segment).load(SeqCst) == sequence
            && sequence != 0;
        if !is_there {
            self.unpin(segment);
        }
        is_there
    }

    /// The present use of a segment.
    pub(crate) fn present_use(&self, segment: u32) -> Use {
        Use { sequence: self.sequence(segment).load(Acquire), segment }
    }

    /// Begins to end a use of a sealed segment; false where it is over by now, somebody else is at it, or holds it by a
    /// pin.
    pub(crate) fn begin_emptying(&self, thread: &ThreadSlot, old: Use) -> bool {
        let Use { segment, .. } = old;
        if self.present_use(segment) != old
            || !self.claim_segment(segment, State::Sealed, State::Emptying, thread)
        {
            return false;
        }
        // Since it was chosen somebody else may have emptied it, and filled it again with what must not go.
        if self.is_pinned(segment) || self.present_use(segment) != old {
            self.set_state(segment, State::Sealed);
            return false;
        }
        true
    }

    /// Which stream a segment's records were appended to.
    pub(crate) fn stream(&self, segment: u32) -> Stream {
        Stream::of_number(self.segment_field(segment, STREAM).load(Relaxed))
    }

    /// A number higher than all given so far: the second, then a count that goes on from second to second, so that
    /// its low byte tells as many uses of a segment apart as it can. The clock never goes back; where it stands,
    /// or was told differently to two threads, the count goes on alone.
    fn next_sequence(&self, now: Second) -> u64 {
        let in_second = |next: u64| match begun(next) < now {
            true => u64::from(now) << 32 | next & 0xFFFF_FFFF,
            false => next,
        };
        let next = self.memory.word(global::NEXT_SEQUENCE);
        let step = |next| Some(in_second(next) + 1);
        // Never none. As one exchange it pairs with that of `flush`.
        let (Ok(before) | Err(before)) = next.fetch_update(AcqRel, Acquire, step);
        in_second(before)
    }

    /// Notes a record's deadline in the account of its segment. Only for the owner of the segment, or
    /// under the lock of the group that names the record.
    pub(crate) fn note_deadline(&self, segment: u32, deadline: larder_item::Deadline) {
        let second = if deadline.0 == 0 { NEVER_EXPIRES } else { deadline.0 };
        let (min, max) =
            (self.segment_field(segment, DEADLINE_MIN), self.segment_field(segment, DEADLINE_MAX));
        // Most records change neither: looking first leaves the line to its readers.
        if max.load(Relaxed) < second {
            max.fetch_max(second, Relaxed);
        }
        if min.load(Relaxed) > second {
            min.fetch_min(second, Relaxed);
        }
    }

    /// May a segment hold an item whose deadline has passed?
    pub(crate) fn may_hold_expired(&self, segment: u32, now: Second) -> bool {
        self.segment_field(segment, DEADLINE_MIN).load(Relaxed) <= now
    }

    /// Forgets the earliest deadline of a segment, before all its deadlines are noted again.
    pub(crate) fn forget_deadline_min(&self, segment: u32) {
        self.segment_field(segment, DEADLINE_MIN).store(NEVER_EXPIRES, Relaxed);
    }

    /// Does nothing in a sealed segment matter any more?
    pub(crate) fn is_reclaimable(&self, segment: u32, now: Second) -> bool {
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
    pub(crate) fn activate(
        &self,
        thread: &ThreadSlot,
        segment: u32,
        stream: Stream,
        now: Second,
    ) -> u64 {
        debug_assert_eq!(self.state(segment), State::Reserved);
        self.set_filled(segment, 0);
        self.account_word(segment).store(0, Relaxed);
        self.segment_field(segment, STREAM).store(stream.number(), Relaxed);
        self.segment_field(segment, DEADLINE_MAX).store(0, Relaxed);
        self.segment_field(segment, DEADLINE_MIN).store(NEVER_EXPIRES, Relaxed);
        self.set_suspect(segment, false);
        self.forget_arriving(segment);
        let sequence = self.next_sequence(now);
        self.sequence(segment).store(sequence, Release);
        self.set_own_state(segment, State::Active, thread);
        sequence
    }

    /// Ends the use of a segment for records: no slot names one of them any more.
    pub(crate) fn retire(&self, thread: &ThreadSlot, segment: u32) {
        self.sequence(segment).store(0, Release);
        self.set_own_state(segment, State::Reserved, thread);
    }

    /// All segments, by number.
    pub(crate) fn segments(&self) -> std::ops::Range<u32> {
        0..self.layout.segments as u32
    }
}
