//! The one file that reads the time.

use larder::Cache;
use larder_item::Second;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Moves a cache's clock with the system's, and tells when a second has passed.
#[derive(Debug)]
pub(crate) struct Clock {
    cache: Cache,
    second: Second,
}

impl Clock {
    pub(crate) fn new(cache: Cache) -> Self {
        let mut clock = Self { cache, second: 0 };
        clock.turn();
        clock
    }

    /// Reads the time, a few nanoseconds without a system call. True where a second has begun since the
    /// last turn.
    #[inline]
    pub(crate) fn turn(&mut self) -> bool {
        let second = self.cache.system_second();
        if second == self.second {
            return false;
        }
        self.second = second;
        self.cache.tick(second);
        true
    }

    /// The second of the last turn.
    #[inline]
    pub(crate) fn second(&self) -> Second {
        self.second
    }
}

/// Measures how long something takes.
#[derive(Debug)]
pub(crate) struct Stopwatch(Timespec);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(clock_gettime(ClockId::Monotonic))
    }

    /// Microseconds since the start.
    pub(crate) fn elapsed_us(&self) -> u64 {
        let elapsed = clock_gettime(ClockId::Monotonic) - self.0;
        let us = elapsed.tv_sec * 1_000_000 + elapsed.tv_nsec / 1000;
        u64::try_from(us).unwrap_or(0)
    }
}
