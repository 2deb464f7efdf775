//! The choice of the segment to reuse.
//!
//! The order: a free segment that was used before; a reclaimable one; one that is almost dead,
//! whose survivors are moved; a fresh one. When memory is full: the emptiest one, if enough of it
//! is dead; then, if eviction is allowed, the victim of S3-FIFO.

use larder_item::Second;
use larder_stats::Counter;

use crate::error::StoreError;
use crate::process::op::Op;
use crate::process::wait::Wait;
use crate::reclaim::Reclaimer;
use crate::reclaim::empty::Emptied;
use crate::reclaim::evict::{Effort, Keep};
use crate::segment::header::{State, Use};
use crate::segment::stream::Pool;

/// The live percentage up to which a segment is compacted before fresh memory is used. Records then
/// stay together in warm memory, and the process grows with its content rather than with what was
/// written. At most one byte is copied for three reclaimed; docs/decisions/0004 has the
/// measurement.
const SPARSE_LIVE_PERCENT_MAX: usize = 25;

/// Up to this fraction of its memory a cache takes fresh segments without moving records: replaced
/// ones soon hold nothing live and cost nothing to reclaim.
const SMALL_PART: u64 = 32;

/// The live percentage below which a segment is compacted before an item is evicted.
const COMPACTED_LIVE_PERCENT_MAX: usize = 80;

/// The same without eviction: compaction pays if it reclaims a little.
const UNEVICTED_LIVE_PERCENT_MAX: usize = 94;

/// The number of fruitless attempts to evict, with a yield after each, before a thread gives up.
const FRUITLESS_MAX: u32 = 1000;

/// The number of waits for resources of a stopped process, a second or two each, before a thread
/// that makes room gives up.
const STUCK_MAX: usize = 1;

/// The small pool is evicted from while it has more than one of this many segments.
const SMALL_POOL_PART: u64 = 10;

/// Only a table of very many pieces is longer than this fraction of a segment.
const RECORD_PART: usize = 8;

/// The live bytes of a segment that must not be emptied.
const FULL: u64 = u64::MAX;

/// The candidates for reuse.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Survey {
    /// A reclaimable segment.
    pub(crate) reclaimable: Option<Use>,
    /// The segment that moving would reclaim most of, and the bytes that would remain.
    emptiest: Option<(u64, Use)>,
    /// The oldest segment of each pool.
    oldest: [Option<Use>; 2],
    /// The oldest segment that is held. It has parts of values that are still arriving and that
    /// eviction loses.
    oldest_held: Option<Use>,
    /// The number of segments of each pool.
    segments: [u64; 2],
}

impl Survey {
    fn emptiest_up_to(&self, live_bytes_max: usize) -> Option<Use> {
        self.emptiest
            .filter(|(live, _)| *live <= live_bytes_max as u64)
            .map(|(_, emptiest)| emptiest)
    }

    /// Returns all segments that may be emptied next.
    fn candidates(&self) -> impl Iterator<Item = Use> {
        let emptiest = self.emptiest.map(|(_, emptiest)| emptiest);
        [self.reclaimable, emptiest, self.victim()].into_iter().flatten()
    }

    /// Returns the segment that S3-FIFO evicts from next.
    pub(crate) fn victim(&self) -> Option<Use> {
        let [small, main] = self.segments;
        let [oldest_small, oldest_main] = self.oldest;
        let is_small_due = small * SMALL_POOL_PART > small + main;
        let due =
            if is_small_due { oldest_small.or(oldest_main) } else { oldest_main.or(oldest_small) };
        due.or(self.oldest_held)
    }
}

impl Reclaimer {
    /// Takes a segment for new use: a free one, or the one that costs the cache least. The caller
    /// holds neither group nor appender.
    pub(crate) fn take_segment(&self, op: &Op<'_>) -> Result<u32, StoreError> {
        let mut wait = Wait::default();
        let (mut effort, mut fruitless, mut stuck) = (Effort::default(), 0, 0);
        let mut avoided = Vec::new();
        loop {
            if let Some(segment) = self.segments().take_free_segment(op.thread) {
                return Ok(segment);
            }
            let survey = self.survey_without(&avoided, op.now);
            let keep = effort.keep();
            let is_small =
                self.segments().used_segments() <= self.segments().segments_max() / SMALL_PART;
            let sparse = survey.emptiest_up_to(self.percent(SPARSE_LIVE_PERCENT_MAX));
            let sparse = sparse.filter(|_| !is_small && keep == Keep::Needed);
            let emptied = match (survey.reclaimable, sparse) {
                (Some(reclaimable), _) if keep == Keep::Nothing && self.segments().evicts() => {
                    self.evict(op, reclaimable, keep).map_err(StoreError::from)
                }
                (Some(reclaimable), _) => self.reclaim(op, reclaimable),
                (None, Some(sparse)) => self.compact(op, sparse),
                (None, None) => {
                    if let Some(segment) =
                        self.segments().take_fresh(op.thread, self.segments().spare_segments())
                    {
                        return Ok(segment);
                    }
                    match self.make_room(op, &survey, keep) {
                        // Other threads' appenders may hold all segments, or sealed them after the
                        // survey.
                        Err(StoreError::NoMemory)
                            if self.segments().evicts() && fruitless < FRUITLESS_MAX =>
                        {
                            fruitless += 1;
                            Ok(Emptied::Busy)
                        }
                        done => {
                            self.peers().bump(op.thread, Counter::DirectReclaims, 1);
                            done
                        }
                    }
                }
            };
            // A wait for another thread is no round: it must not make eviction less strict.
            match emptied {
                // A stopped process may hold the place for survivors; this thread goes on without
                // it.
                Ok(Emptied::Busy) => match self.wait_for_peers(&mut wait) {
                    Err(_) if self.segments().evicts() && keep != Keep::Nothing => {
                        effort.keep_nothing();
                        wait = Wait::default();
                    }
                    waited => waited?,
                },
                Ok(emptied @ (Emptied::Yes(_) | Emptied::Partly)) => {
                    effort.count_round(emptied.reclaimed_bytes(), self.region().segment_bytes());
                }
                // The stopped process holds the group of a record there, or the appender for
                // survivors: go on without either.
                Err(StoreError::Stuck(_)) if self.segments().evicts() && stuck < STUCK_MAX => {
                    avoided.extend(survey.candidates());
                    stuck += 1;
                    effort.keep_nothing();
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes one step towards room in a full memory.
    pub(crate) fn make_room(
        &self,
        op: &Op<'_>,
        survey: &Survey,
        keep: Keep,
    ) -> Result<Emptied, StoreError> {
        self.sweep_next(op);
        let live_percent_max = if self.segments().evicts() {
            COMPACTED_LIVE_PERCENT_MAX
        } else {
            UNEVICTED_LIVE_PERCENT_MAX
        };
        let sparse = survey.emptiest_up_to(self.percent(live_percent_max));
        if let Some(sparse) = sparse.filter(|_| !self.segments().evicts() || keep == Keep::Needed) {
            return self.compact(op, sparse);
        }
        let victim = match self.segments().evicts() {
            true => survey.victim(),
            // Rather than fail, empties one whose arriving values have to be sent again.
            false => self.abandoned(),
        };
        match victim {
            Some(victim) if self.segments().evicts() => Ok(self.evict(op, victim, keep)?),
            Some(victim) => self.compact(op, victim),
            None if self.is_anybody_emptying() => Ok(Emptied::Busy),
            // The sealed segments can be emptied then.
            None if self.segments().detach_idle(op.thread) => Ok(Emptied::Partly),
            // Its holder releases it soon, but may lack a processor now.
            None if self.segments().evicts() && self.segments().is_any_appender_claimed() => {
                Ok(Emptied::Busy)
            }
            None => Err(StoreError::NoMemory),
        }
    }

    fn percent(&self, percent: usize) -> usize {
        self.region().segment_bytes() / 100 * percent
    }

    /// Surveys all sealed segments, up to the first reclaimable one.
    pub(crate) fn survey(&self, now: Second) -> Survey {
        self.survey_without(&[], now)
    }

    /// As [`Self::survey`], without some segments.
    fn survey_without(&self, avoided: &[Use], now: Second) -> Survey {
        let mut survey = Survey::default();
        for segment in self.segments().used_segment_numbers() {
            // First: the use may end meanwhile, and then the rest of the survey's view belongs to
            // the next use, which the empty attempt notices.
            let present = self.segments().present_use(segment);
            let state = self.segments().state(segment);
            if !matches!(state, State::Active | State::Sealed) {
                continue;
            }
            let pool = self.segments().stream(segment).pool;
            survey.segments[pool as usize] += 1;
            if state == State::Active
                || self.peers().is_pinned(segment)
                || avoided.contains(&present)
            {
                continue;
            }
            if self.segments().is_reclaimable(segment, now) {
                survey.reclaimable = Some(present);
                break;
            }
            let (oldest, taken) = match self.peers().is_held(segment) {
                true => (&mut survey.oldest_held, FULL),
                false => (&mut survey.oldest[pool as usize], self.taken(segment) as u64),
            };
            *oldest = Some(oldest.map_or(present, |oldest| oldest.min(present)));
            let taken = (taken, present);
            survey.emptiest = Some(survey.emptiest.map_or(taken, |least| least.min(taken)));
        }
        survey
    }

    /// Returns the bytes of a sealed segment that moving does not reclaim: the live ones, and an
    /// end that was too short for the next record. It would be too short in another segment, too;
    /// counting on it could move records of equal length forever.
    fn taken(&self, segment: u32) -> usize {
        let segment_bytes = self.region().segment_bytes();
        let end = segment_bytes - self.segments().filled(segment).min(segment_bytes);
        self.segments().live(segment) + if end < segment_bytes / RECORD_PART { end } else { 0 }
    }

    /// Returns the segment with the fewest live bytes among those with arriving pieces.
    fn abandoned(&self) -> Option<Use> {
        let live_max = self.percent(UNEVICTED_LIVE_PERCENT_MAX);
        self.segments()
            .segment_numbers()
            .map(|segment| self.segments().present_use(segment))
            .filter(|Use { segment, .. }| self.segments().state(*segment) == State::Sealed)
            .filter(|Use { segment, .. }| {
                self.peers().is_held(*segment) && !self.peers().is_pinned(*segment)
            })
            .min_by_key(|Use { segment, .. }| self.segments().live(*segment))
            .filter(|Use { segment, .. }| self.segments().live(*segment) <= live_max)
    }

    fn is_anybody_emptying(&self) -> bool {
        self.segments()
            .segment_numbers()
            .any(|segment| self.segments().state(segment) == State::Emptying)
    }
}

const _: () = assert!(Pool::Small as usize == 0 && Pool::Main as usize == 1);

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests {
    use std::time::{Duration, Instant};

    use larder_item::{Deadline, StoreMode};

    use super::*;
    use crate::engine::Engine;
    use crate::error::StoreError;
    use crate::fixtures::{SMALL, two_peers};
    use crate::open::Config;
    use crate::ops::read::Read;
    use crate::ops::request::{StoreRequest, Stored};

    const NOW: Second = 10;
    const PATIENCE: Duration = Duration::from_secs(30);

    fn request(key: &[u8]) -> StoreRequest<'_> {
        StoreRequest { deadline: Deadline::NEVER, ..StoreRequest::new(key, StoreMode::Set) }
    }

    #[test]
    fn eviction_avoids_a_group_that_a_stopped_process_holds() {
        let (stopped, engine) = two_peers();
        let (holder, thread) = (stopped.register().unwrap(), engine.register().unwrap());
        let keys: Vec<Vec<u8>> = (0..2000).map(|key: u32| key.to_le_bytes().into()).collect();
        for key in &keys {
            engine.store(&thread, &request(key), &[7; 1000], NOW).unwrap();
        }
        // A group with an item in the segment that is emptied next.
        let oldest = engine.reclaimer().survey(NOW).victim().unwrap();
        let hash = engine.reclaimer().records(oldest.segment).next().unwrap().hash;
        let locked = stopped.index().lock(&stopped.op(&holder, NOW), hash).unwrap();
        let begun = Instant::now();
        for key in keys
            .iter()
            .filter(|key| engine.index().group_of(engine.index().hash(key)) != locked.group)
        {
            let stored = engine.store(&thread, &request(key), &[8; 1000], NOW);
            assert!(matches!(stored, Ok(_) | Err(StoreError::Stuck(_))), "{stored:?}");
            assert!(begun.elapsed() < PATIENCE, "it waits for ever");
            if engine.segments().present_use(oldest.segment) != oldest
                || begun.elapsed() > PATIENCE / 3
            {
                break;
            }
        }
        drop(locked);
        engine.store(&thread, &request(&keys[0]), &[9; 1000], NOW).unwrap();
        engine.validate().unwrap();
    }

    #[test]
    fn a_store_fails_if_a_stopped_process_holds_all_appenders() {
        let (stopped, engine) = two_peers();
        let (holder, thread) = (stopped.register().unwrap(), engine.register().unwrap());
        let stream = engine.segments().stream_of(Pool::Small, Deadline::NEVER, NOW);
        let held = stopped.segments().reserve(&stopped.op(&holder, NOW), stream, 8, 8).unwrap();
        let used = engine.segments().segments_in_use();
        let stored = engine.store(&thread, &request(b"k"), b"v", NOW);
        assert!(matches!(stored, Err(StoreError::Stuck(_))), "{stored:?}");
        assert_eq!(engine.segments().segments_in_use(), used);
        drop(held);
        engine.validate().unwrap();
    }

    /// Regression test: the unwritten ends of segments counted as reclaimed. Where appenders held
    /// all memory, writers sealed their segments, compacted them into others, and found no more
    /// free memory than before, for ever.
    #[test]
    fn a_store_succeeds_where_partly_filled_segments_of_appenders_are_all_memory() {
        let config = Config { memory_bytes: 16 << 20, memory_bytes_max: 16 << 20, ..SMALL };
        let engine = Engine::create(&config).unwrap();
        let (thread, other) = (engine.register().unwrap(), engine.register().unwrap());
        for deadline in [Deadline(NOW + 60), Deadline(5_000), Deadline(90_000), Deadline::NEVER] {
            for number in 0..40_u32 {
                let key = [deadline.0.to_le_bytes(), number.to_le_bytes()].concat();
                let request = StoreRequest { deadline, ..request(&key) };
                engine.store(&thread, &request, &[7; 1000], NOW).unwrap();
            }
        }
        let segments = engine.segments().segments_in_use() + engine.segments().spare_segments();
        engine.segments().limit_to(engine.region().layout().bytes_for(segments as usize));
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // With appenders of its own.
            let stored = engine.store(&other, &request(b"one more"), &[8; 1000], NOW);
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
        engine.store(&thread, &request(b"large"), &[7; 100_000], NOW).unwrap();
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
