//! The time of an item's last use.
//!
//! A record's header holds it in units of [`UNIT_SECS`], modulo 2^[`BITS`]. A store, a counted read
//! and a change write it; a read only if it is [`REFRESH_UNITS`] old. That is once a minute, as in
//! memcached, so a read of an item in use only compares a few bits of a word that it has loaded
//! anyway.
//!
//! The writer holds the lock of the item's group, as for every change of a header. A reader tries
//! that lock once. If another thread holds it, the next read writes the time.
//!
//! The last use is at most 58 s later and at most 1 s earlier than the reported time. After
//! 2^[`BITS`] units without a use, 24 days, the reported time jumps ahead by as much.

use larder_item::Second;

/// The bits of a time in a header.
pub(crate) const BITS: u32 = 20;

/// The seconds of a unit.
const UNIT_SECS: Second = 2;

/// A read writes the time of an item whose last use is this many units ago.
const REFRESH_UNITS: u32 = 30;

/// The last use may be this much later than the header says.
#[cfg(test)]
const LAG_SECS_MAX: Second = (REFRESH_UNITS - 1) * UNIT_SECS;

/// Processes with different clocks, and tests that move the clock, may write a time that others
/// have not reached. Up to this many units ahead count as now, not as long ago.
const AHEAD_UNITS_MAX: u32 = 1024;

const MASK: u32 = (1 << BITS) - 1;

/// The time of an item's last use, as its header holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Used(pub(crate) u32);

impl Used {
    /// Returns the time of a use in the second `now`.
    #[inline]
    pub(crate) fn at(now: Second) -> Self {
        Self((now / UNIT_SECS) & MASK)
    }

    /// Returns the last second of the unit in which the item was last used, but never one after
    /// `now`.
    #[inline]
    pub(crate) fn second(self, now: Second) -> Second {
        let units_ago = self.units_ago(now);
        match units_ago {
            0 => now,
            _ => (now / UNIT_SECS).saturating_sub(units_ago) * UNIT_SECS + UNIT_SECS - 1,
        }
    }

    /// True if a read in the second `now` writes the time.
    #[inline]
    pub(crate) fn is_due(self, now: Second) -> bool {
        self.units_ago(now) >= REFRESH_UNITS
    }

    #[inline]
    fn units_ago(self, now: Second) -> u32 {
        let units = (now / UNIT_SECS).wrapping_sub(self.0) & MASK;
        if units > MASK - AHEAD_UNITS_MAX { 0 } else { units }
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
                let second = told.second(now);
                assert!(second <= now && second < used + UNIT_SECS, "{used} is {second} in {now}");
                assert!(second >= used, "{used} is {second} in {now}");
                // A use that is not written falls into the unit of a written one.
                assert!(told.is_due(now) || now - second.min(now) <= LAG_SECS_MAX);
            }
            assert!(!told.is_due(used) && told.is_due(used + REFRESH_UNITS * UNIT_SECS));
        }
        const { assert!(LAG_SECS_MAX < 60) };
    }

    #[test]
    fn a_time_ahead_of_the_clock_is_now() {
        let ahead = Used::at(1000 + 3);
        assert_eq!(ahead.second(1000), 1000);
        assert!(!ahead.is_due(1000));
        assert_eq!(Used::at(AHEAD_UNITS_MAX * UNIT_SECS).second(5), 5);
    }

    #[test]
    fn two_seconds_without_a_use_are_visible() {
        for used in 1000..1010 {
            for passed in 2..60 {
                let told = used + passed - Used::at(used).second(used + passed);
                assert!(told > 0, "{passed} s after a use in {used}");
            }
        }
    }

    #[test]
    fn twenty_four_days_without_a_use_are_visible() {
        let day = 86_400;
        let second = Used::at(5 * day).second(29 * day);
        assert!((5 * day..5 * day + UNIT_SECS).contains(&second), "{second}");
    }
}
