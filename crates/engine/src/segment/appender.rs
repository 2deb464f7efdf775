//! Appenders: the positions at which new records are written.
//!
//! A stream is a kind of records that probably die at the same time (see `stream`). It has a few
//! appenders ("stripes"), each with its own segment. A writer claims an appender while it writes
//! and publishes a record. No other thread seals the segment of a claimed appender, that is,
//! declares it full. Only sealed segments are emptied, so no evictor can empty the segment under
//! the writer.
//!
//! A thread that holds an appender never waits, because other writers need it soon. It does not
//! evict, which would move survivors to another appender, and it only tries to lock a group. A
//! thread that holds a group only tries to claim an appender. In either case the writers of one hot
//! key do not delay the writers of other keys.
//!
//! ```text
//! 0  claimed by owner u64 │ 8  segment + 1, 0 for none u64
//! ```

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use larder_region::layout::LINE_BYTES;

use crate::error::{StoreError, Stuck};
use crate::process::op::Op;
use crate::process::thread_slot::ThreadSlot;
use crate::process::wait::Wait;
use crate::segment::Segments;
use crate::segment::header::State;
use crate::segment::slot::Slot;
use crate::segment::stream::{Pool, Stream};

const CLAIMED: usize = 0;
const SEGMENT: usize = 8;

/// In a memory with at least this many segments, survivors are written to separate segments. In a
/// smaller memory, one more partly filled segment would cost more misses than the copies it saves.
const SEGMENTS_TO_PART_MIN: usize = 200;

/// How far ahead of a record the memory for later records is prefetched, about eight records of 100
/// bytes, and how much of it.
const BYTES_AHEAD: usize = 1024;
const PREFETCHED_BYTES: usize = 128;

/// A claimed appender with space in its segment. Dropping it releases the appender and the unused
/// space.
pub(crate) struct Reservation<'a> {
    segments: &'a Segments,
    appender_at: usize,
    pub(crate) segment: u32,
    pub(crate) sequence: u64,
    /// The offset of the space in the segment.
    pub(crate) offset: usize,
    /// The length of the space in bytes.
    pub(crate) bytes: usize,
}

impl Reservation<'_> {
    /// Returns the offset of the space in the region.
    pub(crate) fn at(&self) -> usize {
        self.segments.region().segment_at(self.segment) + self.offset
    }

    pub(crate) fn slot(&self) -> Slot {
        Slot::new(self.segment, self.offset, self.sequence)
    }

    /// Prefetches a little of the memory after the space, for the records that follow.
    pub(crate) fn prefetch_ahead(&self) {
        let memory = self.segments.region().memory();
        memory.prefetch_lines(self.at() + BYTES_AHEAD, PREFETCHED_BYTES);
    }

    /// Extends the filled part of the segment over the first `bytes` of the space, so that walks
    /// include them.
    pub(crate) fn fill(&self, bytes: usize) {
        self.segments.set_filled(self.segment, self.offset + bytes);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        // Pairs with the acquire in `claim_appender`.
        self.segments.region().word(self.appender_at + CLAIMED).store(0, Release);
    }
}

impl Segments {
    /// Reserves space for a record of `bytes` (a multiple of 8), or for at least `bytes_min` of it.
    /// If memory is full, this evicts, so the caller must hold neither group nor appender.
    pub(crate) fn reserve(
        &self,
        op: &Op<'_>,
        stream: Stream,
        bytes: usize,
        bytes_min: usize,
    ) -> Result<Reservation<'_>, StoreError> {
        let mut taken = None;
        loop {
            let claimed = self.claim_appender(op, stream);
            if claimed.is_err() {
                // The call below returns the error, so the segment is not needed.
                taken.inspect(|segment| self.free(op.thread, *segment));
            }
            let mut room = claimed?;
            loop {
                if self.has_room_for(op.thread, &mut room, bytes, bytes_min)? {
                    // While this thread took a segment, another thread attached one to this
                    // appender.
                    taken.inspect(|segment| self.free(op.thread, *segment));
                    return Ok(room);
                }
                let Some(segment) = taken.take().or_else(|| self.take_free_segment(op.thread))
                else {
                    break;
                };
                // The appender stays claimed until its segment has a record: see `detach_idle`.
                self.attach_segment(op, &room, segment, stream);
                self.note_taken();
            }
            drop(room);
            taken = Some(op.take_segment()?);
        }
    }

    /// Same as [`Self::reserve`], for a thread that holds a group: returns `None` if it would have
    /// to wait or to evict.
    pub(crate) fn try_reserve(
        &self,
        op: &Op<'_>,
        stream: Stream,
        bytes: usize,
    ) -> Result<Option<Reservation<'_>>, StoreError> {
        let Some(mut room) = self.try_claim_appender(op.thread, stream) else {
            return Ok(None);
        };
        while !self.has_room_for(op.thread, &mut room, bytes, bytes)? {
            let Some(segment) = self.take_free_segment(op.thread) else {
                return Ok(None);
            };
            self.attach_segment(op, &room, segment, stream);
            self.note_taken();
        }
        Ok(Some(room))
    }

    /// Same as [`Self::try_reserve`], for a record that is moved: may take the spare segments.
    /// `room` is the space of the last survivor, or `None`. Returns false if other threads hold all
    /// appenders of the stream.
    pub(crate) fn try_reserve_for_survivor<'a>(
        &'a self,
        op: &Op<'_>,
        room: &mut Option<Reservation<'a>>,
        stream: Stream,
        bytes: usize,
    ) -> Result<bool, StoreError> {
        if room.is_none() {
            *room = self.try_claim_for_survivors(op.thread, stream);
        }
        let Some(room) = room else {
            return Ok(false);
        };
        while !self.has_room_for(op.thread, room, bytes, bytes)? {
            let segment = self.take_for_survivors(op.thread).ok_or(StoreError::NoMemory)?;
            self.attach_segment(op, room, segment, stream);
        }
        Ok(true)
    }

    /// Waits until an appender of the stream can be claimed. The caller holds no group.
    pub(crate) fn await_appender(&self, op: &Op<'_>, stream: Stream) -> Result<(), Stuck> {
        self.claim_appender(op, stream).map(drop)
    }

    /// Finds space in the segment of a claimed appender. Seals a segment with too little space.
    fn has_room_for(
        &self,
        thread: &ThreadSlot,
        room: &mut Reservation<'_>,
        bytes: usize,
        bytes_min: usize,
    ) -> Result<bool, StoreError> {
        debug_assert!(bytes.is_multiple_of(8) && bytes_min <= bytes);
        if bytes_min > self.region().segment_bytes() {
            return Err(StoreError::NoMemory);
        }
        let Some(segment) = self.appender_segment(room.appender_at) else {
            return Ok(false);
        };
        room.segment = segment;
        room.sequence = self.sequence(segment).load(Relaxed);
        room.offset = self.filled(segment);
        // In a damaged region, a segment may claim to be filled beyond its end.
        room.bytes = self.region().segment_bytes().saturating_sub(room.offset).min(bytes);
        let fits = room.offset.is_multiple_of(8)
            && room.bytes >= bytes_min
            && !self.is_flushed(room.sequence);
        if !fits {
            self.detach_segment(thread, room.appender_at, segment);
        }
        Ok(fits)
    }

    fn attach_segment(&self, op: &Op<'_>, room: &Reservation<'_>, segment: u32, stream: Stream) {
        self.activate(op, segment, stream);
        self.region().word(room.appender_at + SEGMENT).store(u64::from(segment) + 1, Release);
        // From here on the appender owns the segment.
        self.set_state(segment, State::Active);
    }

    /// Claims an appender of the stream. Waits if all are claimed.
    #[inline(always)] // Otherwise every store makes a call, which takes 3 % of its time.
    fn claim_appender(&self, op: &Op<'_>, stream: Stream) -> Result<Reservation<'_>, Stuck> {
        let mut wait = Wait::default();
        loop {
            if let Some(claimed) = self.try_claim_appender(op.thread, stream) {
                return Ok(claimed);
            }
            op.wait(self.peers(), &mut wait)?;
        }
    }

    /// Claims an appender of the stream if one is free. The search begins with the stripe that the
    /// thread slot claimed most recently. So if two threads meet at a stripe, one of them moves to
    /// another stripe and stays there.
    fn try_claim_appender(&self, thread: &ThreadSlot, stream: Stream) -> Option<Reservation<'_>> {
        let stripes = self.region().layout().stripes;
        let first = thread.stripe.get() as usize % stripes;
        (first..stripes).chain(0..first).find_map(|stripe| {
            let claimed = self.try_claim_stripe(thread, stream, stripe)?;
            thread.stripe.set(stripe as u32);
            Some(claimed)
        })
    }

    /// Same as [`Self::try_claim_appender`], but begins with the last stripe, which few writers
    /// use. Survivors usually live longer than new records, so in separate segments they are moved
    /// less often.
    fn try_claim_for_survivors(
        &self,
        thread: &ThreadSlot,
        stream: Stream,
    ) -> Option<Reservation<'_>> {
        if self.region().layout().segments < SEGMENTS_TO_PART_MIN {
            return self.try_claim_appender(thread, stream);
        }
        let mut stripes = (0..self.region().layout().stripes).rev();
        stripes.find_map(|stripe| self.try_claim_stripe(thread, stream, stripe))
    }

    fn try_claim_stripe(
        &self,
        thread: &ThreadSlot,
        stream: Stream,
        stripe: usize,
    ) -> Option<Reservation<'_>> {
        let appender_at = self.appender_at(stream, stripe);
        let claimed = self.region().word(appender_at + CLAIMED);
        // The acquire pairs with the release of the last holder.
        claimed.compare_exchange(0, thread.owner(), Acquire, Relaxed).ok()?;
        let (segment, sequence, offset, bytes) = (0, 0, 0, 0);
        Some(Reservation { segments: self, appender_at, segment, sequence, offset, bytes })
    }

    pub(crate) fn appender_at(&self, stream: Stream, stripe: usize) -> usize {
        let stream =
            stream.pool as usize * self.region().layout().ttl_classes + stream.ttl_class as usize;
        self.region().layout().appenders_at
            + (stream * self.region().layout().stripes + stripe) * LINE_BYTES
    }

    fn streams(&self) -> impl Iterator<Item = Stream> + use<> {
        let ttl_classes = 0..self.region().layout().ttl_classes as u32;
        [Pool::Small, Pool::Main].into_iter().flat_map(move |pool| {
            ttl_classes.clone().map(move |ttl_class| Stream { pool, ttl_class })
        })
    }

    fn appender_segment(&self, appender_at: usize) -> Option<u32> {
        (self.region().word(appender_at + SEGMENT).load(Relaxed) as u32).checked_sub(1)
    }

    /// Seals the segment of a claimed appender.
    pub(crate) fn detach_segment(&self, thread: &ThreadSlot, appender_at: usize, segment: u32) {
        self.set_own_state(segment, State::Active, thread);
        self.region().word(appender_at + SEGMENT).store(0, Release);
        self.seal(segment);
    }

    /// Seals the reclaimable segments of idle appenders. Otherwise flushed or expired records would
    /// stay there until the next store.
    pub(crate) fn detach_reclaimable(&self, op: &Op<'_>) {
        self.detach_where(op.thread, |segment| {
            self.filled(segment) > 0 && self.is_reclaimable(segment, op.now)
        });
    }

    /// Seals the segments of all idle appenders, because no segment can be emptied while appenders
    /// hold all memory. Returns true if it has sealed a segment. Without eviction, it does not seal
    /// the segments that compaction writes to: their records would be moved to similar segments
    /// again and again.
    pub(crate) fn detach_idle(&self, thread: &ThreadSlot) -> bool {
        let is_due = |segment| self.evicts || self.stream(segment).pool == Pool::Small;
        self.detach_where(thread, is_due) > 0
    }

    /// Releases the appenders of a dead thread slot. Records that were written there but not
    /// published stay unreachable.
    pub(crate) fn release_appenders(&self, thread: &ThreadSlot) {
        for appender_at in self.appenders() {
            let claimed = self.region().word(appender_at + CLAIMED);
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

    /// Claims each appender in turn, and passes its segment, if it has one, to `visit`. Waits for
    /// threads that hold an appender.
    pub(crate) fn claim_each_appender(
        &self,
        op: &Op<'_>,
        mut visit: impl FnMut(u32),
    ) -> Result<(), Stuck> {
        for stream in self.streams() {
            for stripe in 0..self.region().layout().stripes {
                let mut wait = Wait::default();
                let claimed = loop {
                    match self.try_claim_stripe(op.thread, stream, stripe) {
                        Some(claimed) => break claimed,
                        None => op.wait(self.peers(), &mut wait)?,
                    }
                };
                self.appender_segment(claimed.appender_at).into_iter().for_each(&mut visit);
            }
        }
        Ok(())
    }

    /// Returns the owner and the segment of each appender.
    pub(crate) fn appender_words(&self) -> impl Iterator<Item = (u64, Option<u32>)> {
        let owner = |appender_at| self.region().word(appender_at + CLAIMED).load(Acquire);
        self.appenders()
            .map(move |appender_at| (owner(appender_at), self.appender_segment(appender_at)))
    }

    pub(crate) fn is_any_appender_claimed(&self) -> bool {
        self.appender_words().any(|(owner, _)| owner != 0)
    }

    fn appenders(&self) -> impl Iterator<Item = usize> {
        let stripes = 0..self.region().layout().stripes;
        self.streams().flat_map(move |stream| {
            stripes.clone().map(move |stripe| self.appender_at(stream, stripe))
        })
    }

    /// Seals the segments of idle appenders that `is_due` selects. Returns their number.
    pub(crate) fn detach_where(&self, thread: &ThreadSlot, is_due: impl Fn(u32) -> bool) -> usize {
        let mut detached = 0;
        for appender_at in self.appenders() {
            let claimed = self.region().word(appender_at + CLAIMED);
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
