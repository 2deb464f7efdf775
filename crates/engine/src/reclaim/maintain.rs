//! Background work: the expiry sweep, and freeing segments before a writer needs them.

use std::sync::atomic::Ordering::Relaxed;

use larder_item::{Meta, Second};
use larder_region::layout::global;
use larder_stats::Counter;

use crate::index::cursor::Cursor;
use crate::reclaim::evict::{Effort, Emptied, Keep};
use crate::segment::header::State;
use crate::{Engine, ThreadSlot};

/// The number of segments that [`Engine::maintain`] frees in one call.
const FREED_SEGMENTS_MAX: usize = 64;

/// The number of segments that [`Engine::maintain`] recounts in one call.
const RECOUNTED_SEGMENTS_MAX: usize = 16;

/// The number of calls of [`Engine::maintain`] that sweep all segments for expired items …
const SWEEP_CALLS: usize = 8;
/// … unless that exceeds this many bytes a call.
const SWEEP_BYTES_MAX: usize = 128 << 20;

/// The number of rounds after which a refill lets other threads run.
const REFILL_ROUNDS_MAX: u32 = 128;

impl Engine {
    /// Frees the memory of expired, flushed, replaced and deleted items, and evicts while the cache
    /// exceeds its memory limit. Any thread may call it, about once a second; a call does a bounded
    /// amount of work. Expired items that no client reads are gone after eight calls, or one call
    /// for each 128 MiB of memory if that is more.
    pub fn maintain(&self, thread: &ThreadSlot, now: Second) {
        self.flush_if_due(now);
        self.reap_peers();
        self.recount_suspects(thread, RECOUNTED_SEGMENTS_MAX);
        self.detach_reclaimable(thread, now);
        let mut keep = Keep::BestHalf;
        for _ in 0..FREED_SEGMENTS_MAX {
            let survey = self.survey(now);
            let freed = match survey.reclaimable {
                Some(reclaimable) => self.reclaim(thread, reclaimable, now),
                None if self.is_over_limit() => self.make_room(thread, &survey, keep, now),
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
        self.shrink(thread, now);
        // After the segments that expired as a whole are freed.
        let sweep_max = (SWEEP_BYTES_MAX / self.layout.segment_bytes).max(1);
        for _ in 0..(self.used_segments() as usize).div_ceil(SWEEP_CALLS).min(sweep_max) {
            self.sweep_next(thread, now);
        }
        self.grow_if_due(thread, now);
    }

    /// Evicts until enough segments are free for some time, so that writers find them and need not
    /// evict themselves. For a background thread; [`Engine::call_when_short`] says when to call it.
    pub fn refill(&self, thread: &ThreadSlot, now: Second) {
        let mut effort = Effort::default();
        for _ in 0..=REFILL_ROUNDS_MAX {
            if !self.evicts || self.free_segments() >= self.free_segments_high() {
                break;
            }
            let survey = self.survey(now);
            let freed = match survey.reclaimable {
                Some(reclaimable) => self.reclaim(thread, reclaimable, now),
                None => self.make_room(thread, &survey, effort.keep(), now),
            };
            match freed {
                Ok(emptied @ (Emptied::Yes(_) | Emptied::Partly)) => {
                    effort.count_round(emptied.reclaimed_bytes(), self.layout.segment_bytes);
                }
                // A writer already evicts.
                Ok(Emptied::Busy) | Err(_) => break,
            }
        }
    }

    /// Removes the dead items of one group of the index that `wanted` accepts, by key length and
    /// metadata, and moves the cursor behind the group. Returns false at the end of the walk.
    /// Unlike [`Engine::maintain`] it covers items in all segments, also in those that are still
    /// written to.
    ///
    /// Cost: holds the lock of the group, as a store does, for a cache miss or two for each of
    /// about ten items.
    pub fn sweep_group(
        &self,
        thread: &ThreadSlot,
        cursor: &mut Cursor,
        now: Second,
        wanted: impl Fn(usize, &Meta) -> bool,
    ) -> bool {
        let group = cursor.group;
        if group >= self.groups() {
            return false;
        }
        self.flush_if_due(now);
        let locked = self.lock_group(thread, group);
        for found in self.linked(group).take_while(|_| locked.is_ok()) {
            if let Some(death) = self.death(&found, now)
                && wanted(
                    found.header.key_bytes(),
                    &self.meta(&found, self.value_bytes(&found), now),
                )
            {
                self.sweep_up(thread, &found, death);
            }
        }
        cursor.group += 1;
        true
    }

    /// Sweeps the next segment in turn for expired items and unlinks them. The segment may then be
    /// worth compacting.
    pub(crate) fn sweep_next(&self, thread: &ThreadSlot, now: Second) {
        let turn = self.memory.word(global::SWEEP_NEXT).fetch_add(1, Relaxed);
        let segment = (turn % self.used_segments().max(1)) as u32;
        let sequence = self.sequence(segment).load(Relaxed);
        if self.state(segment) != State::Sealed
            || !self.may_hold_expired(segment, now)
            || !self.pin(segment, sequence)
        {
            return;
        }
        // A concurrent touch may note a deadline that this forgets. The item then waits until its
        // segment is emptied.
        self.forget_deadline_min(segment);
        let mut checked = 0;
        for (slot, header) in self.headers(segment) {
            if header.deadline_at().is_none() {
                continue;
            }
            checked += 1;
            let record_at = self.layout.segment_at(segment) + slot.offset();
            let deadline = self.swept_at(header, record_at);
            if !deadline.is_past(now) {
                self.note_deadline(segment, deadline);
                continue;
            }
            let hash = self.hash_of(record_at, header);
            let Ok(locked) = self.lock(thread, hash) else {
                // Other items of the segment may wait for the same process: another call sweeps
                // them.
                self.note_deadline(segment, deadline);
                break;
            };
            if let Some(found) = self.find_location(&locked, hash, slot)
                && let Some(death) = self.death(&found, now)
            {
                self.sweep_up(thread, &found, death);
            }
        }
        self.bump(thread, Counter::CrawlerItemsChecked, checked);
        self.unpin(segment);
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests {
    use larder_item::{Deadline, Epoch, StoreMode};

    use super::*;
    use crate::{Config, StoreRequest};

    const NOW: Second = 10;

    /// Returns an engine with as many segments as a cache of 4 GiB, of 64 KiB each.
    fn engine_of_many_segments() -> Engine {
        let engine = Engine::create(&Config {
            memory_bytes: 16 << 20,
            memory_bytes_max: 256 << 20,
            huge_pages: false,
            item_bytes_max: 1 << 20,
            keeps_versions: false,
            evicts: true,
            hash_seed: 1,
            epoch: Epoch { unix_secs: 0 },
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
        assert!(engine.segments_max() > 4000);
        let thread = engine.register().unwrap();
        let mut stored = 0;
        while engine.free_segments() > engine.spare_segments() {
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

        assert!(engine.free_segments() >= engine.free_segments_high());
        assert!(engine.counter(Counter::Evictions) > 1000);
        assert_eq!(engine.counter(Counter::EvictedActive), 0, "items that were read must survive");
        engine.validate().unwrap();
    }
}
