//! Emptying segments: eviction, compaction, and taking back what is spent.

use larder_item::{KEY_BYTES_MAX, Second};
use larder_region::layout::global;
use larder_stats::Counter;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::record::{HEADER_BYTES, Header};
use crate::segment::State;
use crate::slot::Slot;
use crate::wait::Wait;
use crate::{Engine, NoMemory, Seat};

/// With no more than this part alive a segment is compacted before memory is used that never was: what is
/// stored stays together in memory that is warm, and the process grows with what is stored, not with what
/// has been written. At most a byte is copied for three that are won; docs/decisions/0004 has the
/// measurement.
const SPARSE_LIVE_MAX_OF_16: usize = 4;

/// Up to this part of its memory a cache takes fresh segments without moving anything: overwritten ones soon
/// have nothing live, and cost nothing to take back.
const SMALL_PART: u64 = 32;

/// Where eviction is not allowed a segment is worth compacting if a sixteenth of it is won.
const COMPACTED_LIVE_MAX_OF_16: usize = 15;

/// Free segments that only survivors of a compaction may take.
const SPARE_SEGMENTS: u64 = 1;

/// The groups of so many records are asked for at once.
const RECORDS_AHEAD: usize = 16;

/// The live bytes of a segment that is not to be compacted.
const FULL: u64 = u64::MAX;

/// How many spent segments [`Engine::maintain`] takes back in one go.
const MAINTAINED_SEGMENTS_MAX: usize = 64;

/// What is there to win.
#[derive(Clone, Copy, Debug, Default)]
struct Survey {
    /// Nothing in it matters any more.
    spent: Option<u32>,
    /// The least live bytes, and whose they are. A segment with pieces of values that are still arriving counts
    /// as full: moving its records loses them.
    emptiest: Option<(u64, u32)>,
    /// The smallest sequence, and whose it is.
    oldest: Option<(u64, u32)>,
}

impl Survey {
    fn emptiest_up_to(&self, live_bytes_max: usize) -> Option<u32> {
        self.emptiest.filter(|(live, _)| *live <= live_bytes_max as u64).map(|(_, segment)| segment)
    }
}

impl Engine {
    /// Takes a segment for new use: a free one, or the one that costs the cache least. The caller holds no
    /// group.
    ///
    /// In this order: a free segment that was used before; one in which nothing matters any more; one that is
    /// mostly dead, whose survivors are moved; one that was never used; then, where eviction is allowed, the
    /// oldest, otherwise the one with the least live bytes.
    pub(crate) fn take_segment(&self, seat: &Seat, now: Second) -> Result<u32, NoMemory> {
        let mut wait = Wait::default();
        loop {
            let has_room = self.has_room();
            if has_room && let Some(segment) = self.pop_free(SPARE_SEGMENTS) {
                return Ok(segment);
            }
            let survey = self.survey(now);
            if let Some(spent) = survey.spent {
                self.win_back(seat, spent, now)?;
                continue;
            }
            if self.used_segments() > self.layout.segments as u64 / SMALL_PART
                && let Some(sparse) = survey.emptiest_up_to(self.sixteenths(SPARSE_LIVE_MAX_OF_16))
                && self.compact(seat, sparse, now).is_ok()
            {
                continue;
            }
            if has_room && let Some(segment) = self.take_fresh(SPARE_SEGMENTS) {
                return Ok(segment);
            }
            let victim = match self.evicts {
                true => survey.oldest.map(|(_, segment)| segment),
                // Rather than none, one whose arriving values will have to be sent again.
                false => survey
                    .emptiest_up_to(self.sixteenths(COMPACTED_LIVE_MAX_OF_16))
                    .or_else(|| self.abandoned()),
            };
            match victim {
                Some(segment) => self.win_back(seat, segment, now)?,
                None if self.is_anybody_emptying() => wait.pause(),
                None => return Err(NoMemory),
            }
        }
    }

    fn sixteenths(&self, of_16: usize) -> usize {
        self.layout.segment_bytes / 16 * of_16
    }

    /// Takes back segments in which nothing matters any more: all of it expired, flushed, overwritten or
    /// deleted; and the oldest ones while there are more than the memory limit allows. To be called now and then, by anybody; a call does a bounded amount of work.
    pub fn maintain(&self, seat: &Seat, now: Second) {
        self.flush_if_due(now);
        self.detach_spent(seat, now);
        for _ in 0..MAINTAINED_SEGMENTS_MAX {
            let survey = self.survey(now);
            let surplus =
                survey.oldest.filter(|_| self.is_over_limit()).map(|(_, segment)| segment);
            let Some(segment) = survey.spent.or(surplus) else {
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
        if !self.evicts && self.live(segment) > 0 {
            return self.compact(seat, segment, now);
        }
        if self.change_state(segment, State::Sealed, State::Emptying) {
            if self.live(segment) > 0 {
                for (slot, hash, header) in self.records(segment) {
                    self.drop_record(seat, slot, hash, header, now);
                }
            }
            self.count(seat, Counter::SegmentsEvicted, 1);
            self.finish_emptying(seat, segment);
        }
        Ok(())
    }

    /// Looks at all sealed segments, or at those before the first spent one.
    fn survey(&self, now: Second) -> Survey {
        let mut survey = Survey::default();
        for segment in self.segments().take(self.used_segments() as usize) {
            if self.state(segment) != State::Sealed {
                continue;
            }
            if self.is_spent(segment, now) {
                survey.spent = Some(segment);
                break;
            }
            let least = |best: Option<(u64, u32)>, found: u64| {
                let found = (found, segment);
                Some(best.map_or(found, |best| best.min(found)))
            };
            let live = if self.has_arriving(segment) { FULL } else { self.live(segment) as u64 };
            survey.emptiest = least(survey.emptiest, live);
            survey.oldest = least(survey.oldest, self.sequence(segment).load(Relaxed));
        }
        survey
    }

    /// The segment with the least live bytes among those with pieces of values that are still arriving.
    fn abandoned(&self) -> Option<u32> {
        let live_max = self.sixteenths(COMPACTED_LIVE_MAX_OF_16);
        self.segments()
            .filter(|segment| self.state(*segment) == State::Sealed && self.has_arriving(*segment))
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
        if self.is_over_limit() {
            self.memory.release(self.layout.segment_at(segment), self.layout.segment_bytes);
        }
        self.push_free(segment);
    }

    /// The records of a segment: the word that names each, its key's hash, its header. The groups of a few
    /// records ahead are asked for together: whoever empties a segment looks into a group for each, and would
    /// wait for the memory each time.
    pub(crate) fn records(&self, segment: u32) -> impl Iterator<Item = (Slot, u64, Header)> {
        let mut records = self.records_in_order(segment);
        let mut ahead = VecDeque::with_capacity(RECORDS_AHEAD);
        std::iter::from_fn(move || {
            if ahead.is_empty() {
                ahead.extend(records.by_ref().take(RECORDS_AHEAD));
                ahead.iter().for_each(|(_, hash, _)| self.prefetch_group(*hash));
            }
            ahead.pop_front()
        })
    }

    fn records_in_order(&self, segment: u32) -> impl Iterator<Item = (Slot, u64, Header)> {
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
