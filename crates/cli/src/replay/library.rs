//! Replays a trace on a cache of this process, in virtual time: the seconds of the trace pass as
//! fast as the requests are played.

use std::time::Duration;

use anyhow::{Context, Result};
use larder::{Cache, Clock, Counter, Epoch, StoreError};

use crate::replay::Arguments;
use crate::replay::key::Key;
use crate::replay::pace::Pace;
use crate::replay::play::{Counts, Target, play};
use crate::replay::report::{Report, ratio};
use larder_loadgen::trace::Trace;

/// Replays a trace on a new cache, in virtual time.
///
/// # Errors
/// The cache cannot be opened.
pub(crate) fn replay(trace: &Trace, arguments: &Arguments) -> Result<Report> {
    let memory_bytes = arguments.memory.context("--memory BYTES is required")?;
    let cache = Cache::builder()
        .memory_bytes(memory_bytes)
        // The default is the largest possible limit, so that a trace of large items measures
        // eviction and not the limit.
        .item_bytes_max(arguments.item_bytes_max.unwrap_or(memory_bytes / 2))
        .cas(false)
        .clock(Clock::Ticked)
        .open()?;
    let counts = play_on(&cache, trace, arguments.threads)?;
    let mut report = Report::of(&counts, trace.request_count());
    describe(&cache, trace, &mut report);
    Ok(report)
}

fn play_on(cache: &Cache, trace: &Trace, thread_count: u32) -> Result<Counts> {
    let pace = Pace::new(thread_count);
    std::thread::scope(|scope| {
        let start = |thread| {
            let (walker, mut target) = (pace.walker(thread), cache.clone());
            scope.spawn(move || play(trace, &walker, &mut target))
        };
        let threads: Vec<_> = (0..thread_count).map(start).collect();
        let mut counts = Counts::default();
        for thread in threads {
            counts += thread.join().expect("the replaying thread does not panic")?;
        }
        Ok(counts)
    })
}

impl Target for Cache {
    fn begin_second(&mut self, second: u32) {
        self.tick(Epoch::FIRST_SECOND.saturating_add(second));
        self.maintain();
    }

    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        Ok(self.get_into(key.text(), value).is_some())
    }

    fn set(&mut self, key: &Key, value: &[u8], ttl_secs: u32) -> Result<bool> {
        let ttl = (ttl_secs > 0).then(|| Duration::from_secs(u64::from(ttl_secs)));
        match Self::set(self, key.text(), value, ttl) {
            Ok(()) => Ok(true),
            Err(StoreError::TooLarge | StoreError::NoMemory) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Adds the statistics of the cache after a replay.
fn describe(cache: &Cache, trace: &Trace, report: &mut Report) {
    let sizes = cache.report();
    // Counts with a lookup of every key, because the cache's own count includes expired items.
    let (mut items, mut item_bytes, mut value) = (0u64, 0u64, Vec::new());
    for id in 0..trace.key_count() {
        value.clear();
        if let Some(meta) = cache.get_into(Key::of(id).text(), &mut value) {
            items += 1;
            item_bytes += (Key::BYTES + meta.value_bytes) as u64;
        }
    }
    let used_bytes = sizes.memory_bytes - sizes.segments_free * sizes.segment_bytes;
    let overhead = used_bytes.saturating_sub(item_bytes) as f64 / items.max(1) as f64;
    report.push("evictions", cache.counter(Counter::Evictions));
    report.push("evictions_small", cache.counter(Counter::EvictionsSmall));
    report.push("ghost_hits", cache.counter(Counter::GhostHits));
    report.push("segments_evicted", cache.counter(Counter::SegmentsEvicted));
    report.push("segments_compacted", cache.counter(Counter::SegmentsCompacted));
    report.push("segments_spent", cache.counter(Counter::SegmentsSpent));
    report.push("segments_small", sizes.segments_small);
    report.push("segments_main", sizes.segments_items - sizes.segments_small);
    report.push("items", items);
    report.push("bytes_written", cache.counter(Counter::BytesWritten));
    report.push("bytes_relocated", sizes.bytes_relocated);
    report.push("live_share", ratio(sizes.live_bytes, sizes.segments_items * sizes.segment_bytes));
    report.push("memory_bytes", sizes.memory_bytes);
    report.push("overhead_bytes_per_item", format!("{overhead:.1}"));
}
