//! The only place where a cache reads the time.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use larder_engine::ReadableUntil;
use larder_item::{Epoch, Second};
use larder_region::platform::{Moment, clock};

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
    /// Same as [`Clock::System`], but each handle can have a different time:
    /// [`Cache::set_now`](crate::Cache::set_now).
    Handle,
}

/// The time of a handle of a cache with [`Clock::Handle`]: a second of the monotonic clock.
#[derive(Debug)]
pub(crate) struct HandleTime(AtomicI64);

/// The value of a handle without a time.
const NO_TIME: i64 = i64::MIN;

impl Default for HandleTime {
    fn default() -> Self {
        Self(AtomicI64::new(NO_TIME))
    }
}

impl Clone for HandleTime {
    fn clone(&self) -> Self {
        Self(AtomicI64::new(self.0.load(Relaxed)))
    }
}

impl HandleTime {
    /// Sets the time to a Unix time in seconds; 0 returns to the system's time.
    pub(crate) fn set(&self, unix_secs: i64) {
        let monotonic_secs = match unix_secs {
            0 => NO_TIME,
            _ => unix_secs.saturating_sub(handle_ahead_secs()),
        };
        self.0.store(monotonic_secs, Relaxed);
    }
}

/// Returns the wall-clock time as a Unix time, in seconds.
pub(crate) fn unix_secs() -> i64 {
    clock::wall().secs
}

/// Returns the time of the system's monotonic clock in milliseconds. The clock is the same for all
/// processes.
pub(crate) fn monotonic_ms() -> u64 {
    clock::monotonic().ms()
}

/// True if the wall clock has not passed a limit of readers.
///
/// Cost: about 3 ns, without a system call. The clock that counts while the machine sleeps has no
/// coarse variant and takes 21 ns.
#[inline]
pub(crate) fn is_wall_before(limit: ReadableUntil) -> bool {
    clock::wall_coarse().ms() < limit.unix_ms
}

/// Returns the limit of readers for a time of the boot clock, which counts while the machine
/// sleeps.
pub(crate) fn readable_until(boot_ms: u64) -> ReadableUntil {
    // Read first: time that passes before the boot clock is read makes the limit earlier.
    let (monotonic_ms, unix_ms) = (clock::monotonic_coarse().ms(), clock::wall_coarse().ms());
    let left_ms = boot_ms.saturating_sub(clock::boot().ms() + COARSE_MS);
    match left_ms {
        0 => ReadableUntil::NEVER,
        _ => ReadableUntil { monotonic_ms: monotonic_ms + left_ms, unix_ms: unix_ms + left_ms },
    }
}

/// A coarse clock is late by at most the time between two timer interrupts, 10 ms.
const COARSE_MS: u64 = 10;

/// A cache's time: the start of its seconds, and the clock that counts them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    pub(crate) clock: Clock,
    /// The second of the system's monotonic clock that is the cache's first second
    /// ([`Epoch::FIRST_SECOND`]).
    started_monotonic_secs: i64,
    /// The same second as a Unix time, according to the wall clock at that moment.
    started_unix_secs: i64,
}

impl Time {
    pub(crate) fn starting_now(clock: Clock) -> Self {
        Self {
            clock,
            started_monotonic_secs: clock::monotonic_coarse().secs,
            started_unix_secs: unix_secs(),
        }
    }

    /// Returns the time of an existing cache. `monotonic_secs` is the second of the monotonic
    /// clock, which counts from the system's boot, that is the cache's first second
    /// ([`Epoch::FIRST_SECOND`]).
    pub(crate) fn beginning_at(clock: Clock, monotonic_secs: i64, epoch: Epoch) -> Self {
        Self {
            clock,
            started_monotonic_secs: monotonic_secs,
            started_unix_secs: epoch.unix_of(Epoch::FIRST_SECOND),
        }
    }

    /// Returns the second of the system's monotonic clock that is the cache's first second.
    pub(crate) fn started_monotonic_secs(&self) -> i64 {
        self.started_monotonic_secs
    }

    pub(crate) fn started_unix_secs(&self) -> i64 {
        self.started_unix_secs
    }

    /// Returns the cache's second according to the time of a handle, or to the system's clock if
    /// the handle has no time. Not inlined: only the other clocks are on the hot path of
    /// operations.
    #[inline(never)]
    pub(crate) fn handle_second(&self, of: &HandleTime) -> Second {
        match of.0.load(Relaxed) {
            NO_TIME => self.system_second(),
            monotonic_secs => self.second_at(monotonic_secs),
        }
    }

    /// Returns the cache's second according to the system's monotonic clock: setting the wall clock
    /// moves no deadline.
    #[inline]
    pub(crate) fn system_second(&self) -> Second {
        self.second_at(clock::monotonic_coarse().secs)
    }

    /// Same as [`Self::system_second`], and also returns the clock in milliseconds.
    #[inline]
    pub(crate) fn system_second_and_ms(&self) -> (Second, u64) {
        let now = clock::monotonic_coarse();
        (self.second_at(now.secs), now.ms())
    }

    /// Returns the cache's time according to the system's monotonic clock, in milliseconds: the
    /// second and its part that has passed.
    pub(crate) fn system_ms(&self) -> u64 {
        let now = clock::monotonic();
        u64::from(self.second_at(now.secs)) * 1000 + u64::from(now.ns) / 1_000_000
    }

    #[inline]
    fn second_at(&self, now: i64) -> Second {
        // The start comes from the region's file, which may hold any value.
        let lived = now.saturating_sub(self.started_monotonic_secs);
        Second::try_from(lived).unwrap_or(0).saturating_add(Epoch::FIRST_SECOND)
    }
}

/// The wall clock of a cache: the relation between the cache's seconds and Unix time. The cache's
/// seconds count without a jump, while the system's administrator may set the Unix time at any
/// moment.
#[derive(Debug)]
pub(crate) struct Wall {
    /// By how many seconds the wall clock was ahead of the monotonic clock at the last change of
    /// the relation.
    ahead_secs: AtomicI64,
}

impl Wall {
    pub(crate) fn new(epoch: Epoch, time: &Time) -> Self {
        let zero_secs = time.started_monotonic_secs().saturating_sub(Epoch::FIRST_SECOND.into());
        Self { ahead_secs: AtomicI64::new(epoch.unix_secs.saturating_sub(zero_secs)) }
    }

    /// Returns the relation according to the current wall clock.
    ///
    /// The seconds of the two clocks start at different moments, and a synchronized wall clock
    /// drifts against the monotonic clock. The relation stays the same until it is wrong by a
    /// second, so that the same Unix time is always converted to the same second.
    ///
    /// Cost: same as [`wall_ahead`].
    pub(crate) fn epoch(&self, time: &Time) -> Epoch {
        let zero_secs = time.started_monotonic_secs().saturating_sub(Epoch::FIRST_SECOND.into());
        Epoch { unix_secs: self.ahead_secs().saturating_add(zero_secs) }
    }

    fn ahead_secs(&self) -> i64 {
        let (secs, ns) = wall_ahead();
        let kept = self.ahead_secs.load(Relaxed);
        // Saturates if the clock was set by decades.
        let off_ns = secs.saturating_sub(kept).saturating_mul(NS).saturating_add(ns);
        if off_ns.abs() < NS {
            return kept;
        }
        let nearest = secs.saturating_add(i64::from(ns >= NS / 2));
        self.ahead_secs.store(nearest, Relaxed);
        nearest
    }
}

/// Returns by how much the wall clock is ahead of the monotonic clock: seconds, rounded down, and
/// nanoseconds.
///
/// Cost: two reads of a clock, without a system call.
fn wall_ahead() -> (i64, i64) {
    let (wall, monotonic): (Moment, Moment) = (clock::wall(), clock::monotonic());
    let secs = wall.secs.saturating_sub(monotonic.secs);
    let ns = i64::from(wall.ns) - i64::from(monotonic.ns);
    (secs.saturating_add(ns.div_euclid(NS)), ns.rem_euclid(NS))
}

/// Returns by how many seconds a handle's Unix time is ahead of its second on the monotonic clock.
/// The result is rounded down: a request with the current second of the wall clock must not be
/// earlier than the start of a cache that was opened in that second. The result stays the same
/// until it is wrong by a quarter of a second, so that the same Unix time is always converted to
/// the same second.
fn handle_ahead_secs() -> i64 {
    static KEPT: AtomicI64 = AtomicI64::new(i64::MIN);
    let (secs, ns) = wall_ahead();
    let kept = KEPT.load(Relaxed);
    // Saturates if the clock was set by decades.
    let off_ns = secs.saturating_sub(kept).saturating_mul(NS).saturating_add(ns);
    if (-NS / 4..NS + NS / 4).contains(&off_ns) {
        return kept;
    }
    KEPT.store(secs, Relaxed);
    secs
}

/// Nanoseconds of a second.
const NS: i64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_counts_as_it_is_and_not_as_it_was() {
        let time = Time::starting_now(Clock::System);
        let epoch = Epoch::starting_at(time.started_unix_secs());
        let wall = Wall::new(epoch, &time);
        assert_eq!(wall.epoch(&time), epoch, "a clock that was not set changes nothing");
        for step_secs in [3600, -3600, 20 * 365 * 86_400, -2, 2] {
            // The clock was set by this much since the last call.
            let wall = Wall::new(Epoch { unix_secs: epoch.unix_secs - step_secs }, &time);
            let found = wall.epoch(&time);
            assert!((found.unix_secs - epoch.unix_secs).abs() <= 1, "{step_secs}: {found:?}");
            assert_eq!(wall.epoch(&time), found, "and it stays");
        }
    }

    #[test]
    fn a_relation_that_is_off_by_less_than_a_second_stays() {
        let time = Time::starting_now(Clock::System);
        let wall = Wall::new(Epoch::starting_at(time.started_unix_secs()), &time);
        let first = wall.epoch(&time);
        for _ in 0..200 {
            std::thread::sleep(std::time::Duration::from_millis(10));
            assert_eq!(wall.epoch(&time), first, "the seconds of both clocks begin at any time");
        }
    }

    #[test]
    fn a_handle_that_is_set_to_one_time_again_and_again_has_that_time() {
        let (time, handle) = (Time::starting_now(Clock::Handle), HandleTime::default());
        let wanted = time.started_unix_secs() + 100;
        handle.set(wanted);
        let first = time.handle_second(&handle);
        let begun = std::time::Instant::now();
        // In this time both clocks start a new second at least once, at different moments.
        while begun.elapsed() < std::time::Duration::from_millis(1200) {
            handle.set(wanted);
            assert_eq!(time.handle_second(&handle), first);
        }
    }

    #[test]
    fn the_present_second_of_a_handle_is_not_before_that_of_the_system() {
        let begun = std::time::Instant::now();
        while begun.elapsed() < std::time::Duration::from_millis(1200) {
            let (time, handle) = (Time::starting_now(Clock::Handle), HandleTime::default());
            handle.set(unix_secs());
            let ahead =
                time.handle_second(&handle).cast_signed() - time.system_second().cast_signed();
            // The system's clock may tick between the two calls.
            assert!((-1..=1).contains(&ahead), "{ahead} seconds ahead");
            assert!(time.handle_second(&handle) >= Epoch::FIRST_SECOND);
            let before = time.handle_second(&handle);
            handle.set(unix_secs() + 4);
            assert!(time.handle_second(&handle) >= before + 4, "four seconds later");
        }
    }
}
