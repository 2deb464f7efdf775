//! The cache's clock. No other file of this crate reads the second that decides whether an item has
//! expired.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use larder::Cache;
use larder_item::Second;
use larder_protocol::admin::ClockMove;
use rustix::time::{ClockId, Timespec, clock_gettime};
use time::OffsetDateTime;

/// Returns the Unix time of the system, which dumps contain.
pub(crate) fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Advances a cache's clock with the system's clock, and reports when a new second has begun.
#[derive(Debug)]
pub(crate) struct Clock {
    cache: Cache,
    /// How clients have changed the time; `None` unless `debugtime` is enabled.
    warp: Option<Arc<Warp>>,
    second: Second,
}

impl Clock {
    pub(crate) fn new(cache: Cache, warp: Option<Arc<Warp>>) -> Self {
        let mut clock = Self { cache, warp, second: 0 };
        clock.turn();
        clock
    }

    /// Reads the time, which takes a few nanoseconds and no system call. Returns true if a new
    /// second has begun since the last turn.
    #[inline]
    pub(crate) fn turn(&mut self) -> bool {
        let mut second = self.cache.system_second();
        if let Some(warp) = &self.warp {
            second = warp.of(second);
        }
        if second == self.second {
            return false;
        }
        self.second = second;
        self.cache.tick(second);
        true
    }

    /// Returns the second of the last turn.
    #[inline]
    pub(crate) fn second(&self) -> Second {
        self.second
    }
}

/// Returns the current Unix time in seconds.
pub(crate) fn unix_secs() -> u64 {
    u64::try_from(clock_gettime(ClockId::Realtime).tv_sec).unwrap_or(0)
}

/// A moment of the system's clock, displayed in the form of RFC 3339, in UTC, with milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rfc3339(OffsetDateTime);

impl Rfc3339 {
    /// Returns the current time.
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::Realtime);
        Self::of_unix_ns(i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec))
    }

    /// Returns a time after the year 9999 as the beginning of 1970.
    pub(crate) fn of_unix_ns(ns: i128) -> Self {
        let time = OffsetDateTime::from_unix_timestamp_nanos(ns);
        Self(time.unwrap_or(OffsetDateTime::UNIX_EPOCH))
    }
}

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (date, (hour, minute, second, ms)) = (self.0.date(), self.0.time().as_hms_milli());
        let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

/// A clock that clients can move (`debugtime`), for test suites that cannot wait.
#[derive(Debug, Default)]
pub(crate) struct Warp {
    /// How far clients have moved the clock, in seconds.
    ahead_secs: AtomicI64,
    /// The second at which the clock is paused; 0 while it runs.
    paused_at: AtomicU32,
}

impl Warp {
    /// Moves the clock for all threads. The cache's time never runs backward: after a move to the
    /// past, it pauses until the clock has caught up.
    pub(crate) fn shift(&self, moved: ClockMove, cache: &Cache) {
        match moved {
            ClockMove::By(secs) => {
                self.ahead_secs.fetch_add(secs, Relaxed);
            }
            ClockMove::Pause => self.paused_at.store(cache.now(), Relaxed),
            ClockMove::Resume => self.paused_at.store(0, Relaxed),
        }
        let second = match (moved, self.paused_at.load(Relaxed)) {
            (ClockMove::By(secs), paused_at @ 1..) => {
                let second = ahead(paused_at, secs);
                self.paused_at.store(second, Relaxed);
                second
            }
            _ => self.of(cache.system_second()),
        };
        cache.tick(second);
    }

    /// Returns the moved time for the system time `second`.
    pub(crate) fn of(&self, second: Second) -> Second {
        match self.paused_at.load(Relaxed) {
            0 => ahead(second, self.ahead_secs.load(Relaxed)),
            paused_at => paused_at,
        }
    }
}

fn ahead(second: Second, secs: i64) -> Second {
    let second = i64::from(second).saturating_add(secs);
    Second::try_from(second.max(1)).unwrap_or(Second::MAX)
}

/// Returns the monotonic clock in microseconds.
pub(crate) fn monotonic_us() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1000
}

/// Returns the monotonic clock in nanoseconds.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Neither field is negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Measures a duration.
#[derive(Debug)]
pub(crate) struct Stopwatch(Timespec);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(clock_gettime(ClockId::Monotonic))
    }

    /// Returns the microseconds since the start.
    pub(crate) fn elapsed_us(&self) -> u64 {
        let elapsed = clock_gettime(ClockId::Monotonic) - self.0;
        let us = elapsed.tv_sec * 1_000_000 + elapsed.tv_nsec / 1000;
        u64::try_from(us).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use larder::Clock;

    use super::*;

    #[test]
    fn a_warped_clock_continues_from_its_new_time() {
        let cache = Cache::builder().memory_bytes(8 << 20).clock(Clock::Ticked).open().unwrap();
        let warp = Warp::default();
        let shown = |second| warp.of(second);
        assert_eq!(shown(10), 10);
        warp.shift(ClockMove::By(5), &cache);
        warp.shift(ClockMove::By(2), &cache);
        assert_eq!(shown(10), 17);
        assert_eq!(cache.now(), cache.system_second() + 7);
        warp.shift(ClockMove::Pause, &cache);
        let paused_at = cache.now();
        assert_eq!((shown(100), shown(200)), (paused_at, paused_at));
        warp.shift(ClockMove::By(3), &cache);
        assert_eq!((shown(100), cache.now()), (paused_at + 3, paused_at + 3));
        warp.shift(ClockMove::Resume, &cache);
        assert_eq!(shown(100), 110);
        warp.shift(ClockMove::By(-1000), &cache);
        assert_eq!((shown(100), cache.now()), (1, paused_at + 3));
    }
}
