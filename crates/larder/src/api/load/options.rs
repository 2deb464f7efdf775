//! The settings of a load.

use std::time::Duration;

use larder_item::{Deadline, Meta, Second};

/// The settings of [`Cache::get_or_load`](crate::Cache::get_or_load): how it loads, and how long
/// it keeps the result. All callers of a key should use the same options: each caller derives the
/// freshness of an item from its deadline and the caller's own options.
///
/// ```
/// use larder::LoadOptions;
/// use std::time::Duration;
///
/// const PRICES: LoadOptions = LoadOptions::new()
///     .ttl(Duration::from_secs(60)) // fresh for a minute,
///     .early(0.1) // refreshed by one caller in the last 6 seconds of it,
///     .stale(Duration::from_secs(600)) // returned for ten more minutes during a refresh,
///     .timeout(Duration::from_secs(2)); // and waited for no longer than that.
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadOptions {
    pub(crate) ttl: Option<Duration>,
    pub(crate) stale: Duration,
    early: f64,
    pub(super) timeout: Duration,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl LoadOptions {
    /// Returns the default options: a loaded value never expires, and callers wait for a load for
    /// at most 30 seconds.
    pub const fn new() -> Self {
        Self { ttl: None, stale: Duration::ZERO, early: 0.0, timeout: Duration::from_secs(30) }
    }

    /// Sets how long a loaded value is fresh. Time is counted in seconds, and a fraction rounds up
    /// to a whole second.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets how long after its ttl a value may still be returned while one caller refreshes it. The
    /// item is stored for the sum of both periods.
    #[must_use]
    pub const fn stale(mut self, stale: Duration) -> Self {
        self.stale = stale;
        self
    }

    /// Sets the remaining part of the ttl, from 0 to 1, at which one caller refreshes a value that
    /// is still fresh. The part refers to the ttl of these options, even for a value stored with
    /// [`Loaded::ttl`](crate::Loaded::ttl). Values below 0 and NaN count as 0, values above 1 as 1.
    #[must_use]
    pub const fn early(mut self, part: f64) -> Self {
        self.early = if part > 0.0 { part.min(1.0) } else { 0.0 };
        self
    }

    /// Sets how long callers wait for a load, counted from the beginning of the load. After that
    /// they receive [`LoadError::TimedOut`](crate::LoadError::TimedOut), and the next caller loads
    /// again.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// True if no caller needs to refresh the item yet.
    pub(super) fn is_fresh(&self, meta: &Meta, now: Second) -> bool {
        let early = self.early * self.ttl.unwrap_or_default().as_secs_f64();
        let left = meta.deadline.0.saturating_sub(now);
        meta.deadline == Deadline::NEVER || f64::from(left) > whole_secs(self.stale) as f64 + early
    }
}

/// Rounds a fraction of a second up.
pub(super) fn whole_secs(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}
