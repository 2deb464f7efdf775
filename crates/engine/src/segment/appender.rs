//! Appenders: where new records go.
//!
//! A stream has a few appenders ("stripes"), each with a segment of its own. A writer claims one for as long as
//! it takes to write a record and publish it: while an appender is claimed its segment is not sealed, so it
//! cannot be emptied under the writer. Nobody makes room while it holds an appender: whoever does moves survivors,
//! which takes another.
//!
//! ```text
//! 0  claimed by owner u64 │ 8  segment + 1, 0 for none u64
//! ```

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use larder_item::Second;
use larder_region::layout::LINE_BYTES;

use crate::index::slot::Slot;
use crate::process::wait::Wait;
use crate::segment::header::State;
use crate::segment::stream::{Pool, Stream};
use crate::{Engine, StoreError, Stuck, ThreadSlot};

const CLAIMED: usize = 0;
const SEGMENT: usize = 8;

/// A claimed head with room in its segment. Dropped, it is released; what was not kept is given back.
pub(crate) struct Reservation<'a> {
    engine: &'a Engine,
    appender_at: usize,
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
        // Pairs with the acquire in `claim_appender`.
        self.engine.memory.word(self.appender_at + CLAIMED).store(0, Release);
    }
}

impl Engine {
    /// Finds room for a record of `bytes` (a multiple of 8), or for a part of it of at least `bytes_min`.
    /// Empties old segments where there is none: the caller must hold neither group nor appender.
    pub(crate) fn reserve(
        &self,
        thread: &ThreadSlot,
        stream: Stream,
        bytes: usize,
        bytes_min: usize,
        now: Second,
    ) -> Result<Reservation<'_>, StoreError> {
        let mut taken = None;
        loop {
            let claimed = self.claim_appender(thread, stream);
            if claimed.is_err() {
                // It would be nobody's as long as this process lives.
                taken.inspect(|segment| self.free(thread, *segment));
            }
            let mut room = claimed?;
            loop {
                if self.has_room_for(thread, &mut room, bytes, bytes_min)? {
                    // Somebody else had one for this head while we looked for ours.
                    taken.inspect(|segment| self.free(thread, *segment));
                    return Ok(room);
                }
                let Some(segment) = taken.take().or_else(|| self.take_free_segment(thread)) else {
                    break;
                };
                // The head stays claimed until there is something in it: see `detach_idle`.
                self.attach_segment(thread, &room, segment, stream, now);
                self.note_taken();
            }
            drop(room);
            taken = Some(self.take_segment(thread, now)?);
        }
    }

    /// As [`Self::reserve`], for a record that is moved: takes what is kept free for that, and makes no room.
    pub(crate) fn reserve_for_survivor(
        &self,
        thread: &ThreadSlot,
        stream: Stream,
        bytes: usize,
        now: Second,
    ) -> Result<Reservation<'_>, StoreError> {
        let mut room = self.claim_appender(thread, stream)?;
        while !self.has_room_for(thread, &mut room, bytes, bytes)? {
            let segment = self.take_for_survivors(thread).ok_or(StoreError::NoMemory)?;
            self.attach_segment(thread, &room, segment, stream, now);
        }
        Ok(room)
    }

    /// Looks for room in the segment of a claimed head; seals one that has too little.
    fn has_room_for(
        &self,
        thread: &ThreadSlot,
        room: &mut Reservation<'_>,
        bytes: usize,
        bytes_min: usize,
    ) -> Result<bool, StoreError> {
        debug_assert!(bytes.is_multiple_of(8) && bytes_min <= bytes);
        if bytes_min > self.layout.segment_bytes {
            return Err(StoreError::NoMemory);
        }
        let Some(segment) = self.appender_segment(room.appender_at) else {
            return Ok(false);
        };
        room.segment = segment;
        room.sequence = self.sequence(segment).load(Relaxed);
        room.offset = self.filled(segment);
        // A damaged region may say more than there is.
        room.bytes = self.layout.segment_bytes.saturating_sub(room.offset).min(bytes);
        let fits = room.offset.is_multiple_of(8)
            && room.bytes >= bytes_min
            && !self.is_flushed(room.sequence);
        if !fits {
            self.detach_segment(thread, room.appender_at, segment);
        }
        Ok(fits)
    }

    fn attach_segment(
        &self,
        thread: &ThreadSlot,
        room: &Reservation<'_>,
        segment: u32,
        stream: Stream,
        now: Second,
    ) {
        self.activate(thread, segment, stream, now);
        self.memory.word(room.appender_at + SEGMENT).store(u64::from(segment) + 1, Release);
        // From here on it is the head's.
        self.set_state(segment, State::Active);
    }

    /// Claims an appender of the stream, beginning with the thread slot's own; waits where all are claimed.
    fn claim_appender(
        &self,
        thread: &ThreadSlot,
        stream: Stream,
    ) -> Result<Reservation<'_>, Stuck> {
        let stripes = self.layout.stripes;
        let mut wait = Wait::default();
        let mut stripe = thread.index as usize % stripes;
        loop {
            let appender_at = self.appender_at(stream, stripe);
            let claimed = self.memory.word(appender_at + CLAIMED);
            // The acquire pairs with the release of the last holder.
            if claimed.compare_exchange(0, thread.owner(), Acquire, Relaxed).is_ok() {
                return Ok(Reservation {
                    engine: self,
                    appender_at,
                    segment: 0,
                    sequence: 0,
                    offset: 0,
                    bytes: 0,
                });
            }
            stripe = (stripe + 1) % stripes;
            if stripe == thread.index as usize % stripes {
                self.wait_for_peers(&mut wait)?;
            }
        }
    }

    pub(crate) fn appender_at(&self, stream: Stream, stripe: usize) -> usize {
        let stream = stream.pool as usize * self.layout.ttl_classes + stream.ttl_class as usize;
        self.layout.appenders_at + (stream * self.layout.stripes + stripe) * LINE_BYTES
    }

    fn streams(&self) -> impl Iterator<Item = Stream> + use<> {
        let ttl_classes = 0..self.layout.ttl_classes as u32;
        [Pool::Small, Pool::Main].into_iter().flat_map(move |pool| {
            ttl_classes.clone().map(move |ttl_class| Stream { pool, ttl_class })
        })
    }

    fn appender_segment(&self, appender_at: usize) -> Option<u32> {
        (self.memory.word(appender_at + SEGMENT).load(Relaxed) as u32).checked_sub(1)
    }

    /// Seals the segment of a claimed head.
    pub(crate) fn detach_segment(&self, thread: &ThreadSlot, appender_at: usize, segment: u32) {
        self.set_own_state(segment, State::Active, thread);
        self.memory.word(appender_at + SEGMENT).store(0, Release);
        self.set_state(segment, State::Sealed);
    }

    /// Seals the segments of appenders that nobody uses just now, where nothing in them matters: so that what
    /// was flushed or has expired does not wait for the next store to be taken back.
    pub(crate) fn detach_reclaimable(&self, thread: &ThreadSlot, now: Second) {
        self.detach_where(thread, |segment| {
            self.filled(segment) > 0 && self.is_reclaimable(segment, now)
        });
    }

    /// Seals the segments of all appenders that nobody uses just now: where appenders hold all there is, none can be
    /// emptied. Were there any? Without eviction those stay that are compacted into: what is in them would be
    /// moved to others like them, again and again.
    pub(crate) fn detach_idle(&self, thread: &ThreadSlot) -> bool {
        let is_due = |segment| self.evicts || self.stream(segment).pool == Pool::Small;
        self.detach_where(thread, is_due) > 0
    }

    /// Releases the appenders of a dead thread slot. What was written there and is not published is passed over.
    pub(crate) fn release_appenders(&self, thread: &ThreadSlot) {
        for appender_at in self.appenders() {
            let claimed = self.memory.word(appender_at + CLAIMED);
            if claimed.load(Acquire) != thread.owner() {
                continue;
            }
            if let Some(segment) = self.appender_segment(appender_at) {
                self.suspect(segment);
                self.set_state(segment, State::Active);
            }
            claimed.store(0, Release);
        }
    }

    /// The owner of each head, and its segment.
    pub(crate) fn appender_words(&self) -> impl Iterator<Item = (u64, Option<u32>)> {
        let owner = |appender_at| self.memory.word(appender_at + CLAIMED).load(Acquire);
        self.appenders()
            .map(move |appender_at| (owner(appender_at), self.appender_segment(appender_at)))
    }

    fn appenders(&self) -> impl Iterator<Item = usize> {
        let stripes = 0..self.layout.stripes;
        self.streams().flat_map(move |stream| {
            stripes.clone().map(move |stripe| self.appender_at(stream, stripe))
        })
    }

    /// Seals some of the segments of appenders that nobody uses just now, and says how many these were.
    pub(crate) fn detach_where(&self, thread: &ThreadSlot, is_due: impl Fn(u32) -> bool) -> usize {
        let mut detached = 0;
        for appender_at in self.appenders() {
            let claimed = self.memory.word(appender_at + CLAIMED);
            if claimed.compare_exchange(0, thread.owner(), Acquire, Relaxed).is_err() {
                continue;
            }
            if let Some(segment) =
                self.appender_segment(appender_at).filter(|segment| is_due(*segment))
            {
                self.detach_segment(thread, appender_at, segment);
                detached += 1;
            }
            claimed.store(0, Release);
        }
        detached
    }
}
