//! The memory limit of a live cache: how many of its segments may be in use.

use std::sync::atomic::Ordering::Relaxed;

use crate::process::op::Op;
use crate::process::thread_slot::ThreadSlot;
use crate::reclaim::Reclaimer;
use crate::reclaim::empty::EmptyOutcome;
use crate::reclaim::evict::Keep;
use crate::segment::header::State;

/// The minimal number of segments for items: one for each appender, and one to empty.
const ITEM_SEGMENTS_MIN: usize = 8;

/// The number of segments that one call of `Engine::shrink` frees or checks.
const SLICE_SEGMENTS: usize = 8;

/// A memory limit that the cache cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the memory limit must be {min} to {max} bytes, found {asked}; a lower limit has no space for the index and the minimal number of segments, a higher one exceeds the addresses that were reserved when the cache was opened"
)]
pub struct LimitError {
    /// The requested bytes.
    pub asked: usize,
    /// The smallest possible limit.
    pub min: usize,
    /// The size of the address range that the cache reserved when it was opened.
    pub max: usize,
}

impl Reclaimer {
    /// See `Engine::set_memory_limit`.
    pub(crate) fn set_memory_limit(
        &self,
        thread: &ThreadSlot,
        bytes: usize,
    ) -> Result<(), LimitError> {
        let is_index = |state| matches!(state, State::Index | State::Overflow | State::Ghost);
        let index = self
            .segments()
            .used_segment_numbers()
            .filter(|segment| is_index(self.segments().state(*segment)))
            .count();
        let min = self.region().layout().bytes_for(index + ITEM_SEGMENTS_MIN);
        let max = self.region().layout().capacity_bytes;
        if bytes < min || bytes > max {
            return Err(LimitError { asked: bytes, min, max });
        }
        self.change_limit(thread, bytes);
        Ok(())
    }

    /// Applies a limit. A higher limit takes effect immediately. If a maintainer runs,
    /// [`Self::shrink`] approaches a lower limit step by step; otherwise the next writers evict
    /// until the limit is reached. The memory of free segments is returned to the system.
    fn change_limit(&self, thread: &ThreadSlot, bytes: usize) {
        let lowers = bytes < self.segments().memory_limit();
        match self.segments().wake() {
            Some(wake) if lowers => {
                self.segments().set_memory_limit(bytes);
                if !self.segments().evicts() {
                    // Without eviction, stores fail until clients delete items.
                    self.segments().limit_to(bytes);
                }
                self.release_next.store(0, Relaxed);
                wake.call();
            }
            None if lowers => {
                self.release_next.store(0, Relaxed);
                while self.release_free_segments(thread) {}
                self.segments().limit_to(bytes);
            }
            _ => self.segments().limit_to(bytes),
        }
    }

    /// See `Engine::shrink`.
    pub(crate) fn shrink(&self, op: &Op<'_>) -> bool {
        if self.release_free_segments(op.thread) {
            return true;
        }
        if !self.segments().evicts() || !self.is_shrinking() {
            return false;
        }
        let (mut keep, before) = (Keep::BestHalf, self.segments().segments_in_use());
        for _ in 0..SLICE_SEGMENTS {
            self.follow_limit();
            if !self.segments().is_over_limit() {
                break;
            }
            keep = match self.make_any_room(op, keep) {
                Ok(EmptyOutcome::Yes(_)) => Keep::BestHalf,
                Ok(EmptyOutcome::Partly) => Keep::Nothing,
                _ => break,
            };
        }
        self.follow_limit();
        if !self.is_shrinking() {
            // Segments that were freed while writers took others still have their memory.
            self.release_next.store(0, Relaxed);
            return true;
        }
        self.segments().segments_in_use() < before
    }

    /// Lowers the number of usable segments towards the limit.
    fn follow_limit(&self) {
        let max = self.segments().segments_max();
        let reached = self.segments().segments_in_use() + self.segments().free_segments_low();
        let next = self.segments().segments_target().max(max.min(reached));
        // If another thread changes the limit at the same time, the other thread's value stays.
        self.segments().replace_segments_max(max, next);
    }

    /// True while more segments are usable than the limit allows.
    fn is_shrinking(&self) -> bool {
        self.segments().segments_max() > self.segments().segments_target()
    }

    /// Returns the memory of some free segments to the system. Returns true if more may follow.
    fn release_free_segments(&self, thread: &ThreadSlot) -> bool {
        let used = self.segments().used_segments();
        for _ in 0..SLICE_SEGMENTS {
            let segment = self.release_next.load(Relaxed);
            if segment >= used {
                return false;
            }
            self.release_next.store(segment + 1, Relaxed);
            self.segments().release_if_free(thread, segment as u32);
        }
        true
    }
}
