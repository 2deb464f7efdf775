//! The queues of sealed segments by age, one for each pool.
//!
//! A queue is a ring of cells in shared memory. A segment joins at the end when it is sealed, and
//! its header contains the number of its cell. A cell counts as an entry of the queue while the
//! segment has the sequence that the cell contains. If a segment is reused before it is the oldest,
//! its cell stays in the ring, but is no longer an entry, until the head of the queue passes it.
//!
//! ```text
//! cell  63          20 19       0
//!       ┌─────────────┬──────────┐
//!       │ sequence 44 │segment 20│   the low bits of the sequence
//!       └─────────────┴──────────┘
//! ```
//!
//! If a queue is full, its first entry moves to the end, and the head passes cells without an
//! entry.
//!
//! A queue is only a hint. A thread that is killed between taking a cell and writing it leaves a
//! segment that is in no queue, and threads that write to an almost full queue may overwrite its
//! first entries. The lap, which visits all segments in turn, adds the missing segments; see
//! [`super`].

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use larder_region::layout::{LINE_BYTES, THREAD_SLOTS_MAX, global};

use crate::segment::Segments;
use crate::segment::header::{AGE_CELL, State, Use};
use crate::segment::stream::Pool;

const SEGMENT_BITS: u32 = 20;

/// The number of cells of reused segments that the head passes when a segment joins the queue. It
/// is more than one, so that such cells never fill the queue while the head moves.
const PASSED_MAX: u64 = 4;

/// The number of entries that a search looks at. The first ones may be pinned, or threads may be
/// emptying them.
const LOOKED_AT_MAX: u32 = 64;

fn cell_of(present: Use) -> u64 {
    present.sequence << SEGMENT_BITS | u64::from(present.segment)
}

/// The queue of a pool.
struct AgeQueue<'a> {
    segments: &'a Segments,
    pool: Pool,
}

impl AgeQueue<'_> {
    /// The number of the first cell that may contain an entry. The cells before it contain no
    /// entries.
    fn head(&self) -> &AtomicU64 {
        self.segments.region().word(global::AGE_QUEUES + self.pool as usize * LINE_BYTES)
    }

    /// The number of the last cell, plus one.
    fn end(&self) -> &AtomicU64 {
        self.segments.region().word(global::AGE_QUEUES + self.pool as usize * LINE_BYTES + 8)
    }

    fn capacity(&self) -> u64 {
        self.segments.region().layout().age_cells() as u64
    }

    fn cell(&self, number: u64) -> &AtomicU64 {
        let layout = self.segments.region().layout();
        let cell = self.pool as u64 * self.capacity() + number % self.capacity();
        self.segments.region().word(layout.ages_at + 8 * cell as usize)
    }

    /// Returns the entry of a cell, if its segment is still in the same use.
    fn entry(&self, number: u64) -> Option<Use> {
        let cell = self.cell(number).load(Acquire);
        let segment = (cell & ((1 << SEGMENT_BITS) - 1)) as u32;
        if !self.segments.segment_numbers().contains(&segment) {
            return None; // Only in a damaged region.
        }
        let present = self.segments.present_use(segment);
        (present.sequence != 0 && cell_of(present) == cell).then_some(present)
    }

    fn contains(&self, present: Use) -> bool {
        let number = self.segments.header_word(present.segment, AGE_CELL).load(Relaxed);
        number >= self.head().load(Acquire)
            && number < self.end().load(Acquire)
            && self.cell(number).load(Acquire) == cell_of(present)
    }

    /// Moves the head past cells without an entry.
    fn pass(&self, passed_max: u64) {
        for _ in 0..passed_max {
            let head = self.head().load(Acquire);
            if head >= self.end().load(Acquire) || self.entry(head).is_some() {
                return;
            }
            // If this fails, another thread has moved the head.
            let _ = self.head().compare_exchange(head, head.wrapping_add(1), AcqRel, Relaxed);
        }
    }

    fn push(&self, present: Use) {
        self.mend();
        self.pass(PASSED_MAX);
        // At least half of the cells of a full queue belong to reused segments.
        for _ in 0..LOOKED_AT_MAX {
            if !self.is_full() {
                break;
            }
            let head = self.head().load(Acquire);
            if let Some(first) = self.entry(head) {
                self.send_back(head, first);
            }
            self.pass(self.capacity());
        }
        if !self.is_full() {
            self.append(present);
        }
    }

    /// Empties a queue whose words contradict each other, which happens only in a damaged region.
    /// The lap fills the queue again.
    fn mend(&self) {
        // The head is loaded first: unless the region is damaged, it is not past the end that is
        // loaded next.
        let head = self.head().load(Acquire);
        let end = self.end().load(Acquire);
        // Threads that write to an almost full queue at the same time may exceed its capacity.
        if head > end || end - head > self.capacity() + THREAD_SLOTS_MAX as u64 {
            self.head().store(0, Release);
            self.end().store(0, Release);
        }
    }

    fn is_full(&self) -> bool {
        // The head is loaded first, so that it is never past the loaded end.
        let head = self.head().load(Acquire);
        self.end().load(Acquire).wrapping_sub(head) >= self.capacity()
    }

    fn append(&self, present: Use) {
        let number = self.end().fetch_add(1, AcqRel);
        self.segments.header_word(present.segment, AGE_CELL).store(number, Relaxed);
        self.cell(number).store(cell_of(present), Release);
    }

    /// Moves the first entry to the end.
    fn send_back(&self, number: u64, present: Use) {
        if self.head().compare_exchange(number, number.wrapping_add(1), AcqRel, Relaxed).is_ok() {
            self.append(present);
        }
    }

    fn find(&self, mut is_wanted: impl FnMut(Use) -> bool) -> Option<Use> {
        let (mut number, mut looked_at) = (self.head().load(Acquire), 0);
        let end = self.end().load(Acquire).min(number.saturating_add(self.capacity()));
        while number < end && looked_at < LOOKED_AT_MAX {
            match self.entry(number) {
                None => {
                    // Moves the head past this cell, if it is at this cell. So the head never
                    // passes an entry here.
                    let _ = self.head().compare_exchange(
                        number,
                        number.wrapping_add(1),
                        AcqRel,
                        Relaxed,
                    );
                }
                Some(present) if self.is_sealed(present) && is_wanted(present) => {
                    return Some(present);
                }
                Some(present) => {
                    // Pinned segments, or a segment that a stopped thread empties, must not hide
                    // the others.
                    self.send_back(number, present);
                    looked_at += 1;
                }
            }
            number += 1;
        }
        None
    }

    fn is_sealed(&self, present: Use) -> bool {
        self.segments.state(present.segment) == State::Sealed
    }
}

impl Segments {
    fn age_queue(&self, pool: Pool) -> AgeQueue<'_> {
        AgeQueue { segments: self, pool }
    }

    /// Adds a sealed segment to the queue of its pool, unless the queue already has it.
    pub(super) fn join_age_queue(&self, present: Use) {
        let queue = self.age_queue(self.stream(present.segment).pool);
        if !queue.contains(present) {
            queue.push(present);
        }
    }

    #[cfg(test)]
    pub(super) fn is_in_age_queue(&self, present: Use) -> bool {
        self.age_queue(self.stream(present.segment).pool).contains(present)
    }

    /// Returns the oldest sealed segment of a pool for which `is_wanted` returns true. Looks at
    /// only a few segments. A segment that it looks at and does not return moves to the end of the
    /// queue.
    pub(crate) fn oldest(&self, pool: Pool, is_wanted: impl FnMut(Use) -> bool) -> Option<Use> {
        self.age_queue(pool).find(is_wanted)
    }
}
