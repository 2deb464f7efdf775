//! The time of items: seconds since an epoch that each cache chooses when it is created.

/// A point in time: whole seconds since the cache's [`Epoch`]. The first second is 2, so that 0 can
/// mean "never" and 1 "before everything", as in memcached.
pub type Second = u32;

/// The time at which an item expires: at and after this [`Second`] the item is expired.
/// [`Deadline::NEVER`] means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Deadline(pub Second);

impl Deadline {
    /// The item never expires; it lives until it is removed or evicted.
    pub const NEVER: Self = Self(0);
    /// The item is expired from the start.
    pub const PAST: Self = Self(1);

    /// True if an item with this deadline is expired at `now`.
    #[inline]
    pub fn is_past(self, now: Second) -> bool {
        self.0 != 0 && self.0 <= now
    }

    /// Returns the deadline `ttl_secs` after `now`, limited to the largest 32-bit value.
    pub fn after(now: Second, ttl_secs: u64) -> Self {
        let secs = u64::from(now).saturating_add(ttl_secs).min(u64::from(Second::MAX));
        Self(Second::try_from(secs).unwrap_or(Second::MAX))
    }
}

/// The relation between a cache's seconds and Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Unix time, in seconds, of [`Second`] 0.
    pub unix_secs: i64,
}

impl Epoch {
    /// The first second of a cache's life.
    pub const FIRST_SECOND: Second = 2;
    /// Largest relative exptime, in seconds (30 days). A larger exptime is a Unix time.
    pub const RELATIVE_SECS_MAX: i64 = 60 * 60 * 24 * 30;

    /// Returns the epoch of a cache created at `unix_secs`: that moment is [`Self::FIRST_SECOND`].
    pub fn starting_at(unix_secs: i64) -> Self {
        Self { unix_secs: unix_secs.saturating_sub(i64::from(Self::FIRST_SECOND)) }
    }

    /// Converts an exptime of the protocol to a deadline (memcached's protocol, section "Expiration
    /// times"): 0 means never, 1 to 2,592,000 are seconds from `now`, and a larger value is a Unix
    /// time. A negative exptime, and a Unix time before the cache existed, are in the past.
    pub fn deadline(self, exptime: i64, now: Second) -> Deadline {
        if exptime == 0 {
            return Deadline::NEVER;
        }
        if exptime < 0 {
            return Deadline::PAST;
        }
        if exptime <= Self::RELATIVE_SECS_MAX {
            return Deadline::after(now, exptime.unsigned_abs());
        }
        let since = exptime - self.unix_secs;
        if since < 1 { Deadline::PAST } else { Deadline::after(0, since.unsigned_abs()) }
    }

    /// Returns the Unix time of a second of this cache, in seconds.
    pub fn unix_of(self, second: Second) -> i64 {
        self.unix_secs.saturating_add(i64::from(second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch { unix_secs: 1_700_000_000 };

    #[test]
    fn zero_is_never_and_negative_is_past() {
        assert_eq!(EPOCH.deadline(0, 10), Deadline::NEVER);
        assert_eq!(EPOCH.deadline(-1, 10), Deadline::PAST);
        assert!(!Deadline::NEVER.is_past(Second::MAX));
        assert!(Deadline::PAST.is_past(Epoch::FIRST_SECOND));
    }

    #[test]
    fn thirty_days_is_the_last_relative_exptime() {
        assert_eq!(EPOCH.deadline(2_592_000, 10), Deadline(2_592_010));
        assert_eq!(EPOCH.deadline(2_592_001, 10), Deadline::PAST);
        assert_eq!(EPOCH.deadline(1_700_000_100, 10), Deadline(100));
        assert_eq!(EPOCH.deadline(1_700_000_000, 10), Deadline::PAST);
    }

    #[test]
    fn an_item_expires_in_the_second_of_its_deadline() {
        assert!(!Deadline(10).is_past(9));
        assert!(Deadline(10).is_past(10));
    }

    #[test]
    fn far_deadlines_do_not_wrap() {
        assert_eq!(EPOCH.deadline(i64::MAX, 10), Deadline(Second::MAX));
        assert_eq!(EPOCH.deadline(i64::MIN, 10), Deadline::PAST);
    }
}
