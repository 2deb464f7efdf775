//! The statistics of a cache.

use larder_engine::Report;
use larder_stats::{Condition, Counter, Gauge, Section, Source};

use crate::api::cache::Cache;
use crate::tier::TierMode;
use crate::tier::ticket::TierStatus;

/// A statistic: one row of the table from which docs/stats.md is generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The name, as in the `stats` replies of `larderd`.
    pub name: &'static str,
    /// The value.
    pub value: u64,
    /// The meaning and the unit.
    pub doc: &'static str,
}

/// The memory of a cache, in bytes. All numbers are from about the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The memory limit.
    pub limit: u64,
    /// Memory in use: items, index, bookkeeping, and free space inside segments.
    pub used: u64,
    /// Memory of the live items.
    pub items: u64,
    /// Memory of the index.
    pub index: u64,
}

/// The counters that are meaningful without a server.
const COUNTERS: &[Counter] = &[
    Counter::GetHits,
    Counter::GetMisses,
    Counter::GetExpired,
    Counter::GetFlushed,
    Counter::StoreTooLarge,
    Counter::StoreNoMemory,
    Counter::ItemsTotal,
    Counter::ExpiredUnfetched,
    Counter::EvictedUnfetched,
    Counter::EvictedActive,
    Counter::Evictions,
    Counter::Reclaimed,
    Counter::CrawlerReclaimed,
];

/// The counters of `stats larder` that only a server has, or that `stats` already shows.
const NOT_OF_LIBRARY: &[Counter] = &[
    Counter::GetExpired,
    Counter::GetFlushed,
    Counter::AuthErrors,
    Counter::AdminAuthFailures,
    Counter::NotPermitted,
    Counter::RateLimited,
    Counter::UsersReloadFailures,
    Counter::TlsHandshakes,
    Counter::CertificateReloadFailures,
    Counter::SslHandshakeErrors,
    Counter::HotKeysSampled,
    Counter::HotKeysLost,
    Counter::SlowRequests,
    Counter::MemoryLowered,
    Counter::FollowerChanges,
    Counter::FollowerFlushes,
    Counter::FollowerOverflows,
    Counter::FollowerFetches,
    Counter::FollowerFetchesUnnoted,
    Counter::NearAhead,
    Counter::NearJoined,
    Counter::NearFetches,
    Counter::NearKept,
    Counter::NearAbsentHits,
    Counter::NearPassed,
    Counter::NearUnreachable,
    Counter::NearUnanswered,
    Counter::NearChanges,
    Counter::NearDropped,
    Counter::NearFlushes,
    Counter::NearStreamsLost,
    Counter::NearRefusedDetached,
    Counter::NearRefusedUnsubscribed,
    Counter::NearRefusedUnnoted,
    Counter::NearRefusedExpiring,
    Counter::NearRefusedUncopied,
    Counter::NearRefusedNoMemory,
    Counter::WeightsReloadFailures,
    Counter::NearFetchedBytes,
    Counter::ClusterRequests,
    Counter::ClusterChanges,
    Counter::ClusterFailures,
];

/// True if a statistic has a value without a server. Each statistic is in one section.
fn is_of_library(section: Section, counter: Counter) -> bool {
    match section {
        Section::Larder => !NOT_OF_LIBRARY.contains(&counter),
        _ => COUNTERS.contains(&counter),
    }
}

impl Cache {
    /// Returns the statistics of the cache. Counters of events start at 0 when the cache is opened,
    /// and again at [`Cache::reset_counters`]. `get_hits` and related counters count the calls of
    /// the methods in [`get`](crate::get) and [`load`](crate::load), one per key.
    ///
    /// Cost: reads the counters of every segment and every thread: some microseconds.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "v", None)?;
    /// cache.get("k");
    /// cache.get("missing");
    /// let stat = |name| cache.stats().find(|stat| stat.name == name).map(|stat| stat.value);
    /// assert_eq!((stat("get_hits"), stat("get_misses"), stat("curr_items")), (Some(1), Some(1), Some(1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> impl Iterator<Item = Stat> {
        let report = self.report();
        let rows = Section::General.rows().chain(Section::Larder.rows());
        rows.filter_map(move |row| {
            let value = match row.source {
                Source::Counter(counter) if is_of_library(row.section, counter) => {
                    self.counter(counter)
                }
                Source::Gauge(gauge) => self.gauge(&report, gauge)?,
                Source::TierGauge(gauge) if row.section == Section::Larder => {
                    let is_of_store = row.conditions.contains(&Condition::TierStore);
                    let is_shown = |tier: &TierStatus| !is_of_store || tier.mode == TierMode::Store;
                    self.tier().filter(is_shown)?.gauge(gauge)
                }
                _ => return None,
            };
            Some(Stat { name: row.name, value, doc: row.doc })
        })
    }

    /// Returns how the cache's memory is used. Cost: same as [`Cache::stats`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "v", None)?;
    /// let memory = cache.memory();
    /// assert!(memory.items < memory.used);
    /// assert!(memory.used < memory.limit);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn memory(&self) -> Memory {
        let report = self.report();
        Memory {
            limit: self.memory_limit(),
            used: report.memory_bytes - report.segments_free * report.segment_bytes,
            items: report.live_bytes,
            index: report.index_bytes,
        }
    }

    /// Returns a gauge of the cache. `None` for gauges of a server, and for memcached's aliases of
    /// values that another gauge already reports.
    fn gauge(&self, report: &Report, gauge: Gauge) -> Option<u64> {
        Some(match gauge {
            Gauge::MemoryBytesMax => self.memory_limit(),
            Gauge::BytesLive => report.live_bytes,
            Gauge::ItemsCurrent => report.items,
            Gauge::IndexBytes => report.index_bytes,
            Gauge::SegmentsFree => report.segments_free,
            Gauge::SegmentBytes => report.segment_bytes,
            Gauge::SegmentCount => report.segments,
            Gauge::SegmentsIndex => report.segments_index,
            Gauge::SegmentsItems => report.segments_items,
            Gauge::SegmentsSmall => report.segments_small,
            Gauge::SegmentsGhost => report.segments_ghost,
            Gauge::SegmentsPinned => report.segments_pinned,
            Gauge::LivePercent => report.live_percent(),
            Gauge::EvictionAgeSecs => report.eviction_age_secs,
            Gauge::GroupCount => report.groups,
            Gauge::GroupOverflowCount => report.overflow_groups,
            _ => return None,
        })
    }
}
