//! Append heads: where new records go.
//!
//! A pool has a few heads ("stripes"), each with a segment of its own. A writer claims one for as long as
//! it takes to write a record and publish it: while a head is claimed its segment is not sealed, so it
//! cannot be emptied under the writer.
//!
//! ```text
//! 0  claimed by owner u64 │ 8  segment + 1, 0 for none u64
//! ```

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use larder_item::Second;
use larder_region::layout::LINE_BYTES;

use crate::segment::State;
use crate::slot::Slot;
use crate::wait::Wait;
use crate::{Engine, NoMemory, Seat};

const CLAIMED: usize = 0;
const SEGMENT: usize = 8;

/// The two kinds of segments that records are appended to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pool {
    /// New items.
    Small = 0,
    /// Items that were kept when their segment was emptied.
    Main = 1,
}

/// A claimed head with room in its segment. Dropped, it is released; what was not kept is given back.
pub(crate) struct Reservation<'a> {
    engine: &'a Engine,
    head_at: usize,
    pub(crate) segment: u32,
    pub(crate) sequence: u64,
    /// Where in the segment the room begins.
    pub(crate) offset: usize,
    /// How much room there is.
    pub(crate) bytes: usize,
}

impl Reservation<'_> {
    /// Where in the region the room begins.
    pub(crate) fn at(&self) -> usize {
        self.engine.layout.segment_at(self.segment) + self.offset
    }

    pub(crate) fn slot(&self) -> Slot {
        Slot::new(self.segment, self.offset, self.sequence)
    }

    /// Makes `bytes` written at the start of the room part of the segment, so that walkers see them.
    pub(crate) fn fill(&self, bytes: usize) {
        self.engine.set_filled(self.segment, self.offset + bytes);
    }

    /// Takes back what `fill` did: nothing names the record.
    pub(crate) fn give_back(&self) {
        self.engine.set_filled(self.segment, self.offset);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        // Pairs with the acquire in `claim`.
        self.engine.memory.word(self.head_at + CLAIMED).store(0, Release);
    }
}

impl Engine {
    /// Finds room for a record of `bytes` (a multiple of 8), or for a part of it of at least `bytes_min`.
    /// Empties old segments where there is none: the caller must hold no group.
    pub(crate) fn reserve(
        &self,
        seat: &Seat,
        pool: Pool,
        bytes: usize,
        bytes_min: usize,
        now: Second,
    ) -> Result<Reservation<'_>, NoMemory> {
        debug_assert!(bytes.is_multiple_of(8) && bytes_min <= bytes);
        if bytes_min > self.layout.segment_bytes {
            return Err(NoMemory);
        }
        let mut room = self.claim(seat, pool);
        loop {
            if let Some(segment) = self.head_segment(room.head_at) {
                room.segment = segment;
                room.sequence = self.sequence(segment).load(Relaxed);
                room.offset = self.filled(segment);
                room.bytes = (self.layout.segment_bytes - room.offset).min(bytes);
                if room.bytes >= bytes_min && !self.is_flushed(room.sequence) {
                    return Ok(room);
                }
                self.detach_segment(room.head_at, segment);
            }
            let segment = match pool {
                Pool::Small => self.take_segment(seat, now)?,
                // Survivors are written while a segment is being emptied: what is kept free is theirs.
                Pool::Main => self.pop_free(0).or_else(|| self.take_fresh(0)).ok_or(NoMemory)?,
            };
            self.activate(segment, now);
            self.memory.word(room.head_at + SEGMENT).store(u64::from(segment) + 1, Relaxed);
        }
    }

    /// Claims a head of the pool, beginning with the seat's own; waits where all are claimed.
    fn claim(&self, seat: &Seat, pool: Pool) -> Reservation<'_> {
        let stripes = self.layout.stripes;
        let mut wait = Wait::default();
        let mut stripe = seat.index as usize % stripes;
        loop {
            let head_at = self.head_at(pool, stripe);
            let claimed = self.memory.word(head_at + CLAIMED);
            // The acquire pairs with the release of the last holder.
            if claimed.compare_exchange(0, seat.owner(), Acquire, Relaxed).is_ok() {
                return Reservation {
                    engine: self,
                    head_at,
                    segment: 0,
                    sequence: 0,
                    offset: 0,
                    bytes: 0,
                };
            }
            stripe = (stripe + 1) % stripes;
            if stripe == seat.index as usize % stripes {
                wait.pause();
            }
        }
    }

    fn head_at(&self, pool: Pool, stripe: usize) -> usize {
        self.layout.heads_at + (pool as usize * self.layout.stripes + stripe) * LINE_BYTES
    }

    fn head_segment(&self, head_at: usize) -> Option<u32> {
        (self.memory.word(head_at + SEGMENT).load(Relaxed) as u32).checked_sub(1)
    }

    fn detach_segment(&self, head_at: usize, segment: u32) {
        self.memory.word(head_at + SEGMENT).store(0, Relaxed);
        self.set_state(segment, State::Sealed);
    }

    /// Seals the segments of heads that nobody uses just now, where nothing in them matters: so that what
    /// was flushed or has expired does not wait for the next store to be taken back.
    pub(crate) fn detach_spent(&self, seat: &Seat, now: Second) {
        for pool in [Pool::Small, Pool::Main] {
            for stripe in 0..self.layout.stripes {
                let head_at = self.head_at(pool, stripe);
                let claimed = self.memory.word(head_at + CLAIMED);
                if claimed.compare_exchange(0, seat.owner(), Acquire, Relaxed).is_err() {
                    continue;
                }
                if let Some(segment) = self.head_segment(head_at)
                    && self.filled(segment) > 0
                    && self.is_spent(segment, now)
                {
                    self.detach_segment(head_at, segment);
                }
                claimed.store(0, Release);
            }
        }
    }
}
