//! The only place where a cache reads the time.

use std::cell::Cell;

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
    /// As [`Clock::System`], but a thread may set a time of its own: [`set_thread_time`].
    Thread,
}

thread_local! {
    /// This thread's second of the monotonic clock for caches of [`Clock::Thread`].
    static THREAD_TIME: Cell<Option<i64>> = const { Cell::new(None) };
}

/// Sets the time of the calling thread for caches that were opened with [`Clock::Thread`], as a
/// Unix time in seconds; 0 ends that. Their items expire for the thread by this time: a request of
/// a server can have one time from its beginning to its end. It counts as far as it is from the
/// system's at the moment of the call, so setting the wall clock later moves no deadline. It is to
/// be near, since all processes of a cache take part in its expiry.
///
/// ```
/// use larder::{Cache, Clock, set_thread_time};
/// use std::time::Duration;
/// let cache = Cache::builder().clock(Clock::Thread).open()?;
/// let now = cache.epoch().unix_of(cache.now());
/// cache.set("k", "v", Some(Duration::from_secs(60)))?;
/// set_thread_time(now + 61);
/// assert_eq!(cache.get("k"), None);
/// set_thread_time(0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn set_thread_time(unix_secs: i64) {
    let monotonic_secs = match unix_secs {
        0 => None,
        _ => {
            let ahead = unix_secs.saturating_sub(self::unix_secs());
            Some(clock_gettime(ClockId::MonotonicCoarse).tv_sec.saturating_add(ahead))
        }
    };
    // The thread-local time is gone while the thread exits.
    let _ = THREAD_TIME.try_with(|time| time.set(monotonic_secs));
}

/// Returns the wall-clock time as a Unix time, in seconds.
pub(crate) fn unix_secs() -> i64 {
    clock_gettime(ClockId::Realtime).tv_sec
}

/// Returns the milliseconds of the system's monotonic clock, which all processes have in common.
pub(crate) fn monotonic_ms() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned().wrapping_mul(1000).wrapping_add(now.tv_nsec as u64 / 1_000_000)
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

    /// Returns the second of the cache's life by the time of the calling thread, if it has one.
    pub(crate) fn thread_second(&self) -> Second {
        match THREAD_TIME.try_with(Cell::get).ok().flatten() {
            None => self.system_second(),
            Some(monotonic_secs) => self.second_at(monotonic_secs),
        }
    }

    /// Returns the second of the cache's life by the system's clock. It is monotonic: setting the
    /// wall clock moves no deadline.
    #[inline]
    pub(crate) fn system_second(&self) -> Second {
        self.second_at(clock_gettime(ClockId::MonotonicCoarse).tv_sec)
    }

    #[inline]
    fn second_at(&self, now: i64) -> Second {
        // The start comes from the region's file, which may hold any value.
        let lived = now.saturating_sub(self.started_monotonic_secs);
        Second::try_from(lived).unwrap_or(0).saturating_add(Epoch::FIRST_SECOND)
    }
}
