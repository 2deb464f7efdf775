//! Emptying segments: eviction, compaction, and taking back what is spent.

use larder_item::{KEY_BYTES_MAX, Second};
use larder_region::layout::global;
use larder_stats::Counter;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::record::{HEADER_BYTES, Header};
use crate::segment::State;
use crate::slot::Slot;
use crate::wait::Wait;
use crate::{Engine, NoMemory, Seat};

/// A segment is worth compacting where at least a sixteenth of it would be won.
const COMPACTED_LIVE_MAX_OF_16: usize = 15;

/// How many spent segments [`Engine::maintain`] takes back in one go.
const MAINTAINED_SEGMENTS_MAX: usize = 64;

impl Engine {
    /// Takes a segment for new use: a free one, or the one that costs the cache least. The caller holds no
    /// group.
    ///
    /// Victims in this order: a segment in which nothing matters any more; then, where eviction is allowed,
    /// the oldest, otherwise the one with the least live bytes, whose survivors are moved.
    pub(crate) fn take_segment(&self, seat: &Seat, now: Second) -> Result<u32, NoMemory> {
        let spare = u64::from(!self.evicts);
        let mut wait = Wait::default();
        loop {
            if let Some(segment) = self.pop_free(spare) {
                return Ok(segment);
            }
            let victim = match self.spent_segment(now) {
                None if self.evicts => self.oldest(),
                None => self.emptiest(),
                spent => spent,
            };
            match victim {
                Some(segment) => self.win_back(seat, segment, now)?,
                None if self.is_anybody_emptying() => wait.pause(),
                None => return Err(NoMemory),
            }
        }
    }

    /// Takes back segments in which nothing matters any more: all of it expired, flushed, overwritten or
    /// deleted. To be called now and then, by anybody; a call does a bounded amount of work.
    pub fn maintain(&self, seat: &Seat, now: Second) {
        self.flush_if_due(now);
        self.detach_spent(seat, now);
        for _ in 0..MAINTAINED_SEGMENTS_MAX {
            let Some(segment) = self.spent_segment(now) else {
                break;
            };
            if self.win_back(seat, segment, now).is_err() {
                break;
            }
        }
        self.grow_if_due(seat, now);
    }

    /// Puts a sealed segment on the free stack, unless somebody else is at it. What lives in it is evicted,
    /// or moved where eviction is not allowed: even in a spent segment an item may have been touched since.
    fn win_back(&self, seat: &Seat, segment: u32, now: Second) -> Result<(), NoMemory> {
        if !self.evicts {
            return self.compact(seat, segment, now);
        }
        if self.change_state(segment, State::Sealed, State::Emptying) {
            for (slot, hash, header) in self.records(segment) {
                self.drop_record(seat, slot, hash, header, now);
            }
            self.count(seat, Counter::SegmentsEvicted, 1);
            self.finish_emptying(seat, segment);
        }
        Ok(())
    }

    fn sealed(&self) -> impl Iterator<Item = u32> {
        self.segments().filter(|segment| self.state(*segment) == State::Sealed)
    }

    fn spent_segment(&self, now: Second) -> Option<u32> {
        self.sealed().find(|segment| self.is_spent(*segment, now))
    }

    fn oldest(&self) -> Option<u32> {
        self.sealed().min_by_key(|segment| self.sequence(*segment).load(Relaxed))
    }

    fn emptiest(&self) -> Option<u32> {
        let live_max = self.layout.segment_bytes / 16 * COMPACTED_LIVE_MAX_OF_16;
        self.sealed()
            .min_by_key(|segment| self.live(*segment))
            .filter(|segment| self.live(*segment) <= live_max)
    }

    fn is_anybody_emptying(&self) -> bool {
        self.segments().any(|segment| self.state(segment) == State::Emptying)
    }

    /// Moves the live records of a segment elsewhere and frees it. One at a time: what is
    /// kept free is enough for the survivors of one segment.
    fn compact(&self, seat: &Seat, segment: u32, now: Second) -> Result<(), NoMemory> {
        let compactor = self.memory.word(global::COMPACTOR);
        if compactor.compare_exchange(0, seat.owner(), Acquire, Relaxed).is_err() {
            std::thread::yield_now();
            return Ok(());
        }
        let mut moved = Ok(());
        if self.change_state(segment, State::Sealed, State::Emptying) {
            moved = self
                .records(segment)
                .try_for_each(|(slot, hash, header)| self.relocate(seat, slot, hash, header, now));
            if moved.is_ok() {
                self.count(seat, Counter::SegmentsCompacted, 1);
                self.finish_emptying(seat, segment);
            } else {
                self.set_state(segment, State::Sealed);
            }
        }
        compactor.store(0, Release);
        moved
    }

    /// Frees a segment that nothing reaches any more. What is left in its account are pieces of uploads that
    /// will never be published.
    fn finish_emptying(&self, seat: &Seat, segment: u32) {
        self.discharge(seat, segment, self.live(segment));
        self.retire(segment);
        self.push_free(segment);
    }

    /// The records of a segment: the word that names each, its key's hash, its header.
    pub(crate) fn records(&self, segment: u32) -> impl Iterator<Item = (Slot, u64, Header)> {
        let segment_at = self.layout.segment_at(segment);
        let filled = self.filled(segment).min(self.layout.segment_bytes);
        let sequence = self.sequence(segment).load(Relaxed);
        let mut offset = 0;
        let mut key = Vec::with_capacity(KEY_BYTES_MAX);
        std::iter::from_fn(move || {
            if offset + HEADER_BYTES > filled {
                return None;
            }
            let record_at = segment_at + offset;
            let header = Header::load(&self.memory, record_at);
            if offset + header.record_bytes() > filled {
                debug_assert!(false, "record {header:?} at {offset} leaves segment {segment}");
                return None;
            }
            let hash = if header.is_piece() {
                self.memory.word(record_at + HEADER_BYTES).load(Relaxed)
            } else {
                key.clear();
                self.memory.read(record_at + header.key_at(), header.key_bytes(), &mut key);
                self.hash(&key)
            };
            let slot = Slot::new(segment, offset, sequence);
            offset += header.record_bytes();
            Some((slot, hash, header))
        })
    }

    /// Unlinks a record if it is reachable; with a piece goes the whole item.
    fn drop_record(&self, seat: &Seat, slot: Slot, hash: u64, header: Header, now: Second) {
        let locked = self.lock(seat, hash);
        let found = if header.is_piece() {
            self.find_owner(&locked, hash, slot).map(|(found, _)| found)
        } else {
            self.find_location(&locked, hash, slot)
        };
        if let Some(found) = found {
            let reason = match self.death(&found, now) {
                Some(_) => Counter::Reclaimed,
                None => Counter::Evictions,
            };
            self.unlink(seat, &found);
            self.count(seat, reason, 1);
        }
    }
}
