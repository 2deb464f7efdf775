//! Statistics by key prefix: items and bytes from a census, gets and hits from sampled commands.
//!
//! The thread that evaluates hot keys does all of the work: it counts the prefixes of the samples,
//! takes the census in slices, and publishes a report once a second. It takes no census unless a
//! client has requested the report recently. Requests cost nothing in addition to the sampling.
//!
//! `stats detail` ([`super::prefixes`]) counts every command exactly, at a cost for every request.

mod accesses;
mod census;
mod labels;
mod report;
mod table;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder::Cache;

pub(crate) use labels::{Label, Series};
pub(crate) use report::{PrefixReport, PrefixRow, Sums};

use self::accesses::Accesses;
use self::census::{Census, Walk};
use self::labels::Labels;
use crate::clock::monotonic_us;
use crate::observe::classes::Classes;

/// The statistics by prefix of a server.
#[derive(Debug)]
pub(crate) struct PrefixStats {
    delimiter: u8,
    /// True if metrics have labels with prefixes.
    labelled: bool,
    cache: Cache,
    classes: Arc<Classes>,
    /// When the report was last requested, on the monotonic clock; 0 if never.
    requested_us: AtomicI64,
    /// True if gets and hits must be counted from 0.
    is_reset: AtomicBool,
    /// The report, which is replaced as a whole.
    report: Mutex<Arc<PrefixReport>>,
}

/// What a sampled command did, as far as prefixes count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Access {
    Other,
    Miss,
    Hit,
}

/// The thread's side of the statistics.
#[derive(Debug)]
pub(crate) struct PrefixCounter {
    stats: Arc<PrefixStats>,
    accesses: Accesses,
    census: Option<Census>,
    walk: Option<Walk>,
    next_group: u64,
    labels: Labels,
    /// When gets and hits began to be counted, and when the last report was published.
    began_us: i64,
    published_us: i64,
}

impl PrefixStats {
    /// Creates the state. A prefix ends before the first `delimiter` of a key.
    pub(crate) fn new(delimiter: u8, labelled: bool, cache: Cache, classes: Arc<Classes>) -> Self {
        Self {
            delimiter,
            labelled,
            cache,
            classes,
            requested_us: AtomicI64::new(0),
            is_reset: AtomicBool::new(false),
            report: Mutex::default(),
        }
    }

    /// Returns the last report, and requests that it stays up to date for a minute.
    pub(crate) fn report(&self) -> Arc<PrefixReport> {
        self.requested_us.store(monotonic_us().max(1), Relaxed);
        Arc::clone(&self.locked())
    }

    /// Counts gets and hits from 0.
    pub(crate) fn reset(&self) {
        self.is_reset.store(true, Relaxed);
    }

    fn is_wanted(&self, now_us: i64) -> bool {
        let requested_us = self.requested_us.load(Relaxed);
        requested_us != 0 && now_us - requested_us < WANTED_US
    }

    fn locked(&self) -> MutexGuard<'_, Arc<PrefixReport>> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PrefixCounter {
    pub(crate) fn new(stats: Arc<PrefixStats>) -> Self {
        Self {
            stats,
            accesses: Accesses::new(),
            census: None,
            walk: None,
            next_group: 0,
            labels: Labels::default(),
            began_us: monotonic_us(),
            published_us: 0,
        }
    }

    /// Counts a sample that stands for `weight` commands.
    pub(crate) fn take(&mut self, key: &[u8], access: Access, weight: u32) {
        let prefix = || prefix_of(key, self.stats.delimiter);
        match access {
            Access::Other => self.accesses.count_other(),
            Access::Miss => self.accesses.count_get(prefix(), false, weight),
            Access::Hit => self.accesses.count_get(prefix(), true, weight),
        }
    }

    /// Takes a slice of the census and publishes the report, if they are due. Called ten times a
    /// second.
    ///
    /// Cost: at most [`census::SLICE_MAX`], and once a second the merge of at most 40,000 rows.
    pub(crate) fn turn(&mut self, now_us: i64) {
        if self.stats.is_reset.swap(false, Relaxed) {
            (self.accesses, self.labels, self.began_us) =
                (Accesses::new(), Labels::default(), now_us);
        }
        if !self.stats.is_wanted(now_us) {
            self.walk = None;
            return;
        }
        let has_census = self.count_items(now_us);
        if has_census || now_us - self.published_us >= PUBLISHED_EVERY_US {
            self.publish(now_us);
        }
    }

    /// Continues the census, or begins the next one if it is due. Returns true if it is complete.
    fn count_items(&mut self, now_us: i64) -> bool {
        let PrefixStats { cache, classes, delimiter, .. } = &*self.stats;
        let is_due =
            self.census.as_ref().is_none_or(|last| now_us - last.taken_us >= CENSUS_EVERY_US);
        let mut walk = match self.walk.take() {
            Some(walk) => walk,
            None if is_due => Walk::begin(cache, self.next_group),
            None => return false,
        };
        if !walk.slice(cache, classes, *delimiter) {
            self.walk = Some(walk);
            return false;
        }
        let (census, next_group) = walk.finish(cache, now_us);
        (self.census, self.next_group) = (Some(census), next_group);
        true
    }

    fn publish(&mut self, now_us: i64) {
        self.published_us = now_us;
        let mut report = PrefixReport::merge(self.census.as_ref(), &self.accesses);
        report.counted_secs = (now_us - self.began_us) as f64 / 1e6;
        if self.stats.labelled {
            report.series = self.labels.series(&report, &self.accesses);
        }
        // The previous report is dropped after the lock is released.
        let _previous = std::mem::replace(&mut *self.stats.locked(), Arc::new(report));
    }
}

/// Returns the part of a key before the first delimiter. `None` if the key has no delimiter in its
/// first bytes, so that prefixes are short.
fn prefix_of(key: &[u8], delimiter: u8) -> Option<&[u8]> {
    let end = key.iter().take(PREFIX_BYTES_MAX + 1).position(|byte| *byte == delimiter)?;
    Some(&key[..end])
}

/// Maximum number of prefixes of a report.
pub(crate) const ROWS_MAX: usize = 10_000;

/// Maximum length of a prefix, in bytes.
const PREFIX_BYTES_MAX: usize = 100;

/// How many standard deviations an error covers.
const DEVIATIONS: f64 = 3.0;

/// How long after a request the report stays up to date.
const WANTED_US: i64 = 60_000_000;

/// The pause between two censuses.
const CENSUS_EVERY_US: i64 = 5_000_000;

const PUBLISHED_EVERY_US: i64 = 1_000_000;

#[cfg(test)]
mod tests;
