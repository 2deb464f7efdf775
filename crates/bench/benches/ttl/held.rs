//! What is held past its deadline.

use crate::cohort::TTLS;

/// After how many seconds an expired cohort is looked for.
pub(crate) const AFTER_SECS: [u32; 4] = [1, 10, 60, 600];

/// What all samples come to.
#[derive(Default)]
pub(crate) struct Held {
    /// For each TTL.
    pub(crate) cohorts: [Cohorts; TTLS.len()],
    /// Bytes of expired records / of all records held, at each sample.
    pub(crate) expired_shares: Vec<f64>,
    /// Bytes of live records / memory of the segments with items, at each sample.
    pub(crate) live_shares: Vec<f64>,
}

/// Items of cohorts that had the same TTL.
#[derive(Default)]
pub(crate) struct Cohorts {
    /// Those that were there when they died.
    pub(crate) expired: u64,
    /// Those held after each of [`AFTER_SECS`].
    pub(crate) still_held: [u64; AFTER_SECS.len()],
}

impl Cohorts {
    /// The shares still held, in percent; none where nothing lived long enough to expire.
    pub(crate) fn percents(&self) -> [String; AFTER_SECS.len()] {
        self.still_held.map(|still_held| match self.expired {
            0 => "–".to_owned(),
            expired => format!("{:.1} %", still_held as f64 * 100.0 / expired as f64),
        })
    }
}
