//! The memory limit of a live cache: how many of its segments may be in use.

use std::sync::atomic::Ordering::Relaxed;

use larder_item::Second;
use larder_region::layout::global;

use crate::reclaim::evict::{Emptied, Keep};
use crate::segment::header::State;
use crate::{Engine, ThreadSlot};

/// Segments that items need at least: those of the appenders, and something to empty.
const ITEM_SEGMENTS_MIN: usize = 8;

/// How many segments are freed, or looked at, in a slice of the work that a lower limit asks for.
const SLICE_SEGMENTS: usize = 8;

/// A memory limit that the cache cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the memory limit must be {min} to {max} bytes, found {asked}; the upper one is what the cache was opened for"
)]
pub struct LimitError {
    /// What was asked for.
    pub asked: usize,
    /// The least possible.
    pub min: usize,
    /// The most the cache was opened for.
    pub max: usize,
}

impl Engine {
    /// Changes how much memory the cache may use, up to what it was created for. More can be used at once.
    /// Less than is in use takes effect with the next calls of [`Engine::shrink`] and [`Engine::maintain`], and without
    /// [`Engine::call_when_short`] with the next stores: what is wanted least is evicted and its memory goes back to the
    /// system.
    ///
    /// # Errors
    /// [`LimitError`] names the bounds.
    pub fn set_memory_limit(&self, thread: &ThreadSlot, bytes: usize) -> Result<(), LimitError> {
        let is_index = |state| matches!(state, State::Index | State::Overflow | State::Ghost);
        let used = self.used_segments() as usize;
        let index =
            self.segments().take(used).filter(|segment| is_index(self.state(*segment))).count();
        let min = self.layout.bytes_for(index + ITEM_SEGMENTS_MIN);
        let max = self.layout.region_bytes;
        if bytes < min || bytes > max {
            return Err(LimitError { asked: bytes, min, max });
        }
        self.change_limit(thread, bytes);
        Ok(())
    }

    /// A higher limit holds at once. A lower one is approached by [`Engine::shrink`] where a thread does that; else the
    /// next writers evict down to it. The memory of segments that are free already goes back to the system.
    fn change_limit(&self, thread: &ThreadSlot, bytes: usize) {
        let lowers = bytes < self.memory_limit();
        match self.wake.get() {
            Some(wake) if lowers => {
                self.memory.word(global::MEMORY_LIMIT).store(bytes as u64, Relaxed);
                if !self.evicts {
                    // Nothing makes room for stores that come: they are refused from now on.
                    self.limit_to(bytes);
                }
                self.release_next.store(0, Relaxed);
                wake.call();
            }
            None if lowers => {
                self.release_next.store(0, Relaxed);
                while self.release_free_segments(thread) {}
                self.limit_to(bytes);
            }
            _ => self.limit_to(bytes),
        }
    }

    /// Does a slice of the work that a lowered limit asks for: gives memory of free segments back, then frees some, and
    /// lowers the number of segments that may be in use to what is in use and a few. So writers find free segments all
    /// the time. True if there is more to do now.
    pub fn shrink(&self, thread: &ThreadSlot, now: Second) -> bool {
        if self.release_free_segments(thread) {
            return true;
        }
        if !self.evicts || !self.is_shrinking() {
            return false;
        }
        let (mut keep, before) = (Keep::BestHalf, self.segments_in_use());
        for _ in 0..SLICE_SEGMENTS {
            self.follow_limit();
            if !self.is_over_limit() {
                break;
            }
            let survey = self.survey(now);
            let freed = match survey.reclaimable {
                Some(reclaimable) => self.reclaim(thread, reclaimable, now),
                None => self.make_room(thread, &survey, keep, now),
            };
            keep = match freed {
                Ok(Emptied::Yes(_)) => Keep::BestHalf,
                Ok(Emptied::Partly) => Keep::Nothing,
                _ => break,
            };
        }
        self.follow_limit();
        if !self.is_shrinking() {
            // Segments that became free while writers took others still have their memory.
            self.release_next.store(0, Relaxed);
            return true;
        }
        self.segments_in_use() < before
    }

    /// Lowers the number of segments that may be in use towards the limit.
    fn follow_limit(&self) {
        let max = self.segments_max();
        let reached = self.segments_in_use() + self.free_segments_low();
        let next = self.segments_target().max(max.min(reached));
        // Where the limit is just changed, that holds.
        let word = self.memory.word(global::SEGMENTS_MAX);
        let _ = word.compare_exchange(max, next, Relaxed, Relaxed);
    }

    /// The number of segments that the limit allows.
    fn segments_target(&self) -> u64 {
        self.layout.segments_in(self.memory_limit()) as u64
    }

    /// True while more segments may be in use than the limit allows.
    fn is_shrinking(&self) -> bool {
        self.segments_max() > self.segments_target()
    }

    /// Gives the memory of some free segments back to the system. True if there may be more of them.
    fn release_free_segments(&self, thread: &ThreadSlot) -> bool {
        let used = self.used_segments();
        for _ in 0..SLICE_SEGMENTS {
            let segment = self.release_next.load(Relaxed);
            if segment >= used {
                return false;
            }
            self.release_next.store(segment + 1, Relaxed);
            self.release_if_free(thread, segment as u32);
        }
        true
    }

    pub(crate) fn limit_to(&self, bytes: usize) {
        let segments = self.layout.segments_in(bytes) as u64;
        self.memory.word(global::SEGMENTS_MAX).store(segments, Relaxed);
        self.memory.word(global::MEMORY_LIMIT).store(bytes as u64, Relaxed);
    }

    /// How much memory the cache may use.
    pub fn memory_limit(&self) -> usize {
        self.memory.word(global::MEMORY_LIMIT).load(Relaxed) as usize
    }

    /// How many segments may be in use.
    pub(crate) fn segments_max(&self) -> u64 {
        self.memory.word(global::SEGMENTS_MAX).load(Relaxed)
    }

    /// Must segments be given back?
    pub(crate) fn is_over_limit(&self) -> bool {
        self.segments_in_use() > self.segments_target()
    }
}
