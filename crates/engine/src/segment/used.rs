//! The time of an item's last use.
//!
//! A record's header contains the second of the last use, modulo 2^[`BITS`]. A store, a counted
//! read and a change write this time; a read writes it only if the stored time is [`REFRESH_SECS`]
//! old. That is once a minute, as in memcached, so a read of an item in use only compares a few
//! bits of a word that it has already loaded.
//!
//! The writer holds the lock of the item's group, as for every change of a header. A reader tries
//! to take that lock once. If another thread holds it, the next read writes the time.
//!
//! The last use is at most 59 s later than the reported time, and never earlier: the reported idle
//! time of an item is never shorter than the time since its last use. After 2^[`BITS`] seconds
//! without a use, which are 12 days, the reported time jumps ahead by as much.

use larder_item::Second;

/// The bits of a time in a header.
pub(crate) const BITS: u32 = 20;

/// A read writes the time if the last use is at least this many seconds ago.
const REFRESH_SECS: u32 = 60;

/// Processes with different clocks, and tests that move the clock, may store a time that others
/// have not reached. A time that is at most this many seconds ahead counts as now, not as long ago.
const AHEAD_SECS_MAX: u32 = 2048;

const MASK: u32 = (1 << BITS) - 1;

/// The time of an item's last use, in the form in which its header stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Used(pub(crate) u32);

impl Used {
    /// Returns the time of a use in the second `now`.
    #[inline]
    pub(crate) fn at(now: Second) -> Self {
        Self(now & MASK)
    }

    /// Returns the second of the last use, but never one after `now`.
    #[inline]
    pub(crate) fn second(self, now: Second) -> Second {
        now.saturating_sub(self.secs_ago(now))
    }

    /// True if a read in the second `now` writes the time.
    #[inline]
    pub(crate) fn is_due(self, now: Second) -> bool {
        self.secs_ago(now) >= REFRESH_SECS
    }

    #[inline]
    fn secs_ago(self, now: Second) -> u32 {
        let secs = now.wrapping_sub(self.0) & MASK;
        if secs > MASK - AHEAD_SECS_MAX { 0 } else { secs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_use_is_known_to_within_a_minute() {
        for used in [0, 2, 7, 8, 1000, 86_399, u32::MAX - 5000] {
            let told = Used::at(used);
            for now in used..used + 4000 {
                assert_eq!(told.second(now), used, "in {now}");
                assert_eq!(told.is_due(now), now - used >= 60, "in {now}");
            }
        }
    }

    #[test]
    fn a_time_ahead_of_the_clock_is_now() {
        let ahead = Used::at(1000 + 3);
        assert_eq!(ahead.second(1000), 1000);
        assert!(!ahead.is_due(1000));
        assert_eq!(Used::at(AHEAD_SECS_MAX).second(5), 5);
    }

    #[test]
    fn twelve_days_without_a_use_are_visible() {
        let day = 86_400;
        assert_eq!(Used::at(5 * day).second(17 * day), 5 * day);
    }
}
