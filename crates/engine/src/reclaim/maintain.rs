//! Background work: the expiry sweep, and freeing segments before a writer needs them.

use std::sync::atomic::Ordering::Relaxed;

use larder_item::{KEY_BYTES_MAX, Meta};
use larder_region::layout::global;
use larder_stats::Counter;

use crate::index::cursor::Cursor;
use crate::process::op::Op;
use crate::reclaim::Reclaimer;
use crate::reclaim::empty::Emptied;
use crate::reclaim::evict::{Effort, Keep};
use crate::reclaim::policy::Wish;
use crate::segment::header::State;

/// The number of segments that `Engine::maintain` frees in one call.
const FREED_SEGMENTS_MAX: usize = 64;

/// The number of segments that `Engine::maintain` recounts in one call.
const RECOUNTED_SEGMENTS_MAX: usize = 16;

/// The number of segments that `Engine::maintain` files in one call.
const LAP_SEGMENTS_MAX: u64 = 1 << 14;

/// The number of calls of `Engine::maintain` that sweep all segments for expired items …
const SWEEP_CALLS: usize = 8;
/// … unless that exceeds this many bytes a call.
const SWEEP_BYTES_MAX: usize = 128 << 20;

/// The number of rounds after which a refill lets other threads run.
const REFILL_ROUNDS_MAX: u32 = 128;

impl Reclaimer {
    /// See `Engine::maintain`.
    pub(crate) fn maintain(&self, op: &Op<'_>) {
        self.segments().flush_if_due(op.now);
        self.reap_peers();
        self.recount_suspects(op, RECOUNTED_SEGMENTS_MAX);
        self.segments().detach_reclaimable(op);
        let used = self.segments().used_segments();
        self.segments().lap(used.min(LAP_SEGMENTS_MAX), op.now);
        let mut keep = Keep::BestHalf;
        for _ in 0..FREED_SEGMENTS_MAX {
            let freed = match self.reclaimable(op, Wish::keeping(keep)) {
                Some(reclaimable) => self.reclaim(op, reclaimable),
                None if self.segments().is_over_limit() => self.make_any_room(op, keep),
                None => break,
            };
            keep = match freed {
                Ok(Emptied::Yes(_)) => Keep::BestHalf,
                // No memory is left for survivors.
                Ok(Emptied::Partly) if keep == Keep::BestHalf => Keep::Nothing,
                _ => break,
            };
        }
        // If no other thread does it: a process that shares the cache may have died meanwhile.
        self.shrink(op);
        // After the segments that expired as a whole are freed.
        let sweep_max = (SWEEP_BYTES_MAX / self.region().segment_bytes()).max(1);
        for _ in 0..(self.segments().used_segments() as usize).div_ceil(SWEEP_CALLS).min(sweep_max)
        {
            self.sweep_next(op);
        }
        self.index().grow_on(op);
    }

    /// See `Engine::refill`.
    pub(crate) fn refill(&self, op: &Op<'_>) {
        let mut effort = Effort::default();
        for _ in 0..=REFILL_ROUNDS_MAX {
            if !self.segments().evicts()
                || self.segments().free_segments() >= self.segments().free_segments_high()
            {
                break;
            }
            match self.make_any_room(op, effort.keep()) {
                Ok(emptied @ (Emptied::Yes(_) | Emptied::Partly)) => {
                    effort.count_round(emptied.reclaimed_bytes(), self.region().segment_bytes());
                }
                // A writer already evicts.
                Ok(Emptied::Busy) | Err(_) => break,
            }
        }
    }

    /// See `Engine::sweep_group`.
    pub(crate) fn sweep_group(
        &self,
        op: &Op<'_>,
        cursor: &mut Cursor,
        wanted: impl Fn(usize, &Meta) -> bool,
    ) -> bool {
        let group = cursor.group;
        if group >= self.index().groups() {
            return false;
        }
        self.segments().flush_if_due(op.now);
        let locked = self.index().lock_group(op, group);
        for found in self.index().linked(group).take_while(|_| locked.is_ok()) {
            if let Some(death) = self.index().death(&found, op.now)
                && wanted(
                    found.header.key_bytes(),
                    &self.index().meta(&found, self.index().value_bytes(&found), op.now),
                )
            {
                self.index().sweep_up(op.thread, &found, death);
            }
        }
        cursor.group += 1;
        true
    }

    /// Sweeps the next segment in turn for expired items and unlinks them. The segment may then be
    /// worth compacting.
    pub(crate) fn sweep_next(&self, op: &Op<'_>) {
        let turn = self.region().word(global::SWEEP_NEXT).fetch_add(1, Relaxed);
        let segment = (turn % self.segments().used_segments().max(1)) as u32;
        let sequence = self.segments().sequence(segment).load(Relaxed);
        if self.segments().state(segment) != State::Sealed
            || !self.segments().may_hold_expired(segment, op.now)
            || !self.segments().pin(segment, sequence)
        {
            return;
        }
        // A concurrent touch may note a deadline that this forgets. The item then waits until its
        // segment is emptied.
        self.segments().forget_deadline_min(segment);
        let (mut checked, mut key) = (0, Vec::with_capacity(KEY_BYTES_MAX));
        for (slot, header) in self.headers(segment) {
            if header.deadline_at().is_none() {
                continue;
            }
            checked += 1;
            let record_at = self.region().segment_at(segment) + slot.offset();
            let deadline = self.index().swept_at(header, record_at);
            if !deadline.is_past(op.now) {
                self.segments().note_deadline(segment, deadline);
                continue;
            }
            let hash = self.hash_of(record_at, header, &mut key);
            let Ok(locked) = self.index().lock(op, hash) else {
                // Other items of the segment may wait for the same process: another call sweeps
                // them.
                self.segments().note_deadline(segment, deadline);
                break;
            };
            if let Some(found) = self.index().find_location(&locked, hash, slot)
                && let Some(death) = self.index().death(&found, op.now)
            {
                self.index().sweep_up(op.thread, &found, death);
            }
        }
        self.peers().bump(op.thread, Counter::CrawlerItemsChecked, checked);
        self.peers().unpin(segment);
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests {
    use larder_item::{Deadline, Second, StoreMode};

    use super::*;
    use crate::engine::Engine;
    use crate::fixtures::SMALL;
    use crate::open::Config;
    use crate::ops::request::StoreRequest;

    const NOW: Second = 10;

    /// Returns an engine with as many segments as a cache of 4 GiB, of 64 KiB each.
    fn engine_of_many_segments() -> Engine {
        let engine = Engine::create(&Config {
            memory_bytes: 16 << 20,
            memory_bytes_max: 256 << 20,
            item_bytes_max: 1 << 20,
            keeps_versions: false,
            ..SMALL
        });
        let engine = engine.unwrap();
        let thread = engine.register().unwrap();
        engine.set_memory_limit(&thread, 256 << 20).unwrap();
        engine.deregister(&thread);
        engine
    }

    fn key(number: u32) -> [u8; 8] {
        u64::from(number).to_le_bytes()
    }

    fn is_hot(number: u32) -> bool {
        number % 10 < 7
    }

    #[test]
    fn a_refill_that_makes_progress_keeps_items_that_were_read() {
        let engine = engine_of_many_segments();
        assert!(engine.segments().segments_max() > 4000);
        let thread = engine.register().unwrap();
        let mut stored = 0;
        while engine.segments().free_segments() > engine.segments().spare_segments() {
            let request = StoreRequest {
                deadline: Deadline::NEVER,
                ..StoreRequest::new(b"", StoreMode::Set)
            };
            engine
                .store(&thread, &StoreRequest { key: &key(stored), ..request }, &[7; 1000], NOW)
                .unwrap();
            for _ in 0..if is_hot(stored) { 2 } else { 0 } {
                engine.read(&thread, &key(stored), NOW, &mut Vec::new(), |_, _| ());
            }
            stored += 1;
        }
        assert_eq!(engine.counter(Counter::Evictions), 0);

        for _ in 0..4 {
            engine.refill(&thread, NOW);
        }

        assert!(engine.segments().free_segments() >= engine.segments().free_segments_high());
        assert!(engine.counter(Counter::Evictions) > 1000);
        assert_eq!(engine.counter(Counter::EvictedActive), 0, "items that were read must survive");
        engine.validate().unwrap();
    }
}
