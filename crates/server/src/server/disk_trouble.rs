//! Logs the faults of a disk: its failure once, damaged segments when their number grows, and
//! unreadable items at most once a minute.

use std::time::{Duration, Instant};

use larder::{Cache, TierMode};

use crate::log;
use crate::words::CountedNoun;

/// The faults that were already logged.
#[derive(Debug, Default)]
pub(crate) struct DiskTrouble {
    /// True if the failure of the disk was logged.
    has_failed: bool,
    /// When the statistics were last checked.
    looked: Option<Instant>,
    /// Number of damaged segments that reclaim has found.
    damaged: u64,
    /// Number of items that the disk did not return, and when that was last logged.
    unreadable: u64,
    unreadable_said: Option<Instant>,
}

impl DiskTrouble {
    /// Logs new faults.
    ///
    /// Cost: a load and a read of the clock; once per second the lock of the log's appender.
    pub(crate) fn look(&mut self, cache: &Cache) {
        if !self.has_failed && cache.has_tier_failed() {
            self.has_failed = true;
            report_failure(cache);
        }
        if self.looked.is_some_and(|looked| looked.elapsed() < PERIOD) {
            return;
        }
        self.looked = Some(Instant::now());
        let Some(tier) = cache.tier() else { return };
        let damaged = tier.statistics.damaged_segments;
        if damaged > self.damaged {
            self.damaged = damaged;
            report_damage(damaged, tier.statistics.lost_items, tier.mode);
        }
        let is_silent = self.unreadable_said.is_some_and(|said| said.elapsed() < SILENCE);
        if tier.unreadable > self.unreadable && !is_silent {
            (self.unreadable, self.unreadable_said) = (tier.unreadable, Some(Instant::now()));
            let items = CountedNoun(tier.unreadable, "item");
            let why = tier.trouble.unwrap_or_default();
            log::error(format_args!("larderd: the disk did not return {items} so far: {why}"));
        }
    }
}

fn report_failure(cache: &Cache) {
    let Some(tier) = cache.tier() else { return };
    let why = tier.trouble.unwrap_or_default();
    let effect = match tier.mode {
        TierMode::Store => "the server refuses changes, but still serves reads",
        TierMode::Cache => {
            "no more items are written to the disk, and the cache continues in \
                            memory"
        }
    };
    log::error(format_args!(
        "larderd: the disk has failed: {why}; {effect}; repair the disk and start the server again",
    ));
}

fn report_damage(segments: u64, lost: u64, mode: TierMode) {
    let segments = CountedNoun(segments, "segment");
    match mode {
        TierMode::Store => log::error(format_args!(
            "larderd: the disk is damaged in {segments}; {} lost, whose reads fail until they are \
             set or deleted; look for errors of the device in the kernel's log",
            CountedNoun(lost, "item")
        )),
        TierMode::Cache => log::warn(format_args!(
            "larderd: the disk is damaged in {segments}, whose items are misses now; look for \
             errors of the device in the kernel's log",
        )),
    }
}

/// How often the statistics are checked.
const PERIOD: Duration = Duration::from_secs(1);

/// How long the log stays silent after a line about items that were not returned.
const SILENCE: Duration = Duration::from_secs(60);
