//! Fresh segments: their memory is populated before writers take them.
//!
//! The first write to a page waits until the system has allocated and cleared the page. With huge
//! pages it clears 2 MiB at a time, which takes about 4 ms on a virtual machine whose host also has
//! to allocate the memory. All clients of a worker would wait during that time. If a maintainer
//! runs, it waits in place of the workers.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use crate::segment::Segments;

/// How much fresh memory is populated ahead of the writers: two huge pages …
const AHEAD_BYTES: usize = 4 << 20;

/// … but at least this many segments.
const AHEAD_SEGMENTS_MIN: usize = 2;

impl Segments {
    /// See `Engine::populate`.
    pub(crate) fn populate(&self) {
        for segment in self.unpopulated(self.ahead_segments()) {
            let at = self.region().segment_at(segment as u32);
            self.region().memory().populate(at, self.region().segment_bytes());
            self.populated.fetch_max(segment + 1, Relaxed);
        }
    }

    /// True if writers will soon reach fresh segments that are not populated.
    pub(crate) fn is_populated_low(&self) -> bool {
        !self.unpopulated(self.ahead_segments() / 2).is_empty()
    }

    /// Returns the unpopulated ones of the next `count` fresh segments. Returns an empty range in
    /// shared memory, where memory that one process populates counts for all processes, used or
    /// not.
    fn unpopulated(&self, count: u64) -> Range<u64> {
        if self.peers().has_peers() {
            return 0..0;
        }
        let used = self.used_segments();
        let end = (used + count).min(self.segments_max());
        used.max(self.populated.load(Relaxed)).min(end)..end
    }

    fn ahead_segments(&self) -> u64 {
        (AHEAD_BYTES / self.region().segment_bytes()).max(AHEAD_SEGMENTS_MIN) as u64
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use larder_item::StoreMode;

    use super::*;
    use crate::engine::Engine;
    use crate::fixtures::SMALL;
    use crate::open::Config;
    use crate::ops::request::StoreRequest;
    use crate::process::operation::Operation;

    #[test]
    fn a_maintainer_that_is_woken_keeps_ahead_of_the_writers() {
        let engine = Engine::create(&Config { memory_bytes: 32 << 20, ..SMALL }).unwrap();
        let segments = engine.segments();
        let thread = engine.register().unwrap();
        let wakes = Arc::new(AtomicUsize::new(0));
        let woken = Arc::clone(&wakes);
        engine.call_when_short(Box::new(move || {
            woken.fetch_add(1, Relaxed);
        }));
        let mut number = 0u32;
        let mut served = 0;
        while segments.used_segments() < segments.segments_max() {
            number += 1;
            let key = number.to_le_bytes();
            let request = StoreRequest::new(&key, StoreMode::Set);
            engine.store(&Operation::new(&thread, 10), &request, &[7; 1000]).unwrap();
            if wakes.swap(0, Relaxed) > 0 {
                engine.populate();
                served += 1;
                assert!(!segments.is_populated_low(), "a populated cache must not wake again");
            }
            let (used, populated) = (segments.used_segments(), segments.populated.load(Relaxed));
            assert!(populated >= used, "{used} segments are used, {populated} are populated");
            let ahead = (populated - used) as usize * engine.region().segment_bytes();
            assert!(ahead <= AHEAD_BYTES, "{ahead} bytes are populated ahead of the writers");
        }
        assert!(served > 1, "{served} calls of the maintainer");
        assert!(segments.populated.load(Relaxed) <= segments.segments_max());
        assert!(!segments.is_populated_low(), "nothing is left to populate");
    }
}
