//! Background work: the expiry sweep, and freeing segments before a writer needs them.

use larder_item::Meta;

use crate::error::StoreError;
use crate::index::cursor::Cursor;
use crate::process::op::Op;
use crate::reclaim::Reclaimer;
use crate::reclaim::empty::EmptyOutcome;
use crate::reclaim::evict::{Effort, Keep};
use crate::reclaim::policy::Wish;
use crate::reclaim::sweep::{SLICE_WORK, STUCK_WORK, UNLINK_WORK};

/// The number of segments that `Engine::maintain` frees in one call.
const FREED_SEGMENTS_MAX: usize = 64;

/// The number of segments that `Engine::maintain` recounts in one call.
const RECOUNTED_SEGMENTS_MAX: usize = 16;

/// The number of segments that `Engine::maintain` files in one call.
const LAP_SEGMENTS_MAX: u64 = 1 << 14;

/// The number of rounds after which a refill returns, so that other threads can run.
const REFILL_ROUNDS_MAX: u32 = 128;

impl Reclaimer {
    /// See `Engine::maintain`.
    pub(crate) fn maintain(&self, op: &Op<'_>) -> bool {
        self.segments().flush_if_due(op.now);
        self.reap_in_turn();
        // If a stopped process holds a lock, that part of the work is left to another call.
        let hurried = &op.hurried();
        self.recount_suspects(hurried, RECOUNTED_SEGMENTS_MAX);
        self.segments().detach_reclaimable(op);
        let used = self.segments().used_segments();
        self.segments().lap(used.min(LAP_SEGMENTS_MAX), op.now);
        let (mut keep, mut avoided, mut work) = (Keep::BestHalf, Vec::new(), 0);
        for _ in 0..FREED_SEGMENTS_MAX {
            let freed = match self.reclaimable(op, Wish { keep, avoided: &avoided }) {
                // Freeing a segment of expired items unlinks these items. This is limited to about
                // half of the work of a slice, so that the sweep below has the other half.
                Some(_) if work >= SLICE_WORK / 2 => break,
                Some(reclaimable) => {
                    let items = self.segments().account(reclaimable.segment).items as usize;
                    work += items * UNLINK_WORK;
                    let freed = self.reclaim(hurried, reclaimable);
                    if matches!(freed, Err(StoreError::Stuck(_))) {
                        work += STUCK_WORK;
                        avoided.push(reclaimable);
                        continue;
                    }
                    freed
                }
                None if self.segments().is_over_limit() => self.make_any_room(op, keep),
                None => break,
            };
            keep = match freed {
                Ok(EmptyOutcome::Yes(_)) => Keep::BestHalf,
                // No memory is left for survivors.
                Ok(EmptyOutcome::Partly) if keep == Keep::BestHalf => Keep::Nothing,
                _ => break,
            };
        }
        // The thread that was shrinking the cache may belong to a process that has died. So this
        // call also shrinks it.
        self.shrink(op);
        // The sweep comes after the segments in which everything has expired are freed, so that it
        // need not look at their records.
        let is_more_due = self.sweep(op, SLICE_WORK.saturating_sub(work).max(SLICE_WORK / 2));
        self.index().grow_on(op);
        is_more_due
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
                Ok(emptied @ (EmptyOutcome::Yes(_) | EmptyOutcome::Partly)) => {
                    effort.count_round(emptied.reclaimed_bytes(), self.region().segment_bytes());
                }
                // A writer is already evicting.
                Ok(EmptyOutcome::Busy) | Err(_) => break,
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
        let locked = self.index().lock_walked_group(op, group);
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
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests {
    use larder_item::{Deadline, Second, StoreMode};
    use larder_stats::Counter;

    use crate::engine::Engine;
    use crate::fixtures::SMALL;
    use crate::open::Config;
    use crate::ops::request::StoreRequest;
    use crate::process::operation::Operation;

    const NOW: Second = 10;

    /// Returns an engine with as many segments as a cache of 4 GiB, each of 64 KiB.
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
                .store(
                    &Operation::new(&thread, NOW),
                    &StoreRequest { key: &key(stored), ..request },
                    &[7; 1000],
                )
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
