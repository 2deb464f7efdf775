//! Counts of items that are still in memory after their deadline.

use crate::cohort::TTLS;

/// The ages, in seconds, at which an expired cohort is counted.
pub(crate) const AFTER_SECS: [u32; 4] = [1, 10, 60, 600];

/// The sums over all samples.
#[derive(Default)]
pub(crate) struct Held {
    /// The cohorts of each TTL.
    pub(crate) cohorts: [Cohorts; TTLS.len()],
    /// Bytes of expired records / bytes of all records in memory, at each sample.
    pub(crate) expired_shares: Vec<f64>,
    /// Bytes of live records / memory of the segments with items, at each sample.
    pub(crate) live_shares: Vec<f64>,
}

/// Items of all cohorts with the same TTL.
#[derive(Default)]
pub(crate) struct Cohorts {
    /// Items in memory when they expired.
    pub(crate) expired: u64,
    /// Items in memory after each of [`AFTER_SECS`].
    pub(crate) still_held: [u64; AFTER_SECS.len()],
}

impl Cohorts {
    /// Returns the shares still in memory, in percent; `–` if no item stayed in memory until it
    /// expired.
    pub(crate) fn percents(&self) -> [String; AFTER_SECS.len()] {
        self.still_held.map(|still_held| match self.expired {
            0 => "–".to_owned(),
            expired => format!("{:.1} %", still_held as f64 * 100.0 / expired as f64),
        })
    }
}
