//! The counters and measurements of a server.

pub(crate) mod threads;

use std::sync::{Arc, Mutex, PoisonError};

use larder::Cache;
use larder_options::Options;
use larder_stats::{Counter, Counters};

use crate::observe::classes::Classes;
use crate::observe::hot::HotKeys;
use crate::observe::latency::Latencies;
use crate::observe::prefix_stats::{PrefixReport, PrefixStats};
use crate::observe::prefixes::Prefixes;
use crate::observe::slow::SlowRequests;
use crate::observe::tally::ClassTally;
use threads::{Thread, ThreadCounters};

/// The counters and measurements of all threads.
#[derive(Debug)]
pub(crate) struct Statistics {
    /// Size classes for statistics and dumps.
    pub(crate) classes: Arc<Classes>,
    /// Event counters by size class.
    pub(crate) class_tally: ClassTally,
    /// Commands counted by the prefix of their key (`stats detail`).
    pub(crate) prefixes: Prefixes,
    /// The keys that are requested most.
    pub(crate) hot_keys: Arc<HotKeys>,
    /// Items, reads and hits by prefix (`stats prefixes`).
    pub(crate) prefix_stats: Arc<PrefixStats>,
    /// How long requests take.
    pub(crate) latencies: Latencies,
    /// Slow requests; `None` without `--log-slower-than`.
    pub(crate) slow: Option<SlowRequests>,
    threads: ThreadCounters,
    /// Counter values at the last `stats reset`, or at the start. Statistics show the difference to
    /// them. The counters themselves are never set back: only one thread may write each, and the
    /// counters of a cache that outlives its servers continue from server to server.
    at_reset: Mutex<[u64; Counter::COUNT]>,
}

impl Statistics {
    /// Creates the statistics of a server of this cache, with this number of threads that wait for
    /// the disk.
    pub(super) fn new(options: &Options, cache: &Cache, disk_threads: usize) -> Self {
        let origin_count = options.near.as_ref().map_or(0, |near| near.origins.len());
        let classes = Arc::new(Classes::new(&options.slabs, options.cas));
        Self {
            class_tally: ClassTally::new(&classes, options.worker_count, disk_threads),
            prefixes: Prefixes::new(options.stat_prefix_delimiter.unwrap_or(b':')),
            hot_keys: Arc::default(),
            prefix_stats: Arc::new(PrefixStats::new(
                options.prefixes.delimiter,
                options.prefixes.metrics,
                cache.clone(),
                Arc::clone(&classes),
            )),
            classes,
            latencies: Latencies::new(options.worker_count),
            slow: options.log.slower_than.map(SlowRequests::new),
            threads: ThreadCounters::new(options.worker_count, origin_count, disk_threads),
            at_reset: Mutex::new(counted_before(cache)),
        }
    }

    /// Returns the last report of [`Self::prefix_stats`]. The first call starts the sampling and
    /// the census; its report is empty.
    pub(crate) fn prefix_report(&self) -> Arc<PrefixReport> {
        self.hot_keys.enable();
        self.prefix_stats.report()
    }

    /// Returns the counters of a thread.
    pub(super) fn counters(&self, thread: Thread) -> &Arc<Counters> {
        self.threads.of(thread)
    }

    /// Returns the value of a counter since the last reset, summed over all threads and the cache.
    pub(super) fn counter(&self, cache: &Cache, counter: Counter) -> u64 {
        let at_reset = self.at_reset.lock().unwrap_or_else(PoisonError::into_inner);
        self.sum(cache, counter).wrapping_sub(at_reset[counter as usize])
    }

    /// Resets the counters that count events to 0.
    pub(super) fn reset(&self, cache: &Cache) {
        let mut at_reset = self.at_reset.lock().unwrap_or_else(PoisonError::into_inner);
        for counter in Counter::ALL.iter().filter(|counter| counter.is_reset()) {
            at_reset[*counter as usize] = self.sum(cache, *counter);
        }
        self.class_tally.reset();
    }

    /// Returns the value of a counter, summed over all threads and the cache.
    pub(super) fn sum(&self, cache: &Cache, counter: Counter) -> u64 {
        self.threads.add(counter, cache.counter(counter))
    }
}

/// Returns the initial counter values. As in memcached, items found in the cache at startup count
/// as stored.
fn counted_before(cache: &Cache) -> [u64; Counter::COUNT] {
    let mut counts = [0; Counter::COUNT];
    for counter in Counter::ALL.iter().filter(|counter| counter.is_reset()) {
        counts[*counter as usize] = cache.counter(*counter);
    }
    let items = &mut counts[Counter::ItemsTotal as usize];
    *items = items.wrapping_sub(cache.len());
    counts
}
