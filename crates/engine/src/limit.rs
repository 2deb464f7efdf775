//! The memory limit of a live cache: how many of its segments may be in use.

use std::sync::atomic::Ordering::Relaxed;

use larder_region::layout::global;

use crate::segment::State;
use crate::{Engine, Seat};

/// Segments that items need at least: those of the heads, and something to empty.
const ITEM_SEGMENTS_MIN: usize = 8;

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
    /// Less than is in use takes effect with the next stores and calls of [`Engine::maintain`]: what is wanted
    /// least is evicted and its memory goes back to the system.
    ///
    /// # Errors
    /// [`LimitError`] names the bounds.
    pub fn set_memory_limit(&self, seat: &Seat, bytes: usize) -> Result<(), LimitError> {
        let is_index = |state| matches!(state, State::Index | State::Overflow | State::Ghost);
        let used = self.used_segments() as usize;
        let index =
            self.segments().take(used).filter(|segment| is_index(self.state(*segment))).count();
        let min = self.layout.bytes_for(index + ITEM_SEGMENTS_MIN);
        let max = self.layout.region_bytes;
        if bytes < min || bytes > max {
            return Err(LimitError { asked: bytes, min, max });
        }
        if bytes < self.memory_limit() {
            self.release_free_segments(seat);
        }
        self.limit_to(bytes);
        Ok(())
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
        self.segments_in_use() > self.segments_max()
    }
}
