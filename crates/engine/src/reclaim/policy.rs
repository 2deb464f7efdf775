//! Making room: which segment is put to new use.
//!
//! In this order: a free segment that was used before; one in which nothing matters any more; one that is
//! almost dead, whose survivors are moved; one that was never used. When memory is full: the emptiest one, if
//! enough of it is dead; then, where eviction is allowed, the one that S3-FIFO says.

use larder_item::Second;
use larder_stats::Counter;

use crate::process::wait::Wait;
use crate::reclaim::evict::{Effort, Emptied, Keep};
use crate::segment::header::{State, Use};
use crate::segment::stream::Pool;
use crate::{Engine, StoreError, ThreadSlot};

/// With no more than this part alive a segment is compacted before memory is used that never was: what is
/// stored stays together in memory that is warm, and the process grows with what is stored, not with what
/// has been written. At most a byte is copied for three that are won; docs/decisions/0004 has the
/// measurement.
const SPARSE_LIVE_PERCENT_MAX: usize = 25;

/// Up to this part of its memory a cache takes fresh segments without moving anything: overwritten ones soon
/// have nothing live, and cost nothing to take back.
const SMALL_PART: u64 = 32;

/// With less than this part alive a segment is compacted before anything is evicted.
const COMPACTED_LIVE_PERCENT_MAX: usize = 80;

/// Where eviction is not allowed a segment is worth compacting if a little of it is won.
const UNEVICTED_LIVE_PERCENT_MAX: usize = 94;

/// So often a thread looks for something to evict, and lets others run, before it gives up.
const FRUITLESS_MAX: u32 = 1000;

/// So often a thread that looks for room comes upon what a stopped process holds, each time for a second or two, before
/// it gives up.
const STUCK_MAX: usize = 1;

/// The small pool is evicted from while it has more than one of so many segments.
const SMALL_POOL_PART: u64 = 10;

/// No record but a table of very many pieces is longer than this part of a segment.
const RECORD_PART: usize = 8;

/// The live bytes of a segment that is not to be emptied.
const FULL: u64 = u64::MAX;

/// What is there to win.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Survey {
    /// Nothing in it matters any more.
    pub(crate) reclaimable: Option<Use>,
    /// The least bytes that are not won by moving what lives, and whose they are.
    emptiest: Option<(u64, Use)>,
    /// The oldest of each pool.
    oldest: [Option<Use>; 2],
    /// The same among segments that are held: with parts of values that are still arriving, which are lost
    /// when they are evicted.
    oldest_held: Option<Use>,
    /// How many segments each pool has.
    segments: [u64; 2],
}

impl Survey {
    fn emptiest_up_to(&self, live_bytes_max: usize) -> Option<Use> {
        self.emptiest
            .filter(|(live, _)| *live <= live_bytes_max as u64)
            .map(|(_, emptiest)| emptiest)
    }

    /// All that might be emptied next.
    fn candidates(&self) -> impl Iterator<Item = Use> {
        let emptiest = self.emptiest.map(|(_, emptiest)| emptiest);
        [self.reclaimable, emptiest, self.victim()].into_iter().flatten()
    }

    /// The segment that S3-FIFO evicts from next.
    pub(crate) fn victim(&self) -> Option<Use> {
        let [small, main] = self.segments;
        let [oldest_small, oldest_main] = self.oldest;
        let is_small_due = small * SMALL_POOL_PART > small + main;
        let due =
            if is_small_due { oldest_small.or(oldest_main) } else { oldest_main.or(oldest_small) };
        due.or(self.oldest_held)
    }
}

impl Engine {
    /// How many free segments only survivors may take, and so how many threads may evict at the same time.
    pub(crate) fn spare_segments(&self) -> u64 {
        const SEGMENTS_PER_SPARE: u64 = 512;
        const SPARE_MAX: u64 = larder_region::layout::global::EVICTORS_MAX as u64;
        (self.segments_max() / SEGMENTS_PER_SPARE).clamp(1, SPARE_MAX)
    }

    /// Takes a free segment that was used before, where there are more than survivors may need: they would touch
    /// fresh memory in its place.
    pub(crate) fn take_free_segment(&self, thread: &ThreadSlot) -> Option<u32> {
        let spare = self.spare_segments();
        let used_before = self.used_segments().saturating_sub(self.segments_in_use());
        (used_before > spare).then(|| self.take_used(thread, spare)).flatten()
    }

    /// Takes a segment for new use: a free one, or the one that costs the cache least. The caller holds
    /// neither group nor appender.
    pub(crate) fn take_segment(&self, thread: &ThreadSlot, now: Second) -> Result<u32, StoreError> {
        let mut wait = Wait::default();
        let (mut effort, mut fruitless, mut stuck) = (Effort::default(), 0, 0);
        let mut avoided = Vec::new();
        loop {
            if let Some(segment) = self.take_free_segment(thread) {
                return Ok(segment);
            }
            let survey = self.survey_without(&avoided, now);
            let keep = effort.keep();
            let is_small = self.used_segments() <= self.segments_max() / SMALL_PART;
            let sparse = survey.emptiest_up_to(self.percent(SPARSE_LIVE_PERCENT_MAX));
            let sparse = sparse.filter(|_| !is_small && keep == Keep::Needed);
            let emptied = match (survey.reclaimable, sparse) {
                (Some(reclaimable), _) if keep == Keep::Nothing && self.evicts => {
                    self.evict(thread, reclaimable, keep, now).map_err(StoreError::from)
                }
                (Some(reclaimable), _) => self.reclaim(thread, reclaimable, now),
                (None, Some(sparse)) => self.compact(thread, sparse, now),
                (None, None) => {
                    if let Some(segment) = self.take_fresh(thread, self.spare_segments()) {
                        return Ok(segment);
                    }
                    match self.make_room(thread, &survey, keep, now) {
                        // All there is may be in the appenders of others, or was sealed since the survey.
                        Err(StoreError::NoMemory) if self.evicts && fruitless < FRUITLESS_MAX => {
                            fruitless += 1;
                            Ok(Emptied::Busy)
                        }
                        done => {
                            self.bump(thread, Counter::DirectReclaims, 1);
                            done
                        }
                    }
                }
            };
            // Waiting for somebody else is no round: nobody shall be the less choosy for it.
            match emptied {
                // Whoever has been stopped with the place for survivors is not waited for.
                Ok(Emptied::Busy) => match self.wait_for_peers(&mut wait) {
                    Err(_) if self.evicts && keep != Keep::Nothing => {
                        effort.keep_nothing();
                        wait = Wait::default();
                    }
                    waited => waited?,
                },
                Ok(emptied @ (Emptied::Yes(_) | Emptied::Partly)) => {
                    effort.count_round(emptied.reclaimed_bytes(), self.layout.segment_bytes);
                }
                // It holds the group of a record there, or the appender for survivors: on without either.
                Err(StoreError::Stuck(_)) if self.evicts && stuck < STUCK_MAX => {
                    avoided.extend(survey.candidates());
                    stuck += 1;
                    effort.keep_nothing();
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Does one thing for room in a full memory.
    pub(crate) fn make_room(
        &self,
        thread: &ThreadSlot,
        survey: &Survey,
        keep: Keep,
        now: Second,
    ) -> Result<Emptied, StoreError> {
        self.sweep_next(thread, now);
        let live_percent_max =
            if self.evicts { COMPACTED_LIVE_PERCENT_MAX } else { UNEVICTED_LIVE_PERCENT_MAX };
        let sparse = survey.emptiest_up_to(self.percent(live_percent_max));
        if let Some(sparse) = sparse.filter(|_| !self.evicts || keep == Keep::Needed) {
            return self.compact(thread, sparse, now);
        }
        let victim = match self.evicts {
            true => survey.victim(),
            // Rather than none, one whose arriving values will have to be sent again.
            false => self.abandoned(),
        };
        match victim {
            Some(victim) if self.evicts => Ok(self.evict(thread, victim, keep, now)?),
            Some(victim) => self.compact(thread, victim, now),
            None if self.is_anybody_emptying() => Ok(Emptied::Busy),
            // Their segments can be emptied then.
            None if self.detach_idle(thread) => Ok(Emptied::Partly),
            None => Err(StoreError::NoMemory),
        }
    }

    fn percent(&self, percent: usize) -> usize {
        self.layout.segment_bytes / 100 * percent
    }

    /// Looks at all sealed segments, or at those before the first reclaimable one.
    pub(crate) fn survey(&self, now: Second) -> Survey {
        self.survey_without(&[], now)
    }

    /// The same without some segments.
    fn survey_without(&self, avoided: &[Use], now: Second) -> Survey {
        let mut survey = Survey::default();
        for segment in self.segments().take(self.used_segments() as usize) {
            // First: what is seen of its next use says nothing of this one, which cannot be emptied any more.
            let present = self.present_use(segment);
            let state = self.state(segment);
            if !matches!(state, State::Active | State::Sealed) {
                continue;
            }
            let pool = self.stream(segment).pool;
            survey.segments[pool as usize] += 1;
            if state == State::Active || self.is_pinned(segment) || avoided.contains(&present) {
                continue;
            }
            if self.is_reclaimable(segment, now) {
                survey.reclaimable = Some(present);
                break;
            }
            let (oldest, taken) = match self.is_held(segment) {
                true => (&mut survey.oldest_held, FULL),
                false => (&mut survey.oldest[pool as usize], self.taken(segment) as u64),
            };
            *oldest = Some(oldest.map_or(present, |oldest| oldest.min(present)));
            let taken = (taken, present);
            survey.emptiest = Some(survey.emptiest.map_or(taken, |least| least.min(taken)));
        }
        survey
    }

    /// The bytes of a sealed segment that are not won by moving what lives: that, and an end that was too short
    /// for the next record. It would be too short for another one elsewhere; who counted on it could move
    /// records of the same length for ever.
    fn taken(&self, segment: u32) -> usize {
        let segment_bytes = self.layout.segment_bytes;
        let end = segment_bytes - self.filled(segment).min(segment_bytes);
        self.live(segment) + if end < segment_bytes / RECORD_PART { end } else { 0 }
    }

    /// The segment with the least live bytes among those with pieces of values that are still arriving.
    fn abandoned(&self) -> Option<Use> {
        let live_max = self.percent(UNEVICTED_LIVE_PERCENT_MAX);
        self.segments()
            .map(|segment| self.present_use(segment))
            .filter(|Use { segment, .. }| self.state(*segment) == State::Sealed)
            .filter(|Use { segment, .. }| self.is_held(*segment) && !self.is_pinned(*segment))
            .min_by_key(|Use { segment, .. }| self.live(*segment))
            .filter(|Use { segment, .. }| self.live(*segment) <= live_max)
    }

    fn is_anybody_emptying(&self) -> bool {
        self.segments().any(|segment| self.state(segment) == State::Emptying)
    }
}

const _: () = assert!(Pool::Small as usize == 0 && Pool::Main as usize == 1);

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests {
    use std::time::{Duration, Instant};

    use larder_item::{Deadline, StoreMode};

    use crate::process::peers::two_peers;
    use crate::{Read, StoreError, StoreRequest};

    use super::*;

    const NOW: Second = 10;
    const PATIENCE: Duration = Duration::from_secs(30);

    fn request(key: &[u8]) -> StoreRequest<'_> {
        StoreRequest { deadline: Deadline::NEVER, ..StoreRequest::new(key, StoreMode::Set) }
    }

    #[test]
    fn who_needs_room_goes_round_a_group_that_a_stopped_process_holds() {
        let (stopped, engine) = two_peers();
        let (holder, thread) = (stopped.register().unwrap(), engine.register().unwrap());
        let keys: Vec<Vec<u8>> = (0..2000).map(|key: u32| key.to_le_bytes().into()).collect();
        for key in &keys {
            engine.store(&thread, &request(key), &[7; 1000], NOW).unwrap();
        }
        // A group of which the segment that is emptied next has an item.
        let oldest = engine.survey(NOW).victim().unwrap();
        let hash = engine.records(oldest.segment).next().unwrap().hash;
        let locked = stopped.lock(&holder, hash).unwrap();
        let begun = Instant::now();
        for key in keys.iter().filter(|key| engine.group_of(engine.hash(key)) != locked.group) {
            let stored = engine.store(&thread, &request(key), &[8; 1000], NOW);
            assert!(matches!(stored, Ok(_) | Err(StoreError::Stuck(_))), "{stored:?}");
            assert!(begun.elapsed() < PATIENCE, "it waits for ever");
            if engine.present_use(oldest.segment) != oldest || begun.elapsed() > PATIENCE / 3 {
                break;
            }
        }
        drop(locked);
        engine.store(&thread, &request(&keys[0]), &[9; 1000], NOW).unwrap();
        engine.validate().unwrap();
    }

    #[test]
    fn who_finds_all_appenders_held_by_a_stopped_process_is_told_so() {
        let (stopped, engine) = two_peers();
        let (holder, thread) = (stopped.register().unwrap(), engine.register().unwrap());
        let stream = engine.stream_of(Pool::Small, Deadline::NEVER, NOW);
        let held = stopped.reserve(&holder, stream, 8, 8, NOW).unwrap();
        let used = engine.segments_in_use();
        let stored = engine.store(&thread, &request(b"k"), b"v", NOW);
        assert!(matches!(stored, Err(StoreError::Stuck(_))), "{stored:?}");
        assert_eq!(engine.segments_in_use(), used);
        drop(held);
        engine.validate().unwrap();
    }

    #[test]
    fn a_large_value_is_read_though_who_empties_its_segment_has_been_stopped() {
        let (stopped, engine) = two_peers();
        let (emptier, thread) = (stopped.register().unwrap(), engine.register().unwrap());
        engine.store(&thread, &request(b"large"), &[7; 100_000], NOW).unwrap();
        engine.detach_idle(&thread);
        let segments = engine.segments().take(engine.used_segments() as usize);
        for segment in segments.filter(|segment| engine.state(*segment) == State::Sealed) {
            assert!(stopped.begin_emptying(&emptier, stopped.present_use(segment)));
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
