//! Segments: their states, sequences and accounts. The account of a segment counts the items and
//! bytes that readers can still reach.
//!
//! ```text
//! FREE → RESERVED → ACTIVE → SEALED → EMPTYING → RESERVED → FREE
//!                 ↘ INDEX, OVERFLOW, GHOST (forever)
//! ```
//!
//! During a transition, exactly one thread slot owns the segment. The state word contains the owner
//! from the first instruction on, so that repair finds the segments of a dead process.
//!
//! Every use of a segment for records starts with a fresh **sequence**, a number that is never
//! reused. The use ends when the sequence is set to 0, after the last slot that names the segment
//! is gone. One word therefore serves as the generation of the segment (a reader that finds it
//! unchanged has read only one use), as its age (the smallest is the oldest) and as its position
//! before or after a flush. The upper half is the second in which the use started, so a reader
//! needs no other load to find out how old a record may be.

use std::fmt;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};

use larder_item::Second;
use larder_region::layout::{SEGMENT_HEADER_BYTES, global};

use crate::process::op::Op;
use crate::process::thread_slot::ThreadSlot;
use crate::segment::Segments;
use crate::segment::record::Header;
use crate::segment::stream::{Pool, Stream};

const STATE: usize = 0;
const FILLED: usize = 8;
pub(crate) const SUSPECT: usize = 12;
const ACCOUNT: usize = 16;
const DEADLINE_MAX: usize = 24;
const DEADLINE_MIN: usize = 28;
const STREAM: usize = 32;
pub(crate) const FREE_GROUPS: usize = 36;
/// The number of the segment's cell in the queue by age.
pub(crate) const AGE_CELL: usize = 40;

/// The state of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum State {
    /// No thread slot owns the segment.
    Free = 0,
    /// A thread slot has taken the segment and has not started to use it.
    Reserved = 1,
    /// An appender writes records to the segment.
    Active = 2,
    /// No appender writes to the segment any more: it is full, or it was sealed early.
    Sealed = 3,
    /// A thread moves or unlinks the segment's records.
    Emptying = 4,
    /// The segment holds groups of the index.
    Index = 5,
    /// The segment holds overflow groups of the index.
    Overflow = 6,
    /// The segment holds rows of the ghost.
    Ghost = 7,
}

/// Writes the state as a phrase that completes the sentence `a segment that is …`.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Free => "free",
            Self::Reserved => "reserved",
            Self::Active => "being written",
            Self::Sealed => "full",
            Self::Emptying => "being emptied",
            Self::Index => "part of the index",
            Self::Overflow => "part of the index's overflow",
            Self::Ghost => "part of the ghost",
        })
    }
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

/// The owner is stored above the state in the word.
const OWNER_SHIFT: u32 = 16;

/// The reachable content of a segment: the number of items, and the bytes of records including
/// pieces. Both are in one word, so that they change together.
///
/// A writer adds an item before readers can reach it, and subtracts it after they can no longer
/// reach it. The account may be too high for a moment, and after the death of a process until a
/// recount, but never too low.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) items: u64,
    pub(crate) bytes: usize,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} items with {} bytes", self.items, self.bytes)
    }
}

impl Account {
    /// Returns the account of one record.
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

/// One use of a segment for records. Older uses compare as less than newer ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Use {
    pub(crate) sequence: u64,
    pub(crate) segment: u32,
}

/// Returns the second in which the use with this sequence started.
#[inline]
pub(crate) fn begun(sequence: u64) -> Second {
    (sequence >> 32) as Second
}

/// The latest deadline of a segment that holds a record without deadline.
const NEVER_EXPIRES: Second = Second::MAX;

impl Segments {
    pub(crate) fn segment_field(&self, segment: u32, field: usize) -> &AtomicU32 {
        self.region().half(
            self.region().layout().headers_at + segment as usize * SEGMENT_HEADER_BYTES + field,
        )
    }

    /// Returns the sequence of a segment's current use for records; 0 between uses.
    #[inline]
    pub(crate) fn sequence(&self, segment: u32) -> &AtomicU64 {
        self.region().word(self.region().layout().sequences_at + segment as usize * 8)
    }

    pub(crate) fn state(&self, segment: u32) -> State {
        State::of_word(self.segment_field(segment, STATE).load(Acquire))
    }

    /// Same as [`Self::state`], but ordered with all other sequentially consistent accesses.
    pub(crate) fn state_in_order(&self, segment: u32) -> State {
        State::of_word(self.segment_field(segment, STATE).load(SeqCst))
    }

    /// True if the state word holds a known state.
    pub(crate) fn has_state(&self, segment: u32) -> bool {
        let word = self.segment_field(segment, STATE).load(Acquire);
        ((word & 0xFFFF) as usize) < State::ALL.len()
    }

    /// Returns the owner of a segment: the number of a thread slot + 1, or 0.
    pub(crate) fn segment_owner(&self, segment: u32) -> u64 {
        u64::from(self.segment_field(segment, STATE).load(Acquire) >> OWNER_SHIFT)
    }

    /// Sets the state of a segment and clears its owner.
    pub(crate) fn set_state(&self, segment: u32, state: State) {
        // Pairs with the acquire in `state`: a thread that finds a segment sealed also finds its
        // records.
        self.segment_field(segment, STATE).store(state as u32, Release);
    }

    /// Changes the state of a segment that the thread slot owns and keeps the owner.
    pub(crate) fn set_own_state(&self, segment: u32, state: State, thread: &ThreadSlot) {
        self.segment_field(segment, STATE).store(state.owned_by(thread.owner()), Release);
    }

    /// Claims a segment for the thread slot if the segment is in state `from` and has no owner.
    /// Returns false if another thread was faster.
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

    /// Returns the number of bytes of a segment that hold records.
    pub(crate) fn filled(&self, segment: u32) -> usize {
        // Pairs with the release in `set_filled`: the records up to here are complete.
        self.segment_field(segment, FILLED).load(Acquire) as usize
    }

    pub(crate) fn set_filled(&self, segment: u32, bytes: usize) {
        self.segment_field(segment, FILLED).store(bytes as u32, Release);
    }

    pub(crate) fn header_word(&self, segment: u32, field: usize) -> &AtomicU64 {
        self.region().word(
            self.region().layout().headers_at + segment as usize * SEGMENT_HEADER_BYTES + field,
        )
    }

    pub(crate) fn account_word(&self, segment: u32) -> &AtomicU64 {
        self.header_word(segment, ACCOUNT)
    }

    /// Returns the reachable content of a segment.
    pub(crate) fn account(&self, segment: u32) -> Account {
        // Pairs with the release in `discharge`: if nothing is live, no slot names the segment.
        Account::of_word(self.account_word(segment).load(Acquire))
    }

    /// Returns the bytes of the reachable records of a segment.
    pub(crate) fn live(&self, segment: u32) -> usize {
        self.account(segment).bytes
    }

    /// Adds to the account of a segment, before any slot names the record.
    pub(crate) fn charge(&self, segment: u32, account: Account) {
        // Pairs with the acquire in `recount`: a thread that finds a piece in the account also
        // finds that it is arriving.
        self.account_word(segment).fetch_add(account.word(), Release);
    }

    /// Subtracts unreachable records from the account of a segment. A segment without live bytes is
    /// reclaimed without a further check.
    pub(crate) fn discharge(&self, segment: u32, account: Account) {
        // Ordered with the load of the state in `file_lower`: either this thread finds the segment
        // sealed, or the thread that seals it finds the lower account.
        let before = self.account_word(segment).fetch_sub(account.word(), SeqCst);
        let after = before.wrapping_sub(account.word());
        self.file_lower(segment, Account::of_word(before), Account::of_word(after));
    }

    /// Returns the sum of the accounts of all segments.
    pub(crate) fn total(&self) -> Account {
        let mut total = Account::default();
        for segment in self.used_segment_numbers() {
            if self.sequence(segment).load(Relaxed) != 0 {
                total.add(self.account(segment));
            }
        }
        total
    }

    /// Pins a segment, so that it is not emptied until `Peers::unpin`. Returns false if the use
    /// with this sequence is over, or if a thread is already emptying the segment.
    ///
    /// Pin and state work like the flags of two parties, each of which raises its own flag and then
    /// checks the other one. All four accesses are sequentially consistent, so that at least one
    /// party observes the flag of the other.
    pub(crate) fn pin(&self, segment: u32, sequence: u64) -> bool {
        self.peers().raise_pin(segment);
        let state = self.state_in_order(segment);
        let is_there = state != State::Emptying
            && self.sequence(segment).load(SeqCst) == sequence
            && sequence != 0;
        if !is_there {
            self.peers().unpin(segment);
        }
        is_there
    }

    /// Returns the current use of a segment.
    pub(crate) fn present_use(&self, segment: u32) -> Use {
        Use { sequence: self.sequence(segment).load(Acquire), segment }
    }

    /// Starts to empty a use of a sealed segment. Returns false if the use is over, another thread
    /// owns the segment, or a reader pins it.
    pub(crate) fn begin_emptying(&self, thread: &ThreadSlot, old: Use) -> bool {
        let Use { segment, .. } = old;
        if self.present_use(segment) != old
            || !self.claim_segment(segment, State::Sealed, State::Emptying, thread)
        {
            return false;
        }
        // Another thread may have emptied the chosen segment since, and filled it with newer
        // records.
        if self.peers().is_pinned(segment) || self.present_use(segment) != old {
            self.seal(segment);
            return false;
        }
        true
    }

    /// Returns the stream of a segment's records.
    pub(crate) fn stream(&self, segment: u32) -> Stream {
        Stream::of_number(self.segment_field(segment, STREAM).load(Relaxed))
    }

    /// Returns a new highest sequence. It consists of the second and a count that does not restart
    /// with each second, so that the low byte distinguishes as many uses of a segment as possible.
    /// The clock never goes back. If it stands still, or if two threads pass different seconds,
    /// only the count advances.
    fn next_sequence(&self, now: Second) -> u64 {
        let in_second = |next: u64| match begun(next) < now {
            true => u64::from(now) << 32 | next & 0xFFFF_FFFF,
            false => next,
        };
        let next = self.region().word(global::NEXT_SEQUENCE);
        let step = |next| Some(in_second(next) + 1);
        // The update always returns a value. Its one exchange pairs with the exchange in `flush`.
        let (Ok(before) | Err(before)) = next.fetch_update(AcqRel, Acquire, step);
        in_second(before)
    }

    /// Widens the deadline range of a segment by a record's deadline. Only the owner of the
    /// segment, or the holder of the lock of the group that names the record, may call this.
    pub(crate) fn note_deadline(&self, segment: u32, deadline: larder_item::Deadline) {
        let second = if deadline.0 == 0 { NEVER_EXPIRES } else { deadline.0 };
        let (min, max) =
            (self.segment_field(segment, DEADLINE_MIN), self.segment_field(segment, DEADLINE_MAX));
        // Most records change neither bound, so a load first keeps the cache line shared.
        if max.load(Relaxed) < second {
            max.fetch_max(second, Relaxed);
        }
        if min.load(Relaxed) > second {
            min.fetch_min(second, Relaxed);
        }
    }

    /// True if a segment may hold an item whose deadline has passed.
    pub(crate) fn may_hold_expired(&self, segment: u32, now: Second) -> bool {
        self.segment_field(segment, DEADLINE_MIN).load(Relaxed) <= now
    }

    /// Resets the earliest deadline of a segment. Called before a scan that notes all deadlines
    /// again.
    pub(crate) fn forget_deadline_min(&self, segment: u32) {
        self.segment_field(segment, DEADLINE_MIN).store(NEVER_EXPIRES, Relaxed);
    }

    /// True if no record of a sealed segment is needed: all are unlinked, expired or flushed.
    pub(crate) fn is_reclaimable(&self, segment: u32, now: Second) -> bool {
        let deadline_max = self.segment_field(segment, DEADLINE_MAX).load(Relaxed);
        self.live(segment) == 0
            || deadline_max != NEVER_EXPIRES && deadline_max <= now
            || self.is_flushed(self.sequence(segment).load(Relaxed))
    }

    /// True if everything written under this sequence was flushed.
    #[inline]
    pub(crate) fn is_flushed(&self, sequence: u64) -> bool {
        // Pairs with the release in `flush`.
        sequence < self.region().word(global::FLUSH_SEQUENCE).load(Acquire)
    }

    /// Starts the use of a reserved segment for records. Returns the sequence of the use.
    pub(crate) fn activate(&self, op: &Op<'_>, segment: u32, stream: Stream) -> u64 {
        debug_assert_eq!(self.state(segment), State::Reserved);
        self.set_filled(segment, 0);
        self.account_word(segment).store(0, Relaxed);
        self.segment_field(segment, STREAM).store(stream.number(), Relaxed);
        self.segment_field(segment, DEADLINE_MAX).store(0, Relaxed);
        self.segment_field(segment, DEADLINE_MIN).store(NEVER_EXPIRES, Relaxed);
        self.set_suspect(segment, false);
        self.peers().forget_holders(segment);
        let sequence = self.next_sequence(op.now);
        self.sequence(segment).store(sequence, Release);
        self.set_own_state(segment, State::Active, op.thread);
        self.pool_segments(stream.pool).fetch_add(1, Relaxed);
        sequence
    }

    /// Ends the use of a segment for records, after the last slot that names one is gone.
    pub(crate) fn retire(&self, thread: &ThreadSlot, segment: u32) {
        self.sequence(segment).store(0, Release);
        self.pool_segments(self.stream(segment).pool).fetch_sub(1, Relaxed);
        self.set_own_state(segment, State::Reserved, thread);
    }

    /// Returns the number of segments that hold records of a pool. It is exact, except that killed
    /// processes may have left it wrong until [`Self::recount_in_use`].
    pub(crate) fn pool_segments(&self, pool: Pool) -> &AtomicU64 {
        self.region().word(global::POOL_SEGMENTS + 8 * pool as usize)
    }

    /// Returns the numbers of the segments that have ever been used.
    pub(crate) fn used_segment_numbers(&self) -> std::ops::Range<u32> {
        0..(self.used_segments() as u32).min(self.region().layout().segments as u32)
    }

    /// Returns the numbers of all segments.
    pub(crate) fn segment_numbers(&self) -> std::ops::Range<u32> {
        0..self.region().layout().segments as u32
    }
}
