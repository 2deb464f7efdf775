//! The choice of the segment to reuse.
//!
//! The order is: a free segment that was used before; a *reclaimable* segment, in which nothing is
//! needed; a segment that is almost dead, whose live records are moved; a *fresh* segment, which
//! was never used. When memory is full: a segment that is dead enough for its age (see
//! `segment::filing::ripe`), then the victim of S3-FIFO; or, without eviction, the segment with the
//! fewest live bytes.
//!
//! Cost: a choice looks at a few segments, whatever their number; see `segment::filing`.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use larder_stats::Counter;

use crate::error::StoreError;
use crate::process::op::Op;
use crate::process::wait::Wait;
use crate::reclaim::Reclaimer;
use crate::reclaim::empty::EmptyOutcome;
use crate::reclaim::evict::{Effort, Keep};
use crate::segment::header::Use;
use crate::segment::stream::Pool;

/// The live percentage up to which a segment is compacted before fresh memory is used. Records then
/// stay together in warm memory, and the process grows with its content and not with the number of
/// bytes written. At most one byte is copied for three reclaimed; docs/decisions/0004 contains the
/// measurement.
const SPARSE_PERCENT_MAX: usize = 25;

/// While a cache uses at most this fraction of its memory, it takes fresh segments without moving
/// records. In such a cache, all records of a segment are soon replaced, and reclaiming the segment
/// then costs nothing.
const SMALL_PART: u64 = 32;

/// The live percentage up to which a segment is compacted without eviction: then compaction pays
/// even if it reclaims little.
const UNEVICTED_PERCENT_MAX: usize = 94;

/// The number of fruitless attempts to evict, with a yield after each, before a thread gives up.
const FRUITLESS_MAX: u32 = 1000;

/// How many segments a thread that makes room skips because another thread holds the group of one
/// of their records. After that, it waits for the other thread. One group may have records in many
/// segments.
const LEFT_MAX: usize = 64;

/// Returns how long a thread waits for another thread before it skips a segment. For the first few
/// segments, that is the time in which a thread without a processor usually runs again.
fn patience(left: usize) -> Duration {
    match left {
        0..4 => Duration::from_millis(1),
        _ => Duration::from_micros(100),
    }
}

/// The number of waits for resources of a stopped process before a thread that makes room gives up.
/// Each wait takes a second or two.
const STUCK_MAX: usize = 1;

/// Eviction takes from the small pool while this pool has more than one in this many segments.
const SMALL_POOL_PART: u64 = 10;

/// The number of segments that each choice of a segment files. A lap over all segments takes a
/// small part of the time in which they are reused.
const LAP_SEGMENTS: u64 = 64;

/// The way in which a segment is reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Free the segment, because nothing in it is needed.
    Reclaim(Use),
    /// Move the segment's live records, and free it.
    Compact(Use),
    /// Move or evict the segment's live records, and free it.
    Evict(Use),
}

impl Plan {
    fn segment(self) -> Use {
        let (Self::Reclaim(segment) | Self::Compact(segment) | Self::Evict(segment)) = self;
        segment
    }
}

/// The parameters of a choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish<'a> {
    /// How strictly eviction chooses survivors.
    pub(crate) keep: Keep,
    /// The segments that cannot be emptied because a stopped process holds a lock.
    pub(crate) avoided: &'a [Use],
}

impl Wish<'_> {
    /// Returns parameters without segments to avoid.
    pub(crate) fn keeping(keep: Keep) -> Self {
        Self { keep, avoided: &[] }
    }
}

impl Reclaimer {
    /// Takes a segment for a new use: a free one, or the one whose loss costs the cache least. The
    /// caller holds neither group nor appender.
    pub(crate) fn take_segment(&self, op: &Op<'_>) -> Result<u32, StoreError> {
        let mut wait = Wait::default();
        let (mut effort, mut fruitless) = (Effort::default(), 0);
        let mut avoided = Vec::new();
        loop {
            if let Some(segment) = self.segments().take_free_segment(op.thread) {
                return Ok(segment);
            }
            self.segments().lap(LAP_SEGMENTS, op.now);
            let wish = Wish { keep: effort.keep(), avoided: &avoided };
            let hurried = op.with_patience(patience(avoided.len()));
            let op = if avoided.len() < LEFT_MAX { &hurried } else { op };
            let mut plan = self.cheap_plan(op, wish);
            let spare = self.segments().spare_segments();
            if plan.is_none()
                && let Some(segment) = self.segments().take_fresh(op.thread, spare)
            {
                return Ok(segment);
            }
            let emptied = match plan {
                Some(plan) => self.carry_out(op, plan, wish.keep),
                None => {
                    self.sweep_next(op);
                    plan = self.plan_in_full_memory(op, wish);
                    self.peers().bump(op.thread, Counter::DirectReclaims, 1);
                    match self.make_room(op, plan, wish.keep) {
                        // Other threads' appenders may hold all segments, or may have sealed them
                        // after this thread looked.
                        Err(StoreError::NoMemory)
                            if self.segments().evicts() && fruitless < FRUITLESS_MAX =>
                        {
                            fruitless += 1;
                            Ok(EmptyOutcome::Busy)
                        }
                        done => done,
                    }
                }
            };
            // A wait for another thread does not count as a round, because it must not make
            // eviction less strict.
            match emptied {
                // A stopped process may hold the evictor place. This thread then continues without
                // one, and so without keeping survivors.
                Ok(EmptyOutcome::Busy) => match self.wait_for_peers(&mut wait) {
                    Err(_) if self.segments().evicts() && wish.keep != Keep::Nothing => {
                        effort.keep_nothing();
                        wait = Wait::default();
                    }
                    waited => waited?,
                },
                Ok(emptied @ (EmptyOutcome::Yes(_) | EmptyOutcome::Partly)) => {
                    effort.count_round(emptied.reclaimed_bytes(), self.region().segment_bytes());
                }
                // Another thread holds the group of one of the segment's records, or the appender
                // for survivors. This thread tries another segment. If that has happened with many
                // segments, the other thread's process is stopped, and this thread continues
                // without keeping survivors.
                Err(StoreError::Stuck(_)) if self.may_avoid(avoided.len()) && plan.is_some() => {
                    avoided.extend(plan.map(Plan::segment));
                    if avoided.len() > LEFT_MAX {
                        effort.keep_nothing();
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// True if a thread that avoids this number of segments may avoid another one.
    fn may_avoid(&self, avoided: usize) -> bool {
        avoided < LEFT_MAX || self.segments().evicts() && avoided < LEFT_MAX + STUCK_MAX
    }

    /// Makes one step towards a free segment in a memory that may be full.
    pub(crate) fn make_any_room(
        &self,
        op: &Op<'_>,
        keep: Keep,
    ) -> Result<EmptyOutcome, StoreError> {
        let (op, wish) = (&op.hurried(), Wish::keeping(keep));
        if let Some(reclaimable) = self.reclaimable(op, wish) {
            return self.reclaim(op, reclaimable);
        }
        self.sweep_next(op);
        self.make_room(op, self.plan_in_full_memory(op, wish), keep)
    }

    /// Carries out a plan for full memory. Without a plan, waits for other threads, or seals the
    /// segments of idle appenders.
    fn make_room(
        &self,
        op: &Op<'_>,
        plan: Option<Plan>,
        keep: Keep,
    ) -> Result<EmptyOutcome, StoreError> {
        match plan {
            Some(plan) => self.carry_out(op, plan, keep),
            None if self.is_anybody_emptying() => Ok(EmptyOutcome::Busy),
            // After this, the sealed segments can be emptied.
            None if self.segments().detach_idle(op.thread) => Ok(EmptyOutcome::Partly),
            // The thread that holds the appender releases it soon, but may lack a processor now.
            None if self.segments().evicts() && self.segments().is_any_appender_claimed() => {
                Ok(EmptyOutcome::Busy)
            }
            None => Err(StoreError::NoMemory),
        }
    }

    fn carry_out(&self, op: &Op<'_>, plan: Plan, keep: Keep) -> Result<EmptyOutcome, StoreError> {
        match plan {
            Plan::Reclaim(reclaimable) => self.reclaim(op, reclaimable),
            Plan::Compact(sparse) => self.compact(op, sparse),
            Plan::Evict(victim) => Ok(self.evict(op, victim, keep)?),
        }
    }

    /// Returns the plan to carry out before the cache takes fresh memory.
    fn cheap_plan(&self, op: &Op<'_>, wish: Wish<'_>) -> Option<Plan> {
        let plan = match wish.keep {
            Keep::Nothing if self.segments().evicts() => Plan::Evict,
            _ => Plan::Reclaim,
        };
        if let Some(reclaimable) = self.reclaimable(op, wish) {
            return Some(plan(reclaimable));
        }
        let is_small =
            self.segments().used_segments() <= self.segments().segments_max() / SMALL_PART;
        if is_small || wish.keep != Keep::Needed {
            return None;
        }
        self.emptiest(op, SPARSE_PERCENT_MAX, wish).map(Plan::Compact)
    }

    /// Returns the plan for full memory. Looks at all segments before it returns `None`, unless no
    /// segment was filed since a search of all segments that found none.
    fn plan_in_full_memory(&self, op: &Op<'_>, wish: Wish<'_>) -> Option<Plan> {
        let plan = || match self.segments().evicts() {
            true => self.plan_with_eviction(op, wish),
            false => self.plan_without_eviction(op, wish),
        };
        plan().or_else(|| self.segments().file_all(op.now).then(plan).flatten())
    }

    fn plan_with_eviction(&self, op: &Op<'_>, wish: Wish<'_>) -> Option<Plan> {
        // A miss costs clients more than a copy costs the cache.
        let ripe = || self.segments().ripe(op, |ripe| self.may_be_compacted(ripe, wish));
        let ripe = (wish.keep == Keep::Needed).then(ripe).flatten();
        ripe.map(Plan::Compact).or_else(|| self.victim(wish).map(Plan::Evict))
    }

    fn plan_without_eviction(&self, op: &Op<'_>, wish: Wish<'_>) -> Option<Plan> {
        let sparse = self.emptiest(op, UNEVICTED_PERCENT_MAX, wish);
        // Without this plan the store would fail. The plan empties a segment in which values are
        // arriving, although their clients must then send them again.
        let abandoned = || {
            self.segments().filed_up_to(UNEVICTED_PERCENT_MAX, op, |abandoned| {
                self.peers().is_held(abandoned.segment) && self.may_be_emptied(abandoned, wish)
            })
        };
        sparse.or_else(abandoned).map(Plan::Compact)
    }

    /// Returns a segment in which nothing is needed.
    pub(crate) fn reclaimable(&self, op: &Op<'_>, wish: Wish<'_>) -> Option<Use> {
        let may_be_emptied = |present| self.may_be_emptied(present, wish);
        let filed = self.segments().filed(0..=0, op, may_be_emptied);
        // After a flush, the lap may not have filed the flushed segments yet. So this also looks at
        // the oldest segment of each pool.
        filed.or_else(|| {
            [Pool::Small, Pool::Main].into_iter().find_map(|pool| {
                let oldest = self.segments().oldest(pool, may_be_emptied);
                oldest.filter(|oldest| self.segments().is_reclaimable(oldest.segment, op.now))
            })
        })
    }

    /// Returns the segment with the smallest share of live bytes, in sixteenths, if at most this
    /// percentage of it is live.
    fn emptiest(&self, op: &Op<'_>, percent_max: usize, wish: Wish<'_>) -> Option<Use> {
        self.segments().filed_up_to(percent_max, op, |sparse| self.may_be_compacted(sparse, wish))
    }

    /// Returns the segment that S3-FIFO evicts from next.
    pub(crate) fn victim(&self, wish: Wish<'_>) -> Option<Use> {
        let [small, main] =
            [Pool::Small, Pool::Main].map(|pool| self.segments().pool_segments(pool).load(Relaxed));
        let pools = match small.saturating_mul(SMALL_POOL_PART) > small.saturating_add(main) {
            true => [Pool::Small, Pool::Main],
            false => [Pool::Main, Pool::Small],
        };
        let oldest = |may_be_held: bool| {
            pools.into_iter().find_map(|pool| {
                self.segments().oldest(pool, |oldest| {
                    (may_be_held || !self.peers().is_held(oldest.segment))
                        && self.may_be_emptied(oldest, wish)
                })
            })
        };
        // A held segment has parts of values that are still arriving, which eviction would lose.
        oldest(false).or_else(|| oldest(true))
    }

    fn may_be_compacted(&self, present: Use, wish: Wish<'_>) -> bool {
        !self.peers().is_held(present.segment) && self.may_be_emptied(present, wish)
    }

    fn may_be_emptied(&self, present: Use, wish: Wish<'_>) -> bool {
        !self.peers().is_pinned(present.segment) && !wish.avoided.contains(&present)
    }

    /// True if a thread is moving the survivors of a segment, which frees memory soon.
    fn is_anybody_emptying(&self) -> bool {
        self.evictors().any(|evictor| evictor.load(Relaxed) != 0)
    }
}

const _: () = assert!(Pool::Small as usize == 0 && Pool::Main as usize == 1);

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests {
    use std::time::Instant;

    use larder_item::{Deadline, Second, StoreMode};

    use super::*;
    use crate::engine::Engine;
    use crate::error::StoreError;
    use crate::fixtures::{SMALL, two_peers};
    use crate::open::Config;
    use crate::ops::read::Read;
    use crate::ops::request::{StoreRequest, Stored};
    use crate::process::operation::Operation;
    use crate::segment::header::State;

    const NOW: Second = 10;
    const PATIENCE: Duration = Duration::from_secs(30);

    fn request(key: &[u8]) -> StoreRequest<'_> {
        StoreRequest { deadline: Deadline::NEVER, ..StoreRequest::new(key, StoreMode::Set) }
    }

    /// A store that waits for a stopped process takes a second; the machine may be busy.
    const SHORT: Duration = Duration::from_millis(700);

    /// Fills the cache of two peers with items that were read twice. Returns the peers, the first
    /// of which is about to be stopped, and the keys.
    fn full_of_hot_items() -> (Engine, Engine, Vec<Vec<u8>>) {
        let (stopped, engine) = two_peers();
        let thread = engine.register().unwrap();
        let keys: Vec<Vec<u8>> = (0..800).map(|key: u32| key.to_le_bytes().into()).collect();
        for key in &keys {
            engine.store(&Operation::new(&thread, NOW), &request(key), &[7; 1000]).unwrap();
        }
        for key in keys.iter().chain(&keys) {
            engine.read(&thread, key, NOW, &mut Vec::new(), |_, _| ());
        }
        engine.deregister(&thread);
        (stopped, engine, keys)
    }

    /// Stores new items until each segment was reused, and asserts that no store waits. Returns the
    /// number of items that were evicted although they had been read.
    fn slowest_of_many_stores(engine: &Engine, may_store: impl Fn(&[u8]) -> bool) -> u64 {
        let thread = engine.register().unwrap();
        for key in (10_000..12_000_u32).map(u32::to_le_bytes).filter(|key| may_store(key)) {
            let begun = Instant::now();
            engine.store(&Operation::new(&thread, NOW), &request(&key), &[8; 1000]).unwrap();
            let took = begun.elapsed();
            assert!(took < SHORT, "a store waits for the stopped process: {took:?}");
        }
        engine.counter(Counter::EvictedActive)
    }

    #[test]
    fn stores_do_not_wait_for_a_group_in_a_segment_that_they_would_empty() {
        let (stopped, engine, _) = full_of_hot_items();
        let holder = stopped.register().unwrap();
        // Takes a group with an item in the segment that is emptied next.
        let oldest = engine.reclaimer().victim(Wish::keeping(Keep::Needed)).unwrap();
        let hash = engine.reclaimer().records(oldest.segment).next().unwrap().hash;
        let locked = stopped.index().lock(&stopped.op(&holder, NOW), hash).unwrap();
        slowest_of_many_stores(&engine, |key| {
            engine.index().group_of(engine.index().hash(key)) != locked.group
        });
        drop(locked);
        engine.validate().unwrap();
    }

    #[test]
    fn stores_do_not_wait_for_a_stopped_evictor_and_keep_what_was_read() {
        let (stopped, engine, keys) = full_of_hot_items();
        let evictor = stopped.register().unwrap();
        let oldest = engine.reclaimer().victim(Wish::keeping(Keep::Needed)).unwrap();
        let place = engine.reclaimer().evictors().next().unwrap();
        place.store(evictor.owner(), Relaxed);
        assert!(stopped.segments().begin_emptying(&evictor, oldest));
        // It also claims an appender for survivors.
        let main = stopped.segments().stream(oldest.segment).in_pool(Pool::Main);
        let op = stopped.op(&evictor, NOW);
        let mut survivors = None;
        let segments = stopped.segments();
        assert!(segments.try_reserve_for_survivor(&op, &mut survivors, main, 8).unwrap());
        slowest_of_many_stores(&engine, |_| true);
        let kept =
            keys.iter().filter(|key| engine.index().find(engine.index().hash(key), key).is_some());
        assert!(kept.count() > keys.len() / 4, "items that were read were dropped for it");
        drop(survivors);
        place.store(0, Relaxed);
        stopped.segments().seal(oldest.segment);
        engine.validate().unwrap();
    }

    #[test]
    fn a_store_fails_if_a_stopped_process_holds_all_appenders() {
        let (stopped, engine) = two_peers();
        let thread = engine.register().unwrap();
        let holders = [stopped.register().unwrap(), stopped.register().unwrap()];
        assert_eq!(engine.region().layout().stripes, holders.len());
        let stream = engine.segments().stream_of(Pool::Small, Deadline::NEVER, NOW);
        let held = holders.each_ref().map(|holder| {
            stopped.segments().reserve(&stopped.op(holder, NOW), stream, 8, 8).unwrap()
        });
        let used = engine.segments().segments_in_use();
        let stored = engine.store(&Operation::new(&thread, NOW), &request(b"k"), b"v");
        assert!(matches!(stored, Err(StoreError::Stuck(_))), "{stored:?}");
        assert_eq!(engine.segments().segments_in_use(), used);
        drop(held);
        engine.validate().unwrap();
    }

    /// Regression test: the unwritten ends of segments counted as reclaimed. When appenders held
    /// all memory, writers sealed their segments, compacted them into others, found no more free
    /// memory than before, and did this forever.
    #[test]
    fn a_store_succeeds_where_partly_filled_segments_of_appenders_are_all_memory() {
        let config = Config { memory_bytes: 16 << 20, memory_bytes_max: 16 << 20, ..SMALL };
        let engine = Engine::create(&config).unwrap();
        let (thread, other) = (engine.register().unwrap(), engine.register().unwrap());
        for deadline in [Deadline(NOW + 60), Deadline(5_000), Deadline(90_000), Deadline::NEVER] {
            for number in 0..40_u32 {
                let key = [deadline.0.to_le_bytes(), number.to_le_bytes()].concat();
                let request = StoreRequest { deadline, ..request(&key) };
                engine.store(&Operation::new(&thread, NOW), &request, &[7; 1000]).unwrap();
            }
        }
        let segments = engine.segments().segments_in_use() + engine.segments().spare_segments();
        engine.segments().limit_to(engine.region().layout().bytes_for(segments as usize));
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // This thread has its own appenders.
            let stored =
                engine.store(&Operation::new(&other, NOW), &request(b"one more"), &[8; 1000]);
            engine.validate().unwrap();
            sender.send(stored).unwrap();
        });
        let stored = receiver.recv_timeout(PATIENCE).expect("the store moves records for ever");
        assert!(matches!(stored, Ok(Stored::Stored { .. })), "{stored:?}");
    }

    #[test]
    fn a_large_value_is_readable_while_a_stopped_process_empties_its_segment() {
        let (stopped, engine) = two_peers();
        let (emptier, thread) = (stopped.register().unwrap(), engine.register().unwrap());
        engine.store(&Operation::new(&thread, NOW), &request(b"large"), &[7; 100_000]).unwrap();
        engine.segments().detach_idle(&thread);
        let segments = engine.segments().used_segment_numbers();
        for segment in segments.filter(|segment| engine.segments().state(*segment) == State::Sealed)
        {
            assert!(
                stopped
                    .segments()
                    .begin_emptying(&emptier, stopped.segments().present_use(segment))
            );
        }
        let (begun, mut value) = (Instant::now(), Vec::new());
        let read = engine.read(&thread, b"large", NOW, &mut Vec::new(), |_, _| ());
        let Read::Large(_, mut large) = read else {
            panic!("{read:?} after {:?}", begun.elapsed());
        };
        while engine.read_piece(&mut large, &mut value).unwrap() {}
        engine.close_large(&mut large);
        assert_eq!(value, [7; 100_000]);
    }
}
