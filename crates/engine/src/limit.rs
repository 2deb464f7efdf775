//! The memory limit of a live cache: how many of its segments may be in use.

use std::sync::atomic::Ordering::Relaxed;

use larder_region::layout::global;

use crate::Engine;
use crate::segment::State;

/// Segments that items need at least: those of the heads, and something to empty.
const ITEM_SEGMENTS_MIN: usize = 8;

/// A memory limit that the cache cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the memory limit must be {min} to {max} bytes, found {asked}; the upper one was set when the cache was opened"
)]
pub struct LimitError {
    /// What was asked for.
    pub asked: usize,
    /// The least possible.
    pub min: usize,
    /// The memory the cache was opened with.
    pub max: usize,
}

impl Engine {
    /// Changes how much memory the cache may use, up to what it was created with. Less than is in use takes
    /// effect with the next stores and calls of [`Engine::maintain`]: the oldest items are evicted and their
    /// memory goes back to the system.
    ///
    /// # Errors
    /// [`LimitError`] names the bounds.
    pub fn set_memory_limit(&self, bytes: usize) -> Result<(), LimitError> {
        let is_index = |state| matches!(state, State::Index | State::Overflow);
        let index = self.segments().filter(|segment| is_index(self.state(*segment))).count();
        let min = self.layout.pool_at + (index + ITEM_SEGMENTS_MIN) * self.layout.segment_bytes;
        let max = self.layout.region_bytes;
        if bytes < min || bytes > max {
            return Err(LimitError { asked: bytes, min, max });
        }
        let segments = ((bytes - self.layout.pool_at) / self.layout.segment_bytes) as u64;
        self.memory.word(global::SEGMENTS_MAX).store(segments, Relaxed);
        Ok(())
    }

    /// How much memory the cache may use.
    pub fn memory_limit(&self) -> usize {
        match self.segments_max() {
            segments if segments >= self.layout.segments as u64 => self.layout.region_bytes,
            segments => self.layout.pool_at + segments as usize * self.layout.segment_bytes,
        }
    }

    fn segments_max(&self) -> u64 {
        self.memory.word(global::SEGMENTS_MAX).load(Relaxed)
    }

    fn segments_in_use(&self) -> u64 {
        (self.layout.segments as u64).saturating_sub(self.free_segments())
    }

    /// May one more segment be taken into use?
    pub(crate) fn has_room(&self) -> bool {
        self.segments_in_use() < self.segments_max()
    }

    /// Must segments be given back?
    pub(crate) fn is_over_limit(&self) -> bool {
        self.segments_in_use() > self.segments_max()
    }
}
