//! What a cache says about itself.

use larder_engine::Report;
use larder_stats::{Counter, Gauge, Section, Source};

use crate::Cache;

/// A statistic: a row of the table that docs/stats.md is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its name, the same as in the answers of `larderd`.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// What it means, with its unit.
    pub doc: &'static str,
}

/// Where a cache's memory is, in bytes, all numbers taken at about the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What the cache may take.
    pub limit: u64,
    /// What it has taken: items, index, accounts, and what is free in its segments.
    pub used: u64,
    /// What the items that can be read take.
    pub items: u64,
    /// What the index takes.
    pub index: u64,
}

/// What a server knows beside these is of no use without a server.
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

impl Cache {
    /// The statistics of the cache, by name. Those that count events count from the opening, or from
    /// [`Cache::reset_counters`]; `get_hits` and its kin count the calls of the methods in
    /// [`get`](crate::get) and [`load`](crate::load), a key each.
    ///
    /// Cost: a look at every segment's account and every thread's counters, some microseconds.
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
                Source::Counter(counter)
                    if row.section == Section::Larder || COUNTERS.contains(&counter) =>
                {
                    self.counter(counter)
                }
                Source::Gauge(gauge) => self.gauge(&report, gauge)?,
                _ => return None,
            };
            Some(Stat { name: row.name, value, doc: row.doc })
        })
    }

    /// Where the cache's memory is. Cost: as [`Cache::stats`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "v", None)?;
    /// let memory = cache.memory();
    /// assert!(memory.items < memory.used && memory.used < memory.limit);
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

    /// The gauges of a cache; none for those of a server, and for those that say in memcached's words what
    /// another one says too.
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
