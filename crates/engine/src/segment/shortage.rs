//! Shortage of free segments: how many should stay free, and the callback that wakes the
//! maintainer, a background thread, when fewer are free.

use std::fmt;

use crate::segment::Segments;

/// The maintainer keeps one in this many segments free, in addition to the spare segments …
const FREE_PART: u64 = 128;

/// … but no more than this number.
const FREE_MAX: u64 = 32;

/// The callback that reports a shortage of free segments.
pub(crate) struct Wake(Box<dyn Fn() + Send + Sync>);

impl Wake {
    pub(crate) fn call(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wake")
    }
}

impl Segments {
    /// Returns the maintainer's callback, if one is registered.
    pub(crate) fn wake(&self) -> Option<&Wake> {
        self.wake.get()
    }

    /// See `Engine::call_when_short`.
    pub(crate) fn call_when_short(&self, wake: Box<dyn Fn() + Send + Sync>) {
        let _ = self.wake.set(Wake(wake));
    }

    /// Called after a segment was taken. Calls the maintainer if few free segments, or few
    /// populated ones, remain.
    pub(crate) fn note_taken(&self) {
        if let Some(Wake(wake)) = self.wake.get()
            && (self.free_segments() < self.free_segments_low() || self.is_populated_low())
        {
            wake();
        }
    }

    /// Returns the number of free segments below which the maintainer is woken.
    pub(crate) fn free_segments_low(&self) -> u64 {
        self.spare_segments() + (self.segments_max() / FREE_PART / 2).clamp(1, FREE_MAX / 2)
    }

    /// Returns the number of free segments up to which the maintainer frees more.
    pub(crate) fn free_segments_high(&self) -> u64 {
        self.spare_segments() + (self.segments_max() / FREE_PART).clamp(1, FREE_MAX)
    }
}
