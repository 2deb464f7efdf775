//! The only place where a cache reads the time.

use larder_item::{Epoch, Second};
use rustix::time::{ClockId, clock_gettime};

/// The source of a cache's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Every operation reads the system's coarse monotonic clock: a few nanoseconds, without a
    /// system call.
    #[default]
    System,
    /// The owner calls [`Cache::tick`](crate::Cache::tick): a server once per turn of its event
    /// loop, a test or a replay with simulated time.
    Ticked,
}

/// Returns the wall-clock time as a Unix time, in seconds.
pub(crate) fn unix_secs() -> i64 {
    clock_gettime(ClockId::Realtime).tv_sec
}

/// A cache's time: the beginning of its seconds, and the clock that counts them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    pub(crate) clock: Clock,
    started_monotonic_secs: i64,
    started_unix_secs: i64,
}

impl Time {
    pub(crate) fn starting_now(clock: Clock) -> Self {
        Self {
            clock,
            started_monotonic_secs: clock_gettime(ClockId::MonotonicCoarse).tv_sec,
            started_unix_secs: unix_secs(),
        }
    }

    /// The same clock, whose first second is not before this Unix time.
    pub(crate) fn not_before(self, unix_secs: u64) -> Self {
        let unix_secs = i64::try_from(unix_secs).unwrap_or(i64::MAX);
        Self { started_unix_secs: self.started_unix_secs.max(unix_secs), ..self }
    }

    /// Returns the time of an existing cache. `monotonic_secs` is its second 0 by the monotonic
    /// clock, which counts from the system's boot.
    pub(crate) fn beginning_at(clock: Clock, monotonic_secs: i64, epoch: Epoch) -> Self {
        Self {
            clock,
            started_monotonic_secs: monotonic_secs,
            started_unix_secs: epoch.unix_of(Epoch::FIRST_SECOND),
        }
    }

    /// Returns the cache's first second by the system's monotonic clock.
    pub(crate) fn started_monotonic_secs(&self) -> i64 {
        self.started_monotonic_secs
    }

    pub(crate) fn started_unix_secs(&self) -> i64 {
        self.started_unix_secs
    }

    /// Returns the second of the cache's life by the system's clock. It is monotonic: setting the
    /// wall clock moves no deadline.
    #[inline]
    pub(crate) fn system_second(&self) -> Second {
        let now = clock_gettime(ClockId::MonotonicCoarse).tv_sec;
        // The start comes from the region's file, which may hold any value.
        let lived = now.saturating_sub(self.started_monotonic_secs);
        Second::try_from(lived).unwrap_or(0).saturating_add(Epoch::FIRST_SECOND)
    }
}
